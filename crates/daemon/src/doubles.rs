//! Double registrations: the same event from settings.json and from the plugin, say. The events of
//! the last seconds are remembered to know one that comes again.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, Instant};

use becket_wire::Head;
use becket_wire::rpc::Envelope;

/// Within this time the same event from another registration is a double.
const WITHIN: Duration = Duration::from_secs(5);
/// How many events are remembered to find doubles.
const REMEMBERED: usize = 1024;

#[derive(Debug, Default)]
pub(crate) struct Doubles {
    seen: HashMap<u64, Seen>,
    order: VecDeque<u64>,
}

#[derive(Debug)]
struct Seen {
    from: Option<String>,
    seq: i64,
    at: Instant,
}

impl Doubles {
    /// The event that this one repeats.
    pub(crate) fn find(
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
        let seen = Seen {
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
