//! One program that runs.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStderr, ChildStdout, ExitStatus};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::event::PollFlags;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, waitid};

use super::capture::{Capture, Feed};
use super::clock::{Act, Clock, Reason};
use super::file::Listed;
use super::group;
use super::said::went_async;
use super::spawn::{Apart, spawn};
use super::{Job, Outcome, Ran};

/// What there is still to read from a program that has ended: more than a pipe holds.
const LAST_READS: usize = 32;

/// What may be ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Port {
    End,
    Stdin,
    Stdout,
    Stderr,
}

#[derive(Debug)]
pub(super) struct Running {
    hook: String,
    at: i64,
    started: Instant,
    child: Child,
    pid: Pid,
    /// Readable when the program has ended. None where the system has no such thing.
    end: Option<OwnedFd>,
    stdin: Feed,
    stdout: Capture<ChildStdout>,
    stderr: Capture<ChildStderr>,
    clock: Clock,
    listed: Option<Listed>,
    exited: bool,
    left: bool,
}

impl Running {
    pub(super) fn start(job: Job, apart: &Apart) -> Result<Self, Box<Ran>> {
        let (at, started) = (milliseconds(), Instant::now());
        let mut child = match spawn(&job, apart) {
            Ok(child) => child,
            Err(why) => {
                let ran = Ran::unstarted(job.hook, Outcome::NotStarted(why));
                return Err(Box::new(Ran {
                    at,
                    took: started.elapsed(),
                    ..ran
                }));
            }
        };
        let pid = Pid::from_child(&child);
        let listing = job.listing;
        let listed = listing.and_then(|listing| Listed::begin(listing, pid, at, job.timeout));
        Ok(Self {
            hook: job.hook,
            at,
            started,
            pid,
            end: group::notice_of_end(pid),
            stdin: Feed::begin(child.stdin.take(), job.stdin),
            stdout: Capture::of(child.stdout.take()),
            stderr: Capture::of(child.stderr.take()),
            child,
            clock: Clock::start(started, job.timeout),
            listed,
            exited: false,
            left: false,
        })
    }

    /// What to poll for it.
    pub(super) fn ports(&self) -> impl Iterator<Item = (Port, BorrowedFd<'_>, PollFlags)> {
        let end = self.end.as_ref().filter(|_| !self.exited);
        [
            (Port::End, end.map(AsFd::as_fd), PollFlags::IN),
            (Port::Stdin, self.stdin.pipe(), PollFlags::OUT),
            (Port::Stdout, self.stdout.pipe(), PollFlags::IN),
            (Port::Stderr, self.stderr.pipe(), PollFlags::IN),
        ]
        .into_iter()
        .filter_map(|(port, pipe, flags)| Some((port, pipe?, flags)))
    }

    pub(super) fn ready(&mut self, port: Port, buffer: &mut [u8], now: Instant) {
        match port {
            Port::End => self.ended(now),
            Port::Stdin => self.stdin.write(),
            Port::Stdout => drop(self.stdout.read(buffer)),
            Port::Stderr => drop(self.stderr.read(buffer)),
        }
    }

    /// Whether its end has to be looked for, because nobody tells it.
    pub(super) fn is_unwatched(&self) -> bool {
        self.end.is_none() && !self.exited
    }

    /// It stays a zombie for now: while it does, its number is nobody else's, and its group can be
    /// killed.
    pub(super) fn look_for_end(&mut self, now: Instant) {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        if self.is_unwatched() && !matches!(waitid(WaitId::Pid(self.pid), options), Ok(None)) {
            self.ended(now);
        }
    }

    fn ended(&mut self, now: Instant) {
        self.exited = true;
        self.stdin.end();
        self.clock.exited(now);
    }

    pub(super) fn next(&self) -> Instant {
        self.clock.next()
    }

    pub(super) fn tick(&mut self, now: Instant) {
        let act = self.clock.act(now);
        self.act(act);
    }

    pub(super) fn cancel(&mut self, now: Instant, why: Reason) {
        let act = self.clock.cancel(now, why);
        self.act(act);
    }

    fn act(&mut self, act: Option<Act>) {
        if let Some(act) = act {
            self.left |= act == Act::Leave;
            group::obey(act, self.pid);
        }
    }

    /// If it said `{"async": true}`: what there is to say of it so far. It goes on under the time
    /// that it named.
    pub(super) fn went_async(&mut self, now: Instant) -> Option<Ran> {
        let (len, timeout) = went_async(&self.stdout.kept)?;
        if let Some(timeout) = timeout {
            self.clock.set(now, timeout);
        }
        let left = self.clock.next().saturating_duration_since(now);
        if let Some(listed) = &mut self.listed {
            listed.went_async(left);
        }
        Some(Ran {
            hook: self.hook.clone(),
            at: self.at,
            took: self.started.elapsed(),
            limit: self.clock.limit(),
            outcome: Outcome::WentAsync,
            stdout: self.stdout.kept[..len].to_vec(),
            stderr: Vec::new(),
            dropped: 0,
        })
    }

    pub(super) fn is_over(&self) -> bool {
        let closed = self.stdout.is_closed() && self.stderr.is_closed();
        self.left || self.clock.is_over(self.exited, closed)
    }

    pub(super) fn finish(mut self, buffer: &mut [u8]) -> Ran {
        let reason = self.clock.reason();
        if reason.is_some() {
            group::signal(self.pid, Signal::KILL);
        }
        for _ in 0..LAST_READS {
            if !self.stdout.read(buffer) & !self.stderr.read(buffer) {
                break;
            }
        }
        let status = self.child.try_wait().ok().flatten();
        if status.is_none() {
            bury(self.child);
        }
        if let Some(listed) = self.listed {
            listed.remove();
        }
        Ran {
            hook: self.hook,
            at: self.at,
            took: self.started.elapsed(),
            limit: self.clock.limit(),
            outcome: outcome(reason, status),
            stdout: self.stdout.kept,
            stderr: self.stderr.kept,
            dropped: self.stdout.dropped + self.stderr.dropped,
        }
    }
}

impl From<Reason> for Outcome {
    fn from(reason: Reason) -> Self {
        match reason {
            Reason::TimedOut => Self::TimedOut,
            Reason::Cancelled => Self::Cancelled,
            Reason::CutOff => Self::CutOff,
        }
    }
}

/// Waits for whoever could not be killed in time: nobody else would, and its number stays taken.
fn bury(mut child: Child) {
    let thread = thread::Builder::new().name("burial".to_owned());
    let _ = thread.spawn(move || child.wait());
}

fn outcome(reason: Option<Reason>, status: Option<ExitStatus>) -> Outcome {
    let signal = status.and_then(|status| status.signal());
    match (reason, status.and_then(|status| status.code())) {
        (Some(reason), _) => reason.into(),
        (None, Some(code)) => Outcome::Exited(code),
        (None, None) => Outcome::Signalled(signal.unwrap_or_default()),
    }
}

pub(super) fn milliseconds() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    i64::try_from(since.unwrap_or(Duration::ZERO).as_millis()).unwrap_or(i64::MAX)
}
