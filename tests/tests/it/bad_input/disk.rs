//! A disk that is full or read-only, a damaged database, spool files that are no events.

use std::fs::{self, File};
use std::io::{ErrorKind, Seek, SeekFrom, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

use becket_tests::skip::{Unavailable, skip};
use becket_tests::wait::{PATIENCE, until};
use becket_tests::world::World;
use rustix::mount::{MountFlags, UnmountFlags, mount, mount_remount, unmount};
use serde_json::Value;

use super::{BOUND, alone, call, doctor_says, numbered, numbers, send};

/// A small file system of its own on the becket home. It is taken away with the daemon on it, also
/// when the test fails.
struct Disk<'a> {
    world: &'a World,
}

impl<'a> Disk<'a> {
    /// None, and said so, where this machine lets nobody mount.
    fn mount(world: &'a World, test: &str) -> Option<Self> {
        let made = fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&world.becket_home);
        made.expect("a home");
        let mounted = mount(
            "tmpfs",
            &world.becket_home,
            "tmpfs",
            MountFlags::empty(),
            c"size=2m,mode=0700",
        );
        match mounted {
            Ok(()) => Some(Self { world }),
            Err(why) => {
                let why = Unavailable::new(format!("no file system can be mounted: {why}"));
                skip(&format!("bad_input::disk::{test}"), &why);
                None
            }
        }
    }

    /// Writes until nothing more goes in.
    fn fill(&self) {
        let mut ballast = File::create(self.world.path("ballast")).expect("a file");
        for size in [64 << 10, 4 << 10, 1] {
            let block = vec![b'x'; size];
            let full = loop {
                match ballast.write_all(&block) {
                    Ok(()) => {}
                    Err(why) => break why,
                }
            };
            assert_eq!(full.kind(), ErrorKind::StorageFull);
        }
    }

    fn make_room(&self) {
        fs::remove_file(self.world.path("ballast")).expect("a file");
    }

    fn forbid_writing(&self) {
        // A daemon that has let go of its lock may still be closing its other files.
        let home = &self.world.becket_home;
        let forbidden = until(PATIENCE, || {
            mount_remount(home, MountFlags::RDONLY, c"").ok()
        });
        assert!(forbidden.is_some(), "somebody still writes");
    }

    fn allow_writing(&self) {
        mount_remount(&self.world.becket_home, MountFlags::empty(), c"").expect("writable");
    }
}

impl Drop for Disk<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.world.kill_daemon();
        }
        self.world.signal_daemon(rustix::process::Signal::KILL);
        if let Err(why) = unmount(&self.world.becket_home, UnmountFlags::DETACH) {
            eprintln!(
                "could not unmount {}: {why}",
                self.world.becket_home.display()
            );
        }
    }
}

/// Sends events from the second on, and gives the number of the last and the counts then: the database
/// uses the room that it has before it takes nothing more.
fn until_one_is_in_memory(world: &World) -> (u32, Value) {
    let mut sent = 1;
    loop {
        sent += 1;
        let called = send(world, numbered(sent).as_bytes());
        assert!(called.is_silent() && called.stderr.is_empty(), "{called:?}");
        let counts = world.status()["counts"].clone();
        if counts["in_memory"] != 0 {
            return (sent, counts);
        }
        assert!(sent < 200, "a full disk takes everything: {counts}");
    }
}

#[test]
fn events_wait_in_memory_while_the_disk_is_full() {
    let world = super::registered();
    let Some(disk) = Disk::mount(&world, "events_wait_in_memory_while_the_disk_is_full") else {
        return;
    };
    world.start_daemon();
    assert!(send(&world, numbered(1).as_bytes()).is_silent());
    disk.fill();
    let (sent, counts) = until_one_is_in_memory(&world);
    assert_eq!(
        (&counts["lost"], &counts["to_spool"]),
        (&0.into(), &0.into())
    );
    doctor_says(&world, "broken", "event(s) are only in memory");
    let stopped = world
        .becket(["daemon", "stop"])
        .output()
        .expect("becket runs");
    let said = String::from_utf8_lossy(&stopped.stderr);
    assert_eq!(stopped.status.code(), Some(1), "{said}");
    assert!(said.contains("would be lost"), "{said}");
    doctor_says(&world, "broken", "nothing can be written to");
    let all: Vec<u32> = (1..=sent).collect();
    let kept = numbers(&world);
    assert!(kept.len() < all.len() && all.starts_with(&kept), "{kept:?}");
    disk.make_room();
    assert_eq!(numbers(&world), all, "a reader gets them in");
    assert_eq!(world.status()["counts"]["in_memory"], 0);
}

