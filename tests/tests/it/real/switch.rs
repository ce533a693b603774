//! A hook switched off in one session by what its person types, and on again.

use std::fs;

use becket_tests::model::{say, write};
use becket_tests::story::{Becket, Given, Person, Recorder, Story, story};
use becket_tests::wait::{self, PATIENCE};

const DISABLED: &str = "🔒 Disabled typecheck-changed for this session";
const ENABLED: &str = "✅ Re-enabled typecheck-changed for this session";

/// The built-in, with a checker that only leaves a mark.
const TYPECHECK: &str = r#"
[hooks.typecheck-changed]
command = "echo checked >> checked"
"#;

fn given(given: Given) -> Given {
    given
        .registered(Becket::default().config(TYPECHECK))
        .registered(Recorder::witness())
        .file(".git/HEAD", "ref: refs/heads/main\n")
        .file("tsconfig.json", "{}\n")
        .file("package.json", "{}\n")
        .rule(
            becket_tests::model::Rule::on("write it")
                .turns([write("it.ts", "export const it = 1;\n"), say("written")]),
        )
}

fn checks(story: &Story) -> usize {
    let marks = fs::read_to_string(story.home.project().join("checked"));
    marks.unwrap_or_default().lines().count()
}

/// The model is asked to write a file, and does so.
#[track_caller]
fn writes(story: &Story, person: &Person<'_>) {
    let stops = || story.events().of("Stop").len();
    let before = stops();
    person.submits("write it");
    let stopped = wait::until(PATIENCE, || (stops() > before).then_some(()));
    assert!(
        stopped.is_some(),
        "the turn never ended:\n{}",
        person.screen().0
    );
    person.ready();
}

/// Types a slash command, and reads the line that it brings. No model is asked.
#[track_caller]
fn switches(story: &Story, person: &Person<'_>, command: &str, line: &str) {
    let before = story.model.requests().len();
    person.type_text(command);
    person.wait_text(command);
    person.press("Enter");
    person.wait_text(line);
    person.ready();
    assert_eq!(
        story.model.requests().len(),
        before,
        "a request for {command}"
    );
}

#[test]
fn a_hook_is_off_in_this_session_alone_and_stays_so_after_clear() {
    story(|story| {
        let story = given(story).begin()?;
        let args = ["--permission-mode", "acceptEdits"];
        let person = story.person_with(&args)?;
        writes(&story, &person);
        assert_eq!(checks(&story), 1, "on at first");

        switches(&story, &person, "/hook:disable typecheck", DISABLED);
        writes(&story, &person);
        assert_eq!(checks(&story), 1, "off");

        let other = story.person_with(&args)?;
        writes(&story, &other);
        assert_eq!(checks(&story), 2, "on in another session");
        other.leaves();

        person.submits("/clear");
        person.ready();
        writes(&story, &person);
        assert_eq!(checks(&story), 2, "off after /clear");

        switches(&story, &person, "/hook:enable typecheck", ENABLED);
        writes(&story, &person);
        assert_eq!(checks(&story), 3, "on again");
        person.leaves();
        Ok(())
    });
}

#[test]
fn a_fork_begins_with_a_copy_and_a_resumed_session_keeps_its_own() {
    story(|story| {
        let story = given(story)
            .on("first thing", [say("one")])
            .since("2.1.260", "a fork that is told of")
            .begin()?;
        let first = story.print("first thing").run().succeeded().session();
        let print = |prompt: &str| story.print(prompt).mode("acceptEdits").resume(&first);
        print("/hook:disable typecheck").run();
        assert!(
            !story
                .model
                .turns()
                .iter()
                .any(|turn| turn.contains("/hook:disable"))
        );

        let resumed = print("write it").run().succeeded().session();
        assert_eq!(resumed, first);
        assert_eq!(checks(&story), 0, "off in the session that is resumed");
        let forked = print("write it").fork().run().succeeded().session();
        assert_ne!(forked, first);
        assert_eq!(checks(&story), 0, "off in the fork");
        story
            .print("write it")
            .mode("acceptEdits")
            .run()
            .succeeded();
        assert_eq!(checks(&story), 1, "on in a new one");
        Ok(())
    });
}
