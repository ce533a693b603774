//! Runs of named hooks, written with the event that they ran on, and read by `hooks stats`, `why` and `doctor`.

use becket_wire::hook_run::{RunOutcome, RunRow};
use becket_wire::log::{AnswerWord, RAN_DENIED};
use becket_wire::{Actor, EventId};
use rusqlite::{Connection, Row, params, params_from_iter};

use super::queries::WhereClause;

/// A run of a hook, and the tool of the event that it ran on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedRun {
    pub run: RunRow,
    pub tool: Option<String>,
    /// The end of its time limit, in milliseconds since 1970. None if the run is over.
    pub until: Option<i64>,
}

/// A filter for runs.
#[derive(Debug, Clone, Default)]
pub struct RunQuery {
    pub hook: Option<String>,
    /// The whole id of a session.
    pub session: Option<String>,
    /// Milliseconds since 1970.
    pub since: Option<i64>,
    pub event: Option<EventId>,
    /// The number of runs to read, the newest ones. None for all.
    pub limit: Option<u32>,
}

impl RunQuery {
    /// Returns true if a run passes the filter.
    pub fn wants(&self, run: &RunRow) -> bool {
        self.hook.as_ref().is_none_or(|hook| *hook == run.hook)
            && (self.session.is_none() || self.session == run.session_id)
            && self.since.is_none_or(|since| run.at >= since)
            && self.event.is_none_or(|event| event == run.event_id)
    }
}

/// Merges later rows into the runs of an event, as the database does.
pub(super) fn merge(runs: &mut Vec<RunRow>, later: Vec<RunRow>) {
    for run in later {
        match runs.iter_mut().find(|one| one.hook == run.hook) {
            None => runs.push(run),
            Some(_) if run.is_under_way() => {}
            Some(one) => *one = run,
        }
    }
}

/// Writes runs. The end of a background run replaces its beginning, never the other way round.
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

/// Reads the runs that pass a filter, the newest first.
pub fn runs(connection: &Connection, query: &RunQuery) -> rusqlite::Result<Vec<LoggedRun>> {
    let mut clause = WhereClause::new();
    clause.add("r.hook = ?", query.hook.clone());
    clause.add("r.session_id = ?", query.session.clone());
    clause.add("r.at >= ?", query.since);
    let event = query.event.map(|event| event.as_bytes().to_vec());
    clause.add("r.event_id = ?", event);
    let mut select = connection.prepare(&format!(
        "SELECT {COLUMNS} FROM runs r LEFT JOIN events e ON e.id = r.event_id
         WHERE {} ORDER BY r.at DESC LIMIT {}",
        clause.sql(),
        query.limit.map_or(-1, i64::from)
    ))?;
    let found = select.query_map(params_from_iter(clause.values), read)?;
    found.collect()
}

