//! Turns errors into exit codes and lines on stderr, for all verbs.

use std::process::ExitCode;
use std::{fmt, io};

use crate::ui::text::is_inert;

/// The exit codes, which scripts rely on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// Any other failure.
    Failed = 1,
    /// A wrong or ambiguous command line.
    Usage = 2,
    /// A name of something that does not exist.
    Missing = 3,
    /// A daemon that could not be reached.
    Unreachable = 4,
    /// A time limit that was exceeded.
    TimedOut = 5,
}

/// A failure that a person can do something about. It is the root of an error; `anyhow` context around it names
/// the attempt.
#[derive(Debug)]
pub struct Failure {
    code: Code,
    what: String,
    hint: Option<String>,
}

impl Failure {
    pub fn new(code: Code, what: impl Into<String>) -> Self {
        Self {
            code,
            what: what.into(),
            hint: None,
        }
    }

    pub fn is_unreachable(&self) -> bool {
        self.code == Code::Unreachable
    }

    pub fn is_missing(&self) -> bool {
        self.code == Code::Missing
    }

    pub fn is_late(&self) -> bool {
        self.code == Code::TimedOut
    }

    /// Returns the command to run next.
    pub fn hinted(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// Sets the command to run next.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for Failure {}

/// Prints the error and its hint, and returns the exit code.
pub fn report(error: &anyhow::Error) -> ExitCode {
    let io = error.downcast_ref::<io::Error>();
    if io.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe) {
        // As for `println`, see `signals::expect_closed_pipes`.
        return ExitCode::SUCCESS;
    }
    let failure = error.downcast_ref::<Failure>();
    let code = failure.map_or(Code::Failed, |failure| failure.code);
    let red = anstyle::AnsiColor::Red.on_default().bold();
    let cyan = anstyle::AnsiColor::Cyan.on_default().bold();
    let what = without_controls(&format!("{error:#}"));
    anstream::eprintln!("{red}error:{red:#} {what}");
    if let Some(hint) = failure.and_then(Failure::hinted) {
        let hint = without_controls(hint);
        anstream::eprintln!("{cyan}hint:{cyan:#} {hint}");
    }
    ExitCode::from(code as u8)
}

/// Removes the characters that a terminal would obey: an id, a title or a path in an error may be foreign.
fn without_controls(text: &str) -> String {
    text.chars()
        .filter(|c| *c == '\n' || is_inert(*c))
        .collect()
}
