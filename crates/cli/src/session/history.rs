//! Where the past of sessions comes from: the database and the spool. Nothing is written.

use std::collections::HashMap;

use anyhow::{Context, Result};
use becket_daemon::store::{self, Brief, Record, SessionFacts, TurnFigures, spool};
use becket_wire::rpc::{Ask, EventQuery, EventRow};
use rusqlite::Connection;

use crate::client::Client;
use crate::log;
use crate::world::World;

#[derive(Debug, Default)]
pub struct History {
    database: Option<Connection>,
    /// Events that wait to be written.
    waiting: Vec<EventRow>,
    facts: HashMap<String, SessionFacts>,
}

impl History {
    /// A daemon that runs takes in the spool first; without one it is read where it lies.
    pub fn open(world: &World) -> Result<Self> {
        if !world.no_daemon
            && let Ok(Some(mut client)) = Client::connect(world)
        {
            // One that is in trouble keeps nobody from reading.
            drop(client.done(Ask::TakeIn));
        }
        let masker = log::masker(world);
        let database = store::open_to_read(&world.place.database())?;
        let facts = match &database {
            Some(connection) => {
                store::session_facts(connection).context("could not read the sessions")?
            }
            None => Vec::new(),
        };
        let waiting = spool::read_all(&world.place, &masker);
        let by_id = |facts: SessionFacts| (facts.session_id.clone(), facts);
        Ok(Self {
            database,
            waiting: waiting.iter().map(Record::to_row).collect(),
            facts: facts.into_iter().map(by_id).collect(),
        })
    }

    /// A database alone.
    #[cfg(test)]
    pub fn of(database: Connection) -> Self {
        let facts = store::session_facts(&database)
            .unwrap_or_default()
            .into_iter();
        Self {
            facts: facts
                .map(|facts| (facts.session_id.clone(), facts))
                .collect(),
            database: Some(database),
            waiting: Vec::new(),
        }
    }

    /// Calls `each` with the events of a session, or of all since then; duplicates are left out.
    pub fn events(
        &self,
        session: Option<&str>,
        since: i64,
        each: &mut dyn FnMut(Brief<'_>),
    ) -> Result<()> {
        if let Some(connection) = &self.database {
            store::events_in_brief(connection, session, since, each)
                .context("could not read the log")?;
        }
        let query = EventQuery {
            session: session.map(str::to_owned),
            since: Some(since),
            ..EventQuery::default()
        };
        let waiting = self.waiting.iter().filter(|row| query.wants(row));
        waiting.map(Brief::from).for_each(each);
        Ok(())
    }

    /// The figures of a session's turns, or of all sessions', each session's in order.
    pub fn figures(&self, session: Option<&str>) -> Result<Vec<TurnFigures>> {
        let Some(connection) = &self.database else {
            return Ok(Vec::new());
        };
        store::figures(connection, session).context("could not read the figures of turns")
    }

    /// How long a tool call ran that this event is the end of, in milliseconds; 0 if that is not known.
    pub fn ran_ms(&self, event: &Brief<'_>) -> i64 {
        if !event.event.starts_with("PostToolUse") {
            return 0;
        }
        let stored = || store::payload(self.database.as_ref()?, event.seq).ok()?;
        let payload = event.payload.clone().or_else(stored).unwrap_or_default();
        let call: serde_json::Value = serde_json::from_slice(&payload).unwrap_or_default();
        call["duration_ms"].as_i64().unwrap_or(0)
    }

    pub fn facts(&self, session: &str) -> Option<&SessionFacts> {
        self.facts.get(session)
    }

    /// What the session had cost when it began: a fork goes on with the cost of the other.
    pub fn cost_before(&self, session: &str, began: i64) -> Result<f64> {
        let Some(parent) = self.facts(session).and_then(SessionFacts::forked_from) else {
            return Ok(0.0);
        };
        let before = self.figures(Some(parent))?;
        let before = before.iter().filter(|turn| turn.began < began);
        Ok(before
            .filter_map(|turn| turn.cost_usd)
            .next_back()
            .unwrap_or(0.0))
    }

    /// The sessions that this one goes on from, the first one first.
    pub fn before(&self, session: &str) -> Vec<&SessionFacts> {
        let mut chain: Vec<&SessionFacts> = Vec::new();
        let mut prev = self
            .facts(session)
            .and_then(|facts| facts.prev_session_id.as_ref());
        while let Some(facts) = prev.and_then(|id| self.facts(id)) {
            if facts.session_id == session || chain.contains(&facts) {
                break;
            }
            chain.push(facts);
            prev = facts.prev_session_id.as_ref();
        }
        chain.reverse();
        chain
    }

    /// The sessions that go on from this one itself, in the order of their beginnings.
    pub fn after(&self, session: &str) -> Vec<&SessionFacts> {
        let goes_on = |facts: &&SessionFacts| facts.prev_session_id.as_deref() == Some(session);
        let mut next: Vec<&SessionFacts> = self.facts.values().filter(goes_on).collect();
        next.sort_by_key(|facts| facts.started_at);
        next
    }

    /// All sessions that go on from this one, nearest first.
    pub fn after_all(&self, session: &str) -> Vec<&SessionFacts> {
        let mut all = self.after(session);
        let mut nth = 0;
        while let Some(facts) = all.get(nth) {
            let next = self.after(&facts.session_id).into_iter();
            let next: Vec<_> = next.filter(|facts| !all.contains(facts)).collect();
            all.extend(next);
            nth += 1;
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_chained_both_ways() {
        let facts = |id: &str, prev: &str, started_at| SessionFacts {
            session_id: id.to_owned(),
            prev_session_id: (!prev.is_empty()).then(|| prev.to_owned()),
            started_at,
            ..SessionFacts::default()
        };
        let all = [
            facts("a", "gone", 1),
            facts("b", "a", 2),
            facts("c", "b", 4),
            facts("d", "b", 3),
            facts("x", "y", 5),
            facts("y", "x", 6),
        ];
        let history = History {
            facts: all.map(|facts| (facts.session_id.clone(), facts)).into(),
            ..History::default()
        };
        let ids = |found: Vec<&SessionFacts>| {
            let ids = found.iter().map(|facts| &*facts.session_id);
            ids.collect::<String>()
        };
        assert_eq!(ids(history.before("c")), "ab");
        assert_eq!(ids(history.after("b")), "dc");
        assert_eq!(ids(history.after_all("a")), "bdc");
        assert_eq!(ids(history.before("x")), "y", "a circle ends");
        assert_eq!(ids(history.after_all("x")), "yx", "a circle ends");
    }
}
