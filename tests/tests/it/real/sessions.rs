//! Sessions and windows: resume, continue, fork, compaction, settings on the command line.

use becket_tests::claude::Scope;
use becket_tests::model::{Kind, bash, say};
use becket_tests::skip::Unavailable;
use becket_tests::story::{Hook, story};
use serde_json::json;

use super::answers::denied_because;

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
        // Before, the hooks were told of a resume, and the old session's id.
        let (fork, id) = match story.claude.is_at_least("2.1.260") {
            true => ("fork", forked.session()),
            false => ("resume", first),
        };
        assert_eq!(sources, ["startup", "resume", "resume", fork]);
        assert_eq!(starts[3]["session_id"], id);
        assert!(story.model.turns()[3].contains("first thing"));
        Ok(())
    });
}

#[test]
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
                .any(|request| request.kind == Kind::Compaction)
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
fn a_full_window_is_compacted_by_itself() {
    story(|given| {
        let full = bash("echo one").usage(990_000, 500);
        let story = given
            .on("first thing", [full])
            .on("They counted to one.", [say("and went on")])
            .script(|script| script.summary("They counted to one."))
            .begin()?;
        let claude = &story.claude;
        if claude.is_at_least("2.1.197") && !claude.is_at_least("2.1.325") {
            // Measured on 2.1.197 and 2.1.260; 2.1.139 and 2.1.325 do compact.
            let why = "does not compact by itself on the model's word alone";
            let version = &claude.version;
            return Err(Unavailable::new(format!("Claude Code {version} {why}")));
        }

        let run = story.print("first thing").run();

        assert_eq!(run.succeeded().text(), "and went on");
        let events = story.events();
        events.in_order(&["PostToolUse", "PreCompact", "SessionStart", "Stop"]);
        assert_eq!(events.only("PreCompact")["trigger"], "auto");
        assert_eq!(events.of("SessionStart")[1]["source"], "compact");
        Ok(())
    });
}

#[test]
fn settings_on_the_command_line_join_those_of_the_files() {
    story(|given| {
        let story = given
            .on("do it", [bash("echo it ran"), say("done")])
            .hook(Hook::on("Stop").label("user").scope(Scope::User))
            .hook(Hook::on("Stop").label("project"))
            .hook(Hook::on("Stop").label("local").scope(Scope::Local))
            .begin()?;
        let inline = Hook::on("PreToolUse").denies("by the command line");

        story
            .print("do it")
            .settings(&inline.settings(&story.home))
            .run()
            .succeeded();

        let result = &story.model.turns()[1].tool_results()[0].text;
        assert!(
            result.contains(denied_because(&story, "by the command line")),
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
fn all_hooks_can_be_switched_off() {
    story(|given| {
        let story = given.on("do it", [say("done")]).begin()?;
        story
            .print("do it")
            .settings(&json!({"disableAllHooks": true}))
            .run()
            .succeeded();
        assert!(story.events().is_empty(), "{:?}", story.events().names());
        Ok(())
    });
}

#[test]
fn instructions_and_commands_are_told() {
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
        // Before, the prompt came after its expansion.
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
