//! What a call belongs to: a turn, or the client between turns.

use std::path::PathBuf;
use std::sync::PoisonError;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Context;
use super::service::Service;

/// The timeout of a callback if none was set.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);

/// What bounds the calls of a turn, or of the client between turns.
#[derive(Debug, Clone)]
pub(crate) struct Scope {
    pub(crate) token: CancellationToken,
    pub(crate) deadline: Option<Instant>,
}

impl Scope {
    /// The scope of one call.
    pub(crate) fn child(&self) -> Self {
        Self {
            token: self.token.child_token(),
            deadline: self.deadline,
        }
    }

    pub(super) fn without_deadline(self) -> Self {
        Self {
            deadline: None,
            ..self
        }
    }

    /// When a call must have ended. A timeout that was set is cut to the turn's deadline; the default
    /// one gives way to it, also if it is later.
    pub(super) fn deadline(&self, now: Instant, timeout: Option<Duration>) -> Instant {
        match (timeout, self.deadline) {
            (Some(timeout), Some(turn)) => turn.min(now + timeout),
            (None, Some(turn)) => turn,
            (timeout, None) => now + timeout.unwrap_or(TIMEOUT),
        }
    }
}

/// The session as `init` described it, for requests without these fields.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Session {
    session_id: String,
    cwd: PathBuf,
}

impl Service {
    /// The current scope.
    pub(crate) fn scope(&self) -> Scope {
        self.lock().clone()
    }

    /// Calls that come from now on belong to this scope.
    pub(crate) fn set_scope(&self, scope: Scope) {
        *self.lock() = scope;
    }

    /// Stores the session of an `init` message.
    pub(crate) fn set_session(&self, init: &Value) {
        let mut session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        *session = Session::deserialize(init).ok();
    }

    pub(crate) fn describe_session(&self, context: &mut Context) {
        let session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        context.session_id = session.as_ref().map(|session| session.session_id.clone());
        context.cwd = session.as_ref().map(|session| session.cwd.clone());
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Scope> {
        self.scope.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
