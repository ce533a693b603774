//! Events whose hooks run: kept before, completed after, whatever happens in between.

use becket_wire::rpc::Source;
use becket_wire::run::RunRow;

use super::super::super::record::Decision;
use super::super::super::sample::{decision, envelope, record_of, run, runs_of};
use super::*;

/// An event of which the writer is told before its hooks run.
fn held(seq: i64, number: u32) -> Record {
    let mut record = record(seq, number);
    record.held = true;
    record
}

/// The same when they have.
fn decided(mut record: Record, number: u32) -> Record {
    record.took_us = Some(5000);
    record.decision = Some(decision("deny"));
    record.runs = vec![run(number, "lint"), run(number, "test")];
    record
}

fn decide(writer: &Writer, record: Record) -> oneshot::Receiver<()> {
    let (kept, wait) = oneshot::channel();
    let then = Box::new(move || kept.send(()).unwrap_or_default());
    assert!(writer.decide(record, then).is_ok());
    wait
}

fn keep_now(writer: &Writer, record: Record) {
    assert_eq!(wait(PATIENCE, keep(writer, record).unwrap()), Some(Ok(())));
}

fn decide_now(writer: &Writer, record: Record) {
    assert_eq!(wait(PATIENCE, decide(writer, record)), Some(Ok(())));
}

/// The log says what was decided, and which hooks ran.
fn is_whole(home: &Home, number: u32) {
    let rows = rows(&home.open());
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert_eq!((rows[0].id, rows[0].took_us), (id(number), Some(5000)));
    let said = rows[0].decision.as_ref().map(|decision| &*decision.answer);
    assert_eq!((said, rows[0].source), (Some("deny"), Source::Daemon));
    assert_eq!(hooks(home), ["lint", "test"]);
}

fn hooks(home: &Home) -> Vec<String> {
    let mut hooks: Vec<String> = runs_of(&home.open()).into_iter().map(|run| run.1).collect();
    hooks.sort();
    hooks
}

#[test]
fn an_event_in_the_inbox_is_completed_there_in_one_commit() {
    let Started { home, writer, .. } = start();
    let event = held(1, 1);
    keep_now(&writer, event.clone());
    let before = commits(&home);
    decide_now(&writer, decided(event, 1));
    assert_eq!(commits(&home) - before, 1);
    assert_eq!(rows(&home.open()).len(), 0, "it is in the inbox still");
    let inbox = inbox::waiting(&home.open(), &masker()).unwrap();
    assert_eq!((inbox[0].took_us, inbox[0].runs.len()), (Some(5000), 2));
    wait(PATIENCE, writer.take_in()).unwrap();
    is_whole(&home, 1);
}

