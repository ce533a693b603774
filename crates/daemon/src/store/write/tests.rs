mod decide;
mod onlookers;

use std::fs;
use std::time::Duration;

use becket_wire::EventId;
use tokio::sync::broadcast::error::TryRecvError;

use rusqlite::Connection;

use super::super::sample::{Home, id, left, masker, record, rows};
use super::super::{inbox, open};
use super::thread::GROUP;
use super::*;

/// Long enough for a loaded machine.
const PATIENCE: Duration = Duration::from_secs(30);
/// An answer that comes too early comes at once.
const TOO_EARLY: Duration = Duration::from_millis(200);

struct Started {
    home: Home,
    writer: Writer,
    counters: Arc<Counters>,
    feed: Feed,
}

fn parts(home: &Home) -> Parts {
    Parts {
        opened: open(&home.place.database(), 0).unwrap(),
        place: home.place.clone(),
        masker: Arc::new(masker()),
        sequence: Arc::new(AtomicI64::new(1_000_000)),
        feed: broadcast::channel(64).0,
        counters: Arc::new(Counters::default()),
        apply: Box::new(|_| (Vec::new(), Box::new(|| ()))),
    }
}

fn start() -> Started {
    let home = Home::new();
    let parts = parts(&home);
    let (counters, feed) = (Arc::clone(&parts.counters), parts.feed.clone());
    let (writer, _) = Writer::start(parts).unwrap();
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

fn tick(now_ms: i64, limits: Limits) -> Tick {
    Tick {
        now_ms,
        limits,
        masker: Arc::new(masker()),
    }
}

/// Has an event written, and gives something that hears when it is.
fn keep(writer: &Writer, record: Record) -> Result<oneshot::Receiver<()>, Full> {
    let (kept, wait) = oneshot::channel();
    let then = Box::new(move || kept.send(()).unwrap_or_default());
    writer.keep(record, then).map(|()| wait)
}

/// Keeps everybody from writing for as long as it lives.
fn hold_up(home: &Home) -> Connection {
    let other = home.open();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    other
}

/// How many transactions the log holds: the last frame of each says how large the database is.
fn commits(home: &Home) -> usize {
    const HEAD: usize = 32;
    const FRAME_HEAD: usize = 24;
    let log = fs::read(home.place.database().with_extension("db-wal")).unwrap();
    let page = u32::from_be_bytes(log[8..12].try_into().unwrap()) as usize;
    let salt = &log[16..24];
    log[HEAD..]
        .chunks_exact(FRAME_HEAD + page)
        .take_while(|frame| &frame[8..16] == salt)
        .filter(|frame| frame[4..8] != [0; 4])
        .count()
}

#[test]
fn nobody_is_answered_before_the_commit() {
    let Started { home, writer, .. } = start();
    let held = hold_up(&home);
    let waiting: Vec<_> = (1..=50)
        .map(|number| keep(&writer, record(number.into(), number)).unwrap())
        .collect();
    let mut waiting = waiting.into_iter();
    let mut first = waiting.next().unwrap();
    assert!(wait(TOO_EARLY, &mut first).is_none(), "answered too early");
    drop(held);
    let reader = home.open();
    for (answered, kept) in [first].into_iter().chain(waiting).enumerate() {
        assert_eq!(wait(PATIENCE, kept), Some(Ok(())));
        let inbox = inbox::waiting(&reader, &masker()).unwrap();
        assert!(rows(&reader).len() + inbox.len() > answered);
    }
}

#[test]
fn what_waits_together_commits_together() {
    let Started { home, writer, .. } = start();
    let before = commits(&home);
    let held = hold_up(&home);
    // The first ones may be under way; the others wait for them, and go in one transaction.
    let waiting: Vec<_> = (1..=GROUP as u32)
        .map(|number| keep(&writer, record(number.into(), number)).unwrap())
        .collect();
    drop(held);
    for kept in waiting {
        assert_eq!(wait(PATIENCE, kept), Some(Ok(())));
    }
    let commits = commits(&home) - before;
    wait(PATIENCE, writer.take_in()).unwrap();
    assert_eq!(rows(&home.open()).len(), GROUP);
    assert!((1..=2).contains(&commits), "{commits} commits");
}

#[test]
fn a_full_queue_says_so_and_loses_nothing_that_it_took() {
    let Started { home, writer, .. } = start();
    let held = hold_up(&home);
    let mut taken = Vec::new();
    let mut number = 0;
    loop {
        number += 1;
        match keep(&writer, record(number.into(), number)) {
            Ok(kept) => taken.push(kept),
            Err(Full) => break,
        }
        assert!(
            taken.len() <= QUEUE + GROUP,
            "it never says that it is full"
        );
    }
    assert!(taken.len() >= QUEUE);
    drop(held);
    let taken_in = taken.len();
    for kept in taken {
        assert_eq!(wait(PATIENCE, kept), Some(Ok(())));
    }
    wait(PATIENCE, writer.take_in()).unwrap();
    assert_eq!(rows(&home.open()).len(), taken_in);
    let kept = keep(&writer, record(-1, number)).expect("there is room again");
    assert_eq!(wait(PATIENCE, kept), Some(Ok(())));
}

#[test]
fn closing_writes_what_still_waits() {
    let Started { home, writer, .. } = start();
    let waiting: Vec<_> = (1..=100)
        .map(|number| keep(&writer, record(number.into(), number)).unwrap())
        .collect();
    wait(PATIENCE, writer.close(true)).unwrap();
    for kept in waiting {
        assert_eq!(wait(PATIENCE, kept), Some(Ok(())));
    }
    // Whoever comes now is not taken, or at least never answered.
    if let Ok(kept) = keep(&writer, record(101, 101)) {
        assert!(matches!(wait(PATIENCE, kept), Some(Err(_))));
    }
    assert_eq!(rows(&home.open()).len(), 100);
}

/// Makes the database refuse every event, or take them again.
fn refuse(home: &Home, refuse: bool) {
    let change = if refuse {
        "CREATE TRIGGER full BEFORE INSERT ON inbox BEGIN SELECT RAISE(ABORT, 'no room'); END"
    } else {
        "DROP TRIGGER full"
    };
    home.open().execute_batch(change).unwrap();
}

fn shown(feed: &mut broadcast::Receiver<Arc<EventRow>>) -> Vec<EventId> {
    std::iter::from_fn(|| match feed.try_recv() {
        Ok(row) => Some(row.id),
        Err(TryRecvError::Empty | TryRecvError::Closed) => None,
        Err(TryRecvError::Lagged(_)) => panic!("the feed is too short"),
    })
    .collect()
}

#[test]
fn what_the_database_refuses_goes_to_the_spool_and_is_shown_once() {
    let Started {
        home,
        writer,
        counters,
        feed,
    } = start();
    let mut feed = feed.subscribe();
    refuse(&home, true);
    let kept = keep(&writer, record(1, 1)).unwrap();
    assert_eq!(wait(PATIENCE, kept), Some(Ok(())), "the answer goes out");
    assert_eq!((home.files(), counters.to_spool.get()), (1, 1));
    assert_eq!(shown(&mut feed), [], "it is not in the log yet");
    refuse(&home, false);
    wait(PATIENCE, writer.take_in()).unwrap();
    assert_eq!(home.files(), 0);
    assert_eq!(rows(&home.open()).len(), 1);
    assert_eq!(shown(&mut feed), [id(1)]);
}

#[test]
fn without_a_spool_it_stays_in_memory_and_is_shown_once() {
    let Started {
        home,
        writer,
        counters,
        feed,
    } = start();
    let mut feed = feed.subscribe();
    refuse(&home, true);
    fs::remove_dir(home.place.spool()).unwrap();
    fs::write(home.place.spool(), "no folder").unwrap();
    let kept = keep(&writer, record(1, 1)).unwrap();
    assert_eq!(wait(PATIENCE, kept), Some(Ok(())), "the answer goes out");
    assert_eq!((counters.in_memory.get(), counters.lost.get()), (1, 0));
    refuse(&home, false);
    let limits = Limits {
        days: 90,
        bytes: u64::MAX,
    };
    wait(PATIENCE, writer.tick(tick(0, limits))).unwrap();
    // The tick is done when something after it is.
    wait(PATIENCE, writer.take_in()).unwrap();
    assert_eq!(counters.in_memory.get(), 0);
    assert_eq!(rows(&home.open()).len(), 1);
    assert_eq!(shown(&mut feed), [id(1)]);
}

#[test]
fn an_event_by_two_roads_is_shown_once() {
    let Started {
        home, writer, feed, ..
    } = start();
    let mut feed = feed.subscribe();
    home.leave(1, &left(900, None));
    wait(PATIENCE, writer.take_in()).unwrap();
    // The frame lay in the socket of a daemon that was too slow.
    let kept = keep(&writer, record(1, 1)).unwrap();
    assert_eq!(wait(PATIENCE, kept), Some(Ok(())));
    wait(PATIENCE, writer.take_in()).unwrap();
    assert_eq!(shown(&mut feed), [id(1)]);
    assert_eq!(rows(&home.open()).len(), 1);
}

#[test]
fn a_tick_takes_in_and_keeps_retention() {
    const DAY: i64 = 86_400_000;
    let Started { home, writer, .. } = start();
    home.leave(1, &left(900, None));
    let limits = Limits {
        days: 1,
        bytes: u64::MAX,
    };
    wait(PATIENCE, writer.tick(tick(2 * DAY, limits))).unwrap();
    wait(PATIENCE, writer.take_in()).unwrap();
    let rows = rows(&home.open());
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].payload, None, "it is of 1970");
}

