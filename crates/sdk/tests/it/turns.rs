//! The borders of turns: messages and results belong to the right prompt.

use std::time::Duration;

use becket_sdk::{Answer, Any, Claude, Error, Events, Message, PreToolUse};
use serde_json::{Value, json};

use crate::peer::Peer;

pub(crate) fn assistant(text: &str) -> Value {
    json!({"type": "assistant", "message": {"content": [{"type": "text", "text": text}]}})
}

pub(crate) fn result(text: &str) -> Value {
    json!({"type": "result", "subtype": "success", "result": text})
}

#[tokio::test]
async fn a_turn_ends_with_its_result() {
    let (mut peer, mut claude, _) = Peer::initialized(Claude::builder()).await;
    for (prompt, words) in [("one", "first"), ("two", "second")] {
        let mut turn = claude.ask(prompt).await.expect("ask");
        assert_eq!(peer.receive().await["message"]["content"], prompt);
        peer.send(&assistant(words)).await;
        peer.send(&result(words)).await;
        let mut texts = Vec::new();
        while let Some(message) = turn.next().await {
            texts.push(message.expect("a message").text());
        }
        assert_eq!(texts, [words, ""]);
        assert!(turn.next().await.is_none(), "it stays at its end");
    }
}

/// Makes a result that answers the prompts of these frames.
pub(crate) fn answer(text: &str, prompts: &[&Value]) -> Value {
    let mut result = result(text);
    let uuids = prompts.iter().map(|prompt| prompt["uuid"].clone());
    result["user_message_uuids"] = uuids.collect();
    result
}

/// Makes the result of a turn that Claude Code began when a background task had ended.
pub(crate) fn autonomous(text: &str) -> Value {
    let mut result = result(text);
    result["origin"] = json!({"kind": "task-notification"});
    result
}

fn lifecycle(prompt: &Value, state: &str) -> Value {
    json!({"type": "command_lifecycle", "command_uuid": prompt["uuid"], "state": state})
}

async fn next_text(events: &mut Events<'_>) -> String {
    match events.next().await.expect("an event").expect("a message") {
        Message::Result(result) => result.text().to_owned(),
        message => message.text(),
    }
}

#[tokio::test]
async fn a_result_belongs_to_the_prompt_that_it_names() {
    let (mut peer, mut claude, _) = Peer::initialized(Claude::builder()).await;
    let turn = claude.ask("one").await.expect("ask");
    let first = peer.receive().await;
    peer.send(&autonomous("by the way")).await;
    peer.send(&answer("of another", &[&json!({"uuid": "u"})]))
        .await;
    peer.send(&answer("of the first", &[&first])).await;
    let result = turn.result().await.expect("a result");
    assert_eq!(result.text(), "of the first");
    // A prompt can be taken into a turn that Claude Code began by itself.
    let turn = claude.ask("two").await.expect("ask");
    let second = peer.receive().await;
    assert_ne!(first["uuid"], second["uuid"]);
    let mut both = answer("of both", &[&json!({"uuid": "u"}), &second]);
    both["origin"] = json!({"kind": "task-notification"});
    peer.send(&both).await;
    assert_eq!(turn.result().await.expect("a result").text(), "of both");
    let mut events = claude.events();
    assert_eq!(next_text(&mut events).await, "by the way");
    assert_eq!(next_text(&mut events).await, "of another");
}

/// The prompt waits until a turn that Claude Code began by itself has ended.
#[tokio::test]
async fn messages_before_claude_code_starts_with_the_prompt_are_events() {
    let (mut peer, mut claude, _) = Peer::initialized(Claude::builder()).await;
    let mut turn = claude.ask("one").await.expect("ask");
    let prompt = peer.receive().await;
    peer.send(&lifecycle(&prompt, "queued")).await;
    peer.send(&assistant("the agent is done")).await;
    peer.send(&autonomous("the agent was right")).await;
    peer.send(&lifecycle(&prompt, "started")).await;
    peer.send(&assistant("for one")).await;
    peer.send(&answer("one", &[&prompt])).await;
    let mut texts = Vec::new();
    while let Some(message) = turn.next().await {
        texts.push(message.expect("a message").text());
    }
    assert_eq!(texts, ["", "for one", ""], "it starts, speaks, ends");
    let mut events = claude.events();
    assert_eq!(next_text(&mut events).await, "", "it is queued");
    assert_eq!(next_text(&mut events).await, "the agent is done");
    assert_eq!(next_text(&mut events).await, "the agent was right");
    peer.hang_up().await;
    let error = events.next().await.expect("an event");
    assert!(matches!(error, Err(Error::Ended { .. })), "{error:?}");
    assert!(events.next().await.is_none());
}

/// The turn of a scheduled prompt has a result without an origin, and without the ids of prompts.
#[tokio::test]
async fn the_result_of_a_scheduled_prompt_does_not_end_a_waiting_prompt() {
    let (mut peer, mut claude, _) = Peer::initialized(Claude::builder()).await;
    let turn = claude.ask("one").await.expect("ask");
    let first = peer.receive().await;
    peer.send(&lifecycle(&first, "started")).await;
    peer.send(&answer("one", &[&first])).await;
    turn.result().await.expect("a result");
    let turn = claude.ask("two").await.expect("ask");
    let second = peer.receive().await;
    peer.send(&lifecycle(&second, "queued")).await;
    peer.send(&result("ticked")).await;
    peer.send(&lifecycle(&second, "started")).await;
    peer.send(&answer("two", &[&second])).await;
    assert_eq!(turn.result().await.expect("a result").text(), "two");
    let mut events = claude.events();
    assert_eq!(next_text(&mut events).await, "", "it is queued");
    assert_eq!(next_text(&mut events).await, "ticked");
}

