//! The live view in a terminal of its own, beside the real program.

use std::ffi::OsString;

use becket_tests::model::{bash, gate, say};
use becket_tests::skip::Unavailable;
use becket_tests::story::{Story, story};
use becket_tests::terminal::Terminal;

use super::is_done;

/// `becket` without a verb.
fn view(story: &Story) -> Result<Terminal, Unavailable> {
    let world = story.becket();
    let command = [OsString::from(world.programs.join("becket"))];
    let env = [
        ("HOME", world.home.display().to_string()),
        ("BECKET_HOME", world.becket_home.display().to_string()),
        ("PATH", "/usr/local/bin:/usr/bin:/bin".to_owned()),
        ("LANG", "C.UTF-8".to_owned()),
        ("TERM", "tmux-256color".to_owned()),
    ];
    let env = env.map(|(name, value)| (name.to_owned(), value));
    Terminal::start(&command, &env, &world.home, (120, 30))
}

#[test]
fn the_view_shows_who_waits_for_what() {
    story(|given| {
        let story = given
            .on(
                "touch it",
                [bash("touch made.txt"), gate("word").then(say("made"))],
            )
            .begin()?;
        let person = story.person()?;
        let view = view(&story)?;

        view.wait_text("project");
        person.submits("touch it");
        person.wait_text("❯ 1.");
        let screen = view.wait_text("Permission for Bash");
        assert!(screen.contains("◆"), "{}", screen.0);
        assert!(screen.contains("touch it"), "{}", screen.0);
        person.chooses(1);
        story.model.wait_at("word");
        let screen = view.wait_for("work", |screen| !screen.contains("Permission for Bash"));
        assert!(screen.contains("Thinking"), "{}", screen.0);
        story.model.open("word");
        story.wait_session("done", is_done);
        view.wait_for("the end of the work", |screen| !screen.contains("Thinking"));
        person.leaves();
        view.wait_for("nobody", |screen| !screen.contains("touch it"));
        view.press("q");
        assert_eq!(view.wait_end(), 0);
        Ok(())
    });
}
