//! The version of becket, and the number of its protocol. Two programs with the same protocol understand each
//! other; the version tells the newer one.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The number of the protocol between becket's programs. It changes when a frame does.
pub const PROTOCOL: u8 = 1;

/// A version with its build: `0.1.0+42`. A higher one takes over from a lower one.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(try_from = "String", into = "String")]
pub struct Version {
    pub major: u16,
    pub minor: u16,
    pub patch: u16,
    pub build: u16,
}

impl Version {
    /// Returns the version of this build. `./install` sets `BECKET_BUILD` to the number of commits, so that a
    /// rebuilt becket takes over from the one that still runs.
    pub fn current() -> Self {
        const TEXT: &str = env!("CARGO_PKG_VERSION");
        const BUILD: &str = match option_env!("BECKET_BUILD") {
            Some(build) => build,
            None => "0",
        };
        let mut version: Self = TEXT.parse().unwrap_or_default();
        version.build = BUILD.parse().unwrap_or(0);
        version
    }

    /// Encodes the version as one number, for the head of an answer.
    pub fn to_bits(self) -> u64 {
        u64::from(self.major) << 48
            | u64::from(self.minor) << 32
            | u64::from(self.patch) << 16
            | u64::from(self.build)
    }

    pub fn from_bits(bits: u64) -> Self {
        Self {
            major: (bits >> 48) as u16,
            minor: (bits >> 32) as u16,
            patch: (bits >> 16) as u16,
            build: bits as u16,
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)?;
        if self.build > 0 {
            write!(f, "+{}", self.build)?;
        }
        Ok(())
    }
}

/// The error for a text that is no version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("not a version (like 0.1.0 or 0.1.0+42)")]
pub struct NotAVersion;

impl FromStr for Version {
    type Err = NotAVersion;

    fn from_str(text: &str) -> Result<Self, NotAVersion> {
        let (numbers, build) = text.split_once('+').unwrap_or((text, "0"));
        let mut parts = numbers.split('.').chain([build]).map(str::parse);
        let mut next = || parts.next().and_then(Result::ok).ok_or(NotAVersion);
        let version = Self {
            major: next()?,
            minor: next()?,
            patch: next()?,
            build: next()?,
        };
        match parts.next() {
            None => Ok(version),
            Some(_) => Err(NotAVersion),
        }
    }
}

impl TryFrom<String> for Version {
    type Error = NotAVersion;

    fn try_from(text: String) -> Result<Self, NotAVersion> {
        text.parse()
    }
}

impl From<Version> for String {
    fn from(version: Version) -> Self {
        version.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_by_version_then_build() {
        let parse = |text: &str| text.parse::<Version>().unwrap();
        assert!(parse("0.1.0") < parse("0.1.0+1"));
        assert!(parse("0.1.0+900") < parse("0.2.0"));
        assert_eq!(parse("1.2.3+4").to_string(), "1.2.3+4");
        assert_eq!(
            Version::from_bits(parse("1.2.3+4").to_bits()),
            parse("1.2.3+4")
        );
        for bad in ["", "1", "1.2", "1.2.3.4", "1.2.x", "1.2.3+", "1.2.3+x"] {
            assert!(bad.parse::<Version>().is_err(), "{bad}");
        }
    }
}
