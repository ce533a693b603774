//! The transcripts in which the recorded client interrupted.

use becket_sdk::{Any, Claude, Message, PreToolUse, Stop, StopFailure};
use tokio::sync::mpsc;

use super::Player;

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
async fn interrupt_while_the_model_answers() {
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
