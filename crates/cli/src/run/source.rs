//! Where runs come from: the database and the spool.

use anyhow::{Context, Result};
use becket_daemon::store::{self, Decision, FoundRun, Record, RunQuery, spool};
use becket_engine::process::{RunFile, running};
use becket_wire::EventId;
use becket_wire::hook_run::RunRow;
use becket_wire::rpc::{EventQuery, EventRow};
use rusqlite::Connection;

use crate::client::Client;
use crate::log;
use crate::world::World;

/// Everything that is known of runs. It is read, and nothing is written.
#[derive(Debug)]
pub struct Runs<'a> {
    world: &'a World,
    database: Option<Connection>,
    /// What waits to be written.
    waiting: Vec<Record>,
    /// What runs now.
    current: Vec<RunFile>,
}

impl<'a> Runs<'a> {
    /// A daemon that runs takes in the spool first; without one it is read where it lies.
    pub fn open(world: &'a World) -> Result<Self> {
        // First: what ends from here on is found recorded.
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

    /// The session whose id begins so.
    pub fn session(&self, prefix: Option<&str>) -> Result<Option<String>> {
        let Some(prefix) = prefix else {
            return Ok(None);
        };
        log::complete(prefix, self.database.as_ref(), &self.waiting).map(Some)
    }

    /// The runs that are asked for: those that go on, then the others, each the newest first.
    pub fn find_all(&self, query: &RunQuery) -> Result<Vec<FoundRun>> {
        let mut found = self.find(query)?;
        for RunFile { run, until, .. } in &self.current {
            let same = |one: &FoundRun| key(one) == (run.event_id, run.hook.clone());
            if !query.wants(run) || found.iter().any(|one| same(one) && !one.run.is_under_way()) {
                continue;
            }
            found.retain(|one| !same(one));
            found.push(FoundRun {
                run: run.clone(),
                tool: self.event(run.event_id)?.and_then(|row| row.tool),
                until: Some(*until),
            });
        }
        found.sort_by_key(|one| std::cmp::Reverse((one.until.is_some(), one.run.at)));
        found.truncate(most(query));
        Ok(found)
    }

    /// The runs that are recorded and asked for, the newest first.
    pub fn find(&self, query: &RunQuery) -> Result<Vec<FoundRun>> {
        let mut found = match &self.database {
            Some(connection) => {
                store::runs(connection, query).context("could not read the runs of hooks")?
            }
            None => Vec::new(),
        };
        for record in &self.waiting {
            for run in record.runs.iter().filter(|run| query.wants(run)) {
                let same = |one: &&mut FoundRun| key(one) == (run.event_id, run.hook.clone());
                match found.iter_mut().find(same) {
                    // The end of a run takes the place of its beginning.
                    Some(_) if run.is_under_way() => {}
                    Some(one) => one.run = run.clone(),
                    None => found.push(FoundRun {
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

    /// The newest event that a hook or a guard decided, or on which a hook failed.
    pub fn last_told(&self, session: Option<&str>) -> Result<Option<EventId>> {
        let mut last = match &self.database {
            Some(connection) => store::last_told(connection, session)?,
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

    /// The event whose hook began last, of those that run now.
    pub fn last_begun(&self, session: Option<&str>) -> Option<EventId> {
        let of_session =
            |one: &&RunFile| session.is_none() || one.run.session_id.as_deref() == session;
        let last = self
            .current
            .iter()
            .filter(of_session)
            .max_by_key(|one| one.run.at);
        last.map(|one| one.run.event_id)
    }

    pub fn event(&self, id: EventId) -> Result<Option<EventRow>> {
        let query = EventQuery {
            id: Some(id),
            duplicates: true,
            ..EventQuery::default()
        };
        Ok(log::read(self.world, query)?.pop())
    }

    /// Why an event did not come by the daemon.
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

/// Whether there is something to tell of an event.
fn tells(decision: Option<&Decision>, runs: &[RunRow]) -> bool {
    decision.is_some_and(|it| store::is_told_of(&it.answer, it.by.as_deref()))
        || runs.iter().any(RunRow::has_failed)
}

fn key(found: &FoundRun) -> (EventId, String) {
    (found.run.event_id, found.run.hook.clone())
}
