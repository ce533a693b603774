//! One running program: starts it in a session of its own, watches it, and signals it.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Instant;

use jiff::Timestamp;
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, waitid};

use super::clock::{ClockAction, EndReason, TerminationTimer};
use super::output::{KEPT, Pipes, went_async};
use super::proc::{apply, signal_group};
use super::run_file::Listed;
use super::{Job, JobResult, Outcome, Program};
use crate::program::{check, look_up, path_in};

#[derive(Debug)]
pub(super) struct ChildProcess {
    hook: String,
    at: i64,
    started: Instant,
    child: Child,
    pid: Pid,
    /// A pidfd, readable once the program has ended. None on systems without pidfds.
    end: Option<OwnedFd>,
    pipes: Pipes,
    clock: TerminationTimer,
    listed: Option<Listed>,
    exited: bool,
    abandoned: bool,
}

impl ChildProcess {
    /// Starts a program, or says why it did not start.
    pub(super) fn start(job: Job) -> Result<Self, String> {
        let (at, started) = (Timestamp::now().as_millisecond(), Instant::now());
        let mut child = spawn(&job)?;
        let pid = Pid::from_child(&child);
        let listing = job.listing;
        let listed = listing.and_then(|listing| Listed::begin(listing, pid, at, job.timeout));
        Ok(Self {
            hook: job.hook,
            at,
            started,
            pid,
            end: open_pidfd(pid),
            pipes: Pipes::of(&mut child, job.stdin, KEPT),
            child,
            clock: TerminationTimer::start(started, job.timeout),
            listed,
            exited: false,
            abandoned: false,
        })
    }

    /// Returns the descriptors to poll.
    pub(super) fn polled(&self) -> impl Iterator<Item = PollFd<'_>> {
        let end = self.end.as_ref().filter(|_| !self.exited);
        let end = end.map(|end| PollFd::from_borrowed_fd(end.as_fd(), PollFlags::IN));
        self.pipes.polled().chain(end)
    }

    /// Returns true if nothing tells of its end, so that the caller has to look.
    pub(super) fn is_unwatched(&self) -> bool {
        self.end.is_none() && !self.exited
    }

    /// Handles everything that has happened since the last look.
    pub(super) fn advance(&mut self, buffer: &mut [u8], now: Instant) {
        self.pipes.transfer(buffer);
        if !self.exited && self.has_ended() {
            self.exited = true;
            self.pipes.end_input();
            self.clock.exited(now);
        }
        let act = self.clock.act(now);
        self.act(act);
    }

    /// Returns true if the program has ended. It stays a zombie for now, so that its pid is not used again and its
    /// group can be killed.
    fn has_ended(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        !matches!(waitid(WaitId::Pid(self.pid), options), Ok(None))
    }

    pub(super) fn next_deadline(&self) -> Instant {
        self.clock.next
    }

    pub(super) fn cancel(&mut self, now: Instant, why: EndReason) {
        let act = self.clock.cancel(now, why);
        self.act(act);
    }

    fn act(&mut self, act: Option<ClockAction>) {
        if let Some(act) = act {
            self.abandoned |= act == ClockAction::Abandon;
            apply(act, self.pid);
        }
    }

    /// Returns the result so far if it printed `{"async": true}`. It goes on with the time limit that it named.
    pub(super) fn result_if_async(&mut self, now: Instant) -> Option<JobResult> {
        let (len, timeout) = went_async(&self.pipes.stdout.kept)?;
        if let Some(timeout) = timeout {
            self.clock.set(now, timeout);
        }
        let left = self.clock.next.saturating_duration_since(now);
        if let Some(listed) = &mut self.listed {
            listed.went_async(left);
        }
        Some(JobResult {
            at: self.at,
            took: self.started.elapsed(),
            limit: self.clock.limit,
            stdout: self.pipes.stdout.kept[..len].to_vec(),
            ..JobResult::unstarted(self.hook.clone(), Outcome::WentAsync)
        })
    }

    pub(super) fn is_over(&self) -> bool {
        self.abandoned || self.clock.is_over(self.exited, self.pipes.are_closed())
    }

    pub(super) fn finish(mut self, buffer: &mut [u8]) -> JobResult {
        let reason = self.clock.reason();
        if reason.is_some() {
            signal_group(self.pid, Signal::KILL);
        }
        self.pipes.empty(buffer);
        let status = self.child.try_wait().ok().flatten();
        if status.is_none() {
            reap_later(self.child);
        }
        if let Some(listed) = self.listed {
            listed.remove();
        }
        JobResult {
            hook: self.hook,
            at: self.at,
            took: self.started.elapsed(),
            limit: self.clock.limit,
            outcome: outcome(reason, status),
            dropped: self.pipes.dropped(),
            stdout: self.pipes.stdout.kept,
            stderr: self.pipes.stderr.kept,
        }
    }
}

