//! The live sessions, owned by the dispatcher alone: which of them an event concerns, what the next
//! daemon must find again, and what the views are told.

mod ask;
mod chain;
mod figures;
mod news;
mod project;
mod room;
mod secret;
mod stop;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use becket_engine::mask::Masker;
use becket_engine::notice::Change;
use becket_engine::session::{Inference, Mark, Moment, Session};
use becket_wire::bounds::FIRST_WORD;
use becket_wire::event::EventName;
use becket_wire::rpc::Envelope;
use becket_wire::session::{Figures, SessionRow};
use becket_wire::{Head, Place};
use rusqlite::Connection;
use tokio::sync::broadcast;
use tracing::warn;

use crate::life::now_ms;
use crate::store::{self, Kept, TurnFigures, Which};

pub(crate) use ask::Asked;
pub(crate) use news::News;
use room::open_reader;

/// More sessions than this are not shown. Whoever was quiet longest goes first, and comes back with
/// the next word of theirs: the database has them all.
const MAX_SESSIONS: usize = 10_000;
/// An id is a UUID. What is far longer makes no session: it would be written with every event.
const LONGEST_ID: usize = 256;
/// How long an ended session stays at hand: `/clear` goes on from one that has ended, and what its
/// last async events say comes late.
const AT_HAND: i64 = 60_000;

/// So many that ended last are looked at whether they are to be at hand.
const ENDED: u32 = 64;

/// Changes of sessions, for whoever looks on.
pub(crate) type Changes = broadcast::Sender<Arc<SessionRow>>;

#[derive(Debug)]
pub(crate) struct Registry {
    place: Place,
    sessions: HashMap<String, Live>,
    /// The newest state of any session has this number.
    revision: i64,
    changes: Changes,
    /// How many rows there were to tell.
    news: u64,
    /// To find what was here before, in the file of this inode.
    reader: Option<(u64, Connection)>,
    /// The file that the sessions were written to.
    written_to: Option<u64>,
    room: usize,
    /// A live one had to go for another, and somebody was told so.
    crowded: bool,
    told_of_crowd: bool,
    /// Figures of turns that are over, and not written yet.
    turns_over: Vec<TurnFigures>,
}

#[derive(Debug, Default)]
struct Live {
    session: Session,
    /// The state of the config that this session's person was told of.
    told: Option<u64>,
    /// What changed without an event, and is not written yet.
    unwritten: bool,
    /// What is not known of it, and why.
    troubles: Vec<String>,
    newest: news::Newest,
    turn: figures::Turn,
}

/// An event that was applied.
#[derive(Debug, Clone)]
pub(crate) struct Applied {
    pub(crate) session: String,
    /// From when it counts.
    at: i64,
    pub(crate) changed: bool,
    /// A session that goes on from another since this event: from which, and which.
    pub(crate) chained: Option<(String, String)>,
    /// What whoever looks at the session sees now, if that is something else.
    pub(crate) display: Option<Change>,
}

/// A session's process: its pid, and when that was started.
pub(crate) type Process = (u32, Option<u64>);

impl Registry {
    /// Goes on where the last daemon ended. A state with a revision that was given before would never
    /// be written, so whoever writes has to say which was the last.
    pub(crate) fn open(place: &Place, revision: i64, changes: Changes) -> Self {
        let reader = open_reader(place);
        let mut sessions = HashMap::new();
        if let Some((_, reader)) = &reader {
            let read = |which| {
                store::sessions(reader, which).unwrap_or_else(|why| {
                    warn!(%why, "could not read the sessions");
                    Vec::new()
                })
            };
            let at_hand = now_ms() - AT_HAND;
            let mut ended = read(Which::Ended(ENDED));
            ended.retain(|session| session.ended_at.is_some_and(|end| end > at_hand));
            sessions = read(Which::Live)
                .into_iter()
                .take(MAX_SESSIONS)
                .chain(ended)
                .map(|session| (session.session_id.clone(), Live::new(session)))
                .collect();
        }
        Self {
            place: place.clone(),
            sessions,
            revision,
            changes,
            news: 0,
            written_to: reader.as_ref().map(|(inode, _)| *inode),
            reader,
            room: MAX_SESSIONS,
            crowded: false,
            told_of_crowd: false,
            turns_over: Vec::new(),
        }
    }

    /// Applies one event. What Claude Code waits for counts from when it was `heard`, so in order of
    /// arrival; what it does not wait for, and what was spooled, from when it happened. None if it
    /// concerns no session.
    pub(crate) fn apply(
        &mut self,
        head: &Head<'_>,
        envelope: &Envelope,
        heard: Option<Mark>,
        masker: &Masker,
    ) -> Option<Applied> {
        let (Some(id), Some(event)) = (head.session_id.as_deref(), head.event.as_deref()) else {
            return None;
        };
        if id.len() > LONGEST_ID {
            return None;
        }
        let event = EventName::from(event);
        // Unknown is normal, and makes no session.
        let makes = !matches!(event, EventName::Other(_) | EventName::SessionEnd);
        let happened = Mark {
            at: envelope.at,
            id: envelope.id,
        };
        let heard = heard.filter(|_| !event.comes_late());
        let Mark { at, id: mark } = heard.unwrap_or(happened);
        let moment = Moment {
            head: &secret::without_secrets(head, masker),
            event,
            at,
            id: mark,
            envelope,
        };
        if !self.sessions.contains_key(id) {
            self.admit(id, &moment, makes)?;
        }
        let mut chained = self.chain(id, &moment);
        if moment.event == EventName::UserPromptSubmit {
            self.turn_over(id);
        }
        let live = self.sessions.get_mut(id)?;
        if let Some(now) = heard {
            live.session.nothing_after(now);
        }
        let before = live.session.shown();
        let mut changed = live.session.apply(&moment) | chained.is_some();
        changed |= live.session.find_project(envelope, is_git_root);
        let display = Change::of(before, &live.session, moment.at);
        if changed && moment.event == EventName::SessionEnd {
            chained = self.chain_next(id);
        }
        Some(Applied {
            session: id.to_owned(),
            at,
            changed,
            chained,
            display,
        })
    }

