//! Fixtures for the tests of the store: a temporary home, and events made from a number.

use std::collections::BTreeMap;

use becket_engine::config::Config;
use becket_engine::mask::Masker;
use becket_wire::hook_run::{RunOutcome, RunRow};
use becket_wire::rpc::{Envelope, EventQuery, EventRow, Source};
use becket_wire::{EventId, Head, Place, Version};
use rusqlite::Connection;
use tempfile::TempDir;

use super::LoggedRun;
use super::record::{Decision, EventRecord};
use super::spool::{self, SpoolDetails};

/// A home, and a database in it.
pub(super) struct Home {
    pub(super) place: Place,
    _folder: TempDir,
}

impl Home {
    pub(super) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let place = Place::new(folder.path().join("home"));
        std::fs::create_dir_all(place.spool()).unwrap();
        Self {
            place,
            _folder: folder,
        }
    }

    pub(super) fn open(&self) -> Connection {
        super::open(&self.place.database(), 0).unwrap().connection
    }

    /// Leaves an event in the spool, as `becket hook --alone` does.
    pub(super) fn leave(&self, number: u32, details: &SpoolDetails) {
        spool::leave(&self.place, &envelope(number), &payload(number), details).unwrap();
    }

    /// Returns the number of files in the spool, of every kind.
    pub(super) fn files(&self) -> usize {
        std::fs::read_dir(self.place.spool()).unwrap().count()
    }
}

pub(super) fn masker() -> Masker {
    let mut config = Config::default();
    config.mask.enabled = true;
    Masker::from_config([7; 32], &config)
}

pub(crate) fn id(number: u32) -> EventId {
    let mut bytes = [0; 16];
    bytes[12..].copy_from_slice(&number.to_be_bytes());
    EventId::from_bytes(bytes)
}

pub(super) fn envelope(number: u32) -> Envelope {
    Envelope {
        id: id(number),
        at: i64::from(number),
        version: Version::current(),
        event: Some("PreToolUse".to_owned()),
        from: Some("settings".to_owned()),
        home: "/home/user/.becket".to_owned(),
        pid: 4242,
        pid_start: Some(17),
        pid_is_claude: true,
        pid_parent: None,
        variables: BTreeMap::new(),
        cut: None,
    }
}

pub(super) fn payload(number: u32) -> Vec<u8> {
    format!(r#"{{"hook_event_name":"PreToolUse","session_id":"s","number":{number}}}"#).into_bytes()
}

/// Makes the record of an event, as the daemon has it before it is written.
pub(super) fn record(seq: i64, number: u32) -> EventRecord {
    record_of(seq, envelope(number), &payload(number))
}

pub(super) fn record_of(seq: i64, envelope: Envelope, payload: &[u8]) -> EventRecord {
    let head = Head::read(payload);
    let mut record = EventRecord::new(envelope, &head, payload, 0, Source::Daemon);
    record.seq = seq;
    record
}

pub(crate) fn decision(answer: &str) -> Decision {
    Decision {
        answer: answer.into(),
        by: Some(becket_wire::Actor::Hooks("no-prod".to_owned())),
        reason: None,
        exit: 0,
        stdout: "{}".to_owned(),
        stderr: String::new(),
        effort: None,
    }
}

pub(super) fn details(took_us: i64, answer: Option<&str>) -> SpoolDetails {
    SpoolDetails {
        took_us: Some(took_us),
        decision: answer.map(decision),
        masked: 0,
        source: Source::Alone,
        why: "absent".to_owned(),
        ..SpoolDetails::with_runs(Vec::new())
    }
}

/// Makes the run of a hook that succeeded silently.
pub(crate) fn run(number: u32, hook: &str) -> RunRow {
    RunRow {
        hook: hook.to_owned(),
        event_id: id(number),
        event: "PreToolUse".to_owned(),
        session_id: Some("s".to_owned()),
        agent_id: None,
        at: i64::from(number),
        took_us: 1200,
        exit: Some(0),
        outcome: RunOutcome::Ok,
        decision: None,
        said: 0,
        note: None,
    }
}

/// Reads the event, the hook and the outcome of each run, the newest first.
pub(super) fn runs_of(connection: &Connection) -> Vec<(EventId, String, String)> {
    let found = super::runs(connection, &super::RunQuery::default()).unwrap();
    found
        .into_iter()
        .map(|LoggedRun { run, .. }| (run.event_id, run.hook, run.outcome.to_string()))
        .collect()
}

/// Reads all rows, as `becket events` does.
pub(super) fn rows(connection: &Connection) -> Vec<EventRow> {
    found(
        connection,
        &EventQuery {
            duplicates: true,
            ..EventQuery::default()
        },
    )
}

pub(super) fn found(connection: &Connection, query: &EventQuery) -> Vec<EventRow> {
    let mut rows = Vec::new();
    super::find_events(connection, query, &mut |row| {
        rows.push(row);
        true
    })
    .unwrap();
    rows
}
