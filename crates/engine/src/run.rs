//! Runs programs: each in its own process group, within a time limit, its output within bounds. All
//! hooks of one event run side by side, watched by the thread that started them.

mod batch;
mod clock;
mod command;
mod file;
mod output;
mod process;

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use batch::Batch;
pub use clock::{Cancel, ENDING};
pub use command::{Bounds, Finished, command};
pub use file::{Listing, Orphans, RunFile, running};
pub use output::Occasion;
pub use process::path_in;
use process::{Running, milliseconds};

/// A program of the person's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Program {
    /// For `sh`.
    Shell(String),
    /// A program with its arguments, run as it is. With a `/` in it a program is a path, relative
    /// to `Job::base`; a bare word is looked up in the `PATH` of the job's environment.
    List(Vec<String>),
}

impl Program {
    /// The word of a list that would be a path in a home folder if a shell read it, and is none
    /// since no shell does. What stands after a `-c` is a shell's to read.
    pub fn unexpanded(&self) -> Option<&str> {
        let Self::List(words) = self else {
            return None;
        };
        let is_for_a_line = |word: &String| {
            let letters = word.strip_prefix('-').unwrap_or_default();
            letters.ends_with('c') && letters.bytes().all(|byte| byte.is_ascii_alphabetic())
        };
        let mut read = words.iter().take_while(|word| !is_for_a_line(word));
        let word = read.find(|word| *word == "~" || word.starts_with("~/"))?;
        Some(word)
    }
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
    /// The project's folder: what the path of a listed program is relative to.
    pub base: PathBuf,
    /// The whole environment; `BECKET_HOOK` and `CI` are added.
    pub environment: Arc<[(OsString, OsString)]>,
    /// The event, as Claude Code gave it.
    pub stdin: Arc<[u8]>,
    pub timeout: Duration,
    /// Its answer is not awaited (`async = true`).
    pub is_async: bool,
    /// None: it is not listed while it runs.
    pub listing: Option<Listing>,
}

/// What came of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ran {
    pub hook: String,
    /// When it was started: milliseconds since 1970.
    pub at: i64,
    pub took: Duration,
    /// The time that it had, until it was asked to end.
    pub limit: Duration,
    pub outcome: Outcome,
    /// Within the bound; what lies beyond is counted in `dropped`.
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    pub dropped: u64,
}

impl Ran {
    /// Of a hook whose program was not started, or of which nothing more is known.
    pub(crate) fn unstarted(hook: String, outcome: Outcome) -> Self {
        Self {
            hook,
            at: milliseconds(),
            took: Duration::ZERO,
            limit: Duration::ZERO,
            outcome,
            stdout: Vec::new(),
            stderr: Vec::new(),
            dropped: 0,
        }
    }
}

/// How it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Exited(i32),
    Signalled(i32),
    /// It had to be ended: its time was up.
    TimedOut,
    /// It had to be ended, or was not even started: the caller does not wait any more.
    Cancelled,
    /// The same, but becket itself had to end; Claude Code may wait.
    CutOff,
    /// It goes on in the background, as it said itself (`{"async": true}`).
    WentAsync,
    /// It could not be started, and why.
    NotStarted(String),
}

/// Programs that go on in the background, though the run that they began in is over.
#[derive(Debug, Default)]
pub struct Behind(Vec<Running>);

/// Runs the jobs side by side. `answered` is called once, with what came of all jobs that are
/// awaited, in the order of the jobs; then the async ones go on, and `later` is called for each
/// when it ends, as for each that said `{"async": true}` itself. Comes back when nothing runs any
/// more.
pub fn run(
    jobs: Vec<Job>,
    cancel: &Cancel,
    answered: impl FnOnce(Vec<Ran>),
    later: impl FnMut(Ran),
) {
    run_beside(Behind::default(), jobs, cancel, answered, later);
}

/// The same, beside what goes on from before.
pub fn run_beside(
    behind: Behind,
    jobs: Vec<Job>,
    cancel: &Cancel,
    answered: impl FnOnce(Vec<Ran>),
    later: impl FnMut(Ran),
) {
    Batch::start(jobs, behind, cancel, answered, later).run();
}

/// Runs one job that others wait for, beside what goes on from before. If it says `{"async": true}`,
/// it goes on too: whatever does so is in `behind` then, to be watched by the next run.
pub fn run_before(
    behind: &mut Behind,
    job: Job,
    cancel: &Cancel,
    later: impl FnMut(Ran),
) -> Option<Ran> {
    let mut ran = None;
    let answered = |mut all: Vec<Ran>| ran = all.pop();
    let before = std::mem::take(behind);
    let batch = Batch::start(vec![job], before, cancel, answered, later);
    *behind = batch.run_until_answered();
    ran
}

#[cfg(test)]
mod tests;
