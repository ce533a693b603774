//! Versions for which becket comes too late: they are not disturbed.

use becket_tests::model::{bash, say};
use becket_tests::story::{Becket, TOLERANT, story};

#[test]
fn a_version_that_cannot_hear_becket_goes_on_as_before() {
    story(|given| {
        let story = given
            .on("say hi", [bash("echo hi there"), say("all done")])
            .registered(Becket::default().even_where_deaf())
            .begin()?;

        let run = story.print("say hi").run();

        assert_eq!(run.succeeded().text(), "all done");
        assert_eq!(story.model.turns()[1].tool_results()[0].text, "hi there");
        let heard = !story.events().is_empty();
        assert_eq!(heard, story.claude.is_at_least(TOLERANT));
        Ok(())
    });
}
