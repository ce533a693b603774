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
use rusqlite::{Connection, Transaction, TransactionBehavior};
use tokio::sync::broadcast;
use tracing::{error, info, warn};

use super::checkpoint::Checkpointer;
use super::denied::{DeniedCalls, RanDenied};
use super::effort;
use super::figures::{self, TurnFigures};
use super::lost;
use super::open::{self, WRITER_BUSY, open};
use super::record::{Record, Written};
use super::retention::{Clock, Limits, Retention};
use super::run;
use super::session::{self, StoredSession};
use super::spool::{self, Apply, Left};
use crate::counters::Counters;
use crate::life::now_ms;

/// How long one tick may drop payloads: events wait meanwhile.
const RETENTION: Duration = Duration::from_millis(20);

/// Committed events, for followers.
pub type Feed = broadcast::Sender<Arc<EventRow>>;

/// What is done once an event is committed. It must not block.
pub(crate) type Then = Box<dyn FnOnce() + Send>;

/// What is committed together.
#[derive(Default)]
pub(crate) struct Batch {
    /// Events, each with its reply.
    pub(crate) events: Vec<(Box<Record>, Then)>,
    /// Runs that ended after their event was answered.
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

/// How far an intake came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taken {
    All,
    /// More files wait.
    More,
    /// The database did not take it.
    Failed,
}

