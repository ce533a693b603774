//! What no event says of an agent.

use becket_wire::EventId;

use super::moment::cut;
use super::{Agent, Mark, THINKING};

impl Agent {
    /// It rests, becket itself knows it (`inferred` false) or has it from elsewhere.
    pub fn rests(&mut self, at: i64, inferred: bool) -> bool {
        self.rest();
        self.conclude(at, inferred)
    }

    /// A turn began without a word.
    pub fn began(&mut self, at: i64) -> bool {
        self.work(None);
        self.conclude(at, true)
    }

    /// becket's own hooks judge whether it may stop by this event: until they have, it works.
    pub fn is_judged(&mut self, stop: EventId, at: i64) -> bool {
        self.work(Some(THINKING));
        self.judged = Some(stop);
        self.conclude(at, false)
    }

    /// Whether it has done nothing since it wanted to stop by this event, and was judged.
    pub fn awaits(&self, stop: EventId) -> bool {
        self.judged == Some(stop)
    }

    /// Whether it wants to stop, and nobody has said yet whether it may.
    pub fn wants_to_stop(&self) -> bool {
        self.judged.is_some()
    }

    /// They let it. Whatever is asked was asked since, because the stop itself had ended all else.
    pub fn is_let_stop(&mut self, at: i64) -> bool {
        let asks = std::mem::take(&mut self.asks);
        self.rest();
        self.asks = asks;
        self.conclude(at, false)
    }

    /// One of its subagents turns out to work on, or to have ended: news only for one that works.
    pub fn child_turns(&mut self, agent_type: Option<&str>, at: i64) -> bool {
        self.status.word() == "working" && self.may_infer(at) && {
            self.set_working(agent_type.or(Some(THINKING)));
            self.conclude(at, false)
        }
    }

    /// The person broke the turn off. An agent that is judged wanted to stop: that it rests shows only
    /// that it was let, before anybody said so.
    pub fn was_interrupted(&mut self, at: i64) -> bool {
        self.interrupted = !self.wants_to_stop();
        self.rests(at, true)
    }

    /// The turn ended without a word.
    pub fn died(&mut self, error: Option<&str>, at: i64) -> bool {
        self.error = error
            .map(|error| cut(error).to_owned())
            .or(self.error.take());
        self.rests(at, true)
    }

    /// What was asked for one call, or everything that was asked by then, is answered.
    pub fn was_answered(&mut self, tool_use_id: Option<&str>, at: i64) -> bool {
        self.asks.answered(tool_use_id, at) && {
            if self.beneath.reason().is_some() {
                self.set_working(Some(THINKING));
            }
            self.conclude(at, true)
        }
    }

    /// Whether what was inferred for that time is still news.
    pub fn may_infer(&self, at: i64) -> bool {
        self.last.is_none_or(|last| at >= last.at)
    }

    /// Whatever seems to have happened later than now counts as past: the clock was set back.
    pub fn nothing_after(&mut self, now: Mark) {
        if self.is_past(now) {
            self.last = Some(Mark::before_all_of(now.at));
        }
        self.since = self.since.min(now.at);
        self.asks.nothing_after(now.at);
    }

    fn conclude(&mut self, at: i64, inferred: bool) -> bool {
        self.last = self.last.max(Some(Mark::before_all_of(at)));
        self.inferred = inferred;
        self.settle(at)
    }

    /// Whether it waits for a subagent that runs within its turn, and since when.
    pub fn runs_subagents_since(&self) -> Option<i64> {
        self.calls.subagents_since()
    }
}
