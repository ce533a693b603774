//! Answers to events. An `Answer` holds only what its event takes; `render` writes it for Claude Code,
//! `Answer::read` reads the output of a hook. `answer/rules.rs` lists what each event takes.

mod json;
mod rules;

use serde::Deserialize;
use serde_json::{Value, json};
use thiserror::Error;

use crate::event::{EventName, Rest};

pub use json::AnswerError;

/// The output and the exit code of a hook process: all that Claude Code sees of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Output {
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    pub exit: u8,
}

impl Output {
    /// Returns the output without an opinion: it prints nothing and exits with 0.
    pub fn silence() -> Self {
        Self::default()
    }

    pub fn is_silent(&self) -> bool {
        self.stdout.is_empty() && self.stderr.is_empty() && self.exit == 0
    }
}

/// The answer to one event. It begins silent, and silence is never an `allow`.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    event: EventName,
    opinion: Option<Opinion>,
    contexts: Vec<String>,
    changes: Vec<Change>,
    messages: Vec<String>,
    stop: Option<String>,
    terminal: String,
}

/// The error for an answer with a part that its event does not take.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("a {event} event takes no {what}")]
pub struct NotTaken {
    pub event: EventName,
    pub what: &'static str,
}

impl Answer {
    /// Makes an answer without any content.
    pub fn silent(event: EventName) -> Self {
        Self {
            event,
            opinion: None,
            contexts: Vec::new(),
            changes: Vec::new(),
            messages: Vec::new(),
            stop: None,
            terminal: String::new(),
        }
    }

    /// Makes the refusal that the event takes: deny, block or decline. Returns none if the event cannot be
    /// refused.
    pub fn refusal(event: EventName, reason: impl Into<String>) -> Option<Self> {
        let opinion = rules::of(&event).says.refusal(reason.into())?;
        Some(Self {
            opinion: Some(opinion),
            ..Self::silent(event)
        })
    }

    /// Sets the opinion; it replaces the one before.
    pub fn give(&mut self, opinion: Opinion) -> Result<(), NotTaken> {
        let what = opinion.name();
        self.check(rules::of(&self.event).says.takes(&opinion), what)?;
        self.opinion = Some(opinion);
        let (event, opinion) = (&self.event, &self.opinion);
        self.changes
            .retain(|change| rules::takes_change(event, opinion.as_ref(), change));
        Ok(())
    }

    /// Adds text for the model (on PreCompact: for the model that summarises).
    pub fn add_context(&mut self, text: impl Into<String>) -> Result<(), NotTaken> {
        self.check(rules::of(&self.event).takes_context(), "context")?;
        push(&mut self.contexts, text.into());
        Ok(())
    }

    /// Sets a change; it replaces one with the same key. A change that belongs to an opinion (the input that a
    /// PermissionRequest is allowed with) is taken only after that opinion, and is dropped with it.
    pub fn change(&mut self, change: Change) -> Result<(), NotTaken> {
        let taken = rules::takes_change(&self.event, self.opinion.as_ref(), &change);
        self.check(taken, change.key())?;
        self.changes.retain(|other| other.key() != change.key());
        self.changes.push(change);
        Ok(())
    }

    /// Removes a change by its key.
    pub fn remove_change(&mut self, key: &str) {
        self.changes.retain(|change| change.key() != key);
    }

    /// Adds a message for the user.
    pub fn add_message(&mut self, message: impl Into<String>) {
        push(&mut self.messages, message.into());
    }

    /// Ends the turn (`continue: false`). The first reason stays.
    pub fn stop(&mut self, reason: impl Into<String>) {
        self.stop.get_or_insert_with(|| reason.into());
    }

    /// Adds an escape sequence for the user's terminal. Claude Code lets titles, notices and the
    /// bell through (OSC 0, 1, 2, 9, 99, 777, BEL).
    pub fn add_terminal(&mut self, sequence: &str) {
        self.terminal.push_str(sequence);
    }

    pub fn clear_terminal(&mut self) {
        self.terminal.clear();
    }

    pub fn event(&self) -> &EventName {
        &self.event
    }

    pub fn opinion(&self) -> Option<&Opinion> {
        self.opinion.as_ref()
    }

    pub fn contexts(&self) -> &[String] {
        &self.contexts
    }

    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    pub fn messages(&self) -> &[String] {
        &self.messages
    }

    /// Returns the reason for ending the turn, if the answer ends it.
    pub fn stopped(&self) -> Option<&str> {
        self.stop.as_deref()
    }

    /// Returns true if the agent that wanted to stop has to go on.
    pub fn blocks_stop(&self) -> bool {
        matches!(self.event, EventName::Stop | EventName::SubagentStop)
            && self.stop.is_none()
            && matches!(self.opinion, Some(Opinion::Block { .. }))
    }

    pub fn terminal(&self) -> &str {
        &self.terminal
    }

    /// Returns the answer in a word, and its reason, for the log. None means a silent answer.
    pub fn decision(&self) -> Option<(&'static str, Option<&str>)> {
        if let Some(opinion) = &self.opinion {
            return Some((opinion.name(), opinion.reason()));
        }
        if let Some(reason) = &self.stop {
            return Some((
                "stop",
                Some(reason.as_str()).filter(|text| !text.is_empty()),
            ));
        }
        let said = [
            (!self.changes.is_empty(), "change"),
            (!self.contexts.is_empty(), "context"),
            (!self.messages.is_empty(), "message"),
            (!self.terminal.is_empty(), "terminal"),
        ];
        let (_, name) = said.into_iter().find(|(is_so, _)| *is_so)?;
        Some((name, None))
    }

