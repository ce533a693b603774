//! The signals that ask the daemon to end. None is missed, whenever it comes.

use tokio::signal::unix::{Signal, SignalKind, signal};

#[derive(Debug)]
pub(super) struct Signals([Option<Signal>; 2]);

impl Signals {
    pub(super) fn listen() -> Self {
        Self([SignalKind::terminate(), SignalKind::interrupt()].map(|kind| signal(kind).ok()))
    }

    /// Comes back when somebody has asked since the last time.
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