#[test]
fn a_full_disk_without_a_daemon_leaves_no_halves() {
    let world = World::new();
    let Some(disk) = Disk::mount(&world, "a_full_disk_without_a_daemon_leaves_no_halves") else {
        return;
    };
    assert!(call(alone(&world), numbered(1).as_bytes(), BOUND).is_silent());
    disk.fill();
    let called = call(alone(&world), numbered(2).as_bytes(), BOUND);
    assert!(
        called.is_silent() && called.stderr.contains("the event is not kept"),
        "{called:?}"
    );
    let spool = fs::read_dir(world.path("spool")).expect("a spool");
    assert_eq!(spool.count(), 1);
    disk.make_room();
    assert_eq!(numbers(&world), [1]);
}

#[test]
fn a_read_only_home_disturbs_nobody_and_can_be_read() {
    let world = super::registered();
    let Some(disk) = Disk::mount(&world, "a_read_only_home_disturbs_nobody_and_can_be_read") else {
        return;
    };
    world.start_daemon();
    assert!(send(&world, numbered(1).as_bytes()).is_silent());
    world.run(&["daemon", "stop"]);
    assert!(call(alone(&world), numbered(2).as_bytes(), BOUND).is_silent());
    disk.forbid_writing();
    for shim in [world.shim("PreToolUse"), alone(&world)] {
        let called = call(shim, numbered(3).as_bytes(), BOUND);
        assert!(called.is_silent(), "{called:?}");
        assert!(
            called.stderr.contains("the event is not kept"),
            "{called:?}"
        );
        assert!(
            called.stderr.contains("Read-only file system"),
            "{called:?}"
        );
    }
    assert_eq!(numbers(&world), [1, 2], "database and spool can be read");
    doctor_says(&world, "broken", "nothing can be written to");
    disk.allow_writing();
    assert!(send(&world, numbered(4).as_bytes()).is_silent());
    assert_eq!(numbers(&world), [1, 2, 4]);
}

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

fn spooled(world: &World) -> Vec<PathBuf> {
    let entries = fs::read_dir(world.path("spool"))
        .expect("a spool")
        .flatten();
    let mut files: Vec<_> = entries
        .map(|entry| entry.path())
        .filter(|path| path.is_file())
        .collect();
    files.sort();
    files
}

fn id(n: u8) -> String {
    let id = becket_wire::EventId::from_bytes([n; 16]);
    format!("{id}.ev")
}

#[test]
fn files_that_are_no_events_are_put_away_and_counted() {
    let world = super::registered();
    for n in 1..=3 {
        assert!(call(alone(&world), numbered(n).as_bytes(), BOUND).is_silent());
    }
    let good = spooled(&world);
    assert_eq!(good.len(), 3);
    let whole = fs::read(&good[0]).expect("a spooled event");
    let spool = world.path("spool");
    let bad: [(u8, &[u8]); 7] = [
        (1, b""),
        (2, b"garbage"),
        (3, &whole[..5]),
        (4, &whole[..whole.len() / 4]),
        (5, b"bk\x01\x01\xff\xff\xff\xff"),
        (6, b"bk\x01\x03\x08\0\0\0\"status\""),
        (7, &[0; 64 << 10]),
    ];
    for (n, bytes) in &bad {
        fs::write(spool.join(id(*n)), bytes).expect("a file");
    }
    // Not named as ours are: not looked at.
    fs::write(spool.join("notes.ev"), "garbage").expect("a file");
    fs::write(spool.join("half.tmp"), "garbage").expect("a file");
    assert_eq!(numbers(&world), [1, 2, 3]);
    let status = world.status();
    assert_eq!(status["counts"]["spool_bad"], bad.len(), "{status}");
    for (n, bytes) in bad {
        assert_eq!(
            fs::read(spool.join("bad").join(id(n))).expect("put away"),
            bytes
        );
    }
    assert_eq!(
        spooled(&world),
        [spool.join("half.tmp"), spool.join("notes.ev")]
    );
    doctor_says(&world, "warning", "7 file(s) are no events");
    doctor_says(&world, "warning", "bad spool files: 7");
}

#[test]
fn an_event_without_its_decision_is_an_event() {
    let world = World::new();
    assert!(call(alone(&world), numbered(1).as_bytes(), BOUND).is_silent());
    let file = spooled(&world).remove(0);
    let whole = fs::read(&file).expect("a spooled event");
    // The frame of the event is whole; what alone left after it is cut.
    fs::write(&file, &whole[..whole.len() - 3]).expect("a file");
    assert_eq!(numbers(&world), [1]);
}
