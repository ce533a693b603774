//! One event as the status rules see it.

use std::borrow::Cow;

use becket_wire::event::EventName;
use becket_wire::rpc::Envelope;
use becket_wire::{EventId, Head};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

/// The error of a turn that ran into a rate limit.
const RATE_LIMIT: &str = "rate_limit";

/// One event with what came beside it. Head and envelope are borrowed: nothing is owned before it
/// changes something.
#[derive(Debug, Clone)]
pub struct Moment<'a> {
    pub head: &'a Head<'a>,
    pub event: EventName,
    /// When the event happened: milliseconds since 1970.
    pub at: i64,
    pub id: EventId,
    pub envelope: &'a Envelope,
    /// Where the event comes from, as far as anybody looked.
    pub project: Option<&'a str>,
}

/// The place of an event in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Mark {
    pub at: i64,
    pub id: EventId,
}

impl Mark {
    /// Every event of that millisecond is newer.
    pub(super) fn before_all_of(at: i64) -> Self {
        Self {
            at,
            id: EventId::from_bytes([0; 16]),
        }
    }
}

/// Whether Claude Code itself wrote the prompt of this event.
pub fn is_machine_made(head: &Head<'_>) -> bool {
    let by_source = matches!(
        head.source.as_deref(),
        Some("system" | "loop_wakeup" | "schedule_wakeup" | "poll_event")
    );
    by_source
        || head.prompt.as_deref().is_some_and(|prompt| {
            let prompt = prompt.trim_start();
            MACHINE_MADE.iter().any(|mark| prompt.starts_with(mark))
        })
}

/// Where a prompt that begins so came from: Claude Code itself.
const MACHINE_MADE: [&str; 6] = [
    "<task-notification",
    "<system-reminder",
    "<teammate-message",
    "<local-command-",
    "<bash-stdout",
    "<bash-stderr",
];

/// Names and ids are short; what is not is cut, always alike, before it is remembered.
const MAX_NAME: usize = 256;

fn bounded<'a>(text: &'a Option<Cow<'_, str>>) -> Option<&'a str> {
    text.as_deref().map(cut)
}

pub(super) fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_NAME)]
}

/// A background task, as an event lists it.
#[derive(Deserialize)]
struct Task {
    #[serde(default)]
    id: String,
    #[serde(default, rename = "type")]
    kind: String,
}

impl<'a> Moment<'a> {
    /// An event as its payload names it, else as its registration does.
    pub fn new(head: &'a Head<'a>, envelope: &'a Envelope) -> Self {
        let name = head.event.as_deref().or(envelope.event.as_deref());
        Self {
            head,
            event: EventName::from(name.unwrap_or_default()),
            at: envelope.at,
            id: envelope.id,
            envelope,
            project: None,
        }
    }

    pub fn in_project(self, project: Option<&'a str>) -> Self {
        Self { project, ..self }
    }

    pub fn mark(&self) -> Mark {
        Mark {
            at: self.at,
            id: self.id,
        }
    }

    /// The subagent that it is of; none for the main agent.
    pub fn agent_id(&self) -> Option<&'a str> {
        bounded(&self.head.agent_id).filter(|id| !id.is_empty())
    }

    pub fn agent_type(&self) -> Option<&'a str> {
        bounded(&self.head.agent_type)
    }

    pub fn tool(&self) -> &'a str {
        bounded(&self.head.tool).unwrap_or("a tool")
    }

    pub fn tool_use_id(&self) -> Option<&'a str> {
        bounded(&self.head.tool_use_id)
    }

    pub fn prompt_id(&self) -> Option<&'a str> {
        bounded(&self.head.prompt_id)
    }

    pub fn server(&self) -> Option<&'a str> {
        bounded(&self.head.mcp_server_name)
    }

    pub fn elicitation_id(&self) -> Option<&'a str> {
        bounded(&self.head.elicitation_id)
    }

    pub fn error(&self) -> Option<&'a str> {
        bounded(&self.head.error)
    }

    /// Why a turn failed. What a rate limit says names the time when it ends.
    pub fn failure(&self) -> String {
        let error = self.error().unwrap_or("unknown");
        let said = bounded(&self.head.last_assistant_message);
        match said.and_then(|said| said.lines().next()) {
            Some(said) if error == RATE_LIMIT => format!("{error}: {said}"),
            _ => error.to_owned(),
        }
    }

    /// Whether no person wrote this prompt.
    pub fn is_machine_made(&self) -> bool {
        is_machine_made(self.head)
    }

    /// How many background tasks it lists.
    pub fn background_tasks(&self) -> Option<u32> {
        let tasks: Vec<IgnoredAny> = serde_json::from_str(self.head.background_tasks?).ok()?;
        Some(tasks.len() as u32)
    }

    /// The ids of the background tasks that it lists.
    pub fn background_ids(&self) -> Option<Vec<String>> {
        let tasks = self.listed()?.into_iter();
        Some(tasks.map(|task| task.id).collect())
    }

    /// Whether a teammate is among them: its id there is another than that of its events.
    pub fn lists_a_teammate(&self) -> bool {
        let tasks = self.listed().unwrap_or_default();
        tasks.iter().any(|task| task.kind == "teammate")
    }

    fn listed(&self) -> Option<Vec<Task>> {
        serde_json::from_str(self.head.background_tasks?).ok()
    }
}
