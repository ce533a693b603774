//! Events that were left while their hooks ran without a daemon, as onlookers see them.

use super::super::super::sample::run;
use super::super::super::spool::{Left, amend};
use super::*;

/// An event as it is left before its hooks run.
fn undecided() -> Left {
    Left {
        took_us: None,
        held: true,
        ..left(0, None)
    }
}

fn take_in(started: &Started) -> HashSet<i64> {
    wait(PATIENCE, started.writer.take_in()).unwrap()
}

/// Has the clock say this, and everything done that is done then.
fn at(started: &Started, now_ms: i64) -> HashSet<i64> {
    let limits = Limits {
        days: 90,
        bytes: u64::MAX,
    };
    wait(PATIENCE, started.writer.tick(tick(now_ms, limits))).unwrap();
    take_in(started)
}

#[test]
fn what_is_decided_later_is_shown_then_and_once() {
    let started = start();
    let mut feed = started.feed.subscribe();
    started.home.leave(1, &undecided());
    started.home.leave(2, &left(900, None));
    assert_eq!(take_in(&started).len(), 1, "it waits");
    assert_eq!(shown(&mut feed), [id(2)]);
    // A hook that nobody waited for has ended; others run.
    let behind = Left::of_runs(vec![run(1, "lint")]);
    amend(&started.home.place, id(1), &behind).unwrap();
    assert_eq!(take_in(&started).len(), 1, "it waits still");
    assert_eq!(shown(&mut feed), []);
    amend(&started.home.place, id(1), &left(5000, Some("deny"))).unwrap();
    assert!(take_in(&started).is_empty());
    let row = feed.try_recv().unwrap();
    let said = row.decision.as_ref().map(|decision| &*decision.answer);
    assert_eq!(
        (row.id, row.took_us, said),
        (id(1), Some(5000), Some("deny"))
    );
    assert!(at(&started, 60_001).is_empty());
    assert_eq!(shown(&mut feed), []);
}

#[test]
fn what_comes_with_its_decision_is_shown_at_once() {
    let started = start();
    let mut feed = started.feed.subscribe();
    started.home.leave(1, &undecided());
    amend(&started.home.place, id(1), &left(5000, Some("deny"))).unwrap();
    assert!(take_in(&started).is_empty());
    let row = feed.try_recv().unwrap();
    assert_eq!((row.id, row.took_us), (id(1), Some(5000)));
    assert_eq!(shown(&mut feed), []);
}

#[test]
fn what_nobody_decides_is_shown_after_a_minute() {
    let started = start();
    let mut feed = started.feed.subscribe();
    started.home.leave(1, &undecided());
    assert_eq!(at(&started, 60_000).len(), 1);
    assert_eq!(shown(&mut feed), []);
    assert!(at(&started, 60_001).is_empty());
    let row = feed.try_recv().unwrap();
    assert_eq!((row.id, row.took_us), (id(1), None));
    amend(&started.home.place, id(1), &left(5000, Some("deny"))).unwrap();
    take_in(&started);
    assert_eq!(shown(&mut feed), [], "once is enough");
    // Old ones wait for nobody.
    at(&started, 90_000);
    started.home.leave(2, &undecided());
    assert!(take_in(&started).is_empty());
    assert_eq!(shown(&mut feed), [id(2)]);
}
