//! The live sessions, owned by the core thread. Applies events to them, and keeps lists of the sessions to write
//! with the next commit and of those to send to views after it.

mod chain;
mod requests;
mod work;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use becket_engine::coverage::Coverage;
use becket_engine::effort::EffortContext;
use becket_engine::notice::DisplayChange;
use becket_engine::session::{
    EventOutcome, EventTime, Inference, JudgedEvent, Session, SessionEvent,
};
use becket_engine::status::Question;
use becket_engine::transcript::TurnTokens;
use becket_wire::Head;
use becket_wire::bounds::FIRST_RESPONSE;
use becket_wire::event::EventName;
use becket_wire::rpc::{Envelope, Source};
use becket_wire::session::{Figures, SessionRow};
use rusqlite::Connection;
use tokio::sync::broadcast;
use tracing::warn;

pub(crate) use requests::RegistryRequest;
pub(crate) use work::Prepared;

use crate::efforts::Efforts;
use crate::lifecycle::now_ms;
use crate::store::{self, EventRecord, SessionFilter, StoredSession, TurnFigures};
use crate::transcript_calls::EndedSession;

/// The number of sessions in memory. Above it, the session that was quiet longest is dropped. The database has
/// them all, and the next event brings a session back.
const MAX_SESSIONS: usize = 10_000;
/// The longest id of a session. An id is a UUID; a far longer one would be written with every event.
const MAX_ID: usize = 256;
/// The time for which an ended session stays in memory, in milliseconds: `/clear` continues one that has ended,
/// and the last async events come late.
const KEPT_AFTER_END: i64 = 60_000;
/// The number of ended sessions among which the start looks for those within `KEPT_AFTER_END`.
const ENDED: u32 = 64;

/// The time without an event after which a session without a known process ends, in milliseconds. The demo and
/// experiments make such sessions.
const QUIET: i64 = 60 * 60 * 1000;

/// The number of changes that a slow view may be behind before it gets all sessions again.
const MAX_BEHIND: usize = 1024;

#[derive(Debug)]
pub(crate) struct Registry {
    sessions: HashMap<String, LiveSession>,
    /// Sends changed sessions to views.
    changes: broadcast::Sender<Arc<SessionRow>>,
    /// The sessions to write with the next commit.
    unwritten: HashSet<String>,
    /// The sessions whose figures changed, to write with the next tick.
    changed_figures: HashSet<String>,
    /// The sessions to send to views after the next commit.
    changed: HashSet<String>,
    room: usize,
    /// The figures of turns that are not written yet.
    ended_turns: Vec<TurnFigures>,
    efforts: Efforts,
}

#[derive(Debug, Default)]
struct LiveSession {
    session: Session,
    /// The generation of the config that this session's user was told of.
    config_told: Option<u64>,
    /// The reasons why something about it is not known.
    troubles: Vec<String>,
    turn: TurnUsage,
    /// The end of the session at which its calls were last compared with the log.
    compared_at: Option<i64>,
    /// The time when its last event arrived by the socket, which may be later than the event.
    arrived_at: i64,
    own_line: Option<OwnLine>,
    /// The number of its oldest question that waits for an answer through becket.
    question: Option<i64>,
}

/// The last output of the program of a user's own status line.
#[derive(Debug)]
pub(crate) struct OwnLine {
    /// The fingerprint of its input.
    pub(crate) given: u64,
    pub(crate) shown: String,
    pub(crate) wrong: Option<String>,
}

/// The figures of a session's turn.
#[derive(Debug, Default)]
struct TurnUsage {
    tokens: TurnTokens,
    written: Option<TurnFigures>,
}

/// The result of applying an event to its session.
#[derive(Debug, Clone)]
pub(crate) struct Applied {
    pub(crate) session: String,
    /// The time of the event for the session.
    at: i64,
    /// The ids of a session and of the one that continues it since this event.
    pub(crate) chained: Option<(String, String)>,
    /// The change of the session's display, if any.
    pub(crate) display: Option<DisplayChange>,
    /// The context of the session's effort, if it has one.
    pub(crate) effort: Option<Box<EffortContext>>,
}

/// A session's process: its pid and start time.
pub(crate) type Process = (u32, Option<u64>);

