//! Permission dialogs and other questions at the terminal: shown at once, and gone when answered.

use std::ffi::OsString;
use std::path::Path;
use std::time::Instant;

use becket_tests::claude::SettingsScope;
use becket_tests::model::{Turn, bash, gate, say, tool, tools};
use becket_tests::skip::Unavailable;
use becket_tests::story::{Hook, Person, Session, Story, now_ms, program, story};
use becket_tests::terminal::Terminal;
use serde_json::json;

use super::{SOON, finish_turn, is, is_done, think_and_finish};

/// The longest delay of a dialog, in milliseconds, on an idle machine.
const AT_ONCE: i64 = 200;
/// The longest delay of a dialog on a busy machine, in milliseconds: the Notification comes after six
/// seconds.
const BEFORE_THE_NOTIFICATION: i64 = 3000;

const ASKED: &str = "attention(Permission for Bash)";

#[track_caller]
fn assert_asks_for_bash(session: &Session) {
    assert_eq!(session.status(), ASKED);
    assert_eq!(session.display(), "attention");
    assert_eq!(session["waiting_for"], "main");
    assert_eq!(session["waiting_reason"], "Permission for Bash");
    assert_eq!(session["display_since"], session["status_since"]);
    assert_eq!(session["inferred"], false);
}

/// Returns the milliseconds from a new dialog to the end of `becket wait --for attention`.
fn dialog_delay(person: &Person<'_>, id: &str, prompt: &str) -> i64 {
    let story = person.story();
    let waiting = story.waits(id, "attention");
    person.submits(prompt);
    person.wait_text("❯ 1.");
    let dialog = now_ms();
    let (session, learned) = waiting.wait();
    assert_asks_for_bash(&session);
    let since = session.at("status_since");
    println!(
        "{:+} ms said, {:+} ms learned from the dialog on the screen",
        since - dialog,
        learned - dialog
    );
    let late = since - dialog;
    assert!(late < BEFORE_THE_NOTIFICATION, "since {late} ms");
    learned - dialog
}

#[test]
fn a_permission_dialog_is_waiting_at_once_and_working_when_allowed() {
    story(|given| {
        let story = given
            .on(
                "touch it",
                [bash("touch made.txt"), gate("word").then(say("made"))],
            )
            .begin()?;
        let person = story.person()?;
        let id = story.wait_session("there", |_| true).id().to_owned();

        dialog_delay(&person, &id, "touch it");
        let idle = story.waits(&id, "idle");
        person.chooses(1);
        story.model.wait_at("word");
        let working = story.wait_session("at work", is("working(Thinking)", false));
        assert_eq!(working.display(), "working");
        assert!(working["waiting_for"].is_null());
        story.model.open("word");
        let (done, _) = idle.wait();
        assert!(is_done(&done), "{done:?}");
        assert_eq!(done["interrupted"], false);
        person.leaves();
        Ok(())
    });
}

#[test]
fn a_dialog_is_noticed_within_200_ms() {
    story(|given| {
        let tries = ["touch one", "touch two", "touch three"];
        let given = tries.iter().fold(given, |given, prompt| {
            given.on(prompt, [bash(&prompt.replace(' ', " made-")), say("made")])
        });
        let story = given.begin()?;
        let person = story.person()?;
        let id = story.wait_session("there", |_| true).id().to_owned();

        // Other work of the machine may delay one of them.
        let quick = tries.iter().any(|prompt| {
            let took = dialog_delay(&person, &id, prompt);
            person.refuses();
            story.wait_session("done", is_done);
            took <= AT_ONCE
        });
        person.leaves();
        assert!(quick, "no dialog was noticed within {AT_ONCE} ms");
        Ok(())
    });
}

/// While the call runs, no event reports that the person has answered.
#[test]
fn an_allowed_permission_is_noticed_while_the_call_runs() {
    story(|given| {
        let run = bash("touch made.txt; until [ -e go ]; do sleep 0.1; done");
        let story = given
            .on("touch it", [run, say("made")])
            .needs(&["CLAUDE_PID"])
            .begin()?;
        let person = story.person()?;

        person.submits("touch it");
        story.wait_session("waiting", |session| session.status() == ASKED);
        person.chooses(1);
        let answered = Instant::now();
        let session =
            story.wait_session_within((answered, SOON), "at work", is("working(Bash)", true));
        assert_eq!(session.display(), "working");
        assert_eq!(session["interrupted"], false);
        story.home.file("go", "");
        story.wait_session("done", |session| {
            is_done(session) && is("idle", false)(session)
        });
        person.leaves();
        Ok(())
    });
}

