//! How a turn ended.

use std::time::Duration;

use serde_json::Value;

use super::text;

/// How a turn ended.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnResult(pub(crate) Value);

impl TurnResult {
    /// The last text of the model, or the text of the error that ended the turn: of the API, or
    /// `Reached maximum number of turns (3)`. Empty if the turn was interrupted.
    pub fn text(&self) -> &str {
        let interrupted = self
            .terminal_reason()
            .is_some_and(|why| why.starts_with("aborted"));
        match self.0["errors"][0].as_str() {
            Some(error) if self.0["result"].is_null() && !interrupted => error,
            _ => text(&self.0, "result"),
        }
    }

    /// The answer in the form of [`Builder::json_schema`](crate::Builder::json_schema). Absent without
    /// a schema, and if the model gave none.
    pub fn structured_output(&self) -> Option<&Value> {
        self.0.get("structured_output")
    }

    /// Whether the turn failed or was interrupted. Only this says so: after an API error, the subtype is
    /// `success`.
    pub fn is_error(&self) -> bool {
        self.0["is_error"] == true
    }

    /// `success`, or how Claude Code ended the turn: `error_during_execution`, `error_max_turns`.
    pub fn subtype(&self) -> &str {
        text(&self.0, "subtype")
    }

    /// Why the turn ended: `completed`, `hook_stopped`, `aborted_streaming` and others. Absent in old
    /// versions.
    pub fn terminal_reason(&self) -> Option<&str> {
        self.0["terminal_reason"].as_str()
    }

    /// The session, to resume it later.
    pub fn session_id(&self) -> &str {
        text(&self.0, "session_id")
    }

    /// The uuids of the prompts that it answers. Empty for a turn that Claude Code began by itself, and
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

    /// How long the turn took. Absent if Claude Code does not say.
    pub fn duration(&self) -> Option<Duration> {
        self.0["duration_ms"].as_u64().map(Duration::from_millis)
    }

    /// What the session has cost so far, by Claude Code's own reckoning. Absent if it does not say.
    pub fn total_cost_usd(&self) -> Option<f64> {
        self.0["total_cost_usd"].as_f64()
    }

    /// The whole message.
    pub fn json(&self) -> &Value {
        &self.0
    }
}
