//! Doubles among what the spool brings: by the word of whoever left it, else by the same rule as of
//! those that the daemon hears of itself.

use std::time::Duration;

use becket_engine::doubles::{WITHIN, is_double};
use rusqlite::{Connection, OptionalExtension, params};

use super::record::{Record, unpack};

/// So many events are looked at: a flood of them must not make each cost more.
const REMEMBERED: i64 = 2048;

/// Events of a session at about a time that may be the same as another one.
const ALIKE: &str = "SELECT e.seq, e.at, e.origin, p.encoding, p.body FROM
    (SELECT * FROM events WHERE at BETWEEN ?2 - ?3 AND ?2 + ?3 ORDER BY at DESC LIMIT ?7) e
    JOIN payloads p ON p.seq = e.seq WHERE e.session_id = ?1 AND e.event IS ?4 AND e.size = ?5 AND e.id <> ?6 AND e.duplicate_of IS NULL
    ORDER BY e.seq DESC";

/// The event of the log that this one repeats.
pub(super) fn first_of(connection: &Connection, record: &Record) -> rusqlite::Result<Option<i64>> {
    if let Some(first) = record.double_of() {
        let mut select = connection.prepare_cached("SELECT seq FROM events WHERE id = ?1")?;
        let named = select.query_row([first.as_bytes()], |row| row.get(0));
        if let Some(seq) = named.optional()? {
            return Ok(Some(seq));
        }
    }
    told_alike(connection, record)
}

/// The newest that says the same and came from another registration, at about that time.
fn told_alike(connection: &Connection, record: &Record) -> rusqlite::Result<Option<i64>> {
    let row = record.to_row();
    let (Some(session), Some(payload)) = (&row.session_id, &row.payload) else {
        return Ok(None);
    };
    let mut select = connection.prepare_cached(ALIKE)?;
    let within = WITHIN.as_millis() as i64;
    let size = payload.len() as i64;
    let mut rows = select.query(params![
        session,
        row.at,
        within,
        row.event,
        size,
        row.id.as_bytes(),
        REMEMBERED
    ])?;
    let from = record.envelope().from.as_deref();
    while let Some(found) = rows.next()? {
        let at: i64 = found.get(1)?;
        let origin: Option<String> = found.get(2)?;
        let apart = Duration::from_millis(at.abs_diff(row.at));
        let body = unpack(found.get_ref(4)?.as_blob()?, found.get(3)?);
        if is_double(origin.as_deref(), from, apart) && body.is_ok_and(|body| body == *payload) {
            return found.get(0).map(Some);
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::super::sample::Home;
    use super::*;

    #[test]
    fn however_long_the_log_is_few_events_are_looked_at() {
        let connection = Home::new().open();
        let explain = format!("EXPLAIN QUERY PLAN {ALIKE}");
        let mut explain = connection.prepare(&explain).unwrap();
        let steps = explain
            .query_map(params!["s", 5, 5, "e", 5, [0_u8; 16], REMEMBERED], |row| {
                row.get::<_, String>(3)
            })
            .unwrap();
        let plan: Vec<String> = steps.map(Result::unwrap).collect();
        let plan = plan.join("; ");
        let by_time = "events USING INDEX events_at (at>? AND at<?)";
        assert!(plan.contains(by_time), "{plan}");
        assert!(!plan.contains("SCAN events"), "{plan}");
    }
}
