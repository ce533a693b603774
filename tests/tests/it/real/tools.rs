//! Tool calls in print mode: what fires, in which order, and what the model gets back.

use becket_tests::model::{bash, say, tool, tools, write};
use becket_tests::story::story;
use serde_json::json;

#[test]
fn one_call_fires_its_events_in_order() {
    story(|given| {
        let story = given
            .on("say hi", [bash("echo hi there"), say("all done")])
            .begin()?;

        let run = story.print("say hi").run();

        run.succeeded();
        assert_eq!(run.text(), "all done");
        let results = story.model.turns()[1].tool_results();
        assert_eq!(results[0].text, "hi there");
        let events = story.events();
        events.in_order(&story.known(&[
            "SessionStart",
            "UserPromptSubmit",
            "PreToolUse",
            "PostToolUse",
            "PostToolBatch",
            "Stop",
            "SessionEnd",
        ]));
        let before = events.only("PreToolUse");
        assert_eq!(before["tool_input"]["command"], "echo hi there");
        assert_eq!(before["tool_use_id"], results[0].id);
        assert_eq!(
            events.only("PostToolUse")["tool_response"]["stdout"],
            "hi there"
        );
        assert_eq!(events.only("SessionStart")["source"], "startup");
        assert_eq!(events.only("SessionEnd")["reason"], "other");
        assert!(
            events
                .iter()
                .all(|event| event["session_id"] == run.session())
        );
        Ok(())
    });
}

#[test]
fn parallel_calls_each_keep_their_own_order() {
    story(|given| {
        let both = tools([bash("echo one"), bash("echo two"), bash("echo three")]);
        let story = given
            .on("do both", [both, say("done")])
            .needs(&["PostToolBatch"])
            .begin()?;

        story.print("do both").run().succeeded();

        let results = story.model.turns()[1].tool_results();
        let mut texts: Vec<&str> = results.iter().map(|result| result.text.as_str()).collect();
        // They stand in the order in which the calls came to an end.
        texts.sort_unstable();
        assert_eq!(texts, ["one", "three", "two"]);
        let events = story.events();
        for result in &results {
            let call = events.of_call(&result.id);
            assert_eq!(call.names(), ["PreToolUse", "PostToolUse"]);
        }
        let batch = events.only("PostToolBatch");
        assert_eq!(batch["tool_calls"].as_array().map(Vec::len), Some(3));
        Ok(())
    });
}

#[test]
fn a_call_that_fails_fires_the_failure_event() {
    story(|given| {
        let story = given
            .on("try it", [bash("echo oops >&2; exit 3"), say("it failed")])
            .needs(&["PostToolUseFailure"])
            .begin()?;

        story
            .print("try it")
            .mode("bypassPermissions")
            .run()
            .succeeded();

        let events = story.events();
        let order = ["PreToolUse", "PostToolUseFailure", "PostToolBatch", "Stop"];
        events.in_order(&story.known(&order));
        events.none_of("PostToolUse");
        assert!(
            events
                .only("PostToolUseFailure")
                .text("error")
                .contains("oops")
        );
        assert!(story.model.turns()[1].tool_results()[0].is_error);
        Ok(())
    });
}

#[test]
fn a_large_write_reaches_the_hooks_whole() {
    story(|given| {
        let content = "all work and no play\n".repeat(15_000);
        let story = given.begin()?;
        let path = story.home.project().join("large.txt");
        story
            .model
            .on("write it", [write(&path, &content), say("written")]);

        story
            .print("write it")
            .mode("acceptEdits")
            .run()
            .succeeded();

        let events = story.events();
        let before = events.only("PreToolUse");
        assert_eq!(before["tool_input"]["content"], content);
        assert!(before.raw.len() > content.len());
        assert_eq!(std::fs::read_to_string(&path).ok(), Some(content));
        Ok(())
    });
}

#[test]
fn a_call_that_would_ask_is_refused_where_nobody_attends() {
    story(|given| {
        let story = given
            .on("touch it", [bash("touch made.txt"), say("could not")])
            .begin()?;

        let run = story.print("touch it").run();

        run.succeeded();
        let events = story.events();
        events.in_order(&["PreToolUse", "Stop"]);
        // Print mode did not always tell that it would have asked.
        if story.claude.is_at_least("2.1.325") {
            events.in_order(&["PreToolUse", "PermissionRequest", "Stop"]);
        }
        assert!(!story.home.project().join("made.txt").exists());
        assert_eq!(run.result()["permission_denials"][0]["tool_name"], "Bash");
        Ok(())
    });
}

#[test]
fn a_change_of_folder_is_told() {
    story(|given| {
        let story = given
            .file("below/a.txt", "a")
            .on("go below", [bash("cd below && pwd"), say("there")])
            .needs(&["CwdChanged"])
            .begin()?;

        story
            .print("go below")
            .mode("bypassPermissions")
            .run()
            .succeeded();

        let below = story.home.project().join("below").display().to_string();
        let changed = story.wait_event("CwdChanged");
        assert_eq!(changed["new_cwd"], below);
        Ok(())
    });
}

#[test]
fn tasks_are_told_when_made_and_when_done() {
    story(|given| {
        let make = tool(
            "TaskCreate",
            json!({"subject": "Sweep", "description": "the deck"}),
        );
        let done = tool("TaskUpdate", json!({"taskId": "1", "status": "completed"}));
        let story = given
            .on("plan it", [make, done, say("planned")])
            .needs(&["TaskCreated"])
            .since("2.1.197", "task tools in print mode")
            .begin()?;

        let run = story
            .print("plan it")
            .args(["--tools", "TaskCreate,TaskUpdate"]);
        run.run().succeeded();

        let events = story.events();
        events.in_order(&["TaskCreated", "TaskCompleted", "Stop"]);
        assert_eq!(events.only("TaskCreated")["task_subject"], "Sweep");
        Ok(())
    });
}
