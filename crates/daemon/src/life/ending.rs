//! The end, as far as others wait for it: answers on their way go out, and the hooks that a session
//! waits for run on to their own end. Database and lock are let go before that, so that the next
//! daemon serves meanwhile.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use becket_wire::Place;
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use super::signals::Signals;
use super::tick;
use crate::hooks::Running;
use crate::outlasting::Outlasting;
use crate::serve::{Door, End};

/// How long an ending daemon waits for answers that are on their way.
const DRAIN: Duration = Duration::from_secs(5);
/// How long the hooks that still run may take to end, once they were asked to.
const HOOKS_END: Duration = Duration::from_secs(2);
/// How long the answers of those may take then.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Claude Code waits no longer for any event. What runs in the background has no more time either.
const LONGEST: Duration = Duration::from_secs(600);
const LOOK: Duration = Duration::from_millis(10);

/// Says for whoever follows that this end is meant. It has to be there before the socket goes: they
/// look for it when nobody listens any more.
pub(super) fn mark(place: &Place, end: End) {
    if end.is_wanted()
        && let Err(why) = fs::write(place.stopped_mark(), "")
    {
        warn!(%why, "whoever follows may start the next daemon");
    }
}

/// Waits until nothing is left to be answered but what waits for hooks.
pub(super) async fn drain(door: &Door) {
    let drained = async {
        let load = |count: &std::sync::atomic::AtomicUsize| count.load(Ordering::Relaxed);
        while load(&door.in_flight) > load(&door.held) {
            sleep(Duration::from_millis(1)).await;
        }
    };
    if timeout(DRAIN, drained).await.is_err() {
        warn!("some answers were still on their way");
    }
}

/// Whether hooks outlive the daemon that serves: those that a session waits for, since nobody could
/// say in their place whether they would have refused; and all, if only the build changes.
pub(super) fn goes_on(door: &Door, hooks: &Running, end: End) -> bool {
    door.held.load(Ordering::Relaxed) > 0 || (end == End::Yielded && hooks.any())
}

/// Tells others what runs still.
pub(super) fn tell(still: &mut Outlasting, door: &Door, hooks: &Running) {
    // First: what is over in between is among those that have ended.
    let awaited = hooks.awaited();
    still.tell(awaited, door.keeper.current());
}

/// Waits for them, without database and lock. Whoever says it a second time has them ended.
pub(super) async fn outlast(
    door: &Door,
    hooks: &Arc<Running>,
    end: End,
    signals: &mut Signals,
    mut still: Outlasting,
) {
    if goes_on(door, hooks, end) {
        info!("hooks go on");
    }
    let gone = async {
        while goes_on(door, hooks, end) {
            tell(&mut still, door, hooks);
            sleep(LOOK).await;
        }
    };
    tokio::select! {
        biased;
        () = gone => {}
        () = signals.told() => warn!("told again to end: hooks are ended"),
        () = sleep(LONGEST) => warn!("hooks did not end in their time"),
    }
    if hooks.any() {
        cut(door, hooks).await;
    }
    // What the last of them said has been dealt with, once this has.
    drop(tick(door).await);
}

/// Ends the hooks that run, and waits until whoever waits for them knows.
pub(super) async fn cut(door: &Door, hooks: &Arc<Running>) {
    let all = Arc::clone(hooks);
    drop(tokio::task::spawn_blocking(move || all.end(HOOKS_END)).await);
    let heard = async {
        while door.in_flight.load(Ordering::Relaxed) > 0 {
            sleep(Duration::from_millis(1)).await;
        }
    };
    drop(timeout(LAST_WORDS, heard).await);
}