#[test]
fn a_refused_permission_ends_the_turn() {
    story(|given| {
        let story = given
            .on("touch it", [bash("touch made.txt"), say("made")])
            .on("touch that", [bash("touch that.txt"), say("made")])
            .on("never mind", [gate("word").then(say("all right"))])
            .begin()?;
        let person = story.person()?;

        for (prompt, by_esc) in [("touch it", true), ("touch that", false)] {
            person.submits(prompt);
            story.wait_session("waiting", |session| session.status() == ASKED);
            let screen = person.wait_text("❯ 1.");
            let no = screen
                .0
                .lines()
                .find_map(|line| line.trim().strip_suffix(". No"));
            let no = no.and_then(|number| number.parse().ok());
            match no {
                Some(no) if !by_esc => person.chooses(no),
                None if !by_esc => panic!("no way to say no:\n{}", screen.0),
                _ => person.refuses(),
            }
            let refused = Instant::now();
            let session = story.wait_session_within((refused, SOON), "idle", is("idle", true));
            assert_eq!(session.display(), "done");
            assert_eq!(session["interrupted"], true);
        }
        person.ready();
        person.submits("never mind");
        story.model.wait_at("word");
        let next = story.wait_session("at work", is("working", false));
        assert_eq!(next["interrupted"], false);
        finish_turn(&story, &person);
        Ok(())
    });
}

#[test]
fn the_notification_after_a_dialog_changes_nothing() {
    story(|given| {
        let story = given
            .on("touch it", [bash("touch made.txt"), say("made")])
            .begin()?;
        let person = story.person()?;

        person.submits("touch it");
        let before = story.wait_session("waiting", |session| session.status() == ASKED);
        let notice = story.wait_event("Notification");
        assert_eq!(notice["notification_type"], "permission_prompt");
        let after = story.wait_session("there", |_| true);
        assert_asks_for_bash(&after);
        assert_eq!(after["status_since"], before["status_since"]);
        assert!(after.at("last_activity") > before.at("last_activity"));
        person.refuses();
        person.leaves();
        Ok(())
    });
}

/// Returns a call that reads this file, and needs a permission if the file is outside the project.
fn read(path: &Path) -> Turn {
    tool("Read", json!({"file_path": path}))
}

#[test]
fn the_end_of_another_call_does_not_hide_a_dialog() {
    story(|given| {
        let held = Hook::on("PreToolUse").held("inside");
        let story = given
            .hook(held.with("if", "Read(**/inside.txt)"))
            .file("inside.txt", "in")
            .begin()?;
        let inside = story.home.project().join("inside.txt");
        let outside = story.home.root().join("outside.txt");
        std::fs::write(&outside, "out").expect("write a file outside");
        let both = tools([read(&outside), read(&inside)]);
        let end = gate("word").then(say("both are read"));
        story.model.on("read both", [both, end]);
        let person = story.person()?;

        person.submits("read both");
        let asked = "attention(Permission for Read)";
        let before = story.wait_session("waiting", |session| session.status() == asked);
        story.events().none_of("PostToolUse");
        story.release("inside");
        story.wait_event("PostToolUse");
        let after = story.wait_session("there", |_| true);
        assert_eq!(
            (after.status().as_str(), after.display()),
            (asked, "attention")
        );
        assert_eq!(after["status_since"], before["status_since"]);
        person.chooses(1);
        story.model.wait_at("word");
        story.wait_session("at work", is("working(Thinking)", false));
        finish_turn(&story, &person);
        Ok(())
    });
}

/// Two dialogs wait in a row: the answer to the first must not count for the second.
#[test]
fn the_answer_to_one_dialog_does_not_hide_another() {
    story(|given| {
        let story = given.begin()?;
        let files = ["one/a.txt", "two/b.txt"].map(|name| story.home.root().join(name));
        for file in &files {
            std::fs::create_dir(file.parent().expect("a folder")).expect("make a folder");
            std::fs::write(file, "out").expect("write a file outside");
        }
        let both = tools(files.iter().map(|file| read(file)));
        let end = gate("word").then(say("both are read"));
        story.model.on("read both", [both, end]);
        let person = story.person()?;

        person.submits("read both");
        story.wait_events("two questions", |events| {
            (events.of("PermissionRequest").len() == 2).then_some(())
        });
        // Not every version shows the older one first.
        let dialogs = files.map(|file| format!("Read({})", file.display()));
        let screen = person.wait_text("❯ 1.");
        let first = dialogs.iter().find(|dialog| screen.contains(dialog));
        person.closes(first.expect("a dialog for one of them"), "Enter");
        person.wait_text("❯ 1.");
        // After some seconds, everything that Claude Code writes has been read.
        story.wait_event("Notification");
        let sessions = story.sessions();
        let status = sessions[0].status();
        assert_eq!(status, "attention(Permission for Read)");
        person.chooses(1);
        story.model.wait_at("word");
        story.wait_session("at work", is("working(Thinking)", false));
        finish_turn(&story, &person);
        Ok(())
    });
}

