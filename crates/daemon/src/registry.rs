//! The live sessions, owned by the core thread: which of them an event concerns, what is to be written
//! with the next commit, and what views are told after it.

mod ask;
mod chain;
mod work;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use becket_engine::coverage::Coverage;
use becket_engine::effort::EffortContext;
use becket_engine::notice::DisplayChange;
use becket_engine::session::{
    EventOutcome, EventTime, Inference, JudgedEvent, Session, SessionEvent,
};
use becket_engine::transcript::TurnTokens;
use becket_wire::Head;
use becket_wire::bounds::FIRST_RESPONSE;
use becket_wire::event::EventName;
use becket_wire::rpc::{Envelope, Source};
use becket_wire::session::{Figures, SessionRow};
use rusqlite::Connection;
use tokio::sync::broadcast;
use tracing::warn;

pub(crate) use ask::Asked;
pub(crate) use work::Prepared;

use crate::coverage::EndedSession;
use crate::efforts::Efforts;
use crate::life::now_ms;
use crate::store::{self, Record, StoredSession, TurnFigures, Which};

/// More sessions than this are not shown. The one that was quiet longest is dropped first, and comes back
/// with its next event: the database has them all.
const MAX_SESSIONS: usize = 10_000;
/// An id is a UUID. A far longer one makes no session: it would be written with every event.
const MAX_ID: usize = 256;
/// How long an ended session stays at hand: `/clear` goes on from one that has ended, and its last async
/// events come late.
const AT_HAND: i64 = 60_000;
/// Of so many that ended last, those within `AT_HAND` are loaded at the start.
const ENDED: u32 = 64;

/// A session without a known process, as of an experiment or the demo, ends after so long without an
/// event.
const QUIET: i64 = 60 * 60 * 1000;

/// How many changes of sessions a slow view may be behind before it gets them all anew.
const MAX_BEHIND: usize = 1024;

#[derive(Debug)]
pub(crate) struct Registry {
    sessions: HashMap<String, Live>,
    /// Changes of sessions, for views.
    changes: broadcast::Sender<Arc<SessionRow>>,
    /// Sessions to be written with the next commit.
    unwritten: HashSet<String>,
    /// Sessions whose figures changed: written with the next tick.
    figured: HashSet<String>,
    /// Sessions that views are told of after the next commit.
    news: HashSet<String>,
    room: usize,
    /// Figures of turns that are over, and not written yet.
    turns_over: Vec<TurnFigures>,
    turns_are_due: bool,
    efforts: Efforts,
}

#[derive(Debug, Default)]
struct Live {
    session: Session,
    /// The state of the config that this session's user was told of.
    told: Option<u64>,
    /// What is not known of it, and why.
    troubles: Vec<String>,
    turn: Turn,
    /// The end at which its calls were last compared with the log, or are now.
    compared_at: Option<i64>,
    /// When its last event came through the socket, whenever that happened.
    arrived_at: i64,
    own_line: Option<OwnLine>,
}

/// The last output of the program of a user's own status line.
#[derive(Debug)]
pub(crate) struct OwnLine {
    /// The fingerprint of the input that it had.
    pub(crate) given: u64,
    pub(crate) shown: String,
    pub(crate) wrong: Option<String>,
}

/// A session's turn, as far as its figures go.
#[derive(Debug, Default)]
struct Turn {
    tokens: TurnTokens,
    written: Option<TurnFigures>,
}

/// An event that was applied.
#[derive(Debug, Clone)]
pub(crate) struct Applied {
    pub(crate) session: String,
    /// When it counts from.
    at: i64,
    /// A session that goes on from another since this event: from which, and which.
    pub(crate) chained: Option<(String, String)>,
    /// What is displayed of the session now, if that changed.
    pub(crate) display: Option<DisplayChange>,
    /// What the session works on, if it has an effort.
    pub(crate) effort: Option<Box<EffortContext>>,
}

/// A session's process: its pid, and when that was started.
pub(crate) type Process = (u32, Option<u64>);

impl Registry {
    /// Loads the sessions that live, and those that ended a moment ago.
    pub(crate) fn open(database: &Connection) -> Self {
        let at_hand = now_ms() - AT_HAND;
        let mut ended = stored(database, Which::Ended(ENDED));
        ended.retain(|session| session.ended_at.is_some_and(|end| end > at_hand));
        let live = stored(database, Which::Live).into_iter().take(MAX_SESSIONS);
        let sessions = live
            .chain(ended)
            .map(|session| (session.session_id.clone(), Live::new(session)))
            .collect();
        Self {
            sessions,
            changes: broadcast::channel(MAX_BEHIND).0,
            unwritten: HashSet::new(),
            figured: HashSet::new(),
            news: HashSet::new(),
            room: MAX_SESSIONS,
            turns_over: Vec::new(),
            turns_are_due: false,
            efforts: Efforts::open(database),
        }
    }

