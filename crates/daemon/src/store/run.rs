//! Runs of named hooks: written with the event that they ran on, read by whoever asks what they cost.

use becket_wire::EventId;
use becket_wire::account::{self, Account};
use becket_wire::run::{FINE, RunRow, UNDER_WAY};
use rusqlite::types::Value;
use rusqlite::{Connection, Row, params, params_from_iter};

use super::open;
use super::read::of_session;

/// A run, and the tool of the event that it ran on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundRun {
    pub run: RunRow,
    pub tool: Option<String>,
    /// When its time is up: milliseconds since 1970. None if it is over.
    pub until: Option<i64>,
}

/// Which runs are wanted.
#[derive(Debug, Clone, Default)]
pub struct RunQuery {
    pub hook: Option<String>,
    /// The session's id, whole.
    pub session: Option<String>,
    /// Milliseconds since 1970.
    pub since: Option<i64>,
    pub event: Option<EventId>,
    /// The newest so many; all, if absent.
    pub limit: Option<u32>,
}

impl RunQuery {
    /// Whether a run is one of those asked for.
    pub fn wants(&self, run: &RunRow) -> bool {
        self.hook.as_ref().is_none_or(|hook| *hook == run.hook)
            && (self.session.is_none() || self.session == run.session_id)
            && self.since.is_none_or(|since| run.at >= since)
            && self.event.is_none_or(|event| event == run.event_id)
    }
}

/// Adds to the runs of an event what was told of them later, as the database does.
pub(super) fn amend(runs: &mut Vec<RunRow>, later: Vec<RunRow>) {
    for run in later {
        match runs.iter_mut().find(|one| one.hook == run.hook) {
            None => runs.push(run),
            Some(_) if run.is_under_way() => {}
            Some(one) => *one = run,
        }
    }
}

/// Writes runs. The end of one that went on in the background takes the place of its beginning,
/// never the other way round.
pub(super) fn insert(connection: &Connection, runs: &[RunRow]) -> rusqlite::Result<()> {
    if runs.is_empty() {
        return Ok(());
    }
    let mut upsert = connection.prepare_cached(
        "INSERT INTO runs (event_id, hook, event, session_id, agent_id, at, took_us, exit, outcome, decision, said, note)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
         ON CONFLICT (event_id, hook) DO UPDATE SET at = excluded.at, took_us = excluded.took_us, exit = excluded.exit,
         outcome = excluded.outcome, decision = excluded.decision, said = excluded.said, note = excluded.note
         WHERE excluded.outcome <> ?13",
    )?;
    for run in runs {
        upsert.execute(params![
            run.event_id.as_bytes(),
            run.hook,
            run.event,
            run.session_id,
            run.agent_id,
            run.at,
            run.took_us,
            run.exit,
            run.outcome,
            run.decision,
            i64::try_from(run.said).unwrap_or(i64::MAX),
            run.note,
            UNDER_WAY,
        ])?;
    }
    Ok(())
}

const COLUMNS: &str =
    "r.event_id, r.hook, r.event, r.session_id, r.agent_id, r.at, r.took_us, r.exit, r.outcome,
    r.decision, r.said, r.note, e.tool";

/// The runs that were asked for, the newest first.
pub fn runs(connection: &Connection, query: &RunQuery) -> rusqlite::Result<Vec<FoundRun>> {
    if open::user_version(connection)? < 3 {
        return Ok(Vec::new());
    }
    let (sql, values) = select(query);
    let mut select = connection.prepare(&sql)?;
    select.query_map(params_from_iter(values), read)?.collect()
}

fn select(query: &RunQuery) -> (String, Vec<Value>) {
    let mut wheres = vec!["1"];
    let mut values: Vec<Value> = Vec::new();
    let mut only = |condition, value: Value| {
        wheres.push(condition);
        values.push(value);
    };
    if let Some(hook) = &query.hook {
        only("r.hook = ?", hook.clone().into());
    }
    if let Some(session) = &query.session {
        only("r.session_id = ?", session.clone().into());
    }
    if let Some(since) = query.since {
        only("r.at >= ?", since.into());
    }
    if let Some(event) = query.event {
        only("r.event_id = ?", event.as_bytes().to_vec().into());
    }
    let sql = format!(
        "SELECT {COLUMNS} FROM runs r LEFT JOIN events e ON e.id = r.event_id
         WHERE {} ORDER BY r.at DESC LIMIT {}",
        wheres.join(" AND "),
        query.limit.map_or(-1, i64::from)
    );
    (sql, values)
}

