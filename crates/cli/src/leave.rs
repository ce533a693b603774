//! Signals that ask a program to go: a program that has something to put back first hears of them here.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Calls this once, when the person or the system wants us to leave. Where signals cannot be heard
/// they do what they always do.
pub fn when_asked(leave: impl FnOnce() + Send + 'static) {
    if let Ok(mut signals) = Signals::new([SIGTERM, SIGHUP, SIGINT]) {
        std::thread::spawn(move || {
            if signals.forever().next().is_some() {
                leave();
            }
        });
    }
}
