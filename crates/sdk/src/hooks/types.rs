//! The types of a callback: the selector of its event, its context, its result and its failures.

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use becket_wire::event::{Event, EventName, PermissionMode};
use thiserror::Error;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Answer;

/// The error type of a callback: any error, so that `?` works in it.
pub type CallbackError = Box<dyn std::error::Error + Send + Sync>;

/// The return type of a hook callback.
pub type CallbackResult = Result<Answer, CallbackError>;

/// The boxed future of a stored callback.
pub(crate) type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A stored hook callback. Its input is the event's JSON, byte for byte as Claude Code sent it.
pub(crate) type Callback =
    Arc<dyn Fn(Arc<str>, Context) -> BoxFuture<CallbackResult> + Send + Sync>;

mod sealed {
    pub trait Sealed {}
}

/// The event that a hook is registered for, and the type of its callback's input.
///
/// The constants of this crate that are named like events ([`PreToolUse`](const@crate::PreToolUse) and the
/// others) give their callback the event's own type. An [`EventName`] gives it an [`Event`], for one
/// callback on several events, or for an event that this version of the crate does not know.
pub trait Selector: sealed::Sealed {
    /// The input of the callback.
    type Input: Send + 'static;

    /// Returns the name of the event.
    fn event(&self) -> EventName;

    /// Returns the function that converts an event to the callback's input, or to `None` if Claude Code
    /// sent another event.
    fn reader(self) -> fn(Event) -> Option<Self::Input>;
}

/// The selector of one known event. There is a constant for each: [`PreToolUse`](const@crate::PreToolUse),
/// [`Stop`](const@crate::Stop), and so on.
#[derive(Debug, Clone)]
pub struct On<T> {
    name: EventName,
    read: fn(Event) -> Option<T>,
}

impl<T> sealed::Sealed for On<T> {}

impl<T: Send + 'static> Selector for On<T> {
    type Input = T;

    fn event(&self) -> EventName {
        self.name.clone()
    }

    fn reader(self) -> fn(Event) -> Option<T> {
        self.read
    }
}

impl sealed::Sealed for EventName {}

impl Selector for EventName {
    type Input = Event;

    fn event(&self) -> EventName {
        self.clone()
    }

    fn reader(self) -> fn(Event) -> Option<Event> {
        Some
    }
}

/// Defines one constant per event, under the name of the event's type.
macro_rules! selectors {
    ($($name:ident)*) => {$(
        pub use becket_wire::event::$name;

        #[doc = concat!("Selects ", stringify!($name), ": its callbacks get a [`", stringify!($name), "`](struct@", stringify!($name), ").")]
        #[expect(non_upper_case_globals, reason = "named like the type that the callback gets")]
        pub const $name: On<$name> = On {
            name: EventName::$name,
            read: |event| match event {
                Event::$name(event) => Some(event),
                _ => None,
            },
        };
    )*};
}

selectors! {
    PreToolUse PostToolUse PostToolUseFailure PostToolBatch Notification UserPromptSubmit
    UserPromptExpansion SessionStart SessionEnd Stop StopFailure SubagentStart SubagentStop
    PreCompact PostCompact PreModelSwitch PostModelSwitch PermissionRequest PermissionDenied Setup
    TeammateIdle TaskCreated TaskCompleted Elicitation ElicitationResult ConfigChange
    WorktreeCreate WorktreeRemove InstructionsLoaded CwdChanged FileChanged DirectoryAdded
    MessageDisplay
}

/// Stores a callback without its types: the result parses the event, then calls the user's function.
pub(crate) fn erase_types<S, F, R>(selector: S, function: F) -> Callback
where
    S: Selector,
    F: Fn(S::Input, Context) -> R + Send + Sync + 'static,
    R: Future<Output = CallbackResult> + Send + 'static,
{
    let (name, read) = (selector.event(), selector.reader());
    let function = Arc::new(function);
    Arc::new(move |input, context| {
        let (name, function) = (name.clone(), Arc::clone(&function));
        Box::pin(async move {
            let event = Event::parse(input.as_bytes())?;
            let sent = event.name();
            let event = read(event).ok_or_else(|| {
                format!("the callback is registered for {name}, and Claude Code sent {sent}")
            })?;
            function(event, context).await
        })
    })
}

/// The reason why a call ended before its callback did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ended {
    /// The time limit was reached.
    TimedOut,
    /// The turn was cancelled, Claude Code took the request back, or the client was dropped.
    Cancelled,
}