fn read(row: &Row<'_>) -> rusqlite::Result<FoundRun> {
    Ok(FoundRun {
        run: RunRow {
            event_id: EventId::from_bytes(row.get(0)?),
            hook: row.get(1)?,
            event: row.get(2)?,
            session_id: row.get(3)?,
            agent_id: row.get(4)?,
            at: row.get(5)?,
            took_us: row.get(6)?,
            exit: row.get(7)?,
            outcome: row.get(8)?,
            decision: row.get(9)?,
            said: row.get::<_, i64>(10)?.unsigned_abs(),
            note: row.get(11)?,
        },
        tool: row.get(12)?,
        until: None,
    })
}

/// Whether somebody may ask why it was decided so: a hook or a guard did it. To ring a bell is to
/// decide nothing.
pub fn is_told_of(answer: &str, by: Option<&str>) -> bool {
    answer != "terminal" && !by.is_some_and(account::is_own)
}

/// The newest event of which there is something to tell, with its time: it was decided, as
/// [`is_told_of`] has it, or a hook failed on it.
pub fn last_told(
    connection: &Connection,
    session: Option<&str>,
) -> rusqlite::Result<Option<(i64, EventId)>> {
    let has_runs = open::user_version(connection)? >= 3;
    let told = told(has_runs);
    let decided = match session {
        None => format!(
            "SELECT e.at, e.id FROM decisions d JOIN events e ON e.seq = d.seq
             WHERE ?1 IS NULL AND {told} ORDER BY d.seq DESC LIMIT 1"
        ),
        Some(_) => format!(
            "SELECT e.at, e.id FROM {} JOIN decisions d ON d.seq = e.seq
             WHERE {told} ORDER BY e.at DESC LIMIT 1",
            of_session("?1")
        ),
    };
    let mut found = first(connection, &decided, session)?;
    if has_runs {
        let failed = format!(
            "SELECT at, event_id FROM runs WHERE outcome NOT IN ('{}') AND {} ORDER BY at DESC LIMIT 1",
            FINE.join("', '"),
            session.map_or("?1 IS NULL", |_| "session_id = ?1")
        );
        found = found.max(first(connection, &failed, session)?);
    }
    Ok(found)
}

/// [`is_told_of`] for SQL. Old rows name becket's own accounts by their bare words: there it was a
/// hook only if one of that name ran.
fn told(has_runs: bool) -> String {
    let hook_ran = match has_runs {
        true => "EXISTS (SELECT 1 FROM runs r WHERE r.event_id = e.id AND r.hook = d.by)",
        false => "0",
    };
    format!(
        "d.answer <> 'terminal' AND (d.by IS NULL OR d.by NOT LIKE '{}%'
         AND (d.by NOT IN ('{}') OR {hook_ran}))",
        account::OWN,
        Account::ALL.map(Account::word).join("', '")
    )
}

fn first(
    connection: &Connection,
    sql: &str,
    session: Option<&str>,
) -> rusqlite::Result<Option<(i64, EventId)>> {
    let mut select = connection.prepare(sql)?;
    select
        .query_map([session], |row| {
            Ok((row.get(0)?, EventId::from_bytes(row.get(1)?)))
        })?
        .next()
        .transpose()
}

/// Why an event did not come by the daemon, in the words of whoever answered it.
pub fn detour(connection: &Connection, id: EventId) -> rusqlite::Result<Option<String>> {
    if open::user_version(connection)? < 3 {
        return Ok(None);
    }
    let mut select = connection.prepare("SELECT detour FROM events WHERE id = ?1")?;
    let found = select.query_map([id.as_bytes()], |row| row.get(0))?.next();
    Ok(found.transpose()?.flatten())
}

#[cfg(test)]
mod tests;
