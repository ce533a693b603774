//! The ends of a call: completed, timed out, cancelled, or both. Time is virtual here.

use std::time::Duration;

use becket_sdk::{Answer, Any, Claude, Ended, Hook, OnFailure, PreToolUse};
use serde_json::json;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::peer::{Hanging, Peer};

type Calls = mpsc::UnboundedReceiver<oneshot::Receiver<Option<Ended>>>;

/// Makes a hook that never answers. The channel gets a receiver for each call.
fn hanging() -> (Hook, Calls) {
    let (called, calls) = mpsc::unbounded_channel();
    let hook = Hook::new(PreToolUse, "Bash", move |_, ctx| {
        let (hanging, ended) = Hanging::new(ctx);
        called.send(ended).expect("a test that looks");
        async move {
            let _hanging = hanging;
            std::future::pending().await
        }
    });
    (hook, calls)
}

#[tokio::test(start_paused = true)]
async fn completes() {
    let hook = Hook::new(PreToolUse, "Bash", |call, ctx| async move {
        assert_eq!(ctx.ended(), None);
        assert_eq!((ctx.deadline - Instant::now()).as_secs(), 30);
        Ok(Answer::deny(format!("not {}", call.tool_input["command"])))
    });
    let (mut peer, _claude, _) = Peer::initialized(Claude::builder().hook(hook)).await;
    peer.call("r1", "hook_1").await;
    let response = json!({"hookSpecificOutput": {
        "hookEventName": "PreToolUse", "permissionDecision": "deny",
        "permissionDecisionReason": "not \"ls\"",
    }});
    assert_eq!(
        peer.receive().await,
        json!({"type": "control_response", "response": {
            "subtype": "success", "request_id": "r1", "response": response,
        }})
    );
}

#[tokio::test(start_paused = true)]
async fn times_out() {
    let (hook, mut calls) = hanging();
    let hook = hook.on_failure(OnFailure::Open);
    let (mut peer, _claude, _) = Peer::initialized(Claude::builder().hook(hook)).await;
    let before = Instant::now();
    peer.call("r1", "hook_1").await;
    let response = peer.receive().await["response"].clone();
    assert_eq!(before.elapsed().as_secs(), 30);
    assert_eq!(response["subtype"], "error");
    assert_eq!(
        response["error"],
        "hook_timeout: hook_1 did not answer within 30s"
    );
    let ended = calls.recv().await.expect("a call").await;
    assert_eq!(ended, Ok(Some(Ended::TimedOut)), "its future is dropped");
}

/// The callback blocks the only thread, so its answer and its deadline are noticed at the same time.
#[tokio::test]
async fn an_answer_after_the_deadline_is_too_late() {
    let hook = Hook::new(PreToolUse, Any, |_, ctx| {
        while Instant::now() <= ctx.deadline {
            std::hint::spin_loop();
        }
        async { Ok(Answer::none()) }
    });
    let hook = hook.timeout(Duration::from_millis(20));
    let (mut peer, _claude, _) = Peer::initialized(Claude::builder().hook(hook)).await;
    peer.call("r1", "hook_1").await;
    let response = peer.receive().await["response"]["response"].clone();
    let own = &response["hookSpecificOutput"];
    assert_eq!(own["permissionDecision"], "deny", "{response}");
}

#[tokio::test(start_paused = true)]
async fn a_closed_hook_that_times_out_refuses() {
    let (hook, _calls) = hanging();
    let (mut peer, _claude, _) = Peer::initialized(Claude::builder().hook(hook)).await;
    peer.call("r1", "hook_1").await;
    let response = peer.receive().await["response"].clone();
    assert_eq!(response["subtype"], "success");
    let own = &response["response"]["hookSpecificOutput"];
    assert_eq!(own["permissionDecision"], "deny");
    let reason = "hook_timeout: hook_1 did not answer within 30s";
    assert_eq!(own["permissionDecisionReason"], reason);
}

