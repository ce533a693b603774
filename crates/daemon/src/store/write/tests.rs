use std::fs;

use becket_wire::rpc::Source;
use tokio::sync::broadcast::error::TryRecvError;

use super::super::sample::{Home, decision, id, left, masker, record, rows, run, runs_of};
use super::*;

/// Long enough for a loaded machine.
const PATIENCE: Duration = Duration::from_secs(30);
/// An answer that comes too early comes at once.
const TOO_EARLY: Duration = Duration::from_millis(200);
const LIMITS: Limits = Limits {
    days: 90_000,
    bytes: u64::MAX,
};

struct Started {
    home: Home,
    writer: Writer,
    counters: Arc<Counters>,
    feed: broadcast::Receiver<Arc<EventRow>>,
}

fn start() -> Started {
    let home = Home::new();
    let parts = Parts {
        opened: open::open(&home.place.database(), 0).unwrap(),
        place: home.place.clone(),
        masker: Arc::new(masker()),
        sequence: Arc::new(AtomicI64::new(1_000_000)),
        feed: broadcast::channel(64).0,
        counters: Arc::default(),
    };
    let (counters, feed) = (Arc::clone(&parts.counters), parts.feed.subscribe());
    let apply = |_: &Arc<Brought>| (Vec::new(), Box::new(|| ()) as Then);
    let (writer, _) = Writer::start(parts, apply).unwrap();
    Started {
        home,
        writer,
        counters,
        feed,
    }
}

/// Runs this to its end, but not for ever.
fn wait<T>(bound: Duration, what: impl Future<Output = T>) -> Option<T> {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap()
        .block_on(async { tokio::time::timeout(bound, what).await.ok() })
}

fn tick(writer: &Writer, now_ms: i64, limits: Limits) {
    let masker = Arc::new(masker());
    let tick = Tick {
        now_ms,
        limits,
        masker,
    };
    wait(PATIENCE, writer.tick(tick)).unwrap();
    // The tick is done when something after it is.
    take_in(writer);
}

fn take_in(writer: &Writer) -> HashSet<i64> {
    wait(PATIENCE, writer.take_in()).unwrap()
}

/// Something to call once an event is kept, and something that hears it.
fn hears() -> (Then, oneshot::Receiver<()>) {
    let (kept, wait) = oneshot::channel();
    (Box::new(move || kept.send(()).unwrap_or_default()), wait)
}

fn keep(writer: &Writer, record: Record) -> Result<oneshot::Receiver<()>, Full> {
    let (then, wait) = hears();
    writer.keep(record, then).map(|()| wait)
}

fn keep_now(writer: &Writer, record: Record) {
    assert_eq!(wait(PATIENCE, keep(writer, record).unwrap()), Some(Ok(())));
}

fn decide_now(writer: &Writer, record: Record) {
    let (then, kept) = hears();
    assert!(writer.decide(record, then).is_ok());
    assert_eq!(wait(PATIENCE, kept), Some(Ok(())));
}

/// An event before its hooks run.
fn held(number: u32) -> Record {
    let mut record = record(number.into(), number);
    record.held = true;
    record
}

/// The same when they have.
fn decided(number: u32) -> Record {
    let mut record = held(number);
    record.took_us = Some(5000);
    record.decision = Some(decision("deny"));
    record.runs = vec![run(number, "lint"), run(number, "test")];
    record
}

/// The log says what was decided, and which hooks ran.
fn is_whole(home: &Home, number: u32) {
    let rows = rows(&home.open());
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert_eq!((rows[0].id, rows[0].took_us), (id(number), Some(5000)));
    let said = rows[0].decision.as_ref().map(|decision| &*decision.answer);
    assert_eq!((said, rows[0].source), (Some("deny"), Source::Daemon));
    assert_eq!(runs_of(&home.open()).len(), 2);
}

fn shown(feed: &mut broadcast::Receiver<Arc<EventRow>>) -> Vec<(EventId, bool)> {
    std::iter::from_fn(|| match feed.try_recv() {
        Ok(row) => Some((row.id, row.decision.is_some())),
        Err(TryRecvError::Empty | TryRecvError::Closed) => None,
        Err(TryRecvError::Lagged(_)) => panic!("the feed is too short"),
    })
    .collect()
}

/// Makes the database refuse every event, or take them again.
fn refuse(home: &Home, refuse: bool) {
    let change = if refuse {
        "CREATE TRIGGER full BEFORE INSERT ON events BEGIN SELECT RAISE(ABORT, 'no room'); END"
    } else {
        "DROP TRIGGER IF EXISTS full"
    };
    home.open().execute_batch(change).unwrap();
}

/// The same damage to every reader: a schema that makes no sense.
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
fn replies_go_out_after_the_commit() {
    let Started { home, writer, .. } = start();
    let other = home.open();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let waiting: Vec<_> = (1..=50)
        .map(|number| keep(&writer, record(number.into(), number)).unwrap())
        .collect();
    let mut waiting = waiting.into_iter();
    let mut first = waiting.next().unwrap();
    assert!(wait(TOO_EARLY, &mut first).is_none(), "answered too early");
    drop(other);
    let reader = home.open();
    for (answered, kept) in [first].into_iter().chain(waiting).enumerate() {
        assert_eq!(wait(PATIENCE, kept), Some(Ok(())));
        assert!(rows(&reader).len() > answered);
    }
}

