//! Subagents, in front and behind: one session, told apart by `agent_id` alone.

use becket_tests::model::{agent, bash, behind, say};
use becket_tests::story::{Event, story};

#[test]
fn a_subagent_acts_under_an_id_of_its_own() {
    story(|given| {
        let story = given
            .on(
                "delegate",
                [
                    agent("general-purpose", "count the sheep"),
                    say("delegated"),
                ],
            )
            .on("count the sheep", [bash("echo three sheep"), say("three")])
            .begin()?;

        story.print("delegate").run().succeeded();

        let events = story.events();
        let id = events.only("SubagentStart").text("agent_id").to_owned();
        assert!(!id.is_empty());
        let its = events.that(|event| event["agent_id"] == id);
        its.in_order(&["SubagentStart", "PreToolUse", "PostToolUse", "SubagentStop"]);
        let main = events.of_main();
        main.in_order(&["UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop"]);
        assert_eq!(main.only("PreToolUse")["tool_name"], "Agent");
        assert_eq!(its.only("SubagentStop")["last_assistant_message"], "three");
        let session = |event: &Event| event.text("session_id").to_owned();
        assert!(
            events
                .iter()
                .all(|event| session(event) == session(&events[0]))
        );
        assert!(
            story
                .model
                .turns()
                .last()
                .is_some_and(|last| last.contains("three"))
        );
        Ok(())
    });
}

#[test]
fn a_subagent_behind_reports_by_a_prompt_of_its_own() {
    story(|given| {
        let story = given
            .on(
                "send it off",
                [behind("general-purpose", "count the sheep"), say("sent")],
            )
            .on("count the sheep", [bash("echo three sheep"), say("three")])
            .on("task-notification", [say("it is back")])
            .begin()?;

        story.print("send it off").run().succeeded();

        let events = story.events();
        let id = events.only("SubagentStart").text("agent_id").to_owned();
        let its = events.that(|event| event["agent_id"] == id);
        its.in_order(&["SubagentStart", "PreToolUse", "PostToolUse", "SubagentStop"]);
        let prompts = events.of("UserPromptSubmit");
        assert!(prompts[1].text("prompt").contains("<task-notification>"));
        Ok(())
    });
}
