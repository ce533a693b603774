//! The named hooks of an event. The event is committed, the shim is held, the hooks run in a thread of
//! their own, and what they say together is committed and answered. A double of the event gets the
//! same refusal as soon as it is known.

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use becket_engine::hooks::execute::{HooksRan, Kit, Plan};
use becket_engine::hooks::{output, switch};
use becket_engine::judge::Verdict;
use becket_engine::pipeline::{Finished, finish, read_files, wants_files};
use becket_engine::run::Cancel;
use becket_engine::session::Decided;
use becket_wire::rpc::{Response, read_environment};
use becket_wire::run::RunRow;
use becket_wire::{Output, Place};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tracing::warn;

use super::{Core, InHand, Message, micros};
use crate::serve::{Answerer, Askers};
use crate::store::{self, Record};

/// The hooks of so many events run at once, and of so many events of one session; more have to wait.
const AT_ONCE: usize = 64;
const OF_A_SESSION: usize = 16;
/// How long they wait. After that the event is judged without them.
const SLOT_WAIT: Duration = Duration::from_secs(5);
const TOO_MANY: &str = "too many hooks run already";
/// With so many events at work, hooks in the background are not begun.
const MOST: usize = 320;
/// Doubles come within five seconds.
const REMEMBERED: Duration = Duration::from_secs(6);
/// The shim waits a little longer than the hooks may take: their answer has to be committed first.
const MARGIN: Duration = Duration::from_secs(2);
/// How long copying switches may wait for their lock: the shim waits a second.
const PATIENCE: Duration = Duration::from_millis(300);

/// What the core knows of hooks.
#[derive(Debug)]
pub(crate) struct Hooks {
    /// The daemon is about to end: it begins no hooks any more.
    pub(super) draining: bool,
    pub(crate) running: Arc<Running>,
    kit: Kit,
    slots: Arc<Slots>,
    /// Events whose decision is yet to come.
    pending: HashMap<i64, Pending>,
    /// What was decided in the last seconds.
    decided: VecDeque<(Instant, i64, Output)>,
}

#[derive(Debug)]
struct Pending {
    for_ms: u32,
    until: Instant,
    askers: Arc<Askers>,
    /// The doubles that wait for the same decision.
    doubles: Vec<Answerer>,
}

/// How far the decision about an event is that takes its time.
#[derive(Debug)]
pub(super) enum Decision {
    Ready(Output),
    /// It may take so many milliseconds.
    Pending(u32),
}

/// The hooks of an event are done.
pub(crate) struct HooksDone {
    in_hand: InHand,
    answerer: Answerer,
    verdict: Verdict,
    runs: Vec<RunRow>,
}

impl Hooks {
    pub(crate) fn new(place: &Place, becket: PathBuf) -> Self {
        Self {
            draining: false,
            kit: Kit {
                becket,
                home: place.home().to_path_buf(),
                environment: Arc::default(),
            },
            running: Arc::default(),
            slots: Arc::new(Slots::new(SLOT_WAIT)),
            pending: HashMap::new(),
            decided: VecDeque::new(),
        }
    }

    /// Registers a pending decision. Gives its bound in milliseconds, and who waits for it.
    pub(super) fn expect(
        &mut self,
        seq: i64,
        within: Duration,
        cancel: Cancel,
    ) -> (u32, Arc<Askers>) {
        let within = within + MARGIN;
        let for_ms = u32::try_from(within.as_millis()).unwrap_or(u32::MAX);
        let askers = Askers::one(cancel);
        let pending = Pending {
            for_ms,
            until: Instant::now() + within,
            askers: Arc::clone(&askers),
            doubles: Vec::new(),
        };
        self.pending.insert(seq, pending);
        (for_ms, askers)
    }

    /// Nothing will be decided about this event: its doubles go standalone.
    pub(super) fn give_up(&mut self, seq: i64) {
        self.pending.remove(&seq);
    }

