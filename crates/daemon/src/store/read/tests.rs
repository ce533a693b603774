use super::super::sample::{Home, envelope, found, id, record, record_of};
use super::*;

/// Events 1 to 6, in two sessions, the third a double of the second, the last from the past.
fn log(home: &Home) -> Connection {
    let connection = home.open();
    for number in 1..=6_u32 {
        let session = if number % 2 == 0 { "aa-2" } else { "aa-1" };
        let mut envelope = envelope(number);
        envelope.at = if number == 6 { 0 } else { i64::from(number) };
        let payload = format!(
            r#"{{"hook_event_name":"{}","session_id":"{session}","tool_name":"T{number}"}}"#,
            if number < 4 { "PreToolUse" } else { "Stop" }
        );
        let mut record = record_of(i64::from(number), envelope, payload.as_bytes());
        record.duplicate_of = (number == 3).then_some(2);
        record.insert(&connection).unwrap();
    }
    connection
}

fn seqs(connection: &Connection, query: &EventQuery) -> Vec<i64> {
    found(connection, query).iter().map(|row| row.seq).collect()
}

#[test]
fn the_log_is_in_order_of_time_and_doubles_are_left_out() {
    let home = Home::new();
    let connection = log(&home);
    let all = EventQuery::default();
    assert_eq!(seqs(&connection, &all), [6, 1, 2, 4, 5]);
    let duplicates = EventQuery {
        duplicates: true,
        ..all
    };
    assert_eq!(seqs(&connection, &duplicates), [6, 1, 2, 3, 4, 5]);
}

