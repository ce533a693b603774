//! Reads the JSON of a hook's answer as Claude Code would, and writes answers.

use serde_json::{Value, json};
use thiserror::Error;

use super::rules::{self, CONTEXT, OpinionForm, PlainOutput};
use super::{Answer, Change, Opinion, Output};
use crate::event::{EventError, EventName, Rest, parse_json};

/// The fields of an answer besides those of its event.
const TOP: &[&str] = &[
    "continue",
    "stopReason",
    "suppressOutput",
    "systemMessage",
    "terminalSequence",
    "decision",
    "reason",
    "hookSpecificOutput",
];

/// The fields of a PermissionRequest's decision.
const BEHAVIOR: &[&str] = &[
    "behavior",
    "message",
    "updatedInput",
    "updatedPermissions",
    "interrupt",
];

/// The reason why a hook's output is not an answer. It is a failure of the hook; the event goes on without it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AnswerError {
    /// An exit code that means neither yes nor no, and the hook's stderr.
    #[error("the hook exited with {exit}{}{stderr}", if stderr.is_empty() { "" } else { ": " })]
    Failed { exit: i32, stderr: String },
    #[error("the hook's hookSpecificOutput has no hookEventName (it must be \"{asked}\")")]
    NoEvent { asked: EventName },
    /// A `hookEventName` that names another event.
    #[error("the hook answered \"{said}\" to {asked} (hookEventName must be \"{asked}\")")]
    WrongEvent { asked: EventName, said: String },
    /// A known field has a type or a word that Claude Code would not take.
    #[error("the hook's {field} must be {wanted}")]
    WrongField { field: String, wanted: &'static str },
    #[error("the hook's JSON is nested too deep")]
    TooDeep,
}

impl Answer {
    /// Reads a hook's exit code and output as its answer to the event.
    pub fn read(
        event: EventName,
        exit: i32,
        stdout: &[u8],
        stderr: &[u8],
    ) -> Result<Self, AnswerError> {
        let rules = rules::of(&event);
        match exit {
            0 => {}
            2 if rules.says.exit_two_refuses() => {
                let opinion = rules.says.refusal(text(stderr));
                return Ok(Self {
                    opinion,
                    ..Self::silent(event)
                });
            }
            _ => {
                let stderr = text(stderr);
                return Err(AnswerError::Failed { exit, stderr });
            }
        }
        match parse_json(stdout) {
            Ok(Value::Object(top)) => Self::read_json(event, &top),
            Err(EventError::TooDeep) => Err(AnswerError::TooDeep),
            _ => Ok(Self::read_plain(event, text(stdout))),
        }
    }

    /// Returns the first field of an answer's JSON that `read` ignores, because the event does not have it, or
    /// because it is for command hooks only.
    pub fn unknown_field(event: &EventName, top: &Rest) -> Option<String> {
        let rules = rules::of(event);
        let own: &[&str] = match rules.says {
            OpinionForm::Nothing | OpinionForm::Block => &[],
            OpinionForm::Permission { .. } => &["permissionDecision", "permissionDecisionReason"],
            OpinionForm::Behavior => &["decision"],
            OpinionForm::Action => &["action"],
        };
        let specific = top.get("hookSpecificOutput").and_then(Value::as_object);
        let decision = specific.and_then(|specific| specific.get("decision")?.as_object());
        unknown_key(top, &[TOP])
            .or_else(|| unknown_key(specific?, &[&["hookEventName"], own, rules.fields]))
            .or_else(|| unknown_key(decision?, &[BEHAVIOR]))
    }

    fn read_plain(event: EventName, text: String) -> Self {
        let mut answer = Self::silent(event);
        if text.is_empty() {
            return answer;
        }
        match rules::of(&answer.event).plain {
            PlainOutput::Ignored => {}
            PlainOutput::Context => answer.contexts.push(text),
            PlainOutput::Message => answer.messages.push(text),
            PlainOutput::WorktreePath => answer.changes.push(Change::WorktreePath(text)),
        }
        answer
    }

    fn read_json(event: EventName, top: &Rest) -> Result<Self, AnswerError> {
        let mut answer = Self::silent(event);
        // The hook goes on in the background: its later output arrives another way.
        if flag(top, "async")? == Some(true) {
            return Ok(answer);
        }
        let stop_reason = string(top, "stopReason")?.unwrap_or_default();
        if flag(top, "continue")? == Some(false) {
            answer.stop(stop_reason);
        }
        // This is about the transcript, which the stdout of becket's hooks never reaches.
        flag(top, "suppressOutput")?;
        answer.add_message(string(top, "systemMessage")?.unwrap_or_default());
        answer.add_terminal(&string(top, "terminalSequence")?.unwrap_or_default());
        answer.read_own(top)?;
        answer.read_top_decision(top)?;
        Ok(answer)
    }

