//! The tool calls that becket denied, to find those that ran nevertheless. Owned by the store, which sees every
//! decision and every result.

use std::collections::VecDeque;

use becket_wire::event::EventName;
use becket_wire::log::RAN_DENIED;
use becket_wire::rpc::{AnswerWord, Source};
use becket_wire::{EventId, Place};
use rusqlite::{Connection, params};

use super::record::{EventRecord, InsertOutcome};

/// The number of denied calls that are remembered, the newest ones.
const REMEMBERED: usize = 1024;

/// A call that ran though becket had denied it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RanDenied {
    pub session: String,
    pub tool_use_id: String,
    pub tool: String,
    pub at: i64,
}

/// A tool call: its session and its `tool_use_id`.
type ToolCall = (String, String);

/// The newest denied calls, each with the id of its PreToolUse event.
#[derive(Debug)]
pub(super) struct DeniedCalls {
    place: Place,
    calls: VecDeque<(ToolCall, EventId)>,
    /// Denied calls that ran and that the core has not taken yet.
    pub(super) found: Vec<RanDenied>,
}

impl DeniedCalls {
    pub(super) fn new(place: &Place) -> Self {
        Self {
            place: place.clone(),
            calls: VecDeque::new(),
            found: Vec::new(),
        }
    }

    /// Reads the newest denials.
    pub(super) fn read(place: &Place, connection: &Connection) -> rusqlite::Result<Self> {
        let mut select = connection.prepare(&format!(
            "SELECT e.session_id, e.tool_use_id, e.id
             FROM (SELECT seq, answer FROM decisions ORDER BY seq DESC LIMIT {REMEMBERED}) d
             JOIN events e ON e.seq = d.seq
             WHERE d.answer = 'deny' AND e.event = 'PreToolUse' AND e.source <> 'replay'
             AND e.session_id IS NOT NULL AND e.tool_use_id IS NOT NULL ORDER BY d.seq"
        ))?;
        let mut denied = Self::new(place);
        let mut rows = select.query([])?;
        while let Some(row) = rows.next()? {
            let call = (row.get(0)?, row.get(1)?);
            denied.remember(call, EventId::from_bytes(row.get(2)?));
        }
        Ok(denied)
    }

    fn remember(&mut self, call: ToolCall, event: EventId) {
        self.forget(&call);
        if self.calls.len() == REMEMBERED {
            self.calls.pop_front();
        }
        self.calls.push_back((call, event));
    }

    fn forget(&mut self, call: &ToolCall) {
        self.calls.retain(|(known, _)| known != call);
    }

    /// Marks the result of a denied call as a fault. If standalone judged the call too, Claude Code got that answer:
    /// the intake of it decides.
    pub(super) fn mark_result(&self, record: &mut EventRecord) {
        let is_result = matches!(
            record.event_name(),
            EventName::PostToolUse | EventName::PostToolUseFailure
        );
        if !is_result || record.duplicate_of.is_some() || record.source == Source::Replay {
            return;
        }
        let call = call_of(record);
        let denied = self
            .calls
            .iter()
            .find(|(known, _)| Some(known) == call.as_ref());
        if denied.is_some_and(|(_, event)| !self.place.spooled(*event).exists()) {
            record.fault = Some(RAN_DENIED.to_owned());
        }
    }

    /// Takes note of a record that was written: remembers a denial, and reports a result that is marked.
    pub(super) fn note_written(
        &mut self,
        record: &EventRecord,
        written: InsertOutcome,
        connection: &Connection,
    ) -> rusqlite::Result<()> {
        let is_of_call = written != InsertOutcome::Known && record.source != Source::Replay;
        let Some(call) = call_of(record).filter(|_| is_of_call) else {
            return Ok(());
        };
        if written == InsertOutcome::New && record.ran_denied() {
            self.found.push(RanDenied {
                session: call.0,
                tool_use_id: call.1,
                tool: record.tool.clone().unwrap_or_default(),
                at: record.envelope().at,
            });
            return Ok(());
        }
        if record.event_name() != EventName::PreToolUse {
            return Ok(());
        }
        let decision = record.decision.as_ref();
        if decision.is_none_or(|decision| decision.answer != AnswerWord::Deny) {
            // Standalone's answer takes the place of the daemon's.
            if matches!(written, InsertOutcome::Completed(_)) {
                self.forget(&call);
            }
            return Ok(());
        }
        // The result of a call that standalone denied may have come to the daemon first.
        if record.source == Source::Alone {
            let ran = mark_stored(connection, &call, record.envelope().at)?;
            self.found.extend(ran);
        }
        self.remember(call, record.id());
        Ok(())
    }
}

