//! Turns that are interrupted or dropped, and the turn after them.

use std::future::IntoFuture;
use std::time::Duration;

use becket_sdk::{Claude, Error};
use serde_json::{Value, json};

use crate::peer::Peer;
use crate::turns::{assistant, result};

fn init() -> Value {
    json!({"type": "system", "subtype": "init", "session_id": "s1", "cwd": "/home/user"})
}

#[tokio::test]
async fn the_rest_of_a_dropped_turn_is_not_shown_to_the_next() {
    let (mut peer, mut claude, _) = Peer::initialized(Claude::builder()).await;
    let turn = claude.ask("one").await.expect("ask");
    peer.receive().await;
    drop(turn);
    let interrupt = peer.receive().await;
    peer.answer(&interrupt, json!({"still_queued": []})).await;
    peer.send(&assistant("late")).await;
    peer.send(&result("interrupted")).await;
    let mut turn = claude.ask("two").await.expect("ask");
    assert_eq!(peer.receive().await["message"]["content"], "two");
    peer.send(&assistant("fresh")).await;
    peer.send(&result("done")).await;
    let first = turn.next().await.expect("a message").expect("no error");
    assert_eq!(first.text(), "fresh");
    assert_eq!(turn.result().await.expect("a result").text(), "done");
}

/// The turn is not dropped: the next prompt ends it.
#[tokio::test]
async fn the_next_prompt_interrupts_an_unfinished_turn() {
    let (mut peer, mut claude, _) = Peer::initialized(Claude::builder()).await;
    let mut turn = claude.ask("one").await.expect("ask");
    peer.receive().await;
    peer.send(&assistant("begun")).await;
    assert_eq!(
        turn.next()
            .await
            .expect("a message")
            .expect("no error")
            .text(),
        "begun"
    );
    let playing = tokio::spawn(async move {
        assert_eq!(peer.receive().await["request"]["subtype"], "interrupt");
        peer.send(&result("interrupted")).await;
        assert_eq!(peer.receive().await["message"]["content"], "two");
        peer.send(&result("done")).await;
        peer
    });
    let turn = claude.ask("two").await.expect("ask");
    assert_eq!(turn.result().await.expect("a result").text(), "done");
    playing.await.expect("played").silent_so_far().await;
}

/// The first of two prompts that wait for an abandoned turn is dropped; the second still waits for it.
#[tokio::test]
async fn a_late_result_never_ends_the_next_turn() {
    let (mut peer, mut claude, _) = Peer::initialized(Claude::builder()).await;
    drop(claude.ask("one").await.expect("ask"));
    peer.receive().await;
    peer.receive().await;
    let given_up = claude.ask("two").into_future();
    assert!(
        tokio::time::timeout(Duration::from_millis(50), given_up)
            .await
            .is_err()
    );
    peer.send(&result("of the first")).await;
    let turn = claude.ask("three").await.expect("ask");
    assert_eq!(peer.receive().await["message"]["content"], "three");
    peer.send(&result("of the third")).await;
    assert_eq!(
        turn.result().await.expect("a result").text(),
        "of the third"
    );
}

/// A prompt that waits behind a turn of Claude Code's own is interrupted once it starts: the earlier
/// interrupt only ends the running turn.
#[tokio::test]
async fn an_interrupt_of_a_waiting_prompt_is_repeated_when_it_starts() {
    let (mut peer, mut claude, _) = Peer::initialized(Claude::builder()).await;
    let turn = claude.ask("one").await.expect("ask");
    let uuid = peer.receive().await["uuid"].clone();
    let lifecycle =
        |state| json!({"type": "command_lifecycle", "command_uuid": uuid, "state": state});
    peer.send(&lifecycle("queued")).await;
    peer.silent_so_far().await;
    drop(turn);
    assert_eq!(peer.receive().await["request"]["subtype"], "interrupt");
    peer.send(&init()).await;
    peer.silent_so_far().await;
    peer.send(&lifecycle("started")).await;
    peer.send(&init()).await;
    assert_eq!(peer.receive().await["request"]["subtype"], "interrupt");
}

/// Claude Code may lose an interrupt that comes before the turn has begun.
#[tokio::test]
async fn an_early_interrupt_is_repeated_when_the_turn_begins() {
    let (mut peer, mut claude, _) = Peer::initialized(Claude::builder()).await;
    drop(claude.ask("one").await.expect("ask"));
    peer.receive().await;
    assert_eq!(peer.receive().await["request"]["subtype"], "interrupt");
    peer.send(&init()).await;
    assert_eq!(peer.receive().await["request"]["subtype"], "interrupt");
    peer.send(&result("interrupted")).await;

    let turn = claude.ask("two").await.expect("ask");
    assert_eq!(peer.receive().await["message"]["content"], "two");
    peer.send(&init()).await;
    peer.silent_so_far().await;
    peer.send(&result("done")).await;
    assert_eq!(turn.result().await.expect("a result").text(), "done");
}

/// An interrupt that took effect at once, or came between turns, does not reach the next turn.
#[tokio::test]
async fn an_interrupt_is_repeated_for_its_own_turn_only() {
    let (mut peer, mut claude, _) = Peer::initialized(Claude::builder()).await;
    drop(claude.ask("one").await.expect("ask"));
    peer.receive().await;
    peer.receive().await;
    peer.send(&result("interrupted")).await;
    let control = claude.control();
    let interrupt = tokio::spawn(async move { control.interrupt().await });
    let request = peer.receive().await;
    peer.answer(&request, json!({})).await;
    interrupt.await.expect("join").expect("an answer");
    peer.send(&init()).await;
    peer.silent_so_far().await;
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_cannot_be_interrupted_is_an_error() {
    let (mut peer, mut claude, _) = Peer::initialized(Claude::builder()).await;
    drop(claude.ask("one").await.expect("ask"));
    let error = claude.ask("two").await.map(drop).expect_err("it goes on");
    assert!(matches!(error, Error::TurnNotEnded { .. }), "{error}");
    assert_eq!(peer.receive().await["message"]["content"], "one");
    assert_eq!(peer.receive().await["request"]["subtype"], "interrupt");
    peer.send(&result("interrupted")).await;
    let turn = claude.ask("two").await.expect("ask");
    assert_eq!(peer.receive().await["message"]["content"], "two");
    drop(turn);
}
