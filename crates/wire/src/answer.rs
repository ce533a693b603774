//! What may be answered, per event. An `Answer` holds only what its event takes; `render` writes it
//! as Claude Code wants it, `Answer::read` reads what a hook said.
//! Which event takes what stands in `answer/rules.rs`.

mod json;
mod rules;

use std::fmt;

use serde_json::Value;

use crate::event::field::Field;
use crate::event::{EventName, Rest};

pub use json::AnswerError;

/// What the hook process prints and how it exits: all that Claude Code gets to see.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Output {
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    pub exit: u8,
}

impl Output {
    /// No opinion: prints nothing, exits 0.
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

/// The event has no place for what was to be answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotTaken {
    pub event: EventName,
    pub what: &'static str,
}

impl fmt::Display for NotTaken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a {} event takes no {}", self.event, self.what)
    }
}

impl std::error::Error for NotTaken {}

impl Answer {
    /// Nothing to say about this event.
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

    /// "No", in the words that the event has for it: deny, block or decline. `None` if it cannot be
    /// refused.
    pub fn refusal(event: EventName, reason: impl Into<String>) -> Option<Self> {
        let opinion = rules::of(&event).says.refusal(reason.into())?;
        Some(Self {
            opinion: Some(opinion),
            ..Self::silent(event)
        })
    }

    /// Sets the opinion, in place of the one before.
    pub fn give(&mut self, opinion: Opinion) -> Result<(), NotTaken> {
        let what = opinion.name();
        self.check(rules::of(&self.event).says.takes(&opinion), what)?;
        self.opinion = Some(opinion);
        let (event, opinion) = (&self.event, &self.opinion);
        self.changes
            .retain(|change| rules::takes_change(event, opinion.as_ref(), change));
        Ok(())
    }

    /// Adds text for the model (on PreCompact: for the one who summarises).
    pub fn add_context(&mut self, text: impl Into<String>) -> Result<(), NotTaken> {
        self.check(rules::of(&self.event).takes_context(), "context")?;
        push(&mut self.contexts, text.into());
        Ok(())
    }

    /// Sets a change, in place of one of the same kind. What belongs to an opinion (the input that
    /// a PermissionRequest is allowed with) is taken only after that opinion, and goes with it.
    pub fn change(&mut self, change: Change) -> Result<(), NotTaken> {
        let taken = rules::takes_change(&self.event, self.opinion.as_ref(), &change);
        self.check(taken, change.key())?;
        self.changes.retain(|other| other.key() != change.key());
        self.changes.push(change);
        Ok(())
    }

    /// Takes a change back, by its key.
    pub fn leave(&mut self, key: &str) {
        self.changes.retain(|change| change.key() != key);
    }

    /// Adds a message for the user.
    pub fn tell(&mut self, message: impl Into<String>) {
        push(&mut self.messages, message.into());
    }

    /// Ends the turn (`continue: false`). The first reason stays.
    pub fn stop(&mut self, reason: impl Into<String>) {
        self.stop.get_or_insert_with(|| reason.into());
    }

    /// Adds an escape sequence for the user's terminal. Claude Code lets titles, notices and the
    /// bell through (OSC 0, 1, 2, 9, 99, 777, BEL).
    pub fn ring(&mut self, sequence: &str) {
        self.terminal.push_str(sequence);
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

    /// The reason for which the turn is ended, if it is.
    pub fn stopped(&self) -> Option<&str> {
        self.stop.as_deref()
    }

    /// Whether the agent that wanted to stop has to go on.
    pub fn blocks_stop(&self) -> bool {
        matches!(self.event, EventName::Stop | EventName::SubagentStop)
            && self.stop.is_none()
            && matches!(self.opinion, Some(Opinion::Block { .. }))
    }

    pub fn terminal(&self) -> &str {
        &self.terminal
    }

    /// The answer in a word, and its reason: for the log. `None` is silence.
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
            /// The field's name in JSON.
            pub fn key(&self) -> &'static str {
                match self {
                    $(Self::$name(_) => $key,)*
                }
            }

            fn value(&self) -> Value {
                match self {
                    $(Self::$name(value) => value.write(),)*
                }
            }

            /// The change that a field stands for, else what its value should have been.
            fn read(key: &str, value: &Value) -> Result<Self, &'static str> {
                match key {
                    $($key => Field::read(value.clone()).map(Self::$name).map_err(|_| $wanted),)*
                    _ => Err("absent"),
                }
            }
        }
    };
}

changes! {
    /// The whole input of the tool call, in place of the model's.
    Input(Rest) = "updatedInput", "an object";
    /// What the model sees as the tool's response, in the tool's own shape.
    ToolOutput(Value) = "updatedToolOutput", "any value";
    McpToolOutput(Value) = "updatedMCPToolOutput", "any value";
    /// For the classifier of auto mode.
    ClassifierContext(String) = "classifierContext", "a string";
    SessionTitle(String) = "sessionTitle", "a string";
    SuppressPrompt(bool) = "suppressOriginalPrompt", "true or false";
    FirstMessage(String) = "initialUserMessage", "a string";
    /// The files whose changes come as FileChanged.
    WatchPaths(Vec<String>) = "watchPaths", "a list of strings";
    ReloadSkills(bool) = "reloadSkills", "true or false";
    /// The folder that was made for a worktree.
    WorktreePath(String) = "worktreePath", "a string";
    /// What is shown in place of the text.
    Display(String) = "displayContent", "a string";
    /// Whether a call that auto mode denied is tried again.
    Retry(bool) = "retry", "true or false";
    /// The answer to an MCP server's question.
    Content(Rest) = "content", "an object";
    /// Rules that come with an allowed PermissionRequest.
    Permissions(Vec<Value>) = "updatedPermissions", "a list";
    /// Whether a denied PermissionRequest ends the turn.
    Interrupt(bool) = "interrupt", "true or false";
}

/// A judgement. There is none for "no objection": that is `None`, and it is silent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Opinion {
    /// It must not happen (a tool call, a permission, a model switch); the reason is for the model.
    Deny { reason: String },
    /// The user shall decide.
    Ask { reason: String },
    /// The user decides later; under `-p` the run ends.
    Defer { reason: String },
    /// It happens **without** Claude Code's own permission prompt. Only ever what the user asked
    /// for by name; `because` says where.
    Allow { because: String },
    /// It must not happen, or the turn must not end: prompts, stops, compactions and the rest.
    Block { reason: String },
    /// An MCP server's question is answered, with `Change::Content`.
    Accept,
    /// It is refused. The reason is for the log: Claude Code takes none here.
    Decline { reason: String },
    /// It is dismissed.
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

    /// The same, for another reason; an opinion that has none stays as it is.
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
