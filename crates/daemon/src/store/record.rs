//! The row of one event, before it is written into the database.

use std::borrow::Cow;

use becket_engine::effort::EffortSaid;
use becket_engine::mask::Masker;
use becket_engine::pipeline::PreparedEvent;
use becket_engine::session::EventOutcome;
use becket_wire::event::EventName;
use becket_wire::head::HeadError;
use becket_wire::hook_run::RunRow;
use becket_wire::log::RAN_DENIED;
use becket_wire::rpc::{AnswerWord, Cut, DecisionRow, Envelope, EventRow, Source};
use becket_wire::{Actor, EventId, Head, Output};
use rusqlite::{Connection, params};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::hook_runs;

/// Payloads longer than this are compressed: a Write of 300 KB arrives three times.
const COMPRESS_OVER: usize = 4 << 10;
/// The level of zstd. Level 3 compresses a third better and takes twice as long.
const LEVEL: i32 = 1;

/// An event, masked and compressed, ready to be written.
#[derive(Debug, Clone)]
pub struct EventRecord {
    pub seq: i64,
    envelope: Envelope,
    pub(super) session_id: Option<String>,
    agent_id: Option<String>,
    event: Option<String>,
    pub(super) tool: Option<String>,
    pub(super) tool_use_id: Option<String>,
    prompt_id: Option<String>,
    cwd: Option<String>,
    pub(super) fault: Option<String>,
    pub source: Source,
    masked: i64,
    size: i64,
    body: Vec<u8>,
    compressed: bool,
    pub took_us: Option<i64>,
    pub decision: Option<Decision>,
    pub duplicate_of: Option<i64>,
    /// The runs of its named hooks.
    pub runs: Vec<RunRow>,
    /// True if its named hooks still run. Followers get the event once, after they have ended.
    pub hooks_pending: bool,
    /// True if its hooks have ended and this record completes the row that was written before.
    pub(super) is_completion: bool,
    /// The project, masked.
    pub(crate) project: Option<String>,
    /// The reason why the event was not answered by the daemon.
    pub(super) detour: Option<String>,
}

/// The effect of writing a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InsertOutcome {
    New,
    /// The row with this number was completed: it had no answer, or only the daemon's.
    Completed(i64),
    /// The event was stored before, with its answer. Its runs may be new.
    Known,
}

/// Describes the fault of an event: it is not whole, or lacks fields that every event of its name has. Missing
/// fields do not change how it is judged.
fn fault(head: &Result<Head<'_>, HeadError>, cut: Option<Cut>) -> Option<String> {
    not_whole(head, cut).or_else(|| {
        let head = head.as_ref().ok()?;
        let lacks = head.lacks();
        if lacks.is_empty() {
            return None;
        }
        let lacks = lacks.join(", ");
        Some(match &head.event {
            Some(event) => format!("the {event} event lacks {lacks}"),
            None => format!("the event lacks {lacks}"),
        })
    })
}

/// Describes why a payload is not a whole event. Returns none if it is whole.
pub fn not_whole(head: &Result<Head<'_>, HeadError>, cut: Option<Cut>) -> Option<String> {
    match (cut, head) {
        (Some(Cut::TooLong), _) => Some("the event is longer than 32 MiB, and was cut".to_owned()),
        (Some(Cut::NeverEnded), Err(error)) => Some(format!("stdin never ended; {error}")),
        (Some(Cut::NeverEnded), Ok(_)) => Some("stdin never ended".to_owned()),
        (_, Err(error)) => Some(error.to_string()),
        (_, Ok(head)) if head.session_id.is_none() => {
            Some("the event has no session_id".to_owned())
        }
        (_, Ok(_)) => None,
    }
}