    /// Applies one event; `head` is that of the masked payload. An event that Claude Code waits for counts
    /// from when it was `heard`, so in order of arrival; any other, and a spooled one, from when it
    /// happened. None if it concerns no session.
    pub(crate) fn apply(
        &mut self,
        database: &Connection,
        head: &Head<'_>,
        envelope: &Envelope,
        project: Option<&str>,
        heard: Option<EventTime>,
    ) -> Option<Applied> {
        let (Some(id), Some(event)) = (head.session_id.as_deref(), head.event.as_deref()) else {
            return None;
        };
        if id.len() > MAX_ID {
            return None;
        }
        let event = EventName::from(event);
        // An event of unknown name makes no session.
        let makes = !matches!(event, EventName::Other(_) | EventName::SessionEnd);
        let happened = EventTime {
            at: envelope.at,
            id: envelope.id,
        };
        let heard = heard.filter(|_| !event.comes_late());
        let EventTime { at, id: mark } = heard.unwrap_or(happened);
        let moment = SessionEvent {
            head,
            name: event,
            at,
            id: mark,
            envelope,
            project,
        };
        if !self.sessions.contains_key(id) {
            self.admit(database, id, &moment, makes)?;
        }
        let mut chained = self.chain(database, id, &moment);
        if moment.name == EventName::UserPromptSubmit {
            self.turn_over(id);
        }
        let left = self.bind(database, id, &moment);
        let live = self.sessions.get_mut(id)?;
        if let Some(now) = heard {
            live.session.clamp_times(now);
        }
        let before = live.session.shown();
        let changed = live.session.apply(&moment) | chained.is_some();
        let display = DisplayChange::of(before, &live.session, moment.at);
        if changed && moment.name == EventName::SessionEnd {
            chained = self.chain_next(id);
        }
        let effort = self.worked(id, &moment, left);
        self.unwritten.insert(id.to_owned());
        if changed || effort.is_some() {
            self.news.insert(id.to_owned());
        }
        Some(Applied {
            session: id.to_owned(),
            at,
            chained,
            display,
            effort,
        })
    }

    /// Applies the outcome of an event that was applied before.
    pub(crate) fn apply_outcome(
        &mut self,
        applied: &Applied,
        record: &Record,
        outcome: EventOutcome,
    ) {
        let (name, agent) = (record.event_name(), record.agent_id());
        let event = JudgedEvent {
            id: record.id(),
            name: &name,
            agent,
            at: applied.at,
        };
        self.touch(&applied.session, |session| {
            session.apply_outcome(&event, outcome)
        });
    }

    /// The same for an event that the spool completed: it was applied before. Gives what the user may want
    /// to know of it.
    pub(crate) fn apply_late_outcome(&mut self, record: &Record) -> Option<DisplayChange> {
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
        let outcome = record.outcome();
        self.touch(&id, |session| session.apply_outcome(&event, outcome));
        // The main agent goes on with what a subagent brought; a daemon has told of its own.
        let is_told = record.source == Source::Alone && record.agent_id().is_none();
        let ended = sent.saturating_add(record.took_us.unwrap_or(0) / 1000);
        is_told.then(|| DisplayChange::of(before, &self.sessions.get(&id)?.session, ended))?
    }

    /// The sessions to be written now. They count as written, unless `not_written` says otherwise.
    pub(crate) fn unwritten(&mut self) -> Vec<StoredSession> {
        let ids = std::mem::take(&mut self.unwritten);
        let session = |id: String| StoredSession::new(&self.sessions.get(&id)?.session);
        ids.into_iter().filter_map(session).collect()
    }

    /// These could not be written: with the next commit, then.
    pub(crate) fn not_written(&mut self, sessions: &[StoredSession], figures: Vec<TurnFigures>) {
        let ids = sessions.iter().map(|kept| kept.session_id().to_owned());
        self.unwritten.extend(ids);
        self.turns_over.extend(figures);
    }

    /// The database was begun anew: all of them are to be written.
    pub(crate) fn write_all(&mut self) {
        self.unwritten.extend(self.sessions.keys().cloned());
        self.efforts.write_all();
    }

