//! A full disk, another writer, and a writer that is gone in the middle.

use rusqlite::ffi::SQLITE_FULL;
use rusqlite::{Connection, ErrorCode};

use super::super::held::Held;
use super::super::name;
use super::{Desk, ROOM, after_a_kill, contents};

/// The disk has room for so many writes meanwhile.
fn with_room<R>(writes: u32, work: impl FnOnce() -> R) -> R {
    ROOM.set(writes);
    let done = work();
    ROOM.set(u32::MAX);
    done
}

fn is_full<R>(done: rusqlite::Result<R>) -> bool {
    let code = done.err().and_then(|why| why.sqlite_error_code());
    code == Some(ErrorCode::DiskFull)
}

#[test]
fn a_full_disk_fails_the_commit_and_not_the_next() {
    let desk = Desk::new();
    desk.insert(20);
    let before = contents(&desk.writer);
    let big = "INSERT INTO t (data) VALUES (zeroblob(1000000))";
    for room in 0..4 {
        assert!(is_full(with_room(room, || desk.writer.execute(big, []))));
        assert_eq!(contents(&desk.writer), before);
        desk.is_seen();
    }
    desk.insert(20);
    desk.is_seen();
}

#[test]
fn the_end_of_a_commit_that_failed_is_not_written_later() {
    let mut held = Held::default();
    let head = [1; 24];
    held.write(&head, 32, &mut |_, _| panic!("too early"))
        .unwrap();
    let failed = held.write(&[2; 512], 56, &mut |_, _| Err(SQLITE_FULL));
    assert_eq!(failed, Err(SQLITE_FULL));
    let mut written = Vec::new();
    let mut put = |bytes: &[u8], at| {
        written.push((at, bytes.to_vec()));
        Ok(())
    };
    held.read(0, 100, &mut put).unwrap();
    assert_eq!(written, [(32, head.to_vec())]);
}

#[test]
fn a_full_disk_before_the_commit_fails_it() {
    let desk = Desk::with(name(), "", "PRAGMA cache_size = 1");
    desk.insert(20);
    let before = contents(&desk.writer);
    let spill = "BEGIN; INSERT INTO t (data) SELECT zeroblob(9000) FROM t;
         INSERT INTO t (data) SELECT zeroblob(9000) FROM t;
         INSERT INTO t (data) SELECT zeroblob(9000) FROM t; COMMIT";
    for room in 0..4 {
        assert!(is_full(with_room(room, || desk
            .writer
            .execute_batch(spill))));
        if !desk.writer.is_autocommit() {
            desk.run("ROLLBACK");
        }
        assert_eq!(contents(&desk.writer), before);
        desk.is_seen();
    }
    desk.run(spill);
    desk.is_seen();
}

#[test]
fn a_statement_that_a_full_disk_fails_takes_nothing_along() {
    let desk = Desk::with(name(), "", "PRAGMA cache_size = 1");
    desk.run("BEGIN");
    desk.insert(60);
    desk.run("PRAGMA cache_size = 1000");
    // It has to read what left the cache. Where a mark may be taken, only the statement is undone.
    let marks = "UPDATE t SET mark = 1000 - id, data = zeroblob(2000)";
    assert!(is_full(with_room(0, || desk.writer.execute(marks, []))));
    assert!(!desk.writer.is_autocommit(), "this shows nothing");
    let own = contents(&desk.writer);
    assert_eq!(own.len(), 60);
    desk.run("COMMIT");
    assert_eq!(contents(&desk.writer), own);
    desk.is_seen();
}

#[test]
fn what_was_taken_back_is_not_written_over_what_another_wrote() {
    let desk = Desk::with(name(), "", "PRAGMA cache_size = 1");
    desk.insert(10);
    desk.run("BEGIN");
    desk.insert(15);
    desk.run("ROLLBACK");
    let other = Connection::open(&desk.path).unwrap();
    other
        .execute_batch("UPDATE t SET data = zeroblob(2999)")
        .unwrap();
    let written = contents(&other);
    assert_eq!(contents(&desk.writer), written);
    desk.is_seen();
    desk.insert(10);
    desk.is_seen();
}

#[test]
fn nor_by_whoever_had_the_database_for_itself() {
    let mut desk = Desk::with(name(), "", "PRAGMA cache_size = 1");
    desk.reader = Connection::open_in_memory().unwrap();
    desk.run("PRAGMA locking_mode = exclusive");
    desk.insert(30);
    desk.run("BEGIN");
    desk.insert(15);
    desk.run("ROLLBACK; PRAGMA locking_mode = normal; SELECT count(*) FROM t");
    desk.reader = Connection::open(&desk.path).unwrap();
    let change = "UPDATE t SET data = zeroblob(2999)";
    desk.reader.execute_batch(change).unwrap();
    let written = contents(&desk.reader);
    assert_eq!(contents(&desk.writer), written);
    desk.is_seen();
}

#[test]
fn a_writer_that_is_gone_in_the_middle_leaves_what_it_committed() {
    let desk = Desk::with(name(), "", "PRAGMA cache_size = 1");
    desk.insert(100);
    let committed = contents(&desk.reader);
    desk.run("BEGIN");
    desk.insert(100);
    desk.run("UPDATE t SET data = zeroblob(2999)");
    assert_eq!(after_a_kill(&desk.path), committed);
    assert_eq!(contents(&desk.reader), committed);
    drop(desk.writer);
    let next = Connection::open(&desk.path).unwrap();
    assert_eq!(contents(&next), committed);
}

#[test]
fn a_log_that_cannot_be_opened_is_an_error_and_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("becket.db");
    std::fs::create_dir(folder.path().join("becket.db-wal")).unwrap();
    let open = || {
        let flags = rusqlite::OpenFlags::default();
        let writer = Connection::open_with_flags_and_vfs(&path, flags, name().unwrap())?;
        writer.execute_batch("PRAGMA journal_mode = wal; CREATE TABLE t (x)")
    };
    assert!(open().is_err());
    std::fs::remove_dir(folder.path().join("becket.db-wal")).unwrap();
    open().unwrap();
}
