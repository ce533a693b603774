//! The switches of all sessions at hand, for who asks at every event: one stat if nothing changed.

use std::collections::HashMap;
use std::fs;
use std::sync::Arc;

use becket_wire::Place;

use super::{Read, Switches, path};
use crate::stamp::{Seen, is_settled};

/// So many sessions are remembered; who asked longest ago goes first, and is read again.
const MAX_SESSIONS: usize = 1024;

#[derive(Debug)]
struct Known {
    seen: Seen,
    /// The stamp can be relied on.
    settled: bool,
    switches: Arc<Switches>,
    trouble: Option<String>,
    asked: u64,
}

/// The switches of the sessions that were asked for.
#[derive(Debug)]
pub struct SwitchBoard {
    place: Place,
    known: HashMap<String, Known>,
    asked: u64,
    nothing_off: Arc<Switches>,
}

impl SwitchBoard {
    pub fn new(place: &Place) -> Self {
        Self {
            place: place.clone(),
            known: HashMap::new(),
            asked: 0,
            nothing_off: Arc::default(),
        }
    }

    /// A session's switches as its file has them now.
    pub fn of(&mut self, session: &str) -> Arc<Switches> {
        let Some(path) = path(&self.place, session) else {
            return Arc::clone(&self.nothing_off);
        };
        self.asked += 1;
        let metadata = fs::metadata(path);
        let seen = Seen::of(&metadata);
        if let Some(known) = self.known.get_mut(session)
            && known.settled
            && known.seen == seen
        {
            known.asked = self.asked;
            return Arc::clone(&known.switches);
        }
        let Read { switches, trouble } = match seen {
            Seen::Absent => Read::default(),
            _ => Switches::read(&self.place, session),
        };
        let switches = Arc::new(switches);
        let known = Known {
            seen,
            settled: metadata.as_ref().map_or(true, is_settled),
            switches: Arc::clone(&switches),
            trouble,
            asked: self.asked,
        };
        self.make_room(session);
        self.known.insert(session.to_owned(), known);
        switches
    }

    /// Why the file counts as empty, as of the last time that somebody asked for its switches.
    pub fn trouble(&self, session: &str) -> Option<&str> {
        self.known.get(session)?.trouble.as_deref()
    }

    fn make_room(&mut self, session: &str) {
        if self.known.len() < MAX_SESSIONS || self.known.contains_key(session) {
            return;
        }
        let oldest = self.known.iter().min_by_key(|(_, known)| known.asked);
        if let Some(oldest) = oldest.map(|(session, _)| session.clone()) {
            self.known.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{disable, enable};
    use super::*;
    use crate::stamp::tests::{quickly, settle};

    #[test]
    fn it_knows_what_changed_and_forgets_what_is_gone() {
        let home = tempfile::tempdir().unwrap();
        let place = Place::new(home.path());
        let session = "77850d98-4378-4282-9d8f-d2b7113deb20";
        let mut board = SwitchBoard::new(&place);
        assert!(board.of(session).disabled().is_empty());
        // Quick changes of the same length, in one tick of the clock.
        for _ in 0..20 {
            disable(&place, session, "a", home.path()).unwrap();
            assert!(board.of(session).is_off("a") && !board.of(session).is_off("b"));
            disable(&place, session, "b", home.path()).unwrap();
            enable(&place, session, "a", home.path()).unwrap();
            assert!(board.of(session).is_off("b") && !board.of(session).is_off("a"));
            enable(&place, session, "b", home.path()).unwrap();
        }
        let path = path(&place, session).unwrap();
        fs::write(&path, "{").unwrap();
        assert!(board.of(session).disabled().is_empty());
        assert!(board.trouble(session).unwrap().contains("not JSON"));
        fs::remove_file(&path).unwrap();
        assert!(board.of(session).disabled().is_empty());
        assert_eq!(board.trouble(session), None);
        assert!(board.of("no-uuid").disabled().is_empty());
    }

    #[test]
    fn an_unchanged_file_is_not_read_again() {
        let home = tempfile::tempdir().unwrap();
        let place = Place::new(home.path());
        let session = "77850d98-4378-4282-9d8f-d2b7113deb20";
        disable(&place, session, "a", home.path()).unwrap();
        let path = path(&place, session).unwrap();
        settle(&path);
        let mut board = SwitchBoard::new(&place);
        let first = board.of(session);
        assert!(Arc::ptr_eq(&first, &board.of(session)));
        // What was written a moment ago may be written again without a new time.
        let (first, second) = quickly(|| {
            disable(&place, session, "b", home.path()).unwrap();
            enable(&place, session, "b", home.path()).unwrap();
            (board.of(session), board.of(session))
        });
        assert!(!Arc::ptr_eq(&first, &second));
    }

    #[test]
    fn it_is_bounded_and_keeps_who_asks() {
        let home = tempfile::tempdir().unwrap();
        let mut board = SwitchBoard::new(&Place::new(home.path()));
        let session = |number: usize| format!("00000000-0000-0000-0000-{number:012x}");
        for number in 0..MAX_SESSIONS + 10 {
            board.of(&session(number));
            board.of(&session(0));
        }
        assert_eq!(board.known.len(), MAX_SESSIONS);
        assert!(board.known.contains_key(&session(0)));
        assert!(!board.known.contains_key(&session(1)));
    }
}
