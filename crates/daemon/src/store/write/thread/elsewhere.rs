//! What the database does not take: it goes to the spool, else it waits in memory, else it is only
//! counted.

use std::collections::VecDeque;

use becket_engine::hooks::kept;
use becket_wire::run::RunRow;
use tracing::{error, info, warn};

use super::super::super::record::Record;
use super::super::super::run;
use super::super::super::spool::{self, Left};
use super::WriterThread;

/// What is kept in memory when neither database nor spool takes it.
const MEMORY_BYTES: usize = 8 << 20;
/// The same of runs that ended after their event was answered: no file of the spool can hold them.
const MEMORY_RUNS: usize = 4096;

#[derive(Debug, Default)]
pub(super) struct Memory {
    events: VecDeque<Record>,
    bytes: usize,
    runs: Vec<RunRow>,
}

impl WriterThread {
    /// Not into the database: then into the spool, else into memory, else only counted.
    pub(super) fn keep_elsewhere(&mut self, record: &Record) {
        if self.leave(record) {
            self.counters.to_spool.add(1);
        } else if self.memory.bytes + record.weight() <= MEMORY_BYTES {
            self.memory.bytes += record.weight();
            self.memory.events.push_back(record.clone());
        } else {
            // One that is decided was kept, or counted, before.
            self.counters.lost.add(u64::from(!record.decided));
            self.counters.runs_lost.add(record.runs.len() as u64);
        }
        let waiting = self.memory.events.len() as u64;
        self.counters.in_memory.set(waiting);
    }

    fn leave(&self, record: &Record) -> bool {
        let left = Left::of(record, "the database took nothing");
        spool::leave(&self.place, record.envelope(), &record.payload(), &left).is_ok()
    }

    pub(super) fn retry_memory(&mut self) {
        self.retry_runs();
        if self.memory.events.is_empty() {
            return;
        }
        let records = std::mem::take(&mut self.memory.events);
        match self.write(records.iter()) {
            Ok(new) => {
                info!(events = records.len(), "the database takes events again");
                self.memory.bytes = 0;
                for record in &records {
                    self.show(record, new.contains(&record.seq));
                }
            }
            Err(_) => self.memory.events = records,
        }
        let waiting = self.memory.events.len() as u64;
        self.counters.in_memory.set(waiting);
    }

    /// Runs that ended after their event was answered.
    pub(super) fn write_runs(&mut self, runs: Vec<RunRow>) {
        self.memory.runs.extend(kept::masked(runs, &self.masker));
        self.retry_runs();
        let over = self.memory.runs.len().saturating_sub(MEMORY_RUNS);
        self.memory.runs.truncate(MEMORY_RUNS);
        self.counters.runs_lost.add(over as u64);
    }

    fn retry_runs(&mut self) {
        if self.memory.runs.is_empty() {
            return;
        }
        let written = self.connection.transaction().and_then(|transaction| {
            run::insert(&transaction, &self.memory.runs)?;
            transaction.commit()
        });
        match written {
            Ok(()) => self.memory.runs.clear(),
            Err(why) => {
                warn!(%why, "could not write runs of hooks");
                self.look_for_damage(&why);
            }
        }
    }

    /// The end: what is in memory still has one more chance.
    pub(super) fn let_go_of_memory(&mut self) {
        for record in std::mem::take(&mut self.memory.events) {
            if !self.leave(&record) {
                error!(id = %record.id(), "an event is lost: neither database nor spool takes it");
            }
        }
        if !self.memory.runs.is_empty() {
            let runs = self.memory.runs.len();
            error!(
                runs,
                "runs of hooks are lost: the database does not take them"
            );
        }
    }
}