    /// becket itself blocked the prompt.
    pub(crate) fn prompt_blocked(&mut self, applied: &mut Applied) {
        if let Some(live) = self.sessions.get_mut(&applied.session) {
            applied.changed |= live.session.prompt_blocked(applied.at);
        }
    }

    /// A blocked prompt where that is known later, of a prompt that was sent at that time: the event was
    /// applied before, and counts from its arrival. True if that is news.
    pub(crate) fn prompt_was_blocked(&mut self, id: &str, sent: i64) -> bool {
        let arrived = now_ms().min(sent + FIRST_WORD.as_millis() as i64);
        let live = self.sessions.get_mut(id);
        live.is_some_and(|live| live.session.prompt_blocked(arrived))
    }

    /// The session as it is now, to be written with the event.
    pub(crate) fn kept(&mut self, id: &str) -> Option<Kept> {
        let live = self.sessions.get_mut(id)?;
        live.unwritten = false;
        self.revision += 1;
        Kept::new(&live.session, self.revision)
    }

    /// Applies what was found out without an event, and tells whoever looks on.
    /// Gives what is displayed then, if that is something else.
    pub(crate) fn infer(
        &mut self,
        id: &str,
        inference: &Inference,
        at: i64,
        now: i64,
    ) -> Option<Change> {
        let before = self.sessions.get(id)?.session.shown();
        self.touch(id, now, |session| session.infer(inference, at));
        Change::of(before, &self.sessions.get(id)?.session, at)
    }

    /// The session as whoever looks on gets it.
    pub(crate) fn row(&self, id: &str, now: i64) -> Option<SessionRow> {
        Some(self.sessions.get(id)?.row(now))
    }

    /// When a session began.
    pub(crate) fn began(&self, id: &str) -> Option<i64> {
        Some(self.sessions.get(id)?.session.started_at)
    }

    /// The processes of these sessions are gone. A session may have another by now.
    pub(crate) fn gone(&mut self, gone: &[(String, Process)], now: i64) {
        for (id, (pid, start)) in gone {
            self.touch(id, now, |session| {
                (session.pid, session.pid_start) == (Some(*pid), *start)
                    && session.infer(&Inference::ProcessGone, now.max(session.last_activity))
            });
        }
    }

    /// Figures of the status line: no event, and written only now and then.
    pub(crate) fn figures(&mut self, id: &str, figures: &Figures, now: i64) {
        self.touch(id, now, |session| session.figure(figures));
    }

    /// What is not known of a session now, in words; none if everything is.
    pub(crate) fn trouble(&mut self, id: &str, trouble: Option<String>, now: i64) {
        let troubles: Vec<String> = trouble.into_iter().collect();
        match self.sessions.get_mut(id) {
            Some(live) if live.troubles != troubles => live.troubles = troubles,
            _ => return,
        }
        self.tell_of(id, now);
    }

    fn touch(&mut self, id: &str, now: i64, change: impl FnOnce(&mut Session) -> bool) {
        let Some(live) = self.sessions.get_mut(id) else {
            return;
        };
        if change(&mut live.session) {
            live.unwritten = true;
            self.tell_of(id, now);
        }
    }

    /// Sessions that changed without an event since the last time; all of them if the database was
    /// begun anew.
    pub(crate) fn unwritten(&mut self) -> Vec<Kept> {
        let file = store::inode(&self.place.database());
        if file.is_some() && file != self.written_to {
            self.written_to = file;
            for live in self.sessions.values_mut() {
                live.unwritten = true;
            }
        }
        let changed: Vec<String> = self
            .sessions
            .iter()
            .filter(|(_, live)| live.unwritten)
            .map(|(id, _)| id.clone())
            .collect();
        changed.iter().filter_map(|id| self.kept(id)).collect()
    }

    /// These could not be written: the next time, then.
    pub(crate) fn not_written(&mut self, sessions: &[Kept]) {
        for kept in sessions {
            if let Some(live) = self.sessions.get_mut(kept.session_id()) {
                live.unwritten = true;
            }
        }
    }

    /// The processes of the live sessions.
    pub(crate) fn processes(&self) -> Vec<(String, Process)> {
        self.live()
            .filter_map(|(id, live)| {
                Some((id.clone(), (live.session.pid?, live.session.pid_start)))
            })
            .collect()
    }

    fn live(&self) -> impl Iterator<Item = (&String, &Live)> {
        self.sessions
            .iter()
            .filter(|(_, live)| live.session.ended_at.is_none())
    }

    pub(crate) fn len(&self) -> u64 {
        self.live().count() as u64
    }

    /// Whether this session's person knows of this state of the config.
    pub(crate) fn was_told(&self, id: &str, generation: u64) -> bool {
        self.sessions
            .get(id)
            .is_some_and(|live| live.told == Some(generation))
    }

    pub(crate) fn tell(&mut self, id: &str, generation: u64) {
        if let Some(live) = self.sessions.get_mut(id) {
            live.told = Some(generation);
        }
    }
}

impl Live {
    fn new(session: Session) -> Self {
        Self {
            session,
            ..Self::default()
        }
    }

    fn row(&self, now: i64) -> SessionRow {
        SessionRow {
            troubles: self.troubles.clone(),
            ..self.session.row(now)
        }
    }
}

fn is_git_root(folder: &Path) -> bool {
    folder.join(".git").exists()
}

#[cfg(test)]
mod tests;