#[test]
fn a_full_queue_says_so_and_loses_nothing_that_it_took() {
    let Started { home, writer, .. } = start();
    let other = home.open();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut taken = Vec::new();
    for number in 1.. {
        match keep(&writer, record(number.into(), number)) {
            Ok(kept) => taken.push(kept),
            Err(Full) => break,
        }
        assert!(taken.len() <= QUEUE + GROUP, "it is never full");
    }
    drop(other);
    let count = taken.len();
    for kept in taken {
        assert_eq!(wait(PATIENCE, kept), Some(Ok(())));
    }
    assert_eq!(rows(&home.open()).len(), count);
}

#[test]
fn closing_writes_what_still_waits_and_gives_back_what_comes_later() {
    let Started { home, writer, .. } = start();
    let waiting: Vec<_> = (1..=100)
        .map(|number| keep(&writer, record(number.into(), number)).unwrap())
        .collect();
    wait(PATIENCE, writer.close(true)).unwrap();
    for kept in waiting {
        assert_eq!(wait(PATIENCE, kept), Some(Ok(())));
    }
    assert!(writer.decide(decided(1), Box::new(|| ())).is_err());
    assert!(writer.runs(vec![run(1, "late")]).is_err());
    assert_eq!(rows(&home.open()).len(), 100);
}

#[test]
fn followers_see_an_event_once_and_with_its_decision() {
    let Started {
        home,
        writer,
        mut feed,
        ..
    } = start();
    keep_now(&writer, held(1));
    keep_now(&writer, record(2, 2));
    assert_eq!(take_in(&writer), HashSet::from([1]));
    assert_eq!(shown(&mut feed), [(id(2), false)]);
    decide_now(&writer, decided(1));
    assert!(take_in(&writer).is_empty());
    assert_eq!(shown(&mut feed), [(id(1), true)]);
    // By the spool: as it is then. A late delivery of the same changes nothing.
    home.leave(3, &left(900, None));
    take_in(&writer);
    keep_now(&writer, record(3, 3));
    take_in(&writer);
    assert_eq!(shown(&mut feed), [(id(3), false)]);
    assert_eq!(rows(&home.open()).len(), 3);
}

#[test]
fn what_the_database_refuses_comes_by_the_spool() {
    for (held_too, taken_in) in [(false, false), (true, false), (true, true)] {
        let Started {
            home,
            writer,
            counters,
            ..
        } = start();
        refuse(&home, held_too);
        keep_now(&writer, held(1));
        refuse(&home, !held_too);
        if taken_in {
            take_in(&writer);
        }
        decide_now(&writer, decided(1));
        assert_eq!(counters.to_spool.get(), 1, "the answer goes out");
        if !held_too {
            refuse(&home, false);
        }
        take_in(&writer);
        assert_eq!(home.files(), 0);
        is_whole(&home, 1);
    }
}

#[test]
fn what_neither_database_nor_spool_takes_is_counted() {
    let Started {
        home,
        writer,
        counters,
        ..
    } = start();
    refuse(&home, true);
    fs::remove_dir(home.place.spool()).unwrap();
    fs::write(home.place.spool(), "no folder").unwrap();
    keep_now(&writer, held(1));
    decide_now(&writer, decided(1));
    assert_eq!((counters.lost.get(), counters.runs_lost.get()), (1, 2));
}

#[test]
fn what_standalone_answered_stands_and_the_runs_are_told_all_the_same() {
    let Started {
        home,
        writer,
        mut feed,
        ..
    } = start();
    keep_now(&writer, held(1));
    // The shim waited no longer.
    home.leave(1, &left(900, None));
    take_in(&writer);
    assert_eq!(shown(&mut feed), [(id(1), false)]);
    decide_now(&writer, decided(1));
    writer.runs(vec![run(1, "behind")]).unwrap();
    take_in(&writer);
    let row = rows(&home.open()).remove(0);
    let answered = (row.seq, row.took_us, row.source, row.decision);
    assert_eq!(answered, (1, Some(900), Source::Alone, None));
    assert_eq!(runs_of(&home.open()).len(), 3);
    assert_eq!(shown(&mut feed), []);
}

#[test]
fn a_tick_takes_in_and_keeps_retention() {
    const DAY: i64 = 86_400_000;
    let Started { home, writer, .. } = start();
    home.leave(1, &left(900, None));
    tick(&writer, 2 * DAY, Limits { days: 1, ..LIMITS });
    let rows = rows(&home.open());
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].payload, None, "it is of 1970");
}

#[test]
fn a_database_that_breaks_is_set_aside_and_a_decision_keeps_its_event() {
    let Started {
        home,
        writer,
        counters,
        ..
    } = start();
    keep_now(&writer, held(1));
    tick(&writer, 17, LIMITS);
    break_database(&home);
    decide_now(&writer, decided(1));
    // The new database has the event whole, although it never saw it before.
    is_whole(&home, 1);
    let aside = home.place.home().join("becket.db.damaged-17");
    assert!(aside.exists());
    let troubles = counters.troubles();
    assert!(troubles[0].contains("becket.db.damaged-17"), "{troubles:?}");
}
