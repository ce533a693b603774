//! A prompt that is about to be sent, and the end of the turn before it.

use std::future::IntoFuture;
use std::hash::{BuildHasher, RandomState};
use std::pin::Pin;
use std::time::{Duration, SystemTime};

use becket_wire::EventId;
use tokio::time::Instant;

use crate::hooks::registry::MAX_TIMEOUT;
use crate::hooks::scope::Scope;
use crate::protocol::frames;
use crate::protocol::inbox::Prompt;
use crate::{Claude, Error, Turn};

/// How long an interrupted turn may take to end before the next one can start.
const INTERRUPT_WAIT: Duration = Duration::from_secs(10);

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
        Self {
            claude,
            prompt,
            deadline: None,
        }
    }

    /// Until when the callbacks of this turn may run, counted from the prompt. It takes the place of the
    /// default timeout of 30 seconds, and may be longer. A timeout of the [client](crate::Builder::timeout)
    /// or of the [hook](crate::Hook::timeout) that ends later is cut to it. A call after it fails at once
    /// (`hook_timeout`). The turn itself may take longer.
    pub fn deadline(mut self, limit: Duration) -> Self {
        self.deadline = Some(limit.min(MAX_TIMEOUT));
        self
    }

    async fn begin(self) -> Result<Turn<'a>, Error> {
        let claude = self.claude;
        claude.end_last_turn().await?;
        let link = &claude.link;
        if let Some(error) = link.exit_error() {
            return Err(error);
        }
        let scope = Scope {
            token: link.client.child_token(),
            deadline: self.deadline.map(|limit| Instant::now() + limit),
        };
        link.early_interrupt.prompted();
        let uuid = new_uuid();
        let frame = frames::user_message(&self.prompt, &uuid);
        let prompt = Prompt::new(uuid.clone(), scope);
        // Until Claude Code starts with it, calls belong to a turn that it began by itself.
        link.inbox
            .begin(prompt, |scope| link.service.set_scope(scope.clone()));
        link.writer.send(&frame);
        Ok(Turn::new(claude, uuid))
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
        self.link.abandon_turn(None);
        // It stays open until its result has come, also if this future is dropped meanwhile.
        let ended = tokio::time::timeout(limit, self.link.inbox.turn_ended()).await;
        ended.map_err(|_| Error::TurnNotEnded { limit })
    }
}

/// Makes the uuid of a prompt. Claude Code keeps it in the session's transcript.
fn new_uuid() -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let random = [(); 2].map(|()| RandomState::new().hash_one(0));
    EventId::at(now.unwrap_or_default(), random).to_string()
}
