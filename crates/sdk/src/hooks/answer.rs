//! The answer of a callback, and the check that its event takes it.

use becket_wire::answer::{Change, NotTaken, Opinion};
use becket_wire::event::{EventName, Rest};
use serde_json::{Map, Value};

use super::CallbackFailure;

type WireAnswer = becket_wire::Answer;

/// The answer of a callback. It is checked against the callback's event, by the rules of
/// `becket_wire`: an answer that the event does not take is an error of that call
/// (`hook_execution_error`) and is never sent.
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
#[must_use = "an answer has no effect until the callback returns it"]
pub struct Answer {
    parts: Vec<Part>,
}

/// A part of an answer. The parts are put together when the answer is bound to its event.
#[derive(Debug, Clone, PartialEq)]
enum Part {
    Opinion(Opinion),
    Context(String),
    Change(Change),
    Message(String),
    Stop(String),
    Json(Value),
    Raw(Value),
    /// An answer that is already bound to its event.
    Bound(Box<WireAnswer>),
}

impl Answer {
    /// Makes an answer without an opinion: Claude Code goes on as if the callback were not there.
    pub fn none() -> Self {
        Self::default()
    }

    /// Forbids the call and tells the model the reason (PreToolUse, PermissionRequest, PreModelSwitch).
    pub fn deny(reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self::of(Part::Opinion(Opinion::Deny { reason }))
    }

    /// Lets the call happen without Claude Code's own permission prompt. [`none`](Self::none) leaves the
    /// prompt to Claude Code.
    pub fn allow(because: impl Into<String>) -> Self {
        let because = because.into();
        Self::of(Part::Opinion(Opinion::Allow { because }))
    }

    /// Asks the user (PreToolUse, PreModelSwitch). Without a user present, Claude Code refuses the call.
    pub fn ask(reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self::of(Part::Opinion(Opinion::Ask { reason }))
    }

    /// Blocks a prompt or a compaction. On Stop, the turn goes on.
    pub fn block(reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self::of(Part::Opinion(Opinion::Block { reason }))
    }

    /// Adds text for the model.
    pub fn context(text: impl Into<String>) -> Self {
        Self::of(Part::Context(text.into()))
    }

    /// Changes the action that the event is about, such as [`Change::Input`] for another tool input.
    pub fn change(change: Change) -> Self {
        Self::of(Part::Change(change))
    }

    /// Replaces the whole input of the tool call.
    pub fn rewrite(input: Map<String, Value>) -> Self {
        Self::change(Change::Input(input))
    }

    /// Ends the turn and tells the user the reason. It does not prevent the action that the event is
    /// about: on PreToolUse the call still happens, unless the answer is also a [`deny`](Self::deny)
    /// (see [`with_stop`](Self::with_stop)).
    pub fn stop(reason: impl Into<String>) -> Self {
        Self::of(Part::Stop(reason.into()))
    }

    /// Makes an answer from the JSON that a command hook would print. A field that the event does not
    /// have is an error: see [`raw`](Self::raw).
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

    /// Makes an answer that is sent to Claude Code unchecked, for fields that this crate does not know.
    /// Nothing can be added to it.
    ///
    /// Claude Code ignores fields that it does not know, and refuses the call if `hookEventName` names
    /// another event.
    pub fn raw(json: Value) -> Self {
        Self::of(Part::Raw(json))
    }

    /// Adds text for the model to this answer.
    pub fn with_context(self, text: impl Into<String>) -> Self {
        self.and(Part::Context(text.into()))
    }

    /// Adds a change to this answer.
    pub fn with_change(self, change: Change) -> Self {
        self.and(Part::Change(change))
    }

    /// Adds a message for the user to this answer.
    pub fn with_message(self, text: impl Into<String>) -> Self {
        self.and(Part::Message(text.into()))
    }

    /// Makes an answer that is already bound to its event.
    pub(crate) fn bound_to_event(answer: WireAnswer) -> Self {
        Self::of(Part::Bound(Box::new(answer)))
    }

    /// Adds the end of the turn to this answer.
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

impl Answer {
    /// Returns the JSON for Claude Code, or an error if the event does not take the answer.
    pub fn check(&self, event: &EventName) -> Result<Value, CallbackFailure> {
        if let [Part::Raw(json)] = &self.parts[..] {
            return Ok(json.clone());
        }
        let answer = self.bind(event)?;
        let output = answer.render().stdout;
        if output.is_empty() {
            return Ok(Value::Object(Rest::new()));
        }
        // The one output that is not JSON is plain text: the extra instructions of a PreCompact command
        // hook.
        serde_json::from_slice(&output)
            .map_err(|_| CallbackFailure::failed(format!("a {event} callback takes no context")))
    }

    /// Binds the answer to an event.
    fn bind(&self, event: &EventName) -> Result<WireAnswer, CallbackFailure> {
        let mut answer = WireAnswer::silent(event.clone());
        for part in &self.parts {
            match part {
                Part::Json(json) => answer = read_json(event, json)?,
                Part::Bound(bound) if bound.event() == event => answer = (**bound).clone(),
                Part::Bound(bound) => {
                    let error = format!("the answer is for {}, not for {event}", bound.event());
                    return Err(CallbackFailure::failed(error));
                }
                Part::Raw(_) => {
                    let error = "nothing can be added to a raw answer";
                    return Err(CallbackFailure::failed(error));
                }
                part => part.add_to(&mut answer).map_err(to_failure)?,
            }
        }
        Ok(answer)
    }
}

impl Part {
    fn add_to(&self, answer: &mut WireAnswer) -> Result<(), NotTaken> {
        match self {
            Self::Opinion(opinion) => answer.give(opinion.clone()),
            Self::Context(text) => answer.add_context(text),
            Self::Change(change) => answer.change(change.clone()),
            Self::Message(text) => {
                answer.add_message(text);
                Ok(())
            }
            Self::Stop(reason) => {
                answer.stop(reason);
                Ok(())
            }
            Self::Json(_) | Self::Raw(_) | Self::Bound(_) => Ok(()),
        }
    }
}

/// Reads JSON as Claude Code reads a command hook's output. Claude Code ignores anything but an object;
/// here it is an error.
fn read_json(event: &EventName, json: &Value) -> Result<WireAnswer, CallbackFailure> {
    let Some(object) = json.as_object() else {
        return Err(CallbackFailure::failed("the answer is JSON, but no object"));
    };
    if let Some(field) = WireAnswer::unknown_field(event, object) {
        let error = format!("a {event} event takes no `{field}` (Answer::raw sends it unchecked)");
        return Err(CallbackFailure::failed(error));
    }
    let text = json.to_string();
    WireAnswer::read(event.clone(), 0, text.as_bytes(), b"").map_err(to_failure)
}

fn to_failure(error: impl std::error::Error) -> CallbackFailure {
    CallbackFailure::failed(error.to_string())
}
