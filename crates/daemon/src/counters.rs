//! Counters of errors and of exceeded limits, and troubles in words. `becket doctor` shows them.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use becket_wire::rpc::Counts;

#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// One counter for each field of [`Counts`], and the troubles in words.
#[derive(Debug, Default)]
pub struct Counters {
    pub busy: Counter,
    pub strangers: Counter,
    pub refused: Counter,
    pub garbage: Counter,
    pub late: Counter,
    pub to_spool: Counter,
    pub runs_lost: Counter,
    pub taken_in: Counter,
    pub spool_bad: Counter,
    pub duplicates: Counter,
    pub tmux_failed: Counter,
    troubles: Mutex<Vec<String>>,
    config_troubles: Mutex<Vec<String>>,
    notice_trouble: Mutex<Option<String>>,
}

/// The number of troubles that are kept: more than a person would read.
const MAX_TROUBLES: usize = 20;

impl Counters {
    /// Returns all counts. `lost` is the number of lost events, which outlives the daemon.
    pub fn counts(&self, lost: u64) -> Counts {
        Counts {
            busy: self.busy.get(),
            strangers: self.strangers.get(),
            refused: self.refused.get(),
            garbage: self.garbage.get(),
            late: self.late.get(),
            to_spool: self.to_spool.get(),
            lost,
            runs_lost: self.runs_lost.get(),
            taken_in: self.taken_in.get(),
            spool_bad: self.spool_bad.get(),
            duplicates: self.duplicates.get(),
            tmux_failed: self.tmux_failed.get(),
        }
    }

    /// Adds a trouble that the user should know of.
    pub fn add_trouble(&self, what: String) {
        if let Ok(mut troubles) = self.troubles.lock()
            && troubles.len() < MAX_TROUBLES
        {
            troubles.push(what);
        }
    }

    /// Replaces the problems of the config: the user may fix them at any time.
    pub fn set_config_troubles(&self, now: Vec<String>) {
        if let Ok(mut troubles) = self.config_troubles.lock() {
            *troubles = now;
        }
    }

    /// Replaces the trouble of the last notice; none if it succeeded.
    pub fn set_notice_trouble(&self, now: Option<String>) {
        if let Ok(mut trouble) = self.notice_trouble.lock() {
            *trouble = now;
        }
    }

    pub fn troubles(&self) -> Vec<String> {
        let mut troubles = self.own_troubles();
        troubles.extend(all(&self.config_troubles));
        let of_notice = self.notice_trouble.lock();
        troubles.extend(of_notice.ok().and_then(|trouble| trouble.clone()));
        troubles
    }

    /// Returns the troubles that are neither the config's nor the notices'.
    pub fn own_troubles(&self) -> Vec<String> {
        all(&self.troubles)
    }
}

fn all(troubles: &Mutex<Vec<String>>) -> Vec<String> {
    troubles.lock().map(|list| list.clone()).unwrap_or_default()
}
