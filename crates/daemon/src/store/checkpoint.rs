//! Checkpoints on a thread of their own, off the reply's path.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use rusqlite::Connection;

/// After so many bytes the log is moved into the database, in the background.
const OFTEN: usize = 4 << 20;
/// Past this the writer helps, or a log under constant load would grow for ever: it can begin
/// anew only when all of it was moved and nobody writes.
const BOUND: u64 = 256 << 20;

enum Order {
    Checkpoint,
    Reopen,
}

#[derive(Debug)]
pub(super) struct Checkpointer {
    orders: Option<SyncSender<Order>>,
    thread: Option<JoinHandle<()>>,
    log: PathBuf,
    bytes: usize,
}

impl Checkpointer {
    pub(super) fn start(database: PathBuf) -> std::io::Result<Self> {
        let (orders, waiting) = sync_channel(1);
        let mut log = database.clone().into_os_string();
        log.push("-wal");
        let thread = std::thread::Builder::new()
            .name("checkpoint".into())
            .spawn(move || {
                let mut connection = connect(&database);
                for order in waiting {
                    match order {
                        Order::Reopen => connection = connect(&database),
                        Order::Checkpoint => {
                            if let Some(connection) = &connection {
                                drop(connection.query_row(
                                    "PRAGMA wal_checkpoint(PASSIVE)",
                                    [],
                                    |_| Ok(()),
                                ));
                            }
                        }
                    }
                }
            })?;
        Ok(Self {
            orders: Some(orders),
            thread: Some(thread),
            log: log.into(),
            bytes: 0,
        })
    }

    /// The writer has committed so many bytes.
    pub(super) fn wrote(&mut self, bytes: usize, writer: &Connection) {
        self.bytes += bytes;
        if self.bytes < OFTEN {
            return;
        }
        self.nudge();
        if std::fs::metadata(&self.log).is_ok_and(|meta| meta.len() > BOUND) {
            drop(writer.query_row("PRAGMA wal_checkpoint(RESTART)", [], |_| Ok(())));
        }
    }

    /// Asks for a checkpoint, unless one is on its way.
    pub(super) fn nudge(&mut self) {
        self.bytes = 0;
        self.order(Order::Checkpoint);
    }

    /// The database is another file now.
    pub(super) fn reopen(&mut self) {
        if let Some(orders) = &self.orders {
            drop(orders.send(Order::Reopen));
        }
    }

    fn order(&self, order: Order) {
        if let Some(orders) = &self.orders {
            drop(orders.try_send(order));
        }
    }

    pub(super) fn end(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
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
    Some(connection)
}
