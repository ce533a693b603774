//! The messages of Claude Code.

use std::time::Duration;

use serde_json::Value;

/// One message of Claude Code. All of its fields are kept: see [`json`](Self::json).
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Message {
    /// The model's text and tool calls.
    Assistant(ChatMessage),
    /// Input of the model, mostly tool results.
    User(ChatMessage),
    /// A message about the session: its start, a status, a warning.
    System(SystemMessage),
    /// The end of the turn.
    Result(TurnResult),
    /// A message of a type that this crate does not know, unchanged.
    Other(Value),
}

/// A message about the session.
#[derive(Debug, Clone, PartialEq)]
pub struct SystemMessage(pub(crate) Value);

impl SystemMessage {
    /// Returns the subtype: `init`, `status`, `informational` and others.
    pub fn subtype(&self) -> &str {
        text(&self.0, "subtype")
    }

    /// Returns the text for people; empty if there is none.
    pub fn content(&self) -> &str {
        text(&self.0, "content")
    }

    /// Returns the whole message.
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

    /// Returns the whole message, unchanged.
    pub fn json(&self) -> &Value {
        match self {
            Self::Assistant(chat) | Self::User(chat) => &chat.0,
            Self::System(system) => &system.0,
            Self::Result(result) => &result.0,
            Self::Other(json) => json,
        }
    }

    /// Returns the model's text in this message; empty if there is none.
    pub fn text(&self) -> String {
        match self {
            Self::Assistant(chat) => chat.text(),
            _ => String::new(),
        }
    }

    /// Returns the id of the session. Absent in messages that are about no session.
    pub fn session_id(&self) -> Option<&str> {
        self.json()["session_id"].as_str()
    }
}

/// A message of the conversation: of the model, or to the model.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatMessage(pub(crate) Value);

/// One block of a message.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Block<'a> {
    /// Text.
    Text(&'a str),
    /// A tool call.
    ToolUse {
        /// The call's id.
        id: &'a str,
        /// The tool.
        name: &'a str,
        /// The tool's input.
        input: &'a Value,
    },
    /// The result of a tool call.
    ToolResult {
        /// The call's id.
        id: &'a str,
        /// A text, or blocks.
        content: &'a Value,
        /// True if the call failed or was refused.
        is_error: bool,
    },
    /// A block that this crate does not know, unchanged.
    Other(&'a Value),
}

impl ChatMessage {
    /// Returns the blocks, in order.
    pub fn blocks(&self) -> Vec<Block<'_>> {
        match &self.0["message"]["content"] {
            Value::String(text) => vec![Block::Text(text)],
            Value::Array(blocks) => blocks.iter().map(Block::read).collect(),
            _ => Vec::new(),
        }
    }

    /// Returns the text, without tool calls and their results.
    pub fn text(&self) -> String {
        let blocks = self.blocks().into_iter();
        let texts = blocks.filter_map(|block| match block {
            Block::Text(text) => Some(text),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }

    /// Returns the id of the tool call that started the subagent. Absent for the main agent.
    pub fn parent_tool_use_id(&self) -> Option<&str> {
        self.0["parent_tool_use_id"].as_str()
    }

    /// Returns the whole message.
    pub fn json(&self) -> &Value {
        &self.0
    }
}

impl<'a> Block<'a> {
    fn read(block: &'a Value) -> Self {
        match text(block, "type") {
            "text" => Self::Text(text(block, "text")),
            "tool_use" => Self::ToolUse {
                id: text(block, "id"),
                name: text(block, "name"),
                input: &block["input"],
            },
            "tool_result" => Self::ToolResult {
                id: text(block, "tool_use_id"),
                content: &block["content"],
                is_error: block["is_error"] == true,
            },
            _ => Self::Other(block),
        }
    }
}

/// The result of a turn.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnResult(pub(crate) Value);

impl TurnResult {
    /// Returns the last text of the model, or the text of the error that ended the turn: an error of the
    /// API, or `Reached maximum number of turns (3)`. Empty if the turn was interrupted.
    pub fn text(&self) -> &str {
        let interrupted = self
            .terminal_reason()
            .is_some_and(|reason| reason.starts_with("aborted"));
        match self.0["errors"][0].as_str() {
            Some(error) if self.0["result"].is_null() && !interrupted => error,
            _ => text(&self.0, "result"),
        }
    }

    /// Returns the answer in the form of [`Builder::json_schema`](crate::Builder::json_schema). Absent
    /// without a schema, and if the model gave no such answer.
    pub fn structured_output(&self) -> Option<&Value> {
        self.0.get("structured_output")
    }

    /// Returns true if the turn failed or was interrupted. The subtype does not tell: after an API error
    /// it is `success`.
    pub fn is_error(&self) -> bool {
        self.0["is_error"] == true
    }

    /// Returns `success`, or the way in which Claude Code ended the turn: `error_during_execution`,
    /// `error_max_turns`.
    pub fn subtype(&self) -> &str {
        text(&self.0, "subtype")
    }

    /// Returns the reason why the turn ended: `completed`, `hook_stopped`, `aborted_streaming` and others.
    /// Absent in old versions.
    pub fn terminal_reason(&self) -> Option<&str> {
        self.0["terminal_reason"].as_str()
    }

    /// Returns the id of the session, to resume it later.
    pub fn session_id(&self) -> &str {
        text(&self.0, "session_id")
    }

    /// Returns the uuids of the prompts that it answers. Empty for a turn that Claude Code began by itself, and
    /// in versions before 2.1.260.
    pub(crate) fn prompts(&self) -> &[Value] {
        let prompts = self.0["user_message_uuids"].as_array();
        prompts.map_or(&[], Vec::as_slice)
    }

    /// Returns true if the result says that Claude Code began the turn by itself, to tell the model that
    /// a background task has ended for instance. The result of a scheduled prompt (`CronCreate`,
    /// `ScheduleWakeup`) does not say so.
    pub fn is_autonomous(&self) -> bool {
        let origin = &self.0["origin"]["kind"];
        !origin.is_null() && origin != "human" && self.prompts().is_empty()
    }

    /// Returns the duration of the turn. Absent if Claude Code does not report it.
    pub fn duration(&self) -> Option<Duration> {
        self.0["duration_ms"].as_u64().map(Duration::from_millis)
    }

    /// Returns the cost of the session so far, as Claude Code calculates it. Absent if it does not report
    /// the cost.
    pub fn total_cost_usd(&self) -> Option<f64> {
        self.0["total_cost_usd"].as_f64()
    }

    /// Returns the whole message.
    pub fn json(&self) -> &Value {
        &self.0
    }
}

fn text<'a>(json: &'a Value, key: &str) -> &'a str {
    json[key].as_str().unwrap_or_default()
}
