//! The named hooks of an event. The event is committed, its shim is told to wait, the hooks run in a thread of
//! their own, and their merged answer is committed and sent. A double of the event waits with it.

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use becket_engine::hooks::plan::{self, HookPlan, HookSetup};
use becket_engine::hooks::switch;
use becket_engine::judge::Verdict;
use becket_engine::pipeline::{FinishedEvent, finish, read_files, wants_files};
use becket_engine::process::Cancel;
use becket_engine::session::EventOutcome;
use becket_wire::hook_run::{RunOutcome, RunRow};
use becket_wire::rpc::{Response, RpcError, read_environment};
use becket_wire::{Output, Place};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tracing::warn;

use super::{Core, Message, OpenEvent};
use crate::store::EventRecord;
use crate::waiting_shim::{PendingClients, WaitingShim};

/// The note of hooks that found no slot.
const TOO_MANY: &str = "too many hooks run already";
/// The number of events with running hooks above which no background hooks are started.
const MAX_WITH_BACKGROUND: usize = 320;
/// The time for which a decision is kept for doubles, which come within five seconds.
const KEPT_FOR_DOUBLES: Duration = Duration::from_secs(6);
/// The time that the shim waits beyond the hooks' own: their answer has to be committed first.
const COMMIT_MARGIN: Duration = Duration::from_secs(2);
/// The time that copying switches may wait for their lock. The shim waits a second.
const SWITCH_LOCK_WAIT: Duration = Duration::from_millis(300);

/// The number of events whose hooks run at once. More have to wait.
const AT_ONCE: usize = 64;
/// The number of events of one session whose hooks run at once.
const PER_SESSION: usize = 16;
/// The time that an event waits for a slot. After that it is judged without its hooks.
const SLOT_WAIT: Duration = Duration::from_secs(5);

/// Starts hooks, and keeps the decisions that doubles of an event wait for.
#[derive(Debug)]
pub(crate) struct HookRunner {
    /// True if the daemon is about to end and starts no hooks any more.
    pub(super) draining: bool,
    pub(super) running: Arc<RunningHooks>,
    /// The queue of the core.
    messages: mpsc::WeakSender<Message>,
    setup: HookSetup,
    slots: Arc<HookSlots>,
    /// The decisions that are still open, by the number of their event.
    open: HashMap<i64, OpenDecision>,
    /// The decisions of the last seconds: time, number of the event, answer for a double.
    recent: VecDeque<(Instant, i64, Output)>,
}

#[derive(Debug)]
struct OpenDecision {
    for_ms: u32,
    clients: Arc<PendingClients>,
    /// The doubles that wait for this decision.
    doubles: Vec<WaitingShim>,
}

/// The decision about the first of two equal events.
#[derive(Debug)]
pub(super) enum EarlierDecision {
    Made(Output),
    /// Hooks still run, for so many milliseconds at most.
    Pending {
        for_ms: u32,
    },
}

impl HookRunner {
    pub(crate) fn new(place: &Place, becket: PathBuf, messages: mpsc::WeakSender<Message>) -> Self {
        Self {
            messages,
            draining: false,
            running: Arc::default(),
            setup: HookSetup {
                becket,
                home: place.home().to_path_buf(),
                environment: Arc::default(),
            },
            slots: Arc::new(HookSlots::new(SLOT_WAIT)),
            open: HashMap::new(),
            recent: VecDeque::new(),
        }
    }

    /// Opens a decision that takes its time. Returns its time limit in milliseconds and the shims that wait.
    pub(super) fn open_decision(
        &mut self,
        seq: i64,
        within: Duration,
        cancel: Cancel,
    ) -> (u32, Arc<PendingClients>) {
        let within = within + COMMIT_MARGIN;
        let for_ms = u32::try_from(within.as_millis()).unwrap_or(u32::MAX);
        let clients = PendingClients::new(cancel, seq, self.messages.clone());
        let decision = OpenDecision {
            for_ms,
            clients: Arc::clone(&clients),
            doubles: Vec::new(),
        };
        self.open.insert(seq, decision);
        (for_ms, clients)
    }

    /// Has the shims of an event wait for a person, also those that waited for its hooks.
    pub(super) fn expect_person(
        &mut self,
        seq: i64,
        within: Duration,
    ) -> (u32, Arc<PendingClients>) {
        let earlier = self.open.remove(&seq);
        let (for_ms, mut clients) = self.open_decision(seq, within, Cancel::new());
        if let (Some(earlier), Some(decision)) = (earlier, self.open.get_mut(&seq)) {
            clients = Arc::clone(&earlier.clients);
            (decision.clients, decision.doubles) = (earlier.clients, earlier.doubles);
        }
        (for_ms, clients)
    }

