//! becket's verdict of an event, shared by all callbacks of that event.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use becket_wire::Answer;
use becket_wire::event::EventName;
use tokio::sync::OnceCell;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::BecketHook;
use crate::hooks::{CallbackResult, Context};

/// How long a verdict is kept. Claude Code calls the callbacks of one event together.
const KEPT_FOR: Duration = Duration::from_secs(5);

/// becket's answer, or why there is none.
pub(super) type Verdict = Result<Answer, String>;

/// The events that are being judged or were judged just now, by their bytes.
#[derive(Default)]
pub(super) struct Verdicts(Mutex<HashMap<Arc<str>, Judged>>);

struct Judged {
    verdict: Arc<OnceCell<Verdict>>,
    begun: Instant,
    /// becket's own callback has asked. If it asks again, it is another event with the same bytes.
    by_becket: bool,
    cancelled: CancellationToken,
    /// Held by each callback that waits; the last one to drop it cancels `becket-hook`.
    waiting: Weak<DropGuard>,
}

/// A callback that waits for the verdict.
struct Waiter {
    verdict: Arc<OnceCell<Verdict>>,
    cancelled: CancellationToken,
    _waiting: Arc<DropGuard>,
}

impl BecketHook {
    /// The answer of becket's own callback.
    pub(super) async fn callback(
        self: &Arc<Self>,
        event: &EventName,
        input: Arc<str>,
        context: &Context,
    ) -> CallbackResult {
        let verdict = self.verdict(event, input, context, true).await;
        Ok(crate::Answer::bound_to_event(verdict?))
    }

    /// becket's answer to an event. The first callback that asks starts `becket-hook`, in a task of its
    /// own: it goes on if that callback is cancelled, and ends when all of the event's are.
    pub(super) async fn verdict(
        self: &Arc<Self>,
        event: &EventName,
        input: Arc<str>,
        context: &Context,
        by_becket: bool,
    ) -> Verdict {
        let waiter = self.verdicts.wait_for(&input, by_becket);
        let (verdict, cancelled) = (Arc::clone(&waiter.verdict), waiter.cancelled.clone());
        let (becket, event, context) = (Arc::clone(self), event.clone(), context.clone());
        let judging = tokio::spawn(async move {
            let judge = || becket.judge(&event, &input, &context, &cancelled);
            verdict.get_or_init(judge).await.clone()
        });
        judging
            .await
            .unwrap_or_else(|why| Err(format!("becket-hook: {why}")))
    }
}

impl Verdicts {
    fn wait_for(&self, input: &Arc<str>, by_becket: bool) -> Waiter {
        let now = Instant::now();
        let mut judged = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        judged.retain(|_, judged| judged.is_current(now));
        let judged = judged
            .entry(Arc::clone(input))
            .or_insert_with(|| Judged::new(now));
        if by_becket && judged.by_becket {
            *judged = Judged::new(now);
        }
        judged.by_becket |= by_becket;
        judged.waiter(now)
    }
}

impl Judged {
    fn new(begun: Instant) -> Self {
        Self {
            verdict: Arc::default(),
            begun,
            by_becket: false,
            cancelled: CancellationToken::new(),
            waiting: Weak::new(),
        }
    }

    fn is_current(&self, now: Instant) -> bool {
        let answered = self.verdict.get().is_some_and(Result::is_ok);
        self.waiting.strong_count() > 0 || answered && now - self.begun < KEPT_FOR
    }

    fn waiter(&mut self, now: Instant) -> Waiter {
        let waiting = self.waiting.upgrade().unwrap_or_else(|| {
            // The last waiter may have gone since `retain`, and its run is cancelled.
            if self.verdict.get().is_none() {
                *self = Self::new(now);
            }
            let guard = Arc::new(self.cancelled.clone().drop_guard());
            self.waiting = Arc::downgrade(&guard);
            guard
        });
        Waiter {
            verdict: Arc::clone(&self.verdict),
            cancelled: self.cancelled.clone(),
            _waiting: waiting,
        }
    }
}
