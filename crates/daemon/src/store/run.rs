//! Runs of named hooks: written with the event that they ran on, read by whoever asks what they cost.

use becket_wire::EventId;
use becket_wire::account;
use becket_wire::hook_run::{RunOutcome, RunRow};
use becket_wire::log::RAN_DENIED;
use rusqlite::types::Value;
use rusqlite::{Connection, Row, params, params_from_iter};

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
pub(super) fn merge(runs: &mut Vec<RunRow>, later: Vec<RunRow>) {
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
            run.outcome.as_str(),
            run.decision,
            i64::try_from(run.said).unwrap_or(i64::MAX),
            run.note,
            RunOutcome::Async.as_str(),
        ])?;
    }
    Ok(())
}

const COLUMNS: &str =
    "r.event_id, r.hook, r.event, r.session_id, r.agent_id, r.at, r.took_us, r.exit, r.outcome,
    r.decision, r.said, r.note, e.tool";

/// The runs that were asked for, the newest first.
pub fn runs(connection: &Connection, query: &RunQuery) -> rusqlite::Result<Vec<FoundRun>> {
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
            outcome: RunOutcome::from(row.get::<_, String>(8)?),
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
/// [`is_told_of`] has it, a hook failed on it, or it is the result of a denied call.
pub fn last_told(
    connection: &Connection,
    session: Option<&str>,
) -> rusqlite::Result<Option<(i64, EventId)>> {
    // Without a session there are fewer decisions than events to look at.
    let (join, which) = match session {
        None => ("CROSS JOIN", "?1 IS NULL"),
        Some(_) => ("JOIN", "e.session_id = ?1"),
    };
    let decided = format!(
        "SELECT e.at, e.id FROM decisions d {join} events e ON e.seq = d.seq
         WHERE {which} AND d.answer <> 'terminal' AND (d.by IS NULL OR d.by NOT LIKE '{}%' AND d.by <> '{}')
         ORDER BY d.seq DESC LIMIT 1",
        account::OWN,
        account::EFFORT_CONTEXT
    );
    let successes = RunOutcome::SUCCESSES.map(String::from);
    let failed = format!(
        "SELECT at, event_id FROM runs WHERE outcome NOT IN ('{}') AND {} ORDER BY at DESC LIMIT 1",
        successes.join("', '"),
        session.map_or("?1 IS NULL", |_| "session_id = ?1")
    );
    let ran_denied = format!(
        "SELECT at, id FROM events WHERE fault IS NOT NULL AND fault = '{RAN_DENIED}' AND {}
         ORDER BY at DESC LIMIT 1",
        session.map_or("?1 IS NULL", |_| "session_id = ?1")
    );
    let mut last = None;
    for sql in [decided, failed, ran_denied] {
        last = last.max(first(connection, &sql, session)?);
    }
    Ok(last)
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
    let mut select = connection.prepare("SELECT detour FROM events WHERE id = ?1")?;
    let found = select.query_map([id.as_bytes()], |row| row.get(0))?.next();
    Ok(found.transpose()?.flatten())
}

#[cfg(test)]
mod tests {
    use becket_wire::account::Account;

    use super::super::sample::{Home, decision, envelope, id, record, record_of, run};
    use super::*;

    fn all(connection: &Connection) -> Vec<RunRow> {
        let found = runs(connection, &RunQuery::default()).unwrap();
        found.into_iter().map(|found| found.run).collect()
    }

    #[test]
    fn a_run_reads_as_it_was_written() {
        let connection = Home::new().open();
        let failed = RunRow {
            agent_id: Some("a1".into()),
            exit: None,
            outcome: RunOutcome::TimedOut,
            decision: Some("deny".into()),
            said: 104_857_600,
            note: Some("no end after 30s".into()),
            ..run(2, "house-style")
        };
        let written = [run(1, "check-todos"), failed];
        insert(&connection, &written).unwrap();
        let [older, newer] = written;
        assert_eq!(all(&connection), [newer, older]);
    }

    #[test]
    fn only_what_is_asked_for_comes_and_the_newest_of_it() {
        let connection = Home::new().open();
        let elsewhere = RunRow {
            session_id: Some("other".into()),
            ..run(3, "lint")
        };
        insert(
            &connection,
            &[run(1, "lint"), run(2, "test"), elsewhere, run(4, "lint")],
        )
        .unwrap();
        let found = |query: RunQuery| -> Vec<i64> {
            let found = runs(&connection, &query).unwrap();
            for one in all(&connection) {
                let is_found = found.iter().any(|found| found.run == one);
                assert!(
                    query.limit.is_some() || is_found == query.wants(&one),
                    "{query:?}"
                );
            }
            found.iter().map(|found| found.run.at).collect()
        };
        let lint = RunQuery {
            hook: Some("lint".into()),
            ..RunQuery::default()
        };
        assert_eq!(found(lint.clone()), [4, 3, 1]);
        let here = RunQuery {
            session: Some("s".into()),
            ..lint.clone()
        };
        assert_eq!(found(here), [4, 1]);
        let newest = RunQuery {
            limit: Some(2),
            ..lint
        };
        assert_eq!(found(newest), [4, 3]);
        let since = RunQuery {
            since: Some(3),
            ..RunQuery::default()
        };
        assert_eq!(found(since), [4, 3]);
        let event = RunQuery {
            event: Some(id(2)),
            ..RunQuery::default()
        };
        assert_eq!(found(event), [2]);
    }

    #[test]
    fn a_run_knows_the_tool_of_its_event() {
        let connection = Home::new().open();
        let payload = br#"{"hook_event_name":"PreToolUse","session_id":"s","tool_name":"Bash"}"#;
        let mut event = record_of(1, envelope(1), payload);
        event.runs = vec![run(1, "lint")];
        event.insert(&connection).unwrap();
        // Nobody kept the event of this one.
        insert(&connection, &[run(2, "lint")]).unwrap();
        let tools: Vec<_> = runs(&connection, &RunQuery::default())
            .unwrap()
            .into_iter()
            .map(|found| found.tool)
            .collect();
        assert_eq!(tools, [None, Some("Bash".to_owned())]);
    }

    #[test]
    fn the_end_of_a_run_in_the_background_takes_the_place_of_its_beginning() {
        let connection = Home::new().open();
        let begun = RunRow {
            outcome: RunOutcome::Async,
            ..run(1, "notify")
        };
        let ended = RunRow {
            took_us: 9_000_000,
            ..run(1, "notify")
        };
        insert(&connection, std::slice::from_ref(&begun)).unwrap();
        assert_eq!(all(&connection), std::slice::from_ref(&begun));
        for again in [&ended, &begun, &ended] {
            insert(&connection, std::slice::from_ref(again)).unwrap();
            assert_eq!(all(&connection), std::slice::from_ref(&ended));
        }
    }

    #[test]
    fn an_event_that_comes_again_brings_no_run_twice() {
        let connection = Home::new().open();
        let mut event = record(1, 1);
        event.runs = vec![run(1, "lint"), run(1, "test")];
        event.insert(&connection).unwrap();
        event.seq = 2;
        event.insert(&connection).unwrap();
        assert_eq!(all(&connection).len(), 2);
    }

    #[test]
    fn the_last_event_that_needs_telling_was_decided_failed_on_or_denied_in_vain() {
        let connection = Home::new().open();
        let last = |session| last_told(&connection, session).unwrap();
        assert_eq!(last(None), None);
        let mut silent = record(9, 9);
        silent.runs = vec![run(9, "lint")];
        silent.insert(&connection).unwrap();
        assert_eq!(last(None), None, "nothing was decided, nothing failed");
        let mut denied = record(1, 1);
        denied.decision = Some(decision("deny"));
        denied.insert(&connection).unwrap();
        assert_eq!(last(None), Some((1, id(1))));
        assert_eq!(last(Some("s")), Some((1, id(1))));
        let failed = RunRow {
            outcome: RunOutcome::TimedOut,
            session_id: Some("other".into()),
            ..run(2, "lint")
        };
        insert(&connection, &[failed]).unwrap();
        assert_eq!(last(None), Some((2, id(2))));
        assert_eq!(last(Some("s")), Some((1, id(1))));
        assert_eq!(last(Some("other")), Some((2, id(2))));
        let mut ran_denied = record(3, 3);
        ran_denied.fault = Some(RAN_DENIED.into());
        ran_denied.insert(&connection).unwrap();
        assert_eq!(last(None), Some((3, id(3))));
        assert_eq!(last(Some("s")), Some((3, id(3))));
    }

    #[test]
    fn what_becket_says_itself_needs_no_telling() {
        let connection = Home::new().open();
        let decided = |number: u32, answer: &str, by: Option<&str>| {
            let mut event = record(number.into(), number);
            let ran = by.filter(|by| !account::is_own(by));
            event.runs = ran.map(|by| run(number, by)).into_iter().collect();
            let mut decision = decision(answer);
            decision.by = by.map(str::to_owned);
            event.decision = Some(decision);
            event.insert(&connection).unwrap();
            is_told_of(answer, by)
        };
        assert!(decided(1, "deny", Some("no-prod")));
        for (number, account) in (2..).zip(Account::ALL) {
            assert!(!decided(number, "message", Some(&account.by())));
        }
        assert!(!decided(6, "terminal", None));
        for session in [None, Some("s")] {
            let last = last_told(&connection, session).unwrap();
            assert_eq!(last, Some((1, id(1))), "{session:?}");
        }
        assert!(decided(7, "deny", None));
        for session in [None, Some("s")] {
            let last = last_told(&connection, session).unwrap();
            assert_eq!(last, Some((7, id(7))), "{session:?}");
        }
        for (number, account) in (8..).zip(Account::ALL) {
            assert!(decided(number, "deny", Some(account.word())), "a hook's");
            for session in [None, Some("s")] {
                let last = last_told(&connection, session).unwrap();
                assert_eq!(last, Some((number.into(), id(number))), "{session:?}");
            }
        }
    }
}
