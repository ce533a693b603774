//! A running Claude Code, and the requests to it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::process::Process;
use crate::protocol::Connection;
use crate::{Ask, Builder, Error, Events, PermissionMode};

/// The time limit for Claude Code's answer to a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// A running Claude Code, and the conversation with it.
///
/// Dropping it cancels its callbacks and ends the process: SIGTERM, five seconds later SIGKILL. The
/// process is reaped in both cases, as long as the tokio runtime is alive. [`close`](Self::close) ends
/// it in order, and waits.
///
/// The client belongs to the runtime that started it, and ends with it. A signal that ends your program
/// drops nothing: Claude Code then finishes its turn without callbacks. It refuses each call that a
/// PreToolUse callback was registered for, closed or open, and runs the others. Catch the signal and drop
/// the client to prevent that.
pub struct Claude {
    pub(crate) connection: Arc<Connection>,
    process: Option<Process>,
    /// The longest time that `close` waits for background tasks.
    background_wait: Duration,
    server_info: Value,
}

impl Claude {
    /// Returns the builder of a client.
    pub fn builder() -> Builder {
        Builder::default()
    }

    pub(crate) fn new(
        connection: Arc<Connection>,
        process: Option<Process>,
        background_wait: Duration,
    ) -> Self {
        Self {
            connection,
            process,
            background_wait,
            server_info: Value::Null,
        }
    }

    pub(crate) async fn initialize(&mut self, limit: Duration) -> Result<(), Error> {
        self.server_info = self.connection.initialize(limit).await?;
        Ok(())
    }

    /// Sends a prompt. Await it for the [`Turn`](crate::Turn), the stream of messages.
    ///
    /// A turn that was dropped before its end was interrupted; this first waits until it has ended.
    pub fn ask(&mut self, prompt: impl Into<String>) -> Ask<'_> {
        Ask {
            claude: self,
            prompt: prompt.into(),
            deadline: None,
        }
    }

    /// Returns the stream of messages that belong to no turn: those of turns that Claude Code begins by
    /// itself when a background task has ended, and those between turns.
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
        Events(self)
    }

    /// Returns the number of events that were dropped because they were not read.
    pub fn dropped_events(&self) -> u64 {
        self.connection.inbox.dropped_events()
    }

    /// Returns the number of lines of Claude Code's output that were skipped because they are no
    /// messages. Each is logged.
    pub fn skipped_lines(&self) -> u64 {
        self.connection.skipped_lines()
    }

    /// Returns a handle for requests that can be made at any time, from anywhere.
    pub fn control(&self) -> Control {
        Control(Arc::clone(&self.connection))
    }

    /// Interrupts Claude Code's work.
    pub async fn interrupt(&self) -> Result<(), Error> {
        self.control().interrupt().await
    }

    /// Changes the permission mode: how much Claude Code may do without asking.
    pub async fn set_permission_mode(&self, mode: impl Into<PermissionMode>) -> Result<(), Error> {
        self.control().set_permission_mode(mode).await
    }

    /// Changes the model. PreModelSwitch callbacks may refuse it.
    pub async fn set_model(&self, model: &str) -> Result<(), Error> {
        self.control().set_model(model).await
    }

    /// Returns the process id. Absent if the client was made with [`Builder::connect`].
    pub fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(|process| process.pid)
    }

    /// Returns Claude Code's version. Absent in versions that do not report it.
    pub fn version(&self) -> Option<&str> {
        self.server_info["claude_code_version"].as_str()
    }

    /// Returns Claude Code's answer to `initialize`: commands, models, account.
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
        let done = tokio::time::timeout(limit, self.connection.inbox.background_done()).await;
        let tasks = self.connection.inbox.background_tasks();
        match done {
            _ if tasks.is_empty() => Ok(()),
            Ok(()) => Err(self.connection.exit().error()),
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
        self.connection.writer.close();
        if let Some(error) = self.connection.exit_error() {
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
        // Closed first: the queued frames are written before the cancellation is seen.
        self.connection.writer.close();
        self.connection.client.cancel();
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

/// Requests to a running Claude Code. Clone it, and use it while a [`Turn`](crate::Turn) is read.
///
/// ```no_run
/// # async fn example(mut claude: becket_sdk::Claude) -> Result<(), becket_sdk::Error> {
/// let control = claude.control();
/// let mut turn = claude.ask("Count to a million").await?;
/// tokio::spawn(async move {
///     tokio::time::sleep(std::time::Duration::from_secs(5)).await;
///     control.interrupt().await
/// });
/// while let Some(message) = turn.next().await {
///     println!("{}", message?.text());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Control(Arc<Connection>);

impl Control {
    /// Interrupts Claude Code's work. The turn's stream then ends with its result.
    pub async fn interrupt(&self) -> Result<(), Error> {
        self.0.early_interrupt.interrupted();
        let body = json!({"subtype": "interrupt"});
        self.request(body).await.map(drop)
    }

    /// Changes the permission mode: how much Claude Code may do without asking.
    pub async fn set_permission_mode(&self, mode: impl Into<PermissionMode>) -> Result<(), Error> {
        let mode = mode.into();
        let body = json!({"subtype": "set_permission_mode", "mode": mode.as_str()});
        self.request(body).await.map(drop)
    }

    /// Changes the model. PreModelSwitch callbacks may refuse it.
    pub async fn set_model(&self, model: &str) -> Result<(), Error> {
        let body = json!({"subtype": "set_model", "model": model});
        self.request(body).await.map(drop)
    }

    /// Sends a request of any subtype, and returns its answer. For requests that this crate has no
    /// function for: `{"subtype": "mcp_status"}`.
    pub async fn request(&self, body: Value) -> Result<Value, Error> {
        self.0.request(body, REQUEST_TIMEOUT).await
    }
}

impl fmt::Debug for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Control")
    }
}
