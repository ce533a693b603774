//! A callback that fails is answered by its policy, and everything else goes on.

use std::future::pending;
use std::time::Duration;

use becket_sdk::{Answer, Any, Hook, Message, OnFailure, PostToolUse, PreToolUse, Stop};
use becket_tests::model::{bash, say};
use becket_tests::story::{Story, story};
use serde_json::json;

use super::{all, begin, claude, run};

/// Runs one Bash call with this hook and a second, healthy one; gives the messages.
fn run_with(story: &Story, hook: Hook) -> Vec<Message> {
    run(async {
        let mut claude = claude(story)
            .hook(hook)
            .on(Stop, Any, |_, _| async {
                Ok(Answer::none().with_message("still here"))
            })
            .start()
            .await
            .expect("start");
        all(claude.ask("look").await.expect("ask")).await
    })
}

/// The tool's result that the model got.
fn tool_result(story: &Story) -> (bool, String) {
    let result = story.model.turns()[1].tool_results()[0].clone();
    (result.is_error, result.text)
}

/// Claude Code's own warning that a callback failed.
fn warned(messages: &[Message]) -> bool {
    messages
        .iter()
        .any(|message| message.json()["tag"] == "hook_callback_failed")
}

macro_rules! story_of {
    ($given:ident) => {
        begin($given.on("look", [bash("echo ran"), say("done")]))?
    };
}

#[test]
fn a_panic_is_that_calls_failure() {
    story(|given| {
        let story = story_of!(given);
        run_with(
            &story,
            Hook::new(PreToolUse, "Bash", |call, _| async move {
                assert_eq!(call.tool_name, "Read", "the test panics");
                Ok(Answer::none())
            }),
        );
        let (is_error, text) = tool_result(&story);
        assert!(
            is_error && text.contains("hook_panicked: hook_1 panicked: "),
            "{text}"
        );
        assert!(text.contains("the test panics"), "{text}");
        Ok(())
    });
}

#[test]
fn a_hanging_callback_is_refused_in_time() {
    story(|given| {
        let story = story_of!(given);
        let hook =
            Hook::new(PreToolUse, "Bash", |_, _| pending()).timeout(Duration::from_millis(300));
        let messages = run_with(&story, hook);
        let (is_error, text) = tool_result(&story);
        let ours = "hook_timeout: hook_1 did not answer within 300ms";
        assert!(is_error && text.contains(ours), "{text}");
        assert!(!warned(&messages), "we answered before Claude Code gave up");
        Ok(())
    });
}

#[test]
fn an_open_hook_that_hangs_lets_the_call_go_on() {
    story(|given| {
        let story = story_of!(given);
        let hook = Hook::new(PreToolUse, "Bash", |_, _| pending())
            .timeout(Duration::from_millis(300))
            .on_failure(OnFailure::Open);
        let messages = run_with(&story, hook);
        assert_eq!(tool_result(&story), (false, "ran".to_owned()));
        assert!(warned(&messages), "{messages:?}");
        Ok(())
    });
}

#[test]
fn garbage_is_not_sent() {
    let wrong = [
        (
            Answer::json(json!("yes")),
            "the answer is JSON, but no object",
        ),
        (
            Answer::json(json!({"continue": "no"})),
            "continue must be true or false",
        ),
        (
            Answer::json(json!({"hookSpecificOutput": {"hookEventName": "Stop"}})),
            "the hook answered \"Stop\" to PreToolUse",
        ),
        (Answer::block("x"), "a PreToolUse event takes no block"),
    ];
    for (answer, why) in wrong {
        story(|given| {
            let story = story_of!(given);
            run_with(
                &story,
                Hook::new(PreToolUse, "Bash", move |_, _| {
                    let answer = answer.clone();
                    async move { Ok(answer) }
                }),
            );
            let (is_error, text) = tool_result(&story);
            assert!(
                is_error && text.contains("hook_execution_error: "),
                "{text}"
            );
            assert!(text.contains(why), "{text}");
            Ok(())
        });
    }
}

#[test]
fn an_error_after_the_call_changes_nothing_but_is_shown() {
    story(|given| {
        let story = story_of!(given);
        let messages = run_with(
            &story,
            Hook::new(PostToolUse, Any, |_, _| async {
                Err("the log is full".into())
            }),
        );
        assert_eq!(tool_result(&story), (false, "ran".to_owned()));
        assert!(warned(&messages), "{messages:?}");
        Ok(())
    });
}

/// A turn's deadline bounds its callbacks, and not those of the next turn.
#[test]
fn a_turn_may_have_a_deadline() {
    story(|given| {
        let given = given.on("slowly", [bash("echo slow"), say("done")]);
        let story = begin(given.on("again", [bash("echo again"), say("done")]))?;
        run(async {
            let mut claude = claude(&story)
                .on(PreToolUse, Any, |call, _| async move {
                    if call.tool_input["command"] == "echo slow" {
                        pending::<()>().await;
                    }
                    Ok(Answer::none())
                })
                .start()
                .await
                .expect("start");
            let turn = claude.ask("slowly").deadline(Duration::from_secs(1)).await;
            turn.expect("ask").result().await.expect("a result");
            all(claude.ask("again").await.expect("ask")).await;
        });
        let turns = story.model.turns();
        let text = &turns[1].tool_results()[0].text;
        assert!(text.contains("hook_timeout: "), "{text}");
        assert_eq!(turns[3].tool_results()[0].text, "again");
        Ok(())
    });
}
