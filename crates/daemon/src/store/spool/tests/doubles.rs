//! The same event from two registrations, in the spool.

use std::fs::File;
use std::time::{Duration, SystemTime};

use becket_wire::rpc::EventRow;

use super::super::super::sample::record_of;
use super::*;

/// Event so and so says what event 1 says, at that time and from there.
fn told(number: u32, at: i64, from: &str) -> Envelope {
    Envelope {
        at,
        from: Some(from.to_owned()),
        ..envelope(number)
    }
}

/// Leaves it, as the double of another, if it knows that.
fn leave_told(home: &Home, number: u32, at: i64, from: &str, double_of: Option<u32>) {
    let left = Left {
        double_of: double_of.map(id),
        ..left(1, None)
    };
    leave(&home.place, &told(number, at, from), &payload(1), &left).unwrap();
}

fn row_of(connection: &Connection, number: u32) -> EventRow {
    let found = rows(connection)
        .into_iter()
        .find(|row| row.id == id(number));
    found.unwrap_or_else(|| panic!("event {number}"))
}

#[track_caller]
fn repeats(connection: &Connection, double: u32, first: Option<u32>) {
    let first = first.map(|first| row_of(connection, first).seq);
    assert_eq!(row_of(connection, double).duplicate_of, first);
}

#[test]
fn whoever_knows_itself_for_a_double_comes_after_what_it_repeats() {
    for steps in 1..=8 {
        let home = Home::new();
        // The second was the first to leave its mark.
        leave_told(&home, 1, 10, "plugin", Some(2));
        leave_told(&home, 2, 10, "settings", None);
        Daemon::start(&home).take_in(&home, steps);
        let mut daemon = Daemon::start(&home);
        daemon.take_in(&home, usize::MAX);
        assert_eq!(home.files(), 0, "{steps} steps");
        assert_eq!(rows(&daemon.connection).len(), 2, "{steps} steps");
        repeats(&daemon.connection, 2, None);
        repeats(&daemon.connection, 1, Some(2));
    }
}

#[test]
fn a_double_waits_for_what_it_repeats_a_minute_at_most() {
    let home = Home::new();
    leave_told(&home, 1, 10, "plugin", Some(2));
    let mut daemon = Daemon::start(&home);
    assert!(daemon.take_in(&home, usize::MAX).new.is_empty());
    assert_eq!(home.files(), 1);
    leave_told(&home, 2, 10, "settings", None);
    assert_eq!(daemon.take_in(&home, usize::MAX).new.len(), 2);
    repeats(&daemon.connection, 1, Some(2));
    // What it repeats never comes: then it is all that is known of the event.
    leave_told(&home, 3, 90_000, "plugin", Some(4));
    let long_ago = SystemTime::now() - Duration::from_secs(61);
    let file = File::open(home.place.spooled(id(3))).unwrap();
    file.set_modified(long_ago).unwrap();
    assert_eq!(daemon.take_in(&home, usize::MAX).new.len(), 1);
    repeats(&daemon.connection, 3, None);
}

#[test]
fn what_nobody_marked_is_found_by_the_same_rule() {
    let home = Home::new();
    let mut daemon = Daemon::start(&home);
    leave_told(&home, 1, 10_000, "settings", None);
    leave_told(&home, 2, 14_999, "plugin", None);
    leave_told(&home, 3, 14_999, "settings", None);
    leave_told(&home, 4, 19_999, "plugin", None);
    leave_told(&home, 5, 5_001, "run", None);
    let other = told(6, 10_000, "plugin");
    leave(&home.place, &other, &payload(2), &left(1, None)).unwrap();
    let new = daemon.take_in(&home, usize::MAX).new;
    assert_eq!(new.len(), 6);
    let doubles = new.iter().filter(|record| record.duplicate_of.is_some());
    assert_eq!(doubles.count(), 2, "the sessions hear of it");
    let connection = &daemon.connection;
    repeats(connection, 1, None);
    repeats(connection, 2, Some(1));
    repeats(connection, 3, None);
    repeats(connection, 4, None);
    repeats(connection, 5, Some(1));
    repeats(connection, 6, None);
}

#[test]
fn the_first_may_have_come_by_the_socket_and_be_long() {
    let home = Home::new();
    let mut daemon = Daemon::start(&home);
    let long = format!(r#"{{"session_id":"s","padding":"{}"}}"#, "x".repeat(9000));
    let first = record_of(1, told(1, 10, "settings"), long.as_bytes());
    first.insert(&daemon.connection).unwrap();
    daemon.next = 2;
    let second = told(2, 20, "plugin");
    leave(&home.place, &second, long.as_bytes(), &left(1, None)).unwrap();
    daemon.take_in(&home, usize::MAX);
    repeats(&daemon.connection, 2, Some(1));
}
