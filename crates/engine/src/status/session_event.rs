//! One event as the status rules see it.

use std::borrow::Cow;

use becket_wire::event::EventName;
use becket_wire::rpc::Envelope;
use becket_wire::{EventId, Head};
use serde::{Deserialize, Serialize};

/// The error of a turn that ran into a rate limit.
const RATE_LIMIT: &str = "rate_limit";

/// One event with its envelope. Head and envelope are borrowed: a copy is made only of what changes the status.
#[derive(Debug, Clone)]
pub struct SessionEvent<'a> {
    pub head: &'a Head<'a>,
    pub name: EventName,
    /// The time of the event: milliseconds since 1970.
    pub at: i64,
    pub id: EventId,
    pub envelope: &'a Envelope,
    /// The project of the event, if it was looked up.
    pub project: Option<&'a str>,
}

/// The order of events: by time, then by id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct EventTime {
    pub at: i64,
    pub id: EventId,
}

impl EventTime {
    /// Makes a mark that is older than every event of that millisecond.
    pub(super) fn before_all_of(at: i64) -> Self {
        Self {
            at,
            id: EventId::from_bytes([0; 16]),
        }
    }
}

/// Returns true if Claude Code itself wrote the prompt of this event.
pub fn is_machine_made(head: &Head<'_>) -> bool {
    let source = head.source.as_deref().unwrap_or_default();
    let prompt = head.prompt.as_deref().unwrap_or_default().trim_start();
    matches!(
        source,
        "system" | "loop_wakeup" | "schedule_wakeup" | "poll_event"
    ) || MACHINE_MADE.iter().any(|mark| prompt.starts_with(mark))
}

/// The starts of prompts that Claude Code itself writes.
const MACHINE_MADE: [&str; 6] = [
    "<task-notification",
    "<system-reminder",
    "<teammate-message",
    "<local-command-",
    "<bash-stdout",
    "<bash-stderr",
];

/// The longest name or id that is kept. Longer ones are cut.
const MAX_NAME: usize = 256;

fn bounded<'a>(text: &'a Option<Cow<'_, str>>) -> Option<&'a str> {
    text.as_deref().map(cut)
}

pub(super) fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_NAME)]
}

/// A background task in the list of an event.
#[derive(Deserialize)]
struct Task {
    #[serde(default)]
    id: String,
    #[serde(default, rename = "type")]
    kind: String,
}

impl<'a> SessionEvent<'a> {
    /// Makes the event. Its name is that in the payload, else that of the registration.
    pub fn new(head: &'a Head<'a>, envelope: &'a Envelope) -> Self {
        let name = head.event.as_deref().or(envelope.event.as_deref());
        Self {
            head,
            name: EventName::from(name.unwrap_or_default()),
            at: envelope.at,
            id: envelope.id,
            envelope,
            project: None,
        }
    }

    pub fn in_project(self, project: Option<&'a str>) -> Self {
        Self { project, ..self }
    }

    pub fn time(&self) -> EventTime {
        EventTime {
            at: self.at,
            id: self.id,
        }
    }

    /// Returns the subagent of the event; none for the main agent.
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

    /// Returns the reason why a turn failed. The message of a rate limit names the time when it ends.
    pub fn failure(&self) -> String {
        let error = self.error().unwrap_or("unknown");
        let said = bounded(&self.head.last_assistant_message);
        match said.and_then(|said| said.lines().next()) {
            Some(said) if error == RATE_LIMIT => format!("{error}: {said}"),
            _ => error.to_owned(),
        }
    }

    /// Returns the number of listed background tasks.
    pub fn background_tasks(&self) -> Option<u32> {
        Some(self.listed()?.len() as u32)
    }

    /// Returns the ids of the listed background tasks.
    pub fn background_ids(&self) -> Option<Vec<String>> {
        let tasks = self.listed()?.into_iter();
        Some(tasks.map(|task| task.id).collect())
    }

    /// Returns true if a teammate is listed. Its id in the list differs from that in its events.
    pub fn lists_a_teammate(&self) -> bool {
        let tasks = self.listed().unwrap_or_default();
        tasks.iter().any(|task| task.kind == "teammate")
    }

    fn listed(&self) -> Option<Vec<Task>> {
        serde_json::from_str(self.head.background_tasks?).ok()
    }
}
