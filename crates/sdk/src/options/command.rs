//! The command line of Claude Code.

use std::ffi::OsString;
use std::path::PathBuf;

use tokio::process::Command;

use super::{Environment, Options};
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
        self.environment.apply(&mut command);
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
        self.environment.variable(name)
    }

    pub(crate) fn environment(&self) -> Environment {
        self.environment.clone()
    }
}
