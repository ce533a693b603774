//! kill -9 at any moment.

use becket_tests::wait::{self, PATIENCE};
use becket_tests::world::World;
use rustix::process::Signal;

use super::{Chance, all_there_once, is_served_again, load, number, rounds};

#[test]
fn kills_lose_nothing_and_double_nothing() {
    let world = World::new();
    let mut chance = Chance::new();
    let kills = rounds(20);
    let mut sent = load::during(&world, 4, 0, |load| {
        let mut last = None;
        for _ in 0..kills {
            last = Some(load.daemon_after(last));
            // Some die while they start, most at work.
            load.more(chance.below(8));
            chance.moment();
            world.signal_daemon(Signal::KILL);
        }
    });
    assert!(sent.len() as u64 >= kills, "only {} events", sent.len());
    sent.push(load::send(&world, u64::MAX / 2));
    assert!(
        wait::until(PATIENCE, || world.daemon_pid()).is_some(),
        "nobody started the daemon again"
    );
    sent.extend(is_served_again(&world, u64::MAX / 2));
    all_there_once(&world, &sent);
}

#[test]
fn what_a_killed_daemon_left_is_read_without_one_too() {
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
    all_there_once(&world, &sent);
}
