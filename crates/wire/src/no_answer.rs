//! The reason why the daemon did not answer. The shim hands it to the standalone process, and the spool keeps
//! it.

use std::fmt;

use crate::Version;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoAnswer {
    /// No daemon listens.
    Absent,
    /// The daemon did not answer in time.
    Slow,
    /// The daemon has too much to do.
    Busy,
    /// The daemon has another protocol, or runs in another namespace. The version is the daemon's.
    Refused(Version),
    /// The stream ended, or brought data that is no answer.
    Broken,
    /// The listener belongs to another user.
    Stranger,
    /// `BECKET_NO_DAEMON` is set.
    Unwanted,
}

impl fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Absent => "absent",
            Self::Slow => "slow",
            Self::Busy => "busy",
            Self::Refused(_) => "refused",
            Self::Broken => "broken",
            Self::Stranger => "stranger",
            Self::Unwanted => "unwanted",
        })
    }
}

impl std::error::Error for NoAnswer {}
