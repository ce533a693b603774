use super::super::record::Decision;
use super::super::sample::{Home, decision, envelope, id, record, record_of, run};
use super::*;

fn all(connection: &Connection) -> Vec<RunRow> {
    let found = runs(connection, &RunQuery::default()).unwrap();
    found.into_iter().map(|found| found.run).collect()
}

#[test]
fn a_run_reads_as_it_was_written() {
    let connection = Home::new().open();
    let failed = RunRow {
        agent_id: Some("a1".into()),
        exit: None,
        outcome: "timed out".into(),
        decision: Some("deny".into()),
        said: 104_857_600,
        note: Some("no end after 30s".into()),
        ..run(2, "house-style")
    };
    let written = [run(1, "check-todos"), failed];
    insert(&connection, &written).unwrap();
    let [older, newer] = written;
    assert_eq!(all(&connection), [newer, older]);
}

#[test]
fn only_what_is_asked_for_comes_and_the_newest_of_it() {
    let connection = Home::new().open();
    let elsewhere = RunRow {
        session_id: Some("other".into()),
        ..run(3, "lint")
    };
    insert(
        &connection,
        &[run(1, "lint"), run(2, "test"), elsewhere, run(4, "lint")],
    )
    .unwrap();
    let found = |query: RunQuery| -> Vec<i64> {
        let found = runs(&connection, &query).unwrap();
        for one in all(&connection) {
            let is_found = found.iter().any(|found| found.run == one);
            assert!(
                query.limit.is_some() || is_found == query.wants(&one),
                "{query:?}"
            );
        }
        found.iter().map(|found| found.run.at).collect()
    };
    let lint = RunQuery {
        hook: Some("lint".into()),
        ..RunQuery::default()
    };
    assert_eq!(found(lint.clone()), [4, 3, 1]);
    let here = RunQuery {
        session: Some("s".into()),
        ..lint.clone()
    };
    assert_eq!(found(here), [4, 1]);
    let newest = RunQuery {
        limit: Some(2),
        ..lint
    };
    assert_eq!(found(newest), [4, 3]);
    let since = RunQuery {
        since: Some(3),
        ..RunQuery::default()
    };
    assert_eq!(found(since), [4, 3]);
    let event = RunQuery {
        event: Some(id(2)),
        ..RunQuery::default()
    };
    assert_eq!(found(event), [2]);
}

#[test]
fn a_run_knows_the_tool_of_its_event() {
    let connection = Home::new().open();
    let payload = br#"{"hook_event_name":"PreToolUse","session_id":"s","tool_name":"Bash"}"#;
    let mut event = record_of(1, envelope(1), payload);
    event.runs = vec![run(1, "lint")];
    event.insert(&connection).unwrap();
    // Nobody kept the event of this one.
    insert(&connection, &[run(2, "lint")]).unwrap();
    let tools: Vec<_> = runs(&connection, &RunQuery::default())
        .unwrap()
        .into_iter()
        .map(|found| found.tool)
        .collect();
    assert_eq!(tools, [None, Some("Bash".to_owned())]);
}

#[test]
fn the_end_of_a_run_in_the_background_takes_the_place_of_its_beginning() {
    let connection = Home::new().open();
    let begun = RunRow {
        outcome: UNDER_WAY.into(),
        ..run(1, "notify")
    };
    let ended = RunRow {
        took_us: 9_000_000,
        ..run(1, "notify")
    };
    insert(&connection, std::slice::from_ref(&begun)).unwrap();
    assert_eq!(all(&connection), std::slice::from_ref(&begun));
    for again in [&ended, &begun, &ended] {
        insert(&connection, std::slice::from_ref(again)).unwrap();
        assert_eq!(all(&connection), std::slice::from_ref(&ended));
    }
}

