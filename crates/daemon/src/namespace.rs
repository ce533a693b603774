//! Namespaces of peers. A peer in another mount or pid namespace sees other files and processes: its paths and
//! pids mean something else here, so the daemon refuses it and it goes standalone.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

#[derive(Debug)]
pub(crate) struct Namespaces {
    ours: Option<[u64; 2]>,
}

impl Namespaces {
    pub(crate) fn current() -> Self {
        Self {
            ours: namespace_inodes("self"),
        }
    }

    /// Returns true if a process runs in other namespaces than the daemon, and false if it has ended already.
    pub(crate) fn is_foreign(&self, pid: Option<i32>) -> bool {
        match pid {
            // The kernel has no pid for it in our pid namespace.
            None | Some(0) => cfg!(target_os = "linux"),
            Some(pid) => {
                self.ours.is_some()
                    && namespace_inodes(&pid.to_string())
                        .is_some_and(|theirs| Some(theirs) != self.ours)
            }
        }
    }
}

/// Returns the inodes of a process's mount and pid namespaces. Equal inodes mean the same namespace.
fn namespace_inodes(pid: &str) -> Option<[u64; 2]> {
    let folder = Path::new("/proc").join(pid).join("ns");
    let mount = fs::metadata(folder.join("mnt")).ok()?;
    let pid = fs::metadata(folder.join("pid")).ok()?;
    Some([mount.ino(), pid.ino()])
}
