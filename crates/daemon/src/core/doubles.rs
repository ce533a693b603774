//! Double registrations: Claude Code sends one event through settings.json and through the plugin, say.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, Instant};

use becket_wire::Head;
use becket_wire::rpc::Envelope;

/// The time within which the same event from another registration is a double.
const WITHIN: Duration = Duration::from_secs(5);
/// The number of events that are remembered.
const REMEMBERED: usize = 1024;

/// The events of the last seconds, to find one that comes again.
#[derive(Debug, Default)]
pub(super) struct Doubles {
    seen: HashMap<u64, SeenEvent>,
    order: VecDeque<u64>,
}

#[derive(Debug)]
struct SeenEvent {
    from: Option<String>,
    seq: i64,
    at: Instant,
}

impl Doubles {
    /// Returns the number of the event that this one repeats; else remembers this one.
    pub(super) fn find(
        &mut self,
        envelope: &Envelope,
        payload: &[u8],
        head: &Head<'_>,
        seq: i64,
        at: Instant,
    ) -> Option<i64> {
        let from = envelope.from.as_deref();
        let mut hasher = DefaultHasher::new();
        let call = head.tool_use_id.as_ref().or(head.prompt_id.as_ref());
        (&head.session_id, &head.agent_id, &head.event, call, payload).hash(&mut hasher);
        let key = hasher.finish();
        // Two deliveries from one registration are never doubles.
        if let Some(seen) = self.seen.get(&key)
            && seen.from.as_deref() != from
            && at.duration_since(seen.at) < WITHIN
        {
            return Some(seen.seq);
        }
        if self.order.len() >= REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.seen.remove(&oldest);
        }
        let seen = SeenEvent {
            from: envelope.from.clone(),
            seq,
            at,
        };
        if self.seen.insert(key, seen).is_none() {
            self.order.push_back(key);
        }
        None
    }
}