    pub(super) fn tick(&mut self) {
        let now = Instant::now();
        self.pending.retain(|_, pending| pending.until > now);
    }

    /// None if it was decided at once, or long ago.
    pub(super) fn decision_of(&self, seq: i64) -> Option<Decision> {
        if let Some(pending) = self.pending.get(&seq) {
            return Some(Decision::Pending(pending.for_ms));
        }
        let mut decided = self.decided.iter();
        let (_, _, output) = decided.find(|(_, decided, _)| *decided == seq)?;
        Some(Decision::Ready(output.clone()))
    }

    /// Remembers a decision for doubles, and gives those that wait for it.
    pub(super) fn decided(
        &mut self,
        seq: i64,
        output: impl FnOnce() -> Output,
    ) -> Vec<(Answerer, Output)> {
        while let Some((at, ..)) = self.decided.front()
            && at.elapsed() > REMEMBERED
        {
            self.decided.pop_front();
        }
        let Some(pending) = self.pending.remove(&seq) else {
            return Vec::new();
        };
        let output = output();
        (self.decided).push_back((Instant::now(), seq, output.clone()));
        let doubles = pending.doubles.into_iter();
        doubles.map(|answerer| (answerer, output.clone())).collect()
    }
}

/// The answer where hooks were ended before they had answered: an error, which Claude Code shows and
/// passes over, or blocks by if it is registered with `--strict`.
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
    /// Commits the event, holds the shim, and has the hooks run.
    pub(super) fn hold(
        &mut self,
        mut in_hand: InHand,
        answerer: Answerer,
        plan: Plan,
        verdict: Verdict,
    ) {
        let seq = in_hand.record.seq;
        let cancel = Cancel::new();
        let (for_ms, askers) = self.hooks.expect(seq, plan.longest(), cancel.clone());
        let word = |need_env| Response::Hold { for_ms, need_env }.to_frame();
        let (Ok(hold), Ok(begun)) = (word(true), word(false)) else {
            return;
        };
        if let Some(applied) = &in_hand.applied {
            (self.registry).decided(applied, &in_hand.record, Decided::Pending);
        }
        in_hand.record.held = true;
        let (environment, handed) = oneshot::channel();
        let (committed, begin) = oneshot::channel();
        let record = in_hand.record.clone();
        let reply = move || {
            drop(committed.send(answerer.hold(hold, Some(environment), askers)));
        };
        self.group.push((record, Box::new(reply)));
        let run = Run {
            plan,
            in_hand,
            verdict,
            kit: self.hooks.kit.clone(),
            place: self.place.clone(),
            watched: Running::watch(&self.hooks.running, seq, cancel, self.messages.clone()),
            begun,
        };
        tokio::spawn(run.start(Arc::clone(&self.hooks.slots), begin, handed));
    }

    /// Commits what the hooks decided, then answers.
    pub(super) fn hooks_done(&mut self, done: HooksDone) {
        let HooksDone {
            in_hand,
            answerer,
            verdict,
            runs,
        } = done;
        let InHand {
            event,
            mut record,
            at,
            applied,
            ..
        } = in_hand;
        let ended = runs
            .iter()
            .filter(|run| run.was_cut_off() || run.was_cancelled());
        let ended: Vec<&str> = ended.map(|run| &*run.hook).collect();
        let is_answer = ended.is_empty() || verdict.refuses();
        let output = match is_answer {
            true => verdict.output(),
            // Silence would be taken for consent.
            false => cut_off(&ended),
        };
        let doubles = self.hooks.decided(record.seq, || match is_answer {
            true => verdict.repeated(),
            false => output.clone(),
        });
        // A shim that hung up heard nothing of it.
        if is_answer && !runs.iter().any(RunRow::was_cancelled) {
            let decision = store::Decision::new(verdict.decision(), &output);
            record.decision = decision.map(|decision| decision.masked(&event.masker));
            record.took_us = Some(micros(at));
        }
        record.runs = runs;
        record.complete();
        self.effort_said(applied.as_ref(), &record, &verdict);
        let blocks = verdict.blocks_stop() || verdict.blocks_prompt();
        if !verdict.blocks_stop() {
            self.run_notice(verdict.notice.as_ref());
        }
        if let Some(applied) = &applied {
            let decided = if blocks {
                Decided::Blocked
            } else {
                Decided::Passed
            };
            self.registry.decided(applied, &record, decided);
        }
        self.reply(record, doubles.into_iter().chain([(answerer, output)]));
    }

    /// A double of an event that is not decided yet waits with it.
    pub(super) fn wait_for(
        &mut self,
        seq: i64,
        for_ms: u32,
        record: Box<Record>,
        answerer: Answerer,
    ) {
        let hold = Response::Hold {
            for_ms,
            need_env: false,
        };
        let (Ok(hold), Some(pending)) = (hold.to_frame(), self.hooks.pending.get_mut(&seq)) else {
            return;
        };
        let answerer = answerer.hold(hold, None, pending.askers.and_another());
        pending.doubles.push(answerer);
        self.group.push((record, Box::new(|| ())));
    }

    /// A session that goes on from another keeps its switches. Copying them waits for a lock and writes
    /// a file, so not on this thread; an event that depends on them is decided after that.
    pub(super) fn follow_switches(
        &self,
        from: String,
        to: String,
        then: Option<(InHand, Answerer)>,
    ) {
        let (messages, place) = (self.messages.clone(), self.place.clone());
        tokio::task::spawn_blocking(move || {
            if let Err(why) = switch::copy(&place, &from, &to, PATIENCE) {
                warn!(%why, "could not copy the switches of {from} to {to}");
            }
            let (Some((mut in_hand, answerer)), Some(core)) = (then, messages.upgrade()) else {
                return;
            };
            Arc::make_mut(&mut in_hand.event).read_switches(&place);
            if wants_files(&in_hand.event, &in_hand.context) {
                read_files(&in_hand.event, &mut in_hand.context);
            }
            drop(core.blocking_send(Message::Decide(Box::new((in_hand, answerer)))));
        });
    }
}

