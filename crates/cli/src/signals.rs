//! Signals that ask a program to go: a program that has something to put back first hears of them here.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;
use signal_hook::iterator::Signals;

const ASKING: [i32; 3] = [SIGTERM, SIGHUP, SIGINT];

/// Calls this once, when the person or the system wants us to leave. Where signals cannot be heard
/// they do what they always do.
pub fn on_termination(leave: impl FnOnce() + Send + 'static) {
    let Ok(mut signals) = Signals::new(ASKING) else {
        return;
    };
    let hear = move || {
        if signals.forever().next().is_some() {
            leave();
        }
    };
    if thread::Builder::new().spawn(hear).is_err() {
        for signal in ASKING {
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
