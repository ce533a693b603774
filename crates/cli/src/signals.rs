//! Handles the ways in which the system ends a process: signals, a closed pipe, a limit. Code that has
//! something to clean up gets to do so.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;
use signal_hook::iterator::Signals;

const TERMINATION: [i32; 3] = [SIGTERM, SIGHUP, SIGINT];

/// Calls `clean_up` once, at the first signal that asks this process to end. If no handler can be set, the
/// signals end the process as usual.
pub fn on_termination(clean_up: impl FnOnce() + Send + 'static) {
    let Ok(mut signals) = Signals::new(TERMINATION) else {
        return;
    };
    let spawned = thread::Builder::new().spawn(move || {
        if signals.forever().next().is_some() {
            clean_up();
        }
    });
    if spawned.is_err() {
        for signal in TERMINATION {
            drop(flag::register_conditional_default(signal, always()));
        }
    }
}

/// Asks the system for SIGTERM when the process that started this one ends.
pub fn terminate_with_parent() {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM));
}

/// Lets a write past the limit of file sizes (`ulimit -f`) fail instead of ending this process.
pub fn survive_file_size_limit() {
    drop(flag::register(SIGXFSZ, always()));
}

fn always() -> Arc<AtomicBool> {
    Arc::new(AtomicBool::new(true))
}

/// Ends the process quietly when the reader of stdout has gone, as in `becket … | head`. std's `println` panics
/// then.
pub fn expect_closed_pipes() {
    let default = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let what = panic.payload_as_str().unwrap_or_default();
        if what.starts_with("failed printing to stdout") {
            end_quietly();
        }
        default(panic);
    }));
}

#[expect(
    clippy::disallowed_methods,
    reason = "in the middle of printing there is no way back to main"
)]
fn end_quietly() -> ! {
    std::process::exit(0)
}
