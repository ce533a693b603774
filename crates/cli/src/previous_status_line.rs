//! Runs the status line that the person had before ours, within bounds: it may hang, flood us, print
//! binary, or leave something behind that holds its pipe, and ours is shown all the same.

mod escape_sequences;

use std::process::Command;
use std::time::Duration;

use becket_engine::process::{Bounds, Cancel, run_command};

use crate::signals;

/// How long it may take, and how many bytes of it are shown.
const TIME: Duration = Duration::from_millis(1500);
const MOST: usize = 16 << 10;
/// Set for it: a becket that finds itself beside a becket runs nothing beside it.
const BESIDE: &str = "BECKET_BESIDE";

/// What there is to show of it, and what went wrong.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct CommandOutput {
    pub shown: String,
    pub wrong: Option<String>,
}

impl CommandOutput {
    fn wrong(why: &str) -> Self {
        Self {
            shown: String::new(),
            wrong: Some(format!("status line: {why}")),
        }
    }
}

/// Whether this becket was started by `run` itself, by way of a command that is not known as ours.
pub fn is_nested() -> bool {
    std::env::var_os(BESIDE).is_some()
}

/// Runs a command as Claude Code does, with the same on stdin.
pub fn run(command: &str, payload: &[u8]) -> CommandOutput {
    run_within(TIME, command, payload)
}

fn run_within(time: Duration, line: &str, payload: &[u8]) -> CommandOutput {
    let cancel = Cancel::new();
    let unwanted = cancel.clone();
    // Claude Code ends us when it wants to draw another line: nothing is left behind then.
    signals::on_termination(move || unwanted.cancel());
    let bounds = Bounds {
        time: Some(time),
        bytes: MOST,
        own_group: true,
        cancel: Some(&cancel),
    };
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", line]).env(BESIDE, "1");
    let done = match run_command(&mut shell, payload, &bounds) {
        Ok(done) => done,
        Err(error) => return CommandOutput::wrong(&format!("did not start: {error}")),
    };
    if done.stdout.contains(&0) {
        return CommandOutput::wrong("prints binary");
    }
    let why = match done.status.map(|status| status.code()) {
        None => Some("timed out"),
        // Claude Code shows nothing of one that fails, so neither do we.
        Some(Some(code)) if code != 0 => {
            return CommandOutput::wrong(&format!("ended with {code}"));
        }
        Some(None) => return CommandOutput::wrong("was killed"),
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
