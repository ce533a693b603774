//! One connection of a client: reads frames and sends responses, within bounds.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use becket_wire::frame::{Frame, FrameHead, HEAD};
use becket_wire::rpc::{AskReply, Response};
use rustix::net::RecvFlags;
use tokio::net::UnixStream;
use tokio::sync::{Semaphore, SemaphorePermit};
use tracing::warn;

/// The bytes that one read takes. An event of ordinary size comes whole.
const READ: usize = 8 << 10;
/// The largest body that takes no share of the budget.
const SMALL_BODY: usize = 256 << 10;
/// The budget in KiB for the larger bodies that all connections read at once.
const LARGE_BODIES: usize = 128 << 10;

/// The memory for large bodies, which all connections share.
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

/// The reason why a connection gave no frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadError {
    /// The client has hung up.
    Closed,
    /// The bytes are no frame.
    Garbage,
    /// The large frames of other connections use up the budget.
    NoRoom,
}

#[derive(Debug)]
pub(crate) struct Connection {
    stream: Arc<UnixStream>,
    /// Bytes that were read and belong to no frame yet.
    ahead: Vec<u8>,
}

impl Connection {
    pub(crate) fn new(stream: UnixStream) -> Self {
        Self {
            stream: Arc::new(stream),
            ahead: Vec::new(),
        }
    }

    pub(crate) fn stream(&self) -> Arc<UnixStream> {
        Arc::clone(&self.stream)
    }

    /// Reads the next frame.
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

    /// Takes the body of the first frame.
    fn take(&mut self, len: usize) -> Vec<u8> {
        let rest = self.ahead.split_off(HEAD + len);
        let mut body = std::mem::replace(&mut self.ahead, rest);
        body.drain(..HEAD);
        body
    }

    /// Reads until the buffer holds at least `len` bytes.
    async fn fill(&mut self, len: usize) -> Result<(), ReadError> {
        while self.ahead.len() < len {
            let missing = len - self.ahead.len();
            self.ahead.reserve(missing.max(READ));
            self.stream
                .readable()
                .await
                .map_err(|_| ReadError::Closed)?;
            match self.stream.try_read_buf(&mut self.ahead) {
                Ok(1..) => {}
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => {}
                Ok(0) | Err(_) => return Err(ReadError::Closed),
            }
        }
        Ok(())
    }

    /// Sends one response. Returns false if the client has hung up.
    pub(crate) async fn respond(&self, response: &Response) -> bool {
        match response.to_frame() {
            Ok(frame) => self.send(&frame).await,
            Err(why) => {
                warn!(%why, "could not encode a response");
                false
            }
        }
    }

    /// Sends the answer to a question. Returns false if the client has hung up.
    pub(crate) async fn reply(&self, reply: AskReply) -> bool {
        self.respond(&Response::Reply(reply)).await
    }

    /// Sends a frame. Returns false if the client has hung up.
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

    /// Waits until the client hangs up, or sends something out of turn.
    pub(crate) async fn until_hang_up(&self) {
        let mut byte = [0; 1];
        while self.stream.readable().await.is_ok() {
            match self.stream.try_read(&mut byte) {
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => {}
                _ => return,
            }
        }
    }

    /// Returns the process of the client, if it is in this namespace.
    pub(crate) fn peer_pid(&self) -> Option<u32> {
        let pid = self.stream.peer_cred().ok()?.pid()?;
        u32::try_from(pid).ok()
    }

    /// Returns true if the client has hung up already. Reads nothing.
    pub(crate) fn has_hung_up(&self) -> bool {
        let flags = RecvFlags::DONTWAIT | RecvFlags::PEEK;
        let peeked = rustix::net::recv(&*self.stream, &mut [0; 1], flags);
        self.ahead.is_empty() && matches!(peeked, Ok((_, 0)))
    }
}

/// The namespaces of the daemon. A peer in another mount or pid namespace sees other files and processes: its
/// paths and pids mean something else here, so the daemon refuses it and it goes standalone.
#[derive(Debug)]
pub(crate) struct Namespaces {
    ours: Option<[u64; 2]>,
}

impl Namespaces {
    pub(crate) fn current() -> Self {
        Self {
            ours: namespace_inodes("self"),
        }
    }

    /// Returns true if a process runs in other namespaces than the daemon, and false if it has ended already.
    pub(crate) fn is_foreign(&self, pid: Option<i32>) -> bool {
        match pid {
            // The kernel has no pid for it in our pid namespace.
            None | Some(0) => cfg!(target_os = "linux"),
            Some(pid) => {
                let theirs = namespace_inodes(&pid.to_string());
                self.ours.is_some() && theirs.is_some() && theirs != self.ours
            }
        }
    }
}

/// Returns the inodes of a process's mount and pid namespaces. Equal inodes mean the same namespace.
fn namespace_inodes(pid: &str) -> Option<[u64; 2]> {
    let folder = Path::new("/proc").join(pid).join("ns");
    let mount = fs::metadata(folder.join("mnt")).ok()?;
    let pid = fs::metadata(folder.join("pid")).ok()?;
    Some([mount.ino(), pid.ino()])
}

#[cfg(test)]
mod tests {
    use becket_wire::PROTOCOL;
    use becket_wire::frame::{FrameKind, encode};
    use tokio::io::AsyncWriteExt;

    use super::*;

    fn frame(len: usize) -> Frame {
        Frame {
            protocol: PROTOCOL,
            kind: FrameKind::EVENT,
            body: (0..len).map(|at| at as u8).collect(),
        }
    }

    #[tokio::test]
    async fn frames_are_read_whole_in_any_number_of_pieces() {
        let frames = [1, 0, 2048, READ - HEAD, READ - HEAD + 1, 9, 300_000, 5].map(frame);
        let bytes: Vec<u8> = frames
            .iter()
            .flat_map(|frame| encode(FrameKind::EVENT, &[&frame.body]).unwrap())
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
