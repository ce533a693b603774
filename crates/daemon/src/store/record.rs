//! One event on its way into the database.

mod decision;

use std::borrow::Cow;

use becket_wire::head::HeadError;
use becket_wire::rpc::{Cut, Envelope, EventRow, Source};
use becket_wire::run::RunRow;
use becket_wire::{EventId, Head};
use rusqlite::{Connection, params};

use super::run;
use super::session::Kept;
use super::spool::Left;
pub use decision::Decision;

/// Payloads longer than this are compressed: a Write of 300 KB arrives three times.
const COMPRESS_OVER: usize = 4 << 10;
/// Cheap enough for the way of one event; three is a third smaller and twice as slow.
const LEVEL: i32 = 1;
/// Roughly what a run of a hook takes.
const RUN_WEIGHT: usize = 256;

/// An event, masked and packed, ready to be written.
#[derive(Debug, Clone)]
pub struct Record {
    pub seq: i64,
    envelope: Envelope,
    session_id: Option<String>,
    agent_id: Option<String>,
    event: Option<String>,
    tool: Option<String>,
    tool_use_id: Option<String>,
    prompt_id: Option<String>,
    cwd: Option<String>,
    fault: Option<String>,
    pub source: Source,
    masked: i64,
    size: i64,
    body: Vec<u8>,
    compressed: bool,
    pub took_us: Option<i64>,
    pub decision: Option<Decision>,
    pub duplicate_of: Option<i64>,
    /// The same, as whoever left it in the spool knows it.
    pub(super) double_of: Option<EventId>,
    /// What the named hooks did.
    pub runs: Vec<RunRow>,
    /// Named hooks run now: it will be decided. Onlookers see it then, and once.
    pub held: bool,
    /// They have run: this completes what was kept before.
    pub(super) decided: bool,
    /// Why it did not come by the daemon.
    pub(super) detour: Option<String>,
    /// Its session as it is after this event.
    pub(crate) session: Option<Kept>,
}

/// What is wrong with an event, in words: it is no whole event, or lacks fields that every event of
/// its name has. The latter changes nothing in how it is judged.
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

/// Why a payload is not a whole event, in words.
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

impl Record {
    /// Packs an event. `payload` is masked already; `head` may come from the original.
    pub fn new(
        seq: i64,
        envelope: Envelope,
        head: &Result<Head<'_>, HeadError>,
        payload: Cow<'_, [u8]>,
        masked: u32,
        source: Source,
    ) -> Self {
        let text = |field: &Option<Cow<'_, str>>| field.as_deref().map(str::to_owned);
        let fault = fault(head, envelope.cut);
        let nothing = Head::default();
        let head = head.as_ref().unwrap_or(&nothing);
        let size = payload.len() as i64;
        let (body, compressed) = pack(payload);
        Self {
            seq,
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
            double_of: None,
            runs: Vec::new(),
            held: false,
            decided: false,
            detour: None,
            session: None,
        }
    }

    pub fn id(&self) -> EventId {
        self.envelope.id
    }

    pub fn envelope(&self) -> &Envelope {
        &self.envelope
    }

    /// The subagent whose event it is.
    pub(crate) fn agent_id(&self) -> Option<&str> {
        self.agent_id.as_deref()
    }

    /// Whether an agent wants to stop, be it the main one or a subagent.
    pub(crate) fn is_stop(&self) -> bool {
        matches!(
            (self.event.as_deref(), self.agent_id()),
            (Some("Stop"), None) | (Some("SubagentStop"), Some(_))
        )
    }

    /// Whether it has to go on, as far as is known: nobody has decided yet, or it was not let.
    pub(crate) fn is_kept_from_stopping(&self) -> bool {
        let blocked = self.decision.as_ref().is_some_and(Decision::blocks_stop);
        self.is_stop() && (self.held || blocked)
    }

    /// Whether what was answered kept a prompt from being sent.
    pub(crate) fn blocks_prompt(&self) -> bool {
        let event = self.event.as_deref();
        matches!(event, Some("UserPromptSubmit" | "UserPromptExpansion"))
            && self.decision.as_ref().is_some_and(Decision::blocks)
    }

    /// Roughly what the event takes in the log of the database.
    pub(super) fn weight(&self) -> usize {
        let session = self.session.as_ref().map_or(0, Kept::weight);
        let said = |decision: &Decision| decision.stdout.len() + decision.stderr.len();
        // The reason stands in the output once more.
        let decision = self.decision.as_ref().map_or(0, said) * 2;
        self.body.len() + session + decision + self.runs.len() * RUN_WEIGHT + 1024
    }

