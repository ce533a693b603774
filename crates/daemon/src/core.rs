//! The core thread. It owns live state and the connection that writes the database. It takes all messages that
//! have arrived, applies and decides each event, commits once, then sends the answers. Work that may block
//! (preparing an event, named hooks, reading files) happens in other threads and comes back as a message.

mod doubles;
mod hooks;
mod live;
mod questions;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant, UNIX_EPOCH};

use becket_engine::config::ConfigCache;
use becket_engine::coverage::Coverage;
use becket_engine::judge::Verdict;
use becket_engine::notice;
use becket_engine::pipeline::{
    Context, PreparedEvent, Step, decide, read_files, settle, switch, wants_files,
};
use becket_engine::process::Cancel;
use becket_engine::session::{EventOutcome, EventTime};
use becket_wire::bounds::FIRST_RESPONSE;
use becket_wire::effort::EffortAsk;
use becket_wire::hook_run::RunRow;
use becket_wire::rpc::{AskReply, Response};
use becket_wire::{EventId, Head, Output, Place, Version};
use tokio::sync::{mpsc, oneshot};

use crate::counters::Counters;
use crate::inference::SessionInferences;
use crate::lifecycle::now_ms;
use crate::notice::Notices;
use crate::registry::{Applied, Prepared, Process, Registry, RegistryRequest};
use crate::store::{Batch, Decision, EventRecord, Limits, Reply, Store};
use crate::transcript_calls::EndedSession;
use crate::waiting_shim::WaitingShim;
use doubles::Doubles;
use hooks::EarlierDecision;
pub(crate) use hooks::{HookRunner, HooksDone, QueuedHooks, RunningHooks};
use questions::OpenQuestions;
pub(crate) use questions::QuestionRequest;

/// The number of messages that may wait for the core. More events are answered `Busy`.
pub(crate) const QUEUE: usize = 4096;
/// The number of hook runs kept in memory while the database takes nothing.
const MAX_RUNS: usize = 4096;
/// The largest number of messages in one commit.
const GROUP: usize = 512;

/// A message to the core thread.
pub(crate) enum Message {
    Event(Box<Arrival>),
    StatusLine(Box<PreparedEvent>, WaitingShim),
    /// The switches and files that an event depends on are read: decide it.
    Decide(Box<OpenEvent>),
    /// A slash command has set its switch: answer its event with this verdict.
    SwitchSet(Box<(OpenEvent, Verdict)>),
    /// The named hooks of an event have ended.
    HooksDone(Box<HooksDone>),
    /// The hooks of the event with this number could not be run.
    HooksFailed(i64),
    /// All shims that waited for the decision about this event have hung up.
    Abandoned(i64),
    Question(QuestionRequest),
    /// Answer events that need hooks with `Busy` from now on, and let the questions go.
    Drain(oneshot::Sender<()>),
    /// Hooks that no answer waited for have ended. Their rows are masked.
    HookEnded(Vec<RunRow>),
    Registry(RegistryRequest),
    /// A request about efforts, answered once it is committed.
    Effort(Box<EffortAsk>, Prepared, oneshot::Sender<AskReply>),
    /// Take in the spool. Returns the numbers of the events whose hooks still run.
    TakeIn(oneshot::Sender<HashSet<i64>>),
    /// Changes of sessions that no event reports.
    Inferred(Vec<SessionInferences>),
    /// The number of calls of these sessions that guards saw.
    CallsCounted(Vec<(String, Coverage)>),
    /// The processes of these sessions are gone.
    ProcessesGone(Vec<(String, Process)>),
    /// A reader found the file with this inode damaged.
    DatabaseDamaged {
        inode: Option<u64>,
        why: String,
        done: oneshot::Sender<()>,
    },
    Tick(oneshot::Sender<Ticked>),
    /// Write everything and close the database. With `tidy`, move SQLite's log into it first.
    Close {
        tidy: bool,
    },
}

/// The answer to a tick.
#[derive(Debug)]
pub(crate) struct Ticked {
    pub(crate) idle: Option<Duration>,
    pub(crate) problems: Vec<String>,
    /// The processes to look for.
    pub(crate) processes: Vec<(String, Process)>,
    /// The sessions whose calls are to be compared with the log.
    pub(crate) ended: Vec<EndedSession>,
    /// True if SQLite's log is not the one that is open.
    pub(crate) wal_gone: bool,
}

/// An event that has arrived and was prepared.
pub(crate) struct Arrival {
    pub(crate) event: PreparedEvent,
    pub(crate) record: Box<EventRecord>,
    pub(crate) at: Instant,
    /// The time when the shim sent it, in milliseconds since 1970.
    pub(crate) sent: i64,
    /// True if the shim no longer waits for an answer.
    pub(crate) hung_up: bool,
    pub(crate) shim: WaitingShim,
}

