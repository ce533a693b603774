//! The messages of a turn.

mod chat;
mod result;

pub use chat::{Block, ChatMessage};
pub use result::TurnResult;
use serde_json::Value;

/// One message of Claude Code. Everything that it sent is kept: see [`json`](Self::json).
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Message {
    /// The model's text and tool calls.
    Assistant(ChatMessage),
    /// Input of the model: tool results above all.
    User(ChatMessage),
    /// About the session: its start, a status, a warning.
    System(SystemMessage),
    /// The end of the turn.
    Result(TurnResult),
    /// A message of a type that this crate does not know, as it came.
    Other(Value),
}

/// A message about the session.
#[derive(Debug, Clone, PartialEq)]
pub struct SystemMessage(pub(crate) Value);

impl SystemMessage {
    /// Its kind: `init`, `status`, `informational` and others.
    pub fn subtype(&self) -> &str {
        text(&self.0, "subtype")
    }

    /// Its text for people; empty if it has none.
    pub fn content(&self) -> &str {
        text(&self.0, "content")
    }

    /// The whole message.
    pub fn json(&self) -> &Value {
        &self.0
    }
}

impl Message {
    pub(crate) fn read(json: Value) -> Self {
        match text(&json, "type") {
            "assistant" => Self::Assistant(ChatMessage(json)),
            "user" => Self::User(ChatMessage(json)),
            "system" => Self::System(SystemMessage(json)),
            "result" => Self::Result(TurnResult(json)),
            _ => Self::Other(json),
        }
    }

    /// The whole message, as it came.
    pub fn json(&self) -> &Value {
        match self {
            Self::Assistant(chat) | Self::User(chat) => &chat.0,
            Self::System(system) => &system.0,
            Self::Result(result) => &result.0,
            Self::Other(json) => json,
        }
    }

    /// The model's text in this message; empty if it has none.
    pub fn text(&self) -> String {
        match self {
            Self::Assistant(chat) => chat.text(),
            _ => String::new(),
        }
    }

    /// The session that it belongs to. Absent in messages that are about no session.
    pub fn session_id(&self) -> Option<&str> {
        self.json()["session_id"].as_str()
    }
}

fn text<'a>(json: &'a Value, key: &str) -> &'a str {
    json[key].as_str().unwrap_or_default()
}
