//! The number of events whose hooks may run at once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The number of events whose hooks run at once. More have to wait.
const AT_ONCE: usize = 64;
/// The number of events of one session whose hooks run at once.
const PER_SESSION: usize = 16;
/// The time that an event waits for a slot. After that it is judged without its hooks.
pub(super) const SLOT_WAIT: Duration = Duration::from_secs(5);

/// The slots for events whose hooks run.
#[derive(Debug)]
pub(super) struct HookSlots {
    all: Arc<Semaphore>,
    /// The slots of each session that has or wants one.
    sessions: Mutex<HashMap<String, Weak<Semaphore>>>,
    wait: Duration,
}

/// One slot, until it is dropped.
pub(crate) type HookSlot = (OwnedSemaphorePermit, OwnedSemaphorePermit);

impl HookSlots {
    pub(super) fn new(wait: Duration) -> Self {
        Self {
            all: Arc::new(Semaphore::new(AT_ONCE)),
            sessions: Mutex::default(),
            wait,
        }
    }

    /// Takes a slot. Returns none if none gets free in time.
    pub(super) async fn take(&self, session: &str) -> Option<HookSlot> {
        let own = self.session_slots(session);
        let both = async {
            let own = own.acquire_owned().await.ok()?;
            Some((own, Arc::clone(&self.all).acquire_owned().await.ok()?))
        };
        tokio::time::timeout(self.wait, both).await.ok()?
    }

    fn session_slots(&self, session: &str) -> Arc<Semaphore> {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|_, slots| slots.strong_count() > 0);
        if let Some(slots) = sessions.get(session).and_then(Weak::upgrade) {
            return slots;
        }
        let slots = Arc::new(Semaphore::new(PER_SESSION));
        sessions.insert(session.to_owned(), Arc::downgrade(&slots));
        slots
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_session_takes_no_more_than_its_slots_and_waits_within_a_bound() {
        let slots = HookSlots::new(Duration::from_millis(50));
        let mut taken = Vec::new();
        for _ in 0..PER_SESSION {
            taken.push(slots.take("a").await.expect("a slot"));
        }
        assert!(slots.take("a").await.is_none());
        for session in ["b", "c", "d"] {
            for _ in 0..PER_SESSION {
                taken.push(slots.take(session).await.expect("a slot"));
            }
        }
        assert!(slots.take("e").await.is_none(), "all are taken");
        taken.clear();
        assert!(slots.take("a").await.is_some());
        assert!(slots.take("e").await.is_some());
        assert_eq!(
            slots.sessions.lock().unwrap().len(),
            1,
            "no others are kept"
        );
    }
}
