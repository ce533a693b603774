//! How a call of a callback fails. Each text begins with a stable code.

use std::time::Duration;

use thiserror::Error;

/// Why a call of a callback has no answer of the callback's own.
///
/// The text begins with [`code`](Self::code), which does not change between versions. Claude Code gets
/// this text as the error, or as the reason of the refusal.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CallbackFailure {
    /// Claude Code named a callback that is not registered.
    #[error("unknown_callback: no callback has the id {id}")]
    Unknown {
        /// The id that it named.
        id: String,
    },
    /// The callback returned an error, or an answer that its event does not take.
    #[error("hook_execution_error: {why}")]
    Failed {
        /// The error's text.
        why: String,
    },
    /// The callback did not answer in time.
    #[error("hook_timeout: {}", timeout_text(id, *limit))]
    TimedOut {
        /// The callback's id.
        id: String,
        /// The time that it had; zero if the turn's deadline had passed before the call.
        limit: Duration,
    },
    /// The call was cancelled. Claude Code is not answered.
    #[error("hook_cancelled: the call of {id} was cancelled")]
    Cancelled {
        /// The callback's id.
        id: String,
    },
    /// The callback panicked.
    #[error("hook_panicked: {id} panicked: {message}")]
    Panicked {
        /// The callback's id.
        id: String,
        /// The panic's message.
        message: String,
    },
}

fn timeout_text(id: &str, limit: Duration) -> String {
    match limit.is_zero() {
        true => format!("{id} was called after the turn's deadline"),
        false => format!("{id} did not answer within {limit:?}"),
    }
}

impl CallbackFailure {
    /// The stable code that the text begins with.
    ///
    /// ```
    /// use becket_sdk::CallbackFailure;
    ///
    /// let failure = CallbackFailure::Unknown { id: "hook_9".into() };
    /// assert_eq!(failure.code(), "unknown_callback");
    /// assert!(failure.to_string().starts_with("unknown_callback: "));
    /// ```
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unknown { .. } => "unknown_callback",
            Self::Failed { .. } => "hook_execution_error",
            Self::TimedOut { .. } => "hook_timeout",
            Self::Cancelled { .. } => "hook_cancelled",
            Self::Panicked { .. } => "hook_panicked",
        }
    }

    /// A cancelled call is no fault of the callback.
    pub(crate) fn log(&self, callback: &str) {
        match self {
            Self::Cancelled { .. } => tracing::debug!(callback, "{self}"),
            _ => tracing::error!(callback, "{self}"),
        }
    }

    pub(crate) fn failed(why: impl Into<String>) -> Self {
        let why = why.into();
        Self::Failed { why }
    }
}
