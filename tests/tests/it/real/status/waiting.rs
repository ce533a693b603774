//! Waiting in auto mode, and a question that was seen.

use becket_tests::claude::SettingsScope;
use becket_tests::model::{bash, behind, gate, say};
use becket_tests::story::{Becket, Recorder, Session, story};
use becket_tests::wait::{self, PATIENCE};
use serde_json::{Value, json};

use super::is_done;

const CANNOT_CHECK: &str = "Auto mode can't check actions in this session and needs your choice";

/// Behind a gateway that does not pass the safety check on, only a notification reports the dialogs.
#[test]
fn a_session_waits_at_dialogs_of_auto_mode() {
    story(|given| {
        let becket = Becket::default();
        let notices = becket.world.path("notices");
        let config = format!(
            "[notice]\non = \"attention\"\nhow = \"command\"\ncommand = 'echo \"$BECKET_NOTICE_TEXT\" >> {}'\n",
            notices.display()
        );
        std::fs::create_dir_all(&becket.world.becket_home).expect("a home");
        std::fs::write(becket.world.path("config.toml"), config).expect("a config");
        let fetch = bash("curl -s http://127.0.0.1:9/x || true");
        let story = given
            .on("fetch it", [fetch, gate("word").then(say("fetched"))])
            .since("2.1.325", "choice in auto mode")
            .registered(becket)
            .begin()?;
        let person = story.person_with(&["--permission-mode", "auto"])?;

        person.submits("fetch it");
        person.wait_text("Enter to stay in auto mode");
        let asked = format!("attention({CANNOT_CHECK})");
        let waits = story.wait_session("waiting", |session| session.status() == asked);
        assert_eq!(
            (waits.display(), &waits["waiting_for"]),
            ("attention", &Value::from("main"))
        );
        assert_eq!(waits["permission_mode"], "auto");
        let told = format!("is waiting for you: {CANNOT_CHECK}");
        let said = || std::fs::read_to_string(&notices).unwrap_or_default();
        let rang = wait::until(PATIENCE, || said().contains(&told).then_some(()));
        assert!(rang.is_some(), "{:?}", said());

        person.closes("Enter to stay in auto mode", "Enter");
        person.wait_text("Do you want to proceed?");
        story.wait_session("waiting for a permission", |session| {
            session.status() == "attention(Permission)"
        });
        person.press("Down");
        person.closes("❯ Yes", "Enter");
        story.model.wait_at("word");
        story.wait_session("at work", |session| {
            session.status() == "working(Thinking)" && session.display() == "working"
        });
        story.model.open("word");
        story.wait_session("done", is_done);
        story.events().none_of("PermissionRequest");
        person.leaves();
        Ok(())
    });
}

/// A guard that raises the dialog in every permission mode.
const ASKS: &str =
    "[guards.ask-me]\npatterns = [\"touch sheep\"]\nanswer = \"ask\"\nreason = \"REASON\"\n";

#[test]
fn a_subagents_question_stays_visible_after_it_was_seen() {
    // In auto mode the scripted model cannot check the start of a subagent, so there is none.
    for mode in ["default", "acceptEdits", "bypassPermissions"] {
        story(|given| {
            let story = given
                .on(
                    "send it off",
                    [
                        behind("general-purpose", "touch the sheep"),
                        gate("parent").then(say("sent")),
                    ],
                )
                .on(
                    "touch the sheep",
                    [bash("touch sheep.txt"), gate("last").then(say("touched"))],
                )
                .on("task-notification", [say("it is back")])
                .since("2.1.325", "the dialog of a hook in bypassPermissions")
                .settings(
                    SettingsScope::Local,
                    json!({"skipDangerousModePermissionPrompt": true}),
                )
                .file(".git/HEAD", "ref: refs/heads/main\n")
                .registered(Becket::default().config(ASKS))
                .registered(Recorder::witness())
                .begin()?;
            let person = story.person_with(&["--permission-mode", mode])?;
            let child = |session: &Session| session.agents()[0].text("display").to_owned();

            person.submits("send it off");
            story.model.wait_at("parent");
            let asks = story.wait_session("waiting", |session| session.display() == "attention");
            assert_eq!(child(&asks), "attention");
            let socket = person.socket().display().to_string();
            let becket = story.becket();
            becket.run(&["tmux", "seen", "--pane", "%0", "--socket", &socket]);
            let seen = story.wait_session("looked at", |session| session.display() == "checked");
            assert_eq!(
                (seen.status().as_str(), child(&seen).as_str()),
                ("working(Thinking)", "checked")
            );
            assert_eq!(seen["waiting_for"], seen.agents()[0]["agent_id"]);
            let counts: Value = serde_json::from_str(&becket.run(&["tmux", "status", "--json"]))
                .expect("counts as JSON");
            assert_eq!(
                (&counts["attention"], &counts["checked"]),
                (&Value::from(0), &Value::from(1))
            );

            person.chooses(1);
            story.model.wait_at("last");
            let on = story.wait_session("at work", |session| session.display() == "working");
            assert_eq!(child(&on), "working");
            story.model.open("last");
            story.model.open("parent");
            person.wait_text("it is back");
            story.wait_session("done", is_done);
            person.leaves();
            Ok(())
        });
    }
}
