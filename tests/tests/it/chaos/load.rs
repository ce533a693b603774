//! A constant load of events through the real shim, each with its own number.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

use becket_tests::wait::PATIENCE;
use becket_tests::world::{Called, World};
use serde_json::json;

/// Every so many events one is so large that the daemon judges it in its pool and compresses it.
const LARGE_EVERY: u64 = 8;
const LARGE: usize = 20_000;
/// The time between two probes.
const LOOK: Duration = Duration::from_millis(2);

#[derive(Debug)]
pub struct SentEvent {
    pub number: u64,
    pub began: Instant,
    pub ended: Instant,
    pub called: Called,
}

pub struct Load<'w> {
    world: &'w World,
    next: AtomicU64,
    end: AtomicBool,
    sent: Mutex<Vec<SentEvent>>,
    answered: Condvar,
}

/// Sends one event.
pub fn send(world: &World, number: u64) -> SentEvent {
    let filler = if number.is_multiple_of(LARGE_EVERY) {
        LARGE
    } else {
        100
    };
    let payload = json!({
        "hook_event_name": "PreToolUse",
        "session_id": "0190a1b2-c3d4-7e5f-8a6b-7c8d9e0f1a2b",
        "tool_name": "Bash",
        "tool_use_id": format!("toolu_{number}"),
        "number": number,
        "filler": "x".repeat(filler),
    });
    let began = Instant::now();
    let called = world.send("PreToolUse", payload.to_string());
    SentEvent {
        number,
        began,
        ended: Instant::now(),
        called,
    }
}

/// Runs `what` while so many senders send, and returns the sent events. Numbers begin at `first`.
pub fn during(
    world: &World,
    senders: usize,
    first: u64,
    what: impl FnOnce(&Load<'_>),
) -> Vec<SentEvent> {
    let load = Load {
        world,
        next: AtomicU64::new(first),
        end: AtomicBool::new(false),
        sent: Mutex::default(),
        answered: Condvar::new(),
    };
    std::thread::scope(|scope| {
        for _ in 0..senders {
            scope.spawn(|| load.keep_sending());
        }
        // Ends the senders also when `what` panics.
        let _end = EndOnDrop(&load.end);
        what(&load);
    });
    load.sent.into_inner().expect("no sender failed")
}

struct EndOnDrop<'l>(&'l AtomicBool);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Load<'_> {
    fn keep_sending(&self) {
        while !self.end.load(Ordering::Relaxed) {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let sent = send(self.world, number);
            self.sent.lock().expect("no sender failed").push(sent);
            self.answered.notify_all();
        }
    }

    /// Returns the number of answered calls.
    pub fn count(&self) -> usize {
        self.sent.lock().expect("no sender failed").len()
    }

    /// Waits until so many more calls are answered.
    pub fn more(&self, events: u64) {
        let enough = self.count() + events as usize;
        self.until("answers", || (self.count() >= enough).then_some(()));
    }

    /// Waits until so many calls were started and answered since `then`.
    pub fn since(&self, then: Instant, events: usize) {
        self.until("answers", || {
            let sent = self.sent.lock().expect("no sender failed");
            let answered = sent.iter().rev().filter(|one| one.began > then).count();
            (answered >= events).then_some(())
        });
    }

    /// Waits until `probe` returns something; probes again after each answer.
    pub fn until<T>(&self, what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
        let bound = Instant::now() + PATIENCE;
        loop {
            if let Some(found) = probe() {
                return found;
            }
            assert!(Instant::now() < bound, "no {what} any more");
            let sent = self.sent.lock().expect("no sender failed");
            drop(self.answered.wait_timeout(sent, LOOK));
        }
    }

    /// Waits for another daemon than `last`, ready or starting.
    pub fn daemon_after(&self, last: Option<u32>) -> u32 {
        self.until("daemon", || {
            self.world.daemon_pid().filter(|pid| Some(*pid) != last)
        })
    }
}
