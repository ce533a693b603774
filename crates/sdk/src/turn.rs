//! The stream of what happens until a prompt's result.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use tokio_util::sync::CancellationToken;

use crate::hooks::scope::Scope;
use crate::protocol::Link;
use crate::{Claude, Error, Message, TurnResult};

/// The stream of one turn: every message up to the turn's result.
///
/// Dropping it before the result cancels its callbacks and interrupts Claude Code. So does the next
/// [`Claude::ask`].
#[must_use = "a turn that is dropped is interrupted"]
pub struct Turn<'a> {
    claude: &'a mut Claude,
    /// Messages from before the prompt that belong to no turn.
    before_prompt: VecDeque<Result<Message, Error>>,
    open: AbandonOnDrop,
}

impl<'a> Turn<'a> {
    pub(crate) fn new(
        claude: &'a mut Claude,
        before_prompt: VecDeque<Result<Message, Error>>,
        open: Arc<OpenTurn>,
    ) -> Self {
        let open = AbandonOnDrop(open);
        Self {
            claude,
            before_prompt,
            open,
        }
    }

    /// The next message; `None` after the result, or after Claude Code has ended.
    ///
    /// An error is about one message, and the stream goes on, unless it is [`Error::Ended`]. It is safe
    /// to drop the returned future: no message is lost.
    pub async fn next(&mut self) -> Option<Result<Message, Error>> {
        if let Some(before_prompt) = self.before_prompt.pop_front() {
            return Some(before_prompt);
        }
        if self.open.0.is_done() {
            return None;
        }
        let message = self.claude.messages.recv().await;
        if message.as_ref().is_none_or(ends_turn) {
            self.open.0.finish();
        }
        message
    }

    /// Reads to the end, and gives the result.
    pub async fn result(mut self) -> Result<TurnResult, Error> {
        while let Some(message) = self.next().await {
            let done = self.open.0.is_done();
            match message {
                Ok(Message::Result(result)) if done => return Ok(result),
                Err(error) if done || matches!(error, Error::Ended { .. }) => return Err(error),
                _ => {}
            }
        }
        Err(self.claude.link.exit().error())
    }

    /// Interrupts the turn. Its stream then ends with its result.
    pub async fn interrupt(&self) -> Result<(), Error> {
        self.claude.interrupt().await
    }
}

impl fmt::Debug for Turn<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turn")
            .field("done", &self.open.0.is_done())
            .finish_non_exhaustive()
    }
}

/// Whether a turn ends with it: its result, or a result that cannot be read.
pub(crate) fn ends_turn(message: &Result<Message, Error>) -> bool {
    match message {
        Ok(message) => matches!(message, Message::Result(_)),
        Err(Error::TooLong { kind, .. } | Error::NotJson { kind, .. }) => kind == "result",
        Err(_) => false,
    }
}

const RUNNING: u8 = 0;
const DONE: u8 = 1;
const ABANDONED: u8 = 2;

/// The state of a turn. It outlives the `Turn`, so that the client knows one that was dropped.
pub(crate) struct OpenTurn {
    link: Arc<Link>,
    token: CancellationToken,
    state: AtomicU8,
}

impl OpenTurn {
    pub(crate) fn new(link: Arc<Link>, token: CancellationToken) -> Self {
        let state = AtomicU8::new(RUNNING);
        Self { link, token, state }
    }

    fn is_done(&self) -> bool {
        self.state.load(Ordering::Acquire) != RUNNING
    }

    fn finish(&self) -> bool {
        self.end(DONE)
    }

    /// Cancels and interrupts it if it runs. Returns whether its result is still to come.
    pub(crate) fn abandon(&self) -> bool {
        if self.end(ABANDONED) {
            self.link.service.in_flight.cancel_turn(&self.token);
            self.link.send_interrupt();
        }
        self.state.load(Ordering::Acquire) == ABANDONED
    }

    fn end(&self, state: u8) -> bool {
        let (set, seen) = (Ordering::AcqRel, Ordering::Acquire);
        let was_running = self
            .state
            .compare_exchange(RUNNING, state, set, seen)
            .is_ok();
        if was_running {
            // Calls between turns belong to the client, and have no deadline.
            self.link.service.set_scope(Scope {
                token: self.link.client.child_token(),
                deadline: None,
            });
        }
        was_running
    }
}

/// A type of its own so that `Turn` has no `Drop`: the client can be used again after the last use of
/// the turn, not only after the end of its scope.
struct AbandonOnDrop(Arc<OpenTurn>);

impl Drop for AbandonOnDrop {
    fn drop(&mut self) {
        self.0.abandon();
    }
}
