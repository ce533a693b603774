//! Pushes what the sessions do into the tmux servers that they run in, so that nobody has to poll:
//! the option `@becket` of a server, `@becket_state` and the colours of its panes.

mod plan;
mod server;
mod tally;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use becket_wire::session::SessionRow;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use plan::Wanted;
pub use server::{Server, TmuxError, Words, is_pane, words};
pub use tally::{Tally, is_live};

use crate::counters::Counters;
use crate::life::now_ms;

/// A change waits so long for others that come with it.
const TOGETHER: Duration = Duration::from_millis(200);
/// A server that failed is left alone for so long.
const AFTER_FAILURE: Duration = Duration::from_secs(10);
/// The pool is for others too.
const AT_ONCE: usize = 2;
/// More servers than anybody has, and more sessions than a machine carries.
const MOST_SERVERS: usize = 32;
const MOST_SESSIONS: usize = 10_000;

/// What the pusher is told.
#[derive(Debug)]
pub enum Order {
    /// These are all the sessions there are.
    All(Vec<SessionRow>),
    /// A session is new, or has changed, or has ended.
    Session(Arc<SessionRow>),
    /// Colour the panes of this server, or stop that; what came of it.
    Paint {
        tmux_socket: String,
        on: bool,
        done: oneshot::Sender<Result<(), TmuxError>>,
    },
}

/// Takes orders until nobody gives any.
pub async fn push(mut orders: mpsc::Receiver<Order>, counters: Arc<Counters>) {
    let mut pusher = Pusher::default();
    let mut calls: JoinSet<Called> = JoinSet::new();
    loop {
        let due = pusher.due(calls.len());
        tokio::select! {
            order = orders.recv() => match order {
                Some(order) => pusher.take(order),
                None => return,
            },
            Some(called) = calls.join_next() => {
                if let Ok(called) = called {
                    counters
                        .tmux_failed
                        .add(u64::from(called.outcome.is_err()));
                    pusher.called(called);
                }
            }
            () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                while calls.len() < AT_ONCE && let Some(call) = pusher.next_call() {
                    calls.spawn_blocking(move || call.run());
                }
            }
        }
    }
}

#[derive(Debug, Default)]
struct Pusher {
    sessions: HashMap<String, Arc<SessionRow>>,
    servers: BTreeMap<String, State>,
    /// When the text changes with time alone: milliseconds since 1970.
    next_text: Option<i64>,
}

/// What is known of one server.
#[derive(Debug)]
struct State {
    /// When it is to be looked after; none while nothing has changed.
    due: Option<Instant>,
    not_before: Instant,
    busy: bool,
    /// What it shows, if the last call succeeded.
    pushed: Option<Wanted>,
    paint: Option<bool>,
    waiting: Vec<oneshot::Sender<Result<(), TmuxError>>>,
}

/// One look after one server, to be done off the loop.
#[derive(Debug)]
struct Call {
    socket: String,
    wanted: Wanted,
    waiting: Vec<oneshot::Sender<Result<(), TmuxError>>>,
}

#[derive(Debug)]
struct Called {
    socket: String,
    wanted: Wanted,
    outcome: Result<(), TmuxError>,
    waiting: Vec<oneshot::Sender<Result<(), TmuxError>>>,
}

impl Pusher {
    fn take(&mut self, order: Order) {
        match order {
            Order::All(rows) => {
                self.sessions.clear();
                for row in rows {
                    self.session(Arc::new(row));
                }
                self.changed();
            }
            Order::Session(row) => {
                self.session(row);
                self.changed();
            }
            Order::Paint {
                tmux_socket,
                on,
                done,
            } => match self.server(&tmux_socket) {
                Some(state) => {
                    state.paint = Some(on);
                    state.pushed = None;
                    state.waiting.push(done);
                    // A person waits for it, so it is tried at once, whatever was before.
                    state.not_before = Instant::now();
                    state.due = Some(Instant::now());
                }
                None => drop(done.send(Err(TmuxError::Gone(tmux_socket)))),
            },
        }
    }

    fn session(&mut self, row: Arc<SessionRow>) {
        if let Some(socket) = row.tmux_socket.clone() {
            self.server(&socket);
        }
        if !is_live(&row) {
            self.sessions.remove(&row.session_id);
        } else if self.sessions.len() < MOST_SESSIONS || self.sessions.contains_key(&row.session_id)
        {
            self.sessions.insert(row.session_id.clone(), row);
        }
    }

    fn server(&mut self, socket: &str) -> Option<&mut State> {
        if !self.servers.contains_key(socket) && self.servers.len() < MOST_SERVERS {
            self.servers.insert(socket.to_owned(), State::new());
        }
        self.servers.get_mut(socket)
    }

