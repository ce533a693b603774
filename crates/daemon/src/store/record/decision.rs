//! What was answered to an event.

use becket_engine::mask::Masker;
use becket_wire::Output;
use becket_wire::rpc::DecisionRow;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What was answered, as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    pub answer: String,
    pub by: Option<String>,
    pub reason: Option<String>,
    pub exit: u8,
    pub stdout: String,
    pub stderr: String,
}

impl Decision {
    /// The decision of an answer; none for silence.
    pub fn new(row: Option<DecisionRow>, output: &Output) -> Option<Self> {
        let row = row?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Some(Self {
            answer: row.answer,
            by: row.by,
            reason: row.reason,
            exit: output.exit,
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
        })
    }

    /// Whether a prompt with that answer is not sent.
    pub(in crate::store) fn blocks(&self) -> bool {
        matches!(&*self.answer, "block" | "stop")
    }

    /// Whether an agent with that answer goes on though it wanted to stop. Who ends the turn besides
    /// has the last word.
    pub(in crate::store) fn blocks_stop(&self) -> bool {
        let said: Value = serde_json::from_str(&self.stdout).unwrap_or_default();
        self.answer == "block" && said["continue"] != Value::Bool(false)
    }

    pub(in crate::store) fn to_row(&self) -> DecisionRow {
        DecisionRow {
            answer: self.answer.clone(),
            by: self.by.clone(),
            reason: self.reason.clone(),
        }
    }

    /// Without secrets: other people's programs have spoken.
    pub fn masked(self, masker: &Masker) -> Self {
        let mask = |text: String| {
            let masked = masker.mask(text.as_bytes()).bytes;
            String::from_utf8_lossy(&masked).into_owned()
        };
        Self {
            reason: self.reason.map(mask),
            stdout: mask(self.stdout),
            stderr: mask(self.stderr),
            ..self
        }
    }
}
