//! What an event is about: the word that matchers are compared with, and the files.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

use becket_wire::Head;
use becket_wire::event::EventName;
use serde_json::value::RawValue;

use crate::hooks::Hook;

/// Where the input of a tool names a file.
const FILES: [&str; 3] = ["file_path", "notebook_path", "path"];

type Object<'a> = HashMap<String, &'a RawValue>;

/// One event, as matchers see it. What has to be read for them is read once, for any number of
/// hooks.
#[derive(Debug)]
pub struct Subject<'a> {
    event: &'a EventName,
    head: &'a Head<'a>,
    payload: &'a [u8],
    word: OnceCell<Option<Cow<'a, str>>>,
    files: OnceCell<Vec<PathBuf>>,
    calls: OnceCell<Vec<Call>>,
}

/// One call of a batch.
#[derive(Debug)]
struct Call {
    tool: String,
    files: Vec<PathBuf>,
}

impl<'a> Subject<'a> {
    pub fn new(event: &'a EventName, head: &'a Head<'a>, payload: &'a [u8]) -> Self {
        Self {
            event,
            head,
            payload,
            word: OnceCell::new(),
            files: OnceCell::new(),
            calls: OnceCell::new(),
        }
    }

    /// See `matcher::concerns`.
    pub fn concerns(&self, hook: &Hook, project: &Path) -> bool {
        if !hook.on.contains(self.event) {
            return false;
        }
        if hook.tools.is_all() && hook.paths.is_empty() {
            return true;
        }
        let any_file = |files: &[PathBuf]| {
            let matches = |file: &PathBuf| hook.paths.matches(file, project);
            hook.paths.is_empty() || files.iter().any(matches)
        };
        // Claude Code compares nothing here. That one of the calls matches is more help to a hook
        // that checks what was changed.
        if *self.event == EventName::PostToolBatch {
            let mut calls = self.calls().iter();
            return calls.any(|call| hook.tools.matches(&call.tool) && any_file(&call.files));
        }
        let no_matcher = hook.tools.is_all() || !self.event.has_matcher();
        let matches = || self.word().is_some_and(|word| hook.tools.matches(word));
        (no_matcher || matches()) && (hook.paths.is_empty() || any_file(self.files()))
    }

    /// The files that the event is about, absolute as far as the event's cwd is: of a tool call
    /// those that its input names, of FileChanged and the like theirs, of a batch all.
    pub fn files(&self) -> &[PathBuf] {
        self.files.get_or_init(|| match self.event {
            EventName::FileChanged | EventName::InstructionsLoaded | EventName::ConfigChange => {
                self.files_in(&self.top(), &["file_path"])
            }
            EventName::PostToolBatch => {
                let calls = self.calls().iter();
                calls.flat_map(|call| call.files.clone()).collect()
            }
            _ => {
                let input = self.head.tool_input.and_then(object);
                self.files_in(&input.unwrap_or_default(), &FILES)
            }
        })
    }

    fn word(&self) -> Option<&str> {
        let word = self.word.get_or_init(|| {
            let field = self.event.matcher_field()?;
            let head = self.head;
            let known = match field {
                "tool_name" => &head.tool,
                "source" => &head.source,
                "reason" => &head.reason,
                "notification_type" => &head.notification_type,
                "trigger" => &head.trigger,
                "error" => &head.error,
                "agent_type" => &head.agent_type,
                "mcp_server_name" => &head.mcp_server_name,
                "to_model" => &head.to_model,
                _ => {
                    return self
                        .top()
                        .get(field)
                        .and_then(|value| text(value))
                        .map(Cow::Owned);
                }
            };
            known.as_deref().map(Cow::Borrowed)
        });
        let word = word.as_deref()?;
        match self.event {
            EventName::FileChanged => Path::new(word).file_name()?.to_str(),
            _ => Some(word),
        }
    }

    fn calls(&self) -> &[Call] {
        self.calls.get_or_init(|| {
            let top = self.top();
            let calls = top.get("tool_calls").map(|calls| calls.get());
            let calls: Vec<&RawValue> = calls
                .and_then(|calls| serde_json::from_str(calls).ok())
                .unwrap_or_default();
            calls
                .into_iter()
                .filter_map(|call| self.call(call))
                .collect()
        })
    }

    fn call(&self, call: &RawValue) -> Option<Call> {
        let call = object(call.get())?;
        let input = call.get("tool_input").and_then(|input| object(input.get()));
        Some(Call {
            tool: call
                .get("tool_name")
                .and_then(|name| text(name))
                .unwrap_or_default(),
            files: self.files_in(&input.unwrap_or_default(), &FILES),
        })
    }

    fn files_in(&self, object: &Object<'_>, fields: &[&str]) -> Vec<PathBuf> {
        let cwd = Path::new(self.head.cwd.as_deref().unwrap_or_default());
        let files = fields.iter().filter_map(|field| text(object.get(*field)?));
        (files.filter(|file| !file.is_empty()))
            .map(|file| cwd.join(file))
            .collect()
    }

    fn top(&self) -> Object<'a> {
        let payload = std::str::from_utf8(self.payload).ok();
        payload.and_then(object).unwrap_or_default()
    }
}

fn object(json: &str) -> Option<Object<'_>> {
    serde_json::from_str(json).ok()
}

fn text(json: &RawValue) -> Option<String> {
    serde_json::from_str(json.get()).ok()
}
