//! The connection that writes the database, owned by the core thread.

use std::collections::HashSet;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use becket_engine::mask::Masker;
use becket_wire::Place;
use becket_wire::hook_run::RunRow;
use becket_wire::rpc::EventRow;
use rusqlite::{Connection, TransactionBehavior};
use tokio::sync::broadcast;
use tracing::{error, info, warn};

use super::checkpoint::Checkpointer;
use super::denied::{DeniedCalls, RanDenied};
use super::effort;
use super::figures::{self, TurnFigures};
use super::hook_runs;
use super::lost;
use super::open::{self, WRITER_BUSY, open};
use super::record::{EventRecord, InsertOutcome};
use super::retention::{Clock, Limits, Retention};
use super::sessions::{self, StoredSession};
use super::spool::{self, ApplyIntake, SpoolDetails};
use crate::counters::Counters;
use crate::lifecycle::now_ms;

/// The time for which one tick may delete payloads. Events wait meanwhile.
const RETENTION: Duration = Duration::from_millis(20);

/// The channel that sends committed events to followers.
pub type Feed = broadcast::Sender<Arc<EventRow>>;

/// Sends the reply to an event once it is committed. It must not block.
pub(crate) type Reply = Box<dyn FnOnce() + Send>;

/// The rows of one commit.
#[derive(Default)]
pub(crate) struct Batch {
    /// The events, each with its reply.
    pub(crate) events: Vec<(Box<EventRecord>, Reply)>,
    /// The runs that ended after their event was answered.
    pub(crate) runs: Vec<RunRow>,
    pub(crate) sessions: Vec<StoredSession>,
    pub(crate) figures: Vec<TurnFigures>,
    pub(crate) efforts: Vec<effort::Change>,
}

impl Batch {
    pub(crate) fn is_empty(&self) -> bool {
        self.events.is_empty()
            && self.runs.is_empty()
            && self.sessions.is_empty()
            && self.figures.is_empty()
            && self.efforts.is_empty()
    }
}

/// The result of taking in one group of the spool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IntakeProgress {
    All,
    /// More files wait.
    More,
    /// The database failed.
    Failed,
}

/// The writing connection and the state of its database.
pub(crate) struct Store {
    connection: Connection,
    path: PathBuf,
    /// The inode of the database file. None while no database is open.
    inode: Option<u64>,
    /// The inodes of its log and of the index of the log.
    log_inodes: [Option<u64>; 2],
    place: Place,
    feed: Feed,
    counters: Arc<Counters>,
    checkpointer: Checkpointer,
    retention: Retention,
    clock: Clock,
    next_seq: i64,
    /// The events whose hooks run in this daemon. Followers get them when they are decided.
    pending: HashSet<i64>,
    denied: DeniedCalls,
    replaced: bool,
}

