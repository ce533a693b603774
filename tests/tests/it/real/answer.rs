//! Dialogs of Claude Code in a terminal, answered through becket while they are on the screen.

use std::time::{Duration, Instant};

use becket_tests::claude::SettingsScope;
use becket_tests::model::{bash, say, tool};
use becket_tests::story::{Becket, Person, Story, story};
use becket_tests::wait::{self, PATIENCE};
use rustix::process::Signal;
use serde_json::{Value, json};

/// The two modes in which Claude Code runs a program only after a question, and a guard that asks in every mode.
const MODES: [&str; 3] = ["default", "auto", "bypassPermissions"];

const GUARD: &str =
    "[guards.g-ask]\npatterns = [\"by-guard\"]\nanswer = \"ask\"\nreason = \"REASON\"\n";

fn makes(file: &str) -> String {
    format!("python3 -c 'open(\"{file}\", \"w\")'")
}

/// Waits for the open question, and returns it.
#[track_caller]
fn asked(story: &Story) -> Value {
    let open = || {
        let rows: Vec<Value> =
            serde_json::from_str(&story.becket().run(&["answer", "--json"])).ok()?;
        rows.into_iter().next()
    };
    wait::until(PATIENCE, open).expect("a question")
}

/// Waits until nothing is asked any more.
#[track_caller]
fn nothing_is_asked(story: &Story) {
    let over = || (story.becket().run(&["answer", "--json"]).trim() == "[]").then_some(());
    wait::until(PATIENCE, over).expect("the question is over");
}

/// Answers the question that is on the screen.
#[track_caller]
fn answers(person: &Person<'_>, words: &[&str], then: &str) {
    person.wait_text("❯ 1.");
    let id = asked(person.story())["id"].to_string();
    let mut args = vec!["answer", &*id];
    args.extend(words);
    person.story().becket().run(&args);
    person.wait_text(then);
    person.ready();
    nothing_is_asked(person.story());
}

fn exists(story: &Story, file: &str) -> bool {
    story.home.project().join(file).exists()
}

#[test]
fn a_guards_question_is_answered_from_the_command_line_in_each_mode() {
    for mode in MODES {
        story(|given| {
            let story = given
                .since("2.1.325", "the dialog of a hook in auto mode")
                .settings(
                    SettingsScope::Local,
                    json!({"skipDangerousModePermissionPrompt": true}),
                )
                .file(".git/HEAD", "ref: refs/heads/main\n")
                .registered(Becket::default().config(GUARD))
                .on("try it", [bash(&makes("by-guard-1")), say("it was made")])
                .on(
                    "try again",
                    [bash(&makes("by-guard-2")), say("it was refused")],
                )
                .begin()?;
            let person = story.person_with(&["--permission-mode", mode])?;
            person.submits("try it");
            person.wait_text("❯ 1.");
            assert_eq!(asked(&story)["reason"], "REASON", "{mode}");
            answers(&person, &["yes"], "it was made");
            assert!(exists(&story, "by-guard-1"), "{mode}");
            person.submits("try again");
            answers(&person, &["no", "--reason", "not now"], "it was refused");
            assert!(!exists(&story, "by-guard-2"), "{mode}");
            person.leaves();
            let by: Vec<Value> = story
                .becket()
                .events()
                .iter()
                .filter(|event| event["event"] == "PermissionRequest")
                .map(|event| event["decision"]["by"].clone())
                .collect();
            assert_eq!(by, ["person:command"; 2], "{mode}");
            let told = story
                .model
                .turns()
                .iter()
                .any(|request| request.contains("not now"));
            assert!(told, "{mode}: Claude got the reason");
            Ok(())
        });
    }
}

#[test]
fn always_allows_such_calls_from_then_on() {
    story(|given| {
        let command = "python3 -c 'print(1)'";
        let story = given
            .registered(Becket::default())
            .on("try it", [bash(command), say("it ran once")])
            .on("try again", [bash(command), say("it ran twice")])
            .begin()?;
        let person = story.person_with(&["--permission-mode", "default"])?;
        person.submits("try it");
        answers(&person, &["always"], "it ran once");
        person.submits("try again");
        person.wait_text("it ran twice");
        person.ready();
        person.leaves();
        Ok(())
    });
}

