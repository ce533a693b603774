//! Retention: payloads go after some days or over some bytes, oldest first; rows stay for ever.

use rusqlite::{Connection, params};

/// What is kept.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub days: u32,
    pub bytes: u64,
}

/// How many payloads one slice drops at the most: a slice runs between two commits.
const SLICE: usize = 200;

/// Drops one slice of what is over the limits. True if there may be more.
pub(super) fn slice(
    connection: &Connection,
    limits: Limits,
    now_ms: i64,
) -> rusqlite::Result<bool> {
    let oldest = now_ms - i64::from(limits.days) * 86_400_000;
    let by_age = drop_oldest(connection, "e.at < ?1", oldest)?;
    if by_age == SLICE {
        return Ok(true);
    }
    if used(connection)? <= limits.bytes {
        return Ok(false);
    }
    Ok(drop_oldest(connection, "?1 = ?1", 0)? == SLICE)
}

fn drop_oldest(connection: &Connection, which: &str, value: i64) -> rusqlite::Result<usize> {
    // Payloads are in order of seq, which is the order of arrival: the first ones are the oldest.
    connection
        .prepare_cached(&format!(
            "DELETE FROM payloads WHERE seq IN
             (SELECT p.seq FROM payloads p JOIN events e ON e.seq = p.seq ORDER BY p.seq LIMIT {SLICE})
             AND seq IN (SELECT e.seq FROM events e WHERE e.seq = payloads.seq AND {which})"
        ))?
        .execute(params![value])
}

/// The bytes in use: free pages inside the file are used again and do not count.
fn used(connection: &Connection) -> rusqlite::Result<u64> {
    let pragma = |name| {
        connection
            .pragma_query_value(None, name, |row| row.get::<_, i64>(0))
            .map(i64::unsigned_abs)
    };
    Ok((pragma("page_count")? - pragma("freelist_count")?) * pragma("page_size")?)
}