/// The circumstances of a call: its session, its deadline, and its cancellation.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Context {
    /// The session. Absent only if Claude Code does not name it, as in a `can_use_tool` request before
    /// the first message of the session.
    pub session_id: Option<String>,
    /// The session's working folder. Absent in `can_use_tool` requests before the first message.
    pub cwd: Option<PathBuf>,
    /// The session's transcript. Absent in `can_use_tool` requests. The file itself may not exist yet
    /// at the first events of a session.
    pub transcript_path: Option<PathBuf>,
    /// The permission mode of the session. Absent in `can_use_tool` requests and in events that are not
    /// about a tool, a prompt or a stop.
    pub permission_mode: Option<PermissionMode>,
    /// The subagent that acts. Absent for the main agent.
    pub agent_id: Option<String>,
    /// The tool call. For events without one Claude Code sends an id of its own making. Absent only if
    /// Claude Code leaves it out.
    pub tool_use_id: Option<String>,
    /// The callback's id: `hook_1`, `hook_2` in order of registration, or `can_use_tool`.
    pub callback_id: String,
    /// The time at which the call times out.
    pub deadline: Instant,
    /// Cancelled when the call is over: answered, timed out, cancelled, or the client was dropped. The
    /// callback's future is dropped then too, so only tasks that the callback started need this.
    pub cancellation: CancellationToken,
    ended: Arc<OnceLock<Ended>>,
}

impl Context {
    /// Makes a context with only an id and a deadline, for tests of a callback.
    pub fn new(callback_id: &str, deadline: Instant) -> Self {
        Self {
            session_id: None,
            cwd: None,
            transcript_path: None,
            permission_mode: None,
            agent_id: None,
            tool_use_id: None,
            callback_id: callback_id.to_owned(),
            deadline,
            cancellation: CancellationToken::new(),
            ended: Arc::default(),
        }
    }

    /// Returns the reason why the call ended before the callback did, or `None` while the callback runs.
    /// For tasks that the callback started, and for `Drop` implementations of the values that it holds.
    pub fn ended(&self) -> Option<Ended> {
        self.ended.get().copied()
    }

    /// Ends the call. Sets the reason before it cancels, so that a task that the cancellation wakes can
    /// read the reason.
    pub(crate) fn end(&self, reason: Ended) {
        // The first reason stays.
        let _ = self.ended.set(reason);
        self.cancellation.cancel();
    }
}

/// The reason why a call produced no answer of its callback.
///
/// The text begins with [`code`](Self::code), which does not change between versions. Claude Code gets
/// this text as the error, or as the reason of the refusal.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CallbackFailure {
    /// Claude Code named a callback that is not registered.
    #[error("unknown_callback: no callback has the id {id}")]
    Unknown {
        /// The id that it named.
        id: String,
    },
    /// The callback returned an error, or an answer that its event does not take.
    #[error("hook_execution_error: {why}")]
    Failed {
        /// The error's text.
        why: String,
    },
    /// The callback did not answer in time.
    #[error("hook_timeout: {}", timeout_text(id, *limit))]
    TimedOut {
        /// The callback's id.
        id: String,
        /// The time that it had; zero if the turn's deadline had passed before the call.
        limit: Duration,
    },
    /// The call was cancelled. Claude Code is not answered.
    #[error("hook_cancelled: the call of {id} was cancelled")]
    Cancelled {
        /// The callback's id.
        id: String,
    },
    /// The callback panicked.
    #[error("hook_panicked: {id} panicked: {message}")]
    Panicked {
        /// The callback's id.
        id: String,
        /// The panic's message.
        message: String,
    },
}

fn timeout_text(id: &str, limit: Duration) -> String {
    if limit.is_zero() {
        return format!("{id} was called after the turn's deadline");
    }
    format!("{id} did not answer within {limit:?}")
}

impl CallbackFailure {
    /// Returns the stable code that the text begins with.
    ///
    /// ```
    /// use becket_sdk::CallbackFailure;
    ///
    /// let failure = CallbackFailure::Unknown { id: "hook_9".into() };
    /// assert_eq!(failure.code(), "unknown_callback");
    /// assert!(failure.to_string().starts_with("unknown_callback: "));
    /// ```
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unknown { .. } => "unknown_callback",
            Self::Failed { .. } => "hook_execution_error",
            Self::TimedOut { .. } => "hook_timeout",
            Self::Cancelled { .. } => "hook_cancelled",
            Self::Panicked { .. } => "hook_panicked",
        }
    }

    /// Logs the failure: as an error, unless the call was cancelled, which is no fault of the callback.
    pub(crate) fn log(&self, callback: &str) {
        match self {
            Self::Cancelled { .. } => tracing::debug!(callback, "{self}"),
            _ => tracing::error!(callback, "{self}"),
        }
    }

    pub(crate) fn failed(why: impl Into<String>) -> Self {
        let why = why.into();
        Self::Failed { why }
    }
}
