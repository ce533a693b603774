//! A hook switched off in one session by what its person types, and on again.

use std::fs;

use becket_tests::model::{say, write};
use becket_tests::skip::Unavailable;
use becket_tests::story::{Becket, Given, Person, Recorder, Registration, Story, story};
use becket_tests::wait::{self, PATIENCE};

use super::commands::{Plugin, SINCE, plugin};

const DISABLED: &str = "🔒 Disabled typecheck-changed for this session";
const ENABLED: &str = "✅ Re-enabled typecheck-changed for this session";

/// The built-in, with a checker that only leaves a mark.
const TYPECHECK: &str = r#"
[hooks.typecheck-changed]
command = "echo checked >> checked"
"#;

fn given(given: Given, becket: impl Registration + 'static) -> Given {
    given
        .registered(becket)
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
    // Not every version overwrites what this session has not read.
    let _ = fs::remove_file(story.home.project().join("it.ts"));
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
    let sessions = story.sessions();
    let all_rest = sessions.iter().all(|session| session.status() == "idle");
    assert!(all_rest, "work after {command}: {sessions:?}");
}

/// Off in one session, on in another, off after `/clear`, and on again.
fn a_day_with_switches(story: &Story, args: &[&str], hook: &str) -> Result<(), Unavailable> {
    let args = [&["--permission-mode", "acceptEdits"], args].concat();
    let person = story.person_with(&args)?;
    writes(story, &person);
    assert_eq!(checks(story), 1, "on at first");

    switches(
        story,
        &person,
        &format!("{hook}disable typecheck"),
        DISABLED,
    );
    writes(story, &person);
    assert_eq!(checks(story), 1, "off");

    let other = story.person_with(&args)?;
    writes(story, &other);
    assert_eq!(checks(story), 2, "on in another session");
    other.leaves();

    person.submits("/clear");
    person.ready();
    writes(story, &person);
    assert_eq!(checks(story), 2, "off after /clear");

    switches(story, &person, &format!("{hook}enable typecheck"), ENABLED);
    writes(story, &person);
    assert_eq!(checks(story), 3, "on again");
    person.leaves();
    Ok(())
}

#[test]
fn a_hook_is_off_in_this_session_alone_and_stays_so_after_clear() {
    story(|story| {
        let story = given(story, Becket::default().config(TYPECHECK))
            .needs(&["CLAUDE_PID"])
            .begin()?;
        a_day_with_switches(&story, &[], "/hook:")
    });
}

/// Told of versions too that do not say which session goes on from which.
#[test]
fn a_hook_is_off_when_its_person_says_so_and_on_again() {
    story(|story| {
        let story = given(story, Becket::default().config(TYPECHECK)).begin()?;
        let person = story.person_with(&["--permission-mode", "acceptEdits"])?;
        switches(&story, &person, "/hook:disable typecheck", DISABLED);
        writes(&story, &person);
        assert_eq!(checks(&story), 0, "off");
        switches(&story, &person, "/hook:enable typecheck", ENABLED);
        writes(&story, &person);
        assert_eq!(checks(&story), 1, "on again");
        person.leaves();
        Ok(())
    });
}

#[test]
fn and_so_it_is_with_the_plugin_alone() {
    story(|story| {
        let story = given(story, Plugin::default())
            .since(SINCE.0, SINCE.1)
            .begin()?;
        let becket = story.becket();
        fs::create_dir_all(&becket.becket_home).expect("a home");
        fs::write(becket.path("config.toml"), TYPECHECK).expect("a config");
        let mut trust = becket.becket(["trust", "--yes"]);
        let trusted = trust.current_dir(story.home.project()).output();
        assert!(trusted.expect("becket").status.success());
        let folder = plugin();
        let folder = folder.to_str().expect("a path");
        a_day_with_switches(&story, &["--plugin-dir", folder], "/becket:hook:")
    });
}

#[test]
fn a_fork_begins_with_a_copy_and_a_resumed_session_keeps_its_own() {
    story(|story| {
        let story = given(story, Becket::default().config(TYPECHECK))
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
