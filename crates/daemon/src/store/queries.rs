//! Queries of the log.

use becket_wire::log::{CANARY, RAN_DENIED};
use becket_wire::rpc::{DecisionRow, EventQuery, EventRow, Source};
use becket_wire::{Actor, EventId};
use rusqlite::types::Value;
use rusqlite::{Connection, Row, params, params_from_iter};

use super::record::unpack;

/// Tools that change the file that their input names.
const FILE_TOOLS: [&str; 4] = ["Write", "Edit", "MultiEdit", "NotebookEdit"];

const COLUMNS: &str =
    "e.seq, e.id, e.at, e.session_id, e.agent_id, e.event, e.tool, e.took_us, e.source, e.masked,
    e.fault, e.duplicate_of, d.answer, d.by, d.reason, p.encoding, p.body, d.effort";

/// Calls `each` with the events that match a query, in order of (at, seq), until it returns false.
pub fn find_events(
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

/// The conditions of a query, and their values.
#[derive(Debug)]
pub(super) struct WhereClause {
    conditions: Vec<&'static str>,
    pub(super) values: Vec<Value>,
}

impl WhereClause {
    pub(super) fn new() -> Self {
        Self {
            conditions: vec!["1"],
            values: Vec::new(),
        }
    }

    /// Adds a condition with one `?`, if there is a value.
    pub(super) fn add(&mut self, condition: &'static str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.conditions.push(condition);
            self.values.push(value.into());
        }
    }

    pub(super) fn sql(&self) -> String {
        self.conditions.join(" AND ")
    }
}

fn select(query: &EventQuery) -> (String, Vec<Value>) {
    let mut clause = WhereClause::new();
    clause.add("e.session_id = ?", query.session.clone());
    clause.add("e.seq > ?", query.after);
    clause.add("e.event = ?", query.event.clone());
    clause.add("e.tool = ?", query.tool.clone());
    clause.add("e.at >= ?", query.since);
    clause.add("e.id = ?", query.id.map(|id| id.as_bytes().to_vec()));
    if query.skips_canaries() {
        clause.add("e.event IS NOT ?", Some(CANARY.to_owned()));
    }
    if !query.duplicates {
        clause.conditions.push("e.duplicate_of IS NULL");
    }
    // Newest first, by the index of the session or of the time, reaches the limit quickly, even with a filter on
    // event or tool. The result is sorted oldest first. Payloads are joined after the limit, or the sort would carry
    // them along.
    let limit = query.limit.map_or(-1, i64::from);
    let sql = format!(
        "SELECT {COLUMNS} FROM
         (SELECT e.seq AS s FROM events e WHERE {} ORDER BY e.at DESC, e.seq DESC LIMIT {limit}) AS wanted
         JOIN events e ON e.seq = wanted.s
         LEFT JOIN decisions d ON d.seq = e.seq LEFT JOIN payloads p ON p.seq = e.seq
         ORDER BY e.at, e.seq",
        clause.sql()
    );
    (sql, clause.values)
}

/// Reads the columns `encoding` and `body`, of which the first has this index. Returns none if the payload was
/// deleted.
fn read_payload(row: &Row<'_>, encoding: usize) -> rusqlite::Result<Option<Vec<u8>>> {
    let Some(compressed) = row.get(encoding)? else {
        return Ok(None);
    };
    let body = row.get_ref(encoding + 1)?.as_blob()?;
    Ok(unpack(body, compressed).ok())
}

/// Reads the columns `answer`, `by` and `reason`, of which the first has this index.
fn read_decision(row: &Row<'_>, answer: usize) -> rusqlite::Result<Option<DecisionRow>> {
    let Some(word) = row.get::<_, Option<String>>(answer)? else {
        return Ok(None);
    };
    let by: Option<String> = row.get(answer + 1)?;
    Ok(Some(DecisionRow {
        answer: word.into(),
        by: by.map(Actor::from),
        reason: row.get(answer + 2)?,
        effort: None,
    }))
}

