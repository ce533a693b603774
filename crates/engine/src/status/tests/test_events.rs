//! Events written as one line each, for tests: `PreToolUse tool_name=Bash tool_use_id=t1`.

use std::collections::BTreeMap;

use becket_wire::rpc::Envelope;
use becket_wire::session::Status;
use becket_wire::{EventId, Head, Version};
use serde_json::{Map, Value};

use crate::status::SessionEvent;

/// A test event: payload and envelope.
#[derive(Debug, Clone)]
pub(crate) struct TestEvent {
    pub(crate) payload: Vec<u8>,
    pub(crate) envelope: Envelope,
}

impl TestEvent {
    /// Reads `EVENT key=value …`. Values may be JSON. `unattended` has no value.
    pub(crate) fn new(text: &str, at: i64) -> Self {
        let mut words = text.split(' ');
        let mut object = Map::new();
        object.insert("hook_event_name".into(), words.next().unwrap().into());
        let mut line = Self::of_payload(Vec::new(), at);
        for word in words {
            match word.split_once('=') {
                None if word == "unattended" => {
                    line.set("CLAUDE_CODE_SESSION_ATTENDED", "0");
                }
                None => panic!("what is {word:?} in {text:?}?"),
                Some((key, value)) => {
                    let json = serde_json::from_str(value);
                    object.insert(key.into(), json.unwrap_or_else(|_| Value::from(value)));
                }
            }
        }
        line.payload = serde_json::to_vec(&object).unwrap();
        line
    }

    pub(crate) fn of_payload(payload: Vec<u8>, at: i64) -> Self {
        Self {
            payload,
            envelope: Envelope {
                id: EventId::new(at, [0; 2]),
                at,
                version: Version::current(),
                event: None,
                from: None,
                home: String::new(),
                pid: 7,
                pid_start: Some(70),
                pid_is_claude: true,
                pid_parent: None,
                variables: BTreeMap::new(),
                cut: None,
            },
        }
    }

    pub(crate) fn set(&mut self, name: &str, value: &str) {
        let variables = &mut self.envelope.variables;
        variables.insert(name.to_owned(), value.to_owned());
    }

    pub(crate) fn play<T>(&self, then: impl FnOnce(&SessionEvent<'_>) -> T) -> T {
        let head = Head::read(&self.payload).unwrap();
        then(&SessionEvent::new(&head, &self.envelope))
    }
}

/// Formats a status in one word: `working(Bash)`.
pub(crate) fn word(status: &Status) -> String {
    match status.detail().or(status.reason()) {
        Some(more) => format!("{}({more})", status.word()),
        None => status.word().to_owned(),
    }
}