fn call_of(record: &EventRecord) -> Option<ToolCall> {
    Some((record.session_id.clone()?, record.tool_use_id.clone()?))
}

/// Marks the stored results of a call as faults.
fn mark_stored(
    connection: &Connection,
    (session, tool_use_id): &ToolCall,
    since: i64,
) -> rusqlite::Result<Vec<RanDenied>> {
    let mut update = connection.prepare_cached(
        "UPDATE events SET fault = ?1 WHERE at >= ?2 AND session_id = ?3 AND tool_use_id = ?4
         AND event IN ('PostToolUse', 'PostToolUseFailure') AND fault IS NOT ?1 AND duplicate_of IS NULL
         RETURNING session_id, tool_use_id, tool, at",
    )?;
    let found = update.query_map(
        params![RAN_DENIED, since, session, tool_use_id],
        ran_denied_of,
    )?;
    found.collect()
}

fn ran_denied_of(row: &rusqlite::Row<'_>) -> rusqlite::Result<RanDenied> {
    Ok(RanDenied {
        session: row.get(0)?,
        tool_use_id: row.get(1)?,
        tool: row.get::<_, Option<String>>(2)?.unwrap_or_default(),
        at: row.get(3)?,
    })
}

/// Reads the calls since a time that ran though becket had denied them, the oldest first.
pub fn ran_denied(connection: &Connection, since: i64) -> rusqlite::Result<Vec<RanDenied>> {
    let mut select = connection.prepare(
        "SELECT session_id, tool_use_id, tool, at FROM events
         WHERE fault IS NOT NULL AND fault = ?1 AND at >= ?2 ORDER BY at, seq",
    )?;
    let found = select.query_map(params![RAN_DENIED, since], ran_denied_of)?;
    found.collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::sync::broadcast;

    use super::super::spool::{self, IntakeChanges, SpoolDetails};
    use super::super::tests::{Home, decision, details, envelope, masker, record_of};
    use super::super::write::{Batch, IntakeProgress, Store};
    use super::*;

    const CALL: &str = r#""session_id":"s","tool_use_id":"t","tool_name":"Bash""#;

    fn start(home: &Home) -> Store {
        let (feed, _) = broadcast::channel(8);
        Store::new(&home.place, home.open(), feed, Arc::default()).unwrap()
    }

    fn before() -> Vec<u8> {
        format!(r#"{{"hook_event_name":"PreToolUse",{CALL}}}"#).into_bytes()
    }

    fn result() -> EventRecord {
        let payload = format!(r#"{{"hook_event_name":"PostToolUse",{CALL}}}"#);
        record_of(100, envelope(2), payload.as_bytes())
    }

    fn commit(store: &mut Store, record: EventRecord) {
        let batch = Batch {
            events: vec![(Box::new(record), Box::new(|| ()))],
            ..Batch::default()
        };
        assert!(store.commit(batch).is_ok());
    }

    fn deny(store: &mut Store) {
        let mut record = record_of(store.next_seq(), envelope(1), &before());
        (record.decision, record.took_us) = (Some(decision("deny")), Some(1));
        commit(store, record);
    }

    fn spool(home: &Home, details: &SpoolDetails) {
        spool::leave(&home.place, &envelope(1), &before(), details).unwrap();
    }

    fn take_in(store: &mut Store) {
        let taken = store.take_in(&masker(), &mut |_, _| IntakeChanges::default());
        assert_eq!(taken, IntakeProgress::All);
    }

    #[test]
    fn a_denied_call_is_found_by_the_answer_that_claude_code_got() {
        let home = Home::new();
        let mut store = start(&home);
        deny(&mut store);
        let mut ran = result();
        assert!(store.mark_ran_denied(&mut ran));
        assert!(
            start(&home).mark_ran_denied(&mut result()),
            "the next daemon"
        );
        // The daemon was too late, and standalone let the call pass.
        spool(&home, &details(1, None));
        assert!(!store.mark_ran_denied(&mut result()), "not taken in yet");
        take_in(&mut store);
        assert!(!store.mark_ran_denied(&mut result()));
    }

    #[test]
    fn a_result_may_come_before_the_denial_of_standalone() {
        let home = Home::new();
        let mut store = start(&home);
        let mut ran = result();
        assert!(!store.mark_ran_denied(&mut ran));
        commit(&mut store, ran);
        spool(&home, &details(1, Some("deny")));
        take_in(&mut store);
        let found = store.take_ran_denied();
        assert_eq!(found.len(), 1);
        assert_eq!(ran_denied(store.connection(), 0).unwrap(), found);
        assert_eq!(store.take_ran_denied(), [], "told once");
    }
}
