//! A failed call has a text with a stable code, and other calls go on.

use std::fmt;
use std::time::Duration;

use becket_sdk::{Answer, Any, Builder, Claude, EventName, Hook, OnFailure, PreToolUse, Stop};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

use crate::peer::Peer;

/// Returns the error's text, or the reason of the refusal.
fn text(frame: &Value) -> &str {
    let response = &frame["response"];
    let reason = &response["response"]["hookSpecificOutput"]["permissionDecisionReason"];
    let text = response["error"].as_str().or(reason.as_str());
    text.unwrap_or_else(|| panic!("neither an error nor a refusal: {frame}"))
}

/// An error whose `Display` panics.
#[derive(Debug)]
struct Unprintable;

impl std::error::Error for Unprintable {}

impl fmt::Display for Unprintable {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        panic!("not printable")
    }
}

pub(crate) async fn failing(builder: Builder) -> String {
    let (mut peer, _claude, _) = Peer::initialized(builder).await;
    peer.call("r1", "hook_1").await;
    text(&peer.receive().await).to_owned()
}

#[tokio::test]
async fn each_failure_has_its_code() {
    let panics = Claude::builder().on(PreToolUse, Any, |_, _| async { panic!("by the test") });
    assert_eq!(
        failing(panics).await,
        "hook_panicked: hook_1 panicked: by the test"
    );
    let before = Claude::builder().on(PreToolUse, Any, |call, _| {
        let number: usize = call.tool_name.parse().expect("a number");
        async move { Ok(Answer::context(number.to_string())) }
    });
    assert!(
        failing(before)
            .await
            .starts_with("hook_panicked: hook_1 panicked: a number")
    );
    let error = Claude::builder().on(PreToolUse, Any, |_, _| async { Err("no disk".into()) });
    assert_eq!(failing(error).await, "hook_execution_error: no disk");
    let worse = Claude::builder().on(PreToolUse, Any, |_, _| async { Err(Unprintable.into()) });
    let why = "hook_panicked: hook_1 panicked: not printable";
    assert_eq!(failing(worse).await, why);
    let wrong = Claude::builder().on(PreToolUse, Any, |_, _| async { Ok(Answer::block("x")) });
    let why = "hook_execution_error: a PreToolUse event takes no block";
    assert_eq!(failing(wrong).await, why);
    let stray = Claude::builder().on(Stop, Any, |_, _| async { Ok(Answer::none()) });
    let why = "hook_execution_error: the callback is registered for Stop, and Claude Code sent PreToolUse";
    assert_eq!(failing(stray).await, why);
    assert_eq!(
        failing(Claude::builder()).await,
        "unknown_callback: no callback has the id hook_1"
    );
}

#[tokio::test]
async fn a_panic_does_not_affect_other_callbacks() {
    let builder = Claude::builder()
        .on(PreToolUse, Any, |_, _| async { panic!("by the test") })
        .on(PreToolUse, Any, |_, _| async { Ok(Answer::none()) });
    let (mut peer, _claude, _) = Peer::initialized(builder).await;
    for round in 0..3 {
        peer.call(&format!("bad{round}"), "hook_1").await;
        assert!(text(&peer.receive().await).starts_with("hook_panicked: "));
        peer.call(&format!("good{round}"), "hook_2").await;
        let response = peer.receive().await["response"].clone();
        assert_eq!(response["response"], json!({}), "{response}");
    }
}

#[tokio::test]
async fn an_event_that_cannot_be_read_is_the_calls_failure() {
    let builder = Claude::builder().on(PreToolUse, Any, |_, _| async { Ok(Answer::none()) });
    let (mut peer, _claude, _) = Peer::initialized(builder).await;
    let nameless = json!({"hook_event_name": "PreToolUse", "tool_input": {}});
    peer.call_with("r1", "hook_1", nameless).await;
    let frame = peer.receive().await;
    assert!(
        text(&frame).starts_with("hook_execution_error: "),
        "{frame}"
    );
    assert!(text(&frame).contains("tool_name"), "{frame}");
}