#[test]
fn a_database_that_breaks_is_set_aside_and_nothing_is_lost() {
    let Started {
        home,
        writer,
        counters,
        ..
    } = start();
    for number in 1..=20 {
        let kept = keep(&writer, record(number.into(), number)).unwrap();
        wait(PATIENCE, kept).unwrap().unwrap();
    }
    let limits = Limits {
        days: 90_000,
        bytes: u64::MAX,
    };
    wait(PATIENCE, writer.tick(tick(17, limits))).unwrap();
    // All of them are in the log now, and not at hand any more.
    wait(PATIENCE, writer.take_in()).unwrap();
    {
        // The same damage to every reader: a schema that makes no sense.
        let other = home.open();
        other
            .execute_batch(
                "PRAGMA writable_schema = ON;
                 UPDATE sqlite_schema SET rootpage = 99999 WHERE name = 'events';
                 PRAGMA writable_schema = OFF;
                 PRAGMA schema_version = 1000;",
            )
            .unwrap();
    }
    let kept = keep(&writer, record(100, 100)).unwrap();
    assert_eq!(wait(PATIENCE, kept), Some(Ok(())));
    wait(PATIENCE, writer.take_in()).unwrap();
    let ids: Vec<EventId> = rows(&home.open()).iter().map(|row| row.id).collect();
    assert_eq!(ids, [id(100)]);
    let aside = home.place.home().join("becket.db.damaged-17");
    assert!(aside.exists());
    assert!(
        counters.troubles()[0].contains("becket.db.damaged-17"),
        "{:?}",
        counters.troubles()
    );
}
