//! Questions that sessions ask their users, and the answers of people.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::event::words;

/// The tool with which Claude asks its user something.
pub const ASK_TOOL: &str = "AskUserQuestion";
/// The tool whose dialog Claude Code closes for no hook: a plan is approved in the terminal only.
pub const PLAN_TOOL: &str = "ExitPlanMode";

/// A question that waits for a person: a permission, or what Claude asks with AskUserQuestion.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct QuestionRow {
    /// The number of its event.
    pub id: i64,
    pub session_id: String,
    pub agent_id: Option<String>,
    pub tool: String,
    /// The input of the tool call, with secrets masked.
    pub input: Value,
    /// The working folder of the agent.
    pub cwd: Option<String>,
    /// Milliseconds since 1970.
    pub asked_at: i64,
    /// The reason of the guard that had Claude Code ask.
    pub reason: Option<String>,
    /// The permission rules that Claude Code suggests for `always`.
    pub suggestions: Vec<Value>,
    /// False if only the terminal can answer it.
    pub can_be_answered: bool,
}

/// The answer of a person to a question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PersonAnswer {
    Yes,
    /// Yes, and the suggested rules allow such calls from now on.
    Always,
    No {
        reason: Option<String>,
    },
    /// The answers to an AskUserQuestion, by the text of the question.
    Answers(BTreeMap<String, String>),
}

words! {
    /// The place where a person answered.
    AnsweredIn {
        Command = "command",
        View = "view",
        Page = "page",
        Notice = "notice",
    }
}

/// One question of an AskUserQuestion, and its options.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AskedQuestion {
    pub question: String,
    pub header: String,
    pub multi_select: bool,
    pub options: Vec<AskedOption>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct AskedOption {
    pub label: String,
    pub description: String,
}

impl QuestionRow {
    /// Returns the questions of an AskUserQuestion. Returns none for a permission.
    pub fn asked(&self) -> Vec<AskedQuestion> {
        if self.tool != ASK_TOOL {
            return Vec::new();
        }
        let questions = self.input.get("questions").cloned().unwrap_or_default();
        serde_json::from_value(questions).unwrap_or_default()
    }
}
