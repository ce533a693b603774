//! Kills, stops, ends and takeovers at any moment: each event is stored once, each call ends in time.

mod ends;
mod follow;
mod load;
mod sessions;
pub mod takeover;

use std::env;
use std::process;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use becket_tests::wait::{self, PATIENCE};
use becket_tests::world::{World, is_alive};
use serde_json::Value;

use load::SentEvent;

/// The longest time of a call: at most a second for the daemon, and the start of the standalone becket. On
/// a busy machine that is more; a call that hangs or waits for a lock still takes longer than this.
const IN_TIME: Duration = Duration::from_secs(9);

/// Returns the number of rounds: ten times as many in `./test --all`.
fn rounds(few: u64) -> u64 {
    few * if env::var_os("BECKET_TEST_ALL").is_some() {
        10
    } else {
        1
    }
}

/// A reproducible random generator: a failed test prints its seed.
struct Random(u64);

impl Random {
    fn new() -> Self {
        let seed = env::var("BECKET_CHAOS_SEED")
            .ok()
            .and_then(|seed| seed.parse().ok())
            .unwrap_or_else(|| {
                let now = SystemTime::now().duration_since(UNIX_EPOCH);
                now.map_or(0, |now| now.as_micros() as u64) ^ u64::from(process::id()) << 48
            });
        eprintln!("again with: BECKET_CHAOS_SEED={seed}");
        Self(seed)
    }

    /// Returns a number below `bound` (splitmix64).
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }

    /// Waits for a random short time, so that the next action meets the daemon anywhere in its work.
    /// Shorter than any sleep.
    fn moment(&mut self) {
        let end = Instant::now() + Duration::from_micros(self.below(1500));
        while Instant::now() < end {
            std::hint::spin_loop();
        }
    }
}

/// Asserts that every call was answered by silence in time and every event is in the log once. Returns the
/// log.
fn assert_stored_once(world: &World, sent: &[SentEvent]) -> Vec<Value> {
    for one in sent {
        assert!(
            one.called.is_silent() && one.called.stderr.is_empty(),
            "{one:?}"
        );
        assert!(one.called.took < IN_TIME, "{one:?}");
    }
    world.start_daemon();
    let log = world.events();
    let mut in_log: Vec<u64> = log.iter().map(number).collect();
    in_log.sort_unstable();
    let mut expected: Vec<u64> = sent.iter().map(|one| one.number).collect();
    expected.sort_unstable();
    if in_log != expected {
        let doubled: Vec<_> = in_log.windows(2).filter(|two| two[0] == two[1]).collect();
        let lost: Vec<_> = expected
            .iter()
            .filter(|one| in_log.binary_search(one).is_err())
            .collect();
        panic!(
            "of {} events lost {lost:?}, doubled {doubled:?}",
            sent.len()
        );
    }
    assert_eq!(spooled(world), [] as [String; 0], "the spool is taken in");
    let slowest = sent.iter().map(|one| one.called.took).max();
    let alone = log.iter().filter(|row| row["source"] == "alone").count();
    eprintln!(
        "{} events, {alone} of them alone, the slowest call took {slowest:?}",
        sent.len()
    );
    log
}

fn number(row: &Value) -> u64 {
    row["payload"]["number"].as_u64().expect("a number")
}

/// Returns the names of the files in the spool.
fn spooled(world: &World) -> Vec<String> {
    std::fs::read_dir(world.path("spool"))
        .expect("a spool")
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}

fn gone(pid: u32) {
    let gone = wait::until(PATIENCE, || (!is_alive(pid)).then_some(()));
    assert!(gone.is_some(), "the daemon {pid} does not end");
}

/// Waits until a daemon answers calls again.
fn wait_served(world: &World, mut number: u64) -> Vec<SentEvent> {
    let mut sent = Vec::new();
    let served = wait::until(PATIENCE, || {
        number += 1;
        sent.push(load::send(world, number));
        let log = world.events();
        let row = log.iter().find(|row| self::number(row) == number)?;
        (row["source"] == "daemon").then_some(())
    });
    assert!(served.is_some(), "no daemon answers any more");
    sent
}
