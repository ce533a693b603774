//! What onlookers see: each event once, and with its decision, if that comes in time.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use becket_wire::EventId;
use becket_wire::rpc::EventQuery;
use tracing::warn;

use super::super::super::read;
use super::super::super::record::Record;
use super::WriterThread;

/// So long an event waits for its decision, if its hooks run without a daemon: whoever runs them may
/// have been killed.
const PATIENCE_MS: i64 = 60_000;

/// The events that are in the log, and not shown yet.
#[derive(Debug, Default)]
pub(super) struct Unshown {
    /// Their hooks run here: they will be decided.
    held: HashSet<i64>,
    /// Their hooks run without a daemon: which event it is, and of when.
    elsewhere: HashMap<i64, (EventId, i64)>,
}

impl Unshown {
    pub(super) fn numbers(&self) -> HashSet<i64> {
        self.held
            .iter()
            .chain(self.elsewhere.keys())
            .copied()
            .collect()
    }

    /// Those that have waited long enough, in their order.
    fn overdue(&self, now_ms: i64) -> Vec<i64> {
        let all = self.elsewhere.iter();
        let overdue = all.filter(|(_, (_, at))| !waits(*at, now_ms));
        let mut overdue: Vec<i64> = overdue.map(|(seq, _)| *seq).collect();
        overdue.sort_unstable();
        overdue
    }
}

/// Whether an event of that time may still be decided. One from the future would wait for ever.
fn waits(at: i64, now_ms: i64) -> bool {
    (now_ms - at).abs() < PATIENCE_MS
}

impl WriterThread {
    /// One whose hooks run is shown when they have.
    pub(super) fn show(&mut self, record: &Record, is_new: bool) {
        if record.held {
            if is_new {
                self.unshown.held.insert(record.seq);
            }
            return;
        }
        let was_held = record.decided && self.unshown.held.remove(&record.seq);
        if is_new || was_held {
            self.tell(record);
        }
    }

    /// Shows what came by the spool, except for what will be decided, and what was decided now.
    pub(super) fn show_taken_in(&mut self, new: &[Record], decided: &[i64]) {
        for record in new {
            let at = record.envelope().at;
            // Before the first tick nobody knows the time.
            if record.held && (self.now_ms == 0 || waits(at, self.now_ms)) {
                self.unshown.elsewhere.insert(record.seq, (record.id(), at));
            } else {
                self.tell(record);
            }
        }
        for seq in decided {
            self.show_late(*seq);
        }
    }

    /// Shows undecided what was not decided in time.
    pub(super) fn show_overdue(&mut self) {
        for seq in self.unshown.overdue(self.now_ms) {
            self.show_late(seq);
        }
    }

    /// Shows an event as the log has it now.
    fn show_late(&mut self, seq: i64) {
        let Some((id, _)) = self.unshown.elsewhere.remove(&seq) else {
            return;
        };
        if self.feed.receiver_count() == 0 {
            return;
        }
        let query = EventQuery {
            id: Some(id),
            duplicates: true,
            ..EventQuery::default()
        };
        let feed = &self.feed;
        let shown = read::find(&self.connection, &query, &mut |row| {
            drop(feed.send(Arc::new(row)));
            true
        });
        if let Err(why) = shown {
            warn!(%why, "could not read an event that was decided");
        }
    }

    fn tell(&self, record: &Record) {
        if self.feed.receiver_count() > 0 {
            drop(self.feed.send(Arc::new(record.to_row())));
        }
    }
}
