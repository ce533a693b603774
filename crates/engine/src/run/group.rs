//! The process group of a program: how it is signalled, and what others see of it.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;

use becket_wire::process::{parent_and_start, process_state};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process_group};

use super::clock::Act;

/// What somebody sees of a group who did not start its leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    /// Its leader runs.
    Runs,
    /// Its leader has ended, others are there still: as long as they are, its number is no other's.
    Leaderless,
    /// It is gone; its number may be another's by now.
    Gone,
}

/// Does what the clock says. Whoever calls knows that the number is still this group's.
pub(super) fn obey(act: Act, group: Pid) {
    match act {
        Act::Terminate => {
            signal(group, Signal::TERM);
            // Who was stopped (by reading from a terminal, say) hears nothing until it goes on.
            signal(group, Signal::CONT);
        }
        Act::Kill => signal(group, Signal::KILL),
        Act::Leave => {}
    }
}

/// Signals the group, and its leader where that is not (yet) in one: `setsid` has still to make it.
pub(super) fn signal(group: Pid, signal: Signal) {
    if kill_process_group(group, signal).is_err() || signal == Signal::KILL {
        let _ = kill_process(group, signal);
    }
}

/// When its leader was started, in clock ticks since boot. None where the system does not tell.
pub(super) fn started(leader: Pid) -> Option<u64> {
    Some(parent_and_start(&stat(leader).ok()?)?.1)
}

/// What there is of a group whose leader was started then. None if that cannot be seen now.
pub(super) fn look_at(group: Pid, start: u64) -> Option<Seen> {
    match stat(group) {
        Ok(stat) if parent_and_start(&stat)?.1 != start => Some(Seen::Gone),
        Ok(stat) if !matches!(process_state(&stat), Some('Z' | 'X')) => Some(Seen::Runs),
        Ok(_) => Some(without_leader(group)),
        Err(why) if is_absence(&why) => Some(without_leader(group)),
        Err(_) => None,
    }
}

fn without_leader(group: Pid) -> Seen {
    match test_kill_process_group(group) {
        Err(Errno::SRCH) => Seen::Gone,
        _ => Seen::Leaderless,
    }
}

/// A process may end between the opening of its file and the reading.
fn is_absence(why: &io::Error) -> bool {
    why.kind() == ErrorKind::NotFound || Errno::from_io_error(why) == Some(Errno::SRCH)
}

/// The name in it may be no text.
fn stat(pid: Pid) -> io::Result<String> {
    let line = fs::read(format!("/proc/{}/stat", pid.as_raw_nonzero()))?;
    Ok(String::from_utf8_lossy(&line).into_owned())
}

/// Readable when the process has ended. None where the system has no such thing.
#[cfg(target_os = "linux")]
pub(super) fn notice_of_end(pid: Pid) -> Option<OwnedFd> {
    rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).ok()
}

#[cfg(not(target_os = "linux"))]
pub(super) fn notice_of_end(_: Pid) -> Option<OwnedFd> {
    None
}
