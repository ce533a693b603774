//! The folder and the variables that a program is started with.

use std::ffi::OsString;
use std::path::PathBuf;

use tokio::process::Command;

use crate::Error;

/// The folder and the variables that Claude Code is started with.
#[derive(Debug, Clone, Default)]
pub(crate) struct Environment {
    pub(super) cwd: Option<PathBuf>,
    pub(super) variables: Vec<(OsString, OsString)>,
    pub(super) cleared: bool,
}

impl Environment {
    pub(crate) fn apply(&self, command: &mut Command) {
        if self.cleared {
            command.env_clear();
        }
        // Set inside of a Claude Code session. This one is a session of its own.
        command.env_remove("CLAUDECODE");
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        if let Some(folder) = &self.cwd {
            command.current_dir(folder);
        }
    }

    pub(super) fn check_folder(&self) -> Result<(), Error> {
        match &self.cwd {
            Some(folder) if !folder.is_dir() => Err(Error::NoFolder {
                folder: folder.clone(),
            }),
            _ => Ok(()),
        }
    }

    /// The folder, also where it is our own.
    pub(crate) fn folder(&self) -> Option<PathBuf> {
        self.cwd.clone().or_else(|| std::env::current_dir().ok())
    }

    /// A variable as it is given, else our own.
    pub(crate) fn variable(&self, name: &str) -> Option<OsString> {
        let given = self.variables.iter().rev().find(|(given, _)| given == name);
        let given = given.map(|(_, value)| value.clone());
        given.or_else(|| std::env::var_os(name))
    }
}
