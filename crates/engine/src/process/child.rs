//! One running program: starts it in a session of its own, watches it, and signals it.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use becket_wire::process::{group_and_session, parent_and_start, process_state};
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, test_kill_process_group,
    waitid,
};

use super::clock::{Clock, ClockAction, EndReason};
use super::output::{Capture, Feed, KEPT, went_async};
use super::run_file::Listed;
use super::{Job, JobResult, Outcome, Program};
use crate::program::is_executable;

/// The number of reads that empty the pipes of a program that has ended.
pub(super) const LAST_READS: usize = 32;

/// A descriptor of a running program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Port {
    End,
    Stdin,
    Stdout,
    Stderr,
}

#[derive(Debug)]
pub(super) struct ChildProcess {
    hook: String,
    at: i64,
    started: Instant,
    child: Child,
    pid: Pid,
    /// A pidfd, readable once the program has ended. None on systems without pidfds.
    end: Option<OwnedFd>,
    stdin: Feed,
    stdout: Capture<ChildStdout>,
    stderr: Capture<ChildStderr>,
    clock: Clock,
    listed: Option<Listed>,
    exited: bool,
    left: bool,
}

impl ChildProcess {
    pub(super) fn start(job: Job) -> Result<Self, Box<JobResult>> {
        let (at, started) = (milliseconds(), Instant::now());
        let mut child = match spawn(&job) {
            Ok(child) => child,
            Err(why) => {
                let ran = JobResult::unstarted(job.hook, Outcome::NotStarted(why));
                return Err(Box::new(JobResult {
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
            end: notice_of_end(pid),
            stdin: Feed::begin(child.stdin.take(), job.stdin),
            stdout: Capture::of(child.stdout.take(), KEPT),
            stderr: Capture::of(child.stderr.take(), KEPT),
            child,
            clock: Clock::start(started, job.timeout),
            listed,
            exited: false,
            left: false,
        })
    }

    /// Returns the descriptors to poll.
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

    pub(super) fn handle_ready(&mut self, port: Port, buffer: &mut [u8], now: Instant) {
        match port {
            Port::End => self.ended(now),
            Port::Stdin => self.stdin.write(),
            Port::Stdout => drop(self.stdout.read(buffer)),
            Port::Stderr => drop(self.stderr.read(buffer)),
        }
    }

    /// Returns true if nothing tells of its end, so that the caller has to look.
    pub(super) fn is_unwatched(&self) -> bool {
        self.end.is_none() && !self.exited
    }

    /// Looks whether it has ended, where nothing tells. The program stays a zombie for now, so that its pid is
    /// not used again and its group can be killed.
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

    pub(super) fn next_deadline(&self) -> Instant {
        self.clock.next()
    }

    pub(super) fn tick(&mut self, now: Instant) {
        let act = self.clock.act(now);
        self.act(act);
    }

    pub(super) fn cancel(&mut self, now: Instant, why: EndReason) {
        let act = self.clock.cancel(now, why);
        self.act(act);
    }

    fn act(&mut self, act: Option<ClockAction>) {
        if let Some(act) = act {
            self.left |= act == ClockAction::Leave;
            apply(act, self.pid);
        }
    }

    /// Returns the result so far if it printed `{"async": true}`. It goes on with the time limit that it named.
    pub(super) fn result_if_async(&mut self, now: Instant) -> Option<JobResult> {
        let (len, timeout) = went_async(&self.stdout.kept)?;
        if let Some(timeout) = timeout {
            self.clock.set(now, timeout);
        }
        let left = self.clock.next().saturating_duration_since(now);
        if let Some(listed) = &mut self.listed {
            listed.went_async(left);
        }
        Some(JobResult {
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

    pub(super) fn finish(mut self, buffer: &mut [u8]) -> JobResult {
        let reason = self.clock.reason();
        if reason.is_some() {
            signal_group(self.pid, Signal::KILL);
        }
        for _ in 0..LAST_READS {
            if !self.stdout.read(buffer) & !self.stderr.read(buffer) {
                break;
            }
        }
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
            limit: self.clock.limit(),
            outcome: outcome(reason, status),
            stdout: self.stdout.kept,
            stderr: self.stderr.kept,
            dropped: self.stdout.dropped + self.stderr.dropped,
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

pub(super) fn milliseconds() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    i64::try_from(since.unwrap_or(Duration::ZERO).as_millis()).unwrap_or(i64::MAX)
}

/// The state of a process group whose leader another process started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GroupState {
    /// The leader runs.
    Runs,
    /// The leader has ended and others still run. Until they end, no other group gets this number.
    Leaderless,
    /// All have ended. Another group may have the number by now.
    Gone,
}

/// Signals a group as the clock demands. The caller knows that the number is still this group's.
pub(super) fn apply(act: ClockAction, group: Pid) {
    match act {
        ClockAction::Terminate => {
            signal_group(group, Signal::TERM);
            // A stopped process (by reading from a terminal, say) gets no signal until it goes on.
            signal_group(group, Signal::CONT);
        }
        ClockAction::Kill => signal_group(group, Signal::KILL),
        ClockAction::Leave => {}
    }
}

/// Signals the process group of a hook, and processes that left the group but not the session. A process that
/// left the session goes on.
pub(super) fn signal_group(group: Pid, signal: Signal) {
    if kill_process_group(group, signal).is_err() || signal == Signal::KILL {
        let _ = kill_process(group, signal);
    }
    for pid in others_in_session(group) {
        let _ = kill_process(pid, signal);
    }
}

/// Returns the processes of a session that are not in its leader's group.
fn others_in_session(leader: Pid) -> Vec<Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let pids = pids.filter_map(Pid::from_raw);
    let leader = leader.as_raw_nonzero().get();
    let is_other = |pid: &Pid| {
        let group = stat(*pid).ok().and_then(|stat| group_and_session(&stat));
        group.is_some_and(|(group, session)| session == leader && group != leader)
    };
    pids.filter(is_other).collect()
}

/// Returns the start time of a process in clock ticks since boot; none on systems without /proc.
pub(super) fn started(leader: Pid) -> Option<u64> {
    Some(parent_and_start(&stat(leader).ok()?)?.1)
}

/// Looks at a group whose leader was started at `start`. Returns none if it cannot be seen now.
pub(super) fn look_at(group: Pid, start: u64) -> Option<GroupState> {
    match stat(group) {
        Ok(stat) if parent_and_start(&stat)?.1 != start => Some(GroupState::Gone),
        Ok(stat) if !matches!(process_state(&stat), Some('Z' | 'X')) => Some(GroupState::Runs),
        Ok(_) => Some(without_leader(group)),
        Err(why) if is_absence(&why) => Some(without_leader(group)),
        Err(_) => None,
    }
}

fn without_leader(group: Pid) -> GroupState {
    match test_kill_process_group(group) {
        Err(Errno::SRCH) => GroupState::Gone,
        _ => GroupState::Leaderless,
    }
}

/// A process may end between the opening of its file and the reading.
fn is_absence(why: &io::Error) -> bool {
    why.kind() == ErrorKind::NotFound || Errno::from_io_error(why) == Some(Errno::SRCH)
}

/// Reads /proc/PID/stat. The name in it need not be UTF-8.
fn stat(pid: Pid) -> io::Result<String> {
    let line = fs::read(format!("/proc/{}/stat", pid.as_raw_nonzero()))?;
    Ok(String::from_utf8_lossy(&line).into_owned())
}

/// Opens a pidfd, which is readable once the process has ended. Returns none on systems without pidfds.
#[cfg(target_os = "linux")]
pub(super) fn notice_of_end(pid: Pid) -> Option<OwnedFd> {
    rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).ok()
}

#[cfg(not(target_os = "linux"))]
pub(super) fn notice_of_end(_: Pid) -> Option<OwnedFd> {
    None
}

/// The `PATH` of an environment that has none.
const USUAL_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Starts a program in a session of its own, with pipes on stdin, stdout and stderr. It has no terminal, and
/// its children can be ended with it.
#[expect(
    unsafe_code,
    reason = "a session can be made only between fork and exec"
)]
pub(super) fn spawn(job: &Job) -> Result<Child, String> {
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
        return look_up(word, job);
    }
    let program = job.base.join(word);
    check(&program).map(|()| program)
}

fn look_up(word: &str, job: &Job) -> Result<PathBuf, String> {
    let path = path_in(&job.environment);
    let mut not_executable = None;
    for folder in std::env::split_paths(path) {
        let program = job.cwd.join(folder).join(word);
        match check(&program) {
            Ok(()) => return Ok(program),
            Err(why) if program.is_file() => not_executable = not_executable.or(Some(why)),
            Err(_) => {}
        }
    }
    Err(not_executable.unwrap_or_else(|| format!("no program \"{word}\" is in the PATH")))
}

/// Returns the `PATH` of an environment.
pub fn path_in(environment: &[(OsString, OsString)]) -> &OsStr {
    let path = environment.iter().rfind(|(name, _)| name == "PATH");
    path.map_or(OsStr::new(USUAL_PATH), |(_, value)| value)
}

fn check(program: &Path) -> Result<(), String> {
    let shown = program.display();
    match program.metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => Err(format!("{shown} does not exist")),
        Err(error) => Err(format!("{shown} cannot be looked at: {error}")),
        Ok(what) if what.is_dir() => Err(format!("{shown} is a folder")),
        Ok(_) if !is_executable(program) => Err(format!(
            "{shown} is not executable (try `chmod +x {shown}`)"
        )),
        Ok(_) => Ok(()),
    }
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