/// An event that was applied to its session and is not answered yet.
#[derive(Debug)]
pub(crate) struct OpenEvent {
    event: Arc<PreparedEvent>,
    record: Box<EventRecord>,
    context: Context,
    at: Instant,
    applied: Option<Applied>,
    shim: WaitingShim,
}

impl OpenEvent {
    /// Completes the record by the decision and the time that it took.
    fn set_decision(&mut self, verdict: &Verdict, output: &Output) {
        let decision = Decision::new(verdict.decision(), output);
        self.record.decision = decision.map(|decision| decision.masked(&self.event.masker));
        self.record.took_us = Some(self.at.elapsed().as_micros() as i64);
    }
}

pub(crate) struct Core {
    place: Place,
    version: Version,
    store: Store,
    registry: Registry,
    configs: Arc<ConfigCache>,
    doubles: Doubles,
    hooks: HookRunner,
    questions: OpenQuestions,
    notices: Notices,
    counters: Arc<Counters>,
    /// Decided events that are not committed yet, each with its reply.
    group: Vec<(Box<EventRecord>, Reply)>,
    /// Runs of hooks that ended after their event was answered.
    runs: Vec<RunRow>,
    /// The queue to which other threads send their results.
    messages: mpsc::WeakSender<Message>,
}

impl Core {
    pub(crate) fn new(
        place: &Place,
        version: Version,
        store: Store,
        configs: Arc<ConfigCache>,
        hooks: HookRunner,
        counters: Arc<Counters>,
        messages: mpsc::WeakSender<Message>,
    ) -> Self {
        Self {
            registry: Registry::open(store.connection()),
            place: place.clone(),
            version,
            store,
            configs,
            doubles: Doubles::default(),
            hooks,
            questions: OpenQuestions::default(),
            notices: Notices::new(Arc::clone(&counters)),
            counters,
            group: Vec::new(),
            runs: Vec::new(),
            messages,
        }
    }

    pub(crate) fn running_hooks(&self) -> Arc<RunningHooks> {
        Arc::clone(&self.hooks.running)
    }

    /// Handles messages until it is told to close, or no sender is left.
    pub(crate) fn run(mut self, mut messages: mpsc::Receiver<Message>) {
        let mut batch = Vec::with_capacity(GROUP);
        while messages.blocking_recv_many(&mut batch, GROUP) > 0 {
            let mut closing = None;
            for message in batch.drain(..) {
                match message {
                    Message::Close { tidy } => closing = Some(tidy),
                    message => self.handle(message),
                }
            }
            self.commit();
            if let Some(tidy) = closing {
                messages.close();
                while let Ok(message) = messages.try_recv() {
                    self.handle(message);
                }
                self.registry.queue_figures();
                self.commit();
                return self.store.close(tidy);
            }
        }
    }

    fn handle(&mut self, message: Message) {
        match message {
            Message::Event(arrival) => self.handle_event(*arrival),
            Message::StatusLine(event, shim) => self.handle_status_line(&event, shim),
            Message::Decide(event) => self.decide(*event),
            Message::Drain(reply) => {
                self.hooks.draining = true;
                self.let_questions_go();
                let _ = reply.send(());
            }
            Message::SwitchSet(switched) => {
                let (event, verdict) = *switched;
                self.answer(event, &verdict);
            }
            Message::HooksDone(done) => self.hooks_done(*done),
            Message::HooksFailed(seq) => self.hooks.abandon_decision(seq),
            Message::Abandoned(seq) => self.let_question_go(seq),
            Message::Question(request) => self.handle_question(request),
            Message::HookEnded(runs) => self.runs.extend(runs),
            Message::Registry(mut request) => {
                self.commit();
                if let RegistryRequest::Name {
                    title: Some(title), ..
                } = &mut request
                {
                    *title = self.configs.current(None).1.text(title);
                }
                let database = self.store.connection();
                self.registry.answer(database, request, now_ms());
            }
            Message::Effort(ask, prepared, done) => {
                self.commit();
                let database = self.store.connection();
                let told = (self.registry).answer_effort(database, *ask, prepared, now_ms());
                self.commit();
                drop(done.send(told));
            }
            Message::Inferred(sessions) => self.apply_inferences(sessions),
            Message::CallsCounted(sessions) => {
                for (id, coverage) in sessions {
                    self.registry.set_coverage(&id, coverage);
                }
            }
            Message::ProcessesGone(sessions) => {
                self.registry.end_gone_processes(&sessions, now_ms());
            }
            Message::TakeIn(reply) => match (self.take_in(), self.messages.upgrade()) {
                // Group by group: events do not wait for the whole spool.
                (true, Some(core)) if core.capacity() > 0 => {
                    drop(core.try_send(Message::TakeIn(reply)));
                }
                _ => drop(reply.send(self.store.pending())),
            },
            Message::DatabaseDamaged { inode, why, done } => {
                self.commit();
                self.store.replace_damaged(inode, &why);
                let _ = done.send(());
            }
            Message::Tick(reply) => drop(reply.send(self.tick())),
            // Handled by `run`.
            Message::Close { .. } => {}
        }
    }

