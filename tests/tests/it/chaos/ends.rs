//! Ends that are asked for: a signal, `becket daemon stop`, idleness.

use std::fs;

use becket_tests::wait::{self, PATIENCE};
use becket_tests::world::World;
use rustix::process::Signal;

use super::{Chance, all_there_once, gone, is_served_again, load, rounds};

#[test]
fn sigterm_under_load_loses_nothing() {
    let world = World::new();
    let mut chance = Chance::new();
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
    sent.extend(is_served_again(&world, u64::MAX / 2));
    all_there_once(&world, &sent);
}

#[test]
fn daemon_stop_under_load_ends_it_and_loses_nothing() {
    let world = World::new();
    let mut chance = Chance::new();
    let mut sent = load::during(&world, 4, 0, |load| {
        for _ in 0..rounds(4) {
            // One that is ready, or there is nothing to stop.
            load.until("daemon", || world.path("run/socket").exists().then_some(()));
            let pid = load.daemon_after(None);
            load.more(chance.below(8));
            chance.moment();
            // The next event may start another one at once; that one is not to be waited for.
            world.run(&["daemon", "stop"]);
            load.until("end of the daemon", || {
                (world.daemon_pid() != Some(pid)).then_some(())
            });
        }
    });
    sent.extend(is_served_again(&world, u64::MAX / 2));
    all_there_once(&world, &sent);
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
    all_there_once(&world, &sent);
}
