//! One test per transcript, doing what the recorded client did.

use becket_sdk::{
    Answer, Any, Builder, Claude, Event, EventName, Hook, Message, OnFailure, Permission,
    PermissionMode, PermissionRequest, PreToolUse, Stop, StopFailure, TurnResult,
};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::{Player, transcript};

/// What each message of the recorded turn is to the reader.
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

/// Plays a whole transcript: one prompt, and every message of the program reaches the reader.
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
    playing.await.expect("the transcript is played to its end");
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

/// The recorded client answered with a bare error; ours has its code before it.
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

/// The recorded client left the block to `onFailure`; ours refuses, and says why.
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

/// Claude Code gives up before the callback does: nothing is written after its cancel.
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

#[tokio::test]
async fn interrupt_while_a_hook_is_pending() {
    let (called, mut calls) = mpsc::unbounded_channel();
    let builder = Claude::builder().on(PreToolUse, "Bash", move |_, _| {
        called.send(()).expect("the test looks");
        std::future::pending()
    });
    let (player, mut claude) = Player::begin("interrupt_while_hook_pending", builder).await;
    let control = claude.control();
    let turn = claude.ask("BASHOK please").await.expect("ask");
    let user = serde_json::from_str(USER).expect("JSON");
    let playing = tokio::spawn(player.play(Some(user), |_, _| false));
    calls.recv().await.expect("a call");
    control.interrupt().await.expect("interrupt");
    assert!(turn.result().await.expect("a result").is_error());
    playing.await.expect("played").silent_so_far().await;
}

const USER: &str = r#"{"type": "user", "session_id": "", "parent_tool_use_id": null,
    "message": {"role": "user", "content": "BASHOK please"}}"#;

#[tokio::test]
async fn interrupt_while_the_model_speaks() {
    let builder = Claude::builder()
        .on(Stop, Any, |_, _| async { panic!("there is no Stop") })
        .on(StopFailure, Any, |_, _| async { panic!("nor a failure") });
    let (player, mut claude) = Player::begin("interrupt_while_model", builder).await;
    let mut turn = claude.ask("SLOW").await.expect("ask");
    let user = USER.replace("BASHOK please", "SLOW");
    let user = serde_json::from_str(&user).expect("JSON");
    let playing = tokio::spawn(player.play(Some(user), |_, _| false));
    let first = turn.next().await.expect("a message").expect("no error");
    assert!(matches!(first, Message::System(init) if init.subtype() == "init"));
    turn.interrupt().await.expect("interrupt");
    let result = turn.result().await.expect("a result");
    assert_eq!(result.terminal_reason(), Some("aborted_streaming"));
    playing.await.expect("played");
}

/// Every event that can be registered, and every request that the recorded client made.
#[tokio::test]
async fn normal() {
    let never = [
        "SessionStart",
        "SessionEnd",
        "Setup",
        "WorktreeCreate",
        "WorktreeRemove",
    ];
    let events = EventName::ALL
        .into_iter()
        .filter(|event| !never.contains(&event.as_str()));
    let builder = events.fold(Claude::builder(), |builder, event| {
        builder.on(event, Any, |_: Event, _| async { Ok(Answer::none()) })
    });
    let builder = builder.can_use_tool(|_, _| async { Ok(Permission::allow()) });
    let (player, mut claude) = Player::begin("normal", builder).await;
    let listing = serde_json::from_str(
        r#"{"type": "control_request", "request_id": "req_2_lab",
        "request": {"subtype": "get_hooks_listing"}}"#,
    );
    let playing = tokio::spawn(player.play(Some(listing.expect("JSON")), |_, _| false));
    let control = claude.control();
    control
        .request(json!({"subtype": "get_hooks_listing"}))
        .await
        .expect("a listing");
    let result = claude
        .ask("BASHOK please")
        .await
        .expect("ask")
        .result()
        .await;
    assert_eq!(result.expect("a result").text(), "Bash ran.");
    control
        .set_model("claude-sonnet-5-5")
        .await
        .expect("the model");
    control
        .set_permission_mode(PermissionMode::AcceptEdits)
        .await
        .expect("the mode");
    let root =
        json!({"subtype": "register_repo_root", "directory": "/home/user/project/other_root"});
    control.request(root).await.expect("the root");
    control
        .request(json!({"subtype": "mcp_status"}))
        .await
        .expect("the servers");
    playing.await.expect("the transcript is played to its end");
}
