//! Events as Claude Code sends them: every known one typed, everything unknown kept. `event/table.rs` lists the
//! fields of each event.

mod define;
mod table;

use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use thiserror::Error;

use crate::json::{self, SyntaxError};
pub(crate) use define::words;
pub use table::*;

/// The field with the name of the event.
const NAME: &str = "hook_event_name";

/// The fields that remain in an object: unknown ones, and those of an unexpected type.
pub type Rest = Map<String, Value>;

/// Takes a field out of an object. One of an unexpected type stays in the object, and reads as absent.
fn take<T: DeserializeOwned>(object: &mut Rest, key: &str) -> Option<T> {
    let field = T::deserialize(object.get(key)?).ok()?;
    object.remove(key);
    Some(field)
}

/// The error for a missing field without which the event cannot be judged.
#[derive(Debug)]
struct Missing(&'static str);

/// A field of an event: `Option<T>` may be missing, a plain `T` must be there.
trait Slot: Sized {
    fn take(object: &mut Rest, key: &'static str) -> Result<Self, Missing>;
}

impl<T: DeserializeOwned> Slot for Option<T> {
    fn take(object: &mut Rest, key: &'static str) -> Result<Self, Missing> {
        Ok(take(object, key))
    }
}

impl Slot for String {
    fn take(object: &mut Rest, key: &'static str) -> Result<Self, Missing> {
        take(object, key).ok_or(Missing(key))
    }
}

impl Slot for Value {
    fn take(object: &mut Rest, key: &'static str) -> Result<Self, Missing> {
        take(object, key).ok_or(Missing(key))
    }
}

words! {
    /// The permission mode: how much Claude Code may do without asking.
    PermissionMode {
        Default = "default",
        AcceptEdits = "acceptEdits",
        Plan = "plan",
        BypassPermissions = "bypassPermissions",
        DontAsk = "dontAsk",
        Auto = "auto",
    }
}

/// The reason why a payload is no typed event. The payload itself is kept all the same.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum EventError {
    #[error("the event is not JSON ({0})")]
    NotJson(SyntaxError),
    #[error("the event is nested too deep (over 127 levels)")]
    TooDeep,
    #[error("the event is JSON, but not an object")]
    NotAnObject,
    #[error("the event has no name ({NAME})")]
    Nameless,
    /// A missing field, or one of an unexpected type, without which the event cannot be judged.
    #[error("the {event} event has no {field} that can be read")]
    Missing {
        event: EventName,
        field: &'static str,
    },
}

/// Reads one JSON value as Claude Code writes it: a lone surrogate becomes U+FFFD.
pub fn parse_json(text: &[u8]) -> Result<Value, EventError> {
    serde_json::from_slice(text).or_else(|error| {
        let text = std::str::from_utf8(text).unwrap_or_default();
        serde_json::from_str(&json::repaired(text, usize::MAX).0).map_err(|_| explain(&error))
    })
}

fn explain(error: &serde_json::Error) -> EventError {
    let fault = SyntaxError::from(error);
    // serde_json has no category for this error.
    if fault.why == "recursion limit exceeded" {
        EventError::TooDeep
    } else {
        EventError::NotJson(fault)
    }
}

impl Event {
    /// Reads a payload. Only a payload that cannot be judged at all is an error.
    pub fn parse(payload: impl AsRef<[u8]>) -> Result<Self, EventError> {
        let Value::Object(mut object) = parse_json(payload.as_ref())? else {
            return Err(EventError::NotAnObject);
        };
        let name: EventName = take(&mut object, NAME).ok_or(EventError::Nameless)?;
        Self::take_from(name.clone(), object).map_err(|missing| EventError::Missing {
            event: name,
            field: missing.0,
        })
    }
}

impl EventName {
    /// Returns true if Claude Code compares the matcher of a registration with a field.
    pub fn has_matcher(&self) -> bool {
        self.matcher_field().is_some()
    }

    /// Returns the time that Claude Code waits for becket's hook on this event, as becket registers it.
    pub fn waits(&self) -> Duration {
        let seconds = match self {
            Self::UserPromptSubmit => 60,
            Self::SessionEnd => 10,
            // The dialog stays open until a person answers, and the hook with it.
            Self::PermissionRequest => 12 * 60 * 60,
            _ if self.comes_late() => 10,
            _ => 600,
        };
        Duration::from_secs(seconds)
    }

    /// Returns true if becket registers for this event. A hook on `WorktreeCreate` replaces git, and
    /// `WorktreeRemove` belongs to it; `MessageDisplay` would start one process for each piece of text.
    pub fn is_registered(&self) -> bool {
        !matches!(
            self,
            Self::WorktreeCreate | Self::WorktreeRemove | Self::MessageDisplay
        )
    }

    /// Returns true if becket registers for this event as async: Claude Code does not wait, so the event may
    /// arrive after later ones.
    pub fn comes_late(&self) -> bool {
        matches!(
            self,
            Self::Notification
                | Self::InstructionsLoaded
                | Self::CwdChanged
                | Self::FileChanged
                | Self::DirectoryAdded
        )
    }
}

#[cfg(test)]
mod tests;
