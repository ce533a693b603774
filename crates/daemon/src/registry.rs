//! The live sessions, owned by the dispatcher alone.

use std::collections::HashMap;

use becket_wire::Head;
use becket_wire::event::EventName;
use becket_wire::session::Figures;

/// More sessions than this are not remembered; their events are kept all the same.
const MAX_SESSIONS: usize = 10_000;

#[derive(Debug, Default)]
pub(crate) struct Registry {
    sessions: HashMap<String, Session>,
}

#[derive(Debug, Default)]
struct Session {
    /// The state of the config that this session's person was told of.
    told: Option<u64>,
}

impl Registry {
    /// Applies one event, in order of arrival.
    pub(crate) fn apply(&mut self, head: &Head<'_>) {
        let (Some(id), Some(event)) = (head.session_id.as_deref(), head.event.as_deref()) else {
            return;
        };
        if event == "SessionEnd" {
            self.sessions.remove(id);
        } else if matches!(EventName::from(event), EventName::Other(_)) {
            // Unknown is normal, and changes nothing.
        } else if !self.sessions.contains_key(id) && self.sessions.len() < MAX_SESSIONS {
            self.sessions.insert(id.to_owned(), Session::default());
        }
    }

    /// STUB: what the status line says of a session. A session that is not known stays unknown.
    pub(crate) fn figures(&mut self, _id: &str, _figures: &Figures) {}

    /// STUB: how many sessions but this one need the person.
    pub(crate) fn waiting_besides(&self, _id: &str) -> usize {
        0
    }

    pub(crate) fn len(&self) -> u64 {
        self.sessions.len() as u64
    }

    /// Whether this session's person knows of this state of the config.
    pub(crate) fn was_told(&self, id: &str, generation: u64) -> bool {
        self.sessions
            .get(id)
            .is_some_and(|session| session.told == Some(generation))
    }

    pub(crate) fn tell(&mut self, id: &str, generation: u64) {
        if let Some(session) = self.sessions.get_mut(id) {
            session.told = Some(generation);
        }
    }
}
