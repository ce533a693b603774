//! The one writer of the database: a thread that commits whatever waits together in one group.

mod elsewhere;
mod show;

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use becket_engine::mask::Masker;
use becket_wire::Place;
use rusqlite::{Connection, TransactionBehavior};
use tokio::sync::mpsc;
use tracing::{error, info, warn};

use super::super::checkpoint::Checkpointer;
use super::super::figures::{self, TurnFigures};
use super::super::inbox;
use super::super::open;
use super::super::record::Record;
use super::super::retain::{Limits, Retention};
use super::super::session::{self, Kept};
use super::super::spool;
use super::{Apply, Feed, Job, Parts, Then};
use crate::counters::Counters;
use elsewhere::Memory;
use show::Unshown;

/// What commits together at the most.
pub(super) const GROUP: usize = 512;

pub(super) struct WriterThread {
    connection: Connection,
    path: PathBuf,
    place: Place,
    masker: Arc<Masker>,
    sequence: Arc<AtomicI64>,
    feed: Feed,
    counters: Arc<Counters>,
    apply: Box<Apply>,
    checkpointer: Checkpointer,
    retention: Retention,
    /// The events in the inbox, to settle them without reading them back.
    unsettled: Vec<Record>,
    /// Whether the inbox holds others too.
    leftovers: bool,
    unshown: Unshown,
    /// What nothing would take.
    memory: Memory,
    now_ms: i64,
    closed: bool,
}

impl std::fmt::Debug for WriterThread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("WriterThread");
        shown.field("path", &self.path).finish_non_exhaustive()
    }
}

pub(super) type Waiting = (Box<Record>, Then);

/// The thread's life: until it is told to close, or nobody is left to tell it anything.
pub(super) fn run(desk: &Mutex<WriterThread>, mut jobs: mpsc::Receiver<Job>) {
    while let Some(first) = jobs.blocking_recv() {
        if !sit_down(desk).work(first, &mut jobs) {
            return;
        }
    }
    sit_down(desk).close(true);
}

fn sit_down(desk: &Mutex<WriterThread>) -> MutexGuard<'_, WriterThread> {
    desk.lock().unwrap_or_else(PoisonError::into_inner)
}

impl WriterThread {
    pub(super) fn new(mut parts: Parts) -> std::io::Result<Self> {
        let checkpointer = Checkpointer::start(parts.place.database())?;
        checkpointer.watch(&mut parts.opened.connection);
        Ok(Self {
            connection: parts.opened.connection,
            path: parts.place.database(),
            place: parts.place,
            masker: parts.masker,
            sequence: parts.sequence,
            feed: parts.feed,
            counters: parts.counters,
            apply: parts.apply,
            checkpointer,
            retention: Retention::default(),
            unsettled: Vec::new(),
            // Whatever a killed daemon left there.
            leftovers: true,
            unshown: Unshown::default(),
            memory: Memory::default(),
            now_ms: 0,
            closed: false,
        })
    }

    /// Does this, and whatever waits behind it. False if there will be nothing more to do.
    fn work(&mut self, first: Job, jobs: &mut mpsc::Receiver<Job>) -> bool {
        let mut group: Vec<Waiting> = Vec::new();
        let mut next = Some(first);
        while let Some(job) = next.take() {
            match job {
                Job::Keep { record, then } => group.push((record, then)),
                other => {
                    self.commit(&mut group);
                    if let Job::Close { tidy, done } = other {
                        self.last_jobs(jobs);
                        self.close(tidy);
                        let _ = done.send(());
                        return false;
                    }
                    self.other(other, jobs);
                }
            }
            if group.len() < GROUP {
                next = jobs.try_recv().ok();
            }
        }
        self.commit(&mut group);
        if self.unsettled.len() >= inbox::FULL {
            self.settle();
        }
        self.checkpointer.look_after(&self.connection);
        true
    }

    /// Whoever comes from now on learns that it is too late; those who came before do not.
    fn last_jobs(&mut self, jobs: &mut mpsc::Receiver<Job>) {
        jobs.close();
        while let Ok(job) = jobs.try_recv() {
            match job {
                Job::Keep { record, then } => self.commit(&mut vec![(record, then)]),
                other => self.other(other, jobs),
            }
        }
    }