/// The shortest limit that was set for client, callback or turn counts.
#[tokio::test(start_paused = true)]
async fn the_shortest_limit_of_client_callback_and_turn_counts() {
    let never = |_, _| std::future::pending();
    let builder = Claude::builder()
        .timeout(Duration::from_secs(20))
        .on(PreToolUse, Any, never)
        .hook(Hook::new(PreToolUse, Any, never).timeout(Duration::from_secs(40)));
    let (mut peer, mut claude, _) = Peer::initialized(builder).await;
    assert_eq!(seconds(&mut peer, "hook_1").await, 20);
    assert_eq!(seconds(&mut peer, "hook_2").await, 40);
    let turn = claude
        .ask("look")
        .deadline(Duration::from_secs(5))
        .await
        .expect("ask");
    peer.receive().await;
    assert_eq!(seconds(&mut peer, "hook_2").await, 5);
    assert_eq!(
        seconds(&mut peer, "hook_1").await,
        0,
        "nothing is left of the deadline"
    );
    drop(turn);
    assert_eq!(peer.receive().await["request"]["subtype"], "interrupt");
    assert_eq!(
        seconds(&mut peer, "hook_1").await,
        20,
        "between turns there is none"
    );
}

/// A longer deadline replaces only the default.
#[tokio::test(start_paused = true)]
async fn a_deadline_may_be_longer_than_the_default_timeout() {
    let never = |_, _| std::future::pending();
    let builder = Claude::builder()
        .on(PreToolUse, Any, never)
        .hook(Hook::new(PreToolUse, Any, never).timeout(Duration::from_secs(40)));
    let (mut peer, mut claude, _) = Peer::initialized(builder).await;
    assert_eq!(seconds(&mut peer, "hook_1").await, 30);
    let limit = Duration::from_secs(100);
    let _turn = claude.ask("look").deadline(limit).await.expect("ask");
    peer.receive().await;
    assert_eq!(seconds(&mut peer, "hook_2").await, 40);
    assert_eq!(seconds(&mut peer, "hook_1").await, 60, "what is left of it");
}

#[tokio::test]
async fn the_failure_function_is_called_for_a_failed_callback() {
    let (failed, mut failures) = mpsc::unbounded_channel();
    let hook = Hook::new(Stop, Any, |_, _| async { Err("no disk".into()) });
    let builder = Claude::builder()
        .hook(hook.on_failure(OnFailure::Open))
        .on(PreToolUse, Any, |_, _| async { Ok(Answer::block("x")) })
        .can_use_tool(|_, _| async { panic!("by the test") })
        .on_callback_failure(move |ctx, failure| {
            let failure = (ctx.callback_id.clone(), failure.code());
            failed.send(failure).expect("the test looks");
            panic!("this changes nothing");
        });
    let (mut peer, _claude, _) = Peer::initialized(builder).await;
    let stop = json!({"hook_event_name": "Stop"});
    peer.call_with("r1", "hook_1", stop).await;
    assert_eq!(peer.receive().await["response"]["subtype"], "error");
    peer.call("r2", "hook_2").await;
    text(&peer.receive().await);
    let body = json!({"subtype": "can_use_tool", "tool_name": "Bash", "input": {}});
    peer.send(&json!({"type": "control_request", "request_id": "r3", "request": body}))
        .await;
    peer.receive().await;
    for expected in [
        ("hook_1", "hook_execution_error"),
        ("hook_2", "hook_execution_error"),
        ("can_use_tool", "hook_panicked"),
    ] {
        let failure = timeout(Duration::from_secs(60), failures.recv()).await;
        let (id, code) = failure.expect("it is told").expect("a failure");
        assert_eq!((&*id, code), expected);
    }
}

async fn seconds(peer: &mut Peer, callback: &str) -> u64 {
    let before = Instant::now();
    peer.call("r", callback).await;
    let frame = peer.receive().await;
    assert!(text(&frame).starts_with("hook_timeout: "), "{frame}");
    before.elapsed().as_secs()
}

/// Fields that a command hook may print on every event are taken. The field that runs a hook in the
/// background is for command hooks only.
#[test]
fn an_answer_as_json_takes_what_every_command_hook_prints() {
    for event in EventName::ALL {
        let common = json!({"continue": true, "suppressOutput": true, "systemMessage": "x"});
        let checked = Answer::json(common).check(&event);
        let checked = checked.unwrap_or_else(|error| panic!("{event}: {error}"));
        assert_eq!(checked, json!({"systemMessage": "x"}), "{event}");
        let refused = Answer::json(json!({"async": true})).check(&event);
        let error = refused.expect_err("a callback is no process").to_string();
        assert!(error.contains("takes no `async`"), "{error}");
    }
}