#[test]
fn a_question_of_claude_is_answered_with_an_option_and_with_a_text() {
    story(|given| {
        let question = || {
            json!({"questions": [{"question": "Which colour?", "header": "Colour", "multiSelect": false,
                "options": [{"label": "Red", "description": "loud"}, {"label": "Blue", "description": "calm"}]}]})
        };
        let story = given
            .since("2.1.325", "an answer to AskUserQuestion")
            .registered(Becket::default())
            .on(
                "ask me",
                [tool("AskUserQuestion", question()), say("blue it is")],
            )
            .on(
                "ask again",
                [tool("AskUserQuestion", question()), say("green it is")],
            )
            .begin()?;
        let person = story.person_with(&["--permission-mode", "default"])?;
        person.submits("ask me");
        answers(&person, &["--choose", "Blue"], "blue it is");
        person.submits("ask again");
        answers(&person, &["--text", "a green one"], "green it is");
        person.leaves();
        let told = |text: &str| {
            story
                .model
                .turns()
                .iter()
                .any(|request| request.contains(text))
        };
        assert!(told("Blue") && told("a green one"));
        Ok(())
    });
}

#[test]
fn the_terminal_answers_first() {
    story(|given| {
        let call = |file: &str| bash(&makes(file));
        let story = given
            .registered(Becket::default())
            .on("try it", [call("one"), say("it was made")])
            .on("try again", [call("two"), say("it was refused")])
            .begin()?;
        let person = story.person_with(&["--permission-mode", "default"])?;
        person.submits("try it");
        person.wait_text("❯ 1.");
        let id = asked(&story)["id"].to_string();
        person.chooses(1);
        person.wait_text("it was made");
        person.ready();
        nothing_is_asked(&story);
        let late = story.becket().output(&["answer", &id, "no"]);
        assert!(!late.status.success(), "{late:?}");
        assert!(exists(&story, "one"));

        person.submits("try again");
        person.wait_text("❯ 1.");
        asked(&story);
        person.refuses();
        nothing_is_asked(&story);
        assert!(!exists(&story, "two"));
        person.ready();
        person.leaves();
        Ok(())
    });
}

#[test]
fn the_dialog_stays_when_the_daemon_is_killed() {
    story(|given| {
        let story = given
            .registered(Becket::default())
            .on("try it", [bash(&makes("one")), say("it was made")])
            .begin()?;
        let person = story.person_with(&["--permission-mode", "default"])?;
        person.submits("try it");
        person.wait_text("❯ 1.");
        asked(&story);
        story.becket().signal_daemon(Signal::KILL);
        // The dialog takes the answer as if becket had never held it.
        person.chooses(1);
        person.wait_text("it was made");
        person.ready();
        person.leaves();
        assert!(exists(&story, "one"));
        Ok(())
    });
}

/// A little more than the time that Claude Code gives a hook by default.
const BEYOND_THE_LIMIT: Duration = Duration::from_secs(11 * 60);

#[test]
#[ignore = "takes eleven minutes: Claude Code's own time limit for a hook is ten"]
fn a_dialog_is_answered_after_eleven_minutes() {
    story(|given| {
        let story = given
            .registered(Becket::default())
            .on("try it", [bash(&makes("one")), say("it was made")])
            .begin()?;
        let person = story.person_with(&["--permission-mode", "default"])?;
        person.submits("try it");
        person.wait_text("❯ 1.");
        asked(&story);
        let asked_at = Instant::now();
        let is_late = || (asked_at.elapsed() > BEYOND_THE_LIMIT).then_some(());
        wait::until(2 * BEYOND_THE_LIMIT, is_late);
        answers(&person, &["yes"], "it was made");
        person.leaves();
        assert!(exists(&story, "one"));
        Ok(())
    });
}
