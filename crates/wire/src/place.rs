//! Where everything of becket's lives: one function each. Paths only; nothing is looked at.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::EventId;

/// What a socket's address can hold on Linux, less the final NUL (macOS: 103).
const MAX_SOCKET_PATH: usize = if cfg!(target_os = "macos") { 103 } else { 107 };

/// What `becket uninit` writes into [`Place::stopped_mark`]. A Claude Code that runs may go on with the
/// entries that it read.
pub const UNREGISTERED: &str = "unregistered";

/// One becket home, `~/.becket` if nothing else was said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    home: PathBuf,
}

impl Place {
    pub fn new(home: impl Into<PathBuf>) -> Self {
        Self { home: home.into() }
    }

    /// Finds the home: what the command line says, else `BECKET_HOME`, else `~/.becket`. A relative
    /// one would mean another folder in every project, so it does not count.
    pub fn find(
        said: Option<PathBuf>,
        variable: Option<PathBuf>,
        user_home: Option<PathBuf>,
    ) -> Option<Self> {
        let absolute = |path: &PathBuf| path.is_absolute();
        said.filter(absolute)
            .or(variable.filter(absolute))
            .or(user_home.filter(absolute).map(|home| home.join(".becket")))
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

    /// What a hook remembers of a session.
    pub fn memory(&self, session: &str, hook: &str) -> PathBuf {
        self.run().join("hooks").join(session).join(hook)
    }

    /// What a hook said to an event, where that is too long for an answer.
    pub fn said(&self, id: EventId) -> PathBuf {
        self.run().join("said").join(format!("{id}.txt"))
    }

    /// Which projects the user trusts, and as what.
    pub fn trust(&self) -> PathBuf {
        self.home.join("trust.json")
    }

    /// The environment that `becket init` saw, for daemons: as [`crate::rpc::environment_block`]
    /// writes it.
    pub fn environment(&self) -> PathBuf {
        self.home.join("environment")
    }

    pub fn spool(&self) -> PathBuf {
        self.home.join("spool")
    }

    pub fn spooled(&self, id: EventId) -> PathBuf {
        self.spool().join(format!("{id}.ev"))
    }

    /// Spool files that could not be read are moved here, and never taken in again.
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

    /// Held by the process that starts a daemon, until it is ready.
    pub fn start_lock(&self) -> PathBuf {
        self.run().join("start.lock")
    }

    /// Held by the daemon for its whole life.
    pub fn life_lock(&self) -> PathBuf {
        self.run().join("daemon.lock")
    }

    /// Held by the daemon that waits to take over.
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

    /// Touched after a missed deadline: for a while, shims wait only briefly for the daemon.
    pub fn slow_mark(&self) -> PathBuf {
        self.run().join("slow")
    }

    /// There from when the daemon was told to end until the next one serves: a client that followed it
    /// starts none. If it says [`UNREGISTERED`], the entries that `becket uninit` took out start none either.
    pub fn stopped_mark(&self) -> PathBuf {
        self.run().join("stopped")
    }

    /// The copies of config files that last parsed.
    pub fn last_good(&self) -> PathBuf {
        self.run().join("last-good")
    }

    /// The random key that masked secrets are hashed with.
    pub fn mask_key(&self) -> PathBuf {
        self.run().join("mask.key")
    }

    /// The daemon's socket. Where its path would be too long for an address, it is in the temporary folder.
    pub fn socket(&self, uid: u32) -> PathBuf {
        let near = self.run().join("socket");
        if near.as_os_str().len() <= MAX_SOCKET_PATH {
            return near;
        }
        self.temporary(uid).join("socket")
    }

    /// A folder of the user's own in `/tmp`, named after the home: for what the home does not take.
    pub fn temporary(&self, uid: u32) -> PathBuf {
        let name = fnv1a(self.home.as_os_str().as_bytes());
        PathBuf::from(format!("/tmp/becket-{uid}-{name:016x}"))
    }

    /// Says where the socket is when it is not in `run/`.
    pub fn socket_note(&self) -> PathBuf {
        self.run().join("socket.path")
    }
}

/// A hash that every build of becket computes alike (std's may change with the compiler).
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