impl EventRecord {
    /// Makes the record of an event. `payload` is masked already; `head` may come from the original.
    pub fn new(
        envelope: Envelope,
        head: &Result<Head<'_>, HeadError>,
        payload: &[u8],
        masked: u32,
        source: Source,
    ) -> Self {
        let fault = fault(head, envelope.cut);
        let nothing = Head::default();
        let head = head.as_ref().unwrap_or(&nothing);
        let size = payload.len() as i64;
        let (body, compressed) = pack(payload);
        Self {
            seq: 0,
            session_id: text(&head.session_id),
            agent_id: text(&head.agent_id),
            event: text(&head.event).or_else(|| envelope.event.clone()),
            tool: text(&head.tool),
            tool_use_id: text(&head.tool_use_id),
            prompt_id: text(&head.prompt_id),
            cwd: text(&head.cwd),
            fault,
            envelope,
            source,
            masked: masked.into(),
            size,
            body,
            compressed,
            took_us: None,
            decision: None,
            duplicate_of: None,
            runs: Vec::new(),
            hooks_pending: false,
            is_completion: false,
            project: None,
            detour: None,
        }
    }

    /// Makes the record of a prepared event.
    pub(crate) fn from_event(event: &PreparedEvent) -> Self {
        let head = Head::read(&event.masked);
        let (envelope, source) = (event.envelope.clone(), event.envelope.source());
        let mut record = Self::new(envelope, &head, &event.masked, event.secrets, source);
        record.project = event.masked_project();
        record
    }

    pub fn id(&self) -> EventId {
        self.envelope.id
    }

    pub fn envelope(&self) -> &Envelope {
        &self.envelope
    }

    /// Returns the id of the subagent that the event is of.
    pub(crate) fn agent_id(&self) -> Option<&str> {
        self.agent_id.as_deref()
    }

    pub(crate) fn session_id(&self) -> Option<&str> {
        self.session_id.as_deref()
    }

    /// Returns the id of the tool call if this is a PreToolUse event.
    pub fn call_seen(&self) -> Option<&str> {
        let is_call = self.event_name() == EventName::PreToolUse;
        self.tool_use_id.as_deref().filter(|_| is_call)
    }

    pub(crate) fn event_name(&self) -> EventName {
        self.event.as_deref().unwrap_or_default().into()
    }

    /// Returns true if this is the result of a call that becket had denied.
    pub(super) fn ran_denied(&self) -> bool {
        self.fault.as_deref() == Some(RAN_DENIED)
    }

    /// Returns the state of its decision, for its session.
    pub(crate) fn outcome(&self) -> EventOutcome {
        let is_stop = matches!(self.event.as_deref(), Some("Stop" | "SubagentStop"));
        let is_blocked = self.decision.as_ref().is_some_and(|decision| {
            if is_stop {
                decision.blocks_stop()
            } else {
                matches!(decision.answer, AnswerWord::Block | AnswerWord::Stop)
            }
        });
        if is_blocked {
            EventOutcome::Blocked
        } else if self.hooks_pending {
            EventOutcome::Pending
        } else {
            EventOutcome::Passed
        }
    }

    /// Makes this the record that completes the row of the event: its hooks have ended.
    pub(crate) fn set_completion(&mut self) {
        self.hooks_pending = false;
        self.is_completion = true;
    }

    /// Returns the reason why the daemon did not answer the event, as the process that answered it gave it.
    pub fn detour(&self) -> Option<&str> {
        self.detour.as_deref()
    }

    pub fn masked(&self) -> i64 {
        self.masked
    }

    /// Returns the payload with its secrets masked.
    pub fn payload(&self) -> Vec<u8> {
        unpack(&self.body, self.compressed).unwrap_or_default()
    }

