//! The events that fire rarely, and what they mean for the status.

use becket_tests::model::{bash, gate, say};
use becket_tests::story::{Hook, story};
use serde_json::json;

use super::{is, is_done};

#[test]
fn setup_is_work_before_the_session_starts() {
    story(|given| {
        let story = given
            .on("do it", [gate("word").then(say("done"))])
            .hook(Hook::on("Setup").held("setup"))
            .needs(&["--init-only"])
            .begin()?;

        let run = story.print("do it").arg("--init").start();
        let sets_up = story.wait_session("setting up", is("working(Setup)", false));
        assert_eq!(sets_up.display(), "working");
        story.events().none_of("UserPromptSubmit");
        story.let_go("setup");
        story.model.wait_at("word");
        let next = story.wait_session("at work", is("working", false));
        assert_eq!(next.id(), sets_up.id());
        story.model.open("word");
        run.finish().succeeded();
        Ok(())
    });
}

#[test]
fn a_command_of_the_persons_own_is_work_while_it_is_expanded() {
    story(|given| {
        let story = given
            .file(".claude/commands/count.md", "count the $ARGUMENTS")
            .on("count the sheep", [gate("word").then(say("three"))])
            .hook(Hook::on("UserPromptExpansion").held("expand"))
            .needs(&["UserPromptExpansion"])
            .begin()?;
        let person = story.person()?;

        person.submits("/count sheep");
        let expansion = story.wait_event("UserPromptExpansion");
        assert_eq!(expansion["command_name"], "count");
        story.wait_session("at work", is("working", false));
        story.let_go("expand");
        story.model.wait_at("word");
        story.wait_session("at work", is("working", false));
        story.model.open("word");
        story.wait_session("done", is_done);
        person.leaves();
        Ok(())
    });
}

/// A call that somebody's hook denies has no end of its own: only the batch tells of it.
#[test]
fn a_batch_ends_the_calls_that_were_denied() {
    story(|given| {
        let story = given
            .on(
                "touch it",
                [bash("touch made.txt"), gate("word").then(say("no"))],
            )
            .hook(Hook::on("PreToolUse").matcher("Bash").denies("not today"))
            .needs(&["PostToolBatch"])
            .begin()?;
        let person = story.person()?;

        person.submits("touch it");
        story.model.wait_at("word");
        let next = story.wait_session("at work", is("working(Thinking)", false));
        assert_eq!(next["failed_tools"], 0);
        let events = story.events();
        events.in_order(&["PreToolUse", "PostToolBatch"]);
        events.none_of("PostToolUse");
        events.none_of("PostToolUseFailure");
        story.model.open("word");
        story.wait_session("done", is_done);
        person.leaves();
        Ok(())
    });
}

/// Somebody who does not come back is reminded after a minute, here sooner.
#[test]
fn a_reminder_that_it_is_the_persons_turn_is_no_attention() {
    story(|given| {
        let story = given
            .on("first thing", [say("one is done")])
            .needs(&["messageIdleNotifThresholdMs"])
            .begin()?;
        story
            .home
            .remember("messageIdleNotifThresholdMs", json!(1000));
        let person = story.person()?;

        person.submits("first thing");
        story.wait_event("Stop");
        let before = story.wait_session("done", is_done);
        let reminder = story.wait_event("Notification");
        assert_eq!(reminder["notification_type"], "idle_prompt");
        let after = story.wait_session("reminded", |session| {
            session["last_activity"] != before["last_activity"]
        });
        for field in [
            "status",
            "display",
            "display_since",
            "waiting_for",
            "inferred",
        ] {
            assert_eq!(after[field], before[field], "{field}");
        }
        person.leaves();
        Ok(())
    });
}
