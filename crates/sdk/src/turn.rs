//! The streams of messages: the turn of a prompt, and the events between turns.

use std::fmt;
use std::future::IntoFuture;
use std::hash::{BuildHasher, RandomState};
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use becket_wire::EventId;
use tokio::time::Instant;

use crate::hooks::registry::MAX_TIMEOUT;
use crate::hooks::service::CallLimits;
use crate::protocol::Connection;
use crate::protocol::inbox::Prompt;
use crate::{Claude, Error, Message, TurnResult};

/// The longest time that an interrupted turn may take to end before the next one can start.
const INTERRUPT_WAIT: Duration = Duration::from_secs(10);

/// A prompt that is about to be sent. Await it for the [`Turn`].
#[derive(Debug)]
#[must_use = "a prompt is not sent until this is awaited"]
pub struct Ask<'a> {
    pub(crate) claude: &'a mut Claude,
    pub(crate) prompt: String,
    pub(crate) deadline: Option<Duration>,
}

impl<'a> Ask<'a> {
    /// Sets the deadline of the callbacks of this turn, counted from the prompt. It replaces the default
    /// timeout of 30 seconds, and may be longer. It shortens a timeout of the
    /// [client](crate::Builder::timeout) or of the [hook](crate::Hook::timeout) that ends later. A call
    /// after it fails at once (`hook_timeout`). The turn itself may take longer.
    pub fn deadline(mut self, limit: Duration) -> Self {
        self.deadline = Some(limit.min(MAX_TIMEOUT));
        self
    }

    async fn begin(self) -> Result<Turn<'a>, Error> {
        let claude = self.claude;
        claude.end_last_turn().await?;
        let connection = &claude.connection;
        if let Some(error) = connection.exit_error() {
            return Err(error);
        }
        let limits = CallLimits {
            token: connection.client.child_token(),
            deadline: self.deadline.map(|limit| Instant::now() + limit),
        };
        let uuid = new_uuid();
        connection.begin_turn(&self.prompt, Prompt::new(uuid.clone(), limits));
        let connection = Arc::clone(connection);
        Ok(Turn {
            claude,
            _abandon: AbandonOnDrop { connection, uuid },
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
    /// Waits for the end of a turn that was dropped.
    async fn end_last_turn(&self) -> Result<(), Error> {
        let limit = INTERRUPT_WAIT;
        self.connection.abandon_turn(None);
        // The turn stays open until its result has come, also if this future is dropped meanwhile.
        let ended = tokio::time::timeout(limit, self.connection.inbox.turn_ended()).await;
        ended.map_err(|_| Error::TurnNotEnded { limit })
    }
}

/// Makes the uuid of a prompt. Claude Code keeps it in the session's transcript.
fn new_uuid() -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let random = [(); 2].map(|()| RandomState::new().hash_one(0));
    EventId::at(now.unwrap_or_default(), random).to_string()
}

/// The stream of one turn: every message up to the turn's result.
///
/// Claude Code may begin turns by itself meanwhile, when a background task has ended. The messages of
/// those turns come from [`Claude::events`].
///
/// Dropping the turn before its result cancels its callbacks and interrupts Claude Code. So does the next
/// [`Claude::ask`].
#[must_use = "a turn that is dropped is interrupted"]
pub struct Turn<'a> {
    claude: &'a mut Claude,
    _abandon: AbandonOnDrop,
}

impl Turn<'_> {
    /// Waits for the next message; `None` after the result, or after Claude Code has ended.
    ///
    /// An error is about one message, and the stream goes on, unless it is [`Error::Ended`]. It is safe
    /// to drop the returned future: no message is lost.
    pub async fn next(&mut self) -> Option<Result<Message, Error>> {
        self.claude.connection.inbox.next_of_turn().await
    }

    /// Reads to the end, and returns the result.
    pub async fn result(mut self) -> Result<TurnResult, Error> {
        let mut last = None;
        while let Some(message) = self.next().await {
            last = Some(message);
        }
        match last {
            Some(Ok(Message::Result(result))) => Ok(result),
            Some(Err(error)) => Err(error),
            _ => Err(self.claude.connection.exit().error()),
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
            .field("done", &self.claude.connection.inbox.is_between_turns())
            .finish_non_exhaustive()
    }
}

/// Abandons the turn when it is dropped. A type of its own so that `Turn` has no `Drop`: the client can be
/// used again after the last use of the turn, and not only after the end of its scope.
struct AbandonOnDrop {
    connection: Arc<Connection>,
    uuid: String,
}

impl Drop for AbandonOnDrop {
    fn drop(&mut self) {
        self.connection.abandon_turn(Some(&self.uuid));
    }
}

/// The stream of messages that belong to no turn. See [`Claude::events`].
pub struct Events<'a>(pub(crate) &'a mut Claude);

impl Events<'_> {
    /// Waits for the next message; `None` after Claude Code has ended.
    ///
    /// An error is about one message, as in a turn. It is safe to drop the returned future: no message
    /// is lost.
    pub async fn next(&mut self) -> Option<Result<Message, Error>> {
        self.0.connection.inbox.next_event().await
    }
}

impl fmt::Debug for Events<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").finish_non_exhaustive()
    }
}
