//! Retention: deletes old payloads, and the oldest ones if the database is too large. Rows stay for ever.

use std::time::{Duration, Instant};

use rusqlite::{Connection, params};

/// The limits for payloads.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub days: u32,
    pub bytes: u64,
}

/// The largest numbers of payloads that one slice deletes, and of rows that it reads. A slice runs between two
/// commits.
const SLICE: usize = 200;
const LOOK: usize = 2000;

/// The time for which the wall clock must have kept pace before payloads are deleted for their age.
const STEADY: Duration = Duration::from_secs(3600);
/// The largest drift of the wall clock between two ticks that is no jump.
const JUMP_MS: u64 = 60_000;

/// Compares the wall clock with the monotonic clock. A wall clock that was set, for example 100 days
/// ahead for five seconds, must not make every payload look old.
#[derive(Debug)]
pub(super) struct Clock {
    last: (i64, Instant),
    steady_since: Instant,
}

impl Clock {
    pub(super) fn new(now_ms: i64, now: Instant) -> Self {
        Self {
            last: (now_ms, now),
            steady_since: now,
        }
    }

    /// Returns true if the wall clock has not jumped for an hour. A sleep of the machine counts as a jump.
    pub(super) fn is_steady(&mut self, now_ms: i64, now: Instant) -> bool {
        let (last_ms, last) = std::mem::replace(&mut self.last, (now_ms, now));
        let passed = now.saturating_duration_since(last).as_millis() as i64;
        if now_ms.abs_diff(last_ms.saturating_add(passed)) > JUMP_MS {
            self.steady_since = now;
        }
        now.saturating_duration_since(self.steady_since) >= STEADY
    }
}

/// The progress of retention, in order of (at, seq): no row up to `done` has a payload. Rows stay, so without
/// this every slice would read all of them again.
#[derive(Debug, Default)]
pub(super) struct Retention {
    done: (i64, i64),
}

impl Retention {
    /// Takes note of an event that was written. From the spool, or under a clock that was set back, it may be older
    /// than events whose payloads are deleted already.
    pub(super) fn note_written(&mut self, at: i64) {
        if at <= self.done.0 {
            self.done = (at, 0);
        }
    }

    /// Deletes one slice of the payloads that are over the limits. Returns true if there may be more.
    pub(super) fn slice(
        &mut self,
        connection: &mut Connection,
        limits: Limits,
        now_ms: i64,
    ) -> rusqlite::Result<bool> {
        let oldest = now_ms.saturating_sub(i64::from(limits.days) * 86_400_000);
        let over = used(connection)?.saturating_sub(limits.bytes);
        let transaction = connection.transaction()?;
        let (mut looked, mut dropped, mut freed) = (0, 0, 0);
        let mut done = self.done;
        {
            let mut rows = transaction.prepare_cached(&format!(
                "SELECT e.at, e.seq, length(p.body) FROM events e LEFT JOIN payloads p ON p.seq = e.seq
                 WHERE (e.at, e.seq) > (?1, ?2) ORDER BY e.at, e.seq LIMIT {LOOK}"
            ))?;
            let mut delete = transaction.prepare_cached("DELETE FROM payloads WHERE seq = ?1")?;
            let mut rows = rows.query(params![done.0, done.1])?;
            while dropped < SLICE
                && let Some(row) = rows.next()?
            {
                let (at, seq): (i64, i64) = (row.get(0)?, row.get(1)?);
                if at >= oldest && freed >= over {
                    break;
                }
                if let Some(bytes) = row.get::<_, Option<i64>>(2)? {
                    delete.execute([seq])?;
                    dropped += 1;
                    freed += bytes.unsigned_abs();
                }
                looked += 1;
                done = (at, seq);
            }
        }
        transaction.commit()?;
        self.done = done;
        // A deleted payload may have freed less than its length: the next slice measures again.
        Ok(dropped > 0 || looked == LOOK)
    }
}

/// Returns the bytes in use. Free pages inside the file are used again and do not count.
fn used(connection: &Connection) -> rusqlite::Result<u64> {
    let pages = pragma(connection, "page_count")? - pragma(connection, "freelist_count")?;
    Ok(pages * pragma(connection, "page_size")?)
}

fn pragma(connection: &Connection, name: &str) -> rusqlite::Result<u64> {
    connection
        .pragma_query_value(None, name, |row| row.get::<_, i64>(0))
        .map(i64::unsigned_abs)
}

#[cfg(test)]
mod tests {
    use becket_wire::rpc::EventRow;

    use super::super::tests::{Home, envelope, record_of, rows};
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
        record_of(i64::from(number), envelope, payload.as_bytes())
            .insert(connection)
            .unwrap();
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
    fn events_from_the_future_do_not_block_retention() {
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
    fn a_clock_that_jumped_is_not_steady_for_an_hour() {
        let start = Instant::now();
        let mut clock = Clock::new(NOW, start);
        let mut at = |seconds: i64, ahead: i64| {
            let now = start + Duration::from_secs(seconds.unsigned_abs());
            clock.is_steady(NOW + seconds * 1000 + ahead, now)
        };
        assert!(!at(2, 0), "it may be wrong since before the start");
        assert!(at(3600, 0));
        // 100 days ahead for five seconds, then right again.
        for (seconds, ahead) in [(3602, 100 * DAY), (3604, 100 * DAY), (3607, 0), (7200, 0)] {
            assert!(!at(seconds, ahead), "{seconds}");
        }
        assert!(at(7207, 0));
        assert!(at(7209, 900), "a second is no jump");
    }

    #[test]
    fn an_old_event_that_arrives_late_loses_its_payload_too() {
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
            retention.note_written(at);
        }
        run(&mut retention, &mut connection, limits);
        assert_eq!(with_payload(&rows(&connection)), [4]);
    }
}
