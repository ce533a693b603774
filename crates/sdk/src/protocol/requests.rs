//! Our own requests that wait for Claude Code's answer.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use serde_json::Value;
use tokio::sync::oneshot;

/// What a request comes to: the answer, or the text of an error.
pub(crate) type Outcome = Result<Value, String>;

/// The requests that wait, by id.
#[derive(Debug, Default)]
pub(crate) struct Requests(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    last: u64,
    by_id: HashMap<String, oneshot::Sender<Outcome>>,
    closed: bool,
}

impl Waiting {
    fn next_id(&mut self) -> String {
        self.last += 1;
        format!("req_{}", self.last)
    }
}

impl Requests {
    /// Makes an id. The receiver fails at once if Claude Code has ended.
    pub(crate) fn begin(&self) -> (String, oneshot::Receiver<Outcome>) {
        let (sender, receiver) = oneshot::channel();
        let id = self.with(|waiting| {
            let id = waiting.next_id();
            if !waiting.closed {
                waiting.by_id.insert(id.clone(), sender);
            }
            id
        });
        (id, receiver)
    }

    /// An id for a request whose answer is ignored.
    pub(crate) fn next_id(&self) -> String {
        self.with(Waiting::next_id)
    }

    pub(crate) fn answer(&self, id: &str, outcome: Outcome) {
        if let Some(sender) = self.with(|waiting| waiting.by_id.remove(id)) {
            let _ = sender.send(outcome);
        }
    }

    pub(crate) fn forget(&self, id: &str) {
        self.with(|waiting| waiting.by_id.remove(id));
    }

    /// Claude Code has ended: every receiver fails.
    pub(crate) fn close(&self) {
        self.with(|waiting| {
            waiting.closed = true;
            waiting.by_id.clear();
        });
    }

    fn with<T>(&self, change: impl FnOnce(&mut Waiting) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
