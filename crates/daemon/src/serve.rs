//! The socket: accepts connections, reads requests, and answers them or hands them to the core.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use becket_engine::config::ConfigCache;
use becket_engine::pipeline::prepare;
use becket_wire::frame::FrameKind;
use becket_wire::question::{AnsweredIn, PersonAnswer};
use becket_wire::rpc::{Ask, AskReply, Counts, DaemonStatus, EventRequest, Request, Response};
use becket_wire::{PROTOCOL, Place, Version};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, oneshot, watch as tokio_watch};
use tokio::time::{sleep, timeout};
use tracing::{error, warn};

use crate::connection::{Budget, Connection, Namespaces, ReadError};
use crate::core::{Arrival, Message, QuestionRequest, QueuedHooks};
use crate::counters::Counters;
use crate::registry::RegistryRequest;
use crate::store::{self, EventRecord, Feed};
use crate::tmux::TmuxRequest;
use crate::waiting_shim::{PendingClients, ShimStep, WaitingShim};
use crate::{event_log, session_feed};

/// The number of connections that may be open at once.
const MAX_CONNECTIONS: usize = 1024;
/// The time for one frame to arrive, and for a connection to be silent before it.
const FRAME_TIME: Duration = Duration::from_secs(10);
/// The time before the log repeats an error.
const LOG_AGAIN: Duration = Duration::from_secs(60);

/// The reason why the daemon ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopReason {
    Stopped,
    Yielded,
    Idle,
    Signal,
    HomeGone,
    LogGone,
    /// A part failed that the daemon cannot do without.
    Broken,
}

impl StopReason {
    /// Returns true if the user wants no daemon, rather than a newer one.
    pub(crate) fn is_wanted(self) -> bool {
        matches!(self, Self::Stopped | Self::Signal)
    }
}

/// The state that all connections share.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) place: Place,
    pub(crate) version: Version,
    pub(crate) socket: String,
    pub(crate) started_at: i64,
    pub(crate) core: mpsc::Sender<Message>,
    pub(crate) configs: Arc<ConfigCache>,
    pub(crate) tmux: mpsc::Sender<TmuxRequest>,
    pub(crate) feed: Feed,
    pub(crate) counters: Arc<Counters>,
    pub(crate) namespaces: Namespaces,
    pub(crate) uid: u32,
    /// The number of open connections.
    pub(crate) open: AtomicUsize,
    /// The number of events that were taken and not answered yet.
    pub(crate) in_flight: AtomicUsize,
    /// The number of requests so far. A daemon without requests ends.
    pub(crate) requests: AtomicU64,
    pub(crate) budget: Budget,
    pub(crate) stop: tokio_watch::Sender<Option<StopReason>>,
    /// True once the hooks have ended too and the daemon serves no more.
    pub(crate) closing: tokio_watch::Sender<bool>,
}

impl Server {
    /// Sends the core a request, and waits for its reply. Returns none if the daemon ends.
    pub(crate) async fn ask<T>(
        &self,
        request: impl FnOnce(oneshot::Sender<T>) -> Message,
    ) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        self.core.send(request(reply)).await.ok()?;
        answer.await.ok()
    }

    /// Sends the registry a request, and waits for its reply. Returns none if the daemon ends.
    pub(crate) async fn ask_registry<T>(
        &self,
        request: impl FnOnce(oneshot::Sender<T>) -> RegistryRequest,
    ) -> Option<T> {
        self.ask(|reply| Message::Registry(request(reply))).await
    }

    /// Reads the database beside the core. Returns nothing if it cannot be read.
    pub(crate) async fn read<T: Default + Send + 'static>(
        &self,
        query: impl FnOnce(&rusqlite::Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> T {
        let database = self.place.database();
        let found = tokio::task::spawn_blocking(move || {
            let reader = store::open_to_read(&database).ok().flatten()?;
            query(&reader).ok()
        });
        found.await.ok().flatten().unwrap_or_default()
    }

    /// Returns true if this daemon was told to end.
    fn is_ending(&self) -> bool {
        self.stop.borrow().is_some()
    }
}

/// Accepts connections, and starts a task for each one.
pub(crate) async fn accept(listener: std::os::unix::net::UnixListener, server: Arc<Server>) {
    let listener = match UnixListener::from_std(listener) {
        Ok(listener) => listener,
        Err(why) => return error!(%why, "could not accept"),
    };
    let mut logged: Option<Instant> = None;
    loop {
        match listener.accept().await {
            Ok((stream, _)) => drop(tokio::spawn(serve_connection(stream, Arc::clone(&server)))),
            Err(why) => {
                // Out of descriptors: clients that wait go standalone after their deadline.
                if logged.is_none_or(|at| at.elapsed() > LOG_AGAIN) {
                    logged = Some(Instant::now());
                    warn!(%why, "could not accept connections (told once a minute)");
                }
                sleep(Duration::from_millis(20)).await;
            }
        }
    }
}

