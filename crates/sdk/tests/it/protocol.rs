//! Frames that are large, broken or unknown.

use becket_sdk::{Answer, Any, Claude, Error, Message, PreToolUse};
use serde_json::json;

use crate::peer::Peer;

#[tokio::test]
async fn unknown_subtypes_are_answered_with_an_error() {
    let (mut peer, _claude, _) = Peer::initialized(Claude::builder()).await;
    for (body, code) in [
        (
            json!({"subtype": "mcp_message", "server_name": "x"}),
            "unknown_subtype: ",
        ),
        (json!({"subtype": 7}), "invalid_request: "),
        (json!({"subtype": "hook_callback"}), "invalid_request: "),
        (json!(null), "invalid_request: "),
    ] {
        peer.send(&json!({"type": "control_request", "request_id": "r1", "request": body}))
            .await;
        let response = peer.receive().await["response"].clone();
        assert_eq!(
            (&response["subtype"], &response["request_id"]),
            (&json!("error"), &json!("r1"))
        );
        assert!(
            response["error"]
                .as_str()
                .expect("a text")
                .starts_with(code),
            "{response}"
        );
    }
}

#[tokio::test]
async fn messages_of_unknown_type_are_kept() {
    let (mut peer, mut claude, _) = Peer::initialized(Claude::builder()).await;
    let mut turn = claude.ask("look").await.expect("ask");
    let strange = json!({"type": "from_the_future", "x": [1, 2.50]});
    peer.send(&strange).await;
    peer.send(&json!({"no": "type"})).await;
    peer.send(&json!({"type": "result", "result": "done"}))
        .await;
    let next = turn.next().await.expect("a message").expect("no error");
    assert_eq!(next, Message::Other(strange));
    let next = turn.next().await.expect("a message").expect("no error");
    assert_eq!(next, Message::Other(json!({"no": "type"})));
    assert_eq!(turn.result().await.expect("a result").text(), "done");
}

#[tokio::test]
async fn lines_that_are_no_messages_are_skipped_and_counted() {
    let (mut peer, mut claude, _) = Peer::initialized(Claude::builder().max_message(1000)).await;
    let mut turn = claude.ask("look").await.expect("ask");
    peer.send_text("not JSON\n\n[1]\n").await;
    peer.send_text(&format!("{}\n", "x".repeat(2000))).await;
    peer.send(&json!({"type": "assistant", "x": "y".repeat(2000)}))
        .await;
    peer.send(&json!({"type": "assistant", "message": {"content": "fine"}}))
        .await;
    let mut next = async || turn.next().await.expect("a message");
    let Err(Error::TooLong { bound: 1000, kind }) = next().await else {
        panic!("it is too long");
    };
    assert_eq!(kind, "assistant");
    assert_eq!(next().await.expect("a message").text(), "fine");
    peer.send_text("{\"type\": \"assis").await;
    peer.hang_up().await;
    assert!(matches!(
        turn.next().await,
        Some(Err(Error::Cut { bytes: 15 }))
    ));
    assert!(matches!(turn.next().await, Some(Err(Error::Ended { .. }))));
    assert!(turn.next().await.is_none());
    drop(turn);
    assert_eq!(claude.skipped_lines(), 3, "a word, an array, a long word");
}

/// All messages together would take 64 MB as text, and more as values.
#[tokio::test]
async fn the_memory_of_messages_before_the_answer_to_initialize_is_limited() {
    let (mut peer, client) = Peer::new(Claude::builder());
    let initialize = peer.receive().await;
    for number in 0..1000 {
        let text = "x".repeat(64 << 10);
        peer.send(&json!({"type": "system", "number": number, "text": text}))
            .await;
    }
    peer.answer(&initialize, json!({})).await;
    let mut claude = client.await.expect("join").expect("start");
    let kept = 1000 - claude.dropped_events();
    assert!((50..70).contains(&kept), "4 MiB: {kept}");
    let oldest = claude.events().next().await.expect("an event");
    let oldest = oldest.expect("a message").json()["number"].as_u64();
    assert_eq!(oldest, Some(1000 - kept), "the newest are kept");
}