    /// Keeps one event at once, on whatever thread this is, if that needs no waiting and nothing is
    /// wrong; else gives it back. True if the thread should tidy up.
    pub(super) fn keep_one(&mut self, record: Box<Record>, then: Then) -> Result<bool, Waiting> {
        drop(self.connection.busy_timeout(Duration::ZERO));
        let written = self.write(std::iter::once(&*record));
        drop(self.connection.busy_timeout(open::BUSY));
        let Ok(new) = written else {
            return Err((record, then));
        };
        then();
        self.show(&record, new.contains(&record.seq));
        Ok(self.unsettled.len() >= inbox::FULL || self.checkpointer.has_much())
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    fn other(&mut self, job: Job, jobs: &mpsc::Receiver<Job>) {
        match job {
            Job::Damaged { inode, why, done } => {
                // Many may find it at once; what was begun anew since then is another file.
                if inode == open::inode(&self.path) {
                    self.begin_anew(&why);
                }
                let _ = done.send(());
            }
            Job::Sessions(sessions) => self.write_sessions(&sessions),
            Job::Figures(figures) => self.write_figures(&figures),
            Job::Runs(runs) => self.write_runs(runs),
            Job::TakeIn(done) => {
                self.retry_memory();
                self.settle();
                self.take_in();
                let _ = done.send(self.unshown.numbers());
            }
            Job::Tick(tick) => {
                self.now_ms = tick.now_ms;
                self.masker = tick.masker;
                self.retry_memory();
                self.settle();
                self.take_in();
                self.show_overdue();
                self.retain(tick.limits, jobs);
                self.checkpointer.tick();
            }
            // What follows every job does it.
            Job::Settle | Job::Keep { .. } | Job::Close { .. } => {}
        }
    }

    /// At least one slice, or a daemon that always has something to do would never drop anything.
    fn retain(&mut self, limits: Limits, jobs: &mpsc::Receiver<Job>) {
        loop {
            match self
                .retention
                .slice(&mut self.connection, limits, self.now_ms)
            {
                Ok(true) if jobs.is_empty() => {}
                Ok(_) => return,
                Err(why) => {
                    warn!(%why, "retention failed");
                    return self.look_for_damage(&why);
                }
            }
        }
    }

    fn commit(&mut self, group: &mut Vec<Waiting>) {
        if group.is_empty() {
            return;
        }
        let mut written = self.write(group.iter().map(|(record, _)| &**record));
        if let Err(why) = &written
            && open::is_damage(why)
        {
            self.begin_anew(&why.to_string());
            written = self.write(group.iter().map(|(record, _)| &**record));
        }
        let new = written.unwrap_or_else(|why| {
            error!(%why, events = group.len(), "the database takes nothing");
            for (record, _) in &*group {
                self.keep_elsewhere(record);
            }
            HashSet::new()
        });
        for (record, then) in group.drain(..) {
            then();
            // What came by the spool before was shown then; what went there now will be.
            self.show(&record, new.contains(&record.seq));
        }
    }

    /// Moves the inbox into the log.
    fn settle(&mut self) {
        let mut unsettled = std::mem::take(&mut self.unsettled);
        let settled = match std::mem::take(&mut self.leftovers) {
            true => inbox::waiting(&self.connection, &self.masker).map(|all| unsettled = all),
            false => Ok(()),
        };
        let settled = settled.and_then(|()| inbox::settle(&mut self.connection, &unsettled));
        if let Err(why) = settled {
            warn!(%why, "could not settle the inbox");
            self.leftovers = true;
            self.unsettled = unsettled;
            self.look_for_damage(&why);
        }
    }

    /// Writes in one transaction. Gives those that were not there already.
    fn write<'r>(
        &mut self,
        records: impl Iterator<Item = &'r Record> + Clone,
    ) -> rusqlite::Result<HashSet<i64>> {
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut new = HashSet::new();
        let through_inbox = inbox::is_for(records.clone());
        let (mut put_in, mut amended) = (Vec::new(), Vec::new());
        for record in records.clone() {
            let waits = |one: &Record| record.decided && one.id() == record.id();
            let waiting = self.unsettled.iter().position(waits);
            if let Some(at) = waiting
                && let Some(whole) = inbox::amend(&transaction, &self.unsettled[at], record)?
            {
                amended.push((at, whole));
            } else if through_inbox && !record.decided && inbox::put(&transaction, record)? {
                put_in.push(record.clone());
                new.insert(record.seq);
            } else if record.insert(&transaction)? {
                new.insert(record.seq);
            }
        }
        // What the inbox did not take stands in the log, and its session beside it.
        if put_in.len() + amended.len() < records.clone().count() {
            let sessions = records.clone().filter_map(|record| record.session.as_ref());
            session::write(&transaction, sessions)?;
        }
        transaction.commit()?;
        for (at, whole) in amended {
            self.unsettled[at] = whole;
        }
        self.unsettled.append(&mut put_in);
        for record in records {
            self.retention.wrote(record.envelope().at);
        }
        Ok(new)
    }

