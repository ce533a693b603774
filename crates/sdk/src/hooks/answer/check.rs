//! Whether an answer belongs to its event. `becket_wire` knows the rules.

use becket_wire::answer::NotTaken;
use becket_wire::event::{EventName, Rest};
use serde_json::Value;

use super::{Answer, Part, WireAnswer};
use crate::hooks::CallbackFailure;

impl Answer {
    /// The answer as Claude Code gets it, if the event takes it.
    pub fn check(&self, event: &EventName) -> Result<Value, CallbackFailure> {
        if let [Part::Raw(json)] = &self.parts[..] {
            return Ok(json.clone());
        }
        let answer = self.bound(event)?;
        let output = answer.render().stdout;
        if output.is_empty() {
            return Ok(Value::Object(Rest::new()));
        }
        // Only plain text is no JSON: the extra instructions of a PreCompact command hook.
        serde_json::from_slice(&output)
            .map_err(|_| CallbackFailure::failed(format!("a {event} callback takes no context")))
    }

    /// The answer as `becket_wire` has it.
    pub(crate) fn bound(&self, event: &EventName) -> Result<WireAnswer, CallbackFailure> {
        let mut answer = WireAnswer::silent(event.clone());
        for part in &self.parts {
            match part {
                Part::Json(json) => answer = read(event, json)?,
                Part::Whole(whole) if whole.event() == event => answer = (**whole).clone(),
                Part::Whole(whole) => {
                    let why = format!("the answer is for {}, not for {event}", whole.event());
                    return Err(CallbackFailure::failed(why));
                }
                Part::Raw(_) => {
                    let why = "nothing can be added to a raw answer";
                    return Err(CallbackFailure::failed(why));
                }
                part => part.put_into(&mut answer).map_err(failed)?,
            }
        }
        Ok(answer)
    }
}

impl Part {
    fn put_into(&self, answer: &mut WireAnswer) -> Result<(), NotTaken> {
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
            Self::Json(_) | Self::Raw(_) | Self::Whole(_) => Ok(()),
        }
    }
}

/// Reads JSON as Claude Code reads a command hook's output. Claude Code would ignore anything but an
/// object; here it is an error.
fn read(event: &EventName, json: &Value) -> Result<WireAnswer, CallbackFailure> {
    let Some(object) = json.as_object() else {
        return Err(CallbackFailure::failed("the answer is JSON, but no object"));
    };
    if let Some(field) = WireAnswer::unknown_field(event, object) {
        let why = format!("a {event} event takes no `{field}` (Answer::raw sends it unchecked)");
        return Err(CallbackFailure::failed(why));
    }
    let text = json.to_string();
    WireAnswer::read(event.clone(), 0, text.as_bytes(), b"").map_err(failed)
}

fn failed(why: impl std::error::Error) -> CallbackFailure {
    CallbackFailure::failed(why.to_string())
}
