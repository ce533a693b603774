//! Retention: payloads go after some days or over some bytes, oldest first; rows stay for ever.

use rusqlite::{Connection, params};

/// What is kept.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub days: u32,
    pub bytes: u64,
}

/// How many payloads one slice drops, and how many rows it looks at, at the most: a slice runs
/// between two commits.
const SLICE: usize = 200;
const LOOK: usize = 2000;

/// How far retention has come, in order of (at, seq): no row up to here has a payload. Rows stay,
/// so without this every slice would walk over all of them again.
#[derive(Debug)]
pub(super) struct Retention {
    done: (i64, i64),
}

impl Default for Retention {
    fn default() -> Self {
        Self {
            done: (i64::MIN, i64::MIN),
        }
    }
}

impl Retention {
    /// An event of that time is written: from the spool, or by a clock that was set back, it may be
    /// older than what was dropped already.
    pub(super) fn wrote(&mut self, at: i64) {
        if at <= self.done.0 {
            self.done = (at, i64::MIN);
        }
    }

    /// Drops one slice of what is over the limits. True if there may be more.
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
        // What was dropped may have freed less than it was long: the next slice looks again.
        Ok(dropped > 0 || looked == LOOK)
    }
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

#[cfg(test)]
mod tests;
