//! A daemon that is stopped (SIGSTOP) holds the lock and the socket, and answers nobody.

use std::collections::HashMap;
use std::time::Instant;

use becket_tests::world::World;
use rustix::process::Signal;

use super::{Chance, all_there_once, is_served_again, load, number, rounds};

#[test]
fn a_daemon_that_is_stopped_delays_no_call_and_loses_nothing() {
    let world = World::new();
    let pid = world.start_daemon();
    let mut chance = Chance::new();
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
    sent.extend(is_served_again(&world, u64::MAX / 2));
    assert_eq!(world.daemon_pid(), Some(pid), "nobody killed it");
    let log = all_there_once(&world, &sent);
    let rows: HashMap<u64, _> = log.iter().map(|row| (number(row), row)).collect();
    let mut alone = 0;
    for one in &sent {
        let row = rows[&one.number];
        assert!(row["took_us"].is_u64(), "nobody answered this: {row}");
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