#[test]
fn a_session_is_found_in_every_thousand() {
    let home = Home::new();
    let connection = home.open();
    let payload = |session: &str| format!(r#"{{"session_id":"{session}"}}"#);
    for (number, seq) in (1..).zip([1, 1023, 1024, 5000, 5001]) {
        let session = if seq == 5000 { "bb" } else { "aa" };
        let record = record_of(seq, envelope(number), payload(session).as_bytes());
        record.insert(&connection).unwrap();
    }
    let of = |session: &str, limit| EventQuery {
        session: Some(session.to_owned()),
        limit,
        ..EventQuery::default()
    };
    assert_eq!(seqs(&connection, &of("aa", None)), [1, 1023, 1024, 5001]);
    assert_eq!(seqs(&connection, &of("aa", Some(2))), [1024, 5001]);
    assert_eq!(seqs(&connection, &of("bb", None)), [5000]);
    assert!(seqs(&connection, &of("cc", None)).is_empty());
    assert_eq!(sessions_like(&connection, "").unwrap(), ["aa", "bb"]);
}

#[test]
fn however_many_events_there_are_a_session_reads_its_own() {
    let connection = Home::new().open();
    let (sql, values) = select(&EventQuery {
        session: Some("s".to_owned()),
        since: Some(1),
        limit: Some(50),
        ..EventQuery::default()
    });
    let mut explain = connection
        .prepare(&format!("EXPLAIN QUERY PLAN {sql}"))
        .unwrap();
    let steps = explain.query_map(params_from_iter(values), |row| row.get::<_, String>(3));
    let steps: Vec<String> = steps.unwrap().map(Result::unwrap).collect();
    let index = "SEARCH e USING INDEX events_session (<expr>=? AND session_id=? AND at>?)";
    assert!(steps.iter().any(|step| step == index), "{steps:#?}");
}

#[test]
fn every_question_finds_what_it_asks_for() {
    let home = Home::new();
    let connection = log(&home);
    let all = EventQuery::default;
    let text = |text: &str| Some(text.to_owned());
    let cases: [(EventQuery, &[i64]); 8] = [
        (
            EventQuery {
                session: text("aa-2"),
                ..all()
            },
            &[6, 2, 4],
        ),
        (
            EventQuery {
                event: text("Stop"),
                ..all()
            },
            &[6, 4, 5],
        ),
        (
            EventQuery {
                tool: text("T2"),
                ..all()
            },
            &[2],
        ),
        (
            EventQuery {
                since: Some(4),
                ..all()
            },
            &[4, 5],
        ),
        (
            EventQuery {
                after: Some(4),
                ..all()
            },
            &[6, 5],
        ),
        (
            EventQuery {
                id: Some(id(4)),
                ..all()
            },
            &[4],
        ),
        (
            EventQuery {
                limit: Some(2),
                ..all()
            },
            &[4, 5],
        ),
        (
            EventQuery {
                session: text("aa-1"),
                event: text("Stop"),
                limit: Some(9),
                ..all()
            },
            &[5],
        ),
    ];
    for (query, expected) in cases {
        assert_eq!(seqs(&connection, &query), expected, "{query:?}");
        // Whoever follows is told the same by `wants`.
        let everything = found(
            &connection,
            &EventQuery {
                duplicates: true,
                ..all()
            },
        );
        let wanted = everything.iter().filter(|row| query.wants(row)).count();
        assert!(
            query.limit.is_some() || wanted == expected.len(),
            "{query:?}"
        );
    }
}

#[test]
fn a_payload_that_is_gone_is_none() {
    let home = Home::new();
    let connection = log(&home);
    connection
        .execute("DELETE FROM payloads WHERE seq = 4", [])
        .unwrap();
    let rows = found(&connection, &EventQuery::default());
    let gone: Vec<i64> = rows
        .iter()
        .filter(|row| row.payload.is_none())
        .map(|row| row.seq)
        .collect();
    assert_eq!(gone, [4]);
}

#[test]
fn a_reader_may_stop() {
    let home = Home::new();
    let connection = log(&home);
    let mut seen = 0;
    find(&connection, &EventQuery::default(), &mut |_| {
        seen += 1;
        seen < 2
    })
    .unwrap();
    assert_eq!(seen, 2);
}

#[test]
fn a_session_is_known_by_its_beginning() {
    let home = Home::new();
    let connection = log(&home);
    let like = |prefix| sessions_like(&connection, prefix).unwrap();
    assert_eq!(like("aa"), ["aa-1", "aa-2"]);
    assert_eq!(like("aa-1"), ["aa-1"]);
    assert_eq!(like("b"), [] as [&str; 0]);
    assert_eq!(like("%"), [] as [&str; 0], "no character is special");
    // One whole id stands for itself, although another goes on from it.
    let payload = br#"{"hook_event_name":"Stop","session_id":"aa-11"}"#;
    record_of(7, envelope(7), payload)
        .insert(&connection)
        .unwrap();
    assert_eq!(like("aa-1"), ["aa-1"]);
}

#[test]
fn claude_is_known_by_pid_and_start_time() {
    let home = Home::new();
    let connection = home.open();
    record(1, 1).insert(&connection).unwrap();
    assert!(
        !knows_process(&connection, 4242, 17).unwrap(),
        "no session began"
    );
    let payload = br#"{"hook_event_name":"SessionStart","session_id":"s"}"#;
    record_of(2, envelope(2), payload)
        .insert(&connection)
        .unwrap();
    assert!(knows_process(&connection, 4242, 17).unwrap());
    assert!(!knows_process(&connection, 4242, 18).unwrap());
    assert!(!knows_process(&connection, 4243, 17).unwrap());
}

#[test]
fn faults_are_counted_and_the_newest_is_told() {
    let home = Home::new();
    let connection = log(&home);
    assert_eq!(faults(&connection, 7).unwrap(), None);
    let whole = r#"{"session_id":"s","hook_event_name":"Newer"}"#;
    for (number, payload) in [(7, "{"), (8, "[1]"), (9, whole)] {
        record_of(i64::from(number), envelope(number), payload.as_bytes())
            .insert(&connection)
            .unwrap();
    }
    let found = |since| faults(&connection, since).unwrap();
    let two = found(7).unwrap();
    assert_eq!((two.count, two.at), (2, 8));
    assert_eq!(two.fault, "the event is JSON, but no object");
    assert_eq!(found(8).unwrap().count, 1);
    assert_eq!(found(9), None);
    assert_eq!(count(&connection).unwrap(), 9);
}
