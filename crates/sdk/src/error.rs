//! The errors of a client.

use std::fmt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use becket_wire::event::EventName;
use thiserror::Error;

use crate::TurnResult;

/// An error of a client. The failure of a single callback is a
/// [`CallbackFailure`](crate::CallbackFailure).
///
/// `Debug` prints the same text as `Display`, so that `main` can return it.
#[derive(Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no `claude` on the PATH, nor in the places where it is usually installed.
    #[error(
        "Claude Code was not found on the PATH\nhint: npm install -g @anthropic-ai/claude-code, or name it with Builder::program"
    )]
    NotFound,
    /// The program could not be started.
    #[error("could not start {}: {source}", program.display())]
    Start {
        /// The program.
        program: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The working folder for Claude Code does not exist.
    #[error("there is no folder {}\nhint: Builder::cwd", folder.display())]
    NoFolder {
        /// The folder.
        folder: PathBuf,
    },
    /// [`Builder::becket`](crate::Builder::becket) was called, and `becket-hook` is not installed.
    #[error(
        "becket-hook was not found on the PATH\nhint: install becket, or name it with Builder::becket_program"
    )]
    NoBecket,
    /// The program is older than the versions that this crate works with.
    #[error("Claude Code {found} is too old: this needs {needed} or newer\nhint: claude update")]
    TooOld {
        /// Its version.
        found: String,
        /// The oldest version that works.
        needed: &'static str,
    },
    /// Claude Code never calls callbacks for this event.
    #[error("Claude Code never calls {event} callbacks\nhint: {instead}")]
    NeverCalled {
        /// The event.
        event: EventName,
        /// The hint for an alternative.
        instead: &'static str,
    },
    /// Claude Code did not confirm that it applies the registered hooks.
    #[error(
        "Claude Code did not confirm the registered hooks\nhint: update it, and look for disableAllHooks in its settings"
    )]
    HooksNotApplied,
    /// Claude Code did not answer a request in time.
    #[error("Claude Code did not answer `{request}` within {limit:?}{}", tail(.stderr))]
    NoAnswer {
        /// The request's subtype.
        request: String,
        /// The time limit.
        limit: Duration,
        /// The last text of its stderr.
        stderr: String,
    },
    /// A turn that was dropped did not end after its interrupt, so the next prompt was not sent.
    #[error(
        "the previous turn did not end within {limit:?} of its interrupt\nhint: drop the client, and resume its session with another"
    )]
    TurnNotEnded {
        /// The time limit.
        limit: Duration,
    },
    /// Background tasks were not done at the end of their time limit. Claude Code was ended all the same.
    #[error(
        "background tasks are not done after {limit:?}: {}\nhint: Builder::background_wait",
        tasks.join(", ")
    )]
    BackgroundTasks {
        /// The descriptions of the tasks.
        tasks: Vec<String>,
        /// The time limit.
        limit: Duration,
        /// The last result, if [`query`](crate::query) waited for them.
        result: Option<Box<TurnResult>>,
    },
    /// Claude Code answered a request with an error.
    #[error("Claude Code refused `{request}`: {message}")]
    Refused {
        /// The request's subtype.
        request: String,
        /// The error's text.
        message: String,
    },
    /// Claude Code ended, or closed its output.
    #[error("Claude Code ended{}{}", status_text(.status.as_ref()), tail(.stderr))]
    Ended {
        /// The exit status; `None` if only its output is closed.
        status: Option<ExitStatus>,
        /// The last text of its stderr.
        stderr: String,
    },
    /// One message is longer than the limit. The client goes on with the next one.
    #[error("a message ({kind}) is longer than {bound} bytes\nhint: Builder::max_message")]
    TooLong {
        /// The limit in bytes.
        bound: usize,
        /// The message's type: `assistant`, `result` and so on. A `result` ends the turn.
        kind: String,
    },
    /// One message cannot be read. The client goes on with the next one.
    #[error("a message ({kind}) cannot be read ({why}): {start}")]
    NotJson {
        /// The error of the JSON parser.
        why: String,
        /// The message's type, if that could be read. A `result` ends the turn.
        kind: String,
        /// The start of the message.
        start: String,
    },
    /// The output ended in the middle of a message.
    #[error("the output ended in the middle of a message, after {bytes} bytes of it")]
    Cut {
        /// The number of bytes of the message that arrived.
        bytes: usize,
    },
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn tail(stderr: &str) -> String {
    match stderr.trim() {
        "" => String::new(),
        text => format!("\nstderr: {text}"),
    }
}

fn status_text(status: Option<&ExitStatus>) -> String {
    status.map_or_else(String::new, |status| format!(" ({status})"))
}
