//! The real Claude Code: pinned, installed once into a cache of the tests, run in a hermetic home against
//! the scripted model.

mod home;
pub(crate) mod install;
mod print;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

pub use home::{Home, SettingsScope};
pub use print::{Finished, Print, Running};

use crate::skip::Unavailable;

/// The version that FACTS and fixtures were measured on.
pub const PINNED: &str = "2.1.325";

/// One installed version of the program.
#[derive(Debug, Clone)]
pub struct Claude {
    pub version: String,
    /// The program and its first arguments: the native binary, or node with a script.
    command: Vec<OsString>,
}

impl Claude {
    /// Returns the version that the scenarios run against: `$BECKET_TEST_CLAUDE`, else the pinned one.
    pub fn wanted() -> String {
        std::env::var("BECKET_TEST_CLAUDE").unwrap_or_else(|_| PINNED.to_owned())
    }

    /// Finds this version in the cache or installs it. Concurrent calls install it once. A failed install
    /// is not retried for some minutes.
    pub fn get(version: &str) -> Result<Self, Unavailable> {
        type Outcome = Arc<OnceLock<Result<Claude, Unavailable>>>;
        static TRIED: Mutex<BTreeMap<String, Outcome>> = Mutex::new(BTreeMap::new());
        let outcome = {
            let mut tried = TRIED.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(tried.entry(version.to_owned()).or_default())
        };
        let outcome = outcome.get_or_init(|| {
            let command = install::find_or_install(&cache(), version)?;
            let version = version.to_owned();
            Ok(Self { version, command })
        });
        outcome.clone()
    }

    /// Fails unless this version knows an event (or anything else) by name: the program contains the name.
    pub fn must_know(&self, name: &str) -> Result<(), Unavailable> {
        let file = self.command.last().expect("a program");
        let looked = Command::new("grep")
            .args(["-qaFe", name])
            .arg(file)
            .status();
        if looked.is_ok_and(|found| found.success()) {
            return Ok(());
        }
        let version = &self.version;
        Err(Unavailable::new(format!(
            "Claude Code {version} has no {name}"
        )))
    }

    /// Returns true if this version is `version` or later.
    pub fn is_at_least(&self, version: &str) -> bool {
        numbers(&self.version) >= numbers(version)
    }

    /// Fails unless this version is `since` or later. For features (`what`) without a name in the program.
    pub fn must_be(&self, since: &str, what: &str) -> Result<(), Unavailable> {
        if self.is_at_least(since) {
            return Ok(());
        }
        let version = &self.version;
        Err(Unavailable::new(format!(
            "Claude Code {version} has no {what} (it came by {since})"
        )))
    }

    /// Returns the names that the program contains. Versions before 2.1.101 drop all hooks of a settings
    /// file with an event that they do not know.
    pub fn known<'n>(&self, names: &[&'n str]) -> Vec<&'n str> {
        if self.version == PINNED {
            return names.to_vec();
        }
        let file = self.command.last().expect("a program");
        let mut grep = Command::new("grep");
        grep.args(["-aohwF"]);
        grep.args(names.iter().flat_map(|name| ["-e", name]));
        let found = grep.arg(file).output().expect("search the program");
        let found = String::from_utf8_lossy(&found.stdout);
        let found: BTreeSet<&str> = found.lines().collect();
        let known = names.iter().filter(|name| found.contains(**name));
        known.copied().collect()
    }

    /// The program with its first arguments.
    pub fn command(&self) -> &[OsString] {
        &self.command
    }
}

fn numbers(version: &str) -> Vec<u32> {
    let parts = version.split(['.', '-']);
    parts.map(|part| part.parse().unwrap_or(0)).collect()
}

/// `$BECKET_TEST_CACHE`, else a folder of the workspace that git ignores.
fn cache() -> PathBuf {
    cache_root().join("claude")
}

/// Returns the folder that holds everything the tests install.
pub(crate) fn cache_root() -> PathBuf {
    match std::env::var_os("BECKET_TEST_CACHE") {
        Some(folder) => PathBuf::from(folder),
        None => PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../.cache"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_number() {
        let version = "2.1.101".to_owned();
        let command = Vec::new();
        let claude = Claude { version, command };
        for older in ["2.1.99", "2.0.200", "1.9.9", "2.1.101"] {
            assert!(claude.is_at_least(older), "{older}");
        }
        for newer in ["2.1.102", "2.1.1000", "2.10.0", "3.0.0"] {
            assert!(!claude.is_at_least(newer), "{newer}");
            assert!(claude.must_be(newer, "thing").is_err());
        }
    }
}
