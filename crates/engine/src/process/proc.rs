//! Reads the state of processes and threads in `/proc`, and signals process groups.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::PathBuf;

use becket_wire::process::{group_and_session, parent_and_start, process_state};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process_group};

use super::clock::ClockAction;

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
        ClockAction::Abandon => {}
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

/// Looks at a group whose leader was started at `start`. One that cannot be seen now counts as running.
pub(super) fn look_at(group: i32, start: u64) -> GroupState {
    let Some(group) = Pid::from_raw(group.max(0)) else {
        return GroupState::Gone;
    };
    match stat(group) {
        Ok(stat) if parent_and_start(&stat).is_some_and(|(_, it)| it != start) => GroupState::Gone,
        Ok(stat) if !matches!(process_state(&stat), Some('Z' | 'X')) => GroupState::Runs,
        Err(why) if !is_absence(&why) => GroupState::Runs,
        _ if test_kill_process_group(group) == Err(Errno::SRCH) => GroupState::Gone,
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

/// The file in which the system shows the state of a thread of this process, to tell a thread that waits for a file
/// system from one that waits for a processor; none if the system shows none.
#[derive(Debug, Clone)]
pub struct ThreadFile(Option<PathBuf>);

impl ThreadFile {
    /// Returns the file of the calling thread.
    pub fn current() -> Self {
        let link = fs::read_link("/proc/thread-self").ok();
        Self(link.map(|thread| PathBuf::from("/proc").join(thread).join("stat")))
    }

    /// Returns true if the thread waits for something other than a processor.
    pub fn sleeps(&self) -> bool {
        let stat = self.0.as_ref().and_then(|file| fs::read(file).ok());
        let state = stat.and_then(|stat| process_state(&String::from_utf8_lossy(&stat)));
        state != Some('R')
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn a_thread_that_waits_is_told_from_one_that_computes() {
        let (tell, told) = channel();
        let (stop, wait) = channel::<()>();
        let waiting = tell.clone();
        let waits = std::thread::spawn(move || {
            waiting.send(ThreadFile::current()).unwrap();
            let _ = wait.recv();
        });
        let waiting = told.recv().unwrap();
        while !waiting.sleeps() {
            std::thread::yield_now();
        }
        assert!(!ThreadFile::current().sleeps(), "this one runs");
        drop(stop);
        waits.join().unwrap();
        assert!(waiting.sleeps(), "a thread that has ended");
    }
}