    /// Closes a decision that will not be made. Its doubles go standalone.
    pub(super) fn abandon_decision(&mut self, seq: i64) {
        self.open.remove(&seq);
    }

    /// Returns the decision about an earlier event; none if it was made at once, or long ago.
    pub(super) fn earlier_decision(&self, seq: i64) -> Option<EarlierDecision> {
        if let Some(OpenDecision { for_ms, .. }) = self.open.get(&seq) {
            return Some(EarlierDecision::Pending { for_ms: *for_ms });
        }
        let (_, _, output) = self.recent.iter().find(|(_, made, _)| *made == seq)?;
        Some(EarlierDecision::Made(output.clone()))
    }

    /// Closes a decision and keeps it for doubles. Returns those that wait for it, with their answers.
    pub(super) fn close_decision(
        &mut self,
        seq: i64,
        output: impl FnOnce() -> Output,
    ) -> Vec<(WaitingShim, Output)> {
        while let Some((at, ..)) = self.recent.front()
            && at.elapsed() > KEPT_FOR_DOUBLES
        {
            self.recent.pop_front();
        }
        let Some(decision) = self.open.remove(&seq) else {
            return Vec::new();
        };
        let output = output();
        (self.recent).push_back((Instant::now(), seq, output.clone()));
        let doubles = decision.doubles.into_iter();
        doubles.map(|shim| (shim, output.clone())).collect()
    }
}

/// Makes the answer for hooks that were ended before they had answered: an error, which Claude Code shows and
/// passes over. With `--strict` it blocks.
fn cut_off(hooks: &[&str]) -> Output {
    let hooks = hooks.join(", ");
    Output {
        stdout: Vec::new(),
        stderr: format!("becket: the daemon ended before this had answered: {hooks}\n")
            .into_bytes(),
        exit: 1,
    }
}

impl Core {
    /// Commits the event, then tells the shim to wait and queues the hooks.
    pub(super) fn run_hooks(&mut self, mut open: OpenEvent, plan: HookPlan, verdict: Verdict) {
        let seq = open.record.seq;
        let cancel = Cancel::new();
        let (for_ms, clients) =
            self.hooks
                .open_decision(seq, plan.longest().max(SLOT_WAIT), cancel.clone());
        let (Ok(hold), Ok(begun)) = (hold_frame(for_ms, true), hold_frame(for_ms, false)) else {
            return;
        };
        self.record_outcome(&open, EventOutcome::Pending);
        open.record.hooks_pending = true;
        self.hooks.running.lock().insert(seq, cancel.clone());
        let record = open.record.clone();
        let hooks = Box::new(QueuedHooks {
            plan,
            open,
            verdict,
            begun,
            setup: self.hooks.setup.clone(),
            place: self.place.clone(),
            slots: Arc::clone(&self.hooks.slots),
            entry: RunningEntry {
                seq,
                cancel,
                messages: self.messages.clone(),
                running: Arc::clone(&self.hooks.running),
                answered: false,
            },
        });
        self.group.push((
            record,
            Box::new(move || WaitingShim::hold_and_queue_hooks(hooks, hold, clients)),
        ));
    }

    /// Commits the decision of the hooks, then answers.
    pub(super) fn hooks_done(&mut self, done: HooksDone) {
        let (mut open, verdict, runs) = (done.open, done.verdict, done.runs);
        let ended: Vec<&str> = runs
            .iter()
            .filter(|run| run.was_cut_off() || run.was_cancelled())
            .map(|run| &*run.hook)
            .collect();
        let is_answer = ended.is_empty() || verdict.refuses();
        if ended.is_empty()
            && let Some(question) = self.question(&open, &verdict)
        {
            self.runs.extend(runs);
            self.run_notice(verdict.notice.as_ref());
            return self.hold_question(question, open, verdict);
        }
        let output = if is_answer {
            verdict.output()
        } else {
            // Silence would count as consent.
            cut_off(&ended)
        };
        let doubles = self.hooks.close_decision(open.record.seq, || {
            if is_answer {
                verdict.repeated()
            } else {
                output.clone()
            }
        });
        // A shim that hung up got no answer.
        if is_answer && !runs.iter().any(RunRow::was_cancelled) {
            open.set_decision(&verdict, &output);
        }
        open.record.runs = runs;
        open.record.set_completion();
        self.record_effort(&open, &verdict);
        if !verdict.blocks_stop() {
            self.run_notice(verdict.notice.as_ref());
        }
        let outcome = if verdict.blocks_stop() || verdict.blocks_prompt() {
            EventOutcome::Blocked
        } else {
            EventOutcome::Passed
        };
        self.record_outcome(&open, outcome);
        let answers = doubles.into_iter().chain([(open.shim, output)]);
        self.reply(open.record, answers);
    }