impl Registry {
    /// Loads the live sessions, and those that ended within `KEPT_AFTER_END`.
    pub(crate) fn open(database: &Connection) -> Self {
        let since = now_ms() - KEPT_AFTER_END;
        let mut ended = load_sessions(database, SessionFilter::Ended(ENDED));
        ended.retain(|session| session.ended_at.is_some_and(|end| end > since));
        let live = load_sessions(database, SessionFilter::Live)
            .into_iter()
            .take(MAX_SESSIONS);
        let sessions = live
            .chain(ended)
            .map(|session| (session.session_id.clone(), LiveSession::new(session)))
            .collect();
        Self {
            sessions,
            changes: broadcast::channel(MAX_BEHIND).0,
            unwritten: HashSet::new(),
            changed_figures: HashSet::new(),
            changed: HashSet::new(),
            room: MAX_SESSIONS,
            ended_turns: Vec::new(),
            efforts: Efforts::open(database),
        }
    }

    /// Applies one event to its session. `head` is of the masked payload. An event that Claude Code waits for has the
    /// time of its `arrival`, so these are in order of arrival. Other events, and those from the spool, have the time
    /// when they happened. Returns none if the event concerns no session.
    pub(crate) fn apply(
        &mut self,
        database: &Connection,
        head: &Head<'_>,
        envelope: &Envelope,
        project: Option<&str>,
        arrival: Option<EventTime>,
    ) -> Option<Applied> {
        let (Some(id), Some(name)) = (head.session_id.as_deref(), head.event.as_deref()) else {
            return None;
        };
        if id.len() > MAX_ID {
            return None;
        }
        let name = EventName::from(name);
        let happened = EventTime {
            at: envelope.at,
            id: envelope.id,
        };
        let arrival = arrival.filter(|_| !name.comes_late());
        let EventTime { at, id: time_id } = arrival.unwrap_or(happened);
        let event = SessionEvent {
            head,
            name,
            at,
            id: time_id,
            envelope,
            project,
        };
        if !self.sessions.contains_key(id) {
            self.add_session(database, id, &event)?;
        }
        let mut chained = self.chain(database, id, &event);
        if event.name == EventName::UserPromptSubmit {
            self.end_turn(id);
        }
        let from_last_window = self.bind(database, id, &event);
        let live = self.sessions.get_mut(id)?;
        if let Some(now) = arrival {
            live.session.clamp_times(now);
        }
        let before = live.session.shown();
        let has_changed = live.session.apply(&event) | chained.is_some();
        let display = DisplayChange::of(before, &live.session, event.at);
        if has_changed && event.name == EventName::SessionEnd {
            chained = self.chain_next(id);
        }
        let effort = self.worked(id, &event, from_last_window);
        self.unwritten.insert(id.to_owned());
        if has_changed || effort.is_some() {
            self.changed.insert(id.to_owned());
        }
        Some(Applied {
            session: id.to_owned(),
            at,
            chained,
            display,
            effort,
        })
    }

    /// Records the decision about an event that was applied.
    pub(crate) fn record_outcome(
        &mut self,
        applied: &Applied,
        record: &EventRecord,
        outcome: EventOutcome,
    ) {
        let (name, agent) = (record.event_name(), record.agent_id());
        let event = JudgedEvent {
            id: record.id(),
            name: &name,
            agent,
            at: applied.at,
        };
        self.update_session(&applied.session, |session| {
            session.apply_outcome(&event, outcome)
        });
    }

    /// Records the decision about an event that was applied before and that the spool has completed. Returns the
    /// change of display if the user may want a notice of it.
    pub(crate) fn record_late_outcome(&mut self, record: &EventRecord) -> Option<DisplayChange> {
        let id = record.session_id()?.to_owned();
        let before = self.sessions.get(&id)?.session.shown();
        let (name, sent) = (record.event_name(), record.envelope().at);
        // A prompt counts from its arrival, a little later than it was sent.
        let at = match name {
            EventName::Stop | EventName::SubagentStop => sent,
            _ => now_ms().min(sent + FIRST_RESPONSE.as_millis() as i64),
        };
        let event = JudgedEvent {
            id: record.id(),
            name: &name,
            agent: record.agent_id(),
            at,
        };
        let decided = record.outcome();
        self.update_session(&id, |session| session.apply_outcome(&event, decided));
        // A daemon has sent the notice of an event that it answered. And after a subagent the main agent goes on.
        if record.source != Source::Alone || record.agent_id().is_some() {
            return None;
        }
        let ended = sent.saturating_add(record.took_us.unwrap_or(0) / 1000);
        DisplayChange::of(before, &self.sessions.get(&id)?.session, ended)
    }