    /// Writes the event, or completes the row that has its id already.
    pub(super) fn insert(&self, connection: &Connection) -> rusqlite::Result<InsertOutcome> {
        let mut insert = connection.prepare_cached(
            "INSERT OR IGNORE INTO events (seq, id, at, session_id, agent_id, event, tool, tool_use_id, prompt_id, cwd,
             project_dir, pane, pid, pid_start, pid_is_claude, attended, entrypoint, origin, source, fault, masked,
             size, took_us, duplicate_of, detour) VALUES
             (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25)",
        )?;
        let from = &self.envelope;
        let new = insert.execute(params![
            self.seq,
            from.id.as_bytes(),
            from.at,
            self.session_id,
            self.agent_id,
            self.event,
            self.tool,
            self.tool_use_id,
            self.prompt_id,
            self.cwd,
            from.variable("CLAUDE_PROJECT_DIR"),
            from.variable("TMUX_PANE"),
            from.pid,
            from.pid_start.map(|start| start as i64),
            from.pid_is_claude,
            from.attended(),
            from.variable("CLAUDE_CODE_ENTRYPOINT"),
            from.from,
            self.source.as_str(),
            self.fault,
            self.masked,
            self.size,
            self.took_us,
            self.duplicate_of,
            self.detour,
        ])? > 0;
        let written = if new {
            connection
                .prepare_cached("INSERT INTO payloads (seq, encoding, body) VALUES (?1, ?2, ?3)")?
                .execute(params![self.seq, self.compressed, self.body])?;
            self.insert_decision(connection, self.seq)?;
            InsertOutcome::New
        } else {
            self.complete_stored(connection)?
        };
        hook_runs::insert(connection, &self.runs)?;
        Ok(written)
    }

    /// Completes the row of an event that is stored already. Either its hooks have ended since, or standalone
    /// answered it because the daemon was too late, crashed, or its answer never arrived. Claude Code got the answer
    /// of standalone, so that replaces the daemon's. [`EventRecord::completes`] is the same rule.
    fn complete_stored(&self, connection: &Connection) -> rusqlite::Result<InsertOutcome> {
        let seq: Option<i64> = connection
            .prepare_cached(
                "UPDATE events SET took_us = ?2, source = ?3, detour = ?4 WHERE id = ?1 AND ?2 IS NOT NULL
                 AND (took_us IS NULL OR (source = 'daemon' AND ?3 = 'alone')) RETURNING seq",
            )?
            .query_map(
                params![
                    self.id().as_bytes(),
                    self.took_us,
                    self.source.as_str(),
                    self.detour
                ],
                |row| row.get(0),
            )?
            .next()
            .transpose()?;
        let Some(seq) = seq else {
            return Ok(InsertOutcome::Known);
        };
        connection
            .prepare_cached("DELETE FROM decisions WHERE seq = ?1")?
            .execute([seq])?;
        self.insert_decision(connection, seq)?;
        Ok(InsertOutcome::Completed(seq))
    }

    fn insert_decision(&self, connection: &Connection, seq: i64) -> rusqlite::Result<()> {
        let Some(decision) = &self.decision else {
            return Ok(());
        };
        connection
            .prepare_cached(
                "INSERT OR IGNORE INTO decisions (seq, answer, by, reason, exit, stdout, stderr, effort)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            )?
            .execute(params![
                seq,
                decision.answer.as_str(),
                decision.by.as_ref().map(Actor::to_string),
                decision.reason,
                decision.exit,
                decision.stdout.as_bytes(),
                decision.stderr.as_bytes(),
                decision.effort,
            ])
            .map(drop)
    }

    /// Returns true if the answer of this record replaces the one that `took_us` and `source` are of.
    fn completes(&self, took_us: Option<i64>, source: Source) -> bool {
        let replaces = source == Source::Daemon && self.source == Source::Alone;
        self.took_us.is_some() && (took_us.is_none() || replaces)
    }

    /// Completes a row of the log, as the database will when this record is taken in.
    pub fn complete_row(&self, row: &mut EventRow) {
        if row.id == self.id() && self.completes(row.took_us, row.source) {
            (row.took_us, row.source) = (self.took_us, self.source);
            row.decision = self.decision.as_ref().map(Decision::to_row);
        }
    }

    /// Merges a later record of the same event into this one, as the database does.
    pub(super) fn merge(&mut self, later: Self) {
        self.hooks_pending &= !later.was_never_answered();
        if later.completes(self.took_us, self.source) {
            self.detour = later.detour;
            (self.took_us, self.source) = (later.took_us, later.source);
            self.decision = later.decision;
            self.hooks_pending = false;
        }
        hook_runs::merge(&mut self.runs, later.runs);
    }

    /// Returns true if the event will never get an answer because its hooks were ended first. A record that has only
    /// runs is of background hooks.
    pub(super) fn was_never_answered(&self) -> bool {
        let is_background = self.source != Source::Daemon && self.detour.is_none();
        let mut runs = self.runs.iter();
        !is_background
            && self.took_us.is_none()
            && runs.any(|run| run.was_cut_off() || run.was_cancelled())
    }

    /// Returns the event as a row of the log.
    pub fn to_row(&self) -> EventRow {
        EventRow {
            seq: self.seq,
            id: self.id(),
            at: self.envelope.at,
            session_id: self.session_id.clone(),
            agent_id: self.agent_id.clone(),
            event: self.event.clone(),
            tool: self.tool.clone(),
            decision: self.decision.as_ref().map(Decision::to_row),
            took_us: self.took_us,
            source: self.source,
            masked: self.masked,
            fault: self.fault.clone(),
            duplicate_of: self.duplicate_of,
            payload: Some(self.payload()),
        }
    }
}