#[test]
fn an_event_in_the_log_is_completed_there() {
    for long in [false, true] {
        let Started { home, writer, .. } = start();
        let padding = "x".repeat(if long { 9000 } else { 1 });
        let payload = format!(r#"{{"session_id":"s","padding":"{padding}"}}"#);
        let mut event = record_of(1, envelope(1), payload.as_bytes());
        event.held = true;
        keep_now(&writer, event.clone());
        wait(PATIENCE, writer.take_in()).unwrap();
        assert_eq!(rows(&home.open())[0].took_us, None);
        let before = commits(&home);
        decide_now(&writer, decided(event, 1));
        assert_eq!(commits(&home) - before, 1);
        is_whole(&home, 1);
    }
}

#[test]
fn nobody_is_answered_before_the_decision_is_kept() {
    let Started { home, writer, .. } = start();
    keep_now(&writer, held(1, 1));
    let other = hold_up(&home);
    let mut answered = decide(&writer, decided(held(1, 1), 1));
    assert!(wait(TOO_EARLY, &mut answered).is_none(), "answered early");
    drop(other);
    assert_eq!(wait(PATIENCE, answered), Some(Ok(())));
    wait(PATIENCE, writer.take_in()).unwrap();
    is_whole(&home, 1);
}

#[test]
fn onlookers_see_it_once_and_with_its_decision() {
    let Started { writer, feed, .. } = start();
    let mut feed = feed.subscribe();
    keep_now(&writer, held(1, 1));
    keep_now(&writer, record(2, 2));
    let running = wait(PATIENCE, writer.take_in()).unwrap();
    assert_eq!(running, HashSet::from([1]));
    assert_eq!(shown(&mut feed), [id(2)]);
    decide_now(&writer, decided(held(1, 1), 1));
    assert!(wait(PATIENCE, writer.take_in()).unwrap().is_empty());
    let row = feed.try_recv().unwrap();
    assert_eq!((row.id, row.took_us), (id(1), Some(5000)));
    assert!(row.decision.is_some());
    assert_eq!(shown(&mut feed), []);
}

/// Makes the database refuse whatever is said of an event.
fn refuse_all(home: &Home, refuse: bool) {
    let tables = [
        ("inbox", "INSERT"),
        ("inbox", "UPDATE"),
        ("events", "INSERT"),
    ];
    for (number, (table, change)) in tables.into_iter().enumerate() {
        let sql = if refuse {
            format!(
                "CREATE TRIGGER full{number} BEFORE {change} ON {table}
                 BEGIN SELECT RAISE(ABORT, 'no room'); END"
            )
        } else {
            format!("DROP TRIGGER full{number}")
        };
        home.open().execute_batch(&sql).unwrap();
    }
}

#[test]
fn a_decision_that_the_database_refuses_comes_by_the_spool() {
    let Started {
        home,
        writer,
        counters,
        feed,
    } = start();
    let mut feed = feed.subscribe();
    keep_now(&writer, held(1, 1));
    refuse_all(&home, true);
    decide_now(&writer, decided(held(1, 1), 1));
    assert_eq!((home.files(), counters.to_spool.get()), (1, 1));
    refuse_all(&home, false);
    wait(PATIENCE, writer.take_in()).unwrap();
    assert_eq!(home.files(), 0);
    is_whole(&home, 1);
    assert_eq!(shown(&mut feed), [id(1)]);
}

#[test]
fn without_a_spool_it_waits_in_memory() {
    let Started {
        home,
        writer,
        counters,
        feed,
    } = start();
    let mut feed = feed.subscribe();
    fs::remove_dir(home.place.spool()).unwrap();
    fs::write(home.place.spool(), "no folder").unwrap();
    refuse_all(&home, true);
    // Neither the event nor what was decided of it.
    keep_now(&writer, held(1, 1));
    decide_now(&writer, decided(held(1, 1), 1));
    assert_eq!((counters.in_memory.get(), counters.lost.get()), (2, 0));
    refuse_all(&home, false);
    wait(PATIENCE, writer.take_in()).unwrap();
    assert_eq!(counters.in_memory.get(), 0);
    is_whole(&home, 1);
    assert_eq!(shown(&mut feed), [id(1)]);
}

#[test]
fn an_event_that_went_to_the_spool_is_completed_before_or_after_its_intake() {
    for taken_in in [false, true] {
        let Started {
            home, writer, feed, ..
        } = start();
        let mut feed = feed.subscribe();
        refuse_all(&home, true);
        keep_now(&writer, held(1, 1));
        refuse_all(&home, false);
        if taken_in {
            wait(PATIENCE, writer.take_in()).unwrap();
        }
        decide_now(&writer, decided(held(1, 1), 1));
        wait(PATIENCE, writer.take_in()).unwrap();
        is_whole(&home, 1);
        assert_eq!(shown(&mut feed), [id(1)]);
    }
}

#[test]
fn when_the_daemon_dies_over_a_hook_alone_completes_the_event() {
    let home = Home::new();
    {
        // The first daemon: it takes the event, starts its hooks and is killed.
        let connection = home.open();
        assert!(inbox::put(&connection, &held(1, 1)).unwrap());
    }
    home.leave(1, &left(900, Some("ask")));
    let (writer, _) = Writer::start(parts(&home)).unwrap();
    wait(PATIENCE, writer.take_in()).unwrap();
    let rows = rows(&home.open());
    assert_eq!(rows.len(), 1);
    assert_eq!((rows[0].seq, rows[0].took_us), (1, Some(900)));
    assert_eq!(rows[0].source, Source::Alone);
    let said = rows[0].decision.as_ref().map(|decision| &*decision.answer);
    assert_eq!(said, Some("ask"));
    let detour: String = home
        .open()
        .query_row("SELECT detour FROM events", [], |row| row.get(0))
        .unwrap();
    assert_eq!(detour, "absent");
    assert_eq!(hooks(&home), [""; 0]);
}

#[test]
fn what_alone_answered_stands_and_the_runs_are_told_all_the_same() {
    let Started { home, writer, .. } = start();
    keep_now(&writer, held(1, 1));
    // The shim waited no longer.
    home.leave(1, &left(900, None));
    wait(PATIENCE, writer.take_in()).unwrap();
    decide_now(&writer, decided(held(1, 1), 1));
    wait(PATIENCE, writer.take_in()).unwrap();
    let rows = rows(&home.open());
    assert_eq!(
        (rows[0].took_us, rows[0].source),
        (Some(900), Source::Alone)
    );
    assert_eq!(rows[0].decision, None);
    assert_eq!(hooks(&home), ["lint", "test"]);
}

#[test]
fn what_alone_ran_comes_with_the_spool() {
    let Started { home, writer, .. } = start();
    let mut alone = left(900, None);
    alone.runs = vec![run(1, "lint")];
    home.leave(1, &alone);
    wait(PATIENCE, writer.take_in()).unwrap();
    assert_eq!(hooks(&home), ["lint"]);
}

#[test]
fn a_run_that_ends_later_waits_until_the_database_takes_it() {
    let Started {
        home,
        writer,
        counters,
        ..
    } = start();
    let secret = format!("{}_{}", "ghp", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8");
    let ended = RunRow {
        note: Some(secret.clone()),
        ..run(1, "notify")
    };
    let refuse = "CREATE TRIGGER full BEFORE INSERT ON runs BEGIN SELECT RAISE(ABORT, 'no'); END";
    home.open().execute_batch(refuse).unwrap();
    writer.runs(vec![ended]).unwrap();
    wait(PATIENCE, writer.take_in()).unwrap();
    assert_eq!(hooks(&home), [""; 0]);
    home.open().execute_batch("DROP TRIGGER full").unwrap();
    wait(PATIENCE, writer.take_in()).unwrap();
    assert_eq!(hooks(&home), ["notify"]);
    assert_eq!(counters.runs_lost.get(), 0);
    let note: String = home
        .open()
        .query_row("SELECT note FROM runs", [], |row| row.get(0))
        .unwrap();
    assert!(!note.contains(&secret), "{note}");
}

#[test]
fn more_runs_than_memory_holds_are_counted() {
    let Started {
        home,
        writer,
        counters,
        ..
    } = start();
    let refuse = "CREATE TRIGGER full BEFORE INSERT ON runs BEGIN SELECT RAISE(ABORT, 'no'); END";
    home.open().execute_batch(refuse).unwrap();
    let many: Vec<RunRow> = (0..5000).map(|number| run(number, "notify")).collect();
    writer.runs(many).unwrap();
    wait(PATIENCE, writer.take_in()).unwrap();
    let lost = counters.runs_lost.get();
    assert!(lost > 0);
    home.open().execute_batch("DROP TRIGGER full").unwrap();
    wait(PATIENCE, writer.take_in()).unwrap();
    assert_eq!(runs_of(&home.open()).len() as u64 + lost, 5000);
}

fn break_database(home: &Home) {
    home.open()
        .execute_batch(
            "PRAGMA writable_schema = ON;
             UPDATE sqlite_schema SET rootpage = 99999 WHERE name = 'events';
             PRAGMA writable_schema = OFF;
             PRAGMA schema_version = 1000;",
        )
        .unwrap();
}

#[test]
fn what_waits_in_the_inbox_outlives_a_database_that_breaks_while_it_is_settled() {
    let Started { home, writer, .. } = start();
    // What an earlier daemon may have left is looked for once, before.
    wait(PATIENCE, writer.take_in()).unwrap();
    let three: Vec<Record> = (1..=3)
        .map(|number| record(number.into(), number))
        .collect();
    for event in &three {
        keep_now(&writer, event.clone());
    }
    assert_eq!(inbox::waiting(&home.open(), &masker()).unwrap().len(), 3);
    break_database(&home);
    wait(PATIENCE, writer.take_in()).unwrap();
    let expected: Vec<_> = three.iter().map(Record::to_row).collect();
    assert_eq!(rows(&home.open()), expected);
}

#[test]
fn a_decision_stays_with_its_event_when_the_database_breaks() {
    let Started { home, writer, .. } = start();
    keep_now(&writer, held(1, 1));
    wait(PATIENCE, writer.take_in()).unwrap();
    break_database(&home);
    decide_now(&writer, decided(held(1, 1), 1));
    wait(PATIENCE, writer.take_in()).unwrap();
    // The new database has the event whole, although it never saw it before.
    is_whole(&home, 1);
}

#[test]
fn a_session_is_what_it_was_after_the_event_unless_the_hooks_changed_it() {
    use becket_engine::session::Session;

    let titled = |title: &str, revision| {
        let mut session = Session::new("s", 5);
        session.title = Some(title.to_owned());
        Kept::new(&session, revision)
    };
    for (changed, expected) in [(None, "before"), (titled("after", 2), "after")] {
        let Started { home, writer, .. } = start();
        let mut event = held(1, 1);
        event.session = titled("before", 1);
        keep_now(&writer, event.clone());
        event.session = changed;
        decide_now(&writer, decided(event, 1));
        wait(PATIENCE, writer.take_in()).unwrap();
        let live = super::super::super::sessions(&home.open(), super::super::super::Which::Live);
        assert_eq!(live.unwrap()[0].title.as_deref(), Some(expected));
    }
}

#[test]
fn an_older_spool_file_says_nothing_of_runs() {
    let old = r#"{"took_us":1,"decision":null,"masked":0,"source":"alone","why":"absent"}"#;
    let read: super::super::super::spool::Left = serde_json::from_str(old).unwrap();
    assert_eq!(read.runs, []);
    assert_eq!(read.decision, None::<Decision>);
}

#[test]
fn what_came_before_the_end_is_kept_and_what_comes_after_is_given_back() {
    let Started { home, writer, .. } = start();
    let event = held(1, 1);
    keep_now(&writer, event.clone());
    // While the desk is ours, the thread gets no further than to take up its first job.
    let desk = writer.desk.lock().unwrap();
    let (done, closed) = oneshot::channel();
    assert!(writer.queue(Job::Close { tidy: true, done }).is_ok());
    let answered = decide(&writer, decided(event.clone(), 1));
    assert!(writer.runs(vec![run(1, "behind")]).is_ok());
    drop(desk);
    assert_eq!(wait(PATIENCE, closed), Some(Ok(())));
    assert_eq!(wait(PATIENCE, answered), Some(Ok(())));
    assert_eq!(hooks(&home), ["behind", "lint", "test"]);
    let (record, _then) = writer
        .decide(decided(event, 1), Box::new(|| ()))
        .expect_err("the writer has gone");
    assert_eq!(record.runs.len(), 2);
    assert_eq!(writer.runs(vec![run(1, "late")]).unwrap_err().len(), 1);
}
