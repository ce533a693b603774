//! One callback as the user registers it.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use becket_wire::event::EventName;

use super::types::{Callback, erase_types};
use super::{CallbackResult, Context, Matcher, Selector};
use crate::Error;

/// What happens when a callback fails: it times out, panics, returns an error, or returns an answer
/// that its event does not take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnFailure {
    /// Claude Code goes on, and shows a warning. [`Builder::on_callback_failure`] is told.
    ///
    /// [`Builder::on_callback_failure`]: crate::Builder::on_callback_failure
    Open,
    /// The event is refused, with the failure as the reason, where the event can be refused.
    Closed,
}

impl OnFailure {
    /// Closed where a failure could let through what the callback was to stop.
    pub(super) fn default_of(event: &EventName) -> Self {
        match event {
            EventName::PreToolUse | EventName::PermissionRequest => Self::Closed,
            _ => Self::Open,
        }
    }
}

/// A callback for one event, with limits of its own.
///
/// ```
/// use std::time::Duration;
/// use becket_sdk::{Answer, Claude, Hook, OnFailure, PreToolUse};
///
/// let hook = Hook::new(PreToolUse, "Bash", |_call, _ctx| async { Ok(Answer::none()) })
///     .timeout(Duration::from_secs(5))
///     .on_failure(OnFailure::Open);
/// let builder = Claude::builder().hook(hook);
/// ```
#[must_use = "a hook counts when it is given to the builder"]
pub struct Hook {
    pub(crate) event: EventName,
    pub(crate) matcher: Matcher,
    pub(crate) callback: Callback,
    pub(crate) timeout: Option<Duration>,
    pub(crate) on_failure: Option<OnFailure>,
}

impl Hook {
    /// A callback for this event and these calls of it.
    pub fn new<S, F, R>(selector: S, matcher: impl Into<Matcher>, function: F) -> Self
    where
        S: Selector,
        F: Fn(S::Input, Context) -> R + Send + Sync + 'static,
        R: Future<Output = CallbackResult> + Send + 'static,
    {
        let event = selector.event();
        let callback = erase_types(selector, function);
        Self::erased(event, matcher.into(), callback)
    }

    pub(crate) fn erased(event: EventName, matcher: Matcher, callback: Callback) -> Self {
        Self {
            event,
            matcher,
            callback,
            timeout: None,
            on_failure: None,
        }
    }

    /// How long one call may take, instead of the client's timeout. A turn's
    /// [deadline](crate::Ask::deadline) cuts it.
    ///
    /// Claude Code itself refuses a call five seconds after that, if your program stands still. With no
    /// timeout of the hook or the client it waits on, since a turn's deadline may be later than the
    /// default.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// What happens when it fails. The default is closed on PreToolUse and PermissionRequest, and open
    /// elsewhere.
    pub fn on_failure(mut self, on_failure: OnFailure) -> Self {
        self.on_failure = Some(on_failure);
        self
    }

    /// Claude Code never calls the callbacks of these events.
    pub(super) fn check(&self) -> Result<(), Error> {
        let instead = match self.event {
            EventName::SessionStart => {
                "use a command hook in `Builder::settings`, or `Builder::append_system_prompt` for context"
            }
            EventName::SessionEnd => {
                "run your code after `Claude::close`, or use a command hook in `Builder::settings`"
            }
            EventName::Setup => "use a command hook in `Builder::settings`",
            _ => return Ok(()),
        };
        let event = self.event.clone();
        Err(Error::NeverCalled { event, instead })
    }
}

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hook")
            .field("event", &self.event)
            .field("matcher", &self.matcher)
            .finish_non_exhaustive()
    }
}
