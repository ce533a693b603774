//! Requests of clients to the registry: lists of sessions, a name, and "seen".

use std::sync::Arc;

use becket_wire::rpc::{AskReply, SeenAt, complete_session};
use becket_wire::session::{Display, SessionRow};
use rusqlite::Connection;
use tokio::sync::broadcast;
use tokio::sync::oneshot::Sender;

use super::{LiveSession, Registry, load_sessions};
use crate::inference::{ActiveSession, LAST_REPLY};
use crate::store::SessionFilter;

/// A request, with the channel for its answer.
#[derive(Debug)]
pub(crate) enum RegistryRequest {
    /// List the live sessions.
    Live(Sender<Vec<SessionRow>>),
    /// List the live sessions, and subscribe to every change from then on.
    Watch(Sender<(Vec<SessionRow>, broadcast::Receiver<Arc<SessionRow>>)>),
    /// List the sessions to look at for inferences.
    Active(Sender<Vec<ActiveSession>>),
    Name {
        session: String,
        title: Option<String>,
        done: Sender<AskReply>,
    },
    Seen(SeenAt, Sender<AskReply>),
}

impl Registry {
    pub(crate) fn answer(&mut self, database: &Connection, request: RegistryRequest, now: i64) {
        match request {
            RegistryRequest::Live(reply) => drop(reply.send(self.rows(now))),
            RegistryRequest::Watch(reply) => {
                let changes = self.changes.subscribe();
                drop(reply.send((self.rows(now), changes)));
            }
            RegistryRequest::Active(reply) => drop(reply.send(self.active_sessions(now))),
            RegistryRequest::Name {
                session,
                title,
                done,
            } => drop(done.send(self.set_title(database, &session, title))),
            RegistryRequest::Seen(at, done) => drop(done.send(self.mark_seen(database, &at, now))),
        }
    }

    fn rows(&self, now: i64) -> Vec<SessionRow> {
        let live = self.live();
        live.map(|(_, live)| self.session_row(live, now)).collect()
    }

    /// Lists the sessions whose files may tell more than events do. Only the transcript has the cost of an unattended
    /// session, and its last reply comes when the session has ended already.
    fn active_sessions(&self, now: i64) -> Vec<ActiveSession> {
        let mut active = Vec::new();
        for (
            id,
            LiveSession {
                session, troubles, ..
            },
        ) in &self.sessions
        {
            let Some(transcript) = &session.transcript_path else {
                continue;
            };
            let is_over = |ended| session.attended && now - ended >= LAST_REPLY;
            if session.ended_at.is_some_and(is_over) {
                continue;
            }
            let is_idle = session.attended && session.display().0 == Display::Done;
            active.push(ActiveSession {
                session: id.clone(),
                transcript: transcript.into(),
                pid: session.pid,
                pid_start: session.pid_start,
                whole: !session.attended || session.lacks_status_line(),
                troubled: !troubles.is_empty(),
                wants_to_stop: session.main.wants_to_stop(),
                idle_since: is_idle.then_some(session.main.since),
                prompted_at: session.prompted_at,
            });
        }
        active
    }

    /// Counts the other sessions that wait for the user.
    pub(crate) fn count_others_waiting(&self, id: &str) -> usize {
        let others = self.live().filter(|(other, _)| *other != id);
        others
            .filter(|(_, live)| live.session.display().0 == Display::Attention)
            .count()
    }

    fn set_title(
        &mut self,
        database: &Connection,
        prefix: &str,
        title: Option<String>,
    ) -> AskReply {
        match self.complete_id(database, prefix) {
            Ok(id) => {
                self.update_session(&id, |session| session.name(title));
                AskReply::Done
            }
            Err(told) => told,
        }
    }

    fn mark_seen(&mut self, database: &Connection, at: &SeenAt, now: i64) -> AskReply {
        match at {
            SeenAt::Session(prefix) => match self.complete_id(database, prefix) {
                Ok(id) => self.update_session(&id, |session| session.mark_seen(now)),
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
                    self.update_session(&id, |session| session.mark_seen(now));
                }
            }
        }
        AskReply::Done
    }

    /// Completes the beginning of an id to the id of a session, and loads that session.
    fn complete_id(&mut self, database: &Connection, prefix: &str) -> Result<String, AskReply> {
        for session in load_sessions(database, SessionFilter::Like(prefix)) {
            let id = session.session_id.clone();
            let live = self.sessions.entry(id);
            live.or_insert_with(|| LiveSession::new(session));
        }
        complete_session(prefix, self.sessions.keys().map(String::as_str))
    }
}
