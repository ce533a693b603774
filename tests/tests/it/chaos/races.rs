//! Many starters, no daemon.

use std::fs::{self, File};
use std::os::unix::net::UnixListener;
use std::process::{Child, Command, Stdio};
use std::sync::Barrier;

use becket_tests::wait::{self, PATIENCE};
use becket_tests::world::World;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::load::{self, Sent};
use super::{IN_TIME, all_there_once};

const CALLS: u64 = 20;

/// So many calls at the same moment.
fn at_once(world: &World, first: u64) -> Vec<Sent> {
    let start = Barrier::new(CALLS as usize);
    std::thread::scope(|scope| {
        let calls: Vec<_> = (first..first + CALLS)
            .map(|number| {
                let start = &start;
                scope.spawn(move || {
                    start.wait();
                    load::send(world, number)
                })
            })
            .collect();
        calls
            .into_iter()
            .map(|call| call.join().expect("a call"))
            .collect()
    })
}

fn exactly_one_daemon(world: &World) {
    let one = wait::until(PATIENCE, || {
        let daemons = world.daemons();
        (daemons.len() == 1 && world.daemon_pid() == Some(daemons[0])).then_some(())
    });
    let log = fs::read_to_string(world.path("log/daemon.log")).unwrap_or_default();
    assert!(one.is_some(), "daemons: {:?}\n{log}", world.daemons());
}

#[test]
fn twenty_calls_at_once_start_one_daemon() {
    let world = World::new();
    let sent = at_once(&world, 0);
    exactly_one_daemon(&world);
    all_there_once(&world, &sent);
}

#[test]
fn a_socket_with_nobody_behind_it_is_in_nobodys_way() {
    let world = World::new();
    fs::create_dir_all(world.path("run")).expect("a folder");
    drop(UnixListener::bind(world.path("run/socket")).expect("a socket"));
    let sent = at_once(&world, 0);
    exactly_one_daemon(&world);
    all_there_once(&world, &sent);
}

#[test]
fn and_so_is_what_a_killed_daemon_leaves() {
    let world = World::new();
    world.start_daemon();
    world.kill_daemon();
    assert!(world.path("run/socket").exists());
    let sent = at_once(&world, 0);
    exactly_one_daemon(&world);
    all_there_once(&world, &sent);
}

/// A process that holds a lock and does nothing.
struct Holder(Child);

impl Holder {
    fn of(lock: File) -> Self {
        lock.lock().expect("the lock");
        // The lock belongs to the open file, and goes with it.
        let child = Command::new("sleep")
            .arg("1000")
            .stdin(Stdio::from(lock))
            .spawn()
            .expect("sleep runs");
        kill_process(Pid::from_child(&child), Signal::STOP).expect("it stops");
        Self(child)
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[test]
fn a_starter_that_is_stopped_keeps_nobody_from_an_answer() {
    let world = World::new();
    fs::create_dir_all(world.path("run")).expect("a folder");
    let lock = File::create(world.path("run/start.lock")).expect("a file");
    let holder = Holder::of(lock);
    let mut sent = at_once(&world, 0);
    assert!(sent.iter().all(|one| one.called.took < IN_TIME));
    assert_eq!(
        world.daemons(),
        [] as [u32; 0],
        "nobody else starts one meanwhile"
    );
    let read = world
        .becket(["events", "--json"])
        .env("BECKET_NO_DAEMON", "1")
        .output()
        .expect("becket runs");
    let read = String::from_utf8_lossy(&read.stdout).lines().count();
    assert_eq!(read, CALLS as usize, "they can be read all the same");
    drop(holder);
    sent.extend(at_once(&world, 100));
    exactly_one_daemon(&world);
    let log = all_there_once(&world, &sent);
    let alone = |row: &&Value| row["source"] == "alone";
    assert!(log.iter().filter(alone).count() >= CALLS as usize);
}

#[test]
fn the_lock_of_a_dead_process_holds_nobody_up() {
    let world = World::new();
    fs::create_dir_all(world.path("run")).expect("a folder");
    for name in ["run/start.lock", "run/daemon.lock"] {
        fs::write(world.path(name), "4194303\n").expect("a file");
    }
    let sent = at_once(&world, 0);
    exactly_one_daemon(&world);
    all_there_once(&world, &sent);
}
