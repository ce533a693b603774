//! The door of the one writer: what may be asked of it. The thread behind it is in
//! `write/thread.rs`.

mod thread;

use std::collections::HashSet;
use std::sync::atomic::AtomicI64;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use becket_engine::mask::Masker;
use becket_wire::rpc::EventRow;
use becket_wire::run::RunRow;
use becket_wire::{EventId, Place};
use tokio::sync::{broadcast, mpsc, oneshot};

use super::figures::TurnFigures;
use super::open::Opened;
use super::record::Record;
use super::retain::Limits;
use super::session::Kept;
use crate::counters::Counters;
use thread::WriterThread;

/// What may wait for the writer. More is answered `Busy`.
const QUEUE: usize = 4096;

/// Committed events, for whoever looks on.
pub type Feed = broadcast::Sender<Arc<EventRow>>;

/// The writer has more to do than it may.
#[derive(Debug)]
pub struct Full;

/// What is done once an event is kept. It must not block.
pub(crate) type Then = Box<dyn FnOnce() + Send>;

/// What a group from the spool means for sessions.
#[derive(Debug, Clone, Default)]
pub(crate) struct Brought {
    pub(crate) new: Vec<Record>,
    /// Prompts that were taken in before, and blocked since: the session, and when it was sent.
    pub(crate) blocked: Vec<(String, i64)>,
    pub(crate) let_through: Vec<LetThrough>,
}

/// Hooks judged whether an agent may stop when this was taken in, and it was let through since.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LetThrough {
    pub(crate) stop: EventId,
    pub(crate) session: String,
    /// When it wanted to stop, and when it was let.
    pub(crate) at: i64,
    pub(crate) let_at: i64,
    /// Whether it was the main agent.
    pub(crate) main: bool,
    /// No daemon did it, so that nobody was told.
    pub(crate) alone: bool,
}

/// Applies what comes from the spool: gives the sessions that change with it, and what is done once
/// all that is kept. The writer's thread waits for it.
pub(crate) type Apply = dyn Fn(&Arc<Brought>) -> (Vec<Kept>, Then) + Send;

enum Job {
    Keep {
        record: Box<Record>,
        then: Then,
    },
    TakeIn(oneshot::Sender<HashSet<i64>>),
    Sessions(Vec<Kept>),
    Figures(Vec<TurnFigures>),
    Runs(Vec<RunRow>),
    /// Settle the inbox, and look after the log of the database.
    Settle,
    /// A reader found the file with this inode damaged.
    Damaged {
        inode: Option<u64>,
        why: String,
        done: oneshot::Sender<()>,
    },
    Tick(Tick),
    Close {
        tidy: bool,
        done: oneshot::Sender<()>,
    },
}

/// What the writer is told now and then.
#[derive(Debug)]
pub(crate) struct Tick {
    pub(crate) now_ms: i64,
    pub(crate) limits: Limits,
    /// The masker of the config that is in force.
    pub(crate) masker: Arc<Masker>,
}

/// The writer's door. Whoever holds it can have something written.
#[derive(Debug, Clone)]
pub struct Writer {
    jobs: mpsc::Sender<Job>,
    /// The thread holds it while it works. Whoever finds it free may write one event itself.
    desk: Arc<Mutex<WriterThread>>,
}

/// What the writer thread is made of.
pub(crate) struct Parts {
    pub(crate) opened: Opened,
    pub(crate) place: Place,
    pub(crate) masker: Arc<Masker>,
    pub(crate) sequence: Arc<AtomicI64>,
    pub(crate) feed: Feed,
    pub(crate) counters: Arc<Counters>,
    pub(crate) apply: Box<Apply>,
}

impl Writer {
    pub(crate) fn start(parts: Parts) -> std::io::Result<(Self, JoinHandle<()>)> {
        let (jobs, waiting) = mpsc::channel(QUEUE);
        let desk = Arc::new(Mutex::new(WriterThread::new(parts)?));
        let at_work = Arc::clone(&desk);
        let handle = std::thread::Builder::new()
            .name("writer".into())
            .spawn(move || thread::run(&at_work, waiting))?;
        Ok((Self { jobs, desk }, handle))
    }

    /// Has an event written. `then` is called on the writer's thread when it is committed (or kept
    /// by other means).
    pub(crate) fn keep(&self, record: Record, then: Then) -> Result<(), Full> {
        let record = Box::new(record);
        self.queue(Job::Keep { record, then })
    }

