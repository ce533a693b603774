//! The status line on the screen of the interactive program.

use becket_tests::claude::Scope;
use becket_tests::model::say;
use becket_tests::story::{Becket, story};
use serde_json::json;

#[test]
fn the_status_line_is_on_the_screen_and_the_one_before_it_too() {
    story(|given| {
        let story = given
            .on("hello", [say("hello yourself").usage(50_000, 500)])
            .settings(
                Scope::User,
                json!({"statusLine": {"type": "command", "command": "echo my own line"}}),
            )
            .registered(Becket::default().init(&["--statusline"]))
            .begin()?;
        let person = story.person()?;

        person.wait_text("my own line");
        person.submits("hello");
        person.wait_text("hello yourself");
        story.wait_event("Stop");
        let screen = person.wait_for("the context and the cost", |screen| {
            let lines = screen.0.lines();
            lines.clone().any(|line| line.contains("% · $")) && screen.contains("my own line")
        });
        assert!(screen.contains("project · "), "{}", screen.0);
        assert!(!screen.contains("⚠"), "{}", screen.0);
        person.leaves();
        Ok(())
    });
}
