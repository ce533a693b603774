//! The way to end a batch from another thread.

use std::io::{self, PipeReader, PipeWriter, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::event::{PollFd, PollFlags};

use super::clock::Reason;

/// What whoever asked for a batch still wants of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Wish {
    All,
    /// What somebody waited for shall end; what runs in the background goes on.
    OnlyTheRest,
    Nothing,
    /// Whoever runs it ends, and cannot wait.
    OurEnd,
}

impl Wish {
    /// Whether it wants the end of a program that somebody waits for, or of one that nobody does.
    pub(super) fn ends(self, awaited: bool) -> bool {
        match self {
            Self::All => false,
            Self::OnlyTheRest => awaited,
            Self::Nothing | Self::OurEnd => true,
        }
    }

    /// Why a program is ended by it.
    pub(super) fn reason(self) -> Reason {
        match self {
            Self::OurEnd => Reason::CutOff,
            Self::All | Self::OnlyTheRest | Self::Nothing => Reason::Cancelled,
        }
    }
}

/// Ends a batch early, from another thread. Clones are the same.
#[derive(Debug, Clone)]
pub struct Cancel(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    wish: AtomicU8,
    /// Wakes the batches: a byte in it is `OnlyTheRest`, its end the rest. Nobody reads it, so that
    /// it wakes them all. None if there are no descriptors left: then they look from time to time.
    bell: Option<PipeReader>,
    rope: Mutex<Option<PipeWriter>>,
}

impl Cancel {
    pub fn new() -> Self {
        let (bell, rope) = io::pipe().ok().unzip();
        Self(Arc::new(Shared {
            wish: AtomicU8::new(0),
            bell,
            rope: Mutex::new(rope),
        }))
    }

    /// Nobody wants any of it any more: ends all that runs, in the background too.
    pub fn cancel(&self) {
        self.end(2);
    }

    /// We have to end: the same, though somebody may wait.
    pub fn cut_off(&self) {
        self.end(3);
    }

    fn end(&self, wish: u8) {
        self.0.wish.fetch_max(wish, Ordering::SeqCst);
        drop(self.rope().take());
    }

    /// Nobody waits for an answer any more: ends what somebody waited for, and nothing else.
    pub fn abandon(&self) {
        let first = self.0.wish.fetch_max(1, Ordering::SeqCst) == 0;
        if let (true, Some(rope)) = (first, &mut *self.rope()) {
            let _ = rope.write(b"!");
        }
    }

    fn rope(&self) -> MutexGuard<'_, Option<PipeWriter>> {
        self.0.rope.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn wish(&self) -> Wish {
        match self.0.wish.load(Ordering::SeqCst) {
            0 => Wish::All,
            1 => Wish::OnlyTheRest,
            2 => Wish::Nothing,
            _ => Wish::OurEnd,
        }
    }

    pub(super) fn is_mute(&self) -> bool {
        self.0.bell.is_none()
    }

    /// What to poll for news, if this is what is known.
    pub(super) fn bell(&self, known: Wish) -> Option<PollFd<'_>> {
        let flags = match known {
            Wish::All => PollFlags::IN,
            // Its end is told unasked.
            Wish::OnlyTheRest => PollFlags::empty(),
            Wish::Nothing | Wish::OurEnd => return None,
        };
        let bell = self.0.bell.as_ref()?;
        Some(PollFd::from_borrowed_fd(bell.as_fd(), flags))
    }
}

impl Default for Cancel {
    fn default() -> Self {
        Self::new()
    }
}
