//! Checkpoints on a thread of their own, off the reply's path.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::hooks::Wal;
use rusqlite::{Connection, Row};
use tracing::warn;

use super::open::BUSY;

/// How long the log may be, in pages of 8 KB.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    /// A log of so many is moved into the database, in the background, and begins anew; while nobody
    /// writes much, it is moved long before. Every time costs the writer a few milliseconds, because
    /// the disk is busy: with 2 MB here the hundredth answer took three times as long. A log that
    /// grows for ever is slow too: a new block on the disk costs many times one that is used again.
    long: i64,
    /// What may be left for the writer to move. A log begins anew by itself only when all of it was
    /// moved and nobody writes; under constant load the writer has to move the last part itself, and
    /// everybody waits for the disk meanwhile. So it is caught up with first, pass by pass.
    little: i64,
    /// However much is left, and whoever has to wait: a log of so many begins anew.
    too_long: i64,
}

const USUAL: Bounds = Bounds {
    long: 32 << 10,
    little: 4 << 10,
    too_long: 96 << 10,
};
/// So many pages from one tick to the next are not much.
const NOT_MUCH: i64 = 1 << 10;

enum Order {
    Checkpoint,
    Reopen,
}

/// How long the log is, and how much of it was moved: in pages.
#[derive(Debug, Default)]
struct Progress {
    log: AtomicI64,
    moved: AtomicI64,
    /// A checkpoint is on its way.
    under_way: Mutex<bool>,
    ended: Condvar,
}

impl Progress {
    fn log(&self) -> i64 {
        self.log.load(Ordering::Relaxed)
    }

    fn left(&self) -> i64 {
        self.log() - self.moved.load(Ordering::Relaxed)
    }

    fn under_way(&self) -> MutexGuard<'_, bool> {
        self.under_way
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self) {
        *self.under_way() = false;
        self.ended.notify_all();
    }

    fn await_end(&self) {
        let under_way = self.under_way();
        drop(self.ended.wait_timeout_while(under_way, BUSY, |it| *it));
    }

    /// The writer has committed, and the log is so long now.
    fn wrote(&self, log: i64) {
        if self.log.swap(log, Ordering::Relaxed) > log {
            // It has begun anew.
            self.moved.store(0, Ordering::Relaxed);
        }
    }
}

#[derive(Debug)]
pub(super) struct Checkpointer {
    orders: Option<SyncSender<Order>>,
    thread: Option<JoinHandle<()>>,
    progress: Arc<Progress>,
    bounds: Bounds,
    /// Somebody read the log when it should have begun anew: it is left alone until it is so long.
    until: i64,
    /// How long the log was at the last tick.
    before: i64,
}

impl Checkpointer {
    pub(super) fn start(database: PathBuf) -> std::io::Result<Self> {
        Self::with_bounds(database, USUAL)
    }

    fn with_bounds(database: PathBuf, bounds: Bounds) -> std::io::Result<Self> {
        let (orders, waiting) = sync_channel(1);
        let progress = Arc::new(Progress::default());
        let shared = Arc::clone(&progress);
        let work = move || {
            step_back();
            let mut connection = connect(&database);
            for order in waiting {
                match order {
                    Order::Reopen => connection = connect(&database),
                    Order::Checkpoint => {
                        let moved = connection.as_ref().and_then(|it| checkpoint(it, "PASSIVE"));
                        if let Some(done) = moved {
                            shared.moved.store(done.moved, Ordering::Relaxed);
                        }
                        shared.end();
                    }
                }
            }
        };
        let thread = std::thread::Builder::new()
            .name("checkpoint".into())
            .spawn(work)?;
        Ok(Self {
            orders: Some(orders),
            thread: Some(thread),
            progress,
            bounds,
            until: 0,
            before: 0,
        })
    }

    /// Has this writer tell how long the log is.
    pub(super) fn watch(&self, writer: &mut Connection) {
        let progress = Arc::clone(&self.progress);
        let wrote = move |_: &mut Wal, pages| {
            progress.wrote(i64::from(pages));
            Ok(())
        };
        if let Err(why) = writer.wal_hook(Some(wrote)) {
            warn!(%why, "nobody tells how long the log is");
        }
    }

    /// Whether there is something to look after.
    pub(super) fn has_much(&self) -> bool {
        self.progress.log() > self.bounds.long.max(self.until)
    }

    /// Has the log moved into the database now and then. It may take a while.
    pub(super) fn look_after(&mut self, writer: &Connection) {
        if !self.has_much() {
            return;
        }
        // Two at once would only be in each other's way.
        let too_long = self.progress.log() > self.bounds.too_long;
        if too_long {
            self.progress.await_end();
        } else if *self.progress.under_way() {
            return;
        }
        if !too_long && self.progress.left() >= self.bounds.little {
            return self.nudge();
        }
        // Who reads is not waited for.
        drop(writer.busy_timeout(Duration::ZERO));
        let done = checkpoint(writer, "RESTART");
        drop(writer.busy_timeout(BUSY));
        if done.is_some_and(|done| !done.busy) {
            // Until something is written, nobody tells that the log is a new one.
            self.progress.wrote(0);
            self.until = 0;
        } else {
            self.until = self.progress.log() + self.bounds.long;
        }
    }

