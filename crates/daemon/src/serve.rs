//! The socket: who may connect, how much may be sent, and the answers.

use std::collections::HashSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use becket_engine::config::ConfigCache;
use becket_engine::pipeline::prepare;
use becket_engine::run::Cancel;
use becket_wire::frame::{Frame, FrameHead, HEAD, Kind};
use becket_wire::rpc::{Ask, DaemonStatus, EventRequest, Request, Response, Told};
use becket_wire::{PROTOCOL, Place, Version};
use rustix::net::{RecvFlags, SendFlags};
use tokio::io::Interest;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, SemaphorePermit, mpsc, oneshot, watch as tokio_watch};
use tokio::time::sleep;
use tracing::{error, warn};

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

/// The log repeats an error after this time at the earliest.
const TELL_AGAIN: Duration = Duration::from_secs(60);

/// Why the daemon ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Stopped,
    Yielded,
    Idle,
    Signal,
    HomeGone,
    LogGone,
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

/// Starts a task for each connection.
pub(crate) async fn accept(listener: std::os::unix::net::UnixListener, door: Arc<Door>) {
    let listener = match UnixListener::from_std(listener) {
        Ok(listener) => listener,
        Err(why) => return error!(%why, "could not accept"),
    };
    let mut told: Option<Instant> = None;
    loop {
        match listener.accept().await {
            Ok((stream, _)) => drop(tokio::spawn(talk(stream, Arc::clone(&door)))),
            Err(why) => {
                // Out of descriptors: clients that wait go standalone after their deadline.
                if told.is_none_or(|at| at.elapsed() > TELL_AGAIN) {
                    told = Some(Instant::now());
                    warn!(%why, "could not accept connections (told once a minute)");
                }
                sleep(Duration::from_millis(20)).await;
            }
        }
    }
}

/// Everything that is said on one connection.
async fn talk(stream: UnixStream, door: Arc<Door>) {
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
        Ask::Effort(ask) => {
            let told = crate::effort::answer(*ask, door).await;
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
        counts: door.counters.counts(store::lost::counted(&door.place)),
        troubles: door.counters.troubles(),
        ending: door.ends(),
    }
}

/// What is read at once: an event of ordinary size comes whole.
const READ: usize = 8 << 10;
/// Bodies up to this are read without asking; larger ones share a budget.
const SMALL_BODY: usize = 256 << 10;
/// The budget of all larger bodies that are being read at once, in KiB.
const LARGE_BODIES: usize = 128 << 10;

/// The budget that all connections share.
#[derive(Debug)]
pub(crate) struct Budget(Semaphore);

impl Default for Budget {
    fn default() -> Self {
        Self(Semaphore::new(LARGE_BODIES))
    }
}

impl Budget {
    fn take(&self, body: usize) -> Result<Option<SemaphorePermit<'_>>, ReadError> {
        if body <= SMALL_BODY {
            return Ok(None);
        }
        let share = u32::try_from(body >> 10).unwrap_or(u32::MAX);
        let permit = self.0.try_acquire_many(share);
        permit.map(Some).map_err(|_| ReadError::NoRoom)
    }
}

/// Why no frame came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadError {
    /// The other side has hung up.
    Closed,
    /// Not a frame.
    Garbage,
    /// Frames of other connections take all the room for large ones.
    NoRoom,
}

#[derive(Debug)]
pub(crate) struct Connection {
    stream: Arc<UnixStream>,
    /// What was read and belongs to no frame yet.
    ahead: Vec<u8>,
}

impl Connection {
    pub(crate) fn new(stream: UnixStream) -> Self {
        Self {
            stream: Arc::new(stream),
            ahead: Vec::with_capacity(READ),
        }
    }

    /// The next frame.
    pub(crate) async fn read(&mut self, budget: &Budget) -> Result<Frame, ReadError> {
        self.fill(HEAD).await?;
        let head = self.ahead.first_chunk().ok_or(ReadError::Closed)?;
        let head = FrameHead::decode(*head).map_err(|_| ReadError::Garbage)?;
        let _share = budget.take(head.len)?;
        self.fill(HEAD + head.len).await?;
        Ok(Frame {
            protocol: head.protocol,
            kind: head.kind,
            body: self.take(head.len),
        })
    }

