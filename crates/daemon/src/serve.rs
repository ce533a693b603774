//! The socket: who may speak, how much, and what is said back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use becket_wire::frame::{Frame, FrameHead, HEAD, Kind};
use becket_wire::rpc::{Ask, DaemonStatus, EventRequest, Request, Response, Told};
use becket_wire::{PROTOCOL, Place, Version};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tracing::warn;

use crate::counters::Counters;
use crate::dispatch::{Arrival, Message};
use crate::life::now_ms;
use crate::namespace::Namespaces;
use crate::store::{self, Feed, Writer};

/// How many may be connected at once.
const MAX_CONNECTIONS: usize = 1024;
/// How long a frame may take to come, once it has begun, and a connection be silent before one.
const FRAME_TIME: Duration = Duration::from_secs(10);
/// Bodies up to this are read without asking; larger ones share a budget.
const SMALL_BODY: usize = 256 << 10;
/// The budget of all larger bodies that are in memory at once, in KiB.
const LARGE_BODIES: usize = 128 << 10;

/// Why the daemon ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Stopped,
    Yielded,
    Idle,
    Signal,
    HomeGone,
}

/// What every connection can reach.
#[derive(Debug)]
pub(crate) struct Door {
    pub(crate) place: Place,
    pub(crate) version: Version,
    pub(crate) socket: String,
    pub(crate) started_at: i64,
    pub(crate) dispatcher: mpsc::Sender<Message>,
    pub(crate) writer: Writer,
    pub(crate) feed: Feed,
    pub(crate) counters: Arc<Counters>,
    pub(crate) namespaces: Namespaces,
    pub(crate) uid: u32,
    pub(crate) open: AtomicUsize,
    /// Events that were taken and not yet answered.
    pub(crate) in_flight: AtomicUsize,
    /// Counts up with every request: a daemon that nobody speaks to ends.
    pub(crate) requests: AtomicU64,
    pub(crate) large: Arc<Semaphore>,
    pub(crate) end: watch::Sender<Option<End>>,
}

impl Door {
    pub(crate) fn large_bodies() -> Arc<Semaphore> {
        Arc::new(Semaphore::new(LARGE_BODIES))
    }
}

/// One connection, from its first byte to its last.
pub(crate) async fn connection(stream: UnixStream, door: Arc<Door>) {
    if door.open.fetch_add(1, Ordering::Relaxed) < MAX_CONNECTIONS {
        talk(stream, &door).await;
    } else {
        door.counters.busy.add(1);
        let mut stream = stream;
        say(&mut stream, &Response::Busy).await;
    }
    door.open.fetch_sub(1, Ordering::Relaxed);
}

async fn talk(mut stream: UnixStream, door: &Door) {
    let Ok(peer) = stream.peer_cred() else { return };
    if peer.uid() != door.uid {
        door.counters.strangers.add(1);
        return;
    }
    loop {
        let frame = match tokio::time::timeout(FRAME_TIME, read_frame(&mut stream, door)).await {
            Ok(Ok(Some(frame))) => frame,
            Ok(Ok(None)) | Err(_) => return,
            Ok(Err(Unread::Gone)) => return,
            Ok(Err(Unread::Garbage)) => {
                door.counters.garbage.add(1);
                return;
            }
            Ok(Err(Unread::TooMuch)) => {
                door.counters.busy.add(1);
                say(&mut stream, &Response::Busy).await;
                return;
            }
        };
        door.requests.fetch_add(1, Ordering::Relaxed);
        let stable = frame.kind == Kind::YIELD;
        let foreign = door.namespaces.are_foreign(peer.pid());
        if !stable && (frame.protocol != PROTOCOL || foreign) {
            door.counters.refused.add(1);
            say(
                &mut stream,
                &Response::Refused {
                    version: door.version,
                },
            )
            .await;
            return;
        }
        let Ok(request) = Request::from_frame(frame) else {
            door.counters.garbage.add(1);
            return;
        };
        let go_on = match request {
            Request::Event(event) => {
                door.in_flight.fetch_add(1, Ordering::Relaxed);
                let response = judge(event, door).await;
                let said = say(&mut stream, &response).await;
                door.in_flight.fetch_sub(1, Ordering::Relaxed);
                said
            }
            Request::Yield { protocol, version } => {
                let newer = (protocol, version) > (PROTOCOL, door.version);
                let response = if newer {
                    Response::Yielding
                } else {
                    Response::Refused {
                        version: door.version,
                    }
                };
                let said = say(&mut stream, &response).await;
                if newer {
                    door.end.send_replace(Some(End::Yielded));
                }
                said
            }
            Request::Ask(ask) => answer(&mut stream, ask, door).await,
            Request::Environment(_) => {
                door.counters.garbage.add(1);
                false
            }
        };
        if !go_on {
            return;
        }
    }
}

