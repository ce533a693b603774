//! Why the daemon did not answer: what the shim goes alone with, and the spool remembers.

use std::fmt;

use crate::Version;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missed {
    /// Nobody listens.
    Absent,
    /// It did not answer in time.
    Slow,
    /// It has too much to do.
    Busy,
    /// It does not speak our protocol, or lives in another namespace. The version is the daemon's.
    Refused(Version),
    /// The stream ended, or brought something that is no answer.
    Broken,
    /// Whoever listens there is another user.
    Stranger,
    /// `BECKET_NO_DAEMON` is set.
    Unwanted,
}

impl fmt::Display for Missed {
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

impl std::error::Error for Missed {}
