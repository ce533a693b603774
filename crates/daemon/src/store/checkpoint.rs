//! Checkpoints on a thread of their own, off the reply's path.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use rusqlite::Connection;
use rusqlite::config::DbConfig;

/// After so many bytes the log is moved into the database, in the background; while nobody writes
/// much, the tick does it long before. Every time costs the writer a few milliseconds, because the
/// disk is busy: with 2 MB here the hundredth answer took three times as long.
const OFTEN: usize = 128 << 20;
/// The same for a log that is to begin anew: it is caught up with.
const TO_THE_END: usize = 2 << 20;
/// A log of so many pages begins anew (128 MB). It does so by itself only when all of it was moved
/// and nobody writes; under constant load the writer has to move the last part itself, and everybody
/// waits for the disk meanwhile (some 30 ms). A log that grows for ever is slow too: a new block on
/// the disk costs many times one that is used again.
const LONG: i64 = 16 << 10;
/// What may be left for the writer to move, in pages.
const LITTLE: i64 = 256;
/// However much is left: a log of so many pages begins anew (512 MB).
const TOO_LONG: i64 = 64 << 10;

enum Order {
    Checkpoint,
    Reopen,
}

/// How far the last checkpoint came, in pages.
#[derive(Debug, Default)]
struct Progress {
    log: AtomicI64,
    left: AtomicI64,
}

#[derive(Debug)]
pub(super) struct Checkpointer {
    orders: Option<SyncSender<Order>>,
    thread: Option<JoinHandle<()>>,
    progress: Arc<Progress>,
    bytes: usize,
}

impl Checkpointer {
    pub(super) fn start(database: PathBuf) -> std::io::Result<Self> {
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
                        if let Some(connection) = &connection {
                            checkpoint(connection, "PASSIVE", &shared);
                        }
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
            bytes: 0,
        })
    }

    /// The writer has committed so many bytes.
    pub(super) fn wrote(&mut self, bytes: usize) {
        self.bytes += bytes;
    }

    /// Whether there is something to look after.
    pub(super) fn has_much(&self) -> bool {
        let long = self.progress.log.load(Ordering::Relaxed) > LONG;
        self.bytes >= if long { TO_THE_END } else { OFTEN }
    }

    /// Has the log moved into the database now and then. It may take a while.
    pub(super) fn look_after(&mut self, writer: &Connection) {
        if !self.has_much() {
            return;
        }
        let (log, left) = (&self.progress.log, &self.progress.left);
        let (log, left) = (log.load(Ordering::Relaxed), left.load(Ordering::Relaxed));
        if log > TOO_LONG || (log > LONG && left < LITTLE) {
            checkpoint(writer, "RESTART", &self.progress);
            // Until something is written, a checkpoint still tells of the old log.
            self.progress.log.store(0, Ordering::Relaxed);
            self.bytes = 0;
            return;
        }
        self.nudge();
    }

    /// Asks for a checkpoint, unless one is on its way.
    pub(super) fn nudge(&mut self) {
        self.bytes = 0;
        if let Some(orders) = &self.orders {
            drop(orders.try_send(Order::Checkpoint));
        }
    }

    /// The database is another file now.
    pub(super) fn reopen(&mut self) {
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

fn checkpoint(connection: &Connection, how: &str, progress: &Progress) {
    let pragma = format!("PRAGMA wal_checkpoint({how})");
    let came = connection.query_row(&pragma, [], |row| {
        Ok((row.get::<_, i64>(1)?, row.get::<_, i64>(2)?))
    });
    if let Ok((log, moved)) = came {
        progress.log.store(log, Ordering::Relaxed);
        progress.left.store(log - moved, Ordering::Relaxed);
    }
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