    /// Commits the decided events and the sessions that changed, then sends the answers.
    fn commit(&mut self) {
        self.end_answered_questions();
        let batch = Batch {
            events: std::mem::take(&mut self.group),
            runs: std::mem::take(&mut self.runs),
            sessions: self.registry.take_unwritten(),
            figures: self.registry.take_figures(),
            efforts: self.registry.effort_changes(),
        };
        if !batch.is_empty()
            && let Err(mut unwritten) = self.store.commit(batch)
        {
            let over = unwritten.runs.len().saturating_sub(MAX_RUNS);
            self.counters
                .count(|counts| counts.runs_lost += over as u64);
            unwritten.runs.truncate(MAX_RUNS);
            self.runs = unwritten.runs;
            self.registry
                .return_unwritten(&unwritten.sessions, unwritten.figures);
            self.registry.efforts_not_written(unwritten.efforts);
        }
        if self.store.take_replaced() {
            self.registry.mark_all_unwritten();
        }
        self.registry.publish_changes(now_ms());
        self.notify_ran_denied();
    }

    fn tick(&mut self) -> Ticked {
        let now = now_ms();
        self.registry.queue_figures();
        if self.take_in()
            && let Some(core) = self.messages.upgrade()
        {
            drop(core.try_send(Message::TakeIn(oneshot::channel().0)));
        }
        self.registry.end_quiet(now);
        let ended = self.registry.take_newly_ended();
        self.registry.drop_ended(now);
        self.registry.forget_looks(now);
        let (config, _) = self.configs.current(None);
        let limits = Limits {
            days: config.config.store.keep_days,
            bytes: config.config.store.keep_bytes,
        };
        self.store.tick(now, limits);
        Ticked {
            idle: config.config.daemon.idle,
            problems: config.problems.iter().map(ToString::to_string).collect(),
            processes: self.registry.processes(),
            ended,
            wal_gone: self.store.has_lost_wal(),
        }
    }

    /// Applies an event to its session, then decides it or has its switches and files read first.
    fn handle_event(&mut self, arrival: Arrival) {
        let Arrival {
            event,
            mut record,
            at,
            sent,
            hung_up,
            shim,
        } = arrival;
        // Nothing is changed yet: standalone starts from the beginning.
        if self.hooks.draining && event.plan().is_some() {
            return self.counters.count(|counts| counts.busy += 1);
        }
        let now = now_ms();
        let deadline = FIRST_RESPONSE.as_millis() as i64;
        let late = hung_up || now - sent > deadline;
        self.counters.count(|counts| counts.late += u64::from(late));
        record.seq = self.store.next_seq();
        let on_time = !late && now - event.envelope.at < deadline;
        let (mut context, mut applied) = self.apply(&event, &mut record, at, on_time, now);
        if late {
            // The shim has gone standalone, or does so with this `Busy`.
            return self.group.push((record, Box::new(move || drop(shim))));
        }
        context.judge_only = record.duplicate_of.is_some();
        context.change = applied.as_mut().and_then(|applied| applied.display.take());
        if context.change.is_some() {
            context.minute = notice::minute_of_day(now);
        }
        let chained = applied.as_ref().and_then(|applied| applied.chained.clone());
        let open = OpenEvent {
            event: Arc::new(event),
            record,
            context,
            at,
            applied,
            shim,
        };
        if let Some((from, to)) = chained {
            self.follow_switches(from, to, Some(open));
        } else if wants_files(&open.event, &open.context) {
            self.read_files(open);
        } else {
            self.decide(open);
        }
    }

    /// Applies an event to its session, unless it is a double. Returns the context for its decision.
    fn apply(
        &mut self,
        event: &PreparedEvent,
        record: &mut EventRecord,
        at: Instant,
        on_time: bool,
        now: i64,
    ) -> (Context, Option<Applied>) {
        let mut context = Context::default();
        let Ok(head) = Head::read(&event.masked) else {
            return (context, None);
        };
        let envelope = &event.envelope;
        record.duplicate_of = (self.doubles).find(envelope, &event.masked, &head, record.seq, at);
        context.ran_denied = self.store.mark_ran_denied(record);
        let mut applied = None;
        if record.duplicate_of.is_none() {
            let project = record.project.as_deref();
            let mark = on_time.then(arrival_mark);
            let database = self.store.connection();
            applied = (self.registry).apply(database, &head, envelope, project, mark);
        }
        let session = head.session_id.as_deref().unwrap_or_default();
        self.registry.mark_arrival(session, now);
        context.effort = match &mut applied {
            Some(applied) => applied.effort.take(),
            // A double is judged as the first one was.
            None if record.duplicate_of.is_some() => {
                let agent = record.agent_id();
                (self.registry).effort_context(session, agent, &head, envelope)
            }
            None => None,
        };
        context.told = self.registry.knows_config(session, event.config.generation);
        if envelope.is_launched() {
            context.launched_at = self.registry.started_at(session);
        }
        (context, applied)
    }

