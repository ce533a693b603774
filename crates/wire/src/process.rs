//! The start of a daemon: its environment and its report. A line of `/proc/PID/stat`, too: the name in it may
//! hold any character, so fields are counted from its end.

use std::ffi::OsString;
use std::fmt;

use crate::Version;

/// A variable for glibc in the daemon and the standalone judge: an arena for each thread would cost 8 MB.
pub const ARENAS: (&str, &str) = ("MALLOC_ARENA_MAX", "4");

/// The variables that a daemon gets from the environment that `becket up` saw. Those of a shim may come from
/// a repository.
pub const FOR_DAEMON: [&str; 3] = ["HOME", "PATH", "TZ"];
/// The daemon's PATH where no `becket up` has run.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Makes the environment of the daemon and of the standalone judge from the one that `becket up` saw. If it
/// saw no HOME, the daemon reads the password database.
pub fn for_daemon(
    seen: Vec<(OsString, OsString)>,
    lang: Option<OsString>,
) -> Vec<(OsString, OsString)> {
    let mut environment = seen;
    environment.retain(|(name, _)| FOR_DAEMON.iter().any(|kept| name == kept));
    if !environment.iter().any(|(name, _)| name == "PATH") {
        environment.push(("PATH".into(), PATH.into()));
    }
    environment.extend(lang.map(|lang| ("LANG".into(), lang)));
    environment.push((ARENAS.0.into(), ARENAS.1.into()));
    environment
}

/// The report of a starting daemon to its starter: one line on the notify socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StartReport {
    /// The daemon listens.
    Ready,
    /// Another daemon, of this version, runs and will go on.
    Running(Version),
    /// The daemon could not start, for this reason.
    Failed(String),
}

impl fmt::Display for StartReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready => f.write_str("ready"),
            Self::Running(version) => write!(f, "running {version}"),
            Self::Failed(why) => write!(f, "failed {}", why.replace('\n', " ")),
        }
    }
}

impl StartReport {
    /// Reads the line. An empty one means that the daemon died.
    pub fn read(line: &str) -> Self {
        let line = line.trim_end();
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match (word, rest.parse()) {
            ("ready", _) => Self::Ready,
            ("running", Ok(version)) => Self::Running(version),
            ("failed", _) => Self::Failed(rest.to_owned()),
            ("", _) => Self::Failed("the daemon ended before it was ready".to_owned()),
            _ => Self::Failed(format!("the daemon said `{line}`")),
        }
    }
}

/// Returns the parent of a process and its start time in clock ticks since boot, because the system uses a pid
/// again.
pub fn parent_and_start(stat: &str) -> Option<(u32, u64)> {
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(1);
    Some((fields.next()?.parse().ok()?, fields.nth(17)?.parse().ok()?))
}

/// Returns the process group and the session of a process.
pub fn group_and_session(stat: &str) -> Option<(i32, i32)> {
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(2);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

/// Returns the letter of a process's state: `Z` is one that has ended and whose parent has not waited for it
/// yet.
pub fn process_state(stat: &str) -> Option<char> {
    stat.rsplit_once(')')?.1.trim_start().chars().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_from_the_end_of_the_name() {
        let stat = "77 (a) b (c) S 42 76 75 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654 1 2 3";
        assert_eq!(parent_and_start(stat), Some((42, 987_654)));
        assert_eq!(parent_and_start("77 (x) S 42"), None);
        assert_eq!(parent_and_start(""), None);
        assert_eq!(process_state(stat), Some('S'));
        assert_eq!(process_state("77 (x) Z 1"), Some('Z'));
        assert_eq!(process_state(""), None);
    }

    #[test]
    fn a_notice_survives_its_line() {
        for notice in [
            StartReport::Ready,
            StartReport::Running(Version::current()),
            StartReport::Failed("no room".into()),
        ] {
            assert_eq!(StartReport::read(&format!("{notice}\n")), notice);
        }
        assert!(matches!(StartReport::read(""), StartReport::Failed(_)));
        assert!(matches!(
            StartReport::read("garbage"),
            StartReport::Failed(_)
        ));
    }
}
