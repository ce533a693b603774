//! A prompt on its way, and what has to be over before it goes out.

use std::collections::VecDeque;
use std::future::IntoFuture;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::hooks::registry::LONGEST;
use crate::hooks::scope::Scope;
use crate::protocol::frames;
use crate::turn::{OpenTurn, ends_turn};
use crate::{Claude, Error, Message, Turn};

/// How long an interrupted turn may take to end before the next one can start.
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
        Self {
            claude,
            prompt,
            deadline: None,
        }
    }

    /// How long the callbacks of this turn have, all together: what is left of it bounds each call, if
    /// that is less than the call's own timeout. The turn itself may take longer.
    pub fn deadline(mut self, limit: Duration) -> Self {
        self.deadline = Some(limit.min(LONGEST));
        self
    }

    async fn begin(self) -> Result<Turn<'a>, Error> {
        let claude = self.claude;
        let early = claude.catch_up().await?;
        let link = &claude.link;
        if let Some(error) = link.dead() {
            return Err(error);
        }
        let scope = Scope {
            token: link.client.child_token(),
            deadline: self.deadline.map(|limit| Instant::now() + limit),
        };
        link.service.enter(scope.clone());
        link.writer.send(&frames::user_message(&self.prompt));
        let open = Arc::new(OpenTurn::new(Arc::clone(link), scope.token));
        claude.open = Some(Arc::clone(&open));
        Ok(Turn::new(claude, early, open))
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
    /// Ends the turn before, and gives what came since. That is not of the next turn, so no result
    /// among it ends that one.
    async fn catch_up(&mut self) -> Result<VecDeque<Result<Message, Error>>, Error> {
        // It stays open until its result has come, also if this future is dropped meanwhile.
        if let Some(open) = self.open.clone()
            && open.abandon()
        {
            let limit = INTERRUPTED;
            let skipped = tokio::time::timeout(limit, self.skip_to_result()).await;
            skipped.map_err(|_| Error::NoAnswer {
                request: "interrupt".to_owned(),
                limit,
                stderr: self.link.stderr.text(),
            })?;
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
