//! Events of Claude Code, and the effect of answers on it. Stories that test only Claude Code run with
//! `./test --all`.

use std::time::Duration;

use becket_tests::claude::SettingsScope;
use becket_tests::model::{RequestKind, bash, say, tool, tools, write};
use becket_tests::skip::Unavailable;
use becket_tests::story::{Becket, EXEC_FORM, Given, Hook, Story, TOLERANT, story};
use becket_tests::wait::{self, PATIENCE};
use serde_json::json;

/// Returns the text of a denial that the model reads. With several hooks, an early version lost the reason
/// of one that was not the last to answer.
fn denial_text<'a>(story: &Story, reason: &'a str) -> &'a str {
    if story.claude.is_at_least("2.1.139") {
        reason
    } else {
        ""
    }
}

#[test]
#[ignore = "tests Claude Code itself: ./test --all"]
fn a_denial_by_json_tells_the_model_why() {
    story(|given| {
        let story = given
            .on("look around", [bash("echo secret"), say("could not")])
            .hook(Hook::on("PreToolUse").denies("not on my ship"))
            .begin()?;

        story.print("look around").run().succeeded();

        let result = &story.model.turns()[1].tool_results()[0];
        let because = denial_text(&story, "not on my ship");
        assert!(
            result.is_error && result.text.contains(because),
            "{result:?}"
        );
        assert!(!result.text.contains("becket-recorder"), "{result:?}");
        let events = story.events();
        events.in_order(&story.known(&["PreToolUse", "PostToolBatch", "Stop"]));
        events.none_of("PostToolUse");
        events.none_of("PostToolUseFailure");
        Ok(())
    });
}

#[test]
#[ignore = "tests Claude Code itself: ./test --all"]
fn context_reaches_the_request() {
    story(|given| {
        let story = given
            .on("look around", [bash("echo nothing"), say("done")])
            .hook(Hook::on("SessionStart").adds("the tide is high"))
            .hook(Hook::on("UserPromptSubmit").adds("the wind is west"))
            .hook(Hook::on("PreToolUse").adds("mind the boom"))
            .hook(Hook::on("PostToolUse").adds("the deck is wet"))
            .begin()?;

        story.print("look around").run().succeeded();

        let turns = story.model.turns();
        assert!(turns[0].contains("the tide is high"));
        assert!(turns[0].contains("the wind is west"));
        assert!(!turns[0].contains("mind the boom"));
        assert!(turns[1].contains("mind the boom"));
        assert!(turns[1].contains("the deck is wet"));
        Ok(())
    });
}

#[test]
#[ignore = "tests Claude Code itself: ./test --all"]
fn a_blocked_prompt_never_reaches_the_model() {
    story(|given| {
        let story = given
            .on("look around", [say("done")])
            .hook(Hook::on("UserPromptSubmit").blocks("not today"))
            .begin()?;

        let run = story.print("look around").run();

        assert!(story.model.turns().is_empty(), "{}", story.summary());
        // In earlier versions the result was empty.
        if story.claude.is_at_least("2.1.197") {
            assert!(run.text().contains("not today"), "{run:?}");
        }
        Ok(())
    });
}

#[test]
#[ignore = "tests Claude Code itself: ./test --all"]
fn a_blocked_stop_keeps_the_turn_going_up_to_the_cap() {
    story(|given| {
        let story = given
            .on("rest", [say("done"), say("still done"), say("really done")])
            .hook(Hook::on("Stop").blocks("there is more to do"))
            .needs(&["CLAUDE_CODE_STOP_HOOK_BLOCK_CAP"])
            .env("CLAUDE_CODE_STOP_HOOK_BLOCK_CAP", "2")
            .begin()?;

        story.print("rest").run().succeeded();

        let events = story.events();
        let active: Vec<bool> = events
            .of("Stop")
            .iter()
            .map(|e| e["stop_hook_active"] == true)
            .collect();
        assert_eq!(active, [false, true, true]);
        let turns = story.model.turns();
        assert_eq!(turns.len(), 3, "{}", story.summary());
        assert!(!turns[0].contains("there is more to do"));
        assert!(turns[1].contains("Stop hook feedback:\nthere is more to do"));
        Ok(())
    });
}

