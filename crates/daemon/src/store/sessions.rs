//! Sessions in the database. Each one is stored whole, in the transaction of its event.

use std::path::Path;

use becket_engine::session::Session;
use becket_wire::process::parent_and_start;
use rusqlite::{Connection, params};
use serde::Deserialize;
use tracing::warn;

use super::open_to_read;

/// A row of the table `sessions`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredSession {
    session_id: String,
    last_activity: i64,
    ended_at: Option<i64>,
    pid: Option<u32>,
    pid_start: Option<i64>,
    state: Vec<u8>,
}

impl StoredSession {
    pub(crate) fn new(session: &Session) -> Option<Self> {
        Some(Self {
            session_id: session.session_id.clone(),
            last_activity: session.last_activity,
            ended_at: session.ended_at,
            pid: session.pid,
            pid_start: session.pid_start.map(|start| start as i64),
            state: serde_json::to_vec(session).ok()?,
        })
    }

    pub(crate) fn session_id(&self) -> &str {
        &self.session_id
    }
}

/// Writes the current state of sessions.
pub(crate) fn write(connection: &Connection, sessions: &[StoredSession]) -> rusqlite::Result<()> {
    // An assignment to `ended_at` would write the index of live sessions with every event.
    let mut update = connection.prepare_cached(
        "UPDATE sessions SET last_activity = ?2, pid = ?4, pid_start = ?5, state = ?6
         WHERE session_id = ?1 AND ended_at IS ?3",
    )?;
    let mut upsert = connection.prepare_cached(
        "INSERT OR REPLACE INTO sessions (session_id, last_activity, ended_at, pid, pid_start, state)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?;
    for session in sessions {
        let values = params![
            session.session_id,
            session.last_activity,
            session.ended_at,
            session.pid,
            session.pid_start,
            session.state
        ];
        if update.execute(values)? == 0 {
            upsert.execute(values)?;
        }
    }
    Ok(())
}

/// The sessions to read.
#[derive(Debug, Clone, Copy)]
pub enum SessionFilter<'a> {
    Live,
    /// The newest sessions that have ended, so many at most.
    Ended(u32),
    /// The sessions whose id begins with this text, in upper or lower case.
    Like(&'a str),
}

/// Reads sessions, the newest first. A state that cannot be read is left out.
pub fn sessions(
    connection: &Connection,
    which: SessionFilter<'_>,
) -> rusqlite::Result<Vec<Session>> {
    let (condition, prefix) = match which {
        SessionFilter::Live => ("ended_at IS NULL".to_owned(), ""),
        SessionFilter::Ended(limit) => (
            format!("ended_at IS NOT NULL ORDER BY last_activity DESC LIMIT {limit}"),
            "",
        ),
        SessionFilter::Like(prefix) => (
            // Upper case sorts before lower case.
            "session_id >= upper(?1) AND session_id < lower(?1) || char(1114111)
             AND lower(substr(session_id, 1, length(?1))) = lower(?1) LIMIT 64"
                .to_owned(),
            prefix,
        ),
    };
    let mut select = connection.prepare_cached(&format!(
        "SELECT session_id, state FROM sessions WHERE ?1 = ?1 AND {condition}"
    ))?;
    let mut rows = select.query([prefix])?;
    let mut found: Vec<Session> = Vec::new();
    while let Some(row) = rows.next()? {
        match serde_json::from_slice(row.get_ref(1)?.as_blob()?) {
            Ok(session) => found.push(session),
            Err(why) => {
                let session: String = row.get(0)?;
                warn!(session, %why, "a session cannot be read");
            }
        }
    }
    found.sort_by_key(|session| std::cmp::Reverse(session.last_activity));
    Ok(found)
}

/// Returns true if a session of this Claude Code process is in the database. The start time tells the process
/// from a later one with the same pid.
fn knows_process(connection: &Connection, pid: u32, pid_start: u64) -> rusqlite::Result<bool> {
    connection
        .prepare("SELECT 1 FROM sessions WHERE pid = ?1 AND pid_start = ?2 LIMIT 1")?
        .exists(params![pid, pid_start as i64])
}

/// Finds a Claude Code with a session in the database: this process, or one above it.
pub fn claude_above(database: &Path, pid: u32) -> Option<u32> {
    let connection = open_to_read(database).ok()??;
    let mut processes = ancestors(pid).into_iter();
    let known =
        processes.find(|(pid, start)| knows_process(&connection, *pid, *start).unwrap_or(false));
    known.map(|(pid, _)| pid)
}

/// Returns the pid and start time of a process and of all above it.
fn ancestors(mut pid: u32) -> Vec<(u32, u64)> {
    let mut found = Vec::new();
    // The bound is for a /proc that changes meanwhile.
    while pid > 1 && found.len() < 256 {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let Some((parent, start)) = parent_and_start(&stat) else {
            break;
        };
        found.push((pid, start));
        pid = parent;
    }
    found
}

/// Returns true if this session is known and has ended.
pub fn has_ended(connection: &Connection, id: &str) -> rusqlite::Result<bool> {
    connection
        .prepare("SELECT 1 FROM sessions WHERE session_id = ?1 AND ended_at IS NOT NULL")?
        .exists([id])
}

/// The fields of a session that sort and group it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct SessionFacts {
    pub session_id: String,
    pub prev_session_id: Option<String>,
    /// The first session of the chain that this one continues. A fork begins its own.
    pub line: String,
    pub title: Option<String>,
    pub last_prompt: Option<String>,
    pub project: Option<String>,
    pub model: Option<String>,
    pub started_at: i64,
}