    fn decide(&mut self, open: OpenEvent) {
        let step = decide(&open.event, &open.context);
        if let Some((session, generation)) = &step.verdict().told {
            self.registry.mark_config_told(session, *generation);
        }
        match step {
            Step::Done(verdict) => {
                let verdict = settle(&open.event, verdict, &self.place);
                self.answer(open, &verdict);
            }
            Step::Run(plan, verdict) => self.run_hooks(open, *plan, verdict),
            Step::Switch(verdict) => self.set_switch(open, verdict),
        }
    }

    /// Reads the files that an agent is given in another thread, then has the event decided.
    fn read_files(&self, mut open: OpenEvent) {
        let messages = self.messages.clone();
        tokio::task::spawn_blocking(move || {
            read_files(&open.event, &mut open.context);
            if let Some(core) = messages.upgrade() {
                drop(core.blocking_send(Message::Decide(Box::new(open))));
            }
        });
    }

    /// Records the message of a session's effort to the agent.
    fn record_effort(&mut self, open: &OpenEvent, verdict: &Verdict) {
        if let (Some(applied), Some(said)) = (&open.applied, &verdict.effort) {
            let (agent, event) = (open.record.agent_id(), open.record.id());
            let refused = verdict.refuses();
            (self.registry).record_effort_message(&applied.session, agent, event, said, refused);
        }
    }

    fn record_outcome(&mut self, open: &OpenEvent, outcome: EventOutcome) {
        if let Some(applied) = &open.applied {
            (self.registry).record_outcome(applied, &open.record, outcome);
        }
    }

    /// Sets a switch in another thread: that waits for a lock and writes a file.
    fn set_switch(&mut self, open: OpenEvent, verdict: Verdict) {
        (self.hooks).open_decision(open.record.seq, FIRST_RESPONSE, Cancel::new());
        let (messages, place) = (self.messages.clone(), self.place.clone());
        tokio::task::spawn_blocking(move || {
            let verdict = switch(&open.event, verdict, &place);
            if let Some(core) = messages.upgrade() {
                drop(core.blocking_send(Message::SwitchSet(Box::new((open, verdict)))));
            }
        });
    }

    /// Adds an event and its answer to the next commit.
    fn answer(&mut self, mut open: OpenEvent, verdict: &Verdict) {
        let output = match open.record.duplicate_of {
            None => verdict.output(),
            Some(first) => {
                self.counters.count(|counts| counts.duplicates += 1);
                match self.hooks.earlier_decision(first) {
                    Some(EarlierDecision::Pending { for_ms }) => {
                        return self.wait_with_first(first, for_ms, open.record, open.shim);
                    }
                    Some(EarlierDecision::Made(output)) => output,
                    None => verdict.repeated(),
                }
            }
        };
        self.run_notice(verdict.notice.as_ref());
        self.record_effort(&open, verdict);
        if let Some(question) = self.question(&open, verdict) {
            return self.hold_question(question, open, verdict.clone());
        }
        let doubles = (self.hooks).close_decision(open.record.seq, || verdict.repeated());
        open.set_decision(verdict, &output);
        if verdict.blocks_prompt() {
            self.record_outcome(&open, EventOutcome::Blocked);
        }
        let answers = doubles.into_iter().chain([(open.shim, output)]);
        self.reply(open.record, answers);
    }

    /// Adds an event to the next commit. The answers go out after it.
    fn reply(
        &mut self,
        record: Box<EventRecord>,
        answers: impl Iterator<Item = (WaitingShim, Output)>,
    ) {
        let version = self.version;
        let mut frames = Vec::with_capacity(1);
        for (shim, output) in answers {
            if let Ok(frame) = (Response::Answer { version, output }).to_frame() {
                frames.push((shim, frame));
            }
        }
        let send: Reply = Box::new(move || {
            for (shim, frame) in frames {
                shim.answer(frame);
            }
        });
        self.group.push((record, send));
    }
}

/// Returns the mark of an event that arrives now. Events of one millisecond keep their order.
fn arrival_mark() -> EventTime {
    let now = UNIX_EPOCH.elapsed().unwrap_or_default();
    EventTime {
        at: now.as_millis() as i64,
        id: EventId::at(now, [0; 2]),
    }
}
