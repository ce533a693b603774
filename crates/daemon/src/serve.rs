//! The socket: who may connect, how much may be sent, and the answers.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use becket_engine::config::ConfigCache;
use becket_engine::pipeline::prepare;
use becket_wire::frame::Kind;
use becket_wire::rpc::{Ask, DaemonStatus, EventRequest, Request, Response, Told};
use becket_wire::{PROTOCOL, Place, Version};
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot, watch as tokio_watch};

use crate::connection::{Budget, Connection, Held, ReadError, Reply};
use crate::core::{Arrival, Message};
use crate::counters::Counters;
use crate::namespace::Namespaces;
use crate::registry::Asked;
use crate::store::{self, Feed, Record};
use crate::tmux::Order;
use crate::watch;

/// How many may be connected at once.
const MAX_CONNECTIONS: usize = 1024;
/// How long a frame may take to come, once it has begun, and a connection be silent before one.
const FRAME_TIME: Duration = Duration::from_secs(10);

/// Why the daemon ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Stopped,
    Yielded,
    Idle,
    Signal,
    HomeGone,
    /// A part of it is gone that nothing works without.
    Broken,
}

impl End {
    /// Whether the user wants no daemon, rather than a newer one.
    pub(crate) fn is_wanted(self) -> bool {
        matches!(self, Self::Stopped | Self::Signal)
    }
}

/// What every connection can reach.
#[derive(Debug)]
pub(crate) struct Door {
    pub(crate) place: Place,
    pub(crate) version: Version,
    pub(crate) socket: String,
    pub(crate) started_at: i64,
    pub(crate) core: mpsc::Sender<Message>,
    pub(crate) configs: Arc<ConfigCache>,
    pub(crate) tmux: mpsc::Sender<Order>,
    pub(crate) feed: Feed,
    pub(crate) counters: Arc<Counters>,
    pub(crate) namespaces: Namespaces,
    pub(crate) uid: u32,
    pub(crate) open: AtomicUsize,
    /// Events that were taken and not yet answered.
    pub(crate) in_flight: AtomicUsize,
    /// Counts up with every request: a daemon without requests ends.
    pub(crate) requests: AtomicU64,
    pub(crate) budget: Budget,
    pub(crate) end: tokio_watch::Sender<Option<End>>,
    /// Its hooks have ended too, and it serves no more.
    pub(crate) closing: tokio_watch::Sender<bool>,
}

impl Door {
    /// What this daemon serves as.
    fn identity(&self) -> (u8, Version) {
        (PROTOCOL, self.version)
    }

    /// Whether it was told to end.
    fn ends(&self) -> bool {
        self.end.borrow().is_some()
    }
}

/// Everything that is said on one connection.
pub(crate) async fn talk(stream: UnixStream, door: Arc<Door>) {
    let peer = stream.peer_cred();
    let mut connection = Connection::new(stream);
    let others = door.open.fetch_add(1, Ordering::Relaxed);
    let many = others >= MAX_CONNECTIONS;
    match peer {
        Ok(peer) if peer.uid() == door.uid && !many => {
            // Looked at once, and early: while the shim still reads its event.
            let foreign = door.namespaces.are_foreign(peer.pid());
            while serve_one(&mut connection, foreign, &door).await {}
        }
        Ok(peer) if peer.uid() == door.uid => {
            door.counters.busy.add(1);
            connection.say(&Response::Busy).await;
        }
        _ => door.counters.strangers.add(1),
    }
    door.open.fetch_sub(1, Ordering::Relaxed);
}

/// One request and its answer. False if there will be no other.
async fn serve_one(connection: &mut Connection, foreign: bool, door: &Arc<Door>) -> bool {
    let read = tokio::time::timeout(FRAME_TIME, connection.read(&door.budget)).await;
    let frame = match read {
        Ok(Ok(frame)) => frame,
        Ok(Err(ReadError::Closed)) | Err(_) => return false,
        Ok(Err(ReadError::Garbage)) => {
            door.counters.garbage.add(1);
            return false;
        }
        Ok(Err(ReadError::NoRoom)) => {
            door.counters.busy.add(1);
            connection.say(&Response::Busy).await;
            return false;
        }
    };
    door.requests.fetch_add(1, Ordering::Relaxed);
    let version = door.version;
    let understood = frame.protocol == PROTOCOL && !foreign;
    if !understood && frame.kind != Kind::YIELD {
        door.counters.refused.add(1);
        connection.say(&Response::Refused { version }).await;
        return false;
    }
    match Request::from_frame(frame) {
        Ok(Request::Event(event)) => take_event(connection, event, true, door).await,
        Ok(Request::StatusLine(line)) => take_event(connection, line, false, door).await,
        Ok(Request::Yield { .. }) if door.ends() => connection.say(&Response::Yielding).await,
        Ok(Request::Yield { protocol, version }) if (protocol, version) > door.identity() => {
            let said = connection.say(&Response::Yielding).await;
            door.end.send_replace(Some(End::Yielded));
            said
        }
        Ok(Request::Yield { .. }) => connection.say(&Response::Refused { version }).await,
        Ok(Request::Ask(ask)) => answer(connection, ask, door).await,
        Ok(Request::Environment(_)) | Err(_) => {
            door.counters.garbage.add(1);
            false
        }
    }
}

