//! Events as Claude Code sends them: every known one typed, everything unknown kept. `event/table.rs` lists the
//! fields of each event.

mod define;
pub(crate) mod field;
mod table;
mod words;

use std::fmt;
use std::time::Duration;

use serde_json::Value;

pub(crate) use define::words;
use field::JsonError;
pub use field::Rest;
pub use table::*;
pub use words::*;

/// The field with the name of the event.
const NAME: &str = "hook_event_name";

/// The reason why a payload is no typed event. The payload itself is kept all the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventError {
    NotJson {
        line: usize,
        column: usize,
        why: String,
    },
    /// JSON that is nested too deep.
    TooDeep,
    NotAnObject,
    /// A payload without `hook_event_name`.
    Nameless,
    /// A missing field, or one of an unexpected type, without which the event cannot be judged.
    Missing {
        event: EventName,
        field: &'static str,
    },
}

impl fmt::Display for EventError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotJson { line, column, why } => write!(
                f,
                "the event is not JSON (line {line}, column {column}: {why})"
            ),
            Self::TooDeep => f.write_str("the event is nested too deep (over 127 levels)"),
            Self::NotAnObject => f.write_str("the event is JSON, but not an object"),
            Self::Nameless => write!(f, "the event has no name ({NAME})"),
            Self::Missing { event, field } => {
                write!(f, "the {event} event has no {field} that can be read")
            }
        }
    }
}

impl std::error::Error for EventError {}

impl From<JsonError> for EventError {
    fn from(error: JsonError) -> Self {
        match error {
            JsonError::Syntax { line, column, why } => Self::NotJson { line, column, why },
            JsonError::TooDeep => Self::TooDeep,
        }
    }
}

/// Reads one JSON value as Claude Code writes it: a lone surrogate becomes U+FFFD.
pub fn parse_json(text: &[u8]) -> Result<Value, EventError> {
    Ok(field::parse(text)?)
}

impl Event {
    /// Reads a payload. Only a payload that cannot be judged at all is an error.
    pub fn parse(payload: impl AsRef<[u8]>) -> Result<Self, EventError> {
        let Value::Object(mut object) = field::parse(payload.as_ref())? else {
            return Err(EventError::NotAnObject);
        };
        let name: EventName = field::take(&mut object, NAME).ok_or(EventError::Nameless)?;
        Self::take_from(name.clone(), object).map_err(|missing| EventError::Missing {
            event: name,
            field: missing.0,
        })
    }

    /// Writes the payload again, without loss.
    pub fn to_value(&self) -> Value {
        let mut object = Rest::new();
        self.put_into(&mut object);
        field::put(Some(&self.name()), &mut object, NAME);
        object.into()
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
