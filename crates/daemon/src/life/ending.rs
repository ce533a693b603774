//! How the daemon ends: it serves on until its hooks have ended, for a bounded time, then cuts off
//! the rest and answers what is in flight. The lock is held until the database is closed.

use std::fs;

use std::sync::atomic::Ordering;
use std::time::Duration;

use becket_wire::Place;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};
use tracing::warn;

use super::{TICK, tick};
use crate::core::{Message, Running};
use crate::serve::{Door, End};

/// How long hooks may go on once the daemon was told to end.
pub const DRAIN: Duration = Duration::from_secs(30);
/// How long the hooks that are cut off may take to end.
const HOOKS_END: Duration = Duration::from_secs(2);
/// How long the last answers may take to be sent.
const ANSWERS: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(10);

/// SIGTERM and SIGINT, which ask the daemon to end.
#[derive(Debug)]
pub(super) struct Signals([Option<Signal>; 2]);

impl Signals {
    pub(super) fn listen() -> Self {
        Self([SignalKind::terminate(), SignalKind::interrupt()].map(|kind| signal(kind).ok()))
    }

    /// Waits for the next signal.
    pub(super) async fn told(&mut self) {
        let [term, int] = &mut self.0;
        tokio::select! { () = next(term) => {}, () = next(int) => {} }
    }
}

async fn next(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}

/// Serves on until no hook runs; events that need hooks get `Busy`. After `at_most`, or with the next
/// signal, the hooks that still run are cut off.
pub(super) async fn serve_on(
    door: &Door,
    hooks: &Running,
    at_most: Duration,
    signals: &mut Signals,
) {
    let (reply, drains) = oneshot::channel();
    drop(door.core.send(Message::Drain(reply)).await);
    let _ = drains.await;
    let ticks = async {
        loop {
            drop(tick(door).await);
            sleep(TICK).await;
        }
    };
    tokio::select! {
        biased;
        () = have_ended(hooks) => return,
        () = signals.told() => warn!("a second signal: hooks are cut off"),
        () = sleep(at_most) => warn!("hooks did not end in {at_most:?}, and are cut off"),
        () = ticks => {}
    }
    hooks.cut_off();
    drop(timeout(HOOKS_END, have_ended(hooks)).await);
}

async fn have_ended(hooks: &Running) {
    while hooks.any() {
        sleep(LOOK).await;
    }
}

/// Tells clients that follow that this end is wanted. It has to be there before the socket goes: they
/// look for it when they cannot connect.
pub(super) fn mark(place: &Place, end: End) {
    if end.is_wanted()
        && let Err(why) = fs::write(place.stopped_mark(), "")
    {
        warn!(%why, "a client that follows may start the next daemon");
    }
}

/// Waits until everything that was taken is answered.
pub(super) async fn answer_all(door: &Door) {
    let answered = async {
        while door.in_flight.load(Ordering::Relaxed) > 0 {
            sleep(Duration::from_millis(1)).await;
        }
    };
    if timeout(ANSWERS, answered).await.is_err() {
        warn!("some answers were still on their way");
    }
}
