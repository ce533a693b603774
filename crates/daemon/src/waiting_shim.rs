//! A shim that waits for the answer to its event. The core and the threads of hooks answer it directly, from
//! their own threads: a detour over the connection task would cost each call a wake-up. What can take time
//! (sending a long answer, taking the environment, noticing that the shim hung up) is a [`ShimStep`] for the
//! connection task.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use becket_engine::process::Cancel;
use rustix::net::SendFlags;
use tokio::net::UnixStream;
use tokio::sync::mpsc;

use crate::core::{Message, QueuedHooks};

/// A shim that waits for its answer. Dropped without an answer, it gets `Busy` and goes standalone.
#[derive(Debug)]
pub(crate) struct WaitingShim {
    stream: Arc<UnixStream>,
    steps: mpsc::UnboundedSender<ShimStep>,
}

/// A step that the connection task takes for a waiting shim.
#[derive(Debug)]
pub(crate) enum ShimStep {
    /// Send the rest of the answer.
    Answered { unsent: Vec<u8> },
    /// Send the rest of the `Hold` frame, start the hooks if there are any, and watch for the shim to hang up.
    Hold {
        unsent: Vec<u8>,
        hooks: Option<Box<QueuedHooks>>,
        clients: Arc<PendingClients>,
    },
}

impl WaitingShim {
    /// Makes the shim of a connection, and the steps that its connection task has to take.
    pub(crate) fn new(stream: Arc<UnixStream>) -> (Self, mpsc::UnboundedReceiver<ShimStep>) {
        let (steps, receiver) = mpsc::unbounded_channel();
        (Self { stream, steps }, receiver)
    }

    pub(crate) fn answer(self, frame: Vec<u8>) {
        let unsent = self.send_now(frame);
        drop(self.steps.send(ShimStep::Answered { unsent }));
    }

    /// Tells the shim to wait: for the hooks of another event, which is the same as its own, or for a person.
    pub(crate) fn hold(&self, frame: Vec<u8>, clients: Arc<PendingClients>) {
        let unsent = self.send_now(frame);
        drop(self.steps.send(ShimStep::Hold {
            unsent,
            hooks: None,
            clients,
        }));
    }

    /// Tells the shim of these hooks to wait and to send its environment.
    pub(crate) fn hold_and_queue_hooks(
        hooks: Box<QueuedHooks>,
        frame: Vec<u8>,
        clients: Arc<PendingClients>,
    ) {
        let unsent = hooks.shim().send_now(frame);
        let steps = hooks.shim().steps.clone();
        drop(steps.send(ShimStep::Hold {
            unsent,
            hooks: Some(hooks),
            clients,
        }));
    }

    /// Sends as much of a frame as fits now. Returns the rest; an error shows when that is sent.
    pub(crate) fn send_now(&self, mut frame: Vec<u8>) -> Vec<u8> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let sent = rustix::net::send(&*self.stream, &frame, flags).unwrap_or(0);
        frame.drain(..sent);
        frame
    }
}

/// The shims that wait for the same hooks: the first one, and those of double registrations.
#[derive(Debug)]
pub(crate) struct PendingClients {
    waiting: AtomicUsize,
    cancel: Cancel,
    seq: i64,
    messages: mpsc::WeakSender<Message>,
}

impl PendingClients {
    pub(crate) fn new(cancel: Cancel, seq: i64, messages: mpsc::WeakSender<Message>) -> Arc<Self> {
        Arc::new(Self {
            waiting: AtomicUsize::new(1),
            cancel,
            seq,
            messages,
        })
    }

    pub(crate) fn join(self: &Arc<Self>) -> Arc<Self> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        Arc::clone(self)
    }

    /// Counts one shim less. The last one cancels the hooks and the question.
    pub(crate) async fn leave(&self) {
        if self.waiting.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.cancel.abandon();
            if let Some(core) = self.messages.upgrade() {
                drop(core.send(Message::Abandoned(self.seq)).await);
            }
        }
    }
}
