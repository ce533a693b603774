//! Checkpoints on a thread of their own, off the reply's path.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::hooks::Wal;
use rusqlite::{Connection, InterruptHandle, Row};
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
    /// Where even that leaves so many, whoever writes waits for it, a little each time.
    too_long: i64,
}

const USUAL: Bounds = Bounds {
    long: 32 << 10,
    little: 4 << 10,
    too_long: 96 << 10,
};
/// So many pages from one tick to the next are not much.
const NOT_MUCH: i64 = 1 << 10;
/// Nobody waits longer than a second for an answer.
const MOMENT: Duration = Duration::from_millis(100);
/// So long the file of the log stays when it begins anew; what was longer is given back. Under load it
/// is nearly twice as long as `long` when it does, and to shorten it takes some 40 ms, in which
/// everybody waits.
const KEPT: i64 = 512 << 20;

enum Order {
    Checkpoint,
    Reopen,
}

/// What writer and checkpoints know of the log, in pages.
#[derive(Default)]
struct Log {
    now: Mutex<Now>,
    ended: Condvar,
    /// Breaks off the checkpoint that is on its way.
    breaks_off: Mutex<Option<InterruptHandle>>,
}

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Log")
            .field("now", &self.now)
            .finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Now {
    length: i64,
    moved: i64,
    /// How often it has begun anew: what was moved of another one does not count.
    times: u64,
    /// Somebody was in the way: it is left alone until it is so long.
    until: i64,
    /// A checkpoint is on its way.
    under_way: bool,
    /// The last one left more than too much.
    stuck: bool,
}

impl Now {
    fn left(&self) -> i64 {
        self.length - self.moved
    }

    fn begin_anew(&mut self) {
        *self = Self {
            times: self.times + 1,
            under_way: self.under_way,
            ..Self::default()
        };
    }
}

impl Log {
    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The writer has committed, and it is so long now.
    fn wrote(&self, length: i64) {
        let mut now = self.now();
        if length < now.length {
            now.begin_anew();
        }
        now.length = length;
    }

    /// Moves what can be moved while others write.
    fn move_on(&self, connection: Option<&Connection>, bounds: &Bounds) {
        let times = self.now().times;
        let done = connection.and_then(|connection| checkpoint(connection, "PASSIVE"));
        let mut now = self.now();
        if let Some(done) = done.filter(|_| now.times == times) {
            // Somebody reads what is old already, or writes faster than we move.
            now.stuck = now.length - done.moved > bounds.too_long;
            if done.moved <= now.moved && now.left() >= bounds.little {
                // The next time would move nothing either.
                now.until = now.length + bounds.long;
            }
            now.moved = done.moved;
        }
        now.under_way = false;
        self.ended.notify_all();
    }

    /// Waits a moment for a checkpoint that is on its way. True if it still is.
    fn await_end(&self) -> bool {
        let under_way = |now: &mut Now| now.under_way;
        let waited = self.ended.wait_timeout_while(self.now(), MOMENT, under_way);
        let (now, _) = waited.unwrap_or_else(PoisonError::into_inner);
        now.under_way
    }

    /// The connection that moves it.
    fn connect(&self, database: &Path) -> Option<Connection> {
        let connection = connect(database);
        let breaks_off = connection.as_ref().map(Connection::get_interrupt_handle);
        *self.breaks_off() = breaks_off;
        connection
    }

    fn breaks_off(&self) -> MutexGuard<'_, Option<InterruptHandle>> {
        self.breaks_off
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
pub(super) struct Checkpointer {
    orders: Option<SyncSender<Order>>,
    thread: Option<JoinHandle<()>>,
    log: Arc<Log>,
    bounds: Bounds,
    /// How long the log was at the last tick.
    before: i64,
}

impl Checkpointer {
    pub(super) fn start(database: PathBuf) -> std::io::Result<Self> {
        Self::with_bounds(database, USUAL)
    }

