//! Double registrations: the same event, from settings.json and from the plugin, say. The rule is the
//! daemon's and that of processes without one, which find each other by marks.

pub mod mark;

use std::time::Duration;

use becket_wire::Head;
use sha2::{Digest, Sha256};

/// Within this time the same event from another registration is a double.
pub const WITHIN: Duration = Duration::from_secs(5);

/// What two deliveries of one event have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Delivery<'a> {
    session: Option<&'a str>,
    agent: Option<&'a str>,
    event: Option<&'a str>,
    /// The `tool_use_id`, else the `prompt_id`.
    call: Option<&'a str>,
    payload: &'a [u8],
}

impl<'a> Delivery<'a> {
    pub fn new(head: &'a Head<'_>, payload: &'a [u8]) -> Self {
        Self {
            session: head.session_id.as_deref(),
            agent: head.agent_id.as_deref(),
            event: head.event.as_deref(),
            call: head.tool_use_id.as_deref().or(head.prompt_id.as_deref()),
            payload,
        }
    }

    /// The name that every process gives it.
    fn name(&self) -> String {
        let mut hash = Sha256::new();
        for part in [self.session, self.agent, self.event, self.call] {
            hash.update([u8::from(part.is_some())]);
            let text = part.unwrap_or_default();
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text);
        }
        hash.update(self.payload);
        hex(&hash.finalize())
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether what comes from there so long after the same event is its double. Two deliveries from one
/// source are never doubles.
pub fn is_double(first: Option<&str>, from: Option<&str>, after: Duration) -> bool {
    first != from && after < WITHIN
}
