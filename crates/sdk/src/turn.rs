//! One prompt, and the stream of what happens until its result.

use std::collections::VecDeque;
use std::fmt;
use std::future::IntoFuture;
use std::pin::Pin;
use std::time::Duration;

use tokio::time::Instant;

use crate::hooks::service::Scope;
use crate::protocol::frames;
use crate::{Claude, Error, Message, TurnResult};

/// How long an interrupted turn may take to end before the next one starts anyway.
const INTERRUPTED: Duration = Duration::from_secs(10);

/// A prompt that is about to be given. Await it for the [`Turn`].
#[derive(Debug)]
#[must_use = "a prompt is given when this is awaited"]
pub struct Ask<'a> {
    claude: &'a mut Claude,
    prompt: String,
    deadline: Option<Duration>,
}

impl<'a> Ask<'a> {
    pub(crate) fn new(claude: &'a mut Claude, prompt: String) -> Self {
        let deadline = None;
        Self {
            claude,
            prompt,
            deadline,
        }
    }

    /// How long the callbacks of this turn have, all together: what is left of it bounds each call, if
    /// that is less than the call's own timeout. The turn itself may take longer.
    pub fn deadline(mut self, limit: Duration) -> Self {
        self.deadline = Some(limit);
        self
    }

    async fn begin(self) -> Result<Turn<'a>, Error> {
        let claude = self.claude;
        let early = claude.catch_up().await;
        let scope = Scope {
            token: claude.link.client.child_token(),
            deadline: self.deadline.map(|limit| Instant::now() + limit),
        };
        claude.link.service.enter(scope.clone());
        claude.link.writer.send(&frames::user_message(&self.prompt));
        let done = false;
        Ok(Turn {
            claude,
            early,
            scope,
            done,
        })
    }
}

impl<'a> IntoFuture for Ask<'a> {
    type Output = Result<Turn<'a>, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.begin())
    }
}

impl Claude {
    /// What came since the last turn. It is not of the next one, so no result among it ends that.
    async fn catch_up(&mut self) -> VecDeque<Result<Message, Error>> {
        let end = Instant::now() + INTERRUPTED;
        while self.unread > 0 {
            match tokio::time::timeout_at(end, self.messages.recv()).await {
                Ok(Some(message)) => self.unread -= usize::from(ends_turn(&message)),
                Ok(None) | Err(_) => self.unread = 0,
            }
        }
        std::iter::from_fn(|| self.messages.try_recv().ok()).collect()
    }
}

/// Whether a turn ends with it: its result, or a result that is too long to be read.
fn ends_turn(message: &Result<Message, Error>) -> bool {
    match message {
        Ok(message) => matches!(message, Message::Result(_)),
        Err(Error::TooLong { kind, .. }) => kind == "result",
        Err(_) => false,
    }
}

/// The stream of one turn: everything that Claude Code says until the turn's result.
///
/// Dropping it before the result cancels its callbacks and interrupts Claude Code.
#[must_use = "a turn that is dropped is interrupted"]
pub struct Turn<'a> {
    claude: &'a mut Claude,
    early: VecDeque<Result<Message, Error>>,
    scope: Scope,
    done: bool,
}

impl Turn<'_> {
    /// The next message; `None` after the result, or after Claude Code has ended.
    ///
    /// An error is about one message, and the stream goes on, unless it is [`Error::Ended`]. It is safe
    /// to drop the returned future: no message is lost.
    pub async fn next(&mut self) -> Option<Result<Message, Error>> {
        if let Some(early) = self.early.pop_front() {
            return Some(early);
        }
        if self.done {
            return None;
        }
        let message = self.claude.messages.recv().await;
        if message.as_ref().is_none_or(ends_turn) {
            self.finish();
        }
        message
    }

    /// Reads to the end, and gives the result.
    pub async fn result(mut self) -> Result<TurnResult, Error> {
        while let Some(message) = self.next().await {
            match message {
                Ok(Message::Result(result)) if self.done => return Ok(result),
                Err(error) if self.done || matches!(error, Error::Ended { .. }) => {
                    return Err(error);
                }
                _ => {}
            }
        }
        Err(self.claude.link.death().error())
    }

    /// Interrupts the turn. Its stream then ends with its result.
    pub async fn interrupt(&self) -> Result<(), Error> {
        self.claude.interrupt().await
    }

    fn finish(&mut self) {
        self.done = true;
        // Calls between turns belong to the client, and have no deadline.
        self.claude.link.service.enter(Scope {
            token: self.claude.link.client.child_token(),
            deadline: None,
        });
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if self.done {
            return;
        }
        self.finish();
        self.scope.token.cancel();
        self.claude.unread += 1;
        self.claude.link.interrupt_and_forget();
    }
}

impl fmt::Debug for Turn<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let done = self.done;
        f.debug_struct("Turn")
            .field("done", &done)
            .finish_non_exhaustive()
    }
}
