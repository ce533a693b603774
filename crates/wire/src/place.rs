//! The paths in becket's home, with one function each. None touches the file system.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::EventId;

/// The longest path in a socket address on Linux, without the final NUL (macOS: 103).
const MAX_SOCKET_PATH: usize = if cfg!(target_os = "macos") { 103 } else { 107 };

/// The text that `becket down` writes into [`Place::stopped_mark`]. A running Claude Code may still use the
/// entries that it read.
pub const UNREGISTERED: &str = "unregistered";

/// One becket home, by default `~/.becket`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    home: PathBuf,
}

impl Place {
    pub fn new(home: impl Into<PathBuf>) -> Self {
        Self { home: home.into() }
    }

    /// Finds the home: from the command line, else from `BECKET_HOME`, else `~/.becket`. A relative one does
    /// not count: it would mean another folder in every project.
    pub fn find(
        argument: Option<PathBuf>,
        variable: Option<PathBuf>,
        user_home: Option<PathBuf>,
    ) -> Option<Self> {
        let becket_home = user_home.map(|home| home.join(".becket"));
        [argument, variable, becket_home]
            .into_iter()
            .flatten()
            .find(|path| path.is_absolute())
            .map(Self::new)
    }

    pub fn home(&self) -> &Path {
        &self.home
    }

    pub fn config(&self) -> PathBuf {
        self.home.join("config.toml")
    }

    pub fn database(&self) -> PathBuf {
        self.home.join("becket.db")
    }

    /// The user's switches, one file a session.
    pub fn sessions(&self) -> PathBuf {
        self.home.join("sessions")
    }

    /// Claude Code processes that `becket run` watches, one file a launcher.
    pub fn launches(&self) -> PathBuf {
        self.home.join("launches")
    }

    pub fn launch(&self, launcher: u32) -> PathBuf {
        self.launches().join(format!("{launcher}.json"))
    }

    /// The memory of a hook for one session.
    pub fn memory(&self, session: &str, hook: &str) -> PathBuf {
        self.run().join("hooks").join(session).join(hook)
    }

    /// The output of a hook for an event, where it is too long for an answer.
    pub fn said(&self, id: EventId) -> PathBuf {
        self.run().join("said").join(format!("{id}.txt"))
    }

    /// The projects that the user trusts, with the hashes of their approved files.
    pub fn trust(&self) -> PathBuf {
        self.home.join("trust.json")
    }

    /// The environment that `becket up` saw, for daemons. [`crate::rpc::environment_block`] writes it.
    pub fn environment(&self) -> PathBuf {
        self.home.join("environment")
    }

    pub fn spool(&self) -> PathBuf {
        self.home.join("spool")
    }

    pub fn spooled(&self, id: EventId) -> PathBuf {
        self.spool().join(format!("{id}.ev"))
    }

    /// The folder for spool files that could not be read. They are never taken in again.
    pub fn spool_bad(&self) -> PathBuf {
        self.spool().join("bad")
    }

    pub fn log(&self) -> PathBuf {
        self.home.join("log")
    }

    pub fn daemon_log(&self) -> PathBuf {
        self.log().join("daemon.log")
    }

    pub fn run(&self) -> PathBuf {
        self.home.join("run")
    }

    /// The lock of the process that starts a daemon, until it is ready.
    pub fn start_lock(&self) -> PathBuf {
        self.run().join("start.lock")
    }

    /// The lock of the daemon, for its whole life.
    pub fn life_lock(&self) -> PathBuf {
        self.run().join("daemon.lock")
    }

    /// The lock of the daemon that waits to take over.
    pub fn next_lock(&self) -> PathBuf {
        self.run().join("next.lock")
    }

    /// One file per running hook.
    pub fn running(&self) -> PathBuf {
        self.run().join("running")
    }

    /// Calls that guards denied, and passes for them: one file each.
    pub fn guard(&self) -> PathBuf {
        self.run().join("guard")
    }

    /// A mark of a missed deadline: for a while, shims wait only briefly for the daemon.
    pub fn slow_mark(&self) -> PathBuf {
        self.run().join("slow")
    }

    /// The mark of a daemon that was told to end. It exists until the next one serves: a client that followed
    /// it starts none. With [`UNREGISTERED`] in it, the entries that `becket down` removed start none either.
    pub fn stopped_mark(&self) -> PathBuf {
        self.run().join("stopped")
    }

    /// The copies of config files that last parsed.
    pub fn last_good(&self) -> PathBuf {
        self.run().join("last-good")
    }

    /// The random key for the hashes of masked secrets.
    pub fn mask_key(&self) -> PathBuf {
        self.run().join("mask.key")
    }

    /// The daemon's socket. If its path is too long for an address, it is in the temporary folder.
    pub fn socket(&self, uid: u32) -> PathBuf {
        let near = self.run().join("socket");
        if near.as_os_str().len() <= MAX_SOCKET_PATH {
            return near;
        }
        self.temporary(uid).join("socket")
    }

    /// A folder of the user in `/tmp`, named after the home, for files that cannot be in the home.
    pub fn temporary(&self, uid: u32) -> PathBuf {
        let name = fnv1a(self.home.as_os_str().as_bytes());
        PathBuf::from(format!("/tmp/becket-{uid}-{name:016x}"))
    }

    /// A file with the path of the socket, when the socket is not in `run/`.
    pub fn socket_note(&self) -> PathBuf {
        self.run().join("socket.path")
    }
}

/// Computes a hash that is the same in every build of becket (std's may change with the compiler).
pub fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_beats_the_environment_and_relative_homes_do_not_count() {
        let find = |said: Option<&str>, variable: Option<&str>| {
            Place::find(
                said.map(Into::into),
                variable.map(Into::into),
                Some("/home/user".into()),
            )
            .map(|place| place.home().to_path_buf())
        };
        assert_eq!(find(Some("/a"), Some("/b")), Some("/a".into()));
        assert_eq!(find(None, Some("/b")), Some("/b".into()));
        assert_eq!(find(None, Some("b")), Some("/home/user/.becket".into()));
        assert_eq!(find(None, None), Some("/home/user/.becket".into()));
        assert_eq!(Place::find(None, None, None), None);
    }

    #[test]
    fn a_long_home_has_its_socket_elsewhere() {
        let place = Place::new(format!("/{}", "x".repeat(120)));
        let socket = place.socket(7);
        assert!(
            socket.starts_with("/tmp") && socket.as_os_str().len() <= MAX_SOCKET_PATH,
            "{socket:?}"
        );
        assert_ne!(
            socket,
            Place::new(format!("/{}", "y".repeat(120))).socket(7)
        );
        assert_eq!(
            Place::new("/home/user/.becket").socket(7),
            Path::new("/home/user/.becket/run/socket")
        );
    }
}
