//! Waits for a condition of the outer world (a screen, a file, a process) that cannot wake the test itself,
//! with a bound that fails loudly.

use std::time::{Duration, Instant};

/// The usual bound: long enough for a loaded machine of two cores, and never reached by a passing test.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The time between two probes.
const PAUSE: Duration = Duration::from_millis(20);

/// Calls `probe` until it returns something, or gives up after `bound`.
pub fn until<T>(bound: Duration, mut probe: impl FnMut() -> Option<T>) -> Option<T> {
    let end = Instant::now() + bound;
    loop {
        if let Some(found) = probe() {
            return Some(found);
        }
        if Instant::now() >= end {
            return None;
        }
        pause();
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the pause between two looks at a condition, never a wait for a time"
)]
fn pause() {
    std::thread::sleep(PAUSE);
}
