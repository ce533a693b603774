//! A full disk and a read-only disk.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::DirBuilderExt;

use becket_tests::skip::{Unavailable, skip};
use becket_tests::wait::{PATIENCE, until};
use becket_tests::world::World;
use rustix::mount::{MountFlags, UnmountFlags, mount, mount_remount, unmount};

use super::{
    BOUND, assert_doctor_reports, call, numbered, numbers, registered, send_numbered,
    send_standalone,
};

/// A small file system on the becket home. Dropping it unmounts it with the daemon on it.
struct Disk<'a> {
    world: &'a World,
}

impl<'a> Disk<'a> {
    /// Mounts the file system. Returns `None` and skips the test where mounting is not allowed.
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

    /// Writes until the disk is full.
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
        // A daemon without its lock may still be closing its other files.
        let home = &self.world.becket_home;
        let forbidden = until(PATIENCE, || {
            mount_remount(home, MountFlags::RDONLY, c"").ok()
        });
        assert!(forbidden.is_some(), "a process still writes");
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

#[test]
fn a_disk_that_fills_up_disturbs_no_call_and_lost_events_are_counted() {
    let world = registered();
    let test = "a_disk_that_fills_up_disturbs_no_call_and_lost_events_are_counted";
    let Some(disk) = Disk::mount(&world, test) else {
        return;
    };
    world.start_daemon();
    assert!(send_numbered(&world, 1).is_silent());
    disk.fill();
    // The database first uses up the room in its own files.
    let lost = (2..200).find(|sent| {
        let called = send_numbered(&world, *sent);
        assert!(called.is_quiet(), "{called:?}");
        world.status()["counts"]["lost"] == 1
    });
    let lost = lost.expect("a full disk takes everything");
    assert_doctor_reports(&world, "broken", "1 event could not be kept anywhere");
    assert_doctor_reports(&world, "broken", "nothing can be written to");
    disk.make_room();
    assert!(send_numbered(&world, lost + 1).is_silent());
    let all: Vec<u32> = (1..lost).chain([lost + 1]).collect();
    assert_eq!(numbers(&world), all);
    // The events of doctor were lost too.
    let lost = || world.status()["counts"]["lost"].clone();
    assert_eq!(lost(), 3);
    world.kill_daemon();
    world.start_daemon();
    assert_eq!(lost(), 3, "the next daemon knows it");
}

#[test]
fn a_full_disk_disturbs_no_call() {
    let world = registered();
    let Some(disk) = Disk::mount(&world, "a_full_disk_disturbs_no_call") else {
        return;
    };
    disk.fill();
    let called = send_numbered(&world, 1);
    assert!(called.is_silent(), "{called:?}");
    assert!(
        called.stderr.contains("the event is not kept"),
        "{called:?}"
    );
    assert!(called.stderr.contains("No space left"), "{called:?}");
    assert_doctor_reports(&world, "broken", "nothing can be written to");
    disk.make_room();
    assert!(send_numbered(&world, 2).is_silent());
    assert_eq!(numbers(&world), [2]);
    let left = fs::read_dir(world.path("spool")).expect("a spool");
    let left: Vec<_> = left.flatten().map(|entry| entry.file_name()).collect();
    assert!(left.is_empty(), "{left:?}");
    assert_doctor_reports(&world, "broken", "2 events could not be kept anywhere");
}

#[test]
fn a_full_disk_without_a_daemon_leaves_no_partial_file() {
    let world = World::new();
    let Some(disk) = Disk::mount(
        &world,
        "a_full_disk_without_a_daemon_leaves_no_partial_file",
    ) else {
        return;
    };
    assert!(send_standalone(&world, 1).is_silent());
    disk.fill();
    let called = send_standalone(&world, 2);
    assert!(
        called.is_silent() && called.stderr.contains("the event is not kept"),
        "{called:?}"
    );
    let spool = fs::read_dir(world.path("spool")).expect("a spool");
    assert_eq!(spool.flatten().count(), 1);
    let called = send_standalone(&world, 3);
    assert!(called.is_silent(), "{called:?}");
    disk.make_room();
    assert_eq!(numbers(&world), [1]);
    assert_doctor_reports(&world, "broken", "2 events could not be kept anywhere");
}

#[test]
fn a_read_only_home_disturbs_no_call_and_is_readable() {
    let world = registered();
    let Some(disk) = Disk::mount(&world, "a_read_only_home_disturbs_no_call_and_is_readable")
    else {
        return;
    };
    world.start_daemon();
    assert!(send_numbered(&world, 1).is_silent());
    world.run(&["daemon", "stop"]);
    assert!(send_standalone(&world, 2).is_silent());
    disk.forbid_writing();
    for shim in [
        world.shim("PreToolUse"),
        world.standalone_shim("PreToolUse"),
    ] {
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
    assert_doctor_reports(&world, "broken", "2 events could not be kept anywhere");
    assert_doctor_reports(&world, "broken", "nothing can be written to");
    disk.allow_writing();
    assert!(send_numbered(&world, 4).is_silent());
    assert_eq!(numbers(&world), [1, 2, 4]);
}

#[test]
fn an_empty_read_only_home_disturbs_no_call() {
    let world = registered();
    let Some(disk) = Disk::mount(&world, "an_empty_read_only_home_disturbs_no_call") else {
        return;
    };
    disk.forbid_writing();
    let called = send_numbered(&world, 1);
    assert!(called.is_silent(), "{called:?}");
    assert!(
        called.stderr.contains("Read-only file system"),
        "{called:?}"
    );
    assert_eq!(numbers(&world), [0; 0]);
    assert_doctor_reports(&world, "broken", "nothing can be written to");
}

#[test]
fn a_home_that_vanishes_under_the_daemon_ends_it() {
    let world = World::new();
    world.start_daemon();
    let pid = world.daemon_pid().expect("a daemon");
    // The daemon may be creating a file in it at this moment.
    let removed = until(PATIENCE, || fs::remove_dir_all(&world.becket_home).ok());
    assert!(removed.is_some(), "the home goes");
    let gone = until(PATIENCE, || {
        (!becket_tests::world::is_alive(pid)).then_some(())
    });
    assert!(
        gone.is_some(),
        "the daemon {pid} works for a home that is gone"
    );
    assert!(send_numbered(&world, 1).is_silent());
    assert_eq!(numbers(&world), [1]);
}

#[test]
fn a_full_disk_leaves_no_empty_backup_of_the_settings() {
    let world = World::new();
    let test = "a_full_disk_leaves_no_empty_backup_of_the_settings";
    let Some(disk) = Disk::mount(&world, test) else {
        return;
    };
    let claude = world.path("claude");
    fs::create_dir(&claude).expect("a folder");
    fs::write(claude.join("settings.json"), "{}\n").expect("settings");
    disk.fill();
    let mut init = world.becket(["up", "--only-register"]);
    init.env("CLAUDE_CONFIG_DIR", &claude);
    init.env("BECKET_HOME", world.home.join("other"));
    let init = init.output().expect("becket");
    assert_eq!(init.status.code(), Some(1), "{init:?}");
    let left = fs::read_dir(&claude).expect("a folder").flatten();
    let left: Vec<_> = left.map(|entry| entry.file_name()).collect();
    assert_eq!(left, ["settings.json"]);
}
