//! The threads in which hooks run, one an event, and their end. None outlives a daemon that ends in
//! order; what a killed daemon leaves behind, the next one ends by its file.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use becket_engine::hooks::carry::{Done, Kit, Plan};
use becket_engine::hooks::kept;
use becket_engine::judge::{Grounds, Verdict};
use becket_engine::mask::Masker;
use becket_engine::run::Cancel;
use becket_wire::Place;
use becket_wire::rpc::read_environment;
use becket_wire::run::RunRow;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tracing::warn;

use super::Hooked;
use crate::connection::Answerer;
use crate::dispatch::Message;
use crate::registry::Applied;
use crate::store::Record;

/// With so many at work, those that nobody waits for are not begun.
const MOST: usize = 320;

/// The events whose hooks run, also in the background.
#[derive(Debug, Default)]
pub(crate) struct Running {
    all: Mutex<HashMap<i64, Cancel>>,
    fewer: Condvar,
    /// The daemon ends: it begins no hooks any more.
    closed: AtomicBool,
}

impl Running {
    pub(super) fn watch(
        running: &Arc<Self>,
        seq: i64,
        cancel: Cancel,
        dispatcher: mpsc::WeakSender<Message>,
    ) -> Watched {
        running.lock().insert(seq, cancel.clone());
        Watched {
            seq,
            cancel,
            dispatcher,
            running: Arc::clone(running),
            answered: false,
        }
    }

    pub(crate) fn any(&self) -> bool {
        !self.lock().is_empty()
    }

    pub(crate) fn take_no_more(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }

    pub(crate) fn takes_no_more(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Ends them all, and waits for that.
    pub(crate) fn end(&self, wait: Duration) {
        let all = self.lock();
        all.values().for_each(Cancel::cut_off);
        let ended = self
            .fewer
            .wait_timeout_while(all, wait, |all| !all.is_empty());
        drop(ended);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<i64, Cancel>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One of them. Whatever becomes of it, nobody waits for it in vain.
#[derive(Debug)]
pub(super) struct Watched {
    seq: i64,
    cancel: Cancel,
    dispatcher: mpsc::WeakSender<Message>,
    running: Arc<Running>,
    answered: bool,
}

impl Watched {
    fn tell(&self, message: Message) {
        if let Some(dispatcher) = self.dispatcher.upgrade() {
            drop(dispatcher.blocking_send(message));
        }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.running.lock().remove(&self.seq);
        self.running.fewer.notify_all();
        if !self.answered
            && let Some(dispatcher) = self.dispatcher.upgrade()
        {
            // Where even this finds no room, the wait ends by its own time.
            drop(dispatcher.try_send(Message::Unhooked(self.seq)));
        }
    }
}

/// One event's hooks on their way.
pub(super) struct Run {
    pub(super) plan: Plan,
    pub(super) record: Record,
    pub(super) at: Instant,
    pub(super) verdict: Verdict,
    pub(super) grounds: Grounds,
    pub(super) applied: Option<Applied>,
    pub(super) kit: Kit,
    pub(super) place: Place,
    pub(super) masker: Arc<Masker>,
    pub(super) watched: Watched,
    /// What tells whoever waits that they have begun.
    pub(super) begun: Vec<u8>,
}

impl Run {
    /// Begins once the event is kept and the environment is there.
    pub(super) async fn start(
        mut self,
        slots: Arc<Semaphore>,
        begun: oneshot::Receiver<Answerer>,
        handed: oneshot::Receiver<Vec<u8>>,
    ) {
        let (Ok(answerer), Ok(slot)) = (begun.await, slots.acquire_owned().await) else {
            return;
        };
        // Nobody is there any more: nobody needs them.
        let block = handed.await.unwrap_or_else(|_| {
            self.watched.cancel.cancel();
            Vec::new()
        });
        self.kit.environment = read_environment(&block).into();
        // From here on they must not be run anywhere else, whatever becomes of us.
        answerer.tell(std::mem::take(&mut self.begun));
        let thread = std::thread::Builder::new().name("hooks".into());
        if let Err(why) = thread.spawn(move || self.run(answerer, slot)) {
            warn!(%why, "could not start a thread for hooks");
        }
    }

    fn run(mut self, answerer: Answerer, slot: OwnedSemaphorePermit) {
        let not_begun = self.leave_out();
        let Self {
            plan,
            record,
            at,
            verdict,
            grounds,
            applied,
            kit,
            place,
            masker,
            mut watched,
            begun: _,
        } = self;
        let event = plan.event_id;
        let (cancel, dispatcher) = (watched.cancel.clone(), watched.dispatcher.clone());
        let answered = |done: Done| {
            let answer = kept::shorten(done.merged.answer, &place, event, &masker);
            let by = done.merged.by;
            watched.answered = true;
            watched.tell(Message::Hooked(Box::new(Hooked {
                record,
                at,
                verdict: done.own.merged(answer, by),
                runs: done.runs.into_iter().chain(not_begun).collect(),
                masker: Arc::clone(&masker),
                applied,
                answerer,
            })));
            // What goes on in the background takes nobody's place.
            drop(slot);
        };
        let judge = |payload: &[u8]| grounds.judge(payload);
        let later = |run| {
            if let Some(dispatcher) = dispatcher.upgrade() {
                let runs = kept::masked(vec![run], &masker);
                drop(dispatcher.blocking_send(Message::HookEnded(runs)));
            }
        };
        plan.carry_out(&kit, &cancel, verdict, judge, answered, later);
    }

    /// Too many are at work: takes out the hooks that nobody waits for.
    fn leave_out(&mut self) -> Vec<RunRow> {
        if self.watched.running.lock().len() <= MOST {
            return Vec::new();
        }
        let plan = &mut self.plan;
        let left_out: Vec<_> = plan.hooks.extract_if(.., |hook| hook.is_async).collect();
        let row = |hook| RunRow {
            outcome: "not started".to_owned(),
            note: Some(format!("the hooks of more than {MOST} events run already")),
            ..plan.went_behind(hook)
        };
        left_out.iter().map(|hook| row(hook)).collect()
    }
}