fn text(field: &Option<Cow<'_, str>>) -> Option<String> {
    field.as_deref().map(str::to_owned)
}

/// Compresses a long payload. Returns true with it if it is compressed.
fn pack(payload: &[u8]) -> (Vec<u8>, bool) {
    if payload.len() > COMPRESS_OVER
        && let Ok(packed) = zstd::bulk::compress(payload, LEVEL)
        && packed.len() < payload.len()
    {
        return (packed, true);
    }
    (payload.to_vec(), false)
}

/// Decompresses a stored payload.
pub(super) fn unpack(body: &[u8], compressed: bool) -> std::io::Result<Vec<u8>> {
    if compressed {
        zstd::stream::decode_all(body)
    } else {
        Ok(body.to_vec())
    }
}

/// The stored answer to an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    pub answer: AnswerWord,
    pub by: Option<Actor>,
    pub reason: Option<String>,
    pub exit: u8,
    pub stdout: String,
    pub stderr: String,
    /// The message of the session's effort, as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
}

impl Decision {
    /// Makes the decision of an answer. Returns none for an answer without content.
    pub fn new(row: Option<DecisionRow>, output: &Output) -> Option<Self> {
        let row = row?;
        Some(Self {
            answer: row.answer,
            by: row.by,
            reason: row.reason,
            exit: output.exit,
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            effort: row.effort.map(|message| message.to_string()),
        })
    }

    /// Returns true if this answer keeps an agent working that wanted to stop. `"continue": false` ends the turn even
    /// with a block.
    pub(super) fn blocks_stop(&self) -> bool {
        let output: Value = serde_json::from_str(&self.stdout).unwrap_or_default();
        self.answer == AnswerWord::Block && output["continue"] != Value::Bool(false)
    }

    pub(super) fn to_row(&self) -> DecisionRow {
        DecisionRow {
            answer: self.answer.clone(),
            by: self.by.clone(),
            reason: self.reason.clone(),
            effort: self
                .effort
                .as_deref()
                .and_then(|said| serde_json::from_str(said).ok()),
        }
    }

    /// Parses the message of the session's effort.
    pub(crate) fn effort_said(&self) -> Option<EffortSaid> {
        serde_json::from_str(self.effort.as_deref()?).ok()
    }

