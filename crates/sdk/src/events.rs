//! The stream of what belongs to no turn.

use std::fmt;

use crate::{Claude, Error, Message};

/// The messages that belong to no turn. See [`Claude::events`].
pub struct Events<'a>(&'a mut Claude);

impl<'a> Events<'a> {
    pub(crate) fn new(claude: &'a mut Claude) -> Self {
        Self(claude)
    }

    /// Waits for the next message; `None` after Claude Code has ended.
    ///
    /// An error is about one message, as in a turn. It is safe to drop the returned future: no message
    /// is lost.
    pub async fn next(&mut self) -> Option<Result<Message, Error>> {
        self.0.link.inbox.next_event().await
    }
}

impl fmt::Debug for Events<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").finish_non_exhaustive()
    }
}