/// The places for events whose hooks run.
#[derive(Debug)]
struct Slots {
    all: Arc<Semaphore>,
    /// Those of each session that has or wants one.
    sessions: Mutex<HashMap<String, Weak<Semaphore>>>,
    wait: Duration,
}

/// One place, until it is dropped.
type Slot = (OwnedSemaphorePermit, OwnedSemaphorePermit);

impl Slots {
    fn new(wait: Duration) -> Self {
        Self {
            all: Arc::new(Semaphore::new(AT_ONCE)),
            sessions: Mutex::default(),
            wait,
        }
    }

    /// None if none is free in time.
    async fn take(&self, session: &str) -> Option<Slot> {
        let own = self.of_session(session);
        let both = async {
            let own = own.acquire_owned().await.ok()?;
            Some((own, Arc::clone(&self.all).acquire_owned().await.ok()?))
        };
        tokio::time::timeout(self.wait, both).await.ok()?
    }

    fn of_session(&self, session: &str) -> Arc<Semaphore> {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|_, slots| slots.strong_count() > 0);
        if let Some(slots) = sessions.get(session).and_then(Weak::upgrade) {
            return slots;
        }
        let slots = Arc::new(Semaphore::new(OF_A_SESSION));
        sessions.insert(session.to_owned(), Arc::downgrade(&slots));
        slots
    }
}

/// The events whose hooks run, also in the background.
#[derive(Debug, Default)]
pub(crate) struct Running(Mutex<HashMap<i64, Cancel>>);

impl Running {
    fn watch(
        running: &Arc<Self>,
        seq: i64,
        cancel: Cancel,
        messages: mpsc::WeakSender<Message>,
    ) -> Watched {
        running.lock().insert(seq, cancel.clone());
        Watched {
            seq,
            cancel,
            messages,
            running: Arc::clone(running),
            answered: false,
        }
    }