impl From<EndReason> for Outcome {
    fn from(reason: EndReason) -> Self {
        match reason {
            EndReason::TimedOut => Self::TimedOut,
            EndReason::Cancelled => Self::Cancelled,
            EndReason::CutOff => Self::CutOff,
        }
    }
}

/// Waits in another thread for a process that is not dead yet. Without that it would stay a zombie.
pub(super) fn reap_later(mut child: Child) {
    let thread = thread::Builder::new().name("reap".to_owned());
    let _ = thread.spawn(move || child.wait());
}

fn outcome(reason: Option<EndReason>, status: Option<ExitStatus>) -> Outcome {
    let signal = status.and_then(|status| status.signal());
    match (reason, status.and_then(|status| status.code())) {
        (Some(reason), _) => reason.into(),
        (None, Some(code)) => Outcome::Exited(code),
        (None, None) => Outcome::Signalled(signal.unwrap_or_default()),
    }
}

/// Opens a pidfd, which is readable once the process has ended. Returns none on systems without pidfds.
#[cfg(target_os = "linux")]
pub(super) fn open_pidfd(pid: Pid) -> Option<OwnedFd> {
    rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).ok()
}

#[cfg(not(target_os = "linux"))]
pub(super) fn open_pidfd(_: Pid) -> Option<OwnedFd> {
    None
}

/// Starts a program in a session of its own, with pipes on stdin, stdout and stderr. It has no terminal, and
/// its children can be ended with it.
#[expect(
    unsafe_code,
    reason = "a session can be made only between fork and exec"
)]
fn spawn(job: &Job) -> Result<Child, String> {
    let program = program_of(job)?;
    let mut command = Command::new(&program);
    // SAFETY: setsid is a bare system call; nothing is allocated and no lock is taken.
    unsafe {
        command.pre_exec(|| rustix::process::setsid().map(drop).map_err(Into::into));
    }
    match &job.program {
        Program::Shell(line) => command.args(["-c", line]),
        Program::List(words) => command.args(words.iter().skip(1)),
    };
    command
        .current_dir(&job.cwd)
        .env_clear()
        .envs(job.environment.iter().map(|(name, value)| (name, value)))
        .env("BECKET_HOOK", &job.hook)
        .env("CI", "true")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command.spawn().map_err(|error| why(&error, job, &program))
}

/// Returns the path of the program.
fn program_of(job: &Job) -> Result<PathBuf, String> {
    let word = match &job.program {
        Program::Shell(_) => return Ok(PathBuf::from("/bin/sh")),
        Program::List(words) => words.first().map_or("", String::as_str),
    };
    if word.is_empty() {
        return Err("no program is named (run = [\"program\", …])".to_owned());
    }
    if !word.contains('/') {
        return look_up(word, path_in(&job.environment), &job.cwd);
    }
    let program = job.base.join(word);
    check(&program).map(|()| program)
}

/// Says why a program did not start. The system has one error for a missing folder, program and interpreter.
fn why(error: &io::Error, job: &Job, program: &Path) -> String {
    let (cwd, program) = (job.cwd.display(), program.display());
    let not_found = error.kind() == ErrorKind::NotFound;
    if !job.cwd.is_dir() {
        return format!("the session's folder {cwd} is gone");
    }
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        _ if not_found => format!(
            "{program} needs an interpreter that does not exist (see its first line, `#!…`)"
        ),
        Some(Errno::TOOBIG) => "its arguments and environment are too long".to_owned(),
        _ => format!("{program} in {cwd}: {error}"),
    }
}
