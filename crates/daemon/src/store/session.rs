//! Sessions in the database: each one whole, written in the transaction of its event.

use std::collections::HashMap;

use becket_engine::session::Session;
use rusqlite::{Connection, params};
use serde::Deserialize;
use tracing::warn;

/// A session as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    session_id: String,
    /// Which of two states of a session is the newer one. It rises over all sessions.
    revision: i64,
    last_activity: i64,
    ended_at: Option<i64>,
    pid: Option<u32>,
    pid_start: Option<i64>,
    state: Vec<u8>,
}

impl Kept {
    pub(crate) fn new(session: &Session, revision: i64) -> Option<Self> {
        Some(Self {
            session_id: session.session_id.clone(),
            revision,
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

/// Writes sessions, each only if it is newer than what is there. Of one session only the newest.
pub(crate) fn write<'k>(
    connection: &Connection,
    sessions: impl Iterator<Item = &'k Kept>,
) -> rusqlite::Result<()> {
    let mut newest: HashMap<&str, &Kept> = HashMap::new();
    for kept in sessions {
        let known = newest.entry(&kept.session_id).or_insert(kept);
        if known.revision < kept.revision {
            *known = kept;
        }
    }
    // An assignment to `ended_at` would write the index of live sessions with every event.
    let mut update = connection.prepare_cached(
        "UPDATE sessions SET revision = ?2, last_activity = ?3, pid = ?5, pid_start = ?6, state = ?7
         WHERE session_id = ?1 AND ended_at IS ?4 AND revision < ?2",
    )?;
    let mut upsert = connection.prepare_cached(
        "INSERT INTO sessions (session_id, revision, last_activity, ended_at, pid, pid_start, state)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
         ON CONFLICT (session_id) DO UPDATE SET revision = excluded.revision, last_activity = excluded.last_activity,
         ended_at = excluded.ended_at, pid = excluded.pid, pid_start = excluded.pid_start, state = excluded.state
         WHERE excluded.revision > revision",
    )?;
    for kept in newest.values() {
        let values = params![
            kept.session_id,
            kept.revision,
            kept.last_activity,
            kept.ended_at,
            kept.pid,
            kept.pid_start,
            kept.state
        ];
        if update.execute(values)? == 0 {
            upsert.execute(values)?;
        }
    }
    Ok(())
}

/// Which sessions are read.
#[derive(Debug, Clone, Copy)]
pub enum Which<'a> {
    Live,
    /// The newest so many that have ended.
    Ended(u32),
    /// All whose id begins so.
    Like(&'a str),
}

/// Sessions as they were kept last, the newest first. A state that cannot be read is left out.
pub fn sessions(connection: &Connection, which: Which<'_>) -> rusqlite::Result<Vec<Session>> {
    let (condition, prefix) = match which {
        Which::Live => ("ended_at IS NULL".to_owned(), ""),
        Which::Ended(limit) => (
            format!("ended_at IS NOT NULL ORDER BY last_activity DESC LIMIT {limit}"),
            "",
        ),
        Which::Like(prefix) => (
            "session_id >= ?1 AND session_id < ?1 || char(1114111) LIMIT 64".to_owned(),
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

/// The highest revision that was given.
pub(crate) fn last_revision(connection: &Connection) -> rusqlite::Result<i64> {
    let select = "SELECT coalesce(max(revision), 0) FROM sessions";
    connection.query_row(select, [], |row| row.get(0))
}

/// Whether a session of this Claude Code process was seen here. The process is known by its start
/// time too.
pub fn knows_process(connection: &Connection, pid: u32, pid_start: u64) -> rusqlite::Result<bool> {
    connection
        .prepare("SELECT 1 FROM sessions WHERE pid = ?1 AND pid_start = ?2 LIMIT 1")?
        .exists(params![pid, pid_start as i64])
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
    use super::super::sample::Home;
    use super::*;

    fn state(id: &str, revision: i64, change: impl FnOnce(&mut Session)) -> Kept {
        let mut session = Session::new(id, revision);
        change(&mut session);
        Kept::new(&session, revision).unwrap()
    }

    #[test]
    fn the_newest_state_of_a_session_counts() {
        let connection = Home::new().open();
        let titled = |title: &str, revision| {
            state("s", revision, |session| {
                session.title = Some(title.to_owned());
            })
        };
        let title = || {
            let live = sessions(&connection, Which::Live).unwrap();
            live[0].title.clone().unwrap()
        };
        let together = [titled("newer", 2), titled("newest", 3), titled("old", 1)];
        write(&connection, together.iter()).unwrap();
        assert_eq!(title(), "newest");
        write(&connection, [titled("late", 2)].iter()).unwrap();
        assert_eq!(title(), "newest", "what is older changes nothing");
        write(&connection, [titled("next", 4)].iter()).unwrap();
        assert_eq!(
            (title().as_str(), last_revision(&connection)),
            ("next", Ok(4))
        );
    }

    #[test]
    fn sessions_are_found_live_ended_by_their_beginning_and_by_process() {
        let connection = Home::new().open();
        let ended = |id, at| state(id, at, |session| session.ended_at = Some(at));
        let of_process = state("aa-1", 1, |session| {
            (session.pid, session.pid_start) = (Some(4242), Some(17));
        });
        let all = [of_process, ended("aa-2", 2), ended("b%", 3)];
        write(&connection, all.iter()).unwrap();
        let ids = |which| -> Vec<String> {
            let found = sessions(&connection, which).unwrap();
            found.into_iter().map(|one| one.session_id).collect()
        };
        assert_eq!(ids(Which::Live), ["aa-1"]);
        assert_eq!(ids(Which::Ended(9)), ["b%", "aa-2"]);
        assert_eq!(ids(Which::Ended(1)), ["b%"]);
        assert_eq!(ids(Which::Like("aa")), ["aa-2", "aa-1"]);
        assert_eq!(ids(Which::Like("%")), [""; 0], "no character is special");
        write(&connection, [ended("aa-1", 4)].iter()).unwrap();
        assert_eq!(ids(Which::Live), [""; 0]);
        for (pid, start, known) in [(4242, 17, true), (4242, 18, false), (4243, 17, false)] {
            let again = state("aa-1", 5, |session| {
                (session.pid, session.pid_start) = (Some(4242), Some(17));
            });
            write(&connection, [again].iter()).unwrap();
            assert_eq!(knows_process(&connection, pid, start), Ok(known));
        }
    }
}
