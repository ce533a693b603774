//! One connection to the daemon, with a deadline that holds for connecting, sending and receiving.

use std::fmt;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Instant;

use becket_wire::Version;
use becket_wire::frame::Decoder;
use becket_wire::rpc::Response;
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv,
    send, socket_with,
};

use crate::{os, readable_within};

/// Why the daemon did not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missed {
    /// Nobody listens.
    Absent,
    /// It did not answer in time.
    Slow,
    /// It has too much to do.
    Busy,
    /// It does not speak our protocol, or lives in another namespace. The version is the daemon's.
    Refused(Version),
    /// The stream ended, or brought something that is no answer.
    Broken,
    /// Whoever listens there is another user.
    Stranger,
    /// `BECKET_NO_DAEMON` is set.
    Unwanted,
}

impl fmt::Display for Missed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Absent => "absent",
            Self::Slow => "slow",
            Self::Busy => "busy",
            Self::Refused(_) => "refused",
            Self::Broken => "broken",
            Self::Stranger => "stranger",
            Self::Unwanted => "unwanted",
        })
    }
}

impl std::error::Error for Missed {}

#[derive(Debug)]
pub struct Link {
    socket: OwnedFd,
    decoder: Decoder,
    deadline: Instant,
}

impl Link {
    /// Connects, and makes sure that the other side is ours.
    pub fn connect(path: &Path, deadline: Instant) -> Result<Self, Missed> {
        let address = SocketAddrUnix::new(path).map_err(|_| Missed::Absent)?;
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
            .map_err(|_| Missed::Broken)?;
        let link = Self {
            socket,
            decoder: Decoder::new(),
            deadline,
        };
        // A blocking connect waits while the backlog is full; the send timeout bounds that too.
        link.bound_sending()?;
        match connect(&link.socket, &address) {
            Ok(()) if os::peer_is_us(&link.socket) => Ok(link),
            Ok(()) => Err(Missed::Stranger),
            Err(Errno::NOENT | Errno::CONNREFUSED | Errno::NOTDIR) => Err(Missed::Absent),
            Err(Errno::AGAIN | Errno::INPROGRESS | Errno::TIMEDOUT) => Err(Missed::Slow),
            Err(_) => Err(Missed::Broken),
        }
    }

    /// Sets a new deadline.
    pub fn until(&mut self, deadline: Instant) {
        self.deadline = deadline;
    }

    fn bound_sending(&self) -> Result<(), Missed> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Missed::Slow);
        }
        set_socket_timeout(&self.socket, Timeout::Send, Some(left)).map_err(|_| Missed::Broken)
    }

    pub fn send(&mut self, mut frame: &[u8]) -> Result<(), Missed> {
        loop {
            match send(&self.socket, frame, SendFlags::NOSIGNAL) {
                Ok(sent) => frame = &frame[sent..],
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Err(Missed::Slow),
                // It hung up before it had read everything; it may have said why.
                Err(Errno::PIPE | Errno::CONNRESET) => return Ok(()),
                Err(_) => return Err(Missed::Broken),
            }
            if frame.is_empty() {
                return Ok(());
            }
            self.bound_sending()?;
        }
    }

    pub fn receive(&mut self) -> Result<Response, Missed> {
        let mut buffer = [0; 4096];
        loop {
            if let Some(frame) = self.decoder.next_frame().map_err(|_| Missed::Broken)? {
                return Response::from_frame(frame).map_err(|_| Missed::Broken);
            }
            let left = self.deadline.saturating_duration_since(Instant::now());
            if !readable_within(&self.socket, left) {
                return Err(Missed::Slow);
            }
            match recv(&self.socket, &mut buffer[..], RecvFlags::empty()) {
                Ok((_, 0)) => return Err(Missed::Broken),
                Ok((_, len)) => self.decoder.push(&buffer[..len]),
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(_) => return Err(Missed::Broken),
            }
        }
    }
}