/// A prompt waits behind a turn that Claude Code began by itself: neither its deadline nor its end
/// reaches the calls of that turn.
#[tokio::test(start_paused = true)]
async fn a_waiting_prompt_does_not_limit_calls_of_the_turn_before() {
    let builder = Claude::builder().on(PreToolUse, Any, |_, _| async {
        tokio::time::sleep(Duration::from_secs(10)).await;
        Ok(Answer::deny("asked"))
    });
    let (mut peer, mut claude, _) = Peer::initialized(builder).await;
    // Before the first prompt, the client does not know that Claude Code reports its start.
    for prompt in ["one", "two"] {
        let turn = claude.ask(prompt).deadline(Duration::from_secs(5)).await;
        let frame = peer.receive().await;
        peer.send(&lifecycle(&frame, "queued")).await;
        peer.call("before", "hook_1").await;
        assert_eq!(refusal(&peer.receive().await), "asked");
        peer.send(&lifecycle(&frame, "started")).await;
        peer.call("after", "hook_1").await;
        let late = peer.receive().await;
        assert!(refusal(&late).starts_with("hook_timeout"), "{late}");
        peer.send(&answer("done", &[&frame])).await;
        turn.expect("ask").result().await.expect("a result");
    }
    let turn = claude.ask("three").await.expect("ask");
    let frame = peer.receive().await;
    peer.send(&lifecycle(&frame, "queued")).await;
    peer.call("before", "hook_1").await;
    peer.silent_so_far().await;
    drop(turn);
    assert_eq!(peer.receive().await["request"]["subtype"], "interrupt");
    assert_eq!(refusal(&peer.receive().await), "asked");
}

fn refusal(frame: &Value) -> &str {
    let own = &frame["response"]["response"]["hookSpecificOutput"];
    own["permissionDecisionReason"].as_str().unwrap_or_default()
}

/// Versions before 2.1.260 name no prompt.
#[tokio::test]
async fn a_result_that_names_no_prompt_ends_the_turn() {
    let (mut peer, mut claude, _) = Peer::initialized(Claude::builder()).await;
    peer.send(&result("before the prompt")).await;
    peer.silent_so_far().await;
    let turn = claude.ask("one").await.expect("ask");
    peer.receive().await;
    peer.send(&autonomous("by the way")).await;
    peer.send(&result("asked")).await;
    assert_eq!(turn.result().await.expect("a result").text(), "asked");
}

#[tokio::test]
async fn a_peer_that_dies_ends_everything() {
    let (mut peer, mut claude, _) = Peer::initialized(Claude::builder()).await;
    let control = claude.control();
    let waiting = tokio::spawn(async move { control.interrupt().await });
    peer.receive().await;
    let turn = claude.ask("one").await.expect("ask");
    peer.hang_up().await;
    assert!(matches!(turn.result().await, Err(Error::Ended { .. })));
    assert!(matches!(
        waiting.await.expect("join"),
        Err(Error::Ended { .. })
    ));
    assert!(matches!(claude.interrupt().await, Err(Error::Ended { .. })));
    let next = claude.ask("two").await.map(drop);
    assert!(matches!(next, Err(Error::Ended { .. })), "{next:?}");
}

/// JavaScript sometimes cuts a text inside a character. The client must not wait for ever then.
#[tokio::test]
async fn a_result_with_half_a_character_ends_its_turn() {
    let (mut peer, mut claude, _) = Peer::initialized(Claude::builder()).await;
    let turn = claude.ask("one").await.expect("ask");
    peer.receive().await;
    let half = r#"{"type":"result","subtype":"success","result":"half \ud83d"}"#;
    peer.send_text(&format!("{half}\n")).await;
    assert_eq!(
        turn.result().await.expect("a result").text(),
        "half \u{fffd}"
    );

    let turn = claude.ask("two").await.expect("ask");
    peer.receive().await;
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    peer.send_text(&format!("{{\"type\":\"result\",\"x\":{deep}}}\n"))
        .await;
    let error = turn.result().await.expect_err("too deep");
    assert!(matches!(error, Error::NotJson { .. }), "{error:?}");
}

#[tokio::test]
async fn an_error_response_is_the_error_of_the_request() {
    let (mut peer, claude, _) = Peer::initialized(Claude::builder()).await;
    let control = claude.control();
    let asked = tokio::spawn(async move { control.set_model("nonsense").await });
    let request = peer.receive().await;
    assert_eq!(
        request["request"],
        json!({"subtype": "set_model", "model": "nonsense"})
    );
    let response =
        json!({"subtype": "error", "request_id": request["request_id"], "error": "no such model"});
    peer.send(&json!({"type": "control_response", "response": response}))
        .await;
    let error = asked.await.expect("join").expect_err("refused").to_string();
    assert_eq!(error, "Claude Code refused `set_model`: no such model");
}