/// Serves the requests of one connection until it closes.
async fn serve_connection(stream: UnixStream, server: Arc<Server>) {
    let peer = stream.peer_cred();
    let mut connection = Connection::new(stream);
    let others = server.open.fetch_add(1, Ordering::Relaxed);
    match peer {
        Ok(peer) if peer.uid() == server.uid && others < MAX_CONNECTIONS => {
            // The check runs once, and early: the shim still reads its event.
            let is_in_other_namespace = server.namespaces.is_foreign(peer.pid());
            while serve_request(&mut connection, is_in_other_namespace, &server).await {}
        }
        Ok(peer) if peer.uid() == server.uid => {
            server.counters.count(|counts| counts.busy += 1);
            connection.respond(&Response::Busy).await;
        }
        _ => server.counters.count(|counts| counts.strangers += 1),
    }
    server.open.fetch_sub(1, Ordering::Relaxed);
}

/// Serves one request. Returns false if the connection is to be closed.
async fn serve_request(
    connection: &mut Connection,
    is_in_other_namespace: bool,
    server: &Arc<Server>,
) -> bool {
    let frame = match timeout(FRAME_TIME, connection.read(&server.budget)).await {
        Ok(Ok(frame)) => frame,
        Ok(Err(ReadError::Closed)) | Err(_) => return false,
        Ok(Err(ReadError::Garbage)) => {
            server.counters.count(|counts| counts.garbage += 1);
            return false;
        }
        Ok(Err(ReadError::NoRoom)) => {
            server.counters.count(|counts| counts.busy += 1);
            connection.respond(&Response::Busy).await;
            return false;
        }
    };
    server.requests.fetch_add(1, Ordering::Relaxed);
    if (frame.protocol != PROTOCOL || is_in_other_namespace) && frame.kind != FrameKind::YIELD {
        server.counters.count(|counts| counts.refused += 1);
        let version = server.version;
        connection.respond(&Response::Refused { version }).await;
        return false;
    }
    match Request::from_frame(frame) {
        Ok(Request::Event(event)) => serve_event(connection, event, true, server).await,
        Ok(Request::StatusLine(line)) => serve_event(connection, line, false, server).await,
        Ok(Request::Yield { protocol, version }) => {
            handle_yield(connection, protocol, version, server).await
        }
        Ok(Request::Ask(ask)) => answer(connection, ask, server).await,
        Ok(Request::Environment(_)) | Err(_) => {
            server.counters.count(|counts| counts.garbage += 1);
            false
        }
    }
}

/// Ends this daemon if the one that asks is newer.
async fn handle_yield(
    connection: &Connection,
    protocol: u8,
    version: Version,
    server: &Server,
) -> bool {
    if server.is_ending() {
        return connection.respond(&Response::Yielding).await;
    }
    if (protocol, version) <= (PROTOCOL, server.version) {
        let version = server.version;
        return connection.respond(&Response::Refused { version }).await;
    }
    let responded = connection.respond(&Response::Yielding).await;
    server.stop.send_replace(Some(StopReason::Yielded));
    responded
}

/// Prepares an event or a status line, hands it to the core, and waits until it is answered. Returns false if
/// the connection is to be closed.
async fn serve_event(
    connection: &mut Connection,
    request: EventRequest,
    is_event: bool,
    server: &Arc<Server>,
) -> bool {
    server.in_flight.fetch_add(1, Ordering::Relaxed);
    let (at, hung_up) = (Instant::now(), connection.has_hung_up());
    let (shim, steps) = WaitingShim::new(connection.stream());
    let shared = Arc::clone(server);
    // Preparing may block on a project's file system.
    tokio::task::spawn_blocking(move || {
        let sent = request.sent;
        // A shim that is dropped here gets `Busy` and goes standalone, which has a time limit of its own.
        let Some(event) = prepare(request, &shared.configs) else {
            return shared.counters.count(|counts| counts.busy += 1);
        };
        let message = if is_event {
            Message::Event(Box::new(Arrival {
                record: Box::new(EventRecord::from_event(&event)),
                event,
                at,
                sent,
                hung_up,
                shim,
            }))
        } else {
            Message::StatusLine(Box::new(event), shim)
        };
        if shared.core.try_send(message).is_err() {
            shared.counters.count(|counts| counts.busy += 1);
        }
    });
    let open = take_steps(connection, steps, server).await;
    server.in_flight.fetch_sub(1, Ordering::Relaxed);
    open
}

/// Takes the steps that the core asks for until the shim is answered. Returns false if the connection is to be
/// closed.
async fn take_steps(
    connection: &mut Connection,
    mut steps: mpsc::UnboundedReceiver<ShimStep>,
    server: &Server,
) -> bool {
    // The shims that wait for the same hooks, as long as this one is among them.
    let mut waiting: Option<Arc<PendingClients>> = None;
    loop {
        let step = tokio::select! {
            biased;
            step = steps.recv() => step,
            () = connection.until_hang_up(), if waiting.is_some() => {
                if let Some(clients) = waiting.take() {
                    clients.leave().await;
                }
                continue;
            }
        };
        match step {
            Some(ShimStep::Answered { unsent }) => return connection.send(&unsent).await,
            Some(ShimStep::Hold {
                unsent,
                hooks,
                clients,
            }) => {
                if hold(connection, &unsent, hooks, server).await {
                    waiting = Some(clients);
                } else {
                    clients.leave().await;
                }
            }
            None => return connection.respond(&Response::Busy).await,
        }
    }
}

