//! The rules for questions to a person: which event is one, and how Claude Code gets the person's answer.

use becket_wire::answer::{Answer, Change, Opinion};
use becket_wire::event::EventName;
use becket_wire::question::{ASK_TOOL, PLAN_TOOL, PersonAnswer, QuestionRow};
use serde_json::{Map, Value};

use crate::judge::Verdict;
use crate::pipeline::PreparedEvent;

/// Makes the question that a PermissionRequest puts to its user, if becket itself has no opinion about it. Its
/// number and time are those of the event.
pub fn of_event(event: &PreparedEvent, verdict: &Verdict) -> Option<QuestionRow> {
    let asks = event.event == EventName::PermissionRequest
        && event.envelope.attended()
        && event.envelope.shows_dialog_beside_hook()
        && event.config.config.answer.enabled
        && verdict.answer().opinion().is_none()
        && verdict.answer().stopped().is_none();
    if !asks {
        return None;
    }
    let mut payload: Map<String, Value> = serde_json::from_slice(&event.masked).ok()?;
    let mut take = |key| payload.remove(key).unwrap_or_default();
    let tool = text(take("tool_name"))?;
    let suggestions = take("permission_suggestions");
    let agent_id = text(take("agent_id"));
    Some(QuestionRow {
        id: 0,
        session_id: text(take("session_id"))?,
        // For a subagent in the background, Claude Code shows the dialog only when the hook has ended.
        can_be_answered: tool != PLAN_TOOL && agent_id.is_none(),
        agent_id,
        tool,
        input: take("tool_input"),
        cwd: text(take("cwd")),
        asked_at: event.envelope.at,
        reason: verdict.asked.clone(),
        suggestions: suggestions.as_array().cloned().unwrap_or_default(),
    })
}

fn text(value: Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text),
        _ => None,
    }
}

/// Makes the answer for Claude Code from that of a person. The error tells the person why the question does not
/// take it.
pub fn answer(event: &PreparedEvent, given: &PersonAnswer) -> Result<Answer, String> {
    // The payload without masks: Claude Code gets its own input back.
    let payload: Value = serde_json::from_slice(&event.payload).map_err(|why| why.to_string())?;
    let asks = payload["tool_name"] == ASK_TOOL;
    let mut answer = Answer::silent(EventName::PermissionRequest);
    let (opinion, change) = match given {
        PersonAnswer::Yes if asks => {
            return Err("this question has options: choose one, or answer with a text".to_owned());
        }
        PersonAnswer::Yes => (allow(), None),
        PersonAnswer::Always => {
            let rules = payload["permission_suggestions"].as_array();
            let rules = rules.filter(|rules| !rules.is_empty());
            let rules = rules.ok_or("Claude Code suggests no rule for `always`")?;
            (allow(), Some(Change::Permissions(rules.clone())))
        }
        PersonAnswer::No { reason } => {
            let reason = reason.clone();
            let reason = reason.unwrap_or_else(|| "The user said no.".to_owned());
            (Opinion::Deny { reason }, None)
        }
        PersonAnswer::Answers(answers) if asks => {
            let mut input = payload["tool_input"]
                .as_object()
                .cloned()
                .unwrap_or_default();
            let answers = serde_json::to_value(answers).map_err(|why| why.to_string())?;
            input.insert("answers".to_owned(), answers);
            (allow(), Some(Change::Input(input)))
        }
        PersonAnswer::Answers(_) => {
            return Err("this asks for a permission: answer yes or no".to_owned());
        }
    };
    answer.give(opinion).map_err(|why| why.to_string())?;
    if let Some(change) = change {
        answer.change(change).map_err(|why| why.to_string())?;
    }
    Ok(answer)
}

fn allow() -> Opinion {
    Opinion::Allow {
        because: String::new(),
    }
}