    pub(crate) fn any(&self) -> bool {
        !self.lock().is_empty()
    }

    /// Ends them all, because the daemon ends.
    pub(crate) fn cut_off(&self) {
        self.lock().values().for_each(Cancel::cut_off);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<i64, Cancel>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One event in [`Running`]. If its thread ends without an answer, the core learns of it.
#[derive(Debug)]
struct Watched {
    seq: i64,
    cancel: Cancel,
    messages: mpsc::WeakSender<Message>,
    running: Arc<Running>,
    answered: bool,
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.running.lock().remove(&self.seq);
        if !self.answered
            && let Some(core) = self.messages.upgrade()
        {
            drop(core.try_send(Message::HooksFailed(self.seq)));
        }
    }
}

/// The hooks of one event, to be run.
struct Run {
    plan: Plan,
    in_hand: InHand,
    verdict: Verdict,
    kit: Kit,
    place: Place,
    watched: Watched,
    /// The frame that tells the shim that they have begun.
    begun: Vec<u8>,
}

impl Run {
    /// Begins once the event is committed, a slot is free and the shim has sent its environment. If no
    /// slot gets free, the hooks count as not started.
    async fn start(
        mut self,
        slots: Arc<Slots>,
        committed: oneshot::Receiver<Answerer>,
        handed: oneshot::Receiver<Vec<u8>>,
    ) {
        let Ok(answerer) = committed.await else {
            return;
        };
        let session = self.plan.session_id.as_deref().unwrap_or_default();
        let slot = slots.take(session).await;
        // The shim hung up, also while it waited for a slot: standalone runs them.
        let Some(block) = handed
            .await
            .ok()
            .filter(|_| !self.watched.cancel.is_cancelled())
        else {
            return;
        };
        self.kit.environment = read_environment(&block).into();
        let thread = std::thread::Builder::new().name("hooks".into());
        if let Err(why) = thread.spawn(move || self.run(answerer, slot)) {
            warn!(%why, "could not start a thread for hooks");
        }
    }

    fn run(mut self, answerer: Answerer, slot: Option<Slot>) {
        // After this frame standalone does not run them again, so it is sent only where they do run.
        answerer.tell(std::mem::take(&mut self.begun));
        let (not_begun, has_slot) = (self.leave_out(), slot.is_some());
        let Self {
            plan,
            in_hand,
            verdict,
            kit,
            place,
            mut watched,
            begun: _,
        } = self;
        let event = Arc::clone(&in_hand.event);
        let (cancel, messages) = (watched.cancel.clone(), watched.messages.clone());
        let send = |message| {
            if let Some(core) = messages.upgrade() {
                drop(core.blocking_send(message));
            }
        };
        let answered = |ran: HooksRan<'_>| {
            let Finished { verdict, mut runs } =
                finish(&event, &in_hand.context, verdict, ran, &place);
            runs.extend(not_begun);
            watched.answered = true;
            send(Message::HooksDone(Box::new(HooksDone {
                in_hand,
                answerer,
                verdict,
                runs,
            })));
            // What goes on in the background takes no slot.
            drop(slot);
        };
        let later = |run| send(Message::HookEnded(output::masked(vec![run], &event.masker)));
        if has_slot {
            plan.run(&kit, &cancel, answered, later);
        } else {
            plan.run_none(TOO_MANY, answered, later);
        }
    }

    /// With too many at work, takes out the hooks in the background.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_session_takes_no_more_than_its_slots_and_waits_within_a_bound() {
        let slots = Slots::new(Duration::from_millis(50));
        let mut taken = Vec::new();
        for _ in 0..OF_A_SESSION {
            taken.push(slots.take("a").await.expect("a slot"));
        }
        assert!(slots.take("a").await.is_none());
        for session in ["b", "c", "d"] {
            for _ in 0..OF_A_SESSION {
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