impl Store {
    pub(crate) fn new(
        place: &Place,
        mut connection: Connection,
        feed: Feed,
        counters: Arc<Counters>,
    ) -> rusqlite::Result<Self> {
        let path = place.database();
        let newest: Option<i64> =
            connection.query_row("SELECT max(seq) FROM events", [], |row| row.get(0))?;
        connection.busy_timeout(WRITER_BUSY)?;
        let denied = DeniedCalls::read(place, &connection)?;
        Ok(Self {
            checkpointer: Checkpointer::start(path.clone(), &mut connection),
            connection,
            inode: open::inode(&path),
            log_inodes: open::log_files(&path).map(|file| open::inode(&file)),
            path,
            place: place.clone(),
            feed,
            counters,
            retention: Retention::default(),
            clock: Clock::new(now_ms(), Instant::now()),
            next_seq: newest.unwrap_or(0) + 1,
            pending: HashSet::new(),
            denied,
            replaced: false,
        })
    }

    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }

    pub(crate) fn next_seq(&mut self) -> i64 {
        self.next_seq += 1;
        self.next_seq - 1
    }

    /// Returns the events whose hooks still run. They are in the log; followers get them when they are decided.
    pub(crate) fn pending(&self) -> HashSet<i64> {
        self.pending.clone()
    }

    /// Marks the result of a call that becket denied as a fault. Returns true if this is one.
    pub(crate) fn mark_ran_denied(&self, record: &mut EventRecord) -> bool {
        self.denied.mark_result(record);
        record.ran_denied()
    }

    /// Takes the denied calls that ran since the last time.
    pub(crate) fn take_ran_denied(&mut self) -> Vec<RanDenied> {
        std::mem::take(&mut self.denied.found)
    }

    /// Returns true if the database was replaced since the last call.
    pub(crate) fn take_replaced(&mut self) -> bool {
        std::mem::take(&mut self.replaced)
    }

    /// Commits a batch in one transaction, then sends the replies. Events that the database does not take go to the
    /// spool, or else are counted as lost. The rest of the batch is returned as the error.
    pub(crate) fn commit(&mut self, batch: Batch) -> Result<(), Batch> {
        self.check_file();
        let mut written = self.try_write(&batch);
        if let Err(why) = &written
            && self.replace_if_damaged(why)
        {
            written = self.try_write(&batch);
        }
        let outcomes = match written {
            Ok(outcomes) => outcomes,
            Err(why) => {
                error!(%why, "could not write events");
                for (record, reply) in batch.events {
                    self.keep_in_spool(&record);
                    reply();
                }
                return Err(Batch {
                    events: Vec::new(),
                    ..batch
                });
            }
        };
        for ((record, reply), outcome) in batch.events.into_iter().zip(outcomes) {
            reply();
            self.retention.note_written(record.envelope().at);
            let noted = (self.denied).note_written(&record, outcome, &self.connection);
            if let Err(why) = noted {
                warn!(%why, "could not look whether a denied call ran");
            }
            self.publish_once(&record, outcome);
        }
        self.checkpointer.after_commit(&self.connection);
        Ok(())
    }

    /// Takes in one group of the spool.
    pub(crate) fn take_in(
        &mut self,
        masker: &Masker,
        apply: &mut ApplyIntake<'_>,
    ) -> IntakeProgress {
        self.check_file();
        let (done, ended) = spool::take_in(
            &mut self.connection,
            &self.place,
            masker,
            &mut self.denied,
            &mut self.next_seq,
            apply,
        );
        // Groups that were committed before a failure stay committed.
        self.counters.count(|counts| {
            counts.taken_in += done.new.len() as u64;
            counts.spool_bad += done.bad;
        });
        for record in &done.new {
            self.retention.note_written(record.envelope().at);
            self.publish(record);
        }
        for record in &done.completed {
            if self.pending.remove(&record.seq) {
                self.publish(record);
            }
        }
        if !done.new.is_empty() {
            info!(events = done.new.len(), "took in the spool");
            self.checkpointer.wake_thread();
        }
        match ended {
            Ok(true) => IntakeProgress::More,
            Ok(false) => IntakeProgress::All,
            Err(why) => {
                warn!(%why, "could not take in the spool");
                self.replace_if_damaged(&why);
                IntakeProgress::Failed
            }
        }
    }

    /// Deletes old payloads and starts a checkpoint.
    pub(crate) fn tick(&mut self, now_ms: i64, mut limits: Limits) {
        let began = Instant::now();
        self.check_file();
        // With 0 days no payload is kept, so a wrong clock does no harm.
        if !self.clock.is_steady(now_ms, began) && limits.days > 0 {
            limits.days = u32::MAX;
        }
        loop {
            let connection = &mut self.connection;
            match self.retention.slice(connection, limits, now_ms) {
                Ok(true) if began.elapsed() < RETENTION => {}
                Ok(_) => break,
                Err(why) => {
                    warn!(%why, "retention failed");
                    self.replace_if_damaged(&why);
                    break;
                }
            }
        }
        // Without its log, the thread would create another one and block the checkpoint at the end.
        if !self.has_lost_wal() {
            self.checkpointer.wake_thread();
        }
    }

    /// Replaces the database if a reader found the file with this inode damaged. Several readers may report it; the
    /// new database has another inode.
    pub(crate) fn replace_damaged(&mut self, inode: Option<u64>, why: &str) {
        if inode == open::inode(&self.path) {
            self.replace_database(why);
        }
    }

    /// Closes the database. `tidy` also moves SQLite's log into it; that takes time for which the next daemon may
    /// wait.
    pub(crate) fn close(self, tidy: bool) {
        let checkpoint = "PRAGMA wal_checkpoint(TRUNCATE)";
        if tidy && let Err(why) = self.connection.query_row(checkpoint, [], |_| Ok(())) {
            warn!(%why, "could not checkpoint at the end");
        }
    }

    fn try_write(&mut self, batch: &Batch) -> rusqlite::Result<Vec<InsertOutcome>> {
        let behavior = TransactionBehavior::Immediate;
        let transaction = self.connection.transaction_with_behavior(behavior)?;
        let records = batch.events.iter().map(|(record, _)| record);
        let outcomes = records.map(|record| record.insert(&transaction));
        let outcomes = outcomes.collect::<rusqlite::Result<_>>()?;
        hook_runs::insert(&transaction, &batch.runs)?;
        sessions::write(&transaction, &batch.sessions)?;
        figures::write(&transaction, &batch.figures)?;
        effort::write(&transaction, &batch.efforts)?;
        transaction.commit()?;
        Ok(outcomes)
    }

    fn keep_in_spool(&self, record: &EventRecord) {
        let details = SpoolDetails::from_record(record, "the database took nothing");
        match spool::add(&self.place, record.envelope(), &record.payload(), &details) {
            Ok(()) => self.counters.count(|counts| counts.to_spool += 1),
            Err(why) => {
                error!(id = %record.id(), %why, "an event is lost: neither database nor spool takes it");
                // The event of a completion was stored, or counted as lost, before.
                if !record.is_completion
                    && let Err(why) = lost::add(&self.place, 1)
                {
                    error!(%why, "the lost event could not be counted");
                }
                let runs = record.runs.len() as u64;
                self.counters.count(|counts| counts.runs_lost += runs);
            }
        }
    }

    /// Sends an event to followers once: when it is new, or when its hooks have decided.
    fn publish_once(&mut self, record: &EventRecord, outcome: InsertOutcome) {
        let is_new = outcome == InsertOutcome::New;
        if record.hooks_pending {
            self.pending.extend(is_new.then_some(record.seq));
        } else if is_new || record.is_completion && self.pending.remove(&record.seq) {
            self.publish(record);
        }
    }

    fn publish(&self, record: &EventRecord) {
        if self.feed.receiver_count() > 0 {
            drop(self.feed.send(Arc::new(record.to_row())));
        }
    }

    /// Replaces the database if the error means that it is damaged. Returns true if it does.
    fn replace_if_damaged(&mut self, why: &rusqlite::Error) -> bool {
        let damaged = open::is_damage(why);
        if damaged {
            self.replace_database(&why.to_string());
        }
        damaged
    }

    /// Opens or replaces the database if its file was deleted or replaced: no reader would find later commits.
    fn check_file(&mut self) {
        let found = match std::fs::metadata(&self.path) {
            Ok(meta) => Some(meta.ino()),
            Err(why) if why.kind() == ErrorKind::NotFound => None,
            Err(_) => return,
        };
        if self.inode.is_none() {
            self.reopen();
        } else if found.is_none() {
            self.replace_database("its file was deleted while the daemon ran");
        } else if found != self.inode {
            self.replace_database("its file was replaced while the daemon ran");
        }
    }

    /// Returns true if SQLite's log was deleted or replaced, so that no reader finds its commits. The log is still
    /// open here, so [`Store::close`] moves the commits into the database; SQLite opens another log only when all
    /// connections of this process are closed.
    pub(crate) fn has_lost_wal(&self) -> bool {
        let found = open::log_files(&self.path).map(|file| open::inode(&file));
        let mut pairs = self.log_inodes.iter().zip(&found);
        self.inode.is_some() && pairs.any(|(before, now)| before.is_some() && before != now)
    }

    /// Sets the database aside and creates a new one.
    fn replace_database(&mut self, why: &str) {
        // SQLite would go on writing to the moved file, so close it first.
        match Connection::open_in_memory() {
            Ok(nothing) => drop(std::mem::replace(&mut self.connection, nothing)),
            Err(_) => return,
        }
        self.inode = None;
        let aside = match open::set_aside(&self.path, now_ms()) {
            Ok(Some(aside)) => format!("it was set aside as {}", aside.display()),
            Ok(None) => "events until then are lost".to_owned(),
            Err(why) => why.to_string(),
        };
        error!(why, aside, "the database is damaged; beginning a new one");
        self.counters
            .add_trouble(format!("the database was damaged ({why}); {aside}"));
        self.reopen();
    }

    fn reopen(&mut self) {
        match open(&self.path, now_ms()) {
            Ok(opened) => self.connection = opened.connection,
            Err(why) => {
                error!(%why, "could not begin a new database");
                let what =
                    format!("could not begin a new database ({why}): events go to the spool");
                return self.counters.add_trouble(what);
            }
        }
        self.inode = open::inode(&self.path);
        self.log_inodes = open::log_files(&self.path).map(|file| open::inode(&file));
        self.retention = Retention::default();
        self.checkpointer = Checkpointer::start(self.path.clone(), &mut self.connection);
        self.replaced = true;
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use becket_wire::EventId;
    use becket_wire::rpc::Source;
    use tokio::sync::broadcast::error::TryRecvError;

    use super::super::spool::IntakeChanges;
    use super::super::tests::{Home, decision, details, id, masker, record, rows, run, runs_of};
    use super::*;

    const LIMITS: Limits = Limits {
        days: 90_000,
        bytes: u64::MAX,
    };

    struct TestStore {
        home: Home,
        store: Store,
        counters: Arc<Counters>,
        feed: broadcast::Receiver<Arc<EventRow>>,
    }

    fn start() -> TestStore {
        let home = Home::new();
        let counters = Arc::new(Counters::default());
        let (feed, follows) = broadcast::channel(64);
        let store = Store::new(&home.place, home.open(), feed, Arc::clone(&counters)).unwrap();
        TestStore {
            home,
            store,
            counters,
            feed: follows,
        }
    }

    fn take_in(store: &mut Store) -> HashSet<i64> {
        while store.take_in(&masker(), &mut |_, _| IntakeChanges::default()) == IntakeProgress::More
        {
        }
        store.pending()
    }

    fn keep(store: &mut Store, record: EventRecord) {
        let (sent, reply) = std::sync::mpsc::channel();
        let send: Reply = Box::new(move || sent.send(()).unwrap());
        let events = vec![(Box::new(record), send)];
        let batch = Batch {
            events,
            ..Batch::default()
        };
        drop(store.commit(batch));
        reply.try_recv().expect("a reply");
    }

    fn decide(store: &mut Store, mut record: EventRecord) {
        record.set_completion();
        keep(store, record);
    }

    /// Makes an event whose hooks still run.
    fn with_pending_hooks(number: u32) -> EventRecord {
        let mut record = record(number.into(), number);
        record.hooks_pending = true;
        record
    }

    /// Makes the same event after its hooks have decided.
    fn with_decision(number: u32) -> EventRecord {
        let mut record = with_pending_hooks(number);
        record.took_us = Some(5000);
        record.decision = Some(decision("deny"));
        record.runs = vec![run(number, "lint"), run(number, "test")];
        record
    }

    /// Asserts that the log has the decision and the runs of the hooks.
    fn assert_whole(home: &Home, number: u32) {
        let rows = rows(&home.open());
        assert_eq!(rows.len(), 1, "{rows:?}");
        assert_eq!((rows[0].id, rows[0].took_us), (id(number), Some(5000)));
        let answer = rows[0]
            .decision
            .as_ref()
            .map(|decision| decision.answer.as_str());
        assert_eq!((answer, rows[0].source), (Some("deny"), Source::Daemon));
        assert_eq!(runs_of(&home.open()).len(), 2);
    }

    fn received(feed: &mut broadcast::Receiver<Arc<EventRow>>) -> Vec<(EventId, bool)> {
        std::iter::from_fn(|| match feed.try_recv() {
            Ok(row) => Some((row.id, row.decision.is_some())),
            Err(TryRecvError::Empty | TryRecvError::Closed) => None,
            Err(TryRecvError::Lagged(_)) => panic!("the feed is too short"),
        })
        .collect()
    }

    /// Makes the database refuse every event, or take them again.
    fn refuse(home: &Home, refuse: bool) {
        let change = if refuse {
            "CREATE TRIGGER full BEFORE INSERT ON events BEGIN SELECT RAISE(ABORT, 'no room'); END"
        } else {
            "DROP TRIGGER IF EXISTS full"
        };
        home.open().execute_batch(change).unwrap();
    }

    /// The same damage to every reader: a schema that makes no sense.
    fn break_database(home: &Home) {
        home.open()
            .execute_batch(
                "PRAGMA writable_schema = ON;
                 UPDATE sqlite_schema SET rootpage = 99999 WHERE name = 'events';
                 PRAGMA writable_schema = OFF;
                 PRAGMA schema_version = 1000;",
            )
            .unwrap();
    }

    #[test]
    fn replies_go_out_after_the_commit() {
        let TestStore {
            home, mut store, ..
        } = start();
        let reader = home.open();
        let events = (1..=50).map(|number| {
            let reader = home.open();
            let send = move || assert_eq!(rows(&reader).len(), 50, "replied too early");
            let record = Box::new(record(number.into(), number));
            (record, Box::new(send) as Reply)
        });
        let batch = Batch {
            events: events.collect(),
            ..Batch::default()
        };
        assert!(store.commit(batch).is_ok());
        assert_eq!(rows(&reader).len(), 50);
    }

    #[test]
    fn followers_see_an_event_once_and_with_its_decision() {
        let TestStore {
            home,
            mut store,
            mut feed,
            ..
        } = start();
        keep(&mut store, with_pending_hooks(1));
        keep(&mut store, record(2, 2));
        assert_eq!(take_in(&mut store), HashSet::from([1]));
        assert_eq!(received(&mut feed), [(id(2), false)]);
        decide(&mut store, with_decision(1));
        assert!(take_in(&mut store).is_empty());
        assert_eq!(received(&mut feed), [(id(1), true)]);
        // By the spool: as it is then. A late delivery of the same changes nothing.
        home.leave(3, &details(900, None));
        take_in(&mut store);
        keep(&mut store, record(3, 3));
        take_in(&mut store);
        assert_eq!(received(&mut feed), [(id(3), false)]);
        assert_eq!(rows(&home.open()).len(), 3);
    }

    #[test]
    fn events_that_the_database_refuses_go_through_the_spool() {
        for (held_too, taken_in) in [(false, false), (true, false), (true, true)] {
            let TestStore {
                home,
                mut store,
                counters,
                ..
            } = start();
            refuse(&home, held_too);
            keep(&mut store, with_pending_hooks(1));
            refuse(&home, !held_too);
            if taken_in {
                take_in(&mut store);
            }
            decide(&mut store, with_decision(1));
            assert_eq!(counters.counts().to_spool, 1, "the answer goes out");
            if !held_too {
                refuse(&home, false);
            }
            take_in(&mut store);
            assert_eq!(home.files(), 0);
            assert_whole(&home, 1);
        }
    }

    #[test]
    fn an_event_that_cannot_be_stored_is_counted_as_lost() {
        let TestStore {
            home,
            mut store,
            counters,
            ..
        } = start();
        refuse(&home, true);
        fs::remove_dir(home.place.spool()).unwrap();
        fs::write(home.place.spool(), "no folder").unwrap();
        keep(&mut store, with_pending_hooks(1));
        decide(&mut store, with_decision(1));
        assert_eq!(counters.counts().runs_lost, 2);
        assert_eq!(lost::total(&home.place), 1);
    }

    #[test]
    fn the_answer_of_standalone_stays_and_the_daemons_runs_are_stored() {
        let TestStore {
            home,
            mut store,
            mut feed,
            ..
        } = start();
        keep(&mut store, with_pending_hooks(1));
        // The shim waited no longer.
        home.leave(1, &details(900, None));
        take_in(&mut store);
        assert_eq!(received(&mut feed), [(id(1), false)]);
        decide(&mut store, with_decision(1));
        let batch = Batch {
            runs: vec![run(1, "behind")],
            ..Batch::default()
        };
        assert!(store.commit(batch).is_ok());
        take_in(&mut store);
        let row = rows(&home.open()).remove(0);
        let answered = (row.seq, row.took_us, row.source, row.decision);
        assert_eq!(answered, (1, Some(900), Source::Alone, None));
        assert_eq!(runs_of(&home.open()).len(), 3);
        assert_eq!(received(&mut feed), []);
    }

    #[test]
    fn a_tick_takes_in_and_keeps_retention() {
        const DAY: i64 = 86_400_000;
        let TestStore {
            home, mut store, ..
        } = start();
        home.leave(1, &details(900, None));
        take_in(&mut store);
        let limits = Limits { days: 1, ..LIMITS };
        store.tick(now_ms() + 2 * DAY, limits);
        assert!(rows(&home.open())[0].payload.is_some(), "the clock jumped");
        let long_ago = Instant::now().checked_sub(Duration::from_secs(3600));
        store.clock = Clock::new(2 * DAY - 3_600_000, long_ago.unwrap());
        store.tick(2 * DAY, limits);
        let rows = rows(&home.open());
        assert_eq!(rows.len(), 1);
        assert_eq!(rows[0].payload, None, "it is of 1970");
    }

    #[test]
    fn a_database_that_breaks_is_set_aside_and_a_decision_keeps_its_event() {
        let TestStore {
            home,
            mut store,
            counters,
            ..
        } = start();
        keep(&mut store, with_pending_hooks(1));
        break_database(&home);
        decide(&mut store, with_decision(1));
        // The new database has the event whole, although it never saw it before.
        assert_whole(&home, 1);
        assert!(store.take_replaced());
        let troubles = counters.troubles();
        let (_, aside) = troubles[0].rsplit_once(' ').unwrap();
        assert!(fs::exists(aside).unwrap(), "{troubles:?}");
    }

    #[test]
    fn no_event_is_lost_with_a_deleted_log() {
        let TestStore {
            home, mut store, ..
        } = start();
        keep(&mut store, with_pending_hooks(1));
        assert!(!store.has_lost_wal());
        fs::remove_file(&open::log_files(&store.path)[0]).unwrap();
        keep(&mut store, with_pending_hooks(2));
        assert!(store.has_lost_wal());
        store.close(true);
        assert_eq!(rows(&home.open()).len(), 2);
    }
}