#[test]
fn however_many_runs_there_are_a_question_reads_few() {
    let connection = Home::new().open();
    let plan = |query: RunQuery| -> String {
        let (sql, values) = select(&query);
        let mut explain = connection
            .prepare(&format!("EXPLAIN QUERY PLAN {sql}"))
            .unwrap();
        let steps = explain
            .query_map(params_from_iter(values), |row| row.get(3))
            .unwrap();
        let steps: Vec<String> = steps.map(Result::unwrap).collect();
        steps.join("; ")
    };
    let nothing = RunQuery::default;
    let some = |text: &str| Some(text.to_owned());
    for (query, index) in [
        (nothing(), "INDEX runs_at"),
        (
            RunQuery {
                since: Some(1),
                ..nothing()
            },
            "INDEX runs_at (at>?)",
        ),
        (
            RunQuery {
                hook: some("a"),
                ..nothing()
            },
            "INDEX runs_hook (hook=?)",
        ),
        (
            RunQuery {
                session: some("a"),
                ..nothing()
            },
            "INDEX runs_session (session_id=?)",
        ),
        (
            RunQuery {
                event: Some(id(1)),
                ..nothing()
            },
            "PRIMARY KEY (event_id=?)",
        ),
    ] {
        let is_one_event = query.event.is_some();
        let plan = plan(query);
        assert!(plan.contains(index), "{plan}");
        assert!(plan.contains("events_id (id=?)"), "{plan}");
        assert!(is_one_event || !plan.contains("TEMP B-TREE"), "{plan}");
    }
}

#[test]
fn an_event_that_comes_again_brings_no_run_twice() {
    let connection = Home::new().open();
    let mut event = record(1, 1);
    event.runs = vec![run(1, "lint"), run(1, "test")];
    assert!(event.insert(&connection).unwrap());
    event.seq = 2;
    assert!(!event.insert(&connection).unwrap());
    assert_eq!(all(&connection).len(), 2);
}

#[test]
fn the_last_event_that_needs_telling_was_decided_or_failed_on() {
    let connection = Home::new().open();
    let last = |session| last_told(&connection, session).unwrap();
    assert_eq!(last(None), None);
    let mut silent = record(9, 9);
    silent.runs = vec![run(9, "lint")];
    silent.insert(&connection).unwrap();
    assert_eq!(last(None), None, "nothing was decided, nothing failed");
    let mut denied = record(1, 1);
    denied.decision = Some(decision("deny"));
    denied.insert(&connection).unwrap();
    assert_eq!(last(None), Some((1, id(1))));
    assert_eq!(last(Some("s")), Some((1, id(1))));
    let failed = RunRow {
        outcome: "timed out".into(),
        session_id: Some("other".into()),
        ..run(2, "lint")
    };
    insert(&connection, &[failed]).unwrap();
    assert_eq!(last(None), Some((2, id(2))));
    assert_eq!(last(Some("s")), Some((1, id(1))));
    assert_eq!(last(Some("other")), Some((2, id(2))));
}

#[test]
fn what_becket_says_itself_needs_no_telling() {
    let connection = Home::new().open();
    let decided = |number: u32, answer: &str, by: Option<&str>| {
        let mut event = record(number.into(), number);
        let ran = by.filter(|by| !account::is_own(by));
        event.runs = ran.map(|by| run(number, by)).into_iter().collect();
        let mut decision = decision(answer);
        decision.by = by.map(str::to_owned);
        event.decision = Some(decision);
        event.insert(&connection).unwrap();
        is_told_of(answer, by)
    };
    assert!(decided(1, "deny", Some("no-prod")));
    for (number, account) in (2..).zip(Account::ALL) {
        assert!(!decided(number, "message", Some(&account.by())));
    }
    assert!(!decided(6, "terminal", None));
    for session in [None, Some("s")] {
        let last = last_told(&connection, session).unwrap();
        assert_eq!(last, Some((1, id(1))), "{session:?}");
    }
    assert!(decided(7, "deny", None));
    for session in [None, Some("s")] {
        let last = last_told(&connection, session).unwrap();
        assert_eq!(last, Some((7, id(7))), "{session:?}");
    }
    for (number, account) in (8..).zip(Account::ALL) {
        assert!(decided(number, "deny", Some(account.word())), "a hook's");
        for session in [None, Some("s")] {
            let last = last_told(&connection, session).unwrap();
            assert_eq!(last, Some((number.into(), id(number))), "{session:?}");
        }
    }
}

#[test]
fn a_bare_word_of_old_was_becket_unless_a_hook_of_that_name_ran() {
    let connection = Home::new().open();
    let decided = |number: u32, runs: Vec<RunRow>| {
        let mut event = record(number.into(), number);
        let by = Some(Account::Switch.word().to_owned());
        event.decision = Some(Decision {
            by,
            ..decision("block")
        });
        event.runs = runs;
        event.insert(&connection).unwrap();
        [None, Some("s")].map(|session| last_told(&connection, session).unwrap())
    };
    assert_eq!(decided(1, Vec::new()), [None, None]);
    assert_eq!(decided(2, vec![run(2, "lint")]), [None, None]);
    assert_eq!(
        decided(3, vec![run(3, "switch")]),
        [Some((3, id(3))), Some((3, id(3)))]
    );
}