    /// What status lines and transcripts brought is to be written with the next commit.
    pub(crate) fn figures_are_due(&mut self) {
        self.unwritten.extend(self.figured.drain());
        let live = self.sessions.values_mut();
        self.turns_over
            .extend(live.filter_map(Live::unwritten_figures));
        self.turns_are_due = true;
    }

    /// The figures of turns to be written now.
    pub(crate) fn figures_to_write(&mut self) -> Vec<TurnFigures> {
        match std::mem::take(&mut self.turns_are_due) {
            true => std::mem::take(&mut self.turns_over),
            false => Vec::new(),
        }
    }

    /// Tells views of the sessions that changed since the last time.
    pub(crate) fn tell_news(&mut self, now: i64) {
        let news = std::mem::take(&mut self.news);
        if self.changes.receiver_count() == 0 {
            return;
        }
        for id in news {
            if let Some(live) = self.sessions.get(&id) {
                drop(self.changes.send(Arc::new(self.shown(live, now))));
            }
        }
    }

    /// Applies what was found out without an event. Gives what is displayed then, if that changed.
    pub(crate) fn infer(
        &mut self,
        id: &str,
        inference: &Inference,
        at: i64,
    ) -> Option<DisplayChange> {
        let before = self.sessions.get(id)?.session.shown();
        self.touch(id, |session| session.infer(inference, at));
        self.inferred(id, at);
        DisplayChange::of(before, &self.sessions.get(id)?.session, at)
    }

    /// The session as views get it.
    pub(crate) fn row(&self, id: &str, now: i64) -> Option<SessionRow> {
        Some(self.shown(self.sessions.get(id)?, now))
    }

    fn shown(&self, live: &Live, now: i64) -> SessionRow {
        SessionRow {
            effort: self.brief(&live.session),
            ..live.row(now)
        }
    }

    /// When a session began.
    pub(crate) fn began(&self, id: &str) -> Option<i64> {
        Some(self.sessions.get(id)?.session.started_at)
    }

    /// The processes of these sessions are gone. A session may have another by now.
    pub(crate) fn gone(&mut self, gone: &[(String, Process)], now: i64) {
        for (id, (pid, start)) in gone {
            self.touch(id, |session| {
                (session.pid, session.pid_start) == (Some(*pid), *start)
                    && session.infer(&Inference::ProcessGone, now.max(session.last_activity))
            });
            self.inferred(id, now);
        }
    }

    /// Notes that an event came from a client now. The demo plays a past: what its events tell
    /// happened hours ago.
    pub(crate) fn arrived(&mut self, id: &str, now: i64) {
        if let Some(live) = self.sessions.get_mut(id) {
            live.arrived_at = now;
        }
    }

    /// Ends the sessions that have no process and were quiet for long. The next event revives one.
    pub(crate) fn end_quiet(&mut self, now: i64) {
        let live = self.live().filter(|(_, live)| live.is_quiet(now));
        let quiet: Vec<String> = live.map(|(id, _)| id.clone()).collect();
        for id in quiet {
            self.touch(&id, |session| session.infer(&Inference::ProcessGone, now));
        }
    }

