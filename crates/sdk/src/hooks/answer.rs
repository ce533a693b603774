//! What a callback answers, before it is bound to its event.

mod check;

use becket_wire::answer::{Change, Opinion};
use serde_json::{Map, Value};

type WireAnswer = becket_wire::Answer;

/// What a callback answers. It is checked against the callback's event, by the rules of
/// `becket_wire`: an answer that the event does not take is an error of that call
/// (`hook_execution_error`), never sent.
///
/// ```
/// use becket_sdk::{Answer, EventName};
///
/// let answer = Answer::deny("not on Fridays").with_message("blocked a deploy");
/// assert!(answer.check(&EventName::PreToolUse).is_ok());
///
/// let wrong = Answer::deny("too late").check(&EventName::PostToolUse);
/// assert_eq!(
///     wrong.unwrap_err().to_string(),
///     "hook_execution_error: a PostToolUse event takes no deny"
/// );
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
#[must_use = "an answer counts when the callback returns it"]
pub struct Answer {
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq)]
enum Part {
    Opinion(Opinion),
    Context(String),
    Change(Change),
    Message(String),
    Stop(String),
    Json(Value),
    Raw(Value),
    Whole(Box<WireAnswer>),
}

impl Answer {
    /// No opinion: Claude Code goes on as if the callback were not there.
    pub fn none() -> Self {
        Self::default()
    }

    /// The call must not happen; the model is told why. PreToolUse, PermissionRequest,
    /// PreModelSwitch.
    pub fn deny(reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self::of(Part::Opinion(Opinion::Deny { reason }))
    }

    /// The call happens without Claude Code's own permission prompt. Not the same as [`none`](Self::none).
    pub fn allow(because: impl Into<String>) -> Self {
        let because = because.into();
        Self::of(Part::Opinion(Opinion::Allow { because }))
    }

    /// The user decides (PreToolUse, PreModelSwitch). Where no user attends, Claude Code refuses.
    pub fn ask(reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self::of(Part::Opinion(Opinion::Ask { reason }))
    }

    /// It must not happen, or on Stop the turn must not end: prompts, stops, compactions.
    pub fn block(reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self::of(Part::Opinion(Opinion::Block { reason }))
    }

    /// Text for the model.
    pub fn context(text: impl Into<String>) -> Self {
        Self::of(Part::Context(text.into()))
    }

    /// A change of what happens, such as [`Change::Input`] for another tool input.
    pub fn change(change: Change) -> Self {
        Self::of(Part::Change(change))
    }

    /// Another input for the tool call: the whole of it, in place of the model's.
    pub fn rewrite(input: Map<String, Value>) -> Self {
        Self::change(Change::Input(input))
    }

    /// Ends the turn; the user is told why. It does not prevent what the event is about: on PreToolUse
    /// the call still happens, unless the answer is a [`deny`](Self::deny) [with](Self::with_stop) it.
    pub fn stop(reason: impl Into<String>) -> Self {
        Self::of(Part::Stop(reason.into()))
    }

    /// An answer as the JSON that a command hook would print. A field that the event does not have is an
    /// error: see [`raw`](Self::raw).
    ///
    /// ```
    /// use becket_sdk::{Answer, EventName};
    ///
    /// let answer = Answer::json(serde_json::json!({"decision": "block", "becuase": "typo"}));
    /// assert_eq!(
    ///     answer.check(&EventName::Stop).unwrap_err().to_string(),
    ///     "hook_execution_error: a Stop event takes no `becuase` (Answer::raw sends it unchecked)"
    /// );
    /// ```
    pub fn json(json: Value) -> Self {
        Self::of(Part::Json(json))
    }

    /// An answer that Claude Code gets as it is, unchecked: for fields that this crate does not know.
    /// Nothing can be added to it.
    ///
    /// Claude Code ignores what it does not know, and refuses the call if `hookEventName` names another
    /// event.
    pub fn raw(json: Value) -> Self {
        Self::of(Part::Raw(json))
    }

    /// The same answer, with text for the model besides.
    pub fn with_context(self, text: impl Into<String>) -> Self {
        self.and(Part::Context(text.into()))
    }

    /// The same answer, with a change besides.
    pub fn with_change(self, change: Change) -> Self {
        self.and(Part::Change(change))
    }

    /// The same answer, with a message for the user besides.
    pub fn with_message(self, text: impl Into<String>) -> Self {
        self.and(Part::Message(text.into()))
    }

    /// An answer that is bound to its event already.
    pub(crate) fn bound_to_event(answer: WireAnswer) -> Self {
        Self::of(Part::Whole(Box::new(answer)))
    }

    /// The same answer, and the turn ends.
    ///
    /// ```
    /// use becket_sdk::{Answer, EventName};
    ///
    /// let answer = Answer::deny("not here").with_stop("ask the owner first");
    /// let json = answer.check(&EventName::PreToolUse).unwrap();
    /// assert_eq!(json["continue"], false);
    /// assert_eq!(json["hookSpecificOutput"]["permissionDecision"], "deny");
    /// ```
    pub fn with_stop(self, reason: impl Into<String>) -> Self {
        self.and(Part::Stop(reason.into()))
    }

    fn of(part: Part) -> Self {
        Self { parts: vec![part] }
    }

    fn and(mut self, part: Part) -> Self {
        self.parts.push(part);
        self
    }
}
