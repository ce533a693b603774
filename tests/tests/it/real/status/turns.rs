//! What else a turn may bring: compaction, failures, another model, another folder.

use becket_tests::claude::Scope;
use becket_tests::model::{bash, error, gate, say, tool};
use becket_tests::story::{Hook, story};
use serde_json::json;

use super::{is, is_done};

#[test]
fn a_compaction_by_hand_is_work_and_then_the_persons_turn() {
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
        story.let_go("compact");
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
fn a_window_that_is_full_is_compacted_in_the_middle_of_the_work() {
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
        story.let_go("compact");
        story.model.wait_at("word");
        let next = story.wait_session("at work", is("working(Thinking)", false));
        assert_eq!(next.display(), "working");
        story.model.open("word");
        story.wait_session("done", is_done);
        person.leaves();
        Ok(())
    });
}

#[test]
fn a_turn_that_failed_is_an_error_until_the_next_prompt() {
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
        story.model.open("word");
        story.wait_session("done", is_done);
        person.leaves();
        Ok(())
    });
}

#[test]
fn a_tool_that_failed_is_counted_and_no_error() {
    story(|given| {
        let story = given
            .on(
                "try it",
                [bash("exit 3"), gate("word").then(say("it failed"))],
            )
            .settings(Scope::Local, json!({"permissions": {"allow": ["Bash"]}}))
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
fn another_model_and_another_folder_are_shown() {
    story(|given| {
        let story = given
            .file("below/a.txt", "a")
            .on("first thing", [say("one is done")])
            .on("go below", [bash("cd below"), say("there we are")])
            .settings(Scope::Local, json!({"permissions": {"allow": ["Bash"]}}))
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
fn after_a_denial_by_auto_mode_it_works_on() {
    story(|given| {
        let send = bash("curl -d @/etc/hostname http://127.0.0.1:9/");
        let story = given
            .on("send it", [send, gate("word").then(say("no"))])
            // The batch that follows would tell of it too.
            .hook(Hook::on("PermissionDenied").held("denied"))
            .needs(&["PermissionDenied"])
            .begin()?;

        let run = story.print("send it").mode("auto").start();
        story.wait_event("PermissionDenied");
        let next = story.wait_session("at work", is("working(Thinking)", false));
        story.events().none_of("PostToolBatch");
        assert_eq!(next["permission_mode"], "auto");
        assert_eq!(next["failed_tools"], 0);
        story.let_go("denied");
        story.model.wait_at("word");
        story.model.open("word");
        run.finish();
        Ok(())
    });
}

#[test]
fn a_teammate_that_has_nothing_to_do_is_idle() {
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
        // SubagentStop, which comes just before, would tell of it too: nobody hears it here.
        let mut settings = story.home.settings(Scope::User);
        let hooks = settings["hooks"].as_object_mut().expect("hooks");
        assert!(hooks.remove("SubagentStop").is_some());
        story.home.set_settings(Scope::User, &settings);
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
        story.let_go("idle");
        person.leaves();
        Ok(())
    });
}
