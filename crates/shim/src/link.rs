//! One connection to the daemon, with a deadline that holds for connecting, sending and receiving.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use becket_wire::Missed;
use becket_wire::frame::Decoder;
use becket_wire::rpc::Response;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv,
    send, socket_with,
};

use crate::os;

/// How long the answer is waited for without going to sleep.
const AWAKE: Duration = Duration::from_micros(200);

#[derive(Debug)]
pub struct Link {
    pub socket: OwnedFd,
    decoder: Decoder,
    pub deadline: Instant,
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

    fn bound_sending(&self) -> Result<(), Missed> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Missed::Slow);
        }
        set_socket_timeout(&self.socket, Timeout::Send, Some(left)).map_err(|_| Missed::Broken)
    }

    pub fn send(&mut self, mut frame: &[u8]) -> Result<(), Missed> {
        while !frame.is_empty() {
            self.bound_sending()?;
            match send(&self.socket, frame, SendFlags::NOSIGNAL) {
                Ok(sent) => frame = &frame[sent..],
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Err(Missed::Slow),
                // It hung up before it had read everything; it may have said why.
                Err(Errno::PIPE | Errno::CONNRESET) => return Ok(()),
                Err(_) => return Err(Missed::Broken),
            }
        }
        Ok(())
    }

    pub fn receive(&mut self) -> Result<Response, Missed> {
        let mut buffer = [0; 512];
        // Most answers come within 0.2 ms, and waking a core that went to sleep takes 40 µs of that.
        let awake = Instant::now() + AWAKE;
        loop {
            if let Some(frame) = self.decoder.next_frame().map_err(|_| Missed::Broken)? {
                return Response::from_frame(frame).map_err(|_| Missed::Broken);
            }
            match recv(&self.socket, &mut buffer[..], RecvFlags::DONTWAIT) {
                Err(Errno::AGAIN) if Instant::now() < awake => std::thread::yield_now(),
                Err(Errno::AGAIN) if readable_until(&self.socket, self.deadline) => {}
                Err(Errno::AGAIN) => return Err(Missed::Slow),
                Err(Errno::INTR) => {}
                Ok((_, 0)) | Err(_) => return Err(Missed::Broken),
                Ok((_, len)) => self.decoder.push(&buffer[..len]),
            }
        }
    }
}

/// Waits until there is something to read, or the end of it; false if neither came in time.
pub(crate) fn readable_until(fd: impl AsFd, deadline: Instant) -> bool {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).unwrap_or_default();
        match poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&left)) {
            Ok(ready) => return ready > 0,
            Err(Errno::INTR) => {}
            Err(_) => return true,
        }
    }
}
