//! One connection: frames in, frames out. Any thread may send the answer.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use becket_engine::run::Cancel;
use becket_wire::frame::{Frame, FrameHead, HEAD};
use becket_wire::rpc::Response;
use rustix::net::{RecvFlags, SendFlags};
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::sync::{Semaphore, SemaphorePermit, oneshot};
use tracing::warn;

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
