//! A hook with a fixed behaviour: it answers, hangs, or its program is missing.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::registration::{command, handler};
use crate::claude::{Home, SettingsScope};

/// A hook that a story registers besides the recorders.
#[derive(Debug, Clone)]
#[must_use = "a hook counts once the story is given it"]
pub struct Hook {
    event: String,
    label: String,
    matcher: Option<String>,
    reply: Option<String>,
    exit: u8,
    stderr: String,
    hold: Option<String>,
    missing: bool,
    fields: Value,
    scope: SettingsScope,
}

impl Hook {
    /// Creates a hook for this event. Its calls are recorded under the event's name.
    pub fn on(event: &str) -> Self {
        Self {
            event: event.to_owned(),
            label: event.to_owned(),
            matcher: None,
            reply: None,
            exit: 0,
            stderr: String::new(),
            hold: None,
            missing: false,
            fields: json!({}),
            scope: SettingsScope::Project,
        }
    }

    /// Records the calls under another name.
    pub fn label(mut self, label: &str) -> Self {
        label.clone_into(&mut self.label);
        self
    }

    pub fn matcher(mut self, matcher: &str) -> Self {
        self.matcher = Some(matcher.to_owned());
        self
    }

    pub fn scope(mut self, scope: SettingsScope) -> Self {
        self.scope = scope;
        self
    }

    /// Makes the hook print this text, which need not be JSON.
    pub fn prints(mut self, text: &str) -> Self {
        self.reply = Some(text.to_owned());
        self
    }

    /// Makes the hook answer with this JSON.
    pub fn answers(self, answer: &Value) -> Self {
        self.prints(&answer.to_string())
    }

    /// Makes the hook answer with these fields of its event.
    pub fn says(self, mut fields: Value) -> Self {
        fields["hookEventName"] = json!(self.event);
        self.answers(&json!({"hookSpecificOutput": fields}))
    }

    /// Makes the hook deny a tool call.
    pub fn denies(self, reason: &str) -> Self {
        self.says(json!({"permissionDecision": "deny", "permissionDecisionReason": reason}))
    }

    /// Makes the hook add to the model's context.
    pub fn adds(self, context: &str) -> Self {
        self.says(json!({"additionalContext": context}))
    }

    /// Makes the hook block (a stop, a prompt) with a reason.
    pub fn blocks(self, reason: &str) -> Self {
        self.answers(&json!({"decision": "block", "reason": reason}))
    }

    /// Makes the hook exit with this code and text on stderr.
    pub fn exits(mut self, code: u8, stderr: &str) -> Self {
        self.exit = code;
        stderr.clone_into(&mut self.stderr);
        self
    }

    /// Makes the hook wait until the story releases it.
    pub fn held(mut self, name: &str) -> Self {
        self.hold = Some(name.to_owned());
        self
    }

    /// Registers a program that does not exist.
    pub fn missing(mut self) -> Self {
        self.missing = true;
        self
    }

    /// Sets a field of the registration: `timeout`, `onFailure`, `async`, `if`.
    pub fn with(mut self, field: &str, value: impl Into<Value>) -> Self {
        self.fields[field] = value.into();
        self
    }

    /// Registers the hook in a running story.
    pub fn add_to(&self, home: &Home) {
        let handler = self.handler(home);
        home.add_hook(self.scope, &self.event, self.matcher.as_deref(), &handler);
    }

    /// Returns settings with this hook alone, for `--settings`.
    pub fn settings(&self, home: &Home) -> Value {
        let mut group = json!({"hooks": [self.handler(home)]});
        if let Some(matcher) = &self.matcher {
            group["matcher"] = json!(matcher);
        }
        json!({"hooks": {&self.event: [group]}})
    }

    fn handler(&self, home: &Home) -> Value {
        let mut handler = handler(&self.command(home));
        for (field, value) in self.fields.as_object().into_iter().flatten() {
            handler[field] = value.clone();
        }
        handler
    }

    fn command(&self, home: &Home) -> String {
        if self.missing {
            return home.root().join("no-such-hook").display().to_string();
        }
        let exit = self.exit.to_string();
        let mut told = vec!["--label", &self.label, "--exit", &exit];
        if !self.stderr.is_empty() {
            told.extend(["--stderr", &self.stderr]);
        }
        if let Some(reply) = &self.reply {
            told.extend(["--reply", reply]);
        }
        let hold = self.hold.as_deref().map(|name| hold_file(home, name));
        let hold = hold.map(|file| file.display().to_string());
        if let Some(file) = &hold {
            told.extend(["--hold", file]);
        }
        command(home, &told)
    }
}

pub(super) fn hold_file(home: &Home, name: &str) -> PathBuf {
    home.root().join(format!("let-go-{name}"))
}
