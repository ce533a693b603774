//! The one writer of the database. [`Store`] does the work; [`Writer`] hands it to a thread, which
//! commits what waits together in one transaction.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use becket_engine::mask::Masker;
use becket_wire::rpc::EventRow;
use becket_wire::run::RunRow;
use becket_wire::{EventId, Place};
use rusqlite::{Connection, Transaction, TransactionBehavior};
use tokio::sync::{broadcast, mpsc, oneshot};
use tracing::{error, info, warn};

use super::checkpoint::Checkpointer;
use super::figures::{self, TurnFigures};
use super::open::{self, Opened};
use super::record::{Record, Written};
use super::retention::{Limits, Retention};
use super::run;
use super::session::{self, Kept};
use super::spool::{self, Left};
use crate::counters::Counters;

/// What may wait for the writer. More is answered `Busy`.
const QUEUE: usize = 4096;
/// What commits together at the most.
const GROUP: usize = 512;
/// How long one tick may drop payloads: events wait meanwhile.
const RETENTION: Duration = Duration::from_millis(20);

/// Committed events, for followers.
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
    /// No daemon did it, so that the user was not told.
    pub(crate) alone: bool,
}

/// Applies what comes from the spool: gives the sessions that change with it, and what is done once
/// all that is kept.
pub(crate) type Apply<'a> = dyn FnMut(&Arc<Brought>) -> (Vec<Kept>, Then) + 'a;

/// What the store is told now and then.
#[derive(Debug)]
pub(crate) struct Tick {
    pub(crate) now_ms: i64,
    pub(crate) limits: Limits,
    /// The masker of the config that is in force.
    pub(crate) masker: Arc<Masker>,
}

/// What a store is made of.
pub(crate) struct Parts {
    pub(crate) opened: Opened,
    pub(crate) place: Place,
    pub(crate) masker: Arc<Masker>,
    pub(crate) sequence: Arc<AtomicI64>,
    pub(crate) feed: Feed,
    pub(crate) counters: Arc<Counters>,
}

/// The connection that writes, and all that belongs to it.
pub(crate) struct Store {
    connection: Connection,
    path: PathBuf,
    place: Place,
    masker: Arc<Masker>,
    sequence: Arc<AtomicI64>,
    feed: Feed,
    counters: Arc<Counters>,
    checkpointer: Checkpointer,
    retention: Retention,
    /// Events whose hooks run in this daemon: followers see them when they are decided.
    pending: HashSet<i64>,
    now_ms: i64,
}

impl Store {
    pub(crate) fn new(mut parts: Parts) -> std::io::Result<Self> {
        let path = parts.place.database();
        let checkpointer = Checkpointer::start(path.clone(), &mut parts.opened.connection)?;
        Ok(Self {
            connection: parts.opened.connection,
            path,
            place: parts.place,
            masker: parts.masker,
            sequence: parts.sequence,
            feed: parts.feed,
            counters: parts.counters,
            checkpointer,
            retention: Retention::default(),
            pending: HashSet::new(),
            now_ms: 0,
        })
    }

    /// Commits events in one transaction, each session once, then sends the replies. What the
    /// database does not take goes to the spool, else it is counted as lost.
    pub(crate) fn commit(&mut self, group: Vec<(Box<Record>, Then)>) {
        let written = self.write("events", |transaction| {
            let records = group.iter().map(|(record, _)| record);
            let written: rusqlite::Result<Vec<Written>> = records
                .clone()
                .map(|record| record.insert(transaction))
                .collect();
            session::write(transaction, records.filter_map(|one| one.session.as_ref()))?;
            written
        });
        match written {
            Some(written) => {
                for ((record, then), written) in group.into_iter().zip(written) {
                    then();
                    self.retention.wrote(record.envelope().at);
                    self.show(&record, written);
                }
            }
            None => {
                for (record, then) in group {
                    self.keep_in_spool(&record);
                    then();
                }
            }
        }
        self.checkpointer.look_after(&self.connection);
    }

    /// Runs that ended after their event was answered.
    pub(crate) fn runs(&mut self, runs: &[RunRow]) {
        let written = self.write("runs of hooks", |transaction| {
            run::insert(transaction, runs)
        });
        if written.is_none() {
            self.counters.runs_lost.add(runs.len() as u64);
        }
    }

    /// Sessions that changed without an event.
    pub(crate) fn sessions(&mut self, sessions: &[Kept]) {
        self.write("sessions", |transaction| {
            session::write(transaction, sessions.iter())
        });
    }

    pub(crate) fn figures(&mut self, turns: &[TurnFigures]) {
        self.write("the figures of turns", |transaction| {
            figures::write(transaction, turns)
        });
    }

