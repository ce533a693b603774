//! kill -9 at any moment.

use becket_tests::wait::{self, PATIENCE};
use becket_tests::world::World;
use rustix::process::Signal;

use super::{Chance, all_there_once, is_served_again, load};

const KILLS: u64 = 200;

#[test]
fn two_hundred_kills_lose_nothing_and_double_nothing() {
    let world = World::new();
    let mut chance = Chance::new();
    let mut sent = load::during(&world, 4, 0, |load| {
        let mut last = None;
        for _ in 0..KILLS {
            last = Some(load.daemon_after(last));
            // Some die while they start, most at work.
            load.more(chance.below(8));
            chance.moment();
            world.signal_daemon(Signal::KILL);
        }
    });
    assert!(sent.len() as u64 >= KILLS, "only {} events", sent.len());
    sent.push(load::send(&world, u64::MAX / 2));
    assert!(
        wait::until(PATIENCE, || world.daemon_pid()).is_some(),
        "nobody started the daemon again"
    );
    sent.extend(is_served_again(&world, u64::MAX / 2));
    all_there_once(&world, &sent);
}
