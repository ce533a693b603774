//! Runs one command to its end, within bounds: git, tmux, checkers, a status line. Hooks run in
//! [`RunningJobs`](super::RunningJobs).

use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal};

use super::Cancel;
use super::child::{open_pidfd, reap_later};
use super::clock::{CancelScope, LAST_OUTPUT_WAIT};
use super::jobs::{BUFFER, LOOK};
use super::output::Pipes;
use super::proc::signal_group;

/// The bounds of a command.
#[derive(Debug, Clone, Copy, Default)]
pub struct Bounds<'a> {
    /// The time after which it is killed, if any.
    pub time: Option<Duration>,
    /// The number of bytes to keep of each of stdout and stderr.
    pub bytes: usize,
    /// True if it leads a process group of its own, which is killed with it.
    pub own_group: bool,
    pub cancel: Option<&'a Cancel>,
}

/// A command that has ended.
#[derive(Debug)]
pub struct FinishedCommand {
    /// None if it was killed, because its time was up or it was cancelled.
    pub status: Option<ExitStatus>,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    /// The number of bytes beyond the bound.
    pub dropped: u64,
}

impl FinishedCommand {
    pub fn success(&self) -> bool {
        self.status.is_some_and(|status| status.success())
    }

    /// Says for people how it ended.
    pub fn end(&self) -> String {
        let status = self.status.map(|status| status.to_string());
        status.unwrap_or_else(|| "a kill: its time was up".to_owned())
    }
}

/// Runs a command with `stdin`. Processes that it leaves behind are not waited for.
pub fn run_command(
    command: &mut Command,
    stdin: &[u8],
    bounds: &Bounds<'_>,
) -> io::Result<FinishedCommand> {
    if bounds.own_group {
        command.process_group(0);
    }
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let pid = Pid::from_child(&child);
    let end = open_pidfd(pid);
    let mut pipes = Pipes::of(&mut child, stdin.into(), bounds.bytes);
    let mut buffer = vec![0; BUFFER];
    let mut until = bounds.time.map(|time| Instant::now() + time);
    let mut status = None;
    loop {
        if status.is_none() {
            status = child.try_wait()?;
            if status.is_some() {
                pipes.end_input();
                let rest = Instant::now() + LAST_OUTPUT_WAIT;
                until = Some(until.map_or(rest, |until| until.min(rest)));
            }
        }
        let now = Instant::now();
        let over = status.is_some() && pipes.are_closed();
        let cancelled = bounds.cancel.is_some_and(Cancel::is_cancelled);
        if over || cancelled || until.is_some_and(|until| until <= now) {
            break;
        }
        let mut polled: Vec<PollFd<'_>> = pipes.polled().collect();
        if let (Some(end), None) = (&end, status) {
            polled.push(PollFd::from_borrowed_fd(end.as_fd(), PollFlags::IN));
        }
        let cancel = bounds.cancel;
        polled.extend(cancel.and_then(|cancel| cancel.wake_rx(CancelScope::Nothing)));
        let look = end.is_none().then(|| now + LOOK);
        let next = until.into_iter().chain(look).min();
        let left = next.and_then(|next| Timespec::try_from(next - now).ok());
        // After an interruption the pipes have nothing, and the loop looks again.
        let _ = poll(&mut polled, left.as_ref());
        pipes.transfer(&mut buffer);
    }
    if status.is_none() {
        if bounds.own_group {
            signal_group(pid, Signal::KILL);
        } else {
            drop(child.kill());
        }
        reap_later(child);
    }
    pipes.empty(&mut buffer);
    Ok(FinishedCommand {
        status,
        dropped: pipes.dropped(),
        stdout: pipes.stdout.kept,
        stderr: pipes.stderr.kept,
    })
}

#[cfg(test)]
mod tests {
    use rustix::process::kill_process;

    use super::*;

    fn sh(line: &str, bounds: &Bounds<'_>) -> FinishedCommand {
        let mut sh = Command::new("/bin/sh");
        run_command(sh.args(["-c", line]), b"in", bounds).unwrap()
    }

    const WIDE: Bounds<'_> = Bounds {
        time: Some(Duration::from_secs(60)),
        bytes: 1000,
        own_group: true,
        cancel: None,
    };

    #[test]
    fn it_is_fed_and_read_within_bounds() {
        let done = sh("cat; head -c 5000 /dev/zero >&2; exit 3", &WIDE);
        assert_eq!(done.status.and_then(|status| status.code()), Some(3));
        let sizes = (done.stderr.len(), done.dropped);
        assert_eq!((&*done.stdout, sizes), (&b"in"[..], (1000, 4000)));
    }

    #[test]
    fn what_it_leaves_behind_is_not_waited_for() {
        let began = Instant::now();
        let done = sh("sleep 600 & echo $!", &WIDE);
        let left = String::from_utf8(done.stdout).unwrap();
        kill_process(
            Pid::from_raw(left.trim().parse().unwrap()).unwrap(),
            Signal::KILL,
        )
        .unwrap();
        assert!(done.status.is_some() && began.elapsed() < Duration::from_secs(60));
    }

    #[test]
    fn it_is_killed_with_its_children_when_its_time_is_up_or_it_is_cancelled() {
        let time = Bounds {
            time: Some(Duration::from_millis(300)),
            ..WIDE
        };
        assert!(sh("sleep 600 & wait", &time).status.is_none());
        let cancel = Cancel::new();
        let cancelled = Bounds {
            cancel: Some(&cancel),
            ..WIDE
        };
        std::thread::scope(|scope| {
            scope.spawn(|| cancel.cancel());
            assert!(sh("sleep 600 & wait", &cancelled).status.is_none());
        });
    }
}
