//! The one place where errors become exit codes and lines on stderr.

use std::process::ExitCode;
use std::{fmt, io};

use crate::ui::text::is_inert;

/// Exit codes: part of the command line that scripts rely on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// It failed.
    Failed = 1,
    /// The command line was wrong or ambiguous.
    Usage = 2,
    /// The thing named does not exist.
    Missing = 3,
    /// The daemon could not be reached.
    Unreachable = 4,
    /// The time ran out.
    TimedOut = 5,
}

/// A failure that a person can do something about. Put it at the root of an error, and add
/// `anyhow` context for what was being tried.
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

    /// The command to run next.
    pub fn hinted(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// Says what to do next.
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

/// Prints `error: what, on what, why`, then the hint, and gives the exit code.
pub fn tell(error: &anyhow::Error) -> ExitCode {
    let io = error.downcast_ref::<io::Error>();
    if io.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe) {
        // As for `println`, see below.
        return ExitCode::SUCCESS;
    }
    let (code, hint) = match error.downcast_ref::<Failure>() {
        Some(failure) => (failure.code, failure.hint.as_deref()),
        None => (Code::Failed, None),
    };
    let red = anstyle::AnsiColor::Red.on_default().bold();
    let cyan = anstyle::AnsiColor::Cyan.on_default().bold();
    // An id, a title or a path in it may be anybody's.
    let inert = |text: String| -> String {
        let shown = |c: &char| *c == '\n' || is_inert(*c);
        text.chars().filter(shown).collect()
    };
    let what = inert(format!("{error:#}"));
    anstream::eprintln!("{red}error:{red:#} {what}");
    if let Some(hint) = hint {
        let hint = inert(hint.to_owned());
        anstream::eprintln!("{cyan}hint:{cyan:#} {hint}");
    }
    ExitCode::from(code as u8)
}

/// `becket … | head` is no failure: the reader has seen enough. std's `println` panics then.
pub fn expect_closed_pipes() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let what = panic.payload_as_str().unwrap_or_default();
        if what.starts_with("failed printing to stdout") {
            end_quietly();
        }
        before(panic);
    }));
}

#[expect(
    clippy::disallowed_methods,
    reason = "in the middle of printing there is no way back to main"
)]
fn end_quietly() -> ! {
    std::process::exit(0)
}
