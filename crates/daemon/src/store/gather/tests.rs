//! What is committed through our VFS, anybody else reads at once, and a kill takes none of it.

mod alike;
mod trouble;

use std::cell::Cell;
use std::path::{Path, PathBuf};

use rusqlite::ffi::SQLITE_FULL;
use rusqlite::{Connection, OpenFlags};
use tempfile::TempDir;

use super::held::Written;

thread_local! {
    static WRITES: Cell<u32> = const { Cell::new(0) };
    /// After so many writes the disk is full.
    static ROOM: Cell<u32> = const { Cell::new(u32::MAX) };
}

/// Called before each write to the log's real file.
pub(super) fn before_write() -> Written {
    WRITES.set(WRITES.get() + 1);
    let left = ROOM.get().checked_sub(1).ok_or(SQLITE_FULL)?;
    ROOM.set(left);
    Ok(())
}

/// How often the log is written to meanwhile.
fn writes(work: impl FnOnce()) -> u32 {
    let before = WRITES.get();
    work();
    WRITES.get() - before
}

/// A database that is written through our VFS, and read through the usual one.
struct Desk {
    writer: Connection,
    reader: Connection,
    path: PathBuf,
    _folder: TempDir,
}

impl Desk {
    fn new() -> Self {
        Self::with(super::name(), "", "")
    }

    fn with(vfs: Option<&std::ffi::CStr>, query: &str, pragmas: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("becket.db");
        let uri = format!("file:{}{query}", path.display());
        let flags = OpenFlags::default();
        let writer = match vfs {
            Some(vfs) => Connection::open_with_flags_and_vfs(uri, flags, vfs).unwrap(),
            None => Connection::open_with_flags(uri, flags).unwrap(),
        };
        let begin = "PRAGMA journal_mode = wal; PRAGMA synchronous = normal;
             PRAGMA wal_autocheckpoint = 0;
             CREATE TABLE t (id INTEGER PRIMARY KEY, data BLOB, mark UNIQUE)";
        writer.execute_batch(&format!("{pragmas};{begin}")).unwrap();
        Self {
            writer,
            reader: Connection::open(&path).unwrap(),
            path,
            _folder: folder,
        }
    }

    fn run(&self, sql: &str) {
        self.writer.execute_batch(sql).unwrap();
    }

    /// So many rows of 3000 bytes.
    fn insert(&self, rows: u32) {
        let insert = "INSERT INTO t (data) WITH RECURSIVE n (i) AS
             (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT ?1) SELECT zeroblob(3000) FROM n";
        self.writer.execute(insert, [rows]).unwrap();
    }

    /// Fails unless everybody sees the same, be it by the wal-index or by the log alone.
    fn is_seen(&self) {
        let own = contents(&self.writer);
        assert!(contents(&self.reader) == own, "others read something else");
        assert!(after_a_kill(&self.path) == own, "a kill changes something");
    }
}

type Row = (i64, Vec<u8>, Option<i64>);

fn contents(connection: &Connection) -> Vec<Row> {
    let mut asked = connection
        .prepare_cached("SELECT id, data, mark FROM t ORDER BY id")
        .unwrap();
    let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    asked
        .query_map([], row)
        .unwrap()
        .map(Result::unwrap)
        .collect()
}

/// What the next daemon finds: the files as they lie there, but for the wal-index.
fn after_a_kill(path: &Path) -> Vec<Row> {
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("becket.db");
    for part in ["", "-wal"] {
        let named = |path: &Path| format!("{}{part}", path.display());
        std::fs::copy(named(path), named(&copy)).unwrap();
    }
    let connection = Connection::open(copy).unwrap();
    let found: String = connection
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .unwrap();
    assert_eq!(found, "ok");
    contents(&connection)
}

#[test]
fn a_commit_is_one_write() {
    let desk = Desk::new();
    assert!(writes(|| desk.insert(1)) > 0);
    assert_eq!(writes(|| desk.insert(1)), 1);
    assert_eq!(writes(|| desk.insert(20)), 1);
    // SQLite writes no more than 128 KB at once.
    assert_eq!(writes(|| desk.insert(200)), 7);
    desk.is_seen();
}

#[test]
fn the_usual_writer_gathers() {
    let home = super::super::sample::Home::new();
    let connection = home.open();
    connection.execute_batch("CREATE TABLE t (x)").unwrap();
    let insert = || {
        connection
            .execute_batch("INSERT INTO t VALUES (zeroblob(70000))")
            .unwrap();
    };
    assert_eq!(writes(insert), 1);
}

#[test]
fn what_is_committed_is_seen_at_once() {
    let desk = Desk::new();
    for rows in [1, 2, 10, 40, 41, 42, 43, 44, 100, 1000, 1] {
        desk.insert(rows);
        desk.is_seen();
    }
}

#[test]
fn what_leaves_a_small_cache_early_is_seen_when_it_is_committed() {
    let desk = Desk::with(super::name(), "", "PRAGMA cache_size = 1");
    let seen = contents(&desk.reader);
    desk.run("BEGIN");
    desk.insert(300);
    // Pages that are in the log by now: their checksums have to be written again.
    desk.run("UPDATE t SET data = zeroblob(2999) WHERE id % 3 = 0");
    desk.run("UPDATE t SET data = zeroblob(2998) WHERE id % 5 = 0");
    assert_eq!(contents(&desk.reader), seen);
    desk.run("COMMIT");
    desk.is_seen();
    desk.insert(1);
    desk.is_seen();
}

#[test]
fn what_was_taken_back_leaves_nothing() {
    let desk = Desk::with(super::name(), "", "PRAGMA cache_size = 1");
    desk.insert(10);
    desk.run("BEGIN");
    desk.insert(300);
    desk.run("ROLLBACK");
    desk.is_seen();
    desk.insert(20);
    desk.is_seen();
    desk.run("BEGIN");
    desk.insert(50);
    desk.run("SAVEPOINT one");
    desk.insert(100);
    desk.run("UPDATE t SET data = zeroblob(2999) WHERE id % 3 = 0");
    desk.run("ROLLBACK TO one");
    desk.insert(30);
    desk.run("COMMIT");
    desk.is_seen();
    // It gathers again.
    desk.run("PRAGMA cache_size = 1000");
    desk.insert(1);
    assert_eq!(writes(|| desk.insert(20)), 1);
}

#[test]
fn a_log_that_begins_anew_is_gathered_too() {
    let desk = Desk::new();
    for how in ["PASSIVE", "FULL", "RESTART", "TRUNCATE"] {
        desk.insert(100);
        let checkpoint = format!("PRAGMA wal_checkpoint({how})");
        let busy: i64 = desk
            .writer
            .query_row(&checkpoint, [], |row| row.get(0))
            .unwrap();
        assert_eq!(busy, 0);
        desk.is_seen();
        desk.insert(20);
        desk.is_seen();
        assert_eq!(writes(|| desk.insert(20)), 1);
        desk.is_seen();
    }
}

#[test]
fn a_database_may_do_without_a_log_for_a_while() {
    let mut desk = Desk::new();
    desk.insert(20);
    desk.reader = Connection::open_in_memory().unwrap();
    desk.run("PRAGMA journal_mode = delete");
    desk.insert(20);
    desk.run("PRAGMA journal_mode = wal");
    desk.reader = Connection::open(&desk.path).unwrap();
    desk.insert(1);
    desk.is_seen();
    assert_eq!(writes(|| desk.insert(20)), 1);
}
