//! The daemon is killed, stopped by SIGSTOP, ended by a signal or `becket daemon stop`, or idle.

use std::collections::HashMap;
use std::fs;
use std::time::Instant;

use becket_tests::wait::{self, PATIENCE};
use becket_tests::world::World;
use rustix::process::Signal;

use super::{Random, assert_stored_once, gone, load, number, rounds, wait_served};

#[test]
fn sigterm_under_load_loses_nothing() {
    let world = World::new();
    let mut chance = Random::new();
    let mut sent = load::during(&world, 4, 0, |load| {
        let mut last = None;
        for _ in 0..rounds(4) {
            let pid = load.daemon_after(last);
            load.more(chance.below(8));
            chance.moment();
            world.signal_daemon(Signal::TERM);
            load.until("end of the daemon", || {
                (world.daemon_pid() != Some(pid)).then_some(())
            });
            last = Some(pid);
        }
    });
    sent.extend(wait_served(&world, u64::MAX / 2));
    assert_stored_once(&world, &sent);
}

#[test]
fn daemon_stop_under_load_ends_it_and_loses_nothing() {
    let world = World::new();
    let mut chance = Random::new();
    let mut sent = load::during(&world, 4, 0, |load| {
        for _ in 0..rounds(4) {
            // A ready daemon; without one there is nothing to stop.
            load.until("daemon", || world.path("run/socket").exists().then_some(()));
            let pid = load.daemon_after(None);
            load.more(chance.below(8));
            chance.moment();
            // The next event may start another daemon at once, which the loop does not wait for.
            world.run(&["daemon", "stop"]);
            load.until("end of the daemon", || {
                (world.daemon_pid() != Some(pid)).then_some(())
            });
        }
    });
    sent.extend(wait_served(&world, u64::MAX / 2));
    assert_stored_once(&world, &sent);
}

#[test]
fn an_idle_daemon_ends_and_the_next_event_starts_it() {
    let world = World::new();
    fs::create_dir_all(&world.becket_home).expect("a folder");
    fs::write(world.path("config.toml"), "[daemon]\nidle = \"1s\"\n").expect("a config");
    let mut sent = vec![load::send(&world, 1)];
    let first = wait::until(PATIENCE, || world.daemon_pid()).expect("a daemon");
    gone(first);
    assert!(!world.path("run/socket").exists());
    assert!(
        fs::metadata(world.path("becket.db-wal")).is_ok_and(|log| log.len() == 0)
            || !world.path("becket.db-wal").exists(),
        "it closed the database"
    );
    sent.push(load::send(&world, 2));
    let second = wait::until(PATIENCE, || world.daemon_pid()).expect("a daemon");
    assert_ne!(first, second);
    assert_stored_once(&world, &sent);
}

#[test]
fn kills_lose_and_duplicate_no_event() {
    let world = World::new();
    let mut chance = Random::new();
    let kills = rounds(20);
    let mut sent = load::during(&world, 4, 0, |load| {
        let mut last = None;
        for _ in 0..kills {
            last = Some(load.daemon_after(last));
            // Some daemons die while they start, most while they work.
            load.more(chance.below(8));
            chance.moment();
            world.signal_daemon(Signal::KILL);
        }
    });
    assert!(sent.len() as u64 >= kills, "only {} events", sent.len());
    sent.push(load::send(&world, u64::MAX / 2));
    assert!(
        wait::until(PATIENCE, || world.daemon_pid()).is_some(),
        "the daemon was not started again"
    );
    sent.extend(wait_served(&world, u64::MAX / 2));
    assert_stored_once(&world, &sent);
}

#[test]
fn the_log_of_a_killed_daemon_is_readable_without_a_daemon() {
    let world = World::new();
    world.start_daemon();
    let sent: Vec<_> = (0..5).map(|number| load::send(&world, number)).collect();
    world.kill_daemon();
    let read = world
        .becket(["events", "--json"])
        .env("BECKET_NO_DAEMON", "1")
        .output()
        .expect("becket runs");
    let rows = String::from_utf8_lossy(&read.stdout);
    let numbers: Vec<u64> = rows
        .lines()
        .map(|row| number(&serde_json::from_str(row).expect("a line of JSON")))
        .collect();
    assert_eq!(numbers, [0, 1, 2, 3, 4]);
    assert_eq!(world.daemons(), [] as [u32; 0]);
    assert_stored_once(&world, &sent);
}

#[test]
fn a_daemon_that_is_stopped_delays_no_call_and_loses_nothing() {
    let world = World::new();
    let pid = world.start_daemon();
    let mut chance = Random::new();
    let stops = rounds(20);
    let mut stopped = Vec::new();
    let mut sent = load::during(&world, 4, 0, |load| {
        for _ in 0..stops {
            load.more(chance.below(6));
            chance.moment();
            assert_eq!(world.signal_daemon(Signal::STOP), Some(pid));
            let began = Instant::now();
            load.since(began, 1 + chance.below(4) as usize);
            chance.moment();
            stopped.push((began, Instant::now()));
            assert_eq!(world.signal_daemon(Signal::CONT), Some(pid));
        }
    });
    sent.extend(wait_served(&world, u64::MAX / 2));
    assert_eq!(world.daemon_pid(), Some(pid), "the daemon was killed");
    let log = assert_stored_once(&world, &sent);
    let rows: HashMap<u64, _> = log.iter().map(|row| (number(row), row)).collect();
    let mut alone = 0;
    for one in &sent {
        let row = rows[&one.number];
        assert!(row["took_us"].is_u64(), "no daemon answered this: {row}");
        if stopped
            .iter()
            .any(|(from, to)| one.began > *from && one.ended < *to)
        {
            alone += 1;
            assert_eq!(row["source"], "alone", "{row}");
        }
    }
    assert!(alone >= stops as usize, "only {alone} calls went alone");
}