fn read(row: &Row<'_>) -> rusqlite::Result<EventRow> {
    let effort: Option<String> = row.get(17)?;
    let decision = read_decision(row, 12)?.map(|decision| DecisionRow {
        effort: effort.and_then(|stored| serde_json::from_str(&stored).ok()),
        ..decision
    });
    let source: String = row.get(8)?;
    let payload = read_payload(row, 15)?;
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

/// Finds a few sessions whose id begins with this text, in upper or lower case.
pub fn sessions_like(connection: &Connection, prefix: &str) -> rusqlite::Result<Vec<String>> {
    // The recursion jumps from one id to the next in the index: DISTINCT would read every event of a session. Upper
    // case sorts before lower case.
    let mut query = connection.prepare(
        "WITH RECURSIVE found (session) AS (
             SELECT min(session_id) FROM events WHERE session_id >= upper(?1)
             UNION ALL
             SELECT (SELECT min(session_id) FROM events WHERE session_id > session) FROM found
             WHERE session < lower(?1) || char(1114111)
         ) SELECT session FROM found WHERE session < lower(?1) || char(1114111)
         AND lower(substr(session, 1, length(?1))) = lower(?1) LIMIT 8",
    )?;
    let found = query.query_map([prefix], |row| row.get(0))?;
    found.collect()
}

/// Finds a few events between two ids, both included.
pub fn events_between(
    connection: &Connection,
    (first, last): (EventId, EventId),
) -> rusqlite::Result<Vec<EventId>> {
    let mut query = connection
        .prepare("SELECT id FROM events WHERE id BETWEEN ?1 AND ?2 ORDER BY id LIMIT 8")?;
    let ids = query.query_map(params![first.as_bytes(), last.as_bytes()], |row| {
        row.get(0).map(EventId::from_bytes)
    });
    ids?.collect()
}

/// Returns the number of events.
pub fn count_events(connection: &Connection) -> rusqlite::Result<u64> {
    connection
        .query_row("SELECT count(*) FROM events", [], |row| {
            row.get::<_, i64>(0)
        })
        .map(i64::unsigned_abs)
}

/// Returns the time of the first event. Before it, no guard could see a call.
pub fn first_event(connection: &Connection) -> rusqlite::Result<Option<i64>> {
    connection.query_row("SELECT min(at) FROM events", [], |row| row.get(0))
}

/// The sessions whose calls are read.
#[derive(Debug, Clone, Copy)]
pub enum CallsOf<'a> {
    Session(&'a str),
    /// All sessions, since this time.
    AllSince(i64),
}

/// Calls `each` with the `tool_use_id` of every PreToolUse event that arrived.
pub fn calls_seen(
    connection: &Connection,
    which: CallsOf<'_>,
    each: &mut dyn FnMut(&str),
) -> rusqlite::Result<()> {
    let (condition, value): (_, Value) = match which {
        CallsOf::Session(session) => ("session_id = ?1", session.to_owned().into()),
        CallsOf::AllSince(since) => ("at >= ?1", since.into()),
    };
    let mut select = connection.prepare(&format!(
        "SELECT tool_use_id FROM events WHERE {condition} AND event = 'PreToolUse'
         AND tool_use_id IS NOT NULL AND source <> 'replay'"
    ))?;
    let mut rows = select.query([value])?;
    while let Some(row) = rows.next()? {
        each(row.get_ref(0)?.as_str()?);
    }
    Ok(())
}

/// The number of events with a fault, and the newest of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Faults {
    pub count: u64,
    /// The time of the newest one, and its fault.
    pub at: i64,
    pub fault: String,
}

/// Reads the events with a fault since a time, for `doctor`. Leaves out denied calls that ran, see
/// [`ran_denied`](super::ran_denied).
pub fn faults(connection: &Connection, since: i64) -> rusqlite::Result<Option<Faults>> {
    // With `max` SQLite takes the other columns from the same row.
    connection.query_row(
        "SELECT count(*), max(at), fault FROM events WHERE fault IS NOT NULL AND fault <> ?2 AND at >= ?1",
        params![since, RAN_DENIED],
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

/// The fields of an event that statistics need. Only prompts have a payload, and in the events of one session
/// also the calls that wrote a file. Retention may have deleted it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EventBrief<'r> {
    pub seq: i64,
    /// Milliseconds since 1970.
    pub at: i64,
    pub session: Option<&'r str>,
    pub agent: Option<&'r str>,
    pub event: &'r str,
    pub tool: Option<&'r str>,
    pub decision: Option<DecisionRow>,
    pub payload: Option<Vec<u8>>,
}

impl<'r> From<&'r EventRow> for EventBrief<'r> {
    fn from(row: &'r EventRow) -> Self {
        Self {
            seq: row.seq,
            at: row.at,
            session: row.session_id.as_deref(),
            agent: row.agent_id.as_deref(),
            event: row.event.as_deref().unwrap_or_default(),
            tool: row.tool.as_deref(),
            decision: row.decision.clone(),
            payload: row.payload.clone(),
        }
    }
}