    /// The same for an event that comes alone. If nobody writes, it is written here and now: to wake
    /// the thread for one event costs more than to write it (40 µs where the cores sleep).
    pub(crate) fn keep_one(&self, record: Record, then: Then) -> Result<(), Full> {
        if record.is_small() {
            self.at_once(Box::new(record), then).map_err(|_| Full)
        } else {
            self.keep(record, then)
        }
    }

    /// Gives back what there is no room for.
    fn at_once(&self, record: Box<Record>, then: Then) -> Result<(), (Box<Record>, Then)> {
        let nobody_waits = self.jobs.capacity() == self.jobs.max_capacity();
        let mut waiting = (record, then);
        if nobody_waits
            && let Ok(mut desk) = self.desk.try_lock()
            && !desk.is_closed()
        {
            match desk.keep_one(waiting.0, waiting.1) {
                Ok(false) => return Ok(()),
                Ok(true) => {
                    drop(self.jobs.try_send(Job::Settle));
                    return Ok(());
                }
                Err(back) => waiting = back,
            }
        }
        let (record, then) = waiting;
        let sent = self.jobs.try_send(Job::Keep { record, then });
        sent.or_else(|back| match back.into_inner() {
            Job::Keep { record, then } => Err((record, then)),
            _ => Ok(()),
        })
    }

    /// Completes an event that was kept before its named hooks ran (`held`): the same record, now
    /// with its time, its decision, its runs and its session as it is after them. All of it is one
    /// transaction, and `then` is called after it, on this thread or on the writer's. Where there is
    /// no room, both come back: what was decided has to be said all the same.
    pub(crate) fn decide(&self, mut record: Record, then: Then) -> Result<(), (Box<Record>, Then)> {
        record.held = false;
        record.decided = true;
        self.at_once(Box::new(record), then)
    }

    /// Has runs written that ended after their event was answered, or gives them back.
    pub(crate) fn runs(&self, runs: Vec<RunRow>) -> Result<(), Vec<RunRow>> {
        let sent = self.jobs.try_send(Job::Runs(runs));
        sent.map_err(|back| match back.into_inner() {
            Job::Runs(runs) => runs,
            _ => Vec::new(),
        })
    }

    fn queue(&self, job: Job) -> Result<(), Full> {
        self.jobs.try_send(job).map_err(|_| Full)
    }

    /// A reader found the database damaged: comes back when it is set aside, or was already.
    pub(crate) async fn damaged(&self, inode: Option<u64>, why: String) {
        let (done, wait) = oneshot::channel();
        if self
            .jobs
            .send(Job::Damaged { inode, why, done })
            .await
            .is_ok()
        {
            let _ = wait.await;
        }
    }

    /// Has sessions written that changed without an event, or gives them back.
    pub(crate) fn sessions(&self, sessions: Vec<Kept>) -> Result<(), Vec<Kept>> {
        let sent = self.jobs.try_send(Job::Sessions(sessions));
        sent.map_err(|back| match back.into_inner() {
            Job::Sessions(sessions) => sessions,
            _ => Vec::new(),
        })
    }

    /// Has the figures of turns written, or gives them back.
    pub(crate) fn figures(&self, figures: Vec<TurnFigures>) -> Result<(), Vec<TurnFigures>> {
        let sent = self.jobs.try_send(Job::Figures(figures));
        sent.map_err(|back| match back.into_inner() {
            Job::Figures(figures) => figures,
            _ => Vec::new(),
        })
    }

    /// Takes in the spool; comes back when that is done. Gives the numbers of the events whose hooks
    /// still run: they are in the log, and onlookers get them when they are decided.
    pub(crate) async fn take_in(&self) -> HashSet<i64> {
        let (done, wait) = oneshot::channel();
        match self.jobs.send(Job::TakeIn(done)).await {
            Ok(()) => wait.await.unwrap_or_default(),
            Err(_) => HashSet::new(),
        }
    }

    /// What is done now and then: intake, retention, checkpoint, another try for what is in memory.
    pub(crate) async fn tick(&self, tick: Tick) {
        drop(self.jobs.send(Job::Tick(tick)).await);
    }

    /// Writes what still waits and closes the database. `tidy` also moves SQLite's log into it;
    /// that takes time, which the next daemon may be waiting for.
    pub(crate) async fn close(&self, tidy: bool) {
        let (done, wait) = oneshot::channel();
        if self.jobs.send(Job::Close { tidy, done }).await.is_ok() {
            drop(wait.await);
        }
    }
}

#[cfg(test)]
mod tests;