    /// Every server shows the sum of all sessions, so a change concerns each.
    fn changed(&mut self) {
        let then = Instant::now() + TOGETHER;
        for state in self.servers.values_mut() {
            state.due.get_or_insert(then);
        }
        let now = now_ms();
        self.next_text = self.tally().next_change(now);
    }

    fn tally(&self) -> Tally {
        Tally::of(self.sessions.values().map(|row| &**row))
    }

    /// When there is something to do next.
    fn due(&self, calls: usize) -> Option<Instant> {
        let idle = self.servers.values().filter(|state| !state.busy);
        let dues = idle.filter_map(|state| Some(state.due?.max(state.not_before)));
        let next = self.next_text.filter(|_| !self.servers.is_empty());
        let text = next.map(|at| {
            let wait = u64::try_from(at - now_ms()).unwrap_or(0);
            Instant::now() + Duration::from_millis(wait)
        });
        dues.chain(text).min().filter(|_| calls < AT_ONCE)
    }

    fn next_call(&mut self) -> Option<Call> {
        let now = Instant::now();
        if self.next_text.is_some_and(|at| at <= now_ms()) {
            self.changed();
        }
        loop {
            let mut idle = self.servers.iter().filter(|(_, state)| !state.busy);
            let is_due = |state: &State| {
                state
                    .due
                    .is_some_and(|due| due.max(state.not_before) <= now)
            };
            let socket = idle.find(|(_, state)| is_due(state))?.0.clone();
            let wanted = self.wanted(&socket);
            let state = self.servers.get_mut(&socket)?;
            state.due = None;
            if state.pushed.as_ref() == Some(&wanted) {
                continue;
            }
            state.busy = true;
            let waiting = std::mem::take(&mut state.waiting);
            return Some(Call {
                socket,
                wanted,
                waiting,
            });
        }
    }

    fn wanted(&self, socket: &str) -> Wanted {
        let mut panes = BTreeMap::new();
        for row in self.sessions.values() {
            let here = row.tmux_socket.as_deref() == Some(socket);
            let pane = row.tmux_pane.as_ref().filter(|pane| here && is_pane(pane));
            if let Some(pane) = pane {
                let shown = panes.entry(pane.clone()).or_insert(row.display);
                *shown = row.display.min(*shown);
            }
        }
        Wanted {
            text: self.tally().text(now_ms()),
            panes,
            paint: self.servers.get(socket).and_then(|state| state.paint),
        }
    }

    fn called(&mut self, called: Called) {
        let Called {
            socket,
            wanted,
            outcome,
            waiting,
        } = called;
        for person in waiting {
            drop(person.send(outcome.clone()));
        }
        let used = self
            .sessions
            .values()
            .any(|row| row.tmux_socket.as_ref() == Some(&socket));
        let Some(state) = self.servers.get_mut(&socket) else {
            return;
        };
        state.busy = false;
        // Somebody who asked meanwhile still waits, and is not to wait longer.
        let asked = !state.waiting.is_empty();
        if !asked {
            // From here on the server itself remembers it; and what failed is not done later,
            // behind the back of a person who was told so.
            state.paint = None;
        }
        match outcome {
            Ok(()) => {
                state.not_before = Instant::now() + TOGETHER;
                state.pushed = Some(Wanted {
                    paint: None,
                    ..wanted
                });
            }
            Err(_) if !used && !asked => drop(self.servers.remove(&socket)),
            Err(why) => {
                tracing::debug!(%socket, %why, "tmux");
                let pause = if asked { TOGETHER } else { AFTER_FAILURE };
                state.not_before = Instant::now() + pause;
                state.pushed = None;
                state.due.get_or_insert(state.not_before);
            }
        }
    }
}

impl State {
    fn new() -> Self {
        Self {
            due: Some(Instant::now()),
            not_before: Instant::now(),
            busy: false,
            pushed: None,
            paint: None,
            waiting: Vec::new(),
        }
    }
}

impl Call {
    fn run(self) -> Called {
        let server = Server::new(&self.socket);
        let once = || show(&server, &self.wanted);
        // A pane may go away between looking and setting: the second look does not see it.
        let outcome = once().or_else(|why| match why {
            TmuxError::Refused(_) => once(),
            other => Err(other),
        });
        Called {
            socket: self.socket,
            wanted: self.wanted,
            outcome,
            waiting: self.waiting,
        }
    }
}

fn show(server: &Server, wanted: &Wanted) -> Result<(), TmuxError> {
    let shown = plan::shown(&server.run(&[plan::look()])?);
    let unpainted = plan::unpainted(&shown, wanted);
    let before = if unpainted.is_empty() {
        BTreeMap::new()
    } else {
        plan::styles(&server.run(&plan::look_at_styles(&unpainted))?)
    };
    server
        .run(&plan::commands(&shown, wanted, &before))
        .map(drop)
}
