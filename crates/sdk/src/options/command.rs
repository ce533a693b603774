//! The command line of Claude Code.

use std::ffi::OsString;
use std::path::PathBuf;

use tokio::process::Command;

use super::Options;
use crate::Error;
use crate::process::find_claude;

/// Messages as lines of JSON, in both directions.
const STREAM_JSON: [&str; 5] = [
    "--output-format",
    "stream-json",
    "--input-format",
    "stream-json",
    "--verbose",
];

impl Options {
    pub(crate) fn command(&self) -> Result<Command, Error> {
        let mut command = Command::new(self.find_program()?);
        command.args(STREAM_JSON);
        if self.asks_permission {
            command.args(["--permission-prompt-tool", "stdio"]);
        }
        command.args(&self.args);
        if self.clear_env {
            command.env_clear();
        }
        // Set inside of a Claude Code session. This one is a session of its own.
        command.env_remove("CLAUDECODE");
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        if let Some(folder) = &self.cwd {
            command.current_dir(folder);
        }
        Ok(command)
    }

    fn find_program(&self) -> Result<PathBuf, Error> {
        if let Some(program) = &self.program {
            return Ok(program.clone());
        }
        let home = self.variable("HOME").map(PathBuf::from);
        find_claude(self.variable("PATH").as_deref(), home.as_deref())
    }

    /// A variable as Claude Code gets it, else our own.
    pub(crate) fn variable(&self, name: &str) -> Option<OsString> {
        let given = self.env.iter().rev().find(|(given, _)| given == name);
        given
            .map(|(_, value)| value.clone())
            .or_else(|| std::env::var_os(name))
    }
}
