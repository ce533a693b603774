//! Sessions in the database: each one whole, written in the transaction of its event.

use std::collections::HashMap;

use becket_engine::session::Session;
use rusqlite::{Connection, Row, params};
use tracing::warn;

use super::open;

/// A session as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    session_id: String,
    /// Which of two states of a session is the newer one. It rises over all sessions.
    revision: i64,
    last_activity: i64,
    ended_at: Option<i64>,
    state: Vec<u8>,
}

const COLUMNS: &str = "session_id, revision, last_activity, ended_at, state";

impl Kept {
    pub(crate) fn new(session: &Session, revision: i64) -> Option<Self> {
        Some(Self {
            session_id: session.session_id.clone(),
            revision,
            last_activity: session.last_activity,
            ended_at: session.ended_at,
            state: serde_json::to_vec(session).ok()?,
        })
    }

    pub(crate) fn session_id(&self) -> &str {
        &self.session_id
    }

    /// What it takes in the log of the database.
    pub(super) fn weight(&self) -> usize {
        self.state.len()
    }

    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            session_id: row.get(0)?,
            revision: row.get(1)?,
            last_activity: row.get(2)?,
            ended_at: row.get(3)?,
            state: row.get(4)?,
        })
    }

    fn session(&self) -> Option<Session> {
        match serde_json::from_slice(&self.state) {
            Ok(session) => Some(session),
            Err(why) => {
                warn!(session = self.session_id, %why, "a session cannot be read");
                None
            }
        }
    }
}