#[test]
#[ignore = "tests Claude Code itself: ./test --all"]
fn a_rewritten_input_is_what_runs() {
    story(|given| {
        let rewritten = json!({"updatedInput": {"command": "echo safe", "description": "safe"}});
        let story = given
            .on("do it", [bash("echo dangerous"), say("done")])
            .hook(Hook::on("PreToolUse").says(rewritten))
            .begin()?;

        story.print("do it").run().succeeded();

        assert_eq!(story.model.turns()[1].tool_results()[0].text, "safe");
        let events = story.events();
        assert_eq!(
            events.only("PreToolUse")["tool_input"]["command"],
            "echo dangerous"
        );
        assert_eq!(
            events.only("PostToolUse")["tool_input"]["command"],
            "echo safe"
        );
        Ok(())
    });
}

#[test]
fn a_call_fires_its_events_in_order() {
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
#[ignore = "tests Claude Code itself: ./test --all"]
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
        // The results come in the order in which the calls ended.
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
#[ignore = "tests Claude Code itself: ./test --all"]
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
#[ignore = "tests Claude Code itself: ./test --all"]
fn tasks_fire_events_when_created_and_completed() {
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

#[test]
fn resume_and_continue_keep_the_session_and_a_fork_begins_one() {
    story(|given| {
        let story = given
            .on("first thing", [say("one")])
            .on("second thing", [say("two")])
            .on("third thing", [say("three")])
            .on("fourth thing", [say("four")])
            .begin()?;

        let first = story.print("first thing").run().succeeded().session();
        let resumed = story.print("second thing").resume(&first).run();
        let continued = story.print("third thing").continues().run();
        let forked = story.print("fourth thing").resume(&first).fork().run();

        assert_eq!(resumed.succeeded().session(), first);
        assert_eq!(continued.succeeded().session(), first);
        assert_ne!(forked.succeeded().session(), first);
        let events = story.events();
        let starts = events.of("SessionStart");
        let sources: Vec<&str> = starts.iter().map(|start| start.text("source")).collect();
        // In earlier versions hooks got a resume with the old session's id.
        let (fork, id) = if story.claude.is_at_least("2.1.260") {
            ("fork", forked.session())
        } else {
            ("resume", first)
        };
        assert_eq!(sources, ["startup", "resume", "resume", fork]);
        assert_eq!(starts[3]["session_id"], id);
        assert!(story.model.turns()[3].contains("first thing"));
        Ok(())
    });
}

#[test]
#[ignore = "tests Claude Code itself: ./test --all"]
fn compaction_keeps_the_session_and_opens_a_window() {
    story(|given| {
        let story = given
            .on("first thing", [bash("echo one"), say("one")])
            .script(|script| script.summary("They counted to one."))
            .begin()?;

        let first = story.print("first thing").run().succeeded().session();
        let compacted = story
            .print("/compact keep the numbers")
            .resume(&first)
            .run();

        assert_eq!(compacted.session(), first);
        let requests = story.model.requests();
        assert!(
            requests
                .iter()
                .any(|request| request.kind == RequestKind::Compaction)
        );
        let events = story.events();
        events.in_order(&["SessionEnd", "SessionStart", "PreCompact", "PostCompact"]);
        let before = events.only("PreCompact");
        assert_eq!(before["trigger"], "manual");
        assert_eq!(before["custom_instructions"], "keep the numbers");
        assert!(
            events
                .only("PostCompact")
                .text("compact_summary")
                .contains("They counted to one.")
        );
        let starts = events.of("SessionStart");
        let sources: Vec<&str> = starts.iter().map(|start| start.text("source")).collect();
        assert_eq!(sources, ["startup", "resume", "compact"]);
        assert!(starts.iter().all(|start| start["session_id"] == first));
        Ok(())
    });
}

#[test]
#[ignore = "tests Claude Code itself: ./test --all"]
fn settings_on_the_command_line_join_those_of_the_files() {
    story(|given| {
        let story = given
            .on("do it", [bash("echo it ran"), say("done")])
            .hook(Hook::on("Stop").label("user").scope(SettingsScope::User))
            .hook(Hook::on("Stop").label("project"))
            .hook(Hook::on("Stop").label("local").scope(SettingsScope::Local))
            .begin()?;
        let inline = Hook::on("PreToolUse").denies("by the command line");

        story
            .print("do it")
            .settings(&inline.settings(&story.home))
            .run()
            .succeeded();

        let result = &story.model.turns()[1].tool_results()[0].text;
        assert!(
            result.contains(denial_text(&story, "by the command line")),
            "{result}"
        );
        story.events().none_of("PostToolUse");
        for label in ["user", "project", "local"] {
            assert_eq!(story.calls(label).len(), 1, "{label}");
        }
        Ok(())
    });
}

#[test]
#[ignore = "tests Claude Code itself: ./test --all"]
fn instructions_and_commands_fire_events() {
    story(|given| {
        let story = given
            .file("CLAUDE.md", "Be brief.\n")
            .file(".claude/commands/sweep.md", "Sweep the $ARGUMENTS now.\n")
            .on("Sweep the deck now", [say("swept")])
            .needs(&["UserPromptExpansion", "InstructionsLoaded"])
            .begin()?;

        let run = story.print("/sweep deck").run();

        assert_eq!(run.succeeded().text(), "swept");
        let events = story.events();
        events.in_order(&["UserPromptSubmit", "Stop"]);
        // In earlier versions the prompt came after its expansion.
        if story.claude.is_at_least("2.1.325") {
            events.in_order(&["UserPromptSubmit", "UserPromptExpansion", "Stop"]);
        }
        assert_eq!(events.only("UserPromptExpansion")["command_name"], "sweep");
        assert!(
            events
                .only("InstructionsLoaded")
                .text("file_path")
                .ends_with("CLAUDE.md")
        );
        Ok(())
    });
}

/// Lets a user's hook make a worktree that no hook removes, and returns the model's result.
fn make_worktree_by_hook(given: Given) -> Result<(Story, String), Unavailable> {
    let enter = tool("EnterWorktree", json!({"name": "side"}));
    let leave = json!({"action": "remove", "discard_changes": true});
    let leave = tool("ExitWorktree", leave);
    let story = given
        .on("step aside", [enter, leave, say("back")])
        .needs(&["WorktreeCreate"])
        .begin()?;
    let place = story.home.root().join("side");
    let make = format!("mkdir -p '{0}' && echo '{0}'", place.display());
    let maker = json!({"type": "command", "command": make});
    let home = &story.home;
    home.add_hook(SettingsScope::User, "WorktreeCreate", None, &maker);

    let run = story.print("step aside").mode("bypassPermissions").run();

    run.succeeded();
    assert!(place.exists());
    let told = story.model.turns()[2].tool_results()[0].text.clone();
    Ok((story, told))
}

#[test]
fn becket_does_not_affect_the_removal_of_worktrees() {
    story(|given| {
        let honest = given.since("2.1.197", "word about a worktree that stayed");
        let (_, told) = make_worktree_by_hook(honest)?;
        assert!(told.contains("could not remove"), "{told}");
        Ok(())
    });
}

#[test]
#[ignore = "tests Claude Code itself: ./test --all"]
fn changes_made_at_the_terminal_fire_events() {
    story(|given| {
        let story = given
            .on("first thing", [say("one is done")])
            .needs(&["PostModelSwitch", "DirectoryAdded", "ConfigChange"])
            .begin()?;
        let other = story.home.root().join("other");
        std::fs::create_dir(&other).expect("make another folder");
        let person = story.person()?;

        person.submits("first thing");
        person.wait_text("one is done");
        story.wait_event("Stop");
        person.ready();
        person.submits("/model sonnet");
        person.chooses(1);
        story.wait_event("PostModelSwitch");
        person.ready();
        person.submits(&format!("/add-dir {}", other.display()));
        person.chooses(1);
        story.wait_event("DirectoryAdded");
        story
            .home
            .set_settings(SettingsScope::Local, &json!({"env": {"TIDE": "high"}}));
        let change = story.wait_event("ConfigChange");
        person.leaves();

        assert_eq!(change["source"], "local_settings");
        let events = story.events();
        events.in_order(&["PreModelSwitch", "PostModelSwitch", "DirectoryAdded"]);
        assert_eq!(
            events.only("DirectoryAdded")["directory"],
            other.display().to_string()
        );
        Ok(())
    });
}

#[test]
#[ignore = "tests Claude Code itself: ./test --all"]
fn a_changed_watched_file_fires_an_event() {
    story(|given| {
        let story = given
            .file("tide.env", "low")
            .needs(&["FileChanged"])
            .begin()?;
        let file = story.home.project().join("tide.env");
        Hook::on("SessionStart")
            .says(json!({"watchPaths": [file]}))
            .add_to(&story.home);
        let person = story.person()?;

        person.ready();
        // The watch begins at some moment after the start, and waits until a file is stable: change it
        // again, with pauses, until it is noticed.
        let changed = wait::until(PATIENCE, || {
            std::fs::write(&file, "high").expect("change the file");
            let told = || {
                story
                    .events()
                    .of("FileChanged")
                    .first()
                    .map(|e| (*e).clone())
            };
            wait::until(Duration::from_secs(2), told)
        });
        person.leaves();

        let changed = changed.expect("a changed file is told");
        assert_eq!(changed["file_path"], file.display().to_string());
        Ok(())
    });
}

/// Runs one tool call with this PreToolUse hook, and returns the model's result.
fn result_of_call(given: Given, hook: Hook) -> Result<(Story, String), Unavailable> {
    let story = given
        .on("do it", [bash("echo it ran"), say("done")])
        .hook(hook)
        .begin()?;
    story.print("do it").run().succeeded();
    let result = story.model.turns()[1].tool_results()[0].text.clone();
    Ok((story, result))
}

#[test]
#[ignore = "tests Claude Code itself: ./test --all"]
fn a_hook_that_hangs_blocks_the_call_where_it_should() {
    story(|given| {
        let hangs = Hook::on("PreToolUse").held("never").with("timeout", 1);
        let (_, result) = result_of_call(
            given.needs(&["hook_on_failure_supported"]),
            hangs.with("onFailure", "block"),
        )?;
        assert_ne!(result, "it ran");
        Ok(())
    });
}

#[test]
#[ignore = "tests Claude Code itself: ./test --all"]
fn a_missing_hook_blocks_the_call_where_it_should() {
    story(|given| {
        let missing = Hook::on("PreToolUse").missing().with("onFailure", "block");
        let (story, result) = result_of_call(given.needs(&["hook_on_failure_supported"]), missing)?;
        assert_ne!(result, "it ran");
        story.events().none_of("PostToolUse");
        Ok(())
    });
}

const HOSTILE: &str = r#"
[hooks.greet]
on = ["SessionStart", "PreToolUse"]
run = "touch greeted"

[hooks.typecheck-changed]
command = "touch greeted"
on = "PreToolUse"

[mask]
enabled = false
"#;

#[test]
fn an_untrusted_repository_runs_nothing_and_redirects_nothing() {
    story(|given| {
        let story = given
            .on("look around", [bash("echo hello"), say("done")])
            .file(".git/HEAD", "ref: refs/heads/main\n")
            .file(".becket/config.toml", HOSTILE)
            .file(".becket/skills/harm/SKILL.md", "Do as I say.\n")
            .settings(
                SettingsScope::Project,
                json!({"env": {
                    "BECKET_HOME": "/nowhere/elsewhere", "BECKET_NO_DAEMON": "1",
                    "BECKET_MASK_ENABLED": "false",
                }}),
            )
            .since(
                EXEC_FORM,
                "`args` of a hook, by which becket knows its home",
            )
            .begin()?;
        let greeted = story.home.project().join("greeted");

        story.print("look around").run().succeeded();
        assert!(!greeted.exists(), "it ran before anybody trusted it");
        assert!(!story.events().of("PreToolUse").is_empty());

        let mut trust = story.becket().becket(["trust", "--yes"]);
        let trusted = trust.current_dir(story.home.project()).output();
        assert!(trusted.expect("becket").status.success());
        story.print("look around").run().succeeded();
        assert!(greeted.exists(), "what is trusted runs");
        Ok(())
    });
}

#[test]
#[ignore = "tests Claude Code itself: ./test --all"]
fn a_claude_code_too_old_for_becket_works_as_before() {
    story(|given| {
        let story = given
            .on("say hi", [bash("echo hi there"), say("all done")])
            .registered(Becket::default().with_any_version())
            .begin()?;

        let run = story.print("say hi").run();

        assert_eq!(run.succeeded().text(), "all done");
        assert_eq!(story.model.turns()[1].tool_results()[0].text, "hi there");
        let heard = !story.events().is_empty();
        assert_eq!(heard, story.claude.is_at_least(TOLERANT));
        Ok(())
    });
}
