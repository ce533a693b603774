//! An agent that wants to stop while hooks judge whether it may.

use becket_engine::notice::Change;
use becket_wire::EventId;

use super::{Applied, Registry};
use crate::store::{LetThrough, Record};

impl Registry {
    /// They judge it: until they have, it works.
    pub(crate) fn stop_judged(&mut self, applied: &mut Applied, record: &Record) {
        if let Some(live) = self.sessions.get_mut(&applied.session)
            && record.is_stop()
        {
            let (agent, stop) = (record.agent_id(), record.id());
            applied.changed |= live.session.stop_judged(agent, stop, applied.at);
        }
    }

    /// They let it.
    pub(crate) fn stop_let_through(&mut self, applied: &mut Applied, stop: EventId) {
        if let Some(live) = self.sessions.get_mut(&applied.session) {
            applied.changed |= live.session.stop_let_through(stop, applied.at);
        }
    }

    /// The same where that is known later. Gives whether it is news, and what the person may want to
    /// know of it.
    pub(crate) fn stop_was_let_through(&mut self, through: &LetThrough) -> (bool, Option<Change>) {
        let Some(live) = self.sessions.get_mut(&through.session) else {
            return (false, None);
        };
        let before = live.session.shown();
        let news = live.session.stop_let_through(through.stop, through.at);
        // The main agent goes on with what a subagent brought.
        let is_told = through.alone && through.main;
        let change = is_told.then(|| Change::of(before, &live.session, through.let_at));
        (news, change.flatten())
    }
}
