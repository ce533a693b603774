//! The stream of what happens until a prompt's result.

use std::fmt;
use std::sync::Arc;

use crate::protocol::Link;
use crate::{Claude, Error, Message, TurnResult};

/// The stream of one turn: every message up to the turn's result.
///
/// Claude Code may begin turns by itself meanwhile, when a background task has ended. Their messages are
/// not in here: read them from [`Claude::events`].
///
/// Dropping it before the result cancels its callbacks and interrupts Claude Code. So does the next
/// [`Claude::ask`].
#[must_use = "a turn that is dropped is interrupted"]
pub struct Turn<'a> {
    claude: &'a mut Claude,
    _abandon: AbandonOnDrop,
}

impl<'a> Turn<'a> {
    /// The turn of the prompt that has this uuid.
    pub(crate) fn new(claude: &'a mut Claude, uuid: String) -> Self {
        let link = Arc::clone(&claude.link);
        Self {
            claude,
            _abandon: AbandonOnDrop { link, uuid },
        }
    }

    /// The next message; `None` after the result, or after Claude Code has ended.
    ///
    /// An error is about one message, and the stream goes on, unless it is [`Error::Ended`]. It is safe
    /// to drop the returned future: no message is lost.
    pub async fn next(&mut self) -> Option<Result<Message, Error>> {
        self.claude.link.inbox.next_of_turn().await
    }

    /// Reads to the end, and gives the result.
    pub async fn result(mut self) -> Result<TurnResult, Error> {
        let mut last = None;
        while let Some(message) = self.next().await {
            last = Some(message);
        }
        match last {
            Some(Ok(Message::Result(result))) => Ok(result),
            Some(Err(error)) => Err(error),
            _ => Err(self.claude.link.exit().error()),
        }
    }

    /// Interrupts the turn. Its stream then ends with its result.
    pub async fn interrupt(&self) -> Result<(), Error> {
        self.claude.interrupt().await
    }
}

impl fmt::Debug for Turn<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turn")
            .field("done", &self.claude.link.inbox.is_between_turns())
            .finish_non_exhaustive()
    }
}

/// A type of its own so that `Turn` has no `Drop`: the client can be used again after the last use of
/// the turn, not only after the end of its scope.
struct AbandonOnDrop {
    link: Arc<Link>,
    uuid: String,
}

impl Drop for AbandonOnDrop {
    fn drop(&mut self) {
        self.link.abandon_turn(Some(&self.uuid));
    }
}