    /// Figures of a status line, with its Claude Code where that is known, or of a transcript: no event,
    /// and written only with the next tick. Gives what is known of the session then.
    pub(crate) fn figures(
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
            self.figured.insert(id.to_owned());
            self.news.insert(id.to_owned());
        }
        Some(&session.figures)
    }

    /// Keeps the output of the program of a session's own status line, in memory only.
    pub(crate) fn keep_own_line(&mut self, id: &str, line: OwnLine) {
        if let Some(live) = self.sessions.get_mut(id) {
            live.own_line = Some(line);
        }
    }

    /// Returns that output if the program had the same input.
    pub(crate) fn own_line(&self, id: &str, given: u64) -> Option<&OwnLine> {
        let line = self.sessions.get(id)?.own_line.as_ref();
        line.filter(|line| line.given == given)
    }

    /// What is not known of a session now, in words; none if everything is.
    pub(crate) fn trouble(&mut self, id: &str, trouble: Option<String>) {
        let troubles: Vec<String> = trouble.into_iter().collect();
        if let Some(live) = self.sessions.get_mut(id)
            && live.troubles != troubles
        {
            live.troubles = troubles;
            self.news.insert(id.to_owned());
        }
    }

    fn touch(&mut self, id: &str, change: impl FnOnce(&mut Session) -> bool) {
        let live = self.sessions.get_mut(id);
        if live.is_some_and(|live| change(&mut live.session)) {
            self.unwritten.insert(id.to_owned());
            self.news.insert(id.to_owned());
        }
    }

    /// The processes of the live sessions.
    pub(crate) fn processes(&self) -> Vec<(String, Process)> {
        let process = |(id, live): (&String, &Live)| {
            Some((id.clone(), (live.session.pid?, live.session.pid_start)))
        };
        self.live().filter_map(process).collect()
    }

    fn live(&self) -> impl Iterator<Item = (&String, &Live)> {
        (self.sessions.iter()).filter(|(_, live)| live.session.ended_at.is_none())
    }

    pub(crate) fn len(&self) -> u64 {
        self.live().count() as u64
    }

    /// Whether this session's user knows of this state of the config.
    pub(crate) fn was_told(&self, id: &str, generation: u64) -> bool {
        let live = self.sessions.get(id);
        live.is_some_and(|live| live.told == Some(generation))
    }

    pub(crate) fn tell(&mut self, id: &str, generation: u64) {
        if let Some(live) = self.sessions.get_mut(id) {
            live.told = Some(generation);
        }
    }

    /// Finds a session that was here before, or makes a new one.
    fn admit(
        &mut self,
        database: &Connection,
        id: &str,
        moment: &SessionEvent<'_>,
        makes: bool,
    ) -> Option<()> {
        let session = match find(database, id) {
            Some(session) => session,
            None if makes => Session::new(id, moment.at),
            None => return None,
        };
        if self.sessions.len() >= self.room {
            self.make_room()?;
        }
        self.sessions.insert(id.to_owned(), Live::new(session));
        Some(())
    }

    /// Drops the session that was quiet longest, ended ones first.
    fn make_room(&mut self) -> Option<()> {
        let written = self.sessions.iter();
        let written = written.filter(|(id, _)| !self.unwritten.contains(*id));
        let quiet = written.min_by_key(|(id, Live { session, .. })| {
            (session.ended_at.is_none(), session.last_activity, *id)
        });
        let id = quiet?.0.clone();
        self.sessions.remove(&id).map(drop)
    }

    /// What a user looked at a while ago and did not answer waits again.
    pub(crate) fn expire_seen(&mut self, now: i64) {
        for (id, live) in &mut self.sessions {
            if live.session.expire_seen(now) {
                self.unwritten.insert(id.clone());
                self.news.insert(id.clone());
            }
        }
    }

    /// The sessions that have ended since this was last asked.
    pub(crate) fn newly_ended(&mut self) -> Vec<EndedSession> {
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

    /// How many calls of a session guards saw.
    pub(crate) fn covered(&mut self, id: &str, coverage: Coverage) {
        self.touch(id, |session| {
            session.coverage = Some(coverage);
            true
        });
    }

    /// Drops what ended a while ago: the database has it.
    pub(crate) fn forget(&mut self, now: i64) {
        let Self {
            sessions,
            unwritten,
            ..
        } = self;
        sessions.retain(|id, live| {
            let ended = live.session.ended_at;
            unwritten.contains(id) || ended.is_none_or(|end| now - end < AT_HAND)
        });
    }

    /// The tokens of a session's turn, as its transcript tells them.
    pub(crate) fn tokens(&mut self, id: &str, tokens: TurnTokens) {
        if let Some(live) = self.sessions.get_mut(id) {
            live.turn.tokens = tokens;
        }
    }

    /// A prompt comes: what is known until then belongs to the turn before it.
    fn turn_over(&mut self, id: &str) {
        let live = self.sessions.get_mut(id);
        let figures = live.and_then(Live::unwritten_figures);
        self.turns_over.extend(figures);
    }
}

impl Live {
    fn new(session: Session) -> Self {
        Self {
            session,
            ..Self::default()
        }
    }

    /// Returns true if no process is known and no event has come for long.
    fn is_quiet(&self, now: i64) -> bool {
        let last = self.session.last_activity.max(self.arrived_at);
        self.session.pid.is_none() && now - last >= QUIET
    }

    fn row(&self, now: i64) -> SessionRow {
        let mut row = self.session.row(now);
        row.troubles.extend(self.troubles.iter().cloned());
        row
    }

    /// The figures of the turn that goes on, or was the last; none where nothing is known.
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

    /// Figures that are not written yet. They count as written from now on.
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

fn stored(database: &Connection, which: Which<'_>) -> Vec<Session> {
    store::sessions(database, which).unwrap_or_else(|why| {
        warn!(%why, "could not read sessions");
        Vec::new()
    })
}

fn find(database: &Connection, id: &str) -> Option<Session> {
    let found = stored(database, Which::Like(id));
    found.into_iter().find(|session| session.session_id == id)
}

#[cfg(test)]
mod tests;
