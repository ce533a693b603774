//! The frames as they stand on the wire: one JSON object a line.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// The fields of a frame that decide where it goes.
#[derive(Deserialize)]
pub(crate) struct Frame<'a> {
    #[serde(rename = "type", borrow, default)]
    pub(crate) kind: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(crate) request_id: Option<Cow<'a, str>>,
    /// The body of a control request.
    #[serde(borrow, default)]
    pub(crate) request: Option<&'a RawValue>,
    /// The body of a control response.
    #[serde(borrow, default)]
    pub(crate) response: Option<&'a RawValue>,
}

/// The body of a control response.
#[derive(Deserialize)]
pub(crate) struct Response {
    subtype: String,
    pub(crate) request_id: String,
    #[serde(default)]
    response: Value,
    #[serde(default)]
    error: String,
}

impl Response {
    /// The answer, or the error's text.
    pub(crate) fn outcome(self) -> Result<Value, String> {
        match self.subtype.as_str() {
            "error" => Err(self.error),
            _ => Ok(self.response),
        }
    }
}

/// Our answer to a control request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Reply {
    Success(Value),
    Error(String),
}

impl Reply {
    pub(crate) fn into_frame(self, id: &str) -> Value {
        let response = match self {
            Self::Success(response) => {
                json!({"subtype": "success", "request_id": id, "response": response})
            }
            Self::Error(error) => json!({"subtype": "error", "request_id": id, "error": error}),
        };
        json!({"type": "control_response", "response": response})
    }
}

pub(crate) fn control_request(id: &str, body: &Value) -> Value {
    json!({"type": "control_request", "request_id": id, "request": body})
}

pub(crate) fn user_message(prompt: &str, uuid: &str) -> Value {
    json!({
        "type": "user",
        "uuid": uuid,
        "session_id": "",
        "parent_tool_use_id": null,
        "message": {"role": "user", "content": prompt},
    })
}
