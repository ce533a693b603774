//! The types of a callback: the selector of its event, its input, its result.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use becket_wire::event::{Event, EventName};

use super::{Answer, Context};

/// What a callback may fail with: any error, so that `?` works in it.
pub type CallbackError = Box<dyn std::error::Error + Send + Sync>;

/// What a hook callback returns.
pub type CallbackResult = Result<Answer, CallbackError>;

/// A future that is boxed, as callbacks are stored.
pub(crate) type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A hook callback as it is stored: the event's JSON in the bytes that Claude Code sent.
pub(crate) type Callback = Arc<dyn Fn(Arc<str>, Context) -> Boxed<CallbackResult> + Send + Sync>;

mod sealed {
    pub trait Sealed {}
}

/// What a hook is registered for, and the type its callback gets.
///
/// The constants of this crate that are named like events ([`PreToolUse`](const@crate::PreToolUse) and the
/// others) give their callback the event's own type. An [`EventName`] gives it an [`Event`], for one
/// callback on several events, or for an event that this version of the crate does not know.
pub trait Selector: sealed::Sealed {
    /// What the callback gets.
    type Input: Send + 'static;

    /// The event that the hook is for.
    fn event(&self) -> EventName;

    /// How the event becomes what the callback gets; `None` if Claude Code sent another event.
    fn reader(self) -> fn(Event) -> Option<Self::Input>;
}

/// The selector of one known event. There is a constant for each: [`PreToolUse`](const@crate::PreToolUse),
/// [`Stop`](const@crate::Stop), and so on.
#[derive(Debug, Clone)]
pub struct On<T> {
    pub(super) name: EventName,
    pub(super) read: fn(Event) -> Option<T>,
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

/// A callback without its types: reads the event, then calls the user's function.
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
