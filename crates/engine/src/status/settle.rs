//! What a person sees of an agent, out of what it does and what they are asked.

use becket_wire::session::Status;

use super::Agent;

impl Agent {
    /// The one status: the oldest question, else what the agent does.
    pub(super) fn settle(&mut self, at: i64) -> bool {
        let (status, since) = match self.asks.all().first() {
            Some(first) => {
                let reason = first.reason();
                (Status::Attention { reason }, first.at)
            }
            None if self.beneath == self.status => return false,
            None if self.beneath.word() == self.status.word() && self.status.reason().is_none() => {
                (self.beneath.clone(), self.since)
            }
            None => (self.beneath.clone(), at),
        };
        let changed = status != self.status || since != self.since;
        self.status = status;
        self.since = since;
        changed
    }

    /// What else a person can see.
    pub(super) fn aside(&self) -> (Option<String>, [u32; 2], [bool; 3]) {
        (
            self.error.clone(),
            [self.failed_tools, self.background_tasks],
            [self.interrupted, self.seen, self.inferred],
        )
    }
}