    fn with_bounds(database: PathBuf, bounds: Bounds) -> std::io::Result<Self> {
        let (orders, waiting) = sync_channel(1);
        let log = Arc::new(Log::default());
        let shared = Arc::clone(&log);
        let work = move || {
            step_back();
            let mut connection = shared.connect(&database);
            for order in waiting {
                match order {
                    Order::Reopen => connection = shared.connect(&database),
                    Order::Checkpoint => shared.move_on(connection.as_ref(), &bounds),
                }
            }
        };
        let thread = std::thread::Builder::new()
            .name("checkpoint".into())
            .spawn(work)?;
        Ok(Self {
            orders: Some(orders),
            thread: Some(thread),
            log,
            bounds,
            before: 0,
        })
    }

    /// Has this writer tell how long the log is.
    pub(super) fn watch(&self, writer: &mut Connection) {
        drop(writer.pragma_update(None, "journal_size_limit", KEPT));
        let log = Arc::clone(&self.log);
        let wrote = move |_: &mut Wal, pages| {
            log.wrote(i64::from(pages));
            Ok(())
        };
        if let Err(why) = writer.wal_hook(Some(wrote)) {
            warn!(%why, "nobody tells how long the log is");
        }
    }

    /// Whether there is something to look after.
    pub(super) fn has_much(&self) -> bool {
        let now = self.log.now();
        now.length > self.bounds.long.max(now.until)
    }

    /// Has the log moved into the database now and then. It may take a while.
    pub(super) fn look_after(&mut self, writer: &Connection) {
        if !self.has_much() {
            return;
        }
        let now = *self.log.now();
        // Two checkpoints at once would only be in each other's way.
        if now.under_way {
            if now.length > 2 * self.bounds.too_long {
                // Whoever writes faster than can be moved waits for it, a little each time.
                self.log.await_end();
            }
            return;
        }
        // However long it is: what much there is to move is moved by whom nobody waits for. Here it
        // would take seconds, and nobody would be answered.
        if now.left() >= self.bounds.little {
            self.nudge();
            if now.stuck {
                self.log.await_end();
            }
            return;
        }
        // Who reads is not waited for.
        drop(writer.busy_timeout(Duration::ZERO));
        let done = checkpoint(writer, "RESTART");
        drop(writer.busy_timeout(BUSY));
        let mut now = self.log.now();
        if done.is_some_and(|done| !done.busy) {
            // Until something is written, nobody tells that the log is a new one.
            now.begin_anew();
        } else {
            now.until = now.length + self.bounds.long;
        }
    }

    /// While nobody writes much, the log is moved at every tick. Who writes much is not held up then.
    pub(super) fn tick(&mut self) {
        let now = *self.log.now();
        let grown = now.length - std::mem::replace(&mut self.before, now.length);
        if now.left() > 0 && grown.abs() < NOT_MUCH {
            self.nudge();
        }
    }

    /// Asks for a checkpoint, unless one is on its way.
    pub(super) fn nudge(&mut self) {
        let Some(orders) = &self.orders else { return };
        let mut now = self.log.now();
        now.under_way = now.under_way || orders.try_send(Order::Checkpoint).is_ok();
    }

    /// The database is another file now.
    pub(super) fn reopen(&mut self, writer: &mut Connection) {
        self.log.now().begin_anew();
        self.watch(writer);
        if let Some(orders) = &self.orders {
            drop(orders.send(Order::Reopen));
        }
    }

    /// Ends the thread, in the middle of a checkpoint too: on a busy machine that has no time to end
    /// by itself, and what it leaves the writer or the next daemon moves.
    pub(super) fn end(&mut self) {
        self.orders = None;
        // Where the thread is gone, nobody says that its checkpoint is.
        let lives = |thread: &JoinHandle<()>| !thread.is_finished();
        while self.log.now().under_way && self.thread.as_ref().is_some_and(lives) {
            if let Some(handle) = &*self.log.breaks_off() {
                handle.interrupt();
            }
            if !self.log.await_end() {
                break;
            }
        }
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

/// Whoever waits for an answer comes first, on whatever core is left. To run only when nobody else
/// wants to (`SCHED_IDLE`) would be gentler still, but where all cores are busy the log then grew until
/// the writer had to move a gigabyte itself, for seconds.
fn step_back() {
    #[cfg(target_os = "linux")]
    {
        // On Linux a thread has a priority of its own.
        let this = rustix::thread::gettid();
        let _ = rustix::process::setpriority_process(Some(this), 19);
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
mod tests;