fn read(row: &Row<'_>) -> rusqlite::Result<LoggedRun> {
    Ok(LoggedRun {
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

/// Returns true if `becket why` has something to explain: a hook or a guard decided. To ring the terminal's bell
/// is no decision.
pub fn is_explainable(answer: &AnswerWord, by: Option<&Actor>) -> bool {
    *answer != AnswerWord::Terminal && !by.is_some_and(Actor::is_routine)
}

/// Reads the newest event that `becket why` can explain, with its time: its decision [`is_explainable`], a hook
/// failed on it, or it is the result of a denied call.
pub fn last_explainable(
    connection: &Connection,
    session: Option<&str>,
) -> rusqlite::Result<Option<(i64, EventId)>> {
    // Without a session, there are fewer decisions than events to read. An event from the spool has a high number and an
    // old time, so the time decides among the newest decisions.
    let (join, which) = match session {
        None => ("CROSS JOIN", "?1 IS NULL"),
        Some(_) => ("JOIN", "e.session_id = ?1"),
    };
    let decided = format!(
        "SELECT at, id FROM (SELECT e.at, e.id FROM decisions d {join} events e ON e.seq = d.seq
         WHERE {which} AND d.answer <> 'terminal' AND (d.by IS NULL OR d.by NOT LIKE 'becket:%' AND d.by <> 'effort:context')
         ORDER BY d.seq DESC LIMIT 1000) ORDER BY at DESC LIMIT 1"
    );
    let of_session = session.map_or("?1 IS NULL", |_| "session_id = ?1");
    let failed = format!(
        "SELECT at, event_id FROM runs WHERE outcome NOT IN ('{}') AND {of_session} ORDER BY at DESC LIMIT 1",
        RunOutcome::SUCCESSES.map(String::from).join("', '")
    );
    let ran_denied = format!(
        "SELECT at, id FROM events WHERE fault IS NOT NULL AND fault = '{RAN_DENIED}' AND {of_session}
         ORDER BY at DESC LIMIT 1"
    );
    let mut last = None;
    for sql in [decided, failed, ran_denied] {
        last = last.max(first_row(connection, &sql, session)?);
    }
    Ok(last)
}

fn first_row(
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

/// Reads the reason why an event was not answered by the daemon, as the process that answered it gave it.
pub fn detour(connection: &Connection, id: EventId) -> rusqlite::Result<Option<String>> {
    let mut select = connection.prepare("SELECT detour FROM events WHERE id = ?1")?;
    let found = select.query_map([id.as_bytes()], |row| row.get(0))?.next();
    Ok(found.transpose()?.flatten())
}

#[cfg(test)]
mod tests {

    use super::super::tests::{Home, decision, envelope, id, record, record_of, run};
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
    fn a_query_finds_the_newest_runs_that_match() {
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
        // This run has no event in the log.
        insert(&connection, &[run(2, "lint")]).unwrap();
        let tools: Vec<_> = runs(&connection, &RunQuery::default())
            .unwrap()
            .into_iter()
            .map(|found| found.tool)
            .collect();
        assert_eq!(tools, [None, Some("Bash".to_owned())]);
    }

    #[test]
    fn the_end_of_a_background_run_replaces_its_beginning() {
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
    fn an_explainable_event_was_decided_or_had_a_failed_hook_or_ran_denied() {
        let connection = Home::new().open();
        let last = |session| last_explainable(&connection, session).unwrap();
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
    fn messages_of_becket_itself_are_not_explainable() {
        let connection = Home::new().open();
        let decided = |number: u32, answer: &str, by: Option<&str>| {
            let mut event = record(number.into(), number);
            let ran = by.filter(|by| !by.contains(':'));
            event.runs = ran.map(|by| run(number, by)).into_iter().collect();
            let mut decision = decision(answer);
            decision.by = by.map(|by| by.to_owned().into());
            event.decision = Some(decision.clone());
            event.insert(&connection).unwrap();
            is_explainable(&decision.answer, decision.by.as_ref())
        };
        assert!(decided(1, "deny", Some("no-prod")));
        let own = [
            "becket:config",
            "becket:launch",
            "becket:newer",
            "effort:context",
        ];
        for (number, by) in (2..).zip(own) {
            assert!(!decided(number, "message", Some(by)));
        }
        assert!(!decided(6, "terminal", None));
        for session in [None, Some("s")] {
            let last = last_explainable(&connection, session).unwrap();
            assert_eq!(last, Some((1, id(1))), "{session:?}");
        }
        assert!(decided(7, "deny", None));
        for session in [None, Some("s")] {
            let last = last_explainable(&connection, session).unwrap();
            assert_eq!(last, Some((7, id(7))), "{session:?}");
        }
        for (number, by) in (8..).zip(["config", "becket", "guard:a", "effort:plan", "context"]) {
            assert!(decided(number, "deny", Some(by)), "{by}");
            for session in [None, Some("s")] {
                let last = last_explainable(&connection, session).unwrap();
                assert_eq!(last, Some((number.into(), id(number))), "{session:?}");
            }
        }
    }
}
