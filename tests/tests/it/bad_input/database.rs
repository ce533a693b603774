//! A database that is damaged, or from the future.

use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::path::PathBuf;

use becket_tests::wait::until;
use becket_tests::world::World;

use super::{BOUND, doctor_says, numbered, numbers, send};

/// Where SQLite keeps `user_version`.
const VERSION_AT: u64 = 60;

/// The databases that were set aside.
fn set_aside(world: &World) -> Vec<PathBuf> {
    let entries = fs::read_dir(&world.becket_home).expect("a home").flatten();
    let is_aside = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("becket.db.damaged-") && !name.ends_with("-wal") && !name.ends_with("-shm")
    };
    entries.map(|entry| entry.path()).filter(is_aside).collect()
}

/// Work goes on with a new database, the old one is kept, and a person can see it.
fn began_anew(world: &World) -> PathBuf {
    let aside = set_aside(world);
    assert_eq!(aside.len(), 1, "{aside:?}");
    let status = world.status();
    let troubles = status["troubles"].to_string();
    assert!(
        troubles.contains("damaged") && troubles.contains("set aside as"),
        "{status}"
    );
    doctor_says(world, "warning", "a damaged database was set aside as");
    doctor_says(world, "warning", "it was set aside as");
    aside[0].clone()
}

#[test]
fn a_file_that_is_no_database_is_set_aside() {
    let world = super::registered();
    fs::create_dir_all(&world.becket_home).expect("a home");
    let garbage = "this was a shopping list ".repeat(1000);
    fs::write(world.path("becket.db"), &garbage).expect("a file");
    for n in 1..=3 {
        let called = send(&world, numbered(n).as_bytes());
        assert!(called.is_silent() && called.stderr.is_empty(), "{called:?}");
    }
    assert_eq!(numbers(&world), [1, 2, 3]);
    assert_eq!(
        fs::read_to_string(began_anew(&world)).expect("a file"),
        garbage
    );
}

#[test]
fn a_database_that_was_cut_is_set_aside() {
    let world = super::registered();
    for n in 1..=3 {
        assert!(send(&world, numbered(n).as_bytes()).is_silent());
    }
    world.run(&["daemon", "stop"]);
    let database = File::options()
        .write(true)
        .open(world.path("becket.db"))
        .expect("a database");
    database.set_len(4096).expect("a cut");
    drop(database);
    assert!(send(&world, numbered(4).as_bytes()).is_silent());
    assert_eq!(numbers(&world), [4]);
    began_anew(&world);
}

/// Writes garbage over everything but the first page.
fn damage(world: &World) {
    let path = world.path("becket.db");
    let len = fs::metadata(&path).expect("a database").len();
    assert!(len > 8192, "only {len} bytes are in the database itself");
    let mut file = File::options().write(true).open(path).expect("a database");
    file.seek(SeekFrom::Start(4096)).expect("a place");
    file.write_all(&vec![0xa5; usize::try_from(len - 4096).expect("a size")])
        .expect("garbage");
}

#[test]
fn a_database_that_is_damaged_in_its_middle_is_set_aside() {
    let world = super::registered();
    for n in 1..=3 {
        assert!(send(&world, numbered(n).as_bytes()).is_silent());
    }
    world.run(&["daemon", "stop"]);
    damage(&world);
    assert!(send(&world, numbered(4).as_bytes()).is_silent());
    assert_eq!(numbers(&world), [4]);
    began_anew(&world);
}

#[test]
fn a_database_that_is_damaged_under_the_daemon_is_set_aside() {
    let world = super::registered();
    // Enough that the daemon cannot have all of it in its memory.
    for n in 1..=3 {
        assert!(send(&world, numbered(n).as_bytes()).is_silent());
    }
    // What was written so far is in the file itself, not in the log beside it.
    world.run(&["daemon", "stop"]);
    let pid = world.start_daemon();
    damage(&world);
    for n in 4..=6 {
        let called = send(&world, numbered(n).as_bytes());
        assert!(called.is_silent() && called.stderr.is_empty(), "{called:?}");
    }
    // Whoever finds the damage first, writer or reader: what comes after it is kept.
    let _maybe_told = world.output(&["events"]);
    for n in 7..=9 {
        let called = send(&world, numbered(n).as_bytes());
        assert!(called.is_silent() && called.stderr.is_empty(), "{called:?}");
    }
    let found = numbers(&world);
    assert!(found.ends_with(&[7, 8, 9]), "{found:?}");
    assert_eq!(world.daemon_pid(), Some(pid));
    began_anew(&world);
}

#[test]
fn a_database_from_the_future_is_left_alone() {
    let world = super::registered();
    assert!(send(&world, numbered(1).as_bytes()).is_silent());
    world.run(&["daemon", "stop"]);
    let path = world.path("becket.db");
    let mut database = File::options().write(true).open(&path).expect("a database");
    database.seek(SeekFrom::Start(VERSION_AT)).expect("a place");
    database.write_all(&99u32.to_be_bytes()).expect("a version");
    drop(database);
    let before = fs::read(&path).expect("a database");
    for n in 2..=3 {
        let called = send(&world, numbered(n).as_bytes());
        assert!(called.is_silent() && called.stderr.is_empty(), "{called:?}");
    }
    // The one that was tried says why, and goes.
    let gone = until(BOUND, || world.daemon_pid().is_none().then_some(()));
    assert!(
        gone.is_some(),
        "a daemon runs on a database from the future"
    );
    let output = world.output(&["daemon", "start"]);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        stderr.contains("is of version 99, newer than this becket's"),
        "{stderr}"
    );
    // It may be read, and what waits in the spool with it.
    assert_eq!(numbers(&world), [1, 2, 3]);
    doctor_says(
        &world,
        "broken",
        "is of version 99, newer than this becket's",
    );
    assert!(
        fs::read(&path).expect("a database") == before,
        "it was written to"
    );
    assert!(set_aside(&world).is_empty());
}
