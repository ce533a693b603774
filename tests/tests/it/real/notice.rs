//! Notices and the status line in the terminal of the interactive program.

use std::fs;

use becket_tests::claude::SettingsScope;
use becket_tests::model::{bash, say, tool};
use becket_tests::skip::Unavailable;
use becket_tests::story::{Becket, Given, Person, Story, program, story};
use becket_tests::wait::{self, PATIENCE};
use serde_json::json;

/// The first version that shows a hook's terminal sequence.
const SHOWN_SINCE: &str = "2.1.197";

/// Starts a story with this `[notice]` config.
fn begin_with_notice(given: Given, notice: &str) -> Result<Story, Unavailable> {
    let becket = Becket::default();
    fs::create_dir_all(&becket.world.becket_home).expect("a home");
    let config = becket.world.path("config.toml");
    fs::write(config, format!("[notice]\n{notice}\n")).expect("a config");
    given
        .since(SHOWN_SINCE, "terminalSequence")
        .registered(becket)
        .begin()
}

/// Waits until the program has sent this sequence to its terminal, and returns all output so far.
fn wait_sequence(story: &Story, person: &Person<'_>, sequence: &str) -> String {
    let file = story.home.root().join("sent");
    let sent = || String::from_utf8_lossy(&fs::read(&file).unwrap_or_default()).into_owned();
    let heard = wait::until(PATIENCE, || {
        Some(sent()).filter(|all| all.contains(sequence))
    });
    heard.unwrap_or_else(|| panic!("never heard {sequence:?}:\n{}", person.screen().0))
}

fn listens(story: &Story, person: &Person<'_>) {
    person.record(&story.home.root().join("sent"));
}

#[test]
fn a_dialog_sends_a_notice_and_still_asks() {
    story(|given| {
        let given = given.on("touch it", [bash("touch made.txt"), say("it is made")]);
        let story = begin_with_notice(given, "on = \"attention\"\nhow = \"osc9\"")?;
        let person = story.person()?;
        listens(&story, &person);

        person.submits("touch it");
        person.wait_text("❯ 1.");
        wait_sequence(
            &story,
            &person,
            "]9;Claude Code in project is waiting for you: wants to run: touch made.txt\u{7}",
        );
        assert!(
            !story.home.project().join("made.txt").exists(),
            "it was allowed"
        );
        person.chooses(1);
        person.wait_text("it is made");
        story.wait_event("Stop");
        person.ready();
        person.leaves();
        Ok(())
    });
}

#[test]
fn the_end_of_long_work_sends_a_notice() {
    story(|given| {
        let given = given.on("be quick", [say("that was quick")]);
        let story = begin_with_notice(given, "on = \"done\"\nhow = \"osc777\"\nafter = \"0s\"")?;
        let person = story.person()?;
        listens(&story, &person);

        person.submits("be quick");
        person.wait_text("that was quick");
        // The duration is not compared, since the machine may be busy.
        wait_sequence(
            &story,
            &person,
            "]777;notify;Claude Code in project;is done after ",
        );
        person.ready();
        person.leaves();
        assert_eq!(story.events().of("Stop").len(), 1);
        assert_eq!(story.model.turns().len(), 1, "the turn went on");
        Ok(())
    });
}

#[test]
fn questions_of_a_tool_and_of_a_server_send_notices() {
    story(|given| {
        let question = json!({"questions": [{
            "question": "Which colour?", "header": "Colour", "multiSelect": false,
            "options": [{"label": "red", "description": "r"}, {"label": "blue", "description": "b"}],
        }]});
        let given = given
            .on(
                "which one",
                [tool("AskUserQuestion", question), say("red it is")],
            )
            .on("ask me", [tool("mcp__asker__ask", json!({})), say("asked")]);
        let story = begin_with_notice(given, "on = \"attention\"\nhow = \"osc9\"")?;
        let servers = json!({"mcpServers": {"asker": {"command": program("becket-asker")}}});
        let person = story.person_with(&[
            "--mcp-config",
            &servers.to_string(),
            "--allowedTools",
            "mcp__asker__ask",
        ])?;
        listens(&story, &person);

        person.submits("which one");
        person.wait_text("Which colour?");
        wait_sequence(
            &story,
            &person,
            "]9;Claude Code in project is waiting for you: Which colour?\u{7}",
        );
        person.chooses(1);
        person.wait_text("red it is");
        person.ready();
        person.submits("ask me");
        person.wait_text("What is your name");
        wait_sequence(
            &story,
            &person,
            "]9;Claude Code in project is waiting for you: asker asks: What is your name?\u{7}",
        );
        Ok(())
    });
}

#[test]
fn the_status_line_and_the_users_own_are_on_the_screen() {
    story(|given| {
        let story = given
            .on("hello", [say("hello yourself").usage(50_000, 500)])
            .settings(
                SettingsScope::User,
                json!({"statusLine": {"type": "command", "command": "echo x >> ran; echo my own line"}}),
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
        // Nothing happens in this session, and its line shows another session that waits.
        let asks = json!({"tool_name": "Bash", "tool_input": {"command": "make"}});
        let another_waits = |id: &str, shown: &str| {
            story.becket().tell(id, "PermissionRequest", &asks);
            person.wait_text(shown);
            fs::read_to_string(story.home.project().join("ran")).expect("it ran")
        };
        let ran = another_waits("aaaa0001", "1 waiting");
        assert_eq!(
            another_waits("aaaa0002", "2 waiting"),
            ran,
            "it ran for a refresh"
        );
        assert!(person.screen().contains("my own line"));
        person.leaves();
        Ok(())
    });
}