    /// Reads `hookSpecificOutput`. Like Claude Code, it ignores fields that the event does not have.
    fn read_own(&mut self, top: &Rest) -> Result<(), AnswerError> {
        let Some(own) = object(top, "hookSpecificOutput")? else {
            return Ok(());
        };
        let said = string(own, "hookEventName")?.unwrap_or_default();
        if said != self.event.as_str() {
            let asked = self.event.clone();
            return Err(if said.is_empty() {
                AnswerError::NoEvent { asked }
            } else {
                AnswerError::WrongEvent { asked, said }
            });
        }
        let rules = rules::of(&self.event);
        match rules.says {
            OpinionForm::Nothing | OpinionForm::Block => {}
            OpinionForm::Permission { defer } => self.opinion = permission(own, defer)?,
            OpinionForm::Behavior => self.read_behavior(own)?,
            OpinionForm::Action => self.opinion = action(own)?,
        }
        self.read_changes(own, rules.fields)?;
        if rules.context_is_a_field() {
            super::push(
                &mut self.contexts,
                string(own, CONTEXT)?.unwrap_or_default(),
            );
        }
        Ok(())
    }

    fn read_behavior(&mut self, own: &Rest) -> Result<(), AnswerError> {
        let Some(decision) = object(own, "decision")? else {
            return Ok(());
        };
        let fields: &[&str] = match string(decision, "behavior")?.as_deref() {
            Some("allow") => {
                let because = String::new();
                self.opinion = Some(Opinion::Allow { because });
                &["updatedInput", "updatedPermissions"]
            }
            Some("deny") => {
                let reason = string(decision, "message")?.unwrap_or_default();
                self.opinion = Some(Opinion::Deny { reason });
                &["interrupt"]
            }
            _ => return Err(wrong("behavior", "\"allow\" or \"deny\"")),
        };
        self.read_changes(decision, fields)
    }

    fn read_changes(&mut self, object: &Rest, fields: &[&str]) -> Result<(), AnswerError> {
        for (key, value) in fields.iter().filter_map(|key| object.get_key_value(*key)) {
            if key != CONTEXT {
                let change = Change::read(key, value).map_err(|wanted| wrong(key, wanted))?;
                self.changes.push(change);
            }
        }
        Ok(())
    }

    /// Reads the older form of a judgement, beside `hookSpecificOutput`. Its "no" is the stronger of the two.
    fn read_top_decision(&mut self, top: &Rest) -> Result<(), AnswerError> {
        let reason = string(top, "reason")?.unwrap_or_default();
        let says = rules::of(&self.event).says;
        match string(top, "decision")?.as_deref() {
            Some("block") if says.exit_two_refuses() && !self.refuses() => {
                self.opinion = says.refusal(reason);
            }
            Some("approve") if self.event == EventName::PreToolUse && self.opinion.is_none() => {
                self.opinion = Some(Opinion::Allow { because: reason });
            }
            None | Some("block" | "approve") => {}
            Some(_) => return Err(wrong("decision", "\"block\" or \"approve\"")),
        }
        Ok(())
    }

    fn refuses(&self) -> bool {
        matches!(
            self.opinion,
            Some(Opinion::Deny { .. } | Opinion::Decline { .. })
        )
    }
}

fn unknown_key(object: &Rest, known: &[&[&str]]) -> Option<String> {
    let mut keys = object.keys();
    let unknown = keys.find(|key| !known.iter().any(|known| known.contains(&key.as_str())));
    unknown.cloned()
}

fn permission(own: &Rest, defer: bool) -> Result<Option<Opinion>, AnswerError> {
    let reason = string(own, "permissionDecisionReason")?.unwrap_or_default();
    Ok(Some(match string(own, "permissionDecision")?.as_deref() {
        None => return Ok(None),
        Some("deny") => Opinion::Deny { reason },
        Some("ask") => Opinion::Ask { reason },
        Some("allow") => Opinion::Allow { because: reason },
        Some("defer") if defer => Opinion::Defer { reason },
        Some(_) if defer => return Err(wrong("permissionDecision", "allow, deny, ask or defer")),
        Some(_) => return Err(wrong("permissionDecision", "allow, deny or ask")),
    }))
}

fn action(own: &Rest) -> Result<Option<Opinion>, AnswerError> {
    Ok(Some(match string(own, "action")?.as_deref() {
        None => return Ok(None),
        Some("accept") => Opinion::Accept,
        Some("decline") => Opinion::Decline {
            reason: String::new(),
        },
        Some("cancel") => Opinion::Cancel,
        Some(_) => return Err(wrong("action", "accept, decline or cancel")),
    }))
}