    /// Sessions that changed without an event: a restart changes nothing then either.
    fn write_sessions(&mut self, sessions: &[Kept]) {
        let written = self.connection.transaction().and_then(|transaction| {
            session::write(&transaction, sessions.iter())?;
            transaction.commit()
        });
        if let Err(why) = written {
            warn!(%why, "could not write sessions");
            self.look_for_damage(&why);
        }
    }

    fn write_figures(&mut self, figures: &[TurnFigures]) {
        let written = self.connection.transaction().and_then(|transaction| {
            figures::write(&transaction, figures)?;
            transaction.commit()
        });
        if let Err(why) = written {
            warn!(%why, "could not write the figures of turns");
            self.look_for_damage(&why);
        }
    }

    fn take_in(&mut self) {
        let sequence = Arc::clone(&self.sequence);
        let mut next_seq = || sequence.fetch_add(1, Ordering::Relaxed);
        let (done, ended) = spool::take_in(
            &mut self.connection,
            &self.place,
            &self.masker,
            &mut next_seq,
            &*self.apply,
            &mut |_| true,
        );
        // What was committed before a failure is in, all the same.
        self.counters.taken_in.add(done.new.len() as u64);
        self.counters.spool_bad.add(done.bad);
        let is_double = |record: &&Record| record.duplicate_of.is_some();
        let doubles = done.new.iter().filter(is_double).count();
        self.counters.duplicates.add(doubles as u64);
        for record in &done.new {
            self.retention.wrote(record.envelope().at);
        }
        self.show_taken_in(&done.new, &done.decided);
        if !done.new.is_empty() {
            info!(
                events = done.new.len(),
                amended = done.amended,
                "took in the spool"
            );
            self.checkpointer.nudge();
        }
        if let Err(why) = ended {
            warn!(%why, "could not take in the spool");
            self.look_for_damage(&why);
        }
    }

    fn look_for_damage(&mut self, why: &rusqlite::Error) {
        if open::is_damage(why) {
            self.begin_anew(&why.to_string());
        }
    }

    /// The file is damaged: it is set aside, and a new database begun.
    fn begin_anew(&mut self, why: &str) {
        // SQLite writes to a file that it has open wherever that goes, so it is let go first.
        match Connection::open_in_memory() {
            Ok(nothing) => drop(std::mem::replace(&mut self.connection, nothing)),
            Err(_) => return,
        }
        let opened = open::set_aside(&self.path, self.now_ms).and_then(|aside| {
            error!(why, aside = %aside.display(), "the database is damaged; beginning a new one");
            self.counters.trouble(format!(
                "the database was damaged ({why}); it was set aside as {}",
                aside.display()
            ));
            open(&self.path, self.now_ms)
        });
        match opened {
            Ok(opened) => self.connection = opened.connection,
            Err(why) => error!(%why, "could not begin a new database"),
        }
        // What was only in the old one's inbox is still at hand; in the new one's there is nothing.
        self.leftovers = false;
        self.settle();
        self.retention = Retention::default();
        self.checkpointer.reopen(&mut self.connection);
    }

    fn close(&mut self, tidy: bool) {
        self.closed = true;
        self.retry_memory();
        self.settle();
        self.let_go_of_memory();
        self.checkpointer.end();
        if tidy
            && let Err(why) =
                self.connection
                    .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        {
            warn!(%why, "could not checkpoint at the end");
        }
        // This process may go on for a while, with hooks; the file is another's by then.
        if let Ok(nothing) = Connection::open_in_memory() {
            self.connection = nothing;
        }
    }
}
