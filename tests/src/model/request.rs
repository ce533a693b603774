//! What reached the model, as a test looks at it.

use std::fmt::Write;

use serde_json::Value;

/// One request, as it came (without the key).
#[derive(Debug, Clone)]
pub struct Request {
    pub method: String,
    pub path: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Value,
    pub kind: Kind,
}

/// What the server took a request for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A turn of the script: which prompt, and how many replies came before.
    Turn {
        prompt: String,
        replies: usize,
    },
    /// The script had no more turns for this conversation: the answer was "done".
    PastTheEnd,
    Compaction,
    /// A title, a summary, a probe: anything that no rule is for.
    Side,
    CountTokens,
    Other,
}

/// What a tool gave back to the model.
#[derive(Debug, Clone)]
pub struct ToolResult {
    pub id: String,
    pub text: String,
    pub is_error: bool,
}

impl Request {
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }

    pub fn model(&self) -> &str {
        self.body["model"].as_str().unwrap_or_default()
    }

    pub fn messages(&self) -> &[Value] {
        self.body["messages"].as_array().map_or(&[], Vec::as_slice)
    }

    pub fn system(&self) -> String {
        text_of(&self.body["system"])
    }

    /// The names of the tools that the model was offered.
    pub fn tools(&self) -> Vec<&str> {
        let tools = self.body["tools"].as_array().map_or(&[][..], Vec::as_slice);
        tools
            .iter()
            .filter_map(|tool| tool["name"].as_str())
            .collect()
    }

    /// The model is given `text` somewhere: in a message, a tool result, the system prompt.
    pub fn contains(&self, text: &str) -> bool {
        any_string(&self.body, &|string| string.contains(text))
    }

    /// The results of the tools of the last reply, in order.
    pub fn tool_results(&self) -> Vec<ToolResult> {
        let messages = self.messages();
        let last_reply = messages.iter().rposition(|m| m["role"] == "assistant");
        let newer = &messages[last_reply.map_or(0, |at| at + 1)..];
        let blocks = newer
            .iter()
            .filter_map(|m| m["content"].as_array())
            .flatten();
        blocks.filter_map(ToolResult::of).collect()
    }

    /// One line for a person.
    pub(super) fn line(&self) -> String {
        let mut line = format!("{} {} {:?}", self.method, self.path, self.kind);
        if !self.model().is_empty() {
            let _ = write!(line, " model {}", self.model());
            let _ = write!(line, " messages {}", self.messages().len());
        }
        for result in self.tool_results() {
            let text: String = result.text.chars().take(200).collect();
            let _ = write!(line, "\n      result {text:?} error {}", result.is_error);
        }
        line
    }
}

impl ToolResult {
    fn of(block: &Value) -> Option<Self> {
        (block["type"] == "tool_result").then(|| Self {
            id: block["tool_use_id"].as_str().unwrap_or_default().to_owned(),
            text: text_of(&block["content"]),
            is_error: block["is_error"] == true,
        })
    }
}

/// The text of a message or a system prompt, which may be a string or a list of blocks.
pub(super) fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let texts = blocks.iter().filter(|block| block["type"] == "text");
            let texts: Vec<&str> = texts.filter_map(|block| block["text"].as_str()).collect();
            texts.join("\n")
        }
        _ => String::new(),
    }
}

fn any_string(value: &Value, fits: &dyn Fn(&str) -> bool) -> bool {
    match value {
        Value::String(string) => fits(string),
        Value::Array(items) => items.iter().any(|item| any_string(item, fits)),
        Value::Object(fields) => fields.values().any(|field| any_string(field, fits)),
        _ => false,
    }
}
