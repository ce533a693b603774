//! Recorded events.

use std::fs;
use std::ops::{Deref, Index};

use becket_wire::json;
use serde_json::{Map, Value};

use super::registration;
use crate::claude::Home;

/// One recorded event.
#[derive(Debug, Clone)]
pub struct Event {
    pub payload: Value,
    /// The payload as received, byte for byte.
    pub raw: String,
    /// The environment of the hook process, if known.
    pub env: Map<String, Value>,
}

impl Event {
    pub fn new(raw: String) -> Self {
        Self {
            payload: json::lenient(&raw).unwrap_or_default(),
            raw,
            env: Map::new(),
        }
    }

    pub fn name(&self) -> &str {
        self.text("hook_event_name")
    }

    /// Returns a field as text; empty if absent.
    pub fn text(&self, field: &str) -> &str {
        self.payload[field].as_str().unwrap_or_default()
    }
}

impl Index<&str> for Event {
    type Output = Value;

    fn index(&self, field: &str) -> &Value {
        &self.payload[field]
    }
}

/// Events in order of arrival.
#[derive(Debug, Clone, Default)]
pub struct Events(pub Vec<Event>);

impl Deref for Events {
    type Target = [Event];

    fn deref(&self) -> &[Event] {
        &self.0
    }
}

impl Events {
    pub fn names(&self) -> Vec<&str> {
        self.iter().map(Event::name).collect()
    }

    pub fn of(&self, name: &str) -> Vec<&Event> {
        self.iter().filter(|event| event.name() == name).collect()
    }

    /// Returns the events that match: of one agent, one call, one session.
    pub fn that(&self, fits: impl Fn(&Event) -> bool) -> Self {
        Self(self.iter().filter(|event| fits(event)).cloned().collect())
    }

    /// Returns the events of one tool call.
    pub fn of_call(&self, tool_use_id: &str) -> Self {
        self.that(|event| event["tool_use_id"] == tool_use_id)
    }

    /// Returns the only event of this name.
    #[track_caller]
    pub fn only(&self, name: &str) -> &Event {
        let found = self.of(name);
        assert!(found.len() == 1, "not one {name} in {:?}", self.names());
        found[0]
    }

    /// Fails unless events of these names occur in this order, with any others between them.
    #[track_caller]
    pub fn in_order(&self, names: &[&str]) {
        let mut rest = self.names().into_iter();
        for name in names {
            let found = rest.any(|next| next == *name);
            assert!(
                found,
                "no {name} in its place of {names:?} in {:?}",
                self.names()
            );
        }
    }

    #[track_caller]
    pub fn none_of(&self, name: &str) {
        assert!(self.of(name).is_empty(), "{name} in {:?}", self.names());
    }

    /// Returns true if the witness has the same payloads, in any order.
    pub fn agrees(&self, witness: &Self) -> bool {
        let (only_here, only_there) = self.differences(witness);
        only_here.is_empty() && only_there.is_empty()
    }

    /// Fails unless the witness has the same payloads, in any order.
    #[track_caller]
    pub fn same_as(&self, witness: &Self) {
        let (only_here, only_there) = self.differences(witness);
        assert!(
            only_here.is_empty() && only_there.is_empty(),
            "not the same events\nonly here: {only_here:#?}\nonly there: {only_there:#?}",
        );
    }

    /// Returns the payloads that only one of the two has. In print mode Claude Code ends without waiting
    /// for asynchronous hooks, or for the other hooks of a prompt that one of them blocked. A slow witness
    /// may miss those events.
    fn differences<'a>(&'a self, witness: &'a Self) -> (Vec<&'a str>, Vec<&'a str>) {
        let (ours, theirs) = (self.sorted(), witness.sorted());
        let mut only_here = lacking(&theirs, &ours);
        only_here.retain(|raw| !NOT_AWAITED.iter().any(|part| raw.contains(part)));
        (only_here, lacking(&ours, &theirs))
    }

    fn sorted(&self) -> Vec<&str> {
        let mut raw: Vec<&str> = self.iter().map(|event| event.raw.trim()).collect();
        raw.sort_unstable();
        raw
    }
}

/// Parts of the payloads of events whose hooks Claude Code may end early: those that becket registers
/// asynchronously, and the prompts that becket blocks because they are its own commands.
const NOT_AWAITED: [&str; 6] = [
    "\"hook_event_name\":\"InstructionsLoaded\"",
    "\"hook_event_name\":\"DirectoryAdded\"",
    "\"hook_event_name\":\"CwdChanged\"",
    "\"hook_event_name\":\"FileChanged\"",
    "\"hook_event_name\":\"Notification\"",
    "\"hook_event_name\":\"UserPromptSubmit\",\"prompt\":\"/hook:",
];

/// Returns the items of `some` that `all` lacks or has less often; both are sorted.
fn lacking<'a>(all: &[&str], some: &[&'a str]) -> Vec<&'a str> {
    let mut all = all.iter().peekable();
    let missing = some.iter().filter(|raw| {
        while all.next_if(|next| next < raw).is_some() {}
        all.next_if(|next| next == raw).is_none()
    });
    missing.copied().collect()
}

/// Reads the records with this label.
pub(super) fn recorded(home: &Home, label: &str) -> Events {
    let log = fs::read_to_string(registration::log(home)).unwrap_or_default();
    // The last line may still be being written.
    let whole = log.rfind('\n').map_or("", |end| &log[..end]);
    let lines = whole.lines().map(|line| {
        serde_json::from_str::<Value>(line).unwrap_or_else(|e| panic!("read {line:?}: {e}"))
    });
    let ours = lines.filter(|line| line["label"] == label);
    Events(ours.map(|line| of_line(&line)).collect())
}

fn of_line(line: &Value) -> Event {
    let mut event = Event::new(line["payload"].as_str().unwrap_or_default().to_owned());
    event.env = line["env"].as_object().cloned().unwrap_or_default();
    event
}