    /// Takes the sessions to write. If that fails, `return_unwritten` takes them back.
    pub(crate) fn take_unwritten(&mut self) -> Vec<StoredSession> {
        let mut stored = Vec::new();
        for id in std::mem::take(&mut self.unwritten) {
            if let Some(live) = self.sessions.get(&id) {
                stored.extend(StoredSession::new(&live.session));
            }
        }
        stored
    }

    /// Takes back sessions and figures that could not be written, for the next commit.
    pub(crate) fn return_unwritten(
        &mut self,
        sessions: &[StoredSession],
        figures: Vec<TurnFigures>,
    ) {
        let ids = sessions.iter().map(|kept| kept.session_id().to_owned());
        self.unwritten.extend(ids);
        self.ended_turns.extend(figures);
    }

    /// Marks all sessions as unwritten, because the database was replaced.
    pub(crate) fn mark_all_unwritten(&mut self) {
        self.unwritten.extend(self.sessions.keys().cloned());
        self.efforts.write_all();
    }

    /// Queues the figures from status lines and transcripts for the next commit.
    pub(crate) fn queue_figures(&mut self) {
        self.unwritten.extend(self.changed_figures.drain());
        let live = self.sessions.values_mut();
        self.ended_turns
            .extend(live.filter_map(LiveSession::unwritten_figures));
    }

    /// Takes the figures of turns to write.
    pub(crate) fn take_figures(&mut self) -> Vec<TurnFigures> {
        std::mem::take(&mut self.ended_turns)
    }

    /// Sends views the sessions that changed since the last time.
    pub(crate) fn publish_changes(&mut self, now: i64) {
        let changed = std::mem::take(&mut self.changed);
        if self.changes.receiver_count() == 0 {
            return;
        }
        for id in changed {
            if let Some(live) = self.sessions.get(&id) {
                drop(self.changes.send(Arc::new(self.session_row(live, now))));
            }
        }
    }

    /// Applies an inference. Returns the change of display, if any.
    pub(crate) fn infer(
        &mut self,
        id: &str,
        inference: &Inference,
        at: i64,
    ) -> Option<DisplayChange> {
        let before = self.sessions.get(id)?.session.shown();
        self.update_session(id, |session| session.infer(inference, at));
        self.inferred(id, at);
        DisplayChange::of(before, &self.sessions.get(id)?.session, at)
    }

    /// Returns the row of a session for views.
    pub(crate) fn row(&self, id: &str, now: i64) -> Option<SessionRow> {
        Some(self.session_row(self.sessions.get(id)?, now))
    }

    fn session_row(&self, live: &LiveSession, now: i64) -> SessionRow {
        SessionRow {
            effort: self.brief(&live.session),
            ..live.row(now)
        }
    }

    /// Returns the time when a session began.
    pub(crate) fn started_at(&self, id: &str) -> Option<i64> {
        Some(self.sessions.get(id)?.session.started_at)
    }

    /// Ends the sessions whose processes are gone, unless they have another process by now.
    pub(crate) fn end_gone_processes(&mut self, gone: &[(String, Process)], now: i64) {
        for (id, (pid, start)) in gone {
            self.update_session(id, |session| {
                (session.pid, session.pid_start) == (Some(*pid), *start)
                    && session.infer(&Inference::ProcessGone, now.max(session.last_activity))
            });
            self.inferred(id, now);
        }
    }

    /// Notes that an event arrived now. Its own time may be long past: the demo plays events of hours ago.
    pub(crate) fn mark_arrival(&mut self, id: &str, now: i64) {
        if let Some(live) = self.sessions.get_mut(id) {
            live.arrived_at = now;
        }
    }

    /// Ends the sessions that have no process and were quiet for an hour. The next event revives a session.
    pub(crate) fn end_quiet(&mut self, now: i64) {
        let live = self.live().filter(|(_, live)| live.is_quiet(now));
        let quiet: Vec<String> = live.map(|(id, _)| id.clone()).collect();
        for id in quiet {
            self.update_session(&id, |session| session.infer(&Inference::ProcessGone, now));
        }
    }

    /// Sets the figures of a session, from a status line (with its process, if that is known) or from a transcript.
    /// They are written with the next tick. Returns all figures of the session.
    pub(crate) fn set_figures(
        &mut self,
        id: &str,
        figures: &Figures,
        process: Option<Process>,
    ) -> Option<&Figures> {
        let session = &mut self.sessions.get_mut(id)?.session;
        let process = match process {
            Some((pid, start)) => (Some(pid), start),
            None => (session.pid, session.pid_start),
        };
        if session.figure(figures, process) {
            self.changed_figures.insert(id.to_owned());
            self.changed.insert(id.to_owned());
        }
        Some(&session.figures)
    }

