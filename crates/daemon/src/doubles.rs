//! The events of the last seconds, to know one that comes again from another registration.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Instant;

use becket_engine::doubles::{Delivery, is_double};
use becket_wire::Head;
use becket_wire::rpc::Envelope;

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
        head: Option<&Head<'_>>,
        seq: i64,
        at: Instant,
    ) -> Option<i64> {
        let from = envelope.from.as_deref();
        // Its name would cost ten times as much, and nobody else has to know it.
        let mut hasher = DefaultHasher::new();
        Delivery::new(head?, payload).hash(&mut hasher);
        let key = hasher.finish();
        if let Some(seen) = self.seen.get(&key)
            && is_double(seen.from.as_deref(), from, at.duration_since(seen.at))
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
