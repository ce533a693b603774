//! Two clients of the daemon's socket: one that sends and waits, and one that keeps many connections
//! busy from one thread.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use becket_wire::frame::{Decoder, FrameKind};
use becket_wire::rpc::{Ask, AskReply, DaemonStatus, Request, Response};
use becket_wire::session::SessionQuery;
use rustix::event::{Timespec, epoll};

use crate::event::{Frames, now_ms};
use crate::samples::Samples;

/// The time limit for an answer. A slower answer ends the run with an error.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A client with one connection.
#[derive(Debug)]
pub struct Client {
    stream: UnixStream,
    decoder: Decoder,
}

impl Client {
    pub fn connect(socket: &Path) -> Result<Self> {
        let stream = UnixStream::connect(socket)
            .with_context(|| format!("could not connect to {}", socket.display()))?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        Ok(Self {
            stream,
            decoder: Decoder::new(),
        })
    }

    /// Sends one event and waits for its answer.
    pub fn event(&mut self, frame: &[u8]) -> Result<()> {
        self.stream.write_all(frame)?;
        match self.receive()? {
            Response::Answer { .. } => Ok(()),
            other => bail!("the daemon answered an event with {other:?}"),
        }
    }

    pub fn status(&mut self) -> Result<DaemonStatus> {
        self.stream
            .write_all(&Request::Ask(Ask::Status).to_frame()?)?;
        match self.receive()? {
            Response::Reply(AskReply::Status(status)) => Ok(*status),
            other => bail!("the daemon answered a question with {other:?}"),
        }
    }

    /// Returns the number of live sessions.
    pub fn sessions(&mut self) -> Result<usize> {
        let ask = Request::Ask(Ask::Sessions(SessionQuery::default()));
        self.stream.write_all(&ask.to_frame()?)?;
        match self.receive()? {
            Response::Reply(AskReply::Sessions(rows)) => Ok(rows.len()),
            other => bail!("the daemon answered a question with {other:?}"),
        }
    }

    fn receive(&mut self) -> Result<Response> {
        let mut buffer = [0; 4096];
        loop {
            if let Some(frame) = self.decoder.next_frame()? {
                return Ok(Response::from_frame(frame)?);
            }
            match self.stream.read(&mut buffer)? {
                0 => bail!("the daemon hung up"),
                len => self.decoder.push(&buffer[..len]),
            }
        }
    }
}

/// The end of sending.
#[derive(Debug, Clone, Copy)]
pub enum Until {
    Time(Duration),
    Count(usize),
}

/// The answers to the events of a crowd.
#[derive(Debug, Default)]
pub struct CrowdResult {
    pub replies: Samples,
    pub answered: usize,
    /// The number of responses that are no answer, such as `Busy`.
    pub refused: usize,
    pub took: Duration,
}

impl CrowdResult {
    /// Returns the number of answered events a second.
    pub fn rate(&self) -> f64 {
        self.answered as f64 / self.took.as_secs_f64()
    }
}

/// One connection of a crowd.
#[derive(Debug)]
struct Caller {
    stream: UnixStream,
    decoder: Decoder,
    sent: Option<Instant>,
}

/// Many connections, each of which sends an event, waits for the answer, and sends the next. The server
/// runs on the same cores, so the crowd itself has to cost little: epoll names the connections that have
/// an answer.
#[derive(Debug)]
pub struct Crowd {
    callers: Vec<Caller>,
    answered: OwnedFd,
}

impl Crowd {
    pub fn connect(socket: &Path, size: usize) -> Result<Self> {
        let callers: Vec<Caller> = (0..size)
            .map(|_| Caller::connect(socket))
            .collect::<Result<_>>()?;
        let answered = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        for (at, caller) in callers.iter().enumerate() {
            let at = epoll::EventData::new_u64(at as u64);
            epoll::add(&answered, &caller.stream, at, epoll::EventFlags::IN)?;
        }
        Ok(Self { callers, answered })
    }

    /// Keeps every connection busy, and waits for all answers at the end.
    pub fn send(&mut self, frames: &mut Frames, until: Until) -> Result<CrowdResult> {
        let begin = Instant::now();
        let mut result = CrowdResult::default();
        let mut ready = Vec::with_capacity(self.callers.len());
        let mut sent = 0;
        let more = |sent: usize| match until {
            Until::Time(time) => begin.elapsed() < time,
            Until::Count(count) => sent < count,
        };
        for caller in &mut self.callers {
            if more(sent) {
                caller.call(frames)?;
                sent += 1;
            }
        }
        while result.answered + result.refused < sent {
            self.wait(&mut ready)?;
            for event in &ready {
                let caller = &mut self.callers[event.data.u64() as usize];
                let Some(kind) = caller.take(&mut result)? else {
                    continue;
                };
                if kind == FrameKind::ANSWER {
                    result.answered += 1;
                } else {
                    result.refused += 1;
                }
                if more(sent) {
                    caller.call(frames)?;
                    sent += 1;
                }
            }
        }
        result.took = begin.elapsed();
        Ok(result)
    }

    /// Waits until a connection has an answer.
    fn wait(&self, ready: &mut Vec<epoll::Event>) -> Result<()> {
        let timeout = Timespec {
            tv_sec: TIMEOUT.as_secs() as i64,
            tv_nsec: 0,
        };
        ready.clear();
        let room = rustix::buffer::spare_capacity(ready);
        if epoll::wait(&self.answered, room, Some(&timeout))? == 0 {
            bail!("no answer came for {TIMEOUT:?}");
        }
        Ok(())
    }
}

impl Caller {
    fn connect(socket: &Path) -> Result<Self> {
        let stream = UnixStream::connect(socket)
            .with_context(|| format!("could not connect to {}", socket.display()))?;
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream,
            decoder: Decoder::new(),
            sent: None,
        })
    }

    fn call(&mut self, frames: &mut Frames) -> Result<()> {
        let frame = frames.next_frame(now_ms());
        self.sent = Some(Instant::now());
        // One frame is far smaller than a socket's buffer, and only one is in flight.
        self.stream.write_all(frame).context("could not send")
    }

    /// Reads the answer. Returns its kind if the answer is complete.
    fn take(&mut self, result: &mut CrowdResult) -> Result<Option<FrameKind>> {
        let mut buffer = [0; 1024];
        match self.stream.read(&mut buffer) {
            Ok(0) => bail!("the daemon hung up"),
            Ok(len) => self.decoder.push(&buffer[..len]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error).context("could not read an answer"),
        }
        let Some(frame) = self.decoder.next_frame()? else {
            return Ok(None);
        };
        if let Some(sent) = self.sent.take() {
            result.replies.push(sent.elapsed());
        }
        Ok(Some(frame.kind))
    }
}
