//! The questions that are asked of the log.

use becket_wire::EventId;
use becket_wire::rpc::{DecisionRow, EventQuery, EventRow, Source};
use rusqlite::types::Value;
use rusqlite::{Connection, Row, params_from_iter};

use super::record::unpack;

const COLUMNS: &str =
    "e.seq, e.id, e.at, e.session_id, e.agent_id, e.event, e.tool, e.took_us, e.source, e.masked,
    e.fault, e.duplicate_of, d.answer, d.by, d.reason, p.encoding, p.body";

/// The events `e` of a session, for a FROM: they stand together for each thousand only (4.sql).
pub(super) fn of_session(session: &str) -> String {
    format!(
        "{THOUSANDS} CROSS JOIN events e ON e.seq >> 10 = thousand AND e.session_id = {session}"
    )
}

const THOUSANDS: &str = "(WITH RECURSIVE t (thousand) AS
    (SELECT max(seq) >> 10 FROM events UNION ALL SELECT thousand - 1 FROM t WHERE thousand > 0)
    SELECT thousand FROM t)";

/// Calls `each` with the events that were asked for, in order of (at, seq), until it says stop.
pub fn find(
    connection: &Connection,
    query: &EventQuery,
    each: &mut dyn FnMut(EventRow) -> bool,
) -> rusqlite::Result<()> {
    let (sql, values) = select(query);
    let mut statement = connection.prepare(&sql)?;
    let mut rows = statement.query(params_from_iter(values))?;
    while let Some(row) = rows.next()? {
        if !each(read(row)?) {
            break;
        }
    }
    Ok(())
}

fn select(query: &EventQuery) -> (String, Vec<Value>) {
    let mut wheres = vec!["1".to_owned()];
    let mut values: Vec<Value> = Vec::new();
    // It stands first in the text, too.
    values.extend(query.session.clone().map(Value::from));
    let mut only = |condition: &str, value: Value| {
        wheres.push(condition.to_owned());
        values.push(value);
    };
    if let Some(after) = query.after {
        only("e.seq > ?", after.into());
    }
    if let Some(event) = &query.event {
        only("e.event = ?", event.clone().into());
    }
    if let Some(tool) = &query.tool {
        only("e.tool = ?", tool.clone().into());
    }
    if let Some(since) = query.since {
        only("e.at >= ?", since.into());
    }
    if let Some(id) = query.id {
        only("e.id = ?", id.as_bytes().to_vec().into());
    }
    if !query.duplicates {
        wheres.push("e.duplicate_of IS NULL".to_owned());
    }
    let wheres = wheres.join(" AND ");
    // The newest first finds a limit's worth quickly; the answer goes out oldest first. Payloads are
    // joined after the limit, or a sort would carry them along.
    let limit = query.limit.map_or(-1, i64::from);
    let from = match query.session {
        Some(_) => of_session("?"),
        None => "events e".to_owned(),
    };
    let sql = format!(
        "SELECT {COLUMNS} FROM
         (SELECT e.seq AS s FROM {from} WHERE {wheres} ORDER BY e.at DESC, e.seq DESC LIMIT {limit}) AS wanted
         JOIN events e ON e.seq = wanted.s
         LEFT JOIN decisions d ON d.seq = e.seq LEFT JOIN payloads p ON p.seq = e.seq
         ORDER BY e.at, e.seq"
    );
    (sql, values)
}

fn read(row: &Row<'_>) -> rusqlite::Result<EventRow> {
    let answer: Option<String> = row.get(12)?;
    let decision = match answer {
        Some(answer) => Some(DecisionRow {
            answer,
            by: row.get(13)?,
            reason: row.get(14)?,
        }),
        None => None,
    };
    let source: String = row.get(8)?;
    let payload = match row.get::<_, Option<bool>>(15)? {
        Some(compressed) => unpack(row.get_ref(16)?.as_blob()?, compressed).ok(),
        None => None,
    };
    Ok(EventRow {
        seq: row.get(0)?,
        id: EventId::from_bytes(row.get(1)?),
        at: row.get(2)?,
        session_id: row.get(3)?,
        agent_id: row.get(4)?,
        event: row.get(5)?,
        tool: row.get(6)?,
        decision,
        took_us: row.get(7)?,
        source: Source::from_name(&source).unwrap_or(Source::Daemon),
        masked: row.get(9)?,
        fault: row.get(10)?,
        duplicate_of: row.get(11)?,
        payload,
    })
}

/// The sessions whose id begins so, a few at the most. A whole id stands for itself.
pub fn sessions_like(connection: &Connection, prefix: &str) -> rusqlite::Result<Vec<String>> {
    // A range instead of LIKE: it uses the index, and no character in it is special.
    let mut query = connection.prepare(&format!(
        "SELECT DISTINCT e.session_id FROM {THOUSANDS} CROSS JOIN events e ON e.seq >> 10 = thousand
         AND e.session_id >= ?1 AND e.session_id < ?1 || char(1114111) LIMIT 8"
    ))?;
    let found = query
        .query_map([prefix], |row| row.get(0))?
        .collect::<rusqlite::Result<Vec<String>>>()?;
    Ok(if found.iter().any(|id| id == prefix) {
        vec![prefix.to_owned()]
    } else {
        found
    })
}

/// Whether a session of this process was seen here. The process is known by its start time too.
pub fn knows_process(connection: &Connection, pid: u32, pid_start: u64) -> rusqlite::Result<bool> {
    // The words of the partial index, to the letter: else SQLite does not take it.
    connection
        .prepare(
            "SELECT 1 FROM events WHERE pid = ?1 AND pid_start = ?2 AND pid_is_claude
             AND event IN ('SessionStart', 'UserPromptSubmit') LIMIT 1",
        )?
        .exists(rusqlite::params![pid, pid_start as i64])
}

/// How many events there are.
pub fn count(connection: &Connection) -> rusqlite::Result<u64> {
    connection
        .query_row("SELECT count(*) FROM events", [], |row| {
            row.get::<_, i64>(0)
        })
        .map(i64::unsigned_abs)
}

/// Events of which something is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Faults {
    pub count: u64,
    /// When the newest came, and what is wrong with it.
    pub at: i64,
    pub fault: String,
}

/// The events with a fault since then; none if there are none. Doctor shows them.
pub fn faults(connection: &Connection, since: i64) -> rusqlite::Result<Option<Faults>> {
    // With `max` SQLite takes the other columns from the same row.
    connection.query_row(
        "SELECT count(*), max(at), fault FROM events WHERE fault IS NOT NULL AND at >= ?1",
        [since],
        |row| {
            let count = row.get::<_, i64>(0)?.unsigned_abs();
            if count == 0 {
                return Ok(None);
            }
            let (at, fault) = (row.get(1)?, row.get(2)?);
            Ok(Some(Faults { count, at, fault }))
        },
    )
}

#[cfg(test)]
mod tests;
