//! A running Claude Code.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::process::Process;
use crate::protocol::Link;
use crate::{Ask, Builder, Control, Error, Events, PermissionMode};

/// A running Claude Code, and the conversation with it.
///
/// Dropping it cancels its callbacks and ends the process: SIGTERM, five seconds later SIGKILL. The
/// process is reaped in both cases, as long as the tokio runtime is alive. [`close`](Self::close) ends
/// it in order, and waits.
///
/// It lives on the runtime that started it, and ends with it. A signal that ends your program drops
/// nothing: Claude Code then finishes its turn without callbacks. It refuses each call that a PreToolUse
/// callback was registered for, closed or open, and runs the others. Catch the signal and drop the client
/// to prevent that.
pub struct Claude {
    pub(crate) link: Arc<Link>,
    process: Option<Process>,
    /// The longest time that `close` waits for background tasks.
    background_wait: Duration,
    server_info: Value,
}

impl Claude {
    /// Begins to make a client.
    pub fn builder() -> Builder {
        Builder::default()
    }

    pub(crate) fn new(
        link: Arc<Link>,
        process: Option<Process>,
        background_wait: Duration,
    ) -> Self {
        Self {
            link,
            process,
            background_wait,
            server_info: Value::Null,
        }
    }

    pub(crate) async fn initialize(&mut self, limit: Duration) -> Result<(), Error> {
        self.server_info = self.link.initialize(limit).await?;
        Ok(())
    }

    /// Gives a prompt. Await it for the [`Turn`](crate::Turn), the stream of what happens.
    ///
    /// A turn that was dropped before its end was interrupted; this first waits until it has ended.
    pub fn ask(&mut self, prompt: impl Into<String>) -> Ask<'_> {
        Ask::new(self, prompt.into())
    }

    /// The messages that belong to no turn: those of turns that Claude Code begins by itself when a
    /// background task has ended, and what comes between turns.
    ///
    /// ```no_run
    /// # async fn example(mut claude: becket_sdk::Claude) -> Result<(), becket_sdk::Error> {
    /// use becket_sdk::Message;
    ///
    /// claude.ask("Start a subagent that reads all the logs").await?.result().await?;
    /// let mut events = claude.events();
    /// while let Some(event) = events.next().await {
    ///     if let Message::Result(result) = event? {
    ///         println!("of its own accord: {}", result.text());
    ///         break;
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The newest 4 MiB are kept until they are read; see [`dropped_events`](Self::dropped_events).
    pub fn events(&mut self) -> Events<'_> {
        Events::new(self)
    }

    /// Returns the number of events that were dropped because they were not read.
    pub fn dropped_events(&self) -> u64 {
        self.link.inbox.dropped_events()
    }

    /// Returns the number of lines of Claude Code's output that were skipped because they are no
    /// messages. Each is logged.
    pub fn skipped_lines(&self) -> u64 {
        self.link.skipped_lines()
    }

    /// A handle for requests that can be made at any time, from anywhere.
    pub fn control(&self) -> Control {
        Control::new(Arc::clone(&self.link))
    }

    /// Interrupts what Claude Code is doing.
    pub async fn interrupt(&self) -> Result<(), Error> {
        self.control().interrupt().await
    }

    /// Changes how much Claude Code may do without asking.
    pub async fn set_permission_mode(&self, mode: impl Into<PermissionMode>) -> Result<(), Error> {
        self.control().set_permission_mode(mode).await
    }

    /// Changes the model. PreModelSwitch callbacks may refuse it.
    pub async fn set_model(&self, model: &str) -> Result<(), Error> {
        self.control().set_model(model).await
    }

    /// The process. Absent if the client was made with [`Builder::connect`].
    pub fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(|process| process.pid)
    }

    /// Claude Code's version. Absent in versions that do not say it.
    pub fn version(&self) -> Option<&str> {
        self.server_info["claude_code_version"].as_str()
    }

    /// Claude Code's answer to `initialize`: commands, models, account.
    pub fn server_info(&self) -> &Value {
        &self.server_info
    }

    /// Waits until the background tasks have ended and Claude Code has reacted to each, at most for
    /// [`Builder::background_wait`].
    pub(crate) async fn wait_for_background(&self) -> Result<(), Error> {
        let limit = self.background_wait;
        if limit.is_zero() {
            return Ok(());
        }
        let done = tokio::time::timeout(limit, self.link.inbox.background_done()).await;
        let tasks = self.link.inbox.background_tasks();
        match done {
            _ if tasks.is_empty() => Ok(()),
            Ok(()) => Err(self.link.exit().error()),
            Err(_) => Err(Error::BackgroundTasks {
                tasks,
                limit,
                result: None,
            }),
        }
    }

    /// Ends Claude Code in order: waits for its [background tasks](Builder::background_wait), closes
    /// its input, and lets it finish for five seconds. Callbacks go on meanwhile.
    ///
    /// Returns an error if background tasks still run, if it had ended before, had to be killed, or
    /// ended with another exit code than 0 and 1. It exits with 1 if its last turn failed or was
    /// interrupted, as that turn's result says.
    pub async fn close(self) -> Result<(), Error> {
        let waited = self.wait_for_background().await;
        let ended = self.end().await;
        waited.and(ended)
    }

    pub(crate) async fn end(self) -> Result<(), Error> {
        self.link.writer.close();
        if let Some(error) = self.link.exit_error() {
            return Err(error);
        }
        let Some(process) = &self.process else {
            return Ok(());
        };
        let exit = process.exit().await;
        if let Some(0 | 1) = exit.status.and_then(|status| status.code()) {
            return Ok(());
        }
        process.stop();
        process.ended().await;
        Err(process.exit().await.error())
    }
}

impl Drop for Claude {
    fn drop(&mut self) {
        // Closed first: what is queued is written before the cancellation is seen.
        self.link.writer.close();
        self.link.client.cancel();
        if let Some(process) = &self.process {
            process.stop();
        }
    }
}

impl fmt::Debug for Claude {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Claude")
            .field("pid", &self.pid())
            .field("version", &self.version())
            .finish_non_exhaustive()
    }
}
