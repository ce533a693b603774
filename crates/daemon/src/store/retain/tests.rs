use becket_wire::rpc::EventRow;

use super::super::sample::{Home, envelope, record_of, rows};
use super::*;

const DAY: i64 = 86_400_000;
const NOW: i64 = 1_000 * DAY;
const ALL_BYTES: u64 = u64::MAX;

/// Writes one event of that age, with a payload of so many bytes that do not compress.
fn write(connection: &Connection, number: u32, at: i64, bytes: usize) {
    let mut state = u64::from(number) + 1;
    let noise: String = std::iter::repeat_with(|| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        char::from(b'!' + ((state >> 33) % 90) as u8)
    })
    .filter(|c| !matches!(c, '"' | '\\'))
    .take(bytes)
    .collect();
    let mut envelope = envelope(number);
    envelope.at = at;
    let payload = format!(r#"{{"session_id":"s","noise":"{noise}"}}"#);
    assert!(
        record_of(i64::from(number), envelope, payload.as_bytes())
            .insert(connection)
            .unwrap()
    );
}

fn run(retention: &mut Retention, connection: &mut Connection, limits: Limits) {
    while retention.slice(connection, limits, NOW).unwrap() {}
}

fn with_payload(rows: &[EventRow]) -> Vec<i64> {
    rows.iter()
        .filter(|row| row.payload.is_some())
        .map(|row| row.seq)
        .collect()
}

#[test]
fn old_payloads_go_and_their_rows_stay() {
    let home = Home::new();
    let mut connection = home.open();
    for number in 1..=10 {
        write(&connection, number, NOW - i64::from(11 - number) * DAY, 10);
    }
    let limits = Limits {
        days: 4,
        bytes: ALL_BYTES,
    };
    run(&mut Retention::default(), &mut connection, limits);
    let rows = rows(&connection);
    assert_eq!(rows.len(), 10);
    // Exactly four days old is not older.
    assert_eq!(with_payload(&rows), [7, 8, 9, 10]);
}

#[test]
fn over_the_bytes_the_oldest_payloads_go_and_no_more_than_needed() {
    const EACH: usize = 20_000;
    let home = Home::new();
    let mut connection = home.open();
    let nothing = used(&connection).unwrap();
    // The order of arrival is not the order of time: what came from the spool came late.
    for number in 1..=40 {
        write(&connection, number, NOW - i64::from(number), EACH);
    }
    let limits = Limits {
        days: 100,
        bytes: nothing + 20 * EACH as u64,
    };
    run(&mut Retention::default(), &mut connection, limits);
    let rows = rows(&connection);
    assert_eq!(rows.len(), 40);
    let kept = with_payload(&rows);
    let used = used(&connection).unwrap();
    assert!(
        used <= limits.bytes && used + EACH as u64 * 2 > limits.bytes,
        "{kept:?}"
    );
    let newest: Vec<i64> = (1..=kept.len() as i64).rev().collect();
    assert_eq!(kept, newest);
}

#[test]
fn a_clock_that_was_wrong_once_holds_nothing_up() {
    let home = Home::new();
    let mut connection = home.open();
    // More than a slice of events from the future came first.
    let first = SLICE as u32 + 50;
    for number in 1..=first {
        write(&connection, number, NOW + 50 * DAY, 10);
    }
    for number in first + 1..=first + 5 {
        write(&connection, number, NOW - 50 * DAY, 10);
    }
    let limits = Limits {
        days: 4,
        bytes: ALL_BYTES,
    };
    run(&mut Retention::default(), &mut connection, limits);
    let rows = rows(&connection);
    assert_eq!(rows.len(), first as usize + 5);
    assert_eq!(with_payload(&rows).len(), first as usize);
}

#[test]
fn what_comes_late_is_found_although_retention_was_past_it() {
    let home = Home::new();
    let mut connection = home.open();
    let mut retention = Retention::default();
    let limits = Limits {
        days: 4,
        bytes: ALL_BYTES,
    };
    write(&connection, 1, NOW - 10 * DAY, 10);
    run(&mut retention, &mut connection, limits);
    for (number, at) in [(2, NOW - 10 * DAY), (3, NOW - 20 * DAY), (4, NOW)] {
        write(&connection, number, at, 10);
        retention.wrote(at);
    }
    run(&mut retention, &mut connection, limits);
    assert_eq!(with_payload(&rows(&connection)), [4]);
}

#[test]
fn more_than_a_slice_takes_several() {
    let home = Home::new();
    let mut connection = home.open();
    let transaction = connection.transaction().unwrap();
    let many = (SLICE * 2 + 10) as u32;
    for number in 1..=many {
        write(&transaction, number, NOW - 10 * DAY, 10);
    }
    transaction.commit().unwrap();
    let limits = Limits {
        days: 4,
        bytes: ALL_BYTES,
    };
    let mut retention = Retention::default();
    let left = |connection: &Connection| with_payload(&rows(connection)).len();
    assert!(retention.slice(&mut connection, limits, NOW).unwrap());
    assert_eq!(left(&connection), SLICE + 10);
    run(&mut retention, &mut connection, limits);
    assert_eq!(left(&connection), 0);
}