async fn judge(event: EventRequest, door: &Door) -> Response {
    let (reply, answer) = oneshot::channel();
    let arrival = Arrival {
        event,
        at: Instant::now(),
        now_ms: now_ms(),
        reply,
    };
    if door.dispatcher.try_send(Message::Arrived(arrival)).is_err() {
        door.counters.busy.add(1);
        return Response::Busy;
    }
    let Ok(reply) = answer.await else {
        return Response::Busy;
    };
    match reply.kept.await {
        Ok(()) => Response::Answer {
            version: door.version,
            output: reply.output,
        },
        Err(_) => Response::Busy,
    }
}

async fn answer(stream: &mut UnixStream, ask: Ask, door: &Door) -> bool {
    match ask {
        Ask::Status => {
            let status = status(door).await;
            say(stream, &Response::Told(Told::Status(Box::new(status)))).await
        }
        Ask::TakeIn => {
            door.writer.take_in().await;
            say(stream, &Response::Told(Told::Done)).await
        }
        Ask::Events(query) => {
            door.writer.take_in().await;
            crate::follow::events(stream, query, door).await
        }
        Ask::Stop => {
            let said = say(stream, &Response::Told(Told::Done)).await;
            door.end.send_replace(Some(End::Stopped));
            said
        }
    }
}

async fn status(door: &Door) -> DaemonStatus {
    door.writer.take_in().await;
    let (reply, sessions) = oneshot::channel();
    drop(door.dispatcher.send(Message::CountSessions(reply)).await);
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
    }
}

/// Sends one response. False if nobody is there any more.
pub(crate) async fn say(stream: &mut UnixStream, response: &Response) -> bool {
    match response.to_frame() {
        Ok(frame) => stream.write_all(&frame).await.is_ok(),
        Err(why) => {
            warn!(%why, "could not pack a response");
            false
        }
    }
}

enum Unread {
    Gone,
    Garbage,
    TooMuch,
}

/// Reads one frame: what comes with its head at once, and then the rest of the body in place.
async fn read_frame(stream: &mut UnixStream, door: &Door) -> Result<Option<Frame>, Unread> {
    let mut head = [0; HEAD];
    let mut have = 0;
    while have < HEAD {
        match stream.read(&mut head[have..]).await {
            Ok(0) if have == 0 => return Ok(None),
            Ok(0) | Err(_) => return Err(Unread::Gone),
            Ok(len) => have += len,
        }
    }
    let head = FrameHead::decode(head).map_err(|_| Unread::Garbage)?;
    let _budget = if head.len > SMALL_BODY {
        let share = u32::try_from(head.len >> 10).unwrap_or(u32::MAX);
        Some(
            door.large
                .try_acquire_many(share)
                .map_err(|_| Unread::TooMuch)?,
        )
    } else {
        None
    };
    let mut body = Vec::with_capacity(head.len);
    let mut rest = (&mut *stream).take(head.len as u64);
    while body.len() < head.len {
        match rest.read_buf(&mut body).await {
            Ok(0) | Err(_) => return Err(Unread::Gone),
            Ok(_) => {}
        }
    }
    Ok(Some(Frame {
        protocol: head.protocol,
        kind: head.kind,
        body,
    }))
}