/// Makes the shim wait, takes its environment, and starts the hooks. Returns false if the shim hung up.
async fn hold(
    connection: &mut Connection,
    unsent: &[u8],
    hooks: Option<Box<QueuedHooks>>,
    server: &Server,
) -> bool {
    let sent = timeout(FRAME_TIME, connection.send(unsent)).await;
    let Some(hooks) = hooks else {
        return sent == Ok(true);
    };
    if sent != Ok(true) {
        return false;
    }
    let Ok(Ok(frame)) = timeout(FRAME_TIME, connection.read(&server.budget)).await else {
        return false;
    };
    let Ok(Request::Environment(environment)) = Request::from_frame(frame) else {
        return false;
    };
    // A shim that hung up runs its hooks standalone, so this is checked first.
    let slot = tokio::select! {
        biased;
        () = connection.until_hang_up() => return false,
        slot = hooks.slot() => slot,
    };
    hooks.start(&environment, slot);
    true
}

/// Answers a question of a client. Returns false if the connection is to be closed.
async fn answer(connection: &Connection, ask: Ask, server: &Server) -> bool {
    let reply = match ask {
        Ask::Status => AskReply::Status(Box::new(status(server).await)),
        Ask::TakeIn => {
            take_in(server).await;
            AskReply::Done
        }
        Ask::Events(query) => return event_log::send_events(connection, query, server).await,
        Ask::Sessions(query) => {
            return session_feed::send_sessions(connection, query, server).await;
        }
        Ask::Watch => return session_feed::send_changes(connection, server).await,
        Ask::Name { session, title } => {
            let named = server.ask_registry(|done| RegistryRequest::Name {
                session,
                title,
                done,
            });
            named.await.unwrap_or_else(daemon_ending_reply)
        }
        Ask::Seen(at) => {
            let seen = server.ask_registry(|done| RegistryRequest::Seen(at, done));
            seen.await.unwrap_or_else(daemon_ending_reply)
        }
        Ask::Questions => {
            let questions = server.ask(|reply| Message::Question(QuestionRequest::List(reply)));
            AskReply::Questions(questions.await.unwrap_or_default())
        }
        Ask::Answer { id, answer, via } => {
            answer_question(connection, id, answer, via, server).await
        }
        Ask::Paint { tmux_socket, on } => session_feed::paint(server, tmux_socket, on).await,
        Ask::Effort(ask) => crate::effort::answer(*ask, server).await,
        Ask::Stop => {
            let responded = connection.reply(AskReply::Done).await;
            server.stop.send_replace(Some(StopReason::Stopped));
            return responded;
        }
    };
    connection.reply(reply).await
}

/// Passes a person's answer on to the core. A session must not answer its own question, so a process below one of
/// its Claude Codes is refused.
async fn answer_question(
    connection: &Connection,
    id: i64,
    answer: PersonAnswer,
    via: AnsweredIn,
    server: &Server,
) -> AskReply {
    let (peer, database) = (connection.peer_pid(), server.place.database());
    let above = tokio::task::spawn_blocking(move || store::claude_above(&database, peer?));
    if let Ok(Some(claude)) = above.await {
        let why = format!("only a person may answer, and this comes from Claude Code ({claude})");
        return AskReply::Refused(why);
    }
    let request = |done| {
        Message::Question(QuestionRequest::Answer {
            id,
            answer,
            via,
            done,
        })
    };
    server
        .ask(request)
        .await
        .unwrap_or_else(daemon_ending_reply)
}

/// Makes the answer to a question that the core does not answer any more.
pub(crate) fn daemon_ending_reply() -> AskReply {
    AskReply::Refused("the daemon ends".to_owned())
}

/// Lets the core take in the spool. Returns the numbers of the events whose hooks still run.
pub(crate) async fn take_in(server: &Server) -> HashSet<i64> {
    server.ask(Message::TakeIn).await.unwrap_or_default()
}

async fn status(server: &Server) -> DaemonStatus {
    take_in(server).await;
    let counts = server.counters.counts();
    DaemonStatus {
        pid: std::process::id(),
        version: server.version,
        protocol: PROTOCOL,
        socket: server.socket.clone(),
        started_at: server.started_at,
        sessions: session_feed::live_sessions(server).await.len() as u64,
        events: server.read(store::count_events).await,
        counts: Counts {
            lost: store::lost::total(&server.place),
            ..counts
        },
        troubles: server.counters.troubles(),
        ending: server.is_ending(),
    }
}