    /// Commits a double of an event whose hooks run, and lets its shim wait for the same decision.
    pub(super) fn wait_with_first(
        &mut self,
        first: i64,
        for_ms: u32,
        record: Box<EventRecord>,
        shim: WaitingShim,
    ) {
        let Some(decision) = self.hooks.open.get_mut(&first) else {
            return;
        };
        let Ok(hold) = hold_frame(for_ms, false) else {
            return;
        };
        shim.hold(hold, decision.clients.join());
        decision.doubles.push(shim);
        self.group.push((record, Box::new(|| ())));
    }

    /// Copies the switches of a session to the one that continues it, in another thread: that waits for a lock and
    /// writes a file. The event that depends on them is decided after that.
    pub(super) fn follow_switches(&self, from: String, to: String, then: Option<OpenEvent>) {
        let (messages, place) = (self.messages.clone(), self.place.clone());
        tokio::task::spawn_blocking(move || {
            if let Err(why) = switch::copy(&place, &from, &to, SWITCH_LOCK_WAIT) {
                warn!(%why, "could not copy the switches of {from} to {to}");
            }
            let (Some(mut open), Some(core)) = (then, messages.upgrade()) else {
                return;
            };
            Arc::make_mut(&mut open.event).read_switches(&place);
            if wants_files(&open.event, &open.context) {
                read_files(&open.event, &mut open.context);
            }
            drop(core.blocking_send(Message::Decide(Box::new(open))));
        });
    }
}

pub(super) fn hold_frame(for_ms: u32, need_env: bool) -> Result<Vec<u8>, RpcError> {
    Response::Hold { for_ms, need_env }.to_frame()
}

/// The events whose hooks run, those in the background included.
#[derive(Debug, Default)]
pub(crate) struct RunningHooks(Mutex<HashMap<i64, Cancel>>);

impl RunningHooks {
    pub(crate) fn any(&self) -> bool {
        !self.lock().is_empty()
    }

