//! The builder of a client: registers the callbacks, then starts Claude Code.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use crate::becket::{self, BecketOptions};
use crate::hooks::registry::{MAX_TIMEOUT, Registry};
use crate::hooks::service::{FailureFunction, Service};
use crate::hooks::{CallbackFailure, CallbackResult, Context, Hook, Matcher, Selector};
use crate::options::Options;
use crate::permission::{PermissionCallback, PermissionFunction, PermissionResult, ToolRequest};
use crate::process::{Process, StderrTail};
use crate::protocol::writer::Writer;
use crate::protocol::{Connection, Exit};
use crate::{Claude, Error, TurnResult};

/// The builder of a client. See [`Claude::builder`].
#[must_use = "a builder does nothing until `start`"]
#[derive(Default)]
pub struct Builder {
    pub(crate) options: Options,
    hooks: Vec<Hook>,
    permission: Option<PermissionFunction>,
    permission_timeout: Option<Duration>,
    timeout: Option<Duration>,
    on_failure: Option<FailureFunction>,
    pub(crate) becket: Option<BecketOptions>,
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").finish_non_exhaustive()
    }
}

impl Builder {
    /// Registers a callback for an event.
    ///
    /// The first argument is one of this crate's constants, or an [`EventName`](crate::EventName). The
    /// second selects the calls, as in Claude Code's settings: `"Bash"`, `"Write|Edit"`,
    /// [`Any`](Matcher::Any).
    ///
    /// ```
    /// use becket_sdk::{Answer, Any, Claude, Event, EventName, Stop, UserPromptSubmit};
    ///
    /// let builder = Claude::builder()
    ///     .on(UserPromptSubmit, Any, |event, _ctx| async move {
    ///         if event.prompt.contains("deploy") {
    ///             return Ok(Answer::block("deploys are for people"));
    ///         }
    ///         Ok(Answer::none())
    ///     })
    ///     .on(Stop, Any, |_event, _ctx| async { Ok(Answer::none()) })
    ///     .on(EventName::from("SomeNewEvent"), Any, |event: Event, _ctx| async move {
    ///         println!("{:?}", event.rest());
    ///         Ok(Answer::none())
    ///     });
    /// ```
    pub fn on<S, F, R>(self, selector: S, matcher: impl Into<Matcher>, function: F) -> Self
    where
        S: Selector,
        F: Fn(S::Input, Context) -> R + Send + Sync + 'static,
        R: Future<Output = CallbackResult> + Send + 'static,
    {
        self.hook(Hook::new(selector, matcher, function))
    }

    /// Registers a callback that has limits of its own.
    pub fn hook(mut self, hook: Hook) -> Self {
        self.hooks.push(hook);
        self
    }

    /// Registers the permission callback, which Claude Code asks when a tool call needs the user's
    /// permission. If it fails, the call is denied.
    ///
    /// PermissionRequest hooks are asked at the same time, and the first answer counts.
    pub fn can_use_tool<F, R>(mut self, function: F) -> Self
    where
        F: Fn(ToolRequest, Context) -> R + Send + Sync + 'static,
        R: Future<Output = PermissionResult> + Send + 'static,
    {
        self.options.asks_permission = true;
        let function = Arc::new(function);
        self.permission = Some(Arc::new(move |request, context| {
            let function = Arc::clone(&function);
            Box::pin(async move { function(request, context).await })
        }));
        self
    }

    /// Calls this function for each call of a callback that fails: it timed out, panicked, returned an
    /// error, or returned an answer that its event does not take. The `callback_id` of the context names
    /// the callback. For the effect on the event, see [`OnFailure`](crate::OnFailure).
    ///
    /// ```
    /// use becket_sdk::Claude;
    ///
    /// let builder = Claude::builder().on_callback_failure(|ctx, failure| {
    ///     eprintln!("{}: {failure}", ctx.callback_id);
    /// });
    /// ```
    pub fn on_callback_failure<F>(mut self, function: F) -> Self
    where
        F: Fn(&Context, &CallbackFailure) + Send + Sync + 'static,
    {
        self.on_failure = Some(Arc::new(function));
        self
    }

    /// Sets the time limit of a callback: 30 seconds by default. A [hook](Hook::timeout) can have a limit
    /// of its own, and a turn's [deadline](crate::Ask::deadline) can shorten it.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sets the time limit of the permission callback, for callbacks that ask a person. The default is
    /// that of [`timeout`](Self::timeout).
    pub fn permission_timeout(mut self, timeout: Duration) -> Self {
        self.permission_timeout = Some(timeout);
        self
    }

