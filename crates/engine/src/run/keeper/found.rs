//! Programs whose runner was killed in the moment in which it had started them: which they are nobody
//! could say any more.

use std::fs;
use std::path::{Path, PathBuf};

use becket_wire::process::{group_and_session, parent_and_start};
use rustix::process::{Pid, getpid};

use super::super::group;
use super::{Start, TOKEN};

/// How often somebody's environment is looked for.
const LOOKS: usize = 2000;

/// A program that leads a group, and has a token.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) pid: i32,
    pub(super) start: u64,
    token: Vec<u8>,
    session: Session,
}

#[derive(Debug, PartialEq, Eq)]
enum Session {
    /// That in which the keeper is, and whoever started both.
    Ours,
    /// It leads one.
    Own,
    Another,
}

impl Found {
    /// Whether it can be the program that was started so. A group's leader cannot change its session:
    /// who has another was started by a program, to stay.
    pub(super) fn is_of(&self, start: &Start) -> bool {
        let session = match start.own_session {
            true => Session::Own,
            false => Session::Ours,
        };
        self.session == session && self.token == start.token.as_bytes()
    }
}

/// The programs that have fallen to this parent, and were started no later than that. The one who
/// takes in orphans is their parent only if whoever ran them is gone.
pub(super) fn orphans(parent: Pid, no_later: Option<u64>) -> Vec<Found> {
    let Ok(processes) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let numbers = processes
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let ours = group::group_and_session_of(getpid()).map(|(_, session)| session);
    numbers
        .filter_map(Pid::from_raw)
        .filter_map(|pid| {
            let stat = group::stat(pid).ok()?;
            let (above, start) = parent_and_start(&stat)?;
            let (its_group, session) = group_and_session(&stat)?;
            let may_be_one = group::is(parent, above)
                && group::is(pid, its_group)
                && no_later.is_none_or(|no_later| start <= no_later);
            Some(Found {
                pid: pid.as_raw_nonzero().get(),
                start,
                token: may_be_one.then(|| token_of(pid))??,
                session: kind_of(session, pid, ours),
            })
        })
        .collect()
}

fn kind_of(session: u32, pid: Pid, ours: Option<u32>) -> Session {
    match session {
        own if group::is(pid, own) => Session::Own,
        other if Some(other) == ours => Session::Ours,
        _ => Session::Another,
    }
}

fn token_of(pid: Pid) -> Option<Vec<u8>> {
    let folder = PathBuf::from(format!("/proc/{}", pid.as_raw_nonzero()));
    // While one program takes another's place there is nothing to be read, for less than a millisecond.
    let look = |_| {
        let environment = environment_in(&folder).or_else(|| environment_of_threads(&folder));
        if environment.is_none() {
            std::thread::yield_now();
        }
        environment
    };
    let environment = (0..LOOKS).find_map(look)?;
    environment
        .split(|byte| *byte == 0)
        .find_map(|one| one.strip_prefix(TOKEN.as_bytes())?.strip_prefix(b"="))
        .map(<[u8]>::to_vec)
}

fn environment_in(folder: &Path) -> Option<Vec<u8>> {
    let environment = fs::read(folder.join("environ")).ok()?;
    (!environment.is_empty()).then_some(environment)
}

/// Of a process whose main thread has ended nothing else is to be read.
fn environment_of_threads(folder: &Path) -> Option<Vec<u8>> {
    let threads = fs::read_dir(folder.join("task")).ok()?;
    threads
        .flatten()
        .find_map(|thread| environment_in(&thread.path()))
}

#[cfg(test)]
mod tests;