#[tokio::test(start_paused = true)]
async fn cancelled_with_the_stream() {
    let (hook, mut calls) = hanging();
    let (mut peer, mut claude, _) = Peer::initialized(Claude::builder().hook(hook)).await;
    let turn = claude.ask("look").await.expect("ask");
    assert_eq!(peer.receive().await["type"], "user");
    peer.call("r1", "hook_1").await;
    let ended = calls.recv().await.expect("a call");
    drop(turn);
    assert_eq!(ended.await, Ok(Some(Ended::Cancelled)), "cleanup runs");
    assert_eq!(peer.receive().await["request"]["subtype"], "interrupt");
    peer.silent_so_far().await;
}

#[tokio::test(start_paused = true)]
async fn cancelled_by_claude_code() {
    let (hook, mut calls) = hanging();
    let (mut peer, _claude, _) = Peer::initialized(Claude::builder().hook(hook)).await;
    peer.call("r1", "hook_1").await;
    peer.call("r2", "hook_1").await;
    let (first, mut second) = (calls.recv().await.unwrap(), calls.recv().await.unwrap());
    peer.cancel("r1").await;
    assert_eq!(first.await, Ok(Some(Ended::Cancelled)));
    assert!(second.try_recv().is_err(), "the other call goes on");
    peer.silent_so_far().await;
}

#[tokio::test(start_paused = true)]
async fn cancelled_with_the_client() {
    let (hook, mut calls) = hanging();
    let (mut peer, claude, _) = Peer::initialized(Claude::builder().hook(hook)).await;
    peer.call("r1", "hook_1").await;
    let ended = calls.recv().await.expect("a call");
    drop(claude);
    assert_eq!(ended.await, Ok(Some(Ended::Cancelled)));
}

#[tokio::test(start_paused = true)]
async fn cancelled_with_the_program() {
    let (hook, mut calls) = hanging();
    let (mut peer, _claude, _) = Peer::initialized(Claude::builder().hook(hook)).await;
    peer.call("r1", "hook_1").await;
    let ended = calls.recv().await.expect("a call");
    peer.hang_up().await;
    assert_eq!(ended.await, Ok(Some(Ended::Cancelled)));
}

/// Tasks that the callback started are not dropped with its future, so they need the token.
#[tokio::test(start_paused = true)]
async fn tasks_of_a_callback_see_why_it_ended() {
    let (seen, mut ends) = mpsc::unbounded_channel();
    let builder = Claude::builder().on(PreToolUse, Any, move |_, ctx| {
        let seen = seen.clone();
        seen.send(None).expect("the test looks");
        tokio::spawn(async move {
            ctx.cancellation.cancelled().await;
            seen.send(ctx.ended()).expect("the test looks");
        });
        std::future::pending()
    });
    let (mut peer, _claude, _) = Peer::initialized(builder).await;
    peer.call("r1", "hook_1").await;
    assert_eq!(ends.recv().await, Some(None), "it runs");
    assert_eq!(ends.recv().await, Some(Some(Ended::TimedOut)));
    peer.call("r2", "hook_1").await;
    assert_eq!(ends.recv().await, Some(None), "it runs");
    peer.cancel("r2").await;
    assert_eq!(ends.recv().await, Some(Some(Ended::Cancelled)));
}

/// The first of cancellation and deadline counts: after a cancellation the deadline has no effect.
#[tokio::test(start_paused = true)]
async fn cancelled_then_timed_out() {
    let (hook, mut calls) = hanging();
    let (mut peer, _claude, _) = Peer::initialized(Claude::builder().hook(hook)).await;
    peer.call("r1", "hook_1").await;
    let ended = calls.recv().await.expect("a call");
    tokio::time::advance(Duration::from_millis(29_900)).await;
    peer.cancel("r1").await;
    assert_eq!(ended.await, Ok(Some(Ended::Cancelled)));
    tokio::time::advance(Duration::from_secs(60)).await;
    peer.silent_so_far().await;
}

#[tokio::test(start_paused = true)]
async fn timed_out_then_cancelled() {
    let (hook, mut calls) = hanging();
    let (mut peer, _claude, _) = Peer::initialized(Claude::builder().hook(hook)).await;
    peer.call("r1", "hook_1").await;
    let frame = peer.receive().await;
    assert_eq!(frame["response"]["request_id"], "r1");
    peer.cancel("r1").await;
    let ended = calls.recv().await.expect("a call").await;
    assert_eq!(ended, Ok(Some(Ended::TimedOut)));
    peer.silent_so_far().await;
}