fn string(object: &Rest, key: &str) -> Result<Option<String>, AnswerError> {
    field(object, key, "a string", |value| {
        value.as_str().map(str::to_owned)
    })
}

fn flag(object: &Rest, key: &str) -> Result<Option<bool>, AnswerError> {
    field(object, key, "true or false", Value::as_bool)
}

fn object<'a>(object: &'a Rest, key: &str) -> Result<Option<&'a Rest>, AnswerError> {
    field(object, key, "an object", Value::as_object)
}

fn field<'a, T>(
    object: &'a Rest,
    key: &str,
    wanted: &'static str,
    read: impl FnOnce(&'a Value) -> Option<T>,
) -> Result<Option<T>, AnswerError> {
    let Some(value) = object.get(key) else {
        return Ok(None);
    };
    read(value).map(Some).ok_or_else(|| wrong(key, wanted))
}

fn wrong(field: &str, wanted: &'static str) -> AnswerError {
    AnswerError::WrongField {
        field: field.to_owned(),
        wanted,
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim().to_owned()
}

impl Answer {
    /// Returns the output for Claude Code; empty if the answer is silent.
    pub fn render(&self) -> Output {
        let stdout = match self.plain_text() {
            Some(text) => text.into_bytes(),
            None => self.json().map_or_else(Vec::new, |object| {
                Value::Object(object).to_string().into_bytes()
            }),
        };
        Output {
            stdout,
            ..Output::silence()
        }
    }

    /// Returns the context as plain text on PreCompact, which takes instructions in no other form; none if the
    /// compaction is refused anyway.
    fn plain_text(&self) -> Option<String> {
        let refused = self.opinion.is_some() || self.stop.is_some();
        let apart = !rules::of(&self.event).context_is_a_field() && !self.contexts.is_empty();
        if !apart || refused {
            return None;
        }
        let text = self.contexts.join("\n");
        // Claude Code could read a text that begins like JSON as an answer.
        if text.trim_start().starts_with('{') {
            Some(format!("note: {text}"))
        } else {
            Some(text)
        }
    }

    fn json(&self) -> Option<Rest> {
        let mut top = Rest::new();
        let mut own = Rest::new();
        if let Some(reason) = &self.stop {
            top.insert("continue".into(), false.into());
            put_text(&mut top, "stopReason", reason);
        }
        put_text(&mut top, "systemMessage", &self.messages.join("\n"));
        put_text(&mut top, "terminalSequence", &self.terminal);
        if let Some(opinion) = &self.opinion {
            self.put_opinion(opinion, &mut top, &mut own);
        }
        let rules = rules::of(&self.event);
        if rules.context_is_a_field() {
            put_text(&mut own, CONTEXT, &self.contexts.join("\n"));
        }
        for change in &self.changes {
            if rules.fields.contains(&change.key()) {
                own.insert(change.key().into(), change.value());
            }
        }
        if !own.is_empty() {
            own.insert("hookEventName".into(), self.event.as_str().into());
            top.insert("hookSpecificOutput".into(), own.into());
        }
        (!top.is_empty()).then_some(top)
    }

    fn put_opinion(&self, opinion: &Opinion, top: &mut Rest, own: &mut Rest) {
        let reason = opinion.reason().unwrap_or_default();
        match rules::of(&self.event).says {
            // `give` accepts no opinion for such an event.
            OpinionForm::Nothing => {}
            OpinionForm::Block => {
                top.insert("decision".into(), opinion.name().into());
                put_text(top, "reason", reason);
            }
            OpinionForm::Permission { .. } => {
                own.insert("permissionDecision".into(), opinion.name().into());
                put_text(own, "permissionDecisionReason", reason);
            }
            OpinionForm::Action => {
                own.insert("action".into(), opinion.name().into());
            }
            OpinionForm::Behavior => {
                own.insert("decision".into(), self.behavior(opinion).into());
            }
        }
    }

    fn behavior(&self, opinion: &Opinion) -> Rest {
        let mut decision = Rest::new();
        decision.insert("behavior".into(), json!(opinion.name()));
        if let Opinion::Deny { reason } = opinion {
            put_text(&mut decision, "message", reason);
        }
        for change in &self.changes {
            decision.insert(change.key().into(), change.value());
        }
        decision
    }
}

fn put_text(object: &mut Rest, key: &str, text: &str) {
    if !text.is_empty() {
        object.insert(key.into(), text.into());
    }
}