    /// Whether it may wait in the inbox: what is compressed has its own price already.
    pub(super) fn is_small(&self) -> bool {
        !self.compressed && self.body.len() <= COMPRESS_OVER
    }

    /// Why it did not come by the daemon, in the words of whoever answered it.
    pub fn detour(&self) -> Option<&str> {
        self.detour.as_deref()
    }

    /// The event that this one repeats, where it came by the spool.
    pub fn double_of(&self) -> Option<EventId> {
        self.double_of
    }

    pub fn masked(&self) -> i64 {
        self.masked
    }

    /// The payload as it came, but for masked secrets.
    pub fn payload(&self) -> Vec<u8> {
        unpack(&self.body, self.compressed).unwrap_or_default()
    }

    /// Writes the event, unless its id is there already. True if it was new.
    pub(super) fn insert(&self, connection: &Connection) -> rusqlite::Result<bool> {
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
        if new {
            connection
                .prepare_cached("INSERT INTO payloads (seq, encoding, body) VALUES (?1, ?2, ?3)")?
                .execute(params![self.seq, self.compressed, self.body])?;
            if let Some(decision) = &self.decision {
                insert_decision(connection, self.seq, decision)?;
            }
        } else {
            let (detour, decision) = (self.detour(), self.decision.as_ref());
            complete(
                connection,
                self.id(),
                self.took_us,
                self.source,
                detour,
                decision,
            )?;
        }
        run::insert(connection, &self.runs)?;
        Ok(new)
    }

    /// Takes over what was said of it later, as the log does.
    pub(super) fn amend(&mut self, left: Left) {
        self.held &= !left.is_unheard();
        if left.completes(self.took_us, self.source) {
            self.detour = left.detour().map(str::to_owned);
            self.took_us = left.took_us;
            self.source = left.source;
            self.decision = left.decision;
            self.held = false;
        }
        run::amend(&mut self.runs, left.runs);
    }

    /// The event as the log tells it.
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

/// Whether the log has an event.
pub(super) fn is_known(connection: &Connection, id: EventId) -> rusqlite::Result<bool> {
    connection
        .prepare_cached("SELECT 1 FROM events WHERE id = ?1")?
        .exists([id.as_bytes()])
}

/// The event is there already. Its hooks have run, and it is decided; or it came by two roads: alone
/// answered it, because the daemon was too late, died over it, or its answer never arrived. What
/// alone said is what Claude Code heard, so the row says so. Without a time nobody was answered, and
/// nothing is new. Gives its number, if something is.
pub(super) fn complete(
    connection: &Connection,
    id: EventId,
    took_us: Option<i64>,
    source: Source,
    detour: Option<&str>,
    decision: Option<&Decision>,
) -> rusqlite::Result<Option<i64>> {
    let seq: Option<i64> = connection
        .prepare_cached(
            "UPDATE events SET took_us = ?2, source = ?3, detour = ?4 WHERE id = ?1 AND ?2 IS NOT NULL
             AND (took_us IS NULL OR (source = 'daemon' AND ?3 = 'alone')) RETURNING seq",
        )?
        .query_map(
            params![id.as_bytes(), took_us, source.as_str(), detour],
            |row| row.get(0),
        )?
        .next()
        .transpose()?;
    let Some(seq) = seq else {
        return Ok(None);
    };
    connection
        .prepare_cached("DELETE FROM decisions WHERE seq = ?1")?
        .execute([seq])?;
    if let Some(decision) = decision {
        insert_decision(connection, seq, decision)?;
    }
    Ok(Some(seq))
}

fn insert_decision(connection: &Connection, seq: i64, decision: &Decision) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT OR IGNORE INTO decisions (seq, answer, by, reason, exit, stdout, stderr)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?
        .execute(params![
            seq,
            decision.answer,
            decision.by,
            decision.reason,
            decision.exit,
            decision.stdout.as_bytes(),
            decision.stderr.as_bytes(),
        ])
        .map(drop)
}

fn pack(payload: Cow<'_, [u8]>) -> (Vec<u8>, bool) {
    if payload.len() > COMPRESS_OVER
        && let Ok(packed) = zstd::bulk::compress(&payload, LEVEL)
        && packed.len() < payload.len()
    {
        return (packed, true);
    }
    (payload.into_owned(), false)
}

/// Gives a stored payload back.
pub(super) fn unpack(body: &[u8], compressed: bool) -> std::io::Result<Vec<u8>> {
    if compressed {
        zstd::stream::decode_all(body)
    } else {
        Ok(body.to_vec())
    }
}

#[cfg(test)]
mod tests;
