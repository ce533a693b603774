//! A client that is closed while background tasks run.

use std::time::Duration;

use becket_sdk::{Builder, Claude, Error};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::peer::Peer;
use crate::turns::{answer, autonomous, result};

fn system(subtype: &str, rest: Value) -> Value {
    let mut message = rest;
    message["type"] = "system".into();
    message["subtype"] = subtype.into();
    message
}

fn started(id: &str) -> Value {
    let description = format!("task {id}");
    system(
        "task_started",
        json!({"task_id": id, "description": description}),
    )
}

fn ended(id: &str) -> Value {
    system(
        "task_notification",
        json!({"task_id": id, "status": "completed"}),
    )
}

fn state(state: &str) -> Value {
    system("session_state_changed", json!({"state": state}))
}

/// Makes a client that gets one prompt and is closed, and a peer that has received the prompt.
async fn closing(builder: Builder) -> (Peer, Value, JoinHandle<Result<(), Error>>) {
    let (mut peer, mut claude, _) = Peer::initialized(builder).await;
    let closing = tokio::spawn(async move {
        claude.ask("one").await?.result().await?;
        claude.close().await
    });
    let prompt = peer.receive().await;
    (peer, prompt, closing)
}

#[tokio::test(start_paused = true)]
async fn close_waits_until_each_task_has_had_its_turn() {
    let (mut peer, prompt, closing) = closing(Claude::builder()).await;
    peer.send(&state("running")).await;
    for id in ["a", "b"] {
        peer.send(&started(id)).await;
    }
    let watcher = json!({"task_id": "w", "description": "watches", "ambient": true});
    peer.send(&system("task_started", watcher)).await;
    peer.send(&answer("launched", &[&prompt])).await;
    for message in [state("idle"), ended("a"), state("running")] {
        peer.send(&message).await;
    }
    for message in [autonomous("a is done"), state("idle"), ended("b")] {
        peer.send(&message).await;
    }
    peer.silent_so_far().await;
    assert!(!closing.is_finished(), "nothing was said of b yet");
    for message in [state("running"), autonomous("b is done")] {
        peer.send(&message).await;
    }
    peer.silent_so_far().await;
    peer.send(&state("idle")).await;
    peer.input_closed().await;
    closing.await.expect("join").expect("close");
}

/// No further turn follows for a task that ended while a turn ran and was reported in that turn.
#[tokio::test(start_paused = true)]
async fn close_does_not_wait_for_a_task_that_was_reported_in_the_turn() {
    let (mut peer, prompt, closing) = closing(Claude::builder()).await;
    let before = Instant::now();
    for message in [state("running"), started("a"), ended("a")] {
        peer.send(&message).await;
    }
    peer.send(&answer("all done", &[&prompt])).await;
    peer.silent_so_far().await;
    assert!(!closing.is_finished(), "a turn of its own may follow");
    peer.send(&state("idle")).await;
    peer.input_closed().await;
    closing.await.expect("join").expect("close");
    assert_eq!(before.elapsed().as_secs(), 0);
}

/// The list of tasks replaces the missing notification of an end.
#[tokio::test(start_paused = true)]
async fn a_task_that_is_no_longer_listed_has_ended() {
    let (mut peer, prompt, closing) = closing(Claude::builder()).await;
    peer.send(&state("running")).await;
    let listed = json!({"tasks": [{"task_id": "a", "description": "task a"}]});
    peer.send(&system("background_tasks_changed", listed)).await;
    peer.send(&answer("launched", &[&prompt])).await;
    peer.send(&state("idle")).await;
    peer.silent_so_far().await;
    assert!(!closing.is_finished(), "it runs");
    peer.send(&system("background_tasks_changed", json!({"tasks": []})))
        .await;
    peer.send(&state("idle")).await;
    peer.input_closed().await;
    closing.await.expect("join").expect("close");
}

#[tokio::test(start_paused = true)]
async fn after_the_time_limit_the_input_is_closed_and_the_error_names_the_tasks() {
    let bound = Duration::from_secs(90);
    let builder = Claude::builder().background_wait(bound);
    let (mut peer, prompt, closing) = closing(builder).await;
    let before = Instant::now();
    for message in [state("running"), started("a"), started("b"), ended("b")] {
        peer.send(&message).await;
    }
    peer.send(&answer("launched", &[&prompt])).await;
    peer.input_closed().await;
    assert_eq!(before.elapsed().as_secs(), 90);
    let error = closing.await.expect("join").expect_err("they run");
    assert_eq!(
        error.to_string(),
        "background tasks are not done after 90s: task a, task b\nhint: Builder::background_wait"
    );
}

#[tokio::test(start_paused = true)]
async fn with_a_wait_of_zero_close_does_not_wait() {
    let builder = Claude::builder().background_wait(Duration::ZERO);
    let (mut peer, prompt, closing) = closing(builder).await;
    peer.send(&started("a")).await;
    peer.send(&answer("launched", &[&prompt])).await;
    peer.input_closed().await;
    closing.await.expect("join").expect("close");
}

/// Versions before 2.1.101 do not report when they are idle.
#[tokio::test(start_paused = true)]
async fn without_idle_messages_the_next_result_is_that_of_the_task() {
    let (mut peer, _, closing) = closing(Claude::builder()).await;
    peer.send(&started("a")).await;
    peer.send(&result("launched")).await;
    peer.send(&ended("a")).await;
    peer.silent_so_far().await;
    assert!(!closing.is_finished(), "nothing was said of it yet");
    peer.send(&result("a is done")).await;
    peer.input_closed().await;
    closing.await.expect("join").expect("close");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_waits_for_tasks_notices_the_end_of_claude_code() {
    let (mut peer, prompt, closing) = closing(Claude::builder()).await;
    peer.send(&started("a")).await;
    peer.send(&answer("launched", &[&prompt])).await;
    peer.silent_so_far().await;
    peer.hang_up().await;
    let closed = closing.await.expect("join");
    assert!(matches!(closed, Err(Error::Ended { .. })), "{closed:?}");
}