fn waits_for(reason: &'static str) -> impl Fn(&Session) -> bool {
    move |session| {
        session.display() == "attention"
            && session.status() == format!("attention({reason})")
            && session["waiting_reason"] == reason
            && session["waiting_for"] == "main"
    }
}

/// Asserts that the dialog is still shown some seconds later, when the notification comes: nothing that
/// Claude Code writes meanwhile counts as its answer.
#[track_caller]
fn assert_still_asked(story: &Story, reason: &'static str) {
    story.wait_event("Notification");
    let sessions = story.sessions();
    assert!(waits_for(reason)(&sessions[0]), "{sessions:?}");
}

#[test]
fn a_question_is_shown_as_the_waiting_tool() {
    story(|given| {
        let options = json!([
            {"label": "High", "description": "the water is high"},
            {"label": "Low", "description": "the water is low"},
        ]);
        let question = json!({"questions": [{
            "question": "Which tide?",
            "header": "Tide",
            "options": options,
            "multiSelect": false,
        }]});
        let story = given
            .on(
                "ask me",
                [
                    tool("AskUserQuestion", question),
                    gate("word").then(say("high it is")),
                ],
            )
            .begin()?;
        let person = story.person()?;

        person.submits("ask me");
        person.wait_text("Which tide?");
        story.wait_session("waiting", waits_for("AskUserQuestion"));
        assert_still_asked(&story, "AskUserQuestion");
        person.chooses(1);
        think_and_finish(&story, &person);
        Ok(())
    });
}

#[test]
fn a_plan_is_shown_as_the_waiting_tool() {
    story(|given| {
        let plan = tool("ExitPlanMode", json!({"plan": "1. Wait for the tide."}));
        let story = given
            .on("plan it", [plan, gate("word").then(say("as planned"))])
            .begin()?;
        let person = story.person_with(&["--permission-mode", "plan"])?;

        person.submits("plan it");
        person.wait_text("❯ 1.");
        let asked = story.wait_session("waiting", waits_for("ExitPlanMode"));
        assert_eq!(asked["permission_mode"], "plan");
        assert_still_asked(&story, "ExitPlanMode");
        person.chooses(1);
        story.model.wait_at("word");
        story.wait_session("at work", |session| session.display() == "working");
        finish_turn(&story, &person);
        Ok(())
    });
}

#[test]
fn entering_plan_mode_is_shown_as_the_waiting_tool() {
    story(|given| {
        let enter = tool("EnterPlanMode", json!({}));
        let story = given
            .on("think first", [enter, gate("word").then(say("a plan"))])
            .settings(
                SettingsScope::Local,
                json!({"permissions": {"ask": ["EnterPlanMode"]}}),
            )
            .needs(&["EnterPlanMode"])
            .begin()?;
        let person = story.person()?;

        person.submits("think first");
        person.wait_text("Enter plan mode?");
        story.wait_session("waiting", waits_for("EnterPlanMode"));
        assert_still_asked(&story, "EnterPlanMode");
        person.closes("Enter plan mode?", "Enter");
        think_and_finish(&story, &person);
        Ok(())
    });
}

#[test]
fn a_question_of_an_mcp_server_is_shown_with_its_server() {
    story(|given| {
        let story = given
            .on(
                "ask me",
                [
                    tool("mcp__asker__ask", json!({})),
                    gate("word").then(say("asked")),
                ],
            )
            .settings(
                SettingsScope::Local,
                json!({"permissions": {"allow": ["mcp__asker__ask"]}}),
            )
            .needs(&["ElicitationResult"])
            .begin()?;
        let servers = json!({"mcpServers": {"asker": {"command": program("becket-asker")}}});
        let person = story.person_with(&["--mcp-config", &servers.to_string()])?;

        person.submits("ask me");
        person.wait_text("What is your name?");
        story.wait_session("waiting", waits_for("MCP input: asker"));
        assert_still_asked(&story, "MCP input: asker");
        person.closes("What is your name?", "Escape");
        think_and_finish(&story, &person);
        Ok(())
    });
}

/// Opens `becket` without a verb.
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
fn the_view_shows_the_cause_of_each_wait() {
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
        let screen = view.wait_text("wants to run: touch made.txt");
        assert!(screen.contains("◆"), "{}", screen.0);
        assert!(screen.contains("touch it"), "{}", screen.0);
        person.chooses(1);
        story.model.wait_at("word");
        let screen = view.wait_for("work", |screen| !screen.contains("wants to run"));
        assert!(screen.contains("thinking"), "{}", screen.0);
        story.model.open("word");
        story.wait_session("done", is_done);
        view.wait_for("the end of the work", |screen| !screen.contains("Thinking"));
        person.leaves();
        view.wait_for("no prompt", |screen| !screen.contains("touch it"));
        view.press("q");
        assert_eq!(view.wait_end(), 0);
        Ok(())
    });
}
