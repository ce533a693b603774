//! Runs programs: each in its own process group, with a time limit and bounded output. All hooks of one
//! event run side by side, watched by the thread that started them.

mod child;
mod clock;
mod command;
mod jobs;
mod output;
mod proc;
mod run_file;

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

pub use clock::{Cancel, ENDING};
pub use command::{Bounds, FinishedCommand, run_command};
pub use jobs::RunningJobs;
pub use output::Occasion;
pub use proc::ThreadFile;
pub use run_file::{Listing, Orphans, RunFile, running};

/// A program that the user named in the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Program {
    /// A line for `sh`.
    Shell(String),
    /// A program with its arguments, run as it is. With a `/` in it a program is a path, relative
    /// to `Job::base`; a bare word is looked up in the `PATH` of the job's environment.
    List(Vec<String>),
}

impl Program {
    /// Returns the first word of a list that starts with `~`, which no shell expands there. Words after a
    /// `-c` do not count: a shell reads them.
    pub fn unexpanded(&self) -> Option<&str> {
        let Self::List(words) = self else {
            return None;
        };
        let words = words.iter().map(String::as_str);
        let mut words = words.take_while(|word| !takes_a_command_line(word));
        words.find(|word| *word == "~" || word.starts_with("~/"))
    }
}

/// Returns true for `-c` and for flags that end in it, like `-lc`.
fn takes_a_command_line(flag: &str) -> bool {
    let letters = flag.strip_prefix('-').unwrap_or_default();
    letters.ends_with('c') && letters.bytes().all(|byte| byte.is_ascii_alphabetic())
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shell(line) => f.write_str(line),
            Self::List(words) => f.write_str(&words.join(" ")),
        }
    }
}

/// One program to run for one event.
#[derive(Debug, Clone)]
pub struct Job {
    /// The hook's name, which the program finds in `BECKET_HOOK`.
    pub hook: String,
    pub program: Program,
    /// The session's folder.
    pub cwd: PathBuf,
    /// The project's folder. The path of a listed program is relative to it.
    pub base: PathBuf,
    /// The whole environment; `BECKET_HOOK` and `CI` are added.
    pub environment: Arc<[(OsString, OsString)]>,
    /// The event, as Claude Code gave it.
    pub stdin: Arc<[u8]>,
    pub timeout: Duration,
    /// True if the event does not wait for it (`async = true`).
    pub is_async: bool,
    /// The file that lists it while it runs, if any.
    pub listing: Option<Listing>,
}

/// The end of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobResult {
    pub hook: String,
    /// The time of its start, in milliseconds since 1970.
    pub at: i64,
    pub took: Duration,
    /// The time that it had before it was asked to end.
    pub limit: Duration,
    pub outcome: Outcome,
    /// Cut at a bound. `dropped` counts the bytes beyond it.
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    pub dropped: u64,
}

impl JobResult {
    /// Makes the result of a job that was not started, or of which nothing more is known.
    pub(crate) fn unstarted(hook: String, outcome: Outcome) -> Self {
        Self {
            hook,
            at: Timestamp::now().as_millisecond(),
            took: Duration::ZERO,
            limit: Duration::ZERO,
            outcome,
            stdout: Vec::new(),
            stderr: Vec::new(),
            dropped: 0,
        }
    }
}

/// The way in which a job ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Exited(i32),
    Signalled(i32),
    /// Ended because its time was up.
    TimedOut,
    /// Ended or not started because the caller no longer waits.
    Cancelled,
    /// Ended because becket itself had to end. Claude Code may still wait.
    CutOff,
    /// Goes on in the background: it printed `{"async": true}`.
    WentAsync,
    /// Could not be started, for this reason.
    NotStarted(String),
}

#[cfg(test)]
mod tests;
