//! Reads hook runs from the database, the spool, and the files of running hooks.

use anyhow::{Context, Result};
use becket_daemon::store::{self, Decision, EventRecord, LoggedRun, RunQuery, spool};
use becket_engine::process::{RunFile, running};
use becket_wire::EventId;
use becket_wire::hook_run::RunRow;
use becket_wire::rpc::{EventQuery, EventRow};
use rusqlite::Connection;

use crate::client::Client;
use crate::log;
use crate::session::source::id_of_title;
use crate::world::World;

/// A reader of hook runs. It writes nothing.
#[derive(Debug)]
pub struct Runs<'a> {
    world: &'a World,
    database: Option<Connection>,
    /// The events in the spool.
    waiting: Vec<EventRecord>,
    /// The hooks that are running now.
    current: Vec<RunFile>,
}

impl<'a> Runs<'a> {
    /// Opens the database and reads the spool, which a running daemon takes in first.
    pub fn open(world: &'a World) -> Result<Self> {
        // Read first: a run that ends after this is recorded and found in the database.
        let current = running(&world.place.running());
        Client::take_in_or_warn(world);
        let masker = log::masker(world);
        let database = store::open_to_read(&world.place.database())?;
        Ok(Self {
            world,
            database,
            waiting: spool::read_all(&world.place, &masker),
            current,
        })
    }

    /// Returns the session that has this title, or whose id begins with this text.
    pub fn session(&self, meant: Option<&str>) -> Result<Option<String>> {
        let Some(meant) = meant else {
            return Ok(None);
        };
        let prefix = id_of_title(self.world, meant)?;
        log::complete(&prefix, self.database.as_ref(), &self.waiting).map(Some)
    }

    /// Finds running and recorded runs: the running ones first, then the newest first.
    pub fn find_all(&self, query: &RunQuery) -> Result<Vec<LoggedRun>> {
        let mut found = self.find(query)?;
        for RunFile { run, until, .. } in &self.current {
            let mut recorded = found.iter().filter(|one| is_same(&one.run, run));
            if !query.wants(run) || recorded.any(|one| !one.run.is_under_way()) {
                continue;
            }
            found.retain(|one| !is_same(&one.run, run));
            found.push(LoggedRun {
                run: run.clone(),
                tool: self.event(run.event_id)?.and_then(|row| row.tool),
                until: Some(*until),
            });
        }
        found.sort_by_key(|one| std::cmp::Reverse((one.until.is_some(), one.run.at)));
        found.truncate(most(query));
        Ok(found)
    }

    /// Finds recorded runs, the newest first.
    pub fn find(&self, query: &RunQuery) -> Result<Vec<LoggedRun>> {
        let mut found = match &self.database {
            Some(connection) => {
                store::runs(connection, query).context("could not read the runs of hooks")?
            }
            None => Vec::new(),
        };
        for record in &self.waiting {
            for run in record.runs.iter().filter(|run| query.wants(run)) {
                match found.iter_mut().find(|one| is_same(&one.run, run)) {
                    // The end of a run replaces its start.
                    Some(_) if run.is_under_way() => {}
                    Some(one) => one.run = run.clone(),
                    None => found.push(LoggedRun {
                        run: run.clone(),
                        tool: record.to_row().tool,
                        until: None,
                    }),
                }
            }
        }
        found.sort_by_key(|one| std::cmp::Reverse(one.run.at));
        found.truncate(most(query));
        Ok(found)
    }

    /// Returns the newest event that a hook or a guard decided, or on which a hook failed.
    pub fn last_explainable(&self, session: Option<&str>) -> Result<Option<EventId>> {
        let mut last = match &self.database {
            Some(connection) => store::last_explainable(connection, session)?,
            None => None,
        };
        let of_session = |row: &EventRow| session.is_none() || row.session_id.as_deref() == session;
        for record in &self.waiting {
            let row = record.to_row();
            if tells(record.decision.as_ref(), &record.runs) && of_session(&row) {
                last = last.max(Some((row.at, row.id)));
            }
        }
        Ok(last.map(|(_, id)| id))
    }

    /// Returns the event of the running hook that was started last.
    pub fn last_begun(&self, session: Option<&str>) -> Option<EventId> {
        let of_session =
            |one: &&RunFile| session.is_none() || one.run.session_id.as_deref() == session;
        let current = self.current.iter().filter(of_session);
        let last = current.max_by_key(|one| one.run.at)?;
        Some(last.run.event_id)
    }

    pub fn event(&self, id: EventId) -> Result<Option<EventRow>> {
        let query = EventQuery {
            id: Some(id),
            duplicates: true,
            ..EventQuery::default()
        };
        Ok(log::read(self.world, query)?.pop())
    }

    /// Returns the reason why an event did not go through the daemon.
    pub fn detour(&self, id: EventId) -> Option<String> {
        let waits = self.waiting.iter().find(|record| record.id() == id);
        let waits = waits.and_then(|record| record.detour().map(str::to_owned));
        let connection = self.database.as_ref();
        waits.or_else(|| store::detour(connection?, id).ok().flatten())
    }
}

fn most(query: &RunQuery) -> usize {
    query.limit.map_or(usize::MAX, |limit| limit as usize)
}

/// Returns true if a hook or guard decided an event, or a hook failed on it.
fn tells(decision: Option<&Decision>, runs: &[RunRow]) -> bool {
    decision.is_some_and(|it| store::is_explainable(&it.answer, it.by.as_ref()))
        || runs.iter().any(RunRow::has_failed)
}

/// Returns true if both rows are of one run of a hook.
fn is_same(one: &RunRow, other: &RunRow) -> bool {
    one.event_id == other.event_id && one.hook == other.hook
}