/// Prepares an event and sends it to the core, which answers it; a status line likewise. Preparing may
/// block on a project's file system, so it runs on the blocking pool.
async fn take_event(
    connection: &mut Connection,
    request: EventRequest,
    is_event: bool,
    door: &Arc<Door>,
) -> bool {
    door.in_flight.fetch_add(1, Ordering::Relaxed);
    let (at, sent) = (Instant::now(), request.sent);
    let hung_up = connection.has_hung_up();
    let (answerer, went) = connection.answerer();
    let prepares = Arc::clone(door);
    tokio::task::spawn_blocking(move || {
        // Dropping the answerer means `Busy`: the shim goes standalone, which has a bound of its own.
        let Some(event) = prepare(request, &prepares.configs) else {
            return prepares.counters.busy.add(1);
        };
        let message = match is_event {
            true => Message::Event(Box::new(Arrival {
                record: Box::new(Record::of(&event)),
                event,
                at,
                sent,
                hung_up,
                answerer,
            })),
            false => Message::StatusLine(Box::new(event), answerer),
        };
        if prepares.core.try_send(message).is_err() {
            prepares.counters.busy.add(1);
        }
    });
    let went = match went.await {
        Ok(Reply::Held(held)) => wait_on(connection, held, door).await,
        went => went.ok(),
    };
    let said = match went {
        Some(Reply::Answered(rest)) => connection.send(&rest).await,
        _ => connection.say(&Response::Busy).await,
    };
    door.in_flight.fetch_sub(1, Ordering::Relaxed);
    said
}

/// Named hooks run: takes the environment for them, and waits for what they say. They are cancelled if
/// the shim hangs up.
async fn wait_on(connection: &mut Connection, held: Held, door: &Door) -> Option<Reply> {
    let Held {
        unsent,
        environment,
        askers,
        mut went,
    } = held;
    let handed = async {
        let sent = connection.send(&unsent).await;
        let Some(environment) = environment else {
            return sent;
        };
        let Ok(frame) = connection.read(&door.budget).await else {
            return false;
        };
        match Request::from_frame(frame) {
            Ok(Request::Environment(block)) => environment.send(block).is_ok(),
            _ => false,
        }
    };
    if !tokio::time::timeout(FRAME_TIME, handed)
        .await
        .unwrap_or(false)
    {
        askers.one_less();
        return went.await.ok();
    }
    tokio::select! {
        biased;
        went = &mut went => return went.ok(),
        () = connection.gone() => askers.one_less(),
    }
    went.await.ok()
}

async fn answer(connection: &Connection, ask: Ask, door: &Door) -> bool {
    match ask {
        Ask::Status => {
            let status = Box::new(status(door).await);
            connection.say(&Response::Told(Told::Status(status))).await
        }
        Ask::TakeIn => {
            take_in(door).await;
            connection.say(&Response::Told(Told::Done)).await
        }
        Ask::Events(query) => crate::follow::events(connection, query, door).await,
        Ask::Sessions(query) => watch::sessions(connection, query, door).await,
        Ask::Watch => watch::changes(connection, door).await,
        Ask::Name { session, title } => {
            let told = watch::ask(door, |done| Asked::Name {
                session,
                title,
                done,
            });
            connection.say(&Response::Told(told.await)).await
        }
        Ask::Seen(at) => {
            let told = watch::ask(door, |done| Asked::Seen(at, done)).await;
            connection.say(&Response::Told(told)).await
        }
        Ask::Paint { tmux_socket, on } => {
            let told = watch::paint(door, tmux_socket, on).await;
            connection.say(&Response::Told(told)).await
        }
        Ask::Stop => {
            let said = connection.say(&Response::Told(Told::Done)).await;
            door.end.send_replace(Some(End::Stopped));
            said
        }
    }
}

/// Has the spool taken in. Gives the numbers of the events whose hooks still run.
pub(crate) async fn take_in(door: &Door) -> HashSet<i64> {
    let (reply, pending) = oneshot::channel();
    drop(door.core.send(Message::TakeIn(reply)).await);
    pending.await.unwrap_or_default()
}

async fn status(door: &Door) -> DaemonStatus {
    take_in(door).await;
    let (reply, sessions) = oneshot::channel();
    drop(door.core.send(Message::CountSessions(reply)).await);
    let database = door.place.database();
    let events = tokio::task::spawn_blocking(move || match store::open_to_read(&database) {
        Ok(Some(connection)) => store::count(&connection).unwrap_or(0),
        _ => 0,
    });
    DaemonStatus {
        pid: std::process::id(),
        version: door.version,
        protocol: PROTOCOL,
        socket: door.socket.clone(),
        started_at: door.started_at,
        sessions: sessions.await.unwrap_or(0),
        events: events.await.unwrap_or(0),
        counts: door.counters.counts(),
        troubles: door.counters.troubles(),
        ending: door.ends(),
    }
}
