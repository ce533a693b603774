//! Programs whose runner was killed in the moment in which it had started them: which they are nobody
//! could say any more.

use std::fs;

use rustix::process::{Pid, getpgid};

use super::super::group;

/// A program that leads a group, and says which hook it is.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) pid: i32,
    pub(super) start: u64,
}

/// The programs of that hook that have fallen to this parent, and were started since then. The one who
/// takes in orphans is their parent only if whoever ran them is gone.
pub(super) fn orphans(hook: &str, parent: Pid, since: u64) -> Vec<Found> {
    let Ok(processes) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let numbers = processes
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers
        .filter_map(Pid::from_raw)
        .filter_map(|pid| {
            let (above, start) = group::parent_and_start_of(pid)?;
            let is_one = above == parent.as_raw_nonzero().get().unsigned_abs()
                && start >= since
                && getpgid(Some(pid)) == Ok(pid)
                && runs_as(pid, hook);
            is_one.then_some(Found {
                pid: pid.as_raw_nonzero().get(),
                start,
            })
        })
        .collect()
}

fn runs_as(pid: Pid, hook: &str) -> bool {
    let environment = fs::read(format!("/proc/{}/environ", pid.as_raw_nonzero()));
    let named = format!("BECKET_HOOK={hook}");
    environment.is_ok_and(|all| {
        all.split(|byte| *byte == 0)
            .any(|one| one == named.as_bytes())
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::{Child, Command};

    use rustix::process::getpid;

    use super::*;

    fn start(hook: &str, group: bool) -> Child {
        let mut command = Command::new("/bin/sleep");
        command.arg("1000").env("BECKET_HOOK", hook);
        if group {
            command.process_group(0);
        }
        command.spawn().unwrap()
    }

    #[test]
    fn an_orphan_is_found_by_its_hook_its_group_and_its_parent() {
        let since = group::started(getpid()).unwrap();
        let mut all = [
            start("lost-hook", true),
            start("lost-hook-2", true),
            start("lost-hook", false),
        ];
        let pid = Pid::from_child(&all[0]);
        let start = group::started(pid).unwrap();
        let one = Found {
            pid: pid.as_raw_nonzero().get(),
            start,
        };
        let of_ours = orphans("lost-hook", getpid(), since);
        let of_another = orphans("lost-hook", Pid::INIT, since);
        let newer = orphans("lost-hook", getpid(), start + 1);
        for child in &mut all {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert_eq!(of_ours, [one]);
        assert_eq!((of_another, newer), (Vec::new(), Vec::new()));
    }
}