    /// While nobody writes much, the log is moved at every tick. Who writes much is not held up then.
    pub(super) fn tick(&mut self) {
        let log = self.progress.log();
        let grown = log - std::mem::replace(&mut self.before, log);
        if self.progress.left() > 0 && grown.abs() < NOT_MUCH {
            self.nudge();
        }
    }

    /// Asks for a checkpoint, unless one is on its way.
    pub(super) fn nudge(&mut self) {
        let Some(orders) = &self.orders else { return };
        let mut under_way = self.progress.under_way();
        *under_way = *under_way || orders.try_send(Order::Checkpoint).is_ok();
    }

    /// The database is another file now.
    pub(super) fn reopen(&mut self, writer: &mut Connection) {
        self.progress.wrote(0);
        self.watch(writer);
        if let Some(orders) = &self.orders {
            drop(orders.send(Order::Reopen));
        }
    }

    pub(super) fn end(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

/// Whoever waits for an answer comes first, on whatever core is left.
fn step_back() {
    #[cfg(target_os = "linux")]
    {
        // On Linux a thread has a priority of its own.
        let this = rustix::thread::gettid();
        let _ = rustix::process::setpriority_process(Some(this), 15);
    }
}

/// What a checkpoint did.
struct Done {
    /// Somebody was in the way.
    busy: bool,
    /// So many pages of the log are in the database.
    moved: i64,
}

fn checkpoint(connection: &Connection, how: &str) -> Option<Done> {
    let pragma = format!("PRAGMA wal_checkpoint({how})");
    let read = |row: &Row<'_>| {
        Ok(Done {
            busy: row.get::<_, i64>(0)? != 0,
            moved: row.get(2)?,
        })
    };
    connection.query_row(&pragma, [], read).ok()
}

fn connect(database: &Path) -> Option<Connection> {
    let connection = Connection::open(database).ok()?;
    connection
        .pragma_update(None, "wal_autocheckpoint", 0)
        .ok()?;
    connection
        .pragma_update(None, "synchronous", "normal")
        .ok()?;
    connection.pragma_update(None, "cache_size", -256).ok()?;
    connection
        .set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)
        .ok()?;
    Some(connection)
}

#[cfg(test)]
mod tests {
    use super::super::open;
    use super::*;

    const BOUNDS: Bounds = Bounds {
        long: 64,
        little: 16,
        too_long: 256,
    };

    struct Log {
        folder: tempfile::TempDir,
        writer: Connection,
        checkpointer: Checkpointer,
    }

    impl Log {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("becket.db");
            let mut writer = open(&path, 0).unwrap().connection;
            writer.execute_batch("CREATE TABLE t (x BLOB)").unwrap();
            let checkpointer = Checkpointer::with_bounds(path, BOUNDS).unwrap();
            checkpointer.watch(&mut writer);
            Self {
                folder,
                writer,
                checkpointer,
            }
        }

        fn write(&mut self) {
            self.writer
                .execute("INSERT INTO t VALUES (zeroblob(20000))", [])
                .unwrap();
            self.checkpointer.look_after(&self.writer);
        }

        fn pages(&self) -> i64 {
            self.checkpointer.progress.log()
        }

        /// Writes until the log begins anew; gives how long it was then.
        fn write_until_anew(&mut self) -> i64 {
            loop {
                let before = self.pages();
                self.write();
                if self.pages() < before {
                    return before;
                }
                assert!(before < 16 * BOUNDS.too_long, "it never began anew");
            }
        }
    }

    #[test]
    fn a_log_that_is_written_all_the_time_begins_anew() {
        let mut log = Log::new();
        for _ in 0..10 {
            let was = log.write_until_anew();
            assert!(was > BOUNDS.long, "{was}");
        }
        let wal = log.folder.path().join("becket.db-wal");
        let pages = std::fs::metadata(wal).unwrap().len() / 8192;
        assert!(pages < 2 * BOUNDS.too_long as u64, "{pages}");
    }

    #[test]
    fn a_reader_delays_that_and_holds_nobody() {
        let mut log = Log::new();
        let reader = open::open_to_read(&log.folder.path().join("becket.db"));
        let reader = reader.unwrap().unwrap();
        log.write();
        reader
            .execute_batch("BEGIN; SELECT count(*) FROM t")
            .unwrap();
        while log.checkpointer.until < BOUNDS.too_long {
            log.write();
        }
        reader.execute_batch("COMMIT").unwrap();
        let was = log.write_until_anew();
        assert!(was > BOUNDS.too_long, "{was}");
        assert_eq!(log.checkpointer.until, 0);
    }

    #[test]
    fn who_writes_little_has_it_moved_at_a_tick() {
        let mut log = Log::new();
        log.write();
        while log.checkpointer.progress.left() > 0 {
            log.checkpointer.tick();
            std::thread::yield_now();
        }
        assert!(log.pages() > 0);
    }
}
