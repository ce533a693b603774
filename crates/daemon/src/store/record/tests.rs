use super::super::sample::{Home, decision, envelope, id, record, record_of, rows};
use super::*;

#[test]
fn long_payloads_are_compressed_and_come_back_whole() {
    let home = Home::new();
    let connection = home.open();
    let short = format!(r#"{{"a":"{}"}}"#, "x".repeat(100));
    let long = format!(r#"{{"a":"{}"}}"#, "x".repeat(300_000));
    for (number, payload) in [(1, &short), (2, &long)] {
        let record = record_of(i64::from(number), envelope(number), payload.as_bytes());
        assert_eq!(record.payload(), payload.as_bytes());
        assert_eq!(record.compressed, number == 2);
        assert!(record.insert(&connection).unwrap());
    }
    let rows = rows(&connection);
    assert_eq!(rows[0].payload.as_deref(), Some(short.as_bytes()));
    assert_eq!(rows[1].payload.as_deref(), Some(long.as_bytes()));
    let stored: i64 = connection
        .query_row(
            "SELECT length(body) FROM payloads WHERE seq = 2",
            [],
            |row| row.get(0),
        )
        .unwrap();
    assert!(stored < 1_000, "{stored}");
}

#[test]
fn a_row_reads_as_it_was_written() {
    let home = Home::new();
    let connection = home.open();
    let mut record = record(1, 1);
    record.took_us = Some(30);
    record.decision = Some(decision("deny"));
    record.duplicate_of = Some(17);
    assert!(record.insert(&connection).unwrap());
    assert_eq!(rows(&connection), [record.to_row()]);
}

#[test]
fn an_id_is_written_once() {
    let home = Home::new();
    let connection = home.open();
    assert!(record(1, 1).insert(&connection).unwrap());
    assert!(!record(2, 1).insert(&connection).unwrap());
    let rows = rows(&connection);
    assert_eq!(rows.len(), 1);
    assert_eq!((rows[0].seq, rows[0].id), (1, id(1)));
}

#[test]
fn what_alone_answered_beats_what_the_daemon_would_have() {
    for daemon_took in [None, Some(30)] {
        let home = Home::new();
        let connection = home.open();
        let mut daemon = record(1, 1);
        daemon.took_us = daemon_took;
        daemon.decision = daemon_took.map(|_| decision("ask"));
        daemon.insert(&connection).unwrap();
        let mut alone = record(2, 1);
        alone.source = Source::Alone;
        alone.took_us = Some(900);
        alone.decision = Some(decision("deny"));
        assert!(!alone.insert(&connection).unwrap());
        let expected = EventRow {
            seq: 1,
            ..alone.to_row()
        };
        assert_eq!(rows(&connection), std::slice::from_ref(&expected));
        // The other order, and a late delivery of the daemon's on top.
        daemon.seq = 3;
        assert!(!daemon.insert(&connection).unwrap());
        assert_eq!(rows(&connection), [expected]);
    }
}

#[test]
fn an_answer_of_silence_takes_an_older_decision_away() {
    let home = Home::new();
    let connection = home.open();
    let mut daemon = record(1, 1);
    daemon.took_us = Some(30);
    daemon.decision = Some(decision("deny"));
    daemon.insert(&connection).unwrap();
    let mut alone = record(2, 1);
    alone.source = Source::Alone;
    alone.took_us = Some(900);
    alone.insert(&connection).unwrap();
    assert_eq!(rows(&connection)[0].decision, None);
}

#[test]
fn only_a_prompt_that_was_not_sent_is_blocked() {
    let answered = |event: &str, answer: &str| {
        let payload = format!(r#"{{"hook_event_name":"{event}","session_id":"s"}}"#);
        let mut record = record_of(1, envelope(1), payload.as_bytes());
        record.decision = Some(decision(answer));
        record.blocks_prompt()
    };
    assert!(answered("UserPromptSubmit", "block"));
    assert!(answered("UserPromptSubmit", "stop"));
    assert!(answered("UserPromptExpansion", "block"));
    assert!(!answered("UserPromptSubmit", "context"));
    assert!(!answered("Stop", "block"));
    assert!(!record(1, 1).blocks_prompt());
}

#[test]
fn who_is_not_let_stop_goes_on_unless_the_turn_is_ended() {
    let stops = |event: &str, decision: Option<Decision>, held: bool| {
        let payload = format!(r#"{{"hook_event_name":"{event}","session_id":"s","agent_id":"a"}}"#);
        let payload = match event {
            "Stop" => payload.replace(r#","agent_id":"a""#, ""),
            _ => payload,
        };
        let mut record = record_of(1, envelope(1), payload.as_bytes());
        (record.decision, record.held) = (decision, held);
        record.is_kept_from_stopping()
    };
    let block = || decision("block");
    let ends = Decision {
        stdout: r#"{"continue":false,"decision":"block"}"#.to_owned(),
        ..block()
    };
    for event in ["Stop", "SubagentStop"] {
        assert!(stops(event, Some(block()), false));
        assert!(stops(event, None, true), "nobody has decided");
        assert!(!stops(event, None, false));
        assert!(!stops(event, Some(decision("context")), false));
        assert!(!stops(event, Some(ends.clone()), false));
    }
    assert!(!stops("PostToolUse", Some(block()), true));
}
