//! The requests of Claude Code that wait for an answer.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use tokio_util::sync::CancellationToken;

/// The requests in flight, by id. A request leaves it once, answered or cancelled, so a cancelled one
/// is never answered.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    requests: Mutex<HashMap<String, CancellationToken>>,
}

impl InFlight {
    pub(crate) fn begin(&self, id: &str, token: CancellationToken) {
        self.with(|requests| requests.insert(id.to_owned(), token));
    }

    /// Answers the request if it may still be answered; it is no longer in flight. A cancel comes
    /// before the answer or finds nothing.
    pub(crate) fn finish(&self, id: &str, answer: impl FnOnce()) {
        self.with(|requests| {
            let token = requests.remove(id);
            if token.is_some_and(|token| !token.is_cancelled()) {
                answer();
            }
        });
    }

    /// Cancels the calls of a turn. None of them is answered after this.
    pub(crate) fn cancel_turn(&self, turn: &CancellationToken) {
        self.with(|_| turn.cancel());
    }

    pub(crate) fn cancel(&self, id: &str) {
        if let Some(token) = self.with(|requests| requests.remove(id)) {
            token.cancel();
        }
    }

    fn with<T>(&self, change: impl FnOnce(&mut HashMap<String, CancellationToken>) -> T) -> T {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut requests)
    }
}
