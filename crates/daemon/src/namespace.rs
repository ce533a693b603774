//! Namespaces of peers. A peer in another mount or pid namespace sees other files and processes: its paths and
//! pids mean something else here, so the daemon refuses it and it goes standalone.

use std::os::unix::fs::MetadataExt;

#[derive(Debug)]
pub(crate) struct Namespaces {
    ours: Option<[u64; 2]>,
}

impl Namespaces {
    pub(crate) fn current() -> Self {
        Self { ours: of("self") }
    }

    /// Returns true if a process runs in other namespaces than the daemon, and false if it has ended already.
    pub(crate) fn is_foreign(&self, pid: Option<i32>) -> bool {
        match pid {
            // The kernel has no pid for it in our pid namespace.
            None | Some(0) => cfg!(target_os = "linux"),
            Some(pid) => {
                self.ours.is_some()
                    && of(&pid.to_string()).is_some_and(|theirs| Some(theirs) != self.ours)
            }
        }
    }
}

/// Returns the inodes of a process's mount and pid namespaces. Equal inodes mean the same namespace.
fn of(pid: &str) -> Option<[u64; 2]> {
    let inode = |name| {
        Some(
            std::fs::metadata(format!("/proc/{pid}/ns/{name}"))
                .ok()?
                .ino(),
        )
    };
    Some([inode("mnt")?, inode("pid")?])
}
