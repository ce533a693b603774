//! The messages of the conversation itself.

use serde_json::Value;

use super::text;

/// A message of the conversation: the model's, or input of the model.
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
        /// Whether the call failed or was refused.
        is_error: bool,
    },
    /// A block that this crate does not know, as it came.
    Other(&'a Value),
}

impl ChatMessage {
    /// Its blocks, in order.
    pub fn blocks(&self) -> Vec<Block<'_>> {
        match &self.0["message"]["content"] {
            Value::String(text) => vec![Block::Text(text)],
            Value::Array(blocks) => blocks.iter().map(Block::read).collect(),
            _ => Vec::new(),
        }
    }

    /// Its text, without tool calls and their results.
    pub fn text(&self) -> String {
        let blocks = self.blocks().into_iter();
        let texts = blocks.filter_map(|block| match block {
            Block::Text(text) => Some(text),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }

    /// The tool call that started the subagent which speaks. Absent for the main agent.
    pub fn parent_tool_use_id(&self) -> Option<&str> {
        self.0["parent_tool_use_id"].as_str()
    }

    /// The whole message.
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