#[tokio::test]
async fn a_request_over_the_size_limit_is_answered() {
    let builder = Claude::builder().max_message(1000);
    let builder = builder.on(PreToolUse, Any, |_, _| async { Ok(Answer::none()) });
    let (mut peer, _claude, _) = Peer::initialized(builder).await;
    let input = json!({"hook_event_name": "PreToolUse", "tool_name": "Write", "tool_input": "x".repeat(2000)});
    peer.call_with("r1", "hook_1", input).await;
    let response = peer.receive().await["response"].clone();
    assert_eq!(
        (&response["subtype"], &response["request_id"]),
        (&json!("error"), &json!("r1"))
    );
    peer.call("r2", "hook_1").await;
    assert_eq!(peer.receive().await["response"]["response"], json!({}));
}

#[tokio::test]
async fn the_context_has_the_fields_of_the_payload() {
    let builder = Claude::builder().on(PreToolUse, Any, |_, ctx| async move {
        assert_eq!(ctx.agent_id.as_deref(), Some("a1"));
        assert_eq!(ctx.permission_mode, Some("plan".into()));
        assert_eq!(ctx.tool_use_id.as_deref(), Some("toolu_1"));
        assert_eq!(
            (ctx.session_id, ctx.cwd, ctx.transcript_path),
            (None, None, None)
        );
        Ok(Answer::none())
    });
    let (mut peer, _claude, _) = Peer::initialized(builder).await;
    let input = json!({
        "hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {}, "agent_id": "a1",
        "permission_mode": "plan",
    });
    peer.call_with("r1", "hook_1", input).await;
    assert_eq!(peer.receive().await["response"]["response"], json!({}));
}

/// A peer that does not read cannot keep the client's stream open.
#[tokio::test]
async fn a_dropped_client_closes_its_stream() {
    let (mut peer, mut claude, _) = Peer::initialized(Claude::builder()).await;
    drop(claude.ask("x".repeat(4 << 20)).await.expect("ask"));
    drop(claude);
    peer.closed().await;
}

/// Both sides have requests in flight at the same time, and answers come in any order.
#[tokio::test]
async fn requests_of_both_sides_are_matched_by_id() {
    let builder = Claude::builder().on(PreToolUse, Any, |_, _| async { Ok(Answer::none()) });
    let (mut peer, claude, _) = Peer::initialized(builder).await;
    let (one, two) = (claude.control(), claude.control());
    let first = tokio::spawn(async move { one.request(json!({"subtype": "first"})).await });
    let asked_first = peer.receive().await;
    let second = tokio::spawn(async move { two.request(json!({"subtype": "second"})).await });
    let asked_second = peer.receive().await;
    peer.call("r1", "hook_1").await;
    assert_eq!(peer.receive().await["response"]["request_id"], "r1");
    peer.answer(&asked_second, json!(2)).await;
    assert_eq!(second.await.expect("join").expect("an answer"), json!(2));
    peer.answer(&asked_first, json!(1)).await;
    assert_eq!(first.await.expect("join").expect("an answer"), json!(1));
}

#[tokio::test]
async fn twenty_calls_are_answered_each_by_its_id() {
    let builder = Claude::builder().on(PreToolUse, Any, |call, _| async move {
        let n = call.tool_input["n"].as_u64().unwrap_or_default();
        // The later ones answer first.
        tokio::time::sleep(std::time::Duration::from_millis(100 - n * 5)).await;
        Ok(Answer::context(n.to_string()))
    });
    let (mut peer, _claude, _) = Peer::initialized(builder).await;
    for n in 0..20 {
        let input =
            json!({"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"n": n}});
        peer.call_with(&n.to_string(), "hook_1", input).await;
    }
    for _ in 0..20 {
        let response = peer.receive().await["response"].clone();
        let context = &response["response"]["hookSpecificOutput"]["additionalContext"];
        assert_eq!(*context, response["request_id"]);
    }
}
