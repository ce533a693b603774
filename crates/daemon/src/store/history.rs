//! What is read of the past: events in brief, without payloads as far as that goes, and facts of
//! sessions.

use becket_wire::rpc::{DecisionRow, EventRow};
use rusqlite::{Connection, Row, params};
use serde::Deserialize;

use super::open;
use super::read::of_session;
use super::record::unpack;

/// Tools that change the file which their input names.
const FILE_TOOLS: [&str; 4] = ["Write", "Edit", "MultiEdit", "NotebookEdit"];

/// One event in brief. Only prompts have their payload, and in the events of one session the calls
/// that wrote a file; retention may have dropped it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Brief<'r> {
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

impl<'r> From<&'r EventRow> for Brief<'r> {
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

impl<'r> Brief<'r> {
    fn read(row: &'r Row<'_>) -> rusqlite::Result<Self> {
        let text = |column: usize| Ok::<_, rusqlite::Error>(row.get_ref(column)?.as_str_or_null()?);
        let decision = match row.get::<_, Option<String>>(5)? {
            Some(answer) => Some(DecisionRow {
                answer,
                by: row.get(6)?,
                reason: row.get(7)?,
            }),
            None => None,
        };
        let payload = match row.get::<_, Option<bool>>(8)? {
            Some(compressed) => unpack(row.get_ref(9)?.as_blob()?, compressed).ok(),
            None => None,
        };
        Ok(Self {
            seq: row.get(10)?,
            at: row.get(0)?,
            session: text(1)?,
            agent: text(2)?,
            event: text(3)?.unwrap_or_default(),
            tool: text(4)?,
            decision,
            payload,
        })
    }
}

/// Calls `each` with the events of a session, with their files, oldest first; or with those of all
/// since then, in the order of the log. Duplicates are left out.
pub fn events_in_brief(
    connection: &Connection,
    session: Option<&str>,
    since: i64,
    each: &mut dyn FnMut(Brief<'_>),
) -> rusqlite::Result<()> {
    let (from, order, files) = match session {
        Some(_) => (
            of_session("?1"),
            "ORDER BY e.at, e.seq",
            FILE_TOOLS.join("', '"),
        ),
        // A sort of a million rows takes longer than to read them.
        None => ("events e".to_owned(), "", String::new()),
    };
    let mut select = connection.prepare(&format!(
        "SELECT e.at, e.session_id, e.agent_id, e.event, e.tool, d.answer, d.by, d.reason, p.encoding, p.body, e.seq
         FROM {from} LEFT JOIN decisions d ON d.seq = e.seq LEFT JOIN payloads p ON p.seq = e.seq
         AND (e.event = 'UserPromptSubmit' OR e.event = 'PostToolUse' AND e.tool IN ('{files}'))
         WHERE e.duplicate_of IS NULL AND e.at >= ?2 AND ?1 IS ?1 {order}"
    ))?;
    let mut rows = select.query(params![session, since])?;
    while let Some(row) = rows.next()? {
        each(Brief::read(row)?);
    }
    Ok(())
}

/// The payload of one event; none if retention has dropped it.
pub fn payload(connection: &Connection, seq: i64) -> rusqlite::Result<Option<Vec<u8>>> {
    let mut select =
        connection.prepare_cached("SELECT encoding, body FROM payloads WHERE seq = ?1")?;
    let mut rows = select.query([seq])?;
    let Some(row) = rows.next()? else {
        return Ok(None);
    };
    Ok(unpack(row.get_ref(1)?.as_blob()?, row.get(0)?).ok())
}

/// What is needed of a session to sort it among others.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct SessionFacts {
    pub session_id: String,
    pub prev_session_id: Option<String>,
    /// See `line` of a session: a fork begins its own.
    pub line: String,
    pub title: Option<String>,
    pub last_prompt: Option<String>,
    pub project: Option<String>,
    pub model: Option<String>,
    pub started_at: i64,
}

impl SessionFacts {
    /// The session that it was forked from. Its cost goes on from that one's.
    pub fn forked_from(&self) -> Option<&str> {
        let forked = self.line == self.session_id;
        self.prev_session_id.as_deref().filter(|_| forked)
    }
}

/// The facts of all sessions. A state that cannot be read is left out.
pub fn session_facts(connection: &Connection) -> rusqlite::Result<Vec<SessionFacts>> {
    if open::user_version(connection)? < 2 {
        return Ok(Vec::new());
    }
    let mut select = connection.prepare("SELECT state FROM sessions")?;
    let mut rows = select.query([])?;
    let mut all = Vec::new();
    while let Some(row) = rows.next()? {
        all.extend(serde_json::from_slice::<SessionFacts>(
            row.get_ref(0)?.as_blob()?,
        ));
    }
    Ok(all)
}
