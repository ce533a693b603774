//! Runs the status line command that the user had before becket's, within bounds: it may hang, print too much or
//! binary data, or leave a process behind that holds its pipe. becket's line is shown in each case.

mod escape_sequences;

use std::process::Command;
use std::time::Duration;

use becket_engine::process::{Bounds, Cancel, run_command};

use crate::signals;

const TIME_LIMIT: Duration = Duration::from_millis(1500);
/// The number of bytes that are shown.
const MAX_BYTES: usize = 16 << 10;
/// The variable that is set for the command. A becket that finds it set runs no other status line.
const BESIDE: &str = "BECKET_BESIDE";

/// The text that the command printed, and its failure, if there is one.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct CommandOutput {
    pub shown: String,
    pub wrong: Option<String>,
}

impl CommandOutput {
    fn failure(why: &str) -> Self {
        Self {
            shown: String::new(),
            wrong: Some(format!("status line: {why}")),
        }
    }
}

/// Returns true if [`run`] started this becket, through a command that is not recognized as becket's.
pub fn is_nested() -> bool {
    std::env::var_os(BESIDE).is_some()
}

/// Runs a command as Claude Code does, with the same input on stdin.
pub fn run(command: &str, payload: &[u8]) -> CommandOutput {
    run_within(TIME_LIMIT, command, payload)
}

fn run_within(time: Duration, line: &str, payload: &[u8]) -> CommandOutput {
    let cancel = Cancel::new();
    let on_signal = cancel.clone();
    // Claude Code ends this process when it draws the next line. The command ends with it.
    signals::on_termination(move || on_signal.cancel());
    let bounds = Bounds {
        time: Some(time),
        bytes: MAX_BYTES,
        own_group: true,
        cancel: Some(&cancel),
    };
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", line]).env(BESIDE, "1");
    let done = match run_command(&mut shell, payload, &bounds) {
        Ok(done) => done,
        Err(error) => return CommandOutput::failure(&format!("did not start: {error}")),
    };
    if done.stdout.contains(&0) {
        return CommandOutput::failure("prints binary");
    }
    let why = match done.status.map(|status| status.code()) {
        None => Some("timed out"),
        // Claude Code shows no output of a command that fails, and neither does becket.
        Some(Some(code)) if code != 0 => {
            return CommandOutput::failure(&format!("ended with {code}"));
        }
        Some(None) => return CommandOutput::failure("was killed"),
        Some(_) if done.dropped > 0 => Some("prints too much"),
        Some(_) => None,
    };
    CommandOutput {
        shown: escape_sequences::clean(&String::from_utf8_lossy(&done.stdout)),
        wrong: why.map(|why| format!("status line: {why}")),
    }
}

#[cfg(test)]
mod tests;