    /// The body of the frame that stands first. Of an ordinary one a copy as long as it is, so that
    /// what is read into stays and nothing is kept that is longer than its event.
    fn take(&mut self, len: usize) -> Vec<u8> {
        let end = HEAD + len;
        if end <= READ {
            let body = self.ahead[HEAD..end].to_vec();
            self.ahead.drain(..end);
            return body;
        }
        let rest = self.ahead.split_off(end);
        let mut body = std::mem::replace(&mut self.ahead, rest);
        body.drain(..HEAD);
        body
    }

    /// Reads until there are at least so many bytes.
    async fn fill(&mut self, len: usize) -> Result<(), ReadError> {
        while self.ahead.len() < len {
            let missing = len - self.ahead.len();
            self.ahead.reserve(missing.max(READ));
            self.stream
                .readable()
                .await
                .map_err(|_| ReadError::Closed)?;
            match self.read_now() {
                Ok(Some(0)) | Err(_) => return Err(ReadError::Closed),
                Ok(_) => {}
            }
        }
        Ok(())
    }

    /// Reads what is there: how much, none if nothing was. What does not fill the room that it has
    /// was all: tokio is told so, and waits for more at once instead of trying in vain first.
    fn read_now(&mut self) -> io::Result<Option<usize>> {
        let mut read = None;
        let tried = self.stream.try_io(Interest::READABLE, || {
            let room = self.ahead.capacity() - self.ahead.len();
            let into = rustix::buffer::spare_capacity(&mut self.ahead);
            let (got, _) = rustix::net::recv(&*self.stream, into, RecvFlags::DONTWAIT)?;
            read = Some(got);
            if got > 0 && got < room {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            Ok(())
        });
        match tried {
            Err(why) if why.kind() != io::ErrorKind::WouldBlock => Err(why),
            _ => Ok(read),
        }
    }

    /// Sends one response. False if the other side has hung up.
    pub(crate) async fn say(&self, response: &Response) -> bool {
        match response.to_frame() {
            Ok(frame) => self.send(&frame).await,
            Err(why) => {
                warn!(%why, "could not pack a response");
                false
            }
        }
    }

    pub(crate) async fn send(&self, mut frame: &[u8]) -> bool {
        while !frame.is_empty() {
            if self.stream.writable().await.is_err() {
                return false;
            }
            match self.stream.try_write(frame) {
                Ok(sent) => frame = &frame[sent..],
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return false,
            }
        }
        true
    }

    /// Comes back when the other side has hung up, or says something out of turn.
    pub(crate) async fn gone(&self) {
        let mut byte = [0; 1];
        while self.stream.readable().await.is_ok() {
            match self.stream.try_read(&mut byte) {
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => {}
                _ => return,
            }
        }
    }

    /// Whether the other side has hung up already. Nothing is read.
    pub(crate) fn has_hung_up(&self) -> bool {
        let flags = RecvFlags::DONTWAIT | RecvFlags::PEEK;
        let peeked = rustix::net::recv(&*self.stream, &mut [0; 1], flags);
        self.ahead.is_empty() && matches!(peeked, Ok((_, 0)))
    }

    /// Something that can answer one request from another thread, and how it went.
    pub(crate) fn answerer(&self) -> (Answerer, oneshot::Receiver<Reply>) {
        let (done, went) = oneshot::channel();
        let stream = Arc::clone(&self.stream);
        (Answerer { stream, done }, went)
    }
}

/// What became of a request.
#[derive(Debug)]
pub(crate) enum Reply {
    /// It is answered; this could not be sent at once.
    Answered(Vec<u8>),
    /// The shim waits for hooks.
    Held(Held),
}

/// The shims that wait for the same hooks: the first, and those of double registrations.
#[derive(Debug)]
pub(crate) struct Askers {
    waiting: AtomicUsize,
    cancel: Cancel,
}

impl Askers {
    pub(crate) fn one(cancel: Cancel) -> Arc<Self> {
        let waiting = AtomicUsize::new(1);
        Arc::new(Self { waiting, cancel })
    }