    /// Takes in the spool. Gives the numbers of the events whose hooks still run: they are in the
    /// log, and followers get them when they are decided.
    pub(crate) fn take_in(&mut self, apply: &mut Apply<'_>) -> HashSet<i64> {
        let sequence = Arc::clone(&self.sequence);
        let mut next_seq = || sequence.fetch_add(1, Ordering::Relaxed);
        let (done, ended) = spool::take_in(
            &mut self.connection,
            &self.place,
            &self.masker,
            &mut next_seq,
            apply,
        );
        // What was committed before a failure is in, all the same.
        self.counters.taken_in.add(done.new.len() as u64);
        self.counters.spool_bad.add(done.bad);
        for record in &done.new {
            self.retention.wrote(record.envelope().at);
            self.tell(record);
        }
        for record in &done.completed {
            if self.pending.remove(&record.seq) {
                self.tell(record);
            }
        }
        if !done.new.is_empty() {
            info!(events = done.new.len(), "took in the spool");
            self.checkpointer.nudge();
        }
        if let Err(why) = ended {
            warn!(%why, "could not take in the spool");
            self.look_for_damage(&why);
        }
        self.pending.clone()
    }

    /// Intake, retention, checkpoint.
    pub(crate) fn tick(&mut self, tick: Tick, apply: &mut Apply<'_>) {
        self.now_ms = tick.now_ms;
        self.masker = tick.masker;
        self.take_in(apply);
        let began = Instant::now();
        loop {
            let connection = &mut self.connection;
            match self.retention.slice(connection, tick.limits, tick.now_ms) {
                Ok(true) if began.elapsed() < RETENTION => {}
                Ok(_) => break,
                Err(why) => {
                    warn!(%why, "retention failed");
                    self.look_for_damage(&why);
                    break;
                }
            }
        }
        self.checkpointer.nudge();
    }

    /// A reader found the file with this inode damaged. Several may find it at once; a new database
    /// is another file.
    pub(crate) fn damaged(&mut self, inode: Option<u64>, why: &str) {
        if inode == open::inode(&self.path) {
            self.begin_anew(why);
        }
    }

    /// Closes the database. `tidy` also moves SQLite's log into it; that takes time, which the next
    /// daemon may be waiting for.
    pub(crate) fn close(self, tidy: bool) {
        let checkpoint = "PRAGMA wal_checkpoint(TRUNCATE)";
        if tidy && let Err(why) = self.connection.query_row(checkpoint, [], |_| Ok(())) {
            warn!(%why, "could not checkpoint at the end");
        }
    }

    /// Does this in one transaction, in a new database if the old one turns out to be damaged. None
    /// if the database does not take it.
    fn write<T>(
        &mut self,
        what: &str,
        change: impl Fn(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Option<T> {
        let write = |store: &mut Self| {
            let how = TransactionBehavior::Immediate;
            let transaction = store.connection.transaction_with_behavior(how)?;
            let done = change(&transaction)?;
            transaction.commit().map(|()| done)
        };
        let mut written = write(self);
        if let Err(why) = &written
            && self.look_for_damage(why)
        {
            written = write(self);
        }
        written
            .inspect_err(|why| error!(%why, "could not write {what}"))
            .ok()
    }

    fn keep_in_spool(&self, record: &Record) {
        let left = Left::of(record, "the database took nothing");
        match spool::add(&self.place, record.envelope(), &record.payload(), &left) {
            Ok(()) => self.counters.to_spool.add(1),
            Err(why) => {
                error!(id = %record.id(), %why, "an event is lost: neither database nor spool takes it");
                // A decision's event was kept, or counted, before.
                self.counters.lost.add(u64::from(!record.decided));
                self.counters.runs_lost.add(record.runs.len() as u64);
            }
        }
    }

    /// Followers see an event once: when it is new, or when its hooks have decided.
    fn show(&mut self, record: &Record, written: Written) {
        let is_new = written == Written::New;
        if record.held {
            self.pending.extend(is_new.then_some(record.seq));
        } else if is_new || record.decided && self.pending.remove(&record.seq) {
            self.tell(record);
        }
    }

    fn tell(&self, record: &Record) {
        if self.feed.receiver_count() > 0 {
            drop(self.feed.send(Arc::new(record.to_row())));
        }
    }

    /// Begins anew if that is what the error asks for.
    fn look_for_damage(&mut self, why: &rusqlite::Error) -> bool {
        let damaged = open::is_damage(why);
        if damaged {
            self.begin_anew(&why.to_string());
        }
        damaged
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
            open::open(&self.path, self.now_ms)
        });
        match opened {
            Ok(opened) => self.connection = opened.connection,
            Err(why) => return error!(%why, "could not begin a new database"),
        }
        self.retention = Retention::default();
        match Checkpointer::start(self.path.clone(), &mut self.connection) {
            Ok(checkpointer) => self.checkpointer = checkpointer,
            Err(why) => error!(%why, "could not start checkpoints"),
        }
    }
}

