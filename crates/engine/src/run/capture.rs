//! The pipes of a program: what it is fed, and what is kept of what it writes.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::process::ChildStdin;
use std::sync::Arc;

/// How much is kept of each of stdout and stderr. The rest is read and counted, so that the program
/// can go on.
pub(super) const KEPT: usize = 1 << 20;

/// What a program writes to one pipe.
#[derive(Debug)]
pub(super) struct Capture<R> {
    pipe: Option<R>,
    pub(super) kept: Vec<u8>,
    pub(super) dropped: u64,
}

impl<R: Read + AsFd> Capture<R> {
    pub(super) fn of(pipe: Option<R>) -> Self {
        Self {
            pipe: pipe.and_then(without_blocking),
            kept: Vec::new(),
            dropped: 0,
        }
    }

    /// What to poll; none once it is closed.
    pub(super) fn pipe(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().map(AsFd::as_fd)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.pipe.is_none()
    }

    /// Reads once. Says whether there may be more right now.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> bool {
        let Some(pipe) = &mut self.pipe else {
            return false;
        };
        match pipe.read(buffer) {
            Ok(len) if len > 0 => {
                let room = (KEPT - self.kept.len()).min(len);
                self.kept.extend_from_slice(&buffer[..room]);
                self.dropped += (len - room) as u64;
                true
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => false,
            Err(error) if error.kind() == ErrorKind::Interrupted => true,
            Ok(_) | Err(_) => {
                self.pipe = None;
                false
            }
        }
    }
}

/// What a program is given on stdin. It need not read it.
#[derive(Debug)]
pub(super) struct Feed {
    pipe: Option<ChildStdin>,
    bytes: Arc<[u8]>,
    sent: usize,
}

impl Feed {
    /// Gives it what the pipe takes at once: nearly always all.
    pub(super) fn begin(pipe: Option<ChildStdin>, bytes: Arc<[u8]>) -> Self {
        let mut feed = Self {
            pipe: pipe.and_then(without_blocking),
            bytes,
            sent: 0,
        };
        feed.write();
        feed
    }

    /// What to poll; none once it has all, or wants no more.
    pub(super) fn pipe(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().map(AsFd::as_fd)
    }

    pub(super) fn write(&mut self) {
        while let Some(pipe) = &mut self.pipe {
            let rest = &self.bytes[self.sent..];
            match pipe.write(rest) {
                Ok(len) if len < rest.len() => self.sent += len,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // It has all, or it does not read: neither is a failure.
                Ok(_) | Err(_) => self.pipe = None,
            }
        }
    }

    pub(super) fn end(&mut self) {
        self.pipe = None;
    }
}

/// A pipe that could block us is none.
fn without_blocking<P: AsFd>(pipe: P) -> Option<P> {
    rustix::io::ioctl_fionbio(&pipe, true).ok().map(|()| pipe)
}