    pub(crate) fn and_another(self: &Arc<Self>) -> Arc<Self> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        Arc::clone(self)
    }

    /// One of them has hung up. With the last, the hooks are cancelled.
    pub(crate) fn one_less(&self) {
        if self.waiting.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.cancel.abandon();
        }
    }
}

/// A request whose named hooks run.
#[derive(Debug)]
pub(crate) struct Held {
    /// What could not be sent at once.
    pub(crate) unsent: Vec<u8>,
    /// Takes the shim's environment, if it is needed.
    pub(crate) environment: Option<oneshot::Sender<Vec<u8>>>,
    /// The shims that wait for these hooks.
    pub(crate) askers: Arc<Askers>,
    pub(crate) went: oneshot::Receiver<Reply>,
}

/// Sends an answer from the thread where it is ready. Dropped without an answer, it means `Busy`.
#[derive(Debug)]
pub(crate) struct Answerer {
    stream: Arc<UnixStream>,
    done: oneshot::Sender<Reply>,
}

impl Answerer {
    pub(crate) fn send(self, frame: Vec<u8>) {
        let unsent = send_now(&self.stream, frame);
        drop(self.done.send(Reply::Answered(unsent)));
    }

    /// Sends a frame that is no answer yet. So few bytes go at once, or not at all.
    pub(crate) fn tell(&self, frame: Vec<u8>) {
        drop(send_now(&self.stream, frame));
    }

    /// Holds the shim, and asks for its environment. What comes back answers it.
    pub(crate) fn hold(
        self,
        frame: Vec<u8>,
        environment: Option<oneshot::Sender<Vec<u8>>>,
        askers: Arc<Askers>,
    ) -> Self {
        let unsent = send_now(&self.stream, frame);
        let (done, went) = oneshot::channel();
        drop(self.done.send(Reply::Held(Held {
            unsent,
            environment,
            askers,
            went,
        })));
        Self {
            stream: self.stream,
            done,
        }
    }
}

/// Sends what fits now; the rest goes out by the connection's own task, and so does an error.
fn send_now(stream: &UnixStream, mut frame: Vec<u8>) -> Vec<u8> {
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    let sent = rustix::net::send(stream, &frame, flags).unwrap_or(0);
    frame.drain(..sent);
    frame
}

#[cfg(test)]
mod tests {
    use becket_wire::PROTOCOL;
    use becket_wire::frame::{Kind, encode};
    use tokio::io::AsyncWriteExt;

    use super::*;

    fn frame(len: usize) -> Frame {
        Frame {
            protocol: PROTOCOL,
            kind: Kind::EVENT,
            body: (0..len).map(|at| at as u8).collect(),
        }
    }

    #[tokio::test]
    async fn frames_are_read_whole_however_they_come() {
        let frames = [1, 0, 2048, READ - HEAD, READ - HEAD + 1, 9, 300_000, 5].map(frame);
        let bytes: Vec<u8> = frames
            .iter()
            .flat_map(|frame| encode(Kind::EVENT, &[&frame.body]).unwrap())
            .collect();
        for piece in [1_000_000, 4096, 777] {
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            let mut connection = Connection::new(ours);
            let budget = Budget::default();
            let sent = async {
                for piece in bytes.chunks(piece) {
                    theirs.write_all(piece).await.unwrap();
                    tokio::task::yield_now().await;
                }
            };
            let read = async {
                for frame in &frames {
                    assert_eq!(connection.read(&budget).await.as_ref(), Ok(frame));
                }
            };
            tokio::join!(sent, read);
            drop(theirs);
            assert_eq!(connection.read(&budget).await, Err(ReadError::Closed));
        }
    }
}
