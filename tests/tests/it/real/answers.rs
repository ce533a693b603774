//! What a hook may answer, and that it takes effect: denial, context, a stop that is blocked.

use becket_tests::model::{bash, say};
use becket_tests::story::{Hook, Story, story};
use serde_json::json;

/// What the model reads of a denial. With several hooks, an early version lost the reason of one
/// that was not the last to answer.
pub(super) fn denied_because<'a>(story: &Story, reason: &'a str) -> &'a str {
    match story.claude.is_at_least("2.1.139") {
        true => reason,
        false => "",
    }
}

#[test]
fn a_denial_by_json_tells_the_model_why() {
    story(|given| {
        let story = given
            .on("look around", [bash("echo secret"), say("could not")])
            .hook(Hook::on("PreToolUse").denies("not on my ship"))
            .begin()?;

        story.print("look around").run().succeeded();

        let result = &story.model.turns()[1].tool_results()[0];
        let because = denied_because(&story, "not on my ship");
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
fn a_denial_by_exit_code_shows_the_command_line_too() {
    story(|given| {
        let story = given
            .on("look around", [bash("echo secret"), say("could not")])
            .hook(Hook::on("PreToolUse").exits(2, "not on my ship"))
            .begin()?;

        story
            .print("look around")
            .mode("bypassPermissions")
            .run()
            .succeeded();

        let result = &story.model.turns()[1].tool_results()[0];
        assert!(
            result.is_error && result.text.contains("not on my ship"),
            "{result:?}"
        );
        assert!(result.text.contains("becket-recorder"), "{result:?}");
        story.events().none_of("PostToolUse");
        Ok(())
    });
}

#[test]
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
fn context_without_the_event_name_is_dropped() {
    story(|given| {
        let nameless = json!({"hookSpecificOutput": {"additionalContext": "the tide is high"}});
        let story = given
            .on("look around", [say("done")])
            .hook(Hook::on("UserPromptSubmit").answers(&nameless))
            .begin()?;

        story.print("look around").run().succeeded();

        assert!(!story.model.turns()[0].contains("the tide is high"));
        Ok(())
    });
}

#[test]
fn a_blocked_prompt_never_reaches_the_model() {
    story(|given| {
        let story = given
            .on("look around", [say("done")])
            .hook(Hook::on("UserPromptSubmit").blocks("not today"))
            .begin()?;

        let run = story.print("look around").run();

        assert!(story.model.turns().is_empty(), "{}", story.so_far());
        // Before, the result was empty.
        if story.claude.is_at_least("2.1.197") {
            assert!(run.text().contains("not today"), "{run:?}");
        }
        Ok(())
    });
}

#[test]
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
        assert_eq!(turns.len(), 3, "{}", story.so_far());
        assert!(!turns[0].contains("there is more to do"));
        assert!(turns[1].contains("Stop hook feedback:\nthere is more to do"));
        Ok(())
    });
}

#[test]
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
fn a_hook_that_ends_the_turn_is_obeyed() {
    story(|given| {
        let story = given
            .on("do it", [bash("echo one"), say("never said")])
            .hook(
                Hook::on("PostToolUse")
                    .answers(&json!({"continue": false, "stopReason": "enough"})),
            )
            .begin()?;

        let run = story.print("do it").run();

        assert_eq!(run.result()["terminal_reason"], "hook_stopped");
        assert_eq!(story.model.turns().len(), 1, "{}", story.so_far());
        Ok(())
    });
}
