//! Checkpoints: a separate thread moves SQLite's log into the database, so that no reply waits for it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::config::DbConfig;
use rusqlite::hooks::Wal;
use tracing::warn;

use super::open::WRITER_BUSY;

/// The number of pages (64 MB) from which on the log is restarted. Under constant load SQLite never restarts it.
const RESTART_AT: i64 = 16 << 10;
/// The number of pages (8 MB) that the writer moves itself at most. The thread moves the others first.
const MAX_BY_WRITER: i64 = 2 << 10;

/// The size of SQLite's log, in pages.
#[derive(Debug, Default)]
struct WalSize {
    length: AtomicI64,
    /// The number of pages that are in the database already.
    moved: AtomicI64,
}

impl WalSize {
    /// Sets the length after a commit. A shorter log was restarted.
    fn set_length(&self, length: i64) {
        if length < self.length.swap(length, Relaxed) {
            self.moved.store(0, Relaxed);
        }
    }

    fn left(&self) -> i64 {
        self.length.load(Relaxed) - self.moved.load(Relaxed)
    }
}

#[derive(Debug)]
pub(super) struct Checkpointer {
    wake: SyncSender<()>,
    log: Arc<WalSize>,
    /// The length of the log at which the next `RESTART` is tried. A reader blocked the last one.
    next_restart: i64,
}

impl Checkpointer {
    /// Starts the thread. It ends when the `Checkpointer` is dropped.
    pub(super) fn start(database: PathBuf, writer: &mut Connection) -> Self {
        let log = Arc::new(WalSize::default());
        let (watched, moving) = (Arc::clone(&log), Arc::clone(&log));
        let (wake, woken) = sync_channel(1);
        let thread = std::thread::Builder::new()
            .name("checkpoint".into())
            .spawn(move || {
                let Ok(connection) = connect(&database) else {
                    return;
                };
                for () in woken {
                    // If the log is shorter now, it was restarted meanwhile, and `moved` is of the old one.
                    if let Ok((_, length, moved)) = checkpoint(&connection, "PASSIVE")
                        && length <= moving.length.load(Relaxed)
                    {
                        moving.moved.store(moved, Relaxed);
                    }
                }
            });
        if let Err(why) = thread {
            warn!(%why, "could not start the thread for checkpoints");
        }
        let hooked = writer.wal_hook(Some(move |_: &mut Wal, pages| {
            watched.set_length(i64::from(pages));
            Ok(())
        }));
        if let Err(why) = hooked {
            warn!(%why, "the length of the log is not known");
        }
        Self {
            wake,
            log,
            next_restart: 0,
        }
    }

    /// Moves a long log into the database after a commit, and restarts the log once little is left to move.
    pub(super) fn after_commit(&mut self, writer: &Connection) {
        let length = self.log.length.load(Relaxed);
        if length < RESTART_AT.max(self.next_restart) {
            return;
        }
        if self.log.left() >= MAX_BY_WRITER {
            return self.wake_thread();
        }
        // Do not wait for readers.
        drop(writer.busy_timeout(Duration::ZERO));
        let restarted = checkpoint(writer, "RESTART").is_ok_and(|(busy, ..)| !busy);
        drop(writer.busy_timeout(WRITER_BUSY));
        self.next_restart = if restarted { 0 } else { length + RESTART_AT };
        if restarted {
            self.log.set_length(0);
        }
    }

    /// Wakes the thread if there are pages to move.
    pub(super) fn wake_thread(&self) {
        if self.log.left() > 0 {
            let _ = self.wake.try_send(());
        }
    }
}

/// Runs a checkpoint. Returns true if a reader or writer blocked it, then the pages of the log, and the pages
/// that are in the database.
fn checkpoint(connection: &Connection, mode: &str) -> rusqlite::Result<(bool, i64, i64)> {
    connection.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |row| {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?))
    })
}

fn connect(database: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(database)?;
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    connection.pragma_update(None, "synchronous", "normal")?;
    connection.pragma_update(None, "cache_size", -256)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    Ok(connection)
}