impl<'r> EventBrief<'r> {
    fn read(row: &'r Row<'_>) -> rusqlite::Result<Self> {
        let decision = read_decision(row, 5)?;
        let payload = read_payload(row, 8)?;
        Ok(Self {
            seq: row.get(10)?,
            at: row.get(0)?,
            session: row.get_ref(1)?.as_str_or_null()?,
            agent: row.get_ref(2)?.as_str_or_null()?,
            event: row.get_ref(3)?.as_str_or_null()?.unwrap_or_default(),
            tool: row.get_ref(4)?.as_str_or_null()?,
            decision,
            payload,
        })
    }
}

/// Calls `each` with the events of a session since a time, oldest first and with the payloads of calls that wrote
/// a file; or with the events of all sessions, in the order of the log. Doubles are left out.
pub fn events_in_brief(
    connection: &Connection,
    session: Option<&str>,
    since: i64,
    each: &mut dyn FnMut(EventBrief<'_>),
) -> rusqlite::Result<()> {
    let (which, order, files) = match session {
        Some(_) => (
            "e.session_id = ?1",
            "ORDER BY e.at, e.seq",
            FILE_TOOLS.join("', '"),
        ),
        // Sorting a million rows takes longer than reading them.
        None => ("?1 IS NULL", "", String::new()),
    };
    let mut select = connection.prepare(&format!(
        "SELECT e.at, e.session_id, e.agent_id, e.event, e.tool, d.answer, d.by, d.reason, p.encoding, p.body, e.seq
         FROM events e LEFT JOIN decisions d ON d.seq = e.seq LEFT JOIN payloads p ON p.seq = e.seq
         AND (e.event IN ('UserPromptSubmit', 'Notification') OR e.event = 'PostToolUse' AND e.tool IN ('{files}'))
         WHERE e.duplicate_of IS NULL AND e.at >= ?2 AND {which} {order}"
    ))?;
    let mut rows = select.query(params![session, since])?;
    while let Some(row) = rows.next()? {
        each(EventBrief::read(row)?);
    }
    Ok(())
}

/// Reads the payload of one event. Returns none if retention has deleted it.
pub fn payload(connection: &Connection, seq: i64) -> rusqlite::Result<Option<Vec<u8>>> {
    let mut select =
        connection.prepare_cached("SELECT encoding, body FROM payloads WHERE seq = ?1")?;
    let mut rows = select.query([seq])?;
    let Some(row) = rows.next()? else {
        return Ok(None);
    };
    read_payload(row, 0)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Home, envelope, found, id, record_of};
    use super::*;

    /// Events 1 to 6, in two sessions, the third a double of the second, the last from the past.
    fn log(home: &Home) -> Connection {
        let connection = home.open();
        for number in 1..=6_u32 {
            let session = if number % 2 == 0 { "aa-2" } else { "aa-1" };
            let mut envelope = envelope(number);
            envelope.at = if number == 6 { 0 } else { i64::from(number) };
            let payload = format!(
                r#"{{"hook_event_name":"{}","session_id":"{session}","tool_name":"T{number}"}}"#,
                if number < 4 { "PreToolUse" } else { "Stop" }
            );
            let mut record = record_of(i64::from(number), envelope, payload.as_bytes());
            record.duplicate_of = (number == 3).then_some(2);
            record.insert(&connection).unwrap();
        }
        connection
    }

    fn seqs(connection: &Connection, query: &EventQuery) -> Vec<i64> {
        found(connection, query).iter().map(|row| row.seq).collect()
    }

    #[test]
    fn the_log_is_in_order_of_time_and_doubles_are_left_out() {
        let home = Home::new();
        let connection = log(&home);
        let all = EventQuery::default();
        assert_eq!(seqs(&connection, &all), [6, 1, 2, 4, 5]);
        let duplicates = EventQuery {
            duplicates: true,
            ..all
        };
        assert_eq!(seqs(&connection, &duplicates), [6, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn every_filter_finds_its_events() {
        let home = Home::new();
        let connection = log(&home);
        let all = EventQuery::default;
        let text = |text: &str| Some(text.to_owned());
        let cases: [(EventQuery, &[i64]); 8] = [
            (
                EventQuery {
                    session: text("aa-2"),
                    ..all()
                },
                &[6, 2, 4],
            ),
            (
                EventQuery {
                    event: text("Stop"),
                    ..all()
                },
                &[6, 4, 5],
            ),
            (
                EventQuery {
                    tool: text("T2"),
                    ..all()
                },
                &[2],
            ),
            (
                EventQuery {
                    since: Some(4),
                    ..all()
                },
                &[4, 5],
            ),
            (
                EventQuery {
                    after: Some(4),
                    ..all()
                },
                &[6, 5],
            ),
            (
                EventQuery {
                    id: Some(id(4)),
                    ..all()
                },
                &[4],
            ),
            (
                EventQuery {
                    limit: Some(2),
                    ..all()
                },
                &[4, 5],
            ),
            (
                EventQuery {
                    session: text("aa-1"),
                    event: text("Stop"),
                    limit: Some(9),
                    ..all()
                },
                &[5],
            ),
        ];
        for (query, expected) in cases {
            assert_eq!(seqs(&connection, &query), expected, "{query:?}");
            // Followers are filtered by `wants`, which must agree.
            let everything = found(
                &connection,
                &EventQuery {
                    duplicates: true,
                    ..all()
                },
            );
            let wanted = everything.iter().filter(|row| query.wants(row)).count();
            assert!(
                query.limit.is_some() || wanted == expected.len(),
                "{query:?}"
            );
        }
    }

    #[test]
    fn a_payload_that_is_gone_is_none() {
        let home = Home::new();
        let connection = log(&home);
        connection
            .execute("DELETE FROM payloads WHERE seq = 4", [])
            .unwrap();
        let rows = found(&connection, &EventQuery::default());
        let gone: Vec<i64> = rows
            .iter()
            .filter(|row| row.payload.is_none())
            .map(|row| row.seq)
            .collect();
        assert_eq!(gone, [4]);
    }

    #[test]
    fn a_session_is_known_by_its_beginning() {
        let home = Home::new();
        let connection = log(&home);
        let like = |prefix| sessions_like(&connection, prefix).unwrap();
        assert_eq!(like("aa"), ["aa-1", "aa-2"]);
        assert_eq!(like("aa-1"), ["aa-1"]);
        assert_eq!(like("b"), [] as [&str; 0]);
        assert_eq!(like("%"), [] as [&str; 0], "no character is special");
        let payload = br#"{"hook_event_name":"Stop","session_id":"Aa-11"}"#;
        record_of(7, envelope(7), payload)
            .insert(&connection)
            .unwrap();
        assert_eq!(like("aA-1"), ["Aa-11", "aa-1"]);
    }

    #[test]
    fn faults_are_counted_and_the_newest_is_returned() {
        let home = Home::new();
        let connection = log(&home);
        assert_eq!(faults(&connection, 7).unwrap(), None);
        let whole = r#"{"session_id":"s","hook_event_name":"Newer"}"#;
        for (number, payload) in [(7, "{"), (8, "[1]"), (9, whole)] {
            record_of(i64::from(number), envelope(number), payload.as_bytes())
                .insert(&connection)
                .unwrap();
        }
        let found = |since| faults(&connection, since).unwrap();
        let two = found(7).unwrap();
        assert_eq!((two.count, two.at), (2, 8));
        assert_eq!(two.fault, "the event is JSON, but not an object");
        assert_eq!(found(8).unwrap().count, 1);
        assert_eq!(found(9), None);
        assert_eq!(count_events(&connection).unwrap(), 9);
    }
}