    fn check(&self, taken: bool, what: &'static str) -> Result<(), NotTaken> {
        let event = self.event.clone();
        taken.then_some(()).ok_or(NotTaken { event, what })
    }
}

fn push(texts: &mut Vec<String>, text: String) {
    if !text.is_empty() {
        texts.push(text);
    }
}

#[cfg(test)]
mod tests;

macro_rules! changes {
    ($($(#[$meta:meta])* $name:ident($type:ty) = $key:literal, $wanted:literal;)*) => {
        /// One field of `hookSpecificOutput` that is neither a judgement nor context.
        #[derive(Debug, Clone, PartialEq)]
        #[non_exhaustive]
        pub enum Change {
            $($(#[$meta])* $name($type),)*
        }

        impl Change {
            /// Returns the field's name in JSON.
            pub fn key(&self) -> &'static str {
                match self {
                    $(Self::$name(_) => $key,)*
                }
            }

            fn value(&self) -> Value {
                match self {
                    $(Self::$name(value) => json!(value),)*
                }
            }

            /// Reads the change from a field. The error names the type that its value should have.
            fn read(key: &str, value: &Value) -> Result<Self, &'static str> {
                match key {
                    $($key => Deserialize::deserialize(value).map(Self::$name).map_err(|_| $wanted),)*
                    _ => Err("absent"),
                }
            }
        }
    };
}

changes! {
    /// The whole input of the tool call, in place of the model's.
    Input(Rest) = "updatedInput", "an object";
    /// The response of the tool for the model, in the tool's own shape.
    ToolOutput(Value) = "updatedToolOutput", "any value";
    McpToolOutput(Value) = "updatedMCPToolOutput", "any value";
    /// The context for the classifier of auto mode.
    ClassifierContext(String) = "classifierContext", "a string";
    SessionTitle(String) = "sessionTitle", "a string";
    SuppressPrompt(bool) = "suppressOriginalPrompt", "true or false";
    FirstMessage(String) = "initialUserMessage", "a string";
    /// The files whose changes come as FileChanged.
    WatchPaths(Vec<String>) = "watchPaths", "a list of strings";
    ReloadSkills(bool) = "reloadSkills", "true or false";
    /// The folder that was made for a worktree.
    WorktreePath(String) = "worktreePath", "a string";
    /// The text to show in place of the message.
    Display(String) = "displayContent", "a string";
    /// True to try a call again that auto mode denied.
    Retry(bool) = "retry", "true or false";
    /// The answer to an MCP server's question.
    Content(Rest) = "content", "an object";
    /// The rules that come with an allowed PermissionRequest.
    Permissions(Vec<Value>) = "updatedPermissions", "a list";
    /// True if a denied PermissionRequest ends the turn.
    Interrupt(bool) = "interrupt", "true or false";
}

/// A judgement. "No objection" has no variant: it is `None`, and silent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Opinion {
    /// The event must not happen (a tool call, a permission, a model switch). The reason is for the model.
    Deny { reason: String },
    /// The user decides.
    Ask { reason: String },
    /// The user decides later; under `-p` the run ends.
    Defer { reason: String },
    /// The event happens **without** Claude Code's own permission prompt. Only the user's config gives it, by
    /// name; `because` says where.
    Allow { because: String },
    /// The event must not happen, or the turn must not end: prompts, stops, compactions and the rest.
    Block { reason: String },
    /// An MCP server's question is answered, with `Change::Content`.
    Accept,
    /// The question is refused. The reason is for the log: Claude Code takes none here.
    Decline { reason: String },
    /// The question is dismissed.
    Cancel,
}

impl Opinion {
    pub fn name(&self) -> &'static str {
        match self {
            Self::Deny { .. } => "deny",
            Self::Ask { .. } => "ask",
            Self::Defer { .. } => "defer",
            Self::Allow { .. } => "allow",
            Self::Block { .. } => "block",
            Self::Accept => "accept",
            Self::Decline { .. } => "decline",
            Self::Cancel => "cancel",
        }
    }

    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Deny { reason }
            | Self::Ask { reason }
            | Self::Defer { reason }
            | Self::Allow { because: reason }
            | Self::Block { reason }
            | Self::Decline { reason } => Some(reason.as_str()).filter(|text| !text.is_empty()),
            Self::Accept | Self::Cancel => None,
        }
    }

    /// Replaces the reason. An opinion without one stays as it is.
    #[must_use]
    pub fn with_reason(self, text: String) -> Self {
        match self {
            Self::Deny { .. } => Self::Deny { reason: text },
            Self::Ask { .. } => Self::Ask { reason: text },
            Self::Defer { .. } => Self::Defer { reason: text },
            Self::Allow { .. } => Self::Allow { because: text },
            Self::Block { .. } => Self::Block { reason: text },
            Self::Decline { .. } => Self::Decline { reason: text },
            Self::Accept | Self::Cancel => self,
        }
    }
}
