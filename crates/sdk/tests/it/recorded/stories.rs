//! One test per transcript, which repeats the steps of the recorded client.

use becket_sdk::{
    Answer, Any, Builder, Claude, Hook, Message, OnFailure, Permission, PermissionRequest,
    PreToolUse, Stop, TurnResult,
};
use serde_json::{Value, json};

use super::{Player, transcript};

/// Returns the type of each message of the recorded turn.
fn kinds(name: &str) -> Vec<Value> {
    let frames = transcript(name)
        .into_iter()
        .filter(|recorded| recorded.from_cli);
    let frames = frames.map(|recorded| recorded.frame);
    let mut messages: Vec<Value> = frames
        .filter(|frame| {
            !frame["type"]
                .as_str()
                .expect("a type")
                .starts_with("control_")
        })
        .collect();
    let end = messages
        .iter()
        .position(|message| message["type"] == "result");
    messages.truncate(end.expect("a result") + 1);
    messages
}

/// Plays a whole transcript with one prompt, and checks that every message reaches the reader.
async fn play(name: &str, prompt: &str, builder: Builder) -> TurnResult {
    play_with(name, prompt, builder, |_, _| false).await
}

async fn play_with(
    name: &str,
    prompt: &str,
    builder: Builder,
    differs: impl Fn(&Value, &Value) -> bool + Send + 'static,
) -> TurnResult {
    let (player, mut claude) = Player::begin(name, builder).await;
    let mut turn = claude.ask(prompt).await.expect("ask");
    let user = json!({
        "type": "user", "session_id": "", "parent_tool_use_id": null,
        "message": {"role": "user", "content": prompt},
    });
    let playing = tokio::spawn(player.play(Some(user), differs));
    let mut messages = Vec::new();
    while let Some(message) = turn.next().await {
        messages.push(message.expect("a message"));
    }
    let json: Vec<&Value> = messages.iter().map(Message::json).collect();
    assert_eq!(json, kinds(name).iter().collect::<Vec<_>>());
    let mut peer = playing.await.expect("the transcript is played to its end");
    peer.silent_so_far().await;
    match messages.pop() {
        Some(Message::Result(result)) => result,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn hook_deny() {
    let builder = Claude::builder().on(PreToolUse, "Bash", |_, _| async {
        Ok(Answer::deny("SDK-DENY"))
    });
    let result = play("hook_deny", "BASHOK please", builder).await;
    assert!(!result.is_error());
}

/// The recorded client answered with the error alone; the SDK puts a code before it.
fn is_error_with_code(recorded: &Value, sent: &Value) -> bool {
    recorded["response"]["error"] == "LAB-CALLBACK-ERROR"
        && sent["response"]["error"] == "hook_execution_error: LAB-CALLBACK-ERROR"
        && sent["response"]["request_id"] == recorded["response"]["request_id"]
}

#[tokio::test]
async fn hook_errors_that_are_open() {
    for name in ["hook_error_None", "hook_error_continue"] {
        let hook = Hook::new(PreToolUse, "Bash", |_, _| async {
            Err("LAB-CALLBACK-ERROR".into())
        });
        let builder = Claude::builder().hook(hook.on_failure(OnFailure::Open));
        play_with(name, "BASHOK please", builder, is_error_with_code).await;
    }
}

/// The recorded client left the block to `onFailure`; the SDK refuses with a reason.
#[tokio::test]
async fn hook_error_that_blocks() {
    let builder = Claude::builder().on(PreToolUse, "Bash", |_, _| async {
        Err("LAB-CALLBACK-ERROR".into())
    });
    play_with(
        "hook_error_block",
        "BASHOK please",
        builder,
        |recorded, sent| {
            let own = &sent["response"]["response"]["hookSpecificOutput"];
            recorded["response"]["error"] == "LAB-CALLBACK-ERROR"
                && own["permissionDecision"] == "deny"
                && own["permissionDecisionReason"] == "hook_execution_error: LAB-CALLBACK-ERROR"
        },
    )
    .await;
}

/// Claude Code gives up before the callback does: nothing is written after the cancellation.
#[tokio::test]
async fn hook_no_answer() {
    let builder = Claude::builder().on(PreToolUse, "Bash", |_, _| std::future::pending());
    play("hook_no_answer_timeout_2s", "BASHOK please", builder).await;
}

#[tokio::test]
async fn can_use_tool() {
    let builder = Claude::builder()
        .on(PreToolUse, Any, |_, _| async { Ok(Answer::none()) })
        .on(PermissionRequest, Any, |_, _| async { Ok(Answer::none()) })
        .can_use_tool(|request, _| async move {
            assert_eq!(request.permission_suggestions.len(), 1);
            Ok(match request.input["command"].as_str() {
                Some("python3 -c 'print(1)'") => {
                    Permission::allow_with(json!({"command": "echo CHANGED"}))
                }
                _ => Permission::deny("LAB-NO"),
            })
        });
    play("can_use_tool", "PYRUN", builder).await;
}

#[tokio::test]
async fn callbacks_beside_hooks_of_the_settings() {
    let builder = Claude::builder()
        .on(PreToolUse, Any, |_, _| async { Ok(Answer::none()) })
        .on(Stop, Any, |_, _| async { Ok(Answer::none()) });
    play("sdk_and_settings_hooks", "BASHOK please", builder).await;
}
