//! People's programs, run: each in its own process group, under a clock, its output within bounds.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// A program of the person's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Program {
    /// For `sh`.
    Shell(String),
    /// A program with its arguments, run as it is.
    List(Vec<String>),
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shell(line) => f.write_str(line),
            Self::List(words) => f.write_str(&words.join(" ")),
        }
    }
}

/// One program to run on one event.
#[derive(Debug, Clone)]
pub struct Job {
    /// The hook's name: it gets it as `BECKET_HOOK`.
    pub hook: String,
    pub program: Program,
    /// The session's.
    pub cwd: PathBuf,
    /// The whole environment; `BECKET_HOOK` and `CI` are added.
    pub environment: Arc<[(OsString, OsString)]>,
    /// The event, as Claude Code gave it.
    pub stdin: Arc<[u8]>,
    pub timeout: Duration,
    /// Nobody waits for it (`async = true`).
    pub is_async: bool,
}

/// What came of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ran {
    pub hook: String,
    /// When it was started: milliseconds since 1970.
    pub at: i64,
    pub took: Duration,
    pub outcome: Outcome,
    /// Within the bound; what lies beyond is counted in `dropped`.
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    pub dropped: u64,
}

/// How it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Exited(i32),
    Signalled(i32),
    /// It had to be ended: its time was up.
    TimedOut,
    /// It had to be ended: whoever asked does not wait any more.
    Cancelled,
    /// It goes on in the background, as it said itself (`{"async": true}`).
    WentAsync,
    /// It could not be started, and why.
    NotStarted(String),
}
