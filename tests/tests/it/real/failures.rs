//! Hooks that hang, crash or are not there, and a model that fails.

use becket_tests::model::{bash, error, say};
use becket_tests::skip::Unavailable;
use becket_tests::story::{Given, Hook, Story, story};

/// One tool call with this hook before it; what the model got back.
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
fn a_hook_that_hangs_lets_the_call_through() {
    story(|given| {
        let hangs = Hook::on("PreToolUse").held("never").with("timeout", 1);
        let (story, result) = result_of_call(given, hangs)?;
        assert_eq!(result, "it ran");
        assert_eq!(story.calls("PreToolUse").len(), 1);
        Ok(())
    });
}

#[test]
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
fn a_missing_hook_lets_the_call_through() {
    story(|given| {
        let (_, result) = result_of_call(given, Hook::on("PreToolUse").missing())?;
        assert_eq!(result, "it ran");
        Ok(())
    });
}

#[test]
fn a_missing_hook_blocks_the_call_where_it_should() {
    story(|given| {
        let missing = Hook::on("PreToolUse").missing().with("onFailure", "block");
        let (story, result) = result_of_call(given.needs(&["hook_on_failure_supported"]), missing)?;
        assert_ne!(result, "it ran");
        story.events().none_of("PostToolUse");
        Ok(())
    });
}

#[test]
fn a_hook_that_crashes_lets_the_call_through() {
    story(|given| {
        let (_, result) = result_of_call(given, Hook::on("PreToolUse").exits(1, "crashed"))?;
        assert_eq!(result, "it ran");
        Ok(())
    });
}

/// At the terminal: in print mode the program ends, and with it the hook, some 10 ms later.
#[test]
fn a_model_that_fails_ends_the_turn_without_a_stop() {
    story(|given| {
        let story = given
            .on(
                "do it",
                [error(400, "invalid_request_error", "no such thing")],
            )
            .needs(&["StopFailure"])
            .begin()?;
        let person = story.person()?;

        person.submits("do it");
        let failure = story.wait_event("StopFailure");
        person.ready();
        person.leaves();

        assert!(
            failure
                .text("last_assistant_message")
                .contains("no such thing")
        );
        story.events().none_of("Stop");
        Ok(())
    });
}

#[test]
fn a_model_that_is_busy_once_is_asked_again() {
    story(|given| {
        let busy = error(529, "overloaded_error", "busy").times(1);
        let story = given.on("do it", [busy, say("now")]).begin()?;

        let run = story.print("do it").run();

        assert_eq!(run.succeeded().text(), "now");
        assert_eq!(story.model.turns().len(), 2, "{}", story.so_far());
        story.events().none_of("StopFailure");
        Ok(())
    });
}
