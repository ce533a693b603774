//! What may be asked of the registry, and what it is told by a person.

use std::sync::Arc;

use becket_engine::session::Session;
use becket_wire::rpc::{AskReply, SeenAt, complete_session};
use becket_wire::session::{Display, SessionRow};
use rusqlite::Connection;
use tokio::sync::broadcast;
use tokio::sync::oneshot::Sender;

use super::{Live, Registry, stored};
use crate::infer::{AtWork, LAST_REPLY};
use crate::store::Which;

/// One question, with where its answer goes.
#[derive(Debug)]
pub(crate) enum Asked {
    /// The live sessions, the most urgent first.
    Live(Sender<Vec<SessionRow>>),
    /// The same, and every change from then on.
    Watch(Sender<(Vec<SessionRow>, broadcast::Receiver<Arc<SessionRow>>)>),
    /// The sessions that are at work.
    AtWork(Sender<Vec<AtWork>>),
    Name {
        session: String,
        title: Option<String>,
        done: Sender<AskReply>,
    },
    Seen(SeenAt, Sender<AskReply>),
}

impl Registry {
    pub(crate) fn answer(&mut self, database: &Connection, asked: Asked, now: i64) {
        match asked {
            Asked::Live(reply) => drop(reply.send(self.rows(now))),
            Asked::Watch(reply) => {
                let changes = self.changes.subscribe();
                drop(reply.send((self.rows(now), changes)));
            }
            Asked::AtWork(reply) => drop(reply.send(self.at_work(now))),
            Asked::Name {
                session,
                title,
                done,
            } => drop(done.send(self.name(database, &session, title))),
            Asked::Seen(at, done) => drop(done.send(self.seen(database, &at, now))),
        }
    }

    fn rows(&self, now: i64) -> Vec<SessionRow> {
        let mut rows: Vec<SessionRow> =
            self.live().map(|(_, live)| self.shown(live, now)).collect();
        sort(&mut rows);
        rows
    }

    /// Whose files may tell more than events do. What an unattended session costs only its transcript
    /// tells, and the last of it when the session has ended already.
    fn at_work(&self, now: i64) -> Vec<AtWork> {
        let at_work = |session: &Session| {
            let ended_at = session.ended_at;
            ended_at.is_none_or(|ended| !session.attended || now - ended < LAST_REPLY)
        };
        let is_idle = |session: &Session| session.attended && session.display().0 == Display::Done;
        self.sessions
            .iter()
            .filter(|(_, live)| at_work(&live.session))
            .filter_map(|(id, live)| {
                let session = &live.session;
                Some(AtWork {
                    session: id.clone(),
                    transcript: session.transcript_path.as_ref()?.into(),
                    pid: session.pid,
                    pid_start: session.pid_start,
                    whole: !session.attended || session.lacks_status_line(),
                    troubled: !live.troubles.is_empty(),
                    wants_to_stop: session.main.wants_to_stop(),
                    idle_since: is_idle(session).then_some(session.main.since),
                    prompted_at: session.prompted_at,
                })
            })
            .collect()
    }

    /// How many sessions but this one need the person.
    pub(crate) fn waiting_besides(&self, id: &str) -> usize {
        let waits = |live: &Live| live.session.display().0 == Display::Attention;
        self.live()
            .filter(|(other, live)| *other != id && waits(live))
            .count()
    }

    fn name(&mut self, database: &Connection, prefix: &str, title: Option<String>) -> AskReply {
        match self.complete(database, prefix) {
            Ok(id) => {
                self.touch(&id, |session| session.name(title));
                AskReply::Done
            }
            Err(told) => told,
        }
    }

    fn seen(&mut self, database: &Connection, at: &SeenAt, now: i64) -> AskReply {
        match at {
            SeenAt::Session(prefix) => match self.complete(database, prefix) {
                Ok(id) => self.touch(&id, |session| session.mark_seen(now)),
                Err(told) => return told,
            },
            SeenAt::Pane { tmux_socket, pane } => {
                let there: Vec<String> = self
                    .live()
                    .filter(|(_, live)| {
                        let session = &live.session;
                        session.pane.as_ref() == Some(pane)
                            && session.tmux_socket.as_ref() == Some(tmux_socket)
                    })
                    .map(|(id, _)| id.clone())
                    .collect();
                for id in there {
                    self.touch(&id, |session| session.mark_seen(now));
                }
            }
        }
        AskReply::Done
    }

    /// The one session that has an id that begins so; it is at hand then.
    fn complete(&mut self, database: &Connection, prefix: &str) -> Result<String, AskReply> {
        for session in stored(database, Which::Like(prefix)) {
            let id = session.session_id.clone();
            let live = self.sessions.entry(id);
            live.or_insert_with(|| Live::new(session));
        }
        complete_session(prefix, self.sessions.keys().map(String::as_str))
    }
}

/// Who needs somebody first; among those, who has waited longest. Whoever is done comes last, the
/// one that finished last first.
fn sort(rows: &mut [SessionRow]) {
    rows.sort_by(|a, b| {
        let waits = |row: &SessionRow| match row.display {
            Display::Done => -row.display_since,
            _ => row.display_since,
        };
        (a.display, waits(a), &a.session_id).cmp(&(b.display, waits(b), &b.session_id))
    });
}
