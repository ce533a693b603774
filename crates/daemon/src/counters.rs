//! Counters of errors and of exceeded limits, and troubles in words. `becket doctor` shows them.

use std::sync::{Mutex, MutexGuard, PoisonError};

use becket_wire::rpc::Counts;

/// The counts and the troubles of a daemon.
#[derive(Debug, Default)]
pub struct Counters(Mutex<CountersState>);

#[derive(Debug, Default)]
struct CountersState {
    /// All counts but `lost`, which outlives the daemon.
    counts: Counts,
    troubles: Vec<String>,
    config_troubles: Vec<String>,
    notice_trouble: Option<String>,
}

/// The number of troubles that are kept: more than a person would read.
const MAX_TROUBLES: usize = 20;

impl Counters {
    /// Changes the counts.
    pub fn count(&self, change: impl FnOnce(&mut Counts)) {
        change(&mut self.lock().counts);
    }

    pub fn counts(&self) -> Counts {
        self.lock().counts
    }

    /// Adds a trouble that the user should know of.
    pub fn add_trouble(&self, what: String) {
        let mut state = self.lock();
        if state.troubles.len() < MAX_TROUBLES {
            state.troubles.push(what);
        }
    }

    /// Replaces the problems of the config: the user may fix them at any time.
    pub fn set_config_troubles(&self, now: Vec<String>) {
        self.lock().config_troubles = now;
    }

    /// Replaces the trouble of the last notice; none if it succeeded.
    pub fn set_notice_trouble(&self, now: Option<String>) {
        self.lock().notice_trouble = now;
    }

    pub fn troubles(&self) -> Vec<String> {
        let state = self.lock();
        let lists = state.troubles.iter().chain(&state.config_troubles);
        lists.chain(&state.notice_trouble).cloned().collect()
    }

    /// Returns the troubles that are neither the config's nor the notices'.
    pub fn own_troubles(&self) -> Vec<String> {
        self.lock().troubles.clone()
    }

    fn lock(&self) -> MutexGuard<'_, CountersState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