    /// Keeps the output of the program of a session's own status line. It is never written to the database.
    pub(crate) fn keep_own_line(&mut self, id: &str, line: OwnLine) {
        if let Some(live) = self.sessions.get_mut(id) {
            live.own_line = Some(line);
        }
    }

    /// Returns the kept output if the program had the same input.
    pub(crate) fn own_line(&self, id: &str, given: u64) -> Option<&OwnLine> {
        let line = self.sessions.get(id)?.own_line.as_ref();
        line.filter(|line| line.given == given)
    }

    /// Returns true if this question of an agent waits for the user.
    pub(crate) fn asks(&self, id: &str, agent: Option<&str>, question: &Question) -> bool {
        let live = self.sessions.get(id);
        live.is_some_and(|live| live.session.asks(agent, question))
    }

    /// Removes a question of an agent, which a person has answered.
    pub(crate) fn end_question(&mut self, id: &str, agent: Option<&str>, question: &Question) {
        let now = now_ms();
        self.update_session(id, |session| session.end_question(agent, question, now));
    }

    /// Sets the number of the session's oldest question that can be answered through becket.
    pub(crate) fn set_question(&mut self, id: &str, question: Option<i64>) {
        if let Some(live) = self.sessions.get_mut(id)
            && live.question != question
        {
            live.question = question;
            self.changed.insert(id.to_owned());
        }
    }

    /// Sets the reason why something about a session is not known, or clears it.
    pub(crate) fn set_trouble(&mut self, id: &str, trouble: Option<String>) {
        let troubles: Vec<String> = trouble.into_iter().collect();
        if let Some(live) = self.sessions.get_mut(id)
            && live.troubles != troubles
        {
            live.troubles = troubles;
            self.changed.insert(id.to_owned());
        }
    }

    fn update_session(&mut self, id: &str, change: impl FnOnce(&mut Session) -> bool) {
        let live = self.sessions.get_mut(id);
        if live.is_some_and(|live| change(&mut live.session)) {
            self.unwritten.insert(id.to_owned());
            self.changed.insert(id.to_owned());
        }
    }

    /// Returns the processes of the live sessions.
    pub(crate) fn processes(&self) -> Vec<(String, Process)> {
        let mut processes = Vec::new();
        for (id, LiveSession { session, .. }) in self.live() {
            if let Some(pid) = session.pid {
                processes.push((id.clone(), (pid, session.pid_start)));
            }
        }
        processes
    }

    fn live(&self) -> impl Iterator<Item = (&String, &LiveSession)> {
        (self.sessions.iter()).filter(|(_, live)| live.session.ended_at.is_none())
    }

    /// Returns true if this session's user was told of this generation of the config.
    pub(crate) fn knows_config(&self, id: &str, generation: u64) -> bool {
        let live = self.sessions.get(id);
        live.is_some_and(|live| live.config_told == Some(generation))
    }

    pub(crate) fn mark_config_told(&mut self, id: &str, generation: u64) {
        if let Some(live) = self.sessions.get_mut(id) {
            live.config_told = Some(generation);
        }
    }

    /// Loads a session from the database, or makes a new one if the event may make one.
    fn add_session(
        &mut self,
        database: &Connection,
        id: &str,
        event: &SessionEvent<'_>,
    ) -> Option<()> {
        let session = match (load_session(database, id), &event.name) {
            (Some(session), _) => session,
            // An event of unknown name makes no session.
            (None, EventName::Other(_) | EventName::SessionEnd) => return None,
            (None, _) => Session::new(id, event.at),
        };
        if self.sessions.len() >= self.room {
            self.make_room()?;
        }
        self.sessions
            .insert(id.to_owned(), LiveSession::new(session));
        Some(())
    }

    /// Drops the session that was quiet longest. Ended sessions go first.
    fn make_room(&mut self) -> Option<()> {
        let written = self.sessions.iter();
        let written = written.filter(|(id, _)| !self.unwritten.contains(*id));
        let quiet = written.min_by_key(|(id, LiveSession { session, .. })| {
            (session.ended_at.is_none(), session.last_activity, *id)
        });
        let id = quiet?.0.clone();
        self.sessions.remove(&id).map(drop)
    }

