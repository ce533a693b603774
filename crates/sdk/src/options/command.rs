//! The command line of Claude Code.

use std::path::PathBuf;

use tokio::process::Command;

use super::Options;
use crate::Error;
use crate::process::find_claude;
use crate::protocol::background::SAYS_IDLE;

/// Messages as lines of JSON, in both directions.
const STREAM_JSON: [&str; 3] = [
    "--output-format=stream-json",
    "--input-format=stream-json",
    "--verbose",
];

impl Options {
    pub(crate) fn command(&self) -> Result<Command, Error> {
        self.environment.check_folder()?;
        let mut command = Command::new(self.find_program()?);
        command.args(STREAM_JSON);
        if self.asks_permission {
            command.arg("--permission-prompt-tool=stdio");
        }
        command.args(&self.args);
        self.environment.apply(&mut command);
        command.env(SAYS_IDLE, "1");
        Ok(command)
    }

    fn find_program(&self) -> Result<PathBuf, Error> {
        if let Some(program) = &self.program {
            return Ok(program.clone());
        }
        let home = self.environment.variable("HOME").map(PathBuf::from);
        let path = self.environment.variable("PATH");
        find_claude(path.as_deref(), home.as_deref())
    }
}