/// Puts an event into the inbox, and its session beside it.
pub(super) fn put_in_inbox(
    connection: &Connection,
    seq: i64,
    frames: &[u8],
    kept: Option<&Kept>,
) -> rusqlite::Result<()> {
    let mut insert = connection.prepare_cached(
        "INSERT INTO inbox (seq, frames, session_id, revision, last_activity, ended_at, state)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?;
    insert
        .execute(params![
            seq,
            frames,
            kept.map(|kept| &kept.session_id),
            kept.map(|kept| kept.revision),
            kept.map(|kept| kept.last_activity),
            kept.and_then(|kept| kept.ended_at),
            kept.map(|kept| &kept.state),
        ])
        .map(drop)
}

/// Changes an event in the inbox, and its session beside it. False if it is not there any more.
pub(super) fn amend_in_inbox(
    connection: &Connection,
    seq: i64,
    frames: &[u8],
    kept: Option<&Kept>,
) -> rusqlite::Result<bool> {
    let mut update = connection.prepare_cached(
        "UPDATE inbox SET frames = ?2, session_id = ?3, revision = ?4, last_activity = ?5, ended_at = ?6, state = ?7
         WHERE seq = ?1",
    )?;
    let changed = update.execute(params![
        seq,
        frames,
        kept.map(|kept| &kept.session_id),
        kept.map(|kept| kept.revision),
        kept.map(|kept| kept.last_activity),
        kept.and_then(|kept| kept.ended_at),
        kept.map(|kept| &kept.state),
    ])?;
    Ok(changed > 0)
}

/// The session beside each event in the inbox, by the event's number.
pub(super) fn in_inbox(connection: &Connection) -> rusqlite::Result<HashMap<i64, Kept>> {
    if knows_none(connection)? {
        return Ok(HashMap::new());
    }
    let mut select = connection.prepare_cached(&format!(
        "SELECT {COLUMNS}, seq FROM inbox WHERE session_id IS NOT NULL"
    ))?;
    let rows = select.query_map([], |row| Ok((row.get(5)?, Kept::read(row)?)))?;
    rows.collect()
}

/// Those beside events in the inbox that are newer than their rows: what came by the spool, or without
/// an event, has overtaken the others.
fn newer_in_inbox(connection: &Connection) -> rusqlite::Result<Vec<Kept>> {
    if knows_none(connection)? {
        return Ok(Vec::new());
    }
    let mut select = connection.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM inbox WHERE session_id IS NOT NULL AND NOT EXISTS
         (SELECT 1 FROM sessions WHERE sessions.session_id = inbox.session_id AND sessions.revision >= inbox.revision)"
    ))?;
    select.query_map([], Kept::read)?.collect()
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
    // An assignment to `ended_at` alone would write the index of those that live.
    let mut update = connection.prepare_cached(
        "UPDATE sessions SET revision = ?2, last_activity = ?3, state = ?5
         WHERE session_id = ?1 AND ended_at IS ?4 AND revision < ?2",
    )?;
    let mut upsert = connection.prepare_cached(
        "INSERT INTO sessions (session_id, revision, last_activity, ended_at, state) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (session_id) DO UPDATE SET revision = excluded.revision, last_activity = excluded.last_activity,
         ended_at = excluded.ended_at, state = excluded.state WHERE excluded.revision > revision",
    )?;
    for kept in newest.values() {
        let values = params![
            kept.session_id,
            kept.revision,
            kept.last_activity,
            kept.ended_at,
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

/// Sessions as they were kept last, what waits in the inbox included; the newest first.
pub fn sessions(connection: &Connection, which: Which<'_>) -> rusqlite::Result<Vec<Session>> {
    Ok(kept(connection, which)?
        .iter()
        .filter_map(Kept::session)
        .collect())
}

fn kept(connection: &Connection, which: Which<'_>) -> rusqlite::Result<Vec<Kept>> {
    let wanted = |kept: &Kept| match which {
        Which::Live => kept.ended_at.is_none(),
        Which::Ended(_) => kept.ended_at.is_some(),
        Which::Like(prefix) => kept.session_id.starts_with(prefix),
    };
    // One look at all of it: a state moves from the inbox to its row while others read.
    let connection = connection.unchecked_transaction()?;
    let mut found: HashMap<String, Kept> = HashMap::new();
    for kept in select(&connection, which)?
        .into_iter()
        .chain(newer_in_inbox(&connection)?)
    {
        match found.get(&kept.session_id) {
            Some(known) if known.revision >= kept.revision => {}
            _ => drop(found.insert(kept.session_id.clone(), kept)),
        }
    }
    let mut found: Vec<Kept> = found.into_values().filter(wanted).collect();
    found.sort_by_key(|kept| std::cmp::Reverse(kept.last_activity));
    if let Which::Ended(limit) = which {
        found.truncate(limit as usize);
    }
    Ok(found)
}

/// Whether an older becket made this database. Who only reads it cannot bring it up to date.
fn knows_none(connection: &Connection) -> rusqlite::Result<bool> {
    open::user_version(connection).map(|version| version < 2)
}

fn select(connection: &Connection, which: Which<'_>) -> rusqlite::Result<Vec<Kept>> {
    if knows_none(connection)? {
        return Ok(Vec::new());
    }
    let (query, prefix) = query(which);
    let mut select = connection.prepare_cached(&query)?;
    select.query_map([prefix], Kept::read)?.collect()
}

fn query(which: Which<'_>) -> (String, &str) {
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
    let query = format!("SELECT {COLUMNS} FROM sessions WHERE ?1 = ?1 AND {condition}");
    (query, prefix)
}

const LAST_REVISION: &str = "SELECT max(revision) FROM
    (SELECT max(revision) AS revision FROM sessions UNION ALL SELECT max(revision) FROM inbox)";

/// The highest revision that was given.
pub(crate) fn last_revision(connection: &Connection) -> rusqlite::Result<i64> {
    let newest: Option<i64> = connection.query_row(LAST_REVISION, [], |row| row.get(0))?;
    Ok(newest.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use rusqlite::hooks::{AuthAction, AuthContext, Authorization};

    use super::super::sample::Home;
    use super::*;

    #[test]
    fn a_session_that_moves_while_others_read_is_not_missed() {
        let home = Home::new();
        let (mut reader, writer) = (home.open(), home.open());
        let state = Kept::new(&Session::new("s", 5), 1).unwrap();
        put_in_inbox(&writer, 1, b"", Some(&state)).unwrap();
        let mut writer = Some(writer);
        // SQLite asks when the rows of sessions were read, and the inbox comes next.
        let moves = move |asked: AuthContext<'_>| {
            let of_inbox = matches!(
                asked.action,
                AuthAction::Read {
                    table_name: "inbox",
                    ..
                }
            );
            if let Some(writer) = writer.take_if(|_| of_inbox) {
                let transaction = writer.unchecked_transaction().unwrap();
                write(&transaction, [state.clone()].iter()).unwrap();
                transaction.execute("DELETE FROM inbox", []).unwrap();
                transaction.commit().unwrap();
            }
            Authorization::Allow
        };
        reader.authorizer(Some(moves)).unwrap();
        assert_eq!(sessions(&reader, Which::Live).unwrap().len(), 1);
        let waits = "SELECT count(*) FROM inbox";
        let waits: i64 = reader.query_row(waits, [], |row| row.get(0)).unwrap();
        assert_eq!(waits, 0, "it has moved");
    }

    #[test]
    fn what_waits_in_the_inbox_hides_no_newer_row() {
        let state = |ended_at, revision| {
            let mut session = Session::new("s", 5);
            session.ended_at = ended_at;
            Kept::new(&session, revision).unwrap()
        };
        for (older, newer) in [(None, Some(9)), (Some(9), None)] {
            let connection = Home::new().open();
            put_in_inbox(&connection, 1, b"", Some(&state(older, 1))).unwrap();
            write(&connection, [state(newer, 2)].iter()).unwrap();
            let count = |which| sessions(&connection, which).unwrap().len();
            assert_eq!(count(Which::Live), usize::from(newer.is_none()));
            assert_eq!(count(Which::Ended(9)), usize::from(newer.is_some()));
        }
    }

    #[test]
    fn what_a_session_does_leaves_the_index_of_those_that_live_alone() {
        let connection = Home::new().open();
        let pages = |ended_at, revision| -> i64 {
            let mut session = Session::new("s", 5);
            session.ended_at = ended_at;
            let state = Kept::new(&session, revision).unwrap();
            write(&connection, [state].iter()).unwrap();
            let moved = connection.query_row("PRAGMA wal_checkpoint", [], |row| row.get(1));
            moved.unwrap()
        };
        pages(None, 1);
        assert_eq!(pages(None, 2), 2, "its row and its revision");
        assert_eq!(pages(Some(9), 3), 4, "and both indexes, when it ends");
    }

    #[test]
    fn however_many_sessions_have_ended_nothing_reads_them_all() {
        let connection = Home::new().open();
        let plan = |query: &str, prefix: &[&str]| -> Vec<String> {
            let explain = format!("EXPLAIN QUERY PLAN {query}");
            let mut explain = connection.prepare(&explain).unwrap();
            let steps = explain.query_map(rusqlite::params_from_iter(prefix), |row| row.get(3));
            steps.unwrap().map(Result::unwrap).collect()
        };
        let mut plans = vec![plan(LAST_REVISION, &[])];
        for which in [Which::Live, Which::Ended(9), Which::Like("a")] {
            let (query, prefix) = query(which);
            plans.push(plan(&query, &[prefix]));
        }
        let expected = [
            "COVERING INDEX sessions_revision",
            "INDEX sessions_live",
            "INDEX sessions_ended",
            "INDEX sqlite_autoindex_sessions_1 (session_id>? AND session_id<?)",
        ];
        for (plan, expected) in plans.iter().zip(expected) {
            let of_sessions = plan.iter().filter(|step| step.contains("sessions"));
            for step in of_sessions {
                assert!(step.contains(expected), "{plan:?}");
            }
            assert!(!plan.iter().any(|step| step.contains("TEMP B-TREE")));
        }
    }
}