impl SessionFacts {
    /// Returns the session that it was forked from. Its cost starts at the cost of that one.
    pub fn forked_from(&self) -> Option<&str> {
        let forked = self.line == self.session_id;
        self.prev_session_id.as_deref().filter(|_| forked)
    }
}

/// Reads the facts of all sessions. A state that cannot be read is left out.
pub fn session_facts(connection: &Connection) -> rusqlite::Result<Vec<SessionFacts>> {
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

#[cfg(test)]
mod tests {
    use super::super::tests::Home;
    use super::*;

    fn state(id: &str, at: i64, change: impl FnOnce(&mut Session)) -> StoredSession {
        let mut session = Session::new(id, at);
        change(&mut session);
        StoredSession::new(&session).unwrap()
    }

    #[test]
    fn sessions_are_found_by_state_prefix_and_process() {
        let connection = Home::new().open();
        let ended = |id, at| state(id, at, |session| session.ended_at = Some(at));
        let of_process = state("aa-1", 1, |session| {
            (session.pid, session.pid_start) = (Some(4242), Some(17));
        });
        let all = [of_process, ended("aa-2", 2), ended("b%", 3)];
        write(&connection, &all).unwrap();
        let ids = |which| -> Vec<String> {
            let found = sessions(&connection, which).unwrap();
            found.into_iter().map(|one| one.session_id).collect()
        };
        assert_eq!(ids(SessionFilter::Live), ["aa-1"]);
        assert_eq!(ids(SessionFilter::Ended(9)), ["b%", "aa-2"]);
        assert_eq!(ids(SessionFilter::Ended(1)), ["b%"]);
        assert_eq!(ids(SessionFilter::Like("aa")), ["aa-2", "aa-1"]);
        assert_eq!(ids(SessionFilter::Like("AA-1")), ["aa-1"]);
        assert_eq!(
            ids(SessionFilter::Like("%")),
            [""; 0],
            "no character is special"
        );
        write(&connection, &[ended("aa-1", 4)]).unwrap();
        assert_eq!(ids(SessionFilter::Live), [""; 0]);
        for (pid, start, known) in [(4242, 17, true), (4242, 18, false), (4243, 17, false)] {
            let again = state("aa-1", 5, |session| {
                (session.pid, session.pid_start) = (Some(4242), Some(17));
            });
            write(&connection, &[again]).unwrap();
            assert_eq!(knows_process(&connection, pid, start), Ok(known));
        }
    }
}
