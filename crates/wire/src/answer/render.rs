//! An answer as Claude Code reads it: JSON and exit 0. Never exit 2: there the model is shown the
//! whole command line of the hook.

use serde_json::{Value, json};

use super::rules::{self, CONTEXT, Says};
use super::{Answer, Change, Opinion, Output};
use crate::event::Rest;

impl Answer {
    /// What the hook prints; nothing at all if there is nothing to say.
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

    /// PreCompact takes instructions as plain text only, so text it is unless the compaction is
    /// refused anyway.
    fn plain_text(&self) -> Option<String> {
        let refused = self.opinion.is_some() || self.stop.is_some();
        let apart = !rules::of(&self.event).context_is_a_field() && !self.contexts.is_empty();
        if !apart || refused {
            return None;
        }
        let text = self.contexts.join("\n");
        // What begins like JSON could be read as an answer.
        Some(match text.trim_start().starts_with('{') {
            true => format!("note: {text}"),
            false => text,
        })
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
        for change in self.changes_of(rules.fields) {
            own.insert(change.key().into(), change.value());
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
            // `give` lets no opinion in here.
            Says::Nothing => {}
            Says::Block => {
                top.insert("decision".into(), opinion.name().into());
                put_text(top, "reason", reason);
            }
            Says::Permission { .. } => {
                own.insert("permissionDecision".into(), opinion.name().into());
                put_text(own, "permissionDecisionReason", reason);
            }
            Says::Action => {
                own.insert("action".into(), opinion.name().into());
            }
            Says::Behavior => {
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

    fn changes_of(&self, fields: &'static [&'static str]) -> impl Iterator<Item = &Change> {
        self.changes
            .iter()
            .filter(|change| fields.contains(&change.key()))
    }
}

fn put_text(object: &mut Rest, key: &str, text: &str) {
    if !text.is_empty() {
        object.insert(key.into(), text.into());
    }
}
