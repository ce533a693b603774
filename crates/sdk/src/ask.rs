//! A prompt that is about to be sent, and the end of the turn before it.

use std::collections::VecDeque;
use std::future::IntoFuture;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::hooks::registry::MAX_TIMEOUT;
use crate::hooks::scope::Scope;
use crate::protocol::frames;
use crate::turn::{OpenTurn, ends_turn};
use crate::{Claude, Error, Message, Turn};

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

    /// Until when the callbacks of this turn may run, counted from the prompt. A call whose own timeout
    /// is later is cut to it, and a call after it fails at once (`hook_timeout`). The turn itself may
    /// take longer.
    pub fn deadline(mut self, limit: Duration) -> Self {
        self.deadline = Some(limit.min(MAX_TIMEOUT));
        self
    }

    async fn begin(self) -> Result<Turn<'a>, Error> {
        let claude = self.claude;
        let before_prompt = claude.end_last_turn().await?;
        let link = &claude.link;
        if let Some(error) = link.exit_error() {
            return Err(error);
        }
        let scope = Scope {
            token: link.client.child_token(),
            deadline: self.deadline.map(|limit| Instant::now() + limit),
        };
        link.service.set_scope(scope.clone());
        link.early_interrupt.prompted();
        link.writer.send(&frames::user_message(&self.prompt));
        let open = Arc::new(OpenTurn::new(Arc::clone(link), scope.token));
        claude.open = Some(Arc::clone(&open));
        Ok(Turn::new(claude, before_prompt, open))
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
    /// Waits for the end of a turn that was dropped. Returns the messages that came after it: they
    /// belong to no prompt, so a result among them does not end the next turn.
    async fn end_last_turn(&mut self) -> Result<VecDeque<Result<Message, Error>>, Error> {
        // It stays open until its result has come, also if this future is dropped meanwhile.
        if let Some(open) = self.open.clone()
            && open.abandon()
        {
            let limit = INTERRUPT_WAIT;
            let skipped = tokio::time::timeout(limit, self.skip_to_result()).await;
            skipped.map_err(|_| Error::TurnNotEnded { limit })?;
        }
        self.open = None;
        Ok(std::iter::from_fn(|| self.messages.try_recv().ok()).collect())
    }

    async fn skip_to_result(&mut self) {
        while let Some(message) = self.messages.recv().await {
            if ends_turn(&message) {
                return;
            }
        }
    }
}