    /// Starts Claude Code, registers the callbacks, and waits until Claude Code is ready.
    pub async fn start(mut self) -> Result<Claude, Error> {
        let service = self.service()?;
        let on_stderr = self.options.stderr.take();
        let (process, stdin, stdout) = Process::start(self.options.command()?, on_stderr)?;
        if let Some(becket) = &service.0.becket {
            let _ = becket.pid.set(process.pid);
        }
        let ends = (process.ended(), process.exit());
        let streams = (stdout, stdin, process.stderr.clone());
        self.begin(service, streams, ends, Some(process)).await
    }

    /// Connects to a Claude Code that another program has started, for example in a container, by its
    /// stdout and its stdin. The options of the command line are ignored.
    ///
    /// Set `CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS=1` in its environment: without it, [`Claude::close`]
    /// may end a background task before Claude Code has reacted to it.
    pub async fn connect(
        mut self,
        output: impl AsyncRead + Send + Unpin + 'static,
        input: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Result<Claude, Error> {
        let service = self.service()?;
        let streams = (output, input, StderrTail::default());
        let ends = (std::future::pending(), async { Exit::default() });
        self.begin(service, streams, ends, None).await
    }

    fn service(&mut self) -> Result<(Service, CancellationToken), Error> {
        let mut registry = Registry::new(std::mem::take(&mut self.hooks), self.timeout)?;
        let becket = self.becket.take();
        let becket = becket.map(|becket| becket.into_hook(&self.options));
        let becket = becket.transpose()?;
        if let Some(becket) = &becket {
            becket::register(&mut registry, becket);
        }
        let permission_timeout = self.permission_timeout.or(self.timeout);
        let permission = self.permission.take().map(|function| PermissionCallback {
            function,
            timeout: permission_timeout.map(|time| time.min(MAX_TIMEOUT)),
        });
        let client = CancellationToken::new();
        let mut service = Service::new(registry, permission, becket, &client);
        service.on_failure = self.on_failure.take();
        Ok((service, client))
    }

    async fn begin(
        self,
        (service, client): (Service, CancellationToken),
        (output, input, stderr): (
            impl AsyncRead + Send + Unpin + 'static,
            impl AsyncWrite + Send + Unpin + 'static,
            StderrTail,
        ),
        (ended, exit): (
            impl Future<Output = ()> + Send + 'static,
            impl Future<Output = Exit> + Send + 'static,
        ),
        process: Option<Process>,
    ) -> Result<Claude, Error> {
        let writer = Writer::start(input, client.clone());
        let connection = Connection::new(writer, service, stderr, client);
        connection.read_from(output, self.options.max_message, ended, exit);
        let mut claude = Claude::new(connection, process, self.options.background_wait);
        claude.initialize(self.options.start_timeout).await?;
        Ok(claude)
    }
}

/// Starts Claude Code, sends one prompt, and returns the result.
///
/// ```no_run
/// # async fn example() -> Result<(), becket_sdk::Error> {
/// let result = becket_sdk::query("What does this project do?").await?;
/// println!("{}", result.text());
/// # Ok(())
/// # }
/// ```
pub async fn query(prompt: impl Into<String>) -> Result<TurnResult, Error> {
    Claude::builder().query(prompt).await
}

impl Builder {
    /// Starts Claude Code with these options and callbacks, sends one prompt, and returns the
    /// result. If background tasks still run then, it waits for them, at most for
    /// [`background_wait`](Self::background_wait), and returns the last result.
    ///
    /// ```no_run
    /// use becket_sdk::{Claude, PermissionMode};
    ///
    /// # async fn example() -> Result<(), becket_sdk::Error> {
    /// let result = Claude::builder()
    ///     .permission_mode(PermissionMode::Plan)
    ///     .query("How would you add a test for the parser?")
    ///     .await?;
    /// println!("{}", result.text());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn query(self, prompt: impl Into<String>) -> Result<TurnResult, Error> {
        let mut claude = self.start().await?;
        let result = claude.ask(prompt).await?.result().await?;
        let waited = claude.wait_for_background().await;
        let result = claude.connection.inbox.last_result().unwrap_or(result);
        // The result has come, so an error at the end of the process changes nothing.
        let _ = claude.end().await;
        match waited {
            Ok(()) => Ok(result),
            Err(Error::BackgroundTasks { tasks, limit, .. }) => Err(Error::BackgroundTasks {
                tasks,
                limit,
                result: Some(Box::new(result)),
            }),
            Err(error) => Err(error),
        }
    }
}