enum Job {
    Keep {
        record: Box<Record>,
        then: Then,
    },
    TakeIn(oneshot::Sender<HashSet<i64>>),
    Runs(Vec<RunRow>),
    Sessions(Vec<Kept>),
    Figures(Vec<TurnFigures>),
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

/// The thread's life: until it is told to close, and what came before that is done.
fn work(mut store: Store, apply: &mut Apply<'_>, mut jobs: mpsc::Receiver<Job>) {
    let mut closing = None;
    let mut next = None;
    while let Some(job) = next.take().or_else(|| jobs.blocking_recv()) {
        match job {
            Job::Keep { record, then } => {
                let mut group = vec![(record, then)];
                while group.len() < GROUP && next.is_none() {
                    match jobs.try_recv() {
                        Ok(Job::Keep { record, then }) => group.push((record, then)),
                        Ok(other) => next = Some(other),
                        Err(_) => break,
                    }
                }
                store.commit(group);
            }
            Job::TakeIn(done) => drop(done.send(store.take_in(apply))),
            Job::Runs(runs) => store.runs(&runs),
            Job::Sessions(sessions) => store.sessions(&sessions),
            Job::Figures(figures) => store.figures(&figures),
            Job::Damaged { inode, why, done } => {
                store.damaged(inode, &why);
                let _ = done.send(());
            }
            Job::Tick(tick) => store.tick(tick, apply),
            Job::Close { tidy, done } => {
                jobs.close();
                closing = Some((tidy, done));
            }
        }
    }
    let (tidy, done) = closing.unzip();
    store.close(tidy.unwrap_or(true));
    if let Some(done) = done {
        let _ = done.send(());
    }
}

/// Hands work to the writer thread.
#[derive(Debug, Clone)]
pub struct Writer {
    jobs: mpsc::Sender<Job>,
}

impl Writer {
    /// Starts the thread, which waits for `apply` when it takes in the spool.
    pub(crate) fn start(
        parts: Parts,
        mut apply: impl FnMut(&Arc<Brought>) -> (Vec<Kept>, Then) + Send + 'static,
    ) -> std::io::Result<(Self, JoinHandle<()>)> {
        let (jobs, waiting) = mpsc::channel(QUEUE);
        let store = Store::new(parts)?;
        let handle = std::thread::Builder::new()
            .name("writer".into())
            .spawn(move || work(store, &mut apply, waiting))?;
        Ok((Self { jobs }, handle))
    }

    /// Has an event written. `then` is called on the writer's thread when it is committed (or kept
    /// by other means).
    pub(crate) fn keep(&self, record: Record, then: Then) -> Result<(), Full> {
        self.offer(record, then).map_err(|_| Full)
    }

    /// Completes an event that was kept before its named hooks ran (`held`): the same record, now
    /// with its time, its decision, its runs and its session as it is after them. Where there is no
    /// room, both come back: what was decided has to be said all the same.
    pub(crate) fn decide(&self, mut record: Record, then: Then) -> Result<(), (Box<Record>, Then)> {
        record.held = false;
        record.decided = true;
        self.offer(record, then)
    }

    /// Has runs written that ended after their event was answered, or gives them back.
    pub(crate) fn runs(&self, runs: Vec<RunRow>) -> Result<(), Vec<RunRow>> {
        let sent = self.jobs.try_send(Job::Runs(runs));
        sent.map_err(|back| match back.into_inner() {
            Job::Runs(runs) => runs,
            _ => Vec::new(),
        })
    }

    fn offer(&self, record: Record, then: Then) -> Result<(), (Box<Record>, Then)> {
        let record = Box::new(record);
        let sent = self.jobs.try_send(Job::Keep { record, then });
        sent.or_else(|back| match back.into_inner() {
            Job::Keep { record, then } => Err((record, then)),
            _ => Ok(()),
        })
    }

    /// A reader found the database damaged: comes back when it is set aside, or was already.
    pub(crate) async fn damaged(&self, inode: Option<u64>, why: String) {
        let (done, wait) = oneshot::channel();
        let job = Job::Damaged { inode, why, done };
        if self.jobs.send(job).await.is_ok() {
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

    /// See [`Store::take_in`]; comes back when that is done.
    pub(crate) async fn take_in(&self) -> HashSet<i64> {
        let (done, wait) = oneshot::channel();
        match self.jobs.send(Job::TakeIn(done)).await {
            Ok(()) => wait.await.unwrap_or_default(),
            Err(_) => HashSet::new(),
        }
    }

    pub(crate) async fn tick(&self, tick: Tick) {
        drop(self.jobs.send(Job::Tick(tick)).await);
    }

    /// Writes what still waits and closes the database; see [`Store::close`].
    pub(crate) async fn close(&self, tidy: bool) {
        let (done, wait) = oneshot::channel();
        if self.jobs.send(Job::Close { tidy, done }).await.is_ok() {
            drop(wait.await);
        }
    }
}

#[cfg(test)]
mod tests;
