//! The report of a starting daemon to its starter: one line on the notify socket.

use std::fmt;

use crate::Version;

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

#[cfg(test)]
mod tests {
    use super::*;

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