/// The connection that writes, and all that belongs to it.
pub(crate) struct Store {
    connection: Connection,
    path: PathBuf,
    /// The open file; None while there is none.
    inode: Option<u64>,
    /// Its log and the index of that.
    log_inodes: [Option<u64>; 2],
    place: Place,
    feed: Feed,
    counters: Arc<Counters>,
    checkpointer: Checkpointer,
    retention: Retention,
    clock: Clock,
    next_seq: i64,
    /// Events whose hooks run in this daemon: followers see them when they are decided.
    pending: HashSet<i64>,
    denied: DeniedCalls,
    began_anew: bool,
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
            began_anew: false,
        })
    }

    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }

    pub(crate) fn next_seq(&mut self) -> i64 {
        self.next_seq += 1;
        self.next_seq - 1
    }

    /// The events whose hooks still run: they are in the log, and followers get them when they are
    /// decided.
    pub(crate) fn pending(&self) -> HashSet<i64> {
        self.pending.clone()
    }

    /// Gives the result of a call that becket denied its fault. Returns true if it has it.
    pub(crate) fn mark(&self, record: &mut Record) -> bool {
        self.denied.mark(record);
        record.ran_denied()
    }

    /// The calls that ran though becket had denied them, found since the last time.
    pub(crate) fn ran_denied(&mut self) -> Vec<RanDenied> {
        self.denied.take_found()
    }

    /// Whether a new database was begun since the last time this was asked.
    pub(crate) fn began_anew(&mut self) -> bool {
        std::mem::take(&mut self.began_anew)
    }

    /// Commits a batch in one transaction, then sends the replies. Events that the database does not
    /// take go to the spool, else they are counted as lost; the rest comes back.
    pub(crate) fn commit(&mut self, batch: Batch) -> Result<(), Batch> {
        self.look_for_file();
        let written = self.write("events", |transaction| {
            let insert = |(record, _): &(Box<Record>, Then)| record.insert(transaction);
            let written: Vec<Written> = (batch.events.iter())
                .map(insert)
                .collect::<rusqlite::Result<_>>()?;
            run::insert(transaction, &batch.runs)?;
            session::write(transaction, &batch.sessions)?;
            figures::write(transaction, &batch.figures)?;
            effort::write(transaction, &batch.efforts)?;
            Ok(written)
        });
        let Some(written) = written else {
            for (record, then) in batch.events {
                self.keep_in_spool(&record);
                then();
            }
            return Err(Batch {
                events: Vec::new(),
                ..batch
            });
        };
        for ((record, then), written) in batch.events.into_iter().zip(written) {
            then();
            self.retention.wrote(record.envelope().at);
            if let Err(why) = self.denied.wrote(&record, written, &self.connection) {
                warn!(%why, "could not look whether a denied call ran");
            }
            self.show(&record, written);
        }
        self.checkpointer.look_after(&self.connection);
        Ok(())
    }

    /// Takes in one group of the spool.
    pub(crate) fn take_in(&mut self, masker: &Masker, apply: &mut Apply<'_>) -> Taken {
        self.look_for_file();
        let next_seq = &mut self.next_seq;
        let mut next_seq = || {
            *next_seq += 1;
            *next_seq - 1
        };
        let connection = &mut self.connection;
        let denied = &mut self.denied;
        let (done, ended) = spool::take_in(
            connection,
            &self.place,
            masker,
            denied,
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
        match ended {
            Ok(true) => Taken::More,
            Ok(false) => Taken::All,
            Err(why) => {
                warn!(%why, "could not take in the spool");
                self.look_for_damage(&why);
                Taken::Failed
            }
        }
    }

    /// Retention and checkpoint.
    pub(crate) fn tick(&mut self, now_ms: i64, mut limits: Limits) {
        let began = Instant::now();
        self.look_for_file();
        // With 0 days nothing is kept, whatever the clock says.
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
                    self.look_for_damage(&why);
                    break;
                }
            }
        }
        // The thread would open another log, and be in the way of the checkpoint at the end.
        if !self.lost_its_log() {
            self.checkpointer.nudge();
        }
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
                if !record.decided
                    && let Err(why) = lost::count(&self.place, 1)
                {
                    error!(%why, "the lost event could not be counted");
                }
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

    /// A database that was deleted or replaced takes what no reader ever finds.
    fn look_for_file(&mut self) {
        let found = match std::fs::metadata(&self.path) {
            Ok(meta) => Some(meta.ino()),
            Err(why) if why.kind() == ErrorKind::NotFound => None,
            Err(_) => return,
        };
        if self.inode.is_none() {
            self.open_again();
        } else if found.is_none() {
            self.begin_anew("its file was deleted while the daemon ran");
        } else if found != self.inode {
            self.begin_anew("its file was replaced while the daemon ran");
        }
    }

    /// Whether SQLite's log was deleted or replaced: then it takes commits that no reader finds. It is still
    /// open here, so [`Store::close`] moves them into the database; SQLite opens another log only when all
    /// connections of this process are closed.
    pub(crate) fn lost_its_log(&self) -> bool {
        let found = open::log_files(&self.path).map(|file| open::inode(&file));
        let differs =
            |(before, now): (&Option<u64>, &Option<u64>)| before.is_some() && before != now;
        self.inode.is_some() && self.log_inodes.iter().zip(&found).any(differs)
    }

    /// The file is damaged: it is set aside, and a new database begun.
    fn begin_anew(&mut self, why: &str) {
        // SQLite writes to a file that it has open wherever that goes, so it is let go first.
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
        (self.counters).trouble(format!("the database was damaged ({why}); {aside}"));
        self.open_again();
    }

    fn open_again(&mut self) {
        match open(&self.path, now_ms()) {
            Ok(opened) => self.connection = opened.connection,
            Err(why) => {
                error!(%why, "could not begin a new database");
                let what =
                    format!("could not begin a new database ({why}): events go to the spool");
                return self.counters.trouble(what);
            }
        }
        self.inode = open::inode(&self.path);
        self.log_inodes = open::log_files(&self.path).map(|file| open::inode(&file));
        self.retention = Retention::default();
        self.checkpointer = Checkpointer::start(self.path.clone(), &mut self.connection);
        self.began_anew = true;
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use becket_wire::EventId;
    use becket_wire::rpc::Source;
    use tokio::sync::broadcast::error::TryRecvError;

    use super::super::sample::{Home, decision, id, left, masker, record, rows, run, runs_of};
    use super::super::spool::Changed;
    use super::*;

    const LIMITS: Limits = Limits {
        days: 90_000,
        bytes: u64::MAX,
    };

    struct Started {
        home: Home,
        store: Store,
        counters: Arc<Counters>,
        feed: broadcast::Receiver<Arc<EventRow>>,
    }

    fn start() -> Started {
        let home = Home::new();
        let counters = Arc::new(Counters::default());
        let (feed, follows) = broadcast::channel(64);
        let store = Store::new(&home.place, home.open(), feed, Arc::clone(&counters)).unwrap();
        Started {
            home,
            store,
            counters,
            feed: follows,
        }
    }

    fn take_in(store: &mut Store) -> HashSet<i64> {
        while store.take_in(&masker(), &mut |_, _| Changed::default()) == Taken::More {}
        store.pending()
    }

    fn keep(store: &mut Store, record: Record) {
        let (sent, reply) = std::sync::mpsc::channel();
        let then = Box::new(move || sent.send(()).unwrap());
        let events = vec![(Box::new(record), then as Then)];
        let batch = Batch {
            events,
            ..Batch::default()
        };
        drop(store.commit(batch));
        reply.try_recv().expect("a reply");
    }

    fn decide(store: &mut Store, mut record: Record) {
        record.complete();
        keep(store, record);
    }

    /// An event before its hooks run.
    fn held(number: u32) -> Record {
        let mut record = record(number.into(), number);
        record.held = true;
        record
    }

    /// The same when they have.
    fn decided(number: u32) -> Record {
        let mut record = held(number);
        record.took_us = Some(5000);
        record.decision = Some(decision("deny"));
        record.runs = vec![run(number, "lint"), run(number, "test")];
        record
    }

    /// The log says what was decided, and which hooks ran.
    fn is_whole(home: &Home, number: u32) {
        let rows = rows(&home.open());
        assert_eq!(rows.len(), 1, "{rows:?}");
        assert_eq!((rows[0].id, rows[0].took_us), (id(number), Some(5000)));
        let said = rows[0].decision.as_ref().map(|decision| &*decision.answer);
        assert_eq!((said, rows[0].source), (Some("deny"), Source::Daemon));
        assert_eq!(runs_of(&home.open()).len(), 2);
    }

    fn shown(feed: &mut broadcast::Receiver<Arc<EventRow>>) -> Vec<(EventId, bool)> {
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
        let Started {
            home, mut store, ..
        } = start();
        let reader = home.open();
        let events = (1..=50).map(|number| {
            let reader = home.open();
            let then = move || assert_eq!(rows(&reader).len(), 50, "replied too early");
            let record = Box::new(record(number.into(), number));
            (record, Box::new(then) as Then)
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
        let Started {
            home,
            mut store,
            mut feed,
            ..
        } = start();
        keep(&mut store, held(1));
        keep(&mut store, record(2, 2));
        assert_eq!(take_in(&mut store), HashSet::from([1]));
        assert_eq!(shown(&mut feed), [(id(2), false)]);
        decide(&mut store, decided(1));
        assert!(take_in(&mut store).is_empty());
        assert_eq!(shown(&mut feed), [(id(1), true)]);
        // By the spool: as it is then. A late delivery of the same changes nothing.
        home.leave(3, &left(900, None));
        take_in(&mut store);
        keep(&mut store, record(3, 3));
        take_in(&mut store);
        assert_eq!(shown(&mut feed), [(id(3), false)]);
        assert_eq!(rows(&home.open()).len(), 3);
    }

    #[test]
    fn what_the_database_refuses_comes_by_the_spool() {
        for (held_too, taken_in) in [(false, false), (true, false), (true, true)] {
            let Started {
                home,
                mut store,
                counters,
                ..
            } = start();
            refuse(&home, held_too);
            keep(&mut store, held(1));
            refuse(&home, !held_too);
            if taken_in {
                take_in(&mut store);
            }
            decide(&mut store, decided(1));
            assert_eq!(counters.to_spool.get(), 1, "the answer goes out");
            if !held_too {
                refuse(&home, false);
            }
            take_in(&mut store);
            assert_eq!(home.files(), 0);
            is_whole(&home, 1);
        }
    }

    #[test]
    fn what_neither_database_nor_spool_takes_is_counted() {
        let Started {
            home,
            mut store,
            counters,
            ..
        } = start();
        refuse(&home, true);
        fs::remove_dir(home.place.spool()).unwrap();
        fs::write(home.place.spool(), "no folder").unwrap();
        keep(&mut store, held(1));
        decide(&mut store, decided(1));
        assert_eq!(counters.runs_lost.get(), 2);
        assert_eq!(lost::counted(&home.place), 1);
    }

    #[test]
    fn what_standalone_answered_stands_and_the_runs_are_told_all_the_same() {
        let Started {
            home,
            mut store,
            mut feed,
            ..
        } = start();
        keep(&mut store, held(1));
        // The shim waited no longer.
        home.leave(1, &left(900, None));
        take_in(&mut store);
        assert_eq!(shown(&mut feed), [(id(1), false)]);
        decide(&mut store, decided(1));
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
        assert_eq!(shown(&mut feed), []);
    }

    #[test]
    fn a_tick_takes_in_and_keeps_retention() {
        const DAY: i64 = 86_400_000;
        let Started {
            home, mut store, ..
        } = start();
        home.leave(1, &left(900, None));
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
        let Started {
            home,
            mut store,
            counters,
            ..
        } = start();
        keep(&mut store, held(1));
        break_database(&home);
        decide(&mut store, decided(1));
        // The new database has the event whole, although it never saw it before.
        is_whole(&home, 1);
        assert!(store.began_anew());
        let troubles = counters.troubles();
        let (_, aside) = troubles[0].rsplit_once(' ').unwrap();
        assert!(fs::exists(aside).unwrap(), "{troubles:?}");
    }

    #[test]
    fn a_log_that_is_deleted_takes_nothing_with_it() {
        let Started {
            home, mut store, ..
        } = start();
        keep(&mut store, held(1));
        assert!(!store.lost_its_log());
        fs::remove_file(&open::log_files(&store.path)[0]).unwrap();
        keep(&mut store, held(2));
        assert!(store.lost_its_log());
        store.close(true);
        assert_eq!(rows(&home.open()).len(), 2);
    }
}