    /// Masks secrets: the texts may come from programs of the user.
    pub fn masked(self, masker: &Masker) -> Self {
        Self {
            reason: self.reason.map(|reason| masker.text(&reason)),
            stdout: masker.text(&self.stdout),
            stderr: masker.text(&self.stderr),
            effort: self.effort.map(|effort| masker.text(&effort)),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Home, decision, envelope, id, record, record_of, rows};
    use super::*;

    #[test]
    fn long_payloads_are_compressed_and_come_back_whole() {
        let home = Home::new();
        let connection = home.open();
        let short = format!(r#"{{"a":"{}"}}"#, "x".repeat(100));
        let long = format!(r#"{{"a":"{}"}}"#, "x".repeat(300_000));
        for (number, payload) in [(1, &short), (2, &long)] {
            let record = record_of(i64::from(number), envelope(number), payload.as_bytes());
            assert_eq!(record.payload(), payload.as_bytes());
            assert_eq!(record.compressed, number == 2);
            assert_eq!(record.insert(&connection).unwrap(), InsertOutcome::New);
        }
        let rows = rows(&connection);
        assert_eq!(rows[0].payload.as_deref(), Some(short.as_bytes()));
        assert_eq!(rows[1].payload.as_deref(), Some(long.as_bytes()));
        let stored: i64 = connection
            .query_row(
                "SELECT length(body) FROM payloads WHERE seq = 2",
                [],
                |row| row.get(0),
            )
            .unwrap();
        assert!(stored < 1_000, "{stored}");
    }

    #[test]
    fn a_row_reads_as_it_was_written() {
        let home = Home::new();
        let connection = home.open();
        let mut record = record(1, 1);
        record.took_us = Some(30);
        record.decision = Some(decision("deny"));
        record.duplicate_of = Some(17);
        assert_eq!(record.insert(&connection).unwrap(), InsertOutcome::New);
        assert_eq!(rows(&connection), [record.to_row()]);
    }

    #[test]
    fn an_id_is_written_once() {
        let home = Home::new();
        let connection = home.open();
        assert_eq!(
            record(1, 1).insert(&connection).unwrap(),
            InsertOutcome::New
        );
        assert_eq!(
            record(2, 1).insert(&connection).unwrap(),
            InsertOutcome::Known
        );
        let rows = rows(&connection);
        assert_eq!(rows.len(), 1);
        assert_eq!((rows[0].seq, rows[0].id), (1, id(1)));
    }

    #[test]
    fn the_answer_of_standalone_replaces_the_daemons() {
        for daemon_took in [None, Some(30)] {
            let home = Home::new();
            let connection = home.open();
            let mut daemon = record(1, 1);
            daemon.took_us = daemon_took;
            daemon.decision = daemon_took.map(|_| decision("ask"));
            daemon.insert(&connection).unwrap();
            let mut alone = record(2, 1);
            alone.source = Source::Alone;
            alone.took_us = Some(900);
            alone.decision = Some(decision("deny"));
            assert_eq!(
                alone.insert(&connection).unwrap(),
                InsertOutcome::Completed(1)
            );
            let expected = EventRow {
                seq: 1,
                ..alone.to_row()
            };
            assert_eq!(rows(&connection), std::slice::from_ref(&expected));
            // The other order, and a late delivery of the daemon's on top.
            daemon.seq = 3;
            assert_eq!(daemon.insert(&connection).unwrap(), InsertOutcome::Known);
            assert_eq!(rows(&connection), [expected]);
        }
    }

    #[test]
    fn an_empty_answer_removes_an_older_decision() {
        let home = Home::new();
        let connection = home.open();
        let mut daemon = record(1, 1);
        daemon.took_us = Some(30);
        daemon.decision = Some(decision("deny"));
        daemon.insert(&connection).unwrap();
        let mut alone = record(2, 1);
        alone.source = Source::Alone;
        alone.took_us = Some(900);
        alone.insert(&connection).unwrap();
        assert_eq!(rows(&connection)[0].decision, None);
    }

    #[test]
    fn a_record_knows_the_state_of_its_decision() {
        let outcome = |event: &str, decision: Option<Decision>, held: bool| {
            let payload = format!(r#"{{"hook_event_name":"{event}","session_id":"s"}}"#);
            let mut record = record_of(1, envelope(1), payload.as_bytes());
            (record.decision, record.hooks_pending) = (decision, held);
            record.outcome()
        };
        let block = || Some(decision("block"));
        let ends = Decision {
            stdout: r#"{"continue":false,"decision":"block"}"#.to_owned(),
            ..decision("block")
        };
        for event in ["Stop", "SubagentStop", "UserPromptSubmit"] {
            assert_eq!(outcome(event, block(), false), EventOutcome::Blocked);
            assert_eq!(outcome(event, None, true), EventOutcome::Pending);
            assert_eq!(outcome(event, None, false), EventOutcome::Passed);
            let context = Some(decision("context"));
            assert_eq!(outcome(event, context, false), EventOutcome::Passed);
        }
        let stop = Some(decision("stop"));
        assert_eq!(
            outcome("UserPromptSubmit", stop, false),
            EventOutcome::Blocked
        );
        assert_eq!(outcome("Stop", Some(ends), false), EventOutcome::Passed);
    }
}
