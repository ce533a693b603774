//! Turns that begin, or come to nothing, without an event.

use std::time::Instant;

use becket_tests::claude::Scope;
use becket_tests::model::{behind, gate, say, tool};
use becket_tests::story::{Hook, story};
use serde_json::json;

use super::permissions::SOON;
use super::{is, is_done};

/// Its event comes while the turn before runs, and none when its own begins.
#[test]
fn a_prompt_that_was_typed_during_a_turn_is_work_after_it() {
    story(|given| {
        let story = given
            .on("first thing", [gate("one").then(say("one is done"))])
            .on("second thing", [gate("two").then(say("two is done"))])
            .needs(&["CLAUDE_PID"])
            .begin()?;
        let person = story.person()?;

        person.submits("first thing");
        story.model.wait_at("one");
        person.submits("second thing");
        story.wait_session("prompted", |session| {
            session["last_prompt"] == "second thing"
        });
        story.model.open("one");
        story.wait_event("Stop");
        story.model.wait_at("two");
        let session = story.soon((Instant::now(), SOON), "at work", is("working", true));
        assert_eq!(session.display(), "working");
        let idle = story.waits(session.id(), "idle");
        story.model.open("two");
        let (done, _) = idle.came_back();
        assert!(is_done(&done) && is("idle", false)(&done), "{done:?}");
        assert_eq!(story.events().of("Stop").len(), 2);
        person.leaves();
        Ok(())
    });
}

#[test]
fn a_command_that_the_person_runs_is_work() {
    story(|given| {
        let story = given
            .on("first thing", [say("one is done")])
            .on("bang-over", [say("I see")])
            .since("2.1.325", "a turn after a command of the person's")
            .begin()?;
        let person = story.person()?;

        person.submits("first thing");
        person.wait_text("one is done");
        story.wait_session("done", is_done);
        person.ready();
        person.type_text("!");
        person.submits("until [ -e go ]; do sleep 0.1; done; echo bang-over");
        story.soon((Instant::now(), SOON), "at work", is("working", true));
        story.home.file("go", "");
        person.wait_text("I see");
        story.wait_session("done", |session| {
            is_done(session) && is("idle", false)(session)
        });
        person.leaves();
        Ok(())
    });
}

/// Claude Code then says `shell` of itself, where it else says `idle`.
#[test]
fn esc_is_seen_while_a_command_runs_behind() {
    story(|given| {
        let behind = json!({
            "command": "until [ -e go ]; do sleep 0.1; done",
            "description": "wait",
            "run_in_background": true,
        });
        let story = given
            .on("send it off", [tool("Bash", behind), say("sent")])
            .on("think hard", [gate("thinking").then(say("never said"))])
            .on("task-notification", [say("it is back")])
            .settings(Scope::Local, json!({"permissions": {"allow": ["Bash"]}}))
            .needs(&["CLAUDE_PID"])
            .begin()?;
        let person = story.person()?;

        person.submits("send it off");
        let sent = story.wait_session("done", |session| session["background_tasks"] == 1);
        assert!(is_done(&sent), "{sent:?}");
        person.ready();
        person.submits("think hard");
        story.model.wait_at("thinking");
        let pressed = Instant::now();
        person.interrupts();
        let session = story.soon((pressed, SOON), "idle", is("idle", true));
        assert_eq!(session["interrupted"], true);
        story.home.file("go", "");
        person.wait_text("it is back");
        let done = story.wait_session("done", |session| {
            is_done(session) && is("idle", false)(session)
        });
        assert_eq!(done["background_tasks"], 0);
        person.leaves();
        Ok(())
    });
}

/// Nothing tells of that: Claude Code says `busy` of itself for as long as the subagent works, and
/// writes nothing down. What is displayed is right all the same, for something works.
#[test]
fn esc_while_a_subagent_works_behind_is_seen_when_that_ends() {
    story(|given| {
        let story = given
            .on(
                "send it off",
                [behind("general-purpose", "count the sheep"), say("sent")],
            )
            .on("count the sheep", [gate("child").then(say("three"))])
            .on("think hard", [gate("thinking").then(say("never said"))])
            .on("task-notification", [say("it is back")])
            .needs(&["CLAUDE_PID"])
            .begin()?;
        let person = story.person()?;

        person.submits("send it off");
        story.model.wait_at("child");
        story.wait_session("idle with a child", |session| {
            session.status() == "idle" && session["background_tasks"] == 1
        });
        person.submits("think hard");
        story.model.wait_at("thinking");
        person.interrupts();
        assert_eq!(story.sessions()[0].display(), "working");
        story.model.open("child");
        person.wait_text("it is back");
        let done = story.wait_session("done", |session| {
            is_done(session) && is("idle", false)(session)
        });
        assert_eq!(done["background_tasks"], 0);
        person.leaves();
        Ok(())
    });
}

#[test]
fn a_prompt_that_somebodys_hook_blocks_is_no_work() {
    story(|given| {
        let story = given
            .on("first thing", [say("never said")])
            .hook(Hook::on("UserPromptSubmit").blocks("not today"))
            .needs(&["CLAUDE_PID"])
            .begin()?;
        let person = story.person()?;

        person.submits("first thing");
        person.wait_text("not today");
        story.soon((Instant::now(), SOON), "idle", is("idle", true));
        person.press("C-u");
        person.leaves();
        assert!(story.model.turns().is_empty());
        Ok(())
    });
}

#[test]
fn a_turn_that_somebodys_hook_ends_is_over() {
    story(|given| {
        let enough = json!({"continue": false, "stopReason": "enough of it"});
        let story = given
            .on(
                "first thing",
                [
                    tool("Bash", json!({"command": "echo hi"})),
                    say("never said"),
                ],
            )
            .hook(Hook::on("PreToolUse").answers(&enough))
            .needs(&["CLAUDE_PID"])
            .begin()?;
        let person = story.person()?;

        person.submits("first thing");
        person.wait_text("enough of it");
        story.soon((Instant::now(), SOON), "idle", is("idle", true));
        person.leaves();
        story.events().none_of("Stop");
        Ok(())
    });
}
