//! Interrupts that come before their turn has begun.
//!
//! Measured with 2.1.325: of 20 interrupts right after a prompt, before the turn's `init` message, 6 were
//! lost; of 8 right after `init`, none. Such an early interrupt is sent again when `init` comes.

use std::sync::atomic::{AtomicU8, Ordering};

/// The last prompt's turn has begun, or there was no prompt yet.
const BEGUN: u8 = 0;
/// A prompt was sent, and its turn has not begun.
const PROMPTED: u8 = 1;
/// Its turn is to be interrupted as soon as it begins.
const INTERRUPTED: u8 = 2;

/// Whether an interrupt has to be sent again.
#[derive(Debug, Default)]
pub(crate) struct EarlyInterrupt(AtomicU8);

impl EarlyInterrupt {
    pub(crate) fn prompted(&self) {
        self.0.store(PROMPTED, Ordering::Release);
    }

    pub(crate) fn interrupted(&self) {
        let (set, failed) = (Ordering::AcqRel, Ordering::Acquire);
        // A turn that has begun needs no second interrupt.
        let _ = self.0.compare_exchange(PROMPTED, INTERRUPTED, set, failed);
    }

    /// A turn has begun or ended. Returns whether it was interrupted before it began.
    pub(crate) fn take(&self) -> bool {
        self.0.swap(BEGUN, Ordering::AcqRel) == INTERRUPTED
    }
}
