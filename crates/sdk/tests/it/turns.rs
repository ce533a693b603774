//! Turns: where one ends and the next begins.

use becket_sdk::{Claude, Error};
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

/// A background task can make Claude Code speak, and end a turn, without being asked.
#[tokio::test]
async fn a_result_from_before_the_prompt_does_not_end_the_turn() {
    let (mut peer, mut claude, _) = Peer::initialized(Claude::builder()).await;
    peer.send(&assistant("by the way")).await;
    peer.send(&result("unasked")).await;
    peer.silent_so_far().await;
    let turn = claude.ask("one").await.expect("ask");
    peer.receive().await;
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

/// JavaScript cuts a text inside a character now and then: its half is no reason to wait for ever.
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
async fn an_error_answer_is_the_requests_error() {
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