    /// Shows sessions as waiting again that the user saw a while ago and did not answer.
    pub(crate) fn forget_looks(&mut self, now: i64) {
        for (id, live) in &mut self.sessions {
            if live.session.expire_seen(now) {
                self.unwritten.insert(id.clone());
                self.changed.insert(id.clone());
            }
        }
    }

    /// Takes the sessions that have ended since the last call, to compare their calls.
    pub(crate) fn take_newly_ended(&mut self) -> Vec<EndedSession> {
        let ended = self.sessions.iter_mut().filter_map(|(id, live)| {
            let ended_at = live.session.ended_at?;
            let counted = live.session.coverage.as_ref();
            let counted = counted.map(|counted| counted.ended_at);
            if [counted, live.compared_at].contains(&Some(ended_at)) {
                return None;
            }
            live.compared_at = Some(ended_at);
            Some(EndedSession {
                session: id.clone(),
                transcript: live.session.transcript_path.as_ref()?.into(),
                ended_at,
            })
        });
        ended.collect()
    }

    /// Sets the number of a session's calls that guards saw.
    pub(crate) fn set_coverage(&mut self, id: &str, coverage: Coverage) {
        self.update_session(id, |session| {
            session.coverage = Some(coverage);
            true
        });
    }

    /// Drops sessions that ended a while ago. The database has them.
    pub(crate) fn drop_ended(&mut self, now: i64) {
        let Self {
            sessions,
            unwritten,
            ..
        } = self;
        sessions.retain(|id, live| {
            let ended = live.session.ended_at;
            unwritten.contains(id) || ended.is_none_or(|end| now - end < KEPT_AFTER_END)
        });
    }

    /// Sets the tokens of a session's turn, from its transcript.
    pub(crate) fn set_turn_tokens(&mut self, id: &str, tokens: TurnTokens) {
        if let Some(live) = self.sessions.get_mut(id) {
            live.turn.tokens = tokens;
        }
    }

    /// Queues the figures of the turn that ends because a prompt arrived.
    fn end_turn(&mut self, id: &str) {
        let live = self.sessions.get_mut(id);
        let figures = live.and_then(LiveSession::unwritten_figures);
        self.ended_turns.extend(figures);
    }
}

impl LiveSession {
    fn new(session: Session) -> Self {
        Self {
            session,
            ..Self::default()
        }
    }

    /// Returns true if no process is known and no event has arrived for an hour.
    fn is_quiet(&self, now: i64) -> bool {
        let last = self.session.last_activity.max(self.arrived_at);
        self.session.pid.is_none() && now - last >= QUIET
    }

    fn row(&self, now: i64) -> SessionRow {
        let mut row = self.session.row(now);
        row.troubles.extend(self.troubles.iter().cloned());
        row.question = self.question;
        row
    }

    /// Returns the figures of the current or last turn. Returns none if there are none.
    fn turn_figures(&self) -> Option<TurnFigures> {
        let session = &self.session;
        let began = session.prompted_at?;
        let tokens = Some(self.turn.tokens).filter(|tokens| tokens.since == began);
        let tokens = tokens.unwrap_or_default();
        let cost_usd = session.figures.cost_usd;
        (cost_usd.is_some() || tokens != TurnTokens::default()).then(|| TurnFigures {
            session_id: session.session_id.clone(),
            began,
            at: session.last_activity,
            model: session.model.clone(),
            cost_usd,
            input_tokens: tokens.input,
            output_tokens: tokens.output,
        })
    }

    /// Takes the figures of the turn if they changed since they were last taken.
    fn unwritten_figures(&mut self) -> Option<TurnFigures> {
        let figures = self.turn_figures()?;
        let written = self.turn.written.as_ref();
        if written.is_some_and(|written| written.says_the_same(&figures)) {
            return None;
        }
        self.turn.written = Some(figures.clone());
        Some(figures)
    }
}

fn load_sessions(database: &Connection, which: SessionFilter<'_>) -> Vec<Session> {
    store::sessions(database, which).unwrap_or_else(|why| {
        warn!(%why, "could not read sessions");
        Vec::new()
    })
}

fn load_session(database: &Connection, id: &str) -> Option<Session> {
    let found = load_sessions(database, SessionFilter::Like(id));
    found.into_iter().find(|session| session.session_id == id)
}

#[cfg(test)]
mod tests;