    /// Ends all hooks because the daemon ends.
    pub(crate) fn cut_off(&self) {
        self.lock().values().for_each(Cancel::cut_off);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<i64, Cancel>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One event in [`RunningHooks`]. Dropped without an answer, it tells the core.
#[derive(Debug)]
struct RunningEntry {
    seq: i64,
    cancel: Cancel,
    messages: mpsc::WeakSender<Message>,
    running: Arc<RunningHooks>,
    answered: bool,
}

impl RunningEntry {
    fn send(&self, message: Message) {
        if let Some(core) = self.messages.upgrade() {
            drop(core.blocking_send(message));
        }
    }
}

impl Drop for RunningEntry {
    fn drop(&mut self) {
        self.running.lock().remove(&self.seq);
        if !self.answered
            && let Some(core) = self.messages.upgrade()
        {
            let failed = Message::HooksFailed(self.seq);
            // The doubles of the event wait for this message, so a full queue does not lose it.
            if let Err(TrySendError::Full(failed)) = core.try_send(failed) {
                std::thread::spawn(move || drop(core.blocking_send(failed)));
            }
        }
    }
}

/// The hooks of one committed event, ready to run. The connection task of its shim starts them.
#[derive(Debug)]
pub(crate) struct QueuedHooks {
    plan: HookPlan,
    open: OpenEvent,
    verdict: Verdict,
    /// The frame that tells the shim that the hooks have begun.
    begun: Vec<u8>,
    setup: HookSetup,
    place: Place,
    slots: Arc<HookSlots>,
    entry: RunningEntry,
}

/// The hooks of an event have ended.
#[derive(Debug)]
pub(crate) struct HooksDone {
    open: OpenEvent,
    verdict: Verdict,
    runs: Vec<RunRow>,
}

impl QueuedHooks {
    pub(crate) fn shim(&self) -> &WaitingShim {
        &self.open.shim
    }

    /// Takes a slot for these hooks. Returns none if none gets free in time.
    pub(crate) async fn slot(&self) -> Option<HookSlot> {
        let session = self.plan.session_id.as_deref().unwrap_or_default();
        self.slots.take(session).await
    }

    /// Starts the thread that runs the hooks. Without a slot they count as not started.
    pub(crate) fn start(mut self: Box<Self>, environment: &[u8], slot: Option<HookSlot>) {
        self.setup.environment = read_environment(environment).into();
        let thread = std::thread::Builder::new().name("hooks".into());
        if let Err(why) = thread.spawn(move || self.run(slot)) {
            warn!(%why, "could not start a thread for hooks");
        }
    }

    fn run(mut self: Box<Self>, slot: Option<HookSlot>) {
        // After this frame standalone does not run the hooks again, so it is sent only where they do run.
        let begun = std::mem::take(&mut self.begun);
        drop(self.shim().send_now(begun));
        let not_begun = self.leave_out_background();
        let Self {
            open, mut entry, ..
        } = *self;
        let event = Arc::clone(&open.event);
        let cancel = entry.cancel.clone();
        let mut hooks = self.plan.runs(&self.setup, &cancel);
        if slot.is_none() {
            hooks.refuse(TOO_MANY);
        }
        let results = hooks.run_awaited();
        let FinishedEvent { verdict, mut runs } =
            finish(&event, &open.context, self.verdict, results, &self.place);
        runs.extend(not_begun);
        entry.answered = true;
        entry.send(Message::HooksDone(Box::new(HooksDone {
            open,
            verdict,
            runs,
        })));
        // Hooks in the background take no slot.
        drop(slot);
        while let Some(run) = hooks.next_ended() {
            entry.send(Message::HookEnded(plan::masked(vec![run], &event.masker)));
        }
    }

    /// Takes the background hooks out of the plan if too many events have running hooks.
    fn leave_out_background(&mut self) -> Vec<RunRow> {
        if self.entry.running.lock().len() <= MAX_WITH_BACKGROUND {
            return Vec::new();
        }
        let plan = &mut self.plan;
        let left_out: Vec<_> = plan.hooks.extract_if(.., |hook| hook.is_async).collect();
        let note = format!("the hooks of more than {MAX_WITH_BACKGROUND} events run already");
        let mut rows = Vec::new();
        for hook in left_out {
            rows.push(RunRow {
                outcome: RunOutcome::NotStarted,
                note: Some(note.clone()),
                ..plan.background_row(&hook)
            });
        }
        rows
    }
}

/// The slots for events whose hooks run.
#[derive(Debug)]
struct HookSlots {
    all: Arc<Semaphore>,
    /// The slots of each session that has or wants one.
    sessions: Mutex<HashMap<String, Weak<Semaphore>>>,
    wait: Duration,
}

/// One slot, until it is dropped.
pub(crate) type HookSlot = (OwnedSemaphorePermit, OwnedSemaphorePermit);

impl HookSlots {
    fn new(wait: Duration) -> Self {
        Self {
            all: Arc::new(Semaphore::new(AT_ONCE)),
            sessions: Mutex::default(),
            wait,
        }
    }

    /// Takes a slot. Returns none if none gets free in time.
    async fn take(&self, session: &str) -> Option<HookSlot> {
        let own = self.session_slots(session);
        let both = async {
            let own = own.acquire_owned().await.ok()?;
            Some((own, Arc::clone(&self.all).acquire_owned().await.ok()?))
        };
        tokio::time::timeout(self.wait, both).await.ok()?
    }

    fn session_slots(&self, session: &str) -> Arc<Semaphore> {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|_, slots| slots.strong_count() > 0);
        if let Some(slots) = sessions.get(session).and_then(Weak::upgrade) {
            return slots;
        }
        let slots = Arc::new(Semaphore::new(PER_SESSION));
        sessions.insert(session.to_owned(), Arc::downgrade(&slots));
        slots
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_session_takes_no_more_than_its_slots_and_waits_within_a_bound() {
        let slots = HookSlots::new(Duration::from_millis(50));
        let mut taken = Vec::new();
        for _ in 0..PER_SESSION {
            taken.push(slots.take("a").await.expect("a slot"));
        }
        assert!(slots.take("a").await.is_none());
        for session in ["b", "c", "d"] {
            for _ in 0..PER_SESSION {
                taken.push(slots.take(session).await.expect("a slot"));
            }
        }
        assert!(slots.take("e").await.is_none(), "all are taken");
        taken.clear();
        assert!(slots.take("a").await.is_some());
        assert!(slots.take("e").await.is_some());
        assert_eq!(
            slots.sessions.lock().unwrap().len(),
            1,
            "no others are kept"
        );
    }
}
