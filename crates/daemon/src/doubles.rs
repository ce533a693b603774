//! Double registrations: the same event, from settings.json and from the plugin, say.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, Instant};

use becket_wire::Head;
use becket_wire::rpc::Envelope;

/// Within this time the same event from another registration is a double.
const DOUBLE: Duration = Duration::from_secs(5);
/// How many events are remembered to find doubles.
const REMEMBERED: usize = 1024;

/// The events of the last seconds, to know one that comes again from another registration.
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
    /// The event that this one repeats. Two deliveries from one source are never doubles.
    pub(crate) fn find(
        &mut self,
        envelope: &Envelope,
        payload: &[u8],
        head: Option<&Head<'_>>,
        seq: i64,
        at: Instant,
    ) -> Option<i64> {
        let head = head?;
        let call = head.tool_use_id.as_deref().or(head.prompt_id.as_deref());
        let mut hasher = DefaultHasher::new();
        (
            head.session_id.as_deref(),
            head.agent_id.as_deref(),
            head.event.as_deref(),
            call,
            payload,
        )
            .hash(&mut hasher);
        let key = hasher.finish();
        if let Some(seen) = self.seen.get(&key)
            && seen.from != envelope.from
            && at.duration_since(seen.at) < DOUBLE
        {
            return Some(seen.seq);
        }
        if self.order.len() >= REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.seen.remove(&oldest);
        }
        if self
            .seen
            .insert(
                key,
                Seen {
                    from: envelope.from.clone(),
                    seq,
                    at,
                },
            )
            .is_none()
        {
            self.order.push_back(key);
        }
        None
    }
}
