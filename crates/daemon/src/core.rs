//! The core thread. It owns live state and the connection that writes: it takes everything that has
//! arrived, applies and decides each event, commits once, then sends the replies. What may block
//! (preparing an event, named hooks, looking at files) happens elsewhere and comes here as a message.

mod hooks;
mod live;

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::{Duration, Instant, UNIX_EPOCH};

use becket_engine::config::ConfigCache;
use becket_engine::coverage::Coverage;
use becket_engine::judge::Verdict;
use becket_engine::notice;
use becket_engine::pipeline::{
    Context, PreparedEvent, Step, decide, read_files, settle, switch, wants_files,
};
use becket_engine::run::Cancel;
use becket_engine::session::{Decided, Mark};
use becket_wire::bounds::FIRST_WORD;
use becket_wire::effort::EffortAsk;
use becket_wire::rpc::{Envelope, Response, Told};
use becket_wire::run::RunRow;
use becket_wire::{EventId, Head, Output, Place, Version};
use tokio::sync::{mpsc, oneshot};

use crate::counters::Counters;
use crate::coverage::EndedSession;
use crate::infer::Found;
use crate::life::now_ms;
use crate::notice::Notices;
use crate::registry::{Applied, Asked, Prepared, Process, Registry};
use crate::serve::Answerer;
use crate::store::{Batch, Decision, Limits, Record, Store, Then};
pub(crate) use hooks::{Hooks, HooksDone, Running};

/// What may wait for the core. More is answered `Busy`.
pub(crate) const QUEUE: usize = 4096;
/// Runs kept in memory while the database takes nothing.
const MAX_RUNS: usize = 4096;
/// What commits together at most.
const GROUP: usize = 512;

/// What the core is told.
pub(crate) enum Message {
    Event(Box<Arrival>),
    StatusLine(Box<PreparedEvent>, Answerer),
    /// The switches that an event depends on are in place: decide it.
    Decide(Box<(InHand, Answerer)>),
    /// A slash command has set its switch.
    Switched(Box<(InHand, Answerer, Verdict)>),
    /// The named hooks of an event are done.
    HooksDone(Box<HooksDone>),
    /// The hooks of this event could not be run.
    HooksFailed(i64),
    /// Events that need hooks get `Busy` from now on.
    Drain(oneshot::Sender<()>),
    /// A hook that no answer waited for has ended: its run, masked.
    HookEnded(Vec<RunRow>),
    CountSessions(oneshot::Sender<u64>),
    Asked(Asked),
    /// A request about work: answered once it is committed.
    Effort(Box<EffortAsk>, Prepared, oneshot::Sender<Told>),
    /// Take in the spool. Gives the numbers of the events whose hooks still run.
    TakeIn(oneshot::Sender<std::collections::HashSet<i64>>),
    /// What no event says.
    Found(Vec<Found>),
    /// How many calls of these sessions guards saw.
    Covered(Vec<(String, Coverage)>),
    /// The processes of these sessions are gone.
    Gone(Vec<(String, Process)>),
    /// A reader found the file with this inode damaged.
    Damaged {
        inode: Option<u64>,
        why: String,
        done: oneshot::Sender<()>,
    },
    Tick(oneshot::Sender<Ticked>),
    /// Write what is left and close the database; `tidy` also moves SQLite's log into it.
    Close {
        tidy: bool,
    },
}

/// What the daemon learns with each tick.
#[derive(Debug)]
pub(crate) struct Ticked {
    pub(crate) idle: Option<Duration>,
    pub(crate) problems: Vec<String>,
    /// The processes to look for.
    pub(crate) processes: Vec<(String, Process)>,
    /// The sessions whose calls are to be compared with the log.
    pub(crate) ended: Vec<EndedSession>,
    /// SQLite's log is not the one that is open.
    pub(crate) log_gone: bool,
}

/// An event that has arrived, prepared.
pub(crate) struct Arrival {
    pub(crate) event: PreparedEvent,
    pub(crate) record: Box<Record>,
    pub(crate) at: Instant,
    /// When the shim sent it: milliseconds since 1970.
    pub(crate) sent: i64,
    /// The shim does not wait for an answer any more.
    pub(crate) hung_up: bool,
    pub(crate) answerer: Answerer,
}

/// An event that was applied and is not answered yet.
pub(crate) struct InHand {
    event: Arc<PreparedEvent>,
    record: Box<Record>,
    context: Context,
    at: Instant,
    applied: Option<Applied>,
}

pub(crate) struct Core {
    place: Place,
    version: Version,
    store: Store,
    registry: Registry,
    configs: Arc<ConfigCache>,
    doubles: Doubles,
    hooks: Hooks,
    notices: Notices,
    counters: Arc<Counters>,
    /// Events that are decided and not committed yet, each with its reply.
    group: Vec<(Box<Record>, Then)>,
    /// Runs that ended after their event was answered.
    runs: Vec<RunRow>,
    /// Where other threads send their results.
    messages: mpsc::WeakSender<Message>,
}

impl Core {
    pub(crate) fn new(
        place: &Place,
        version: Version,
        store: Store,
        configs: Arc<ConfigCache>,
        hooks: Hooks,
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
            notices: Notices::new(Arc::clone(&counters)),
            counters,
            group: Vec::new(),
            runs: Vec::new(),
            messages,
        }
    }

    /// The events whose hooks run.
    pub(crate) fn running(&self) -> Arc<Running> {
        Arc::clone(&self.hooks.running)
    }

    /// Runs until it is told to close, or no sender is left.
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
                self.registry.figures_are_due();
                self.commit();
                return self.store.close(tidy);
            }
        }
    }

    fn handle(&mut self, message: Message) {
        match message {
            Message::Event(arrival) => self.event(*arrival),
            Message::StatusLine(event, answerer) => self.status_line(&event, answerer),
            Message::Decide(event) => {
                let (in_hand, answerer) = *event;
                self.decide(in_hand, answerer);
            }
            Message::Drain(reply) => {
                self.hooks.draining = true;
                let _ = reply.send(());
            }
            Message::Switched(switched) => {
                let (in_hand, answerer, verdict) = *switched;
                self.answer(in_hand, answerer, &verdict);
            }
            Message::HooksDone(done) => self.hooks_done(*done),
            Message::HooksFailed(seq) => self.hooks.give_up(seq),
            Message::HookEnded(runs) => self.runs.extend(runs),
            Message::CountSessions(reply) => drop(reply.send(self.registry.len())),
            Message::Asked(mut asked) => {
                self.commit();
                if let Asked::Name {
                    title: Some(title), ..
                } = &mut asked
                {
                    *title = self.configs.current(None).1.text(title);
                }
                let database = self.store.connection();
                self.registry.answer(database, asked, now_ms());
            }
            Message::Effort(ask, prepared, done) => {
                self.commit();
                let database = self.store.connection();
                let told = (self.registry).answer_effort(database, *ask, prepared, now_ms());
                self.commit();
                drop(done.send(told));
            }
            Message::Found(found) => self.found(found),
            Message::Covered(sessions) => {
                for (id, coverage) in sessions {
                    self.registry.covered(&id, coverage);
                }
            }
            Message::Gone(sessions) => self.registry.gone(&sessions, now_ms()),
            Message::TakeIn(reply) => match (self.take_in(), self.messages.upgrade()) {
                // Group by group: events do not wait for the whole spool.
                (true, Some(core)) if core.capacity() > 0 => {
                    drop(core.try_send(Message::TakeIn(reply)));
                }
                _ => drop(reply.send(self.store.pending())),
            },
            Message::Damaged { inode, why, done } => {
                self.commit();
                self.store.damaged(inode, &why);
                let _ = done.send(());
            }
            Message::Tick(reply) => drop(reply.send(self.tick())),
            // `run` has seen to it.
            Message::Close { .. } => {}
        }
    }

    /// Commits what was decided together with the sessions that changed, then replies.
    fn commit(&mut self) {
        let batch = Batch {
            events: std::mem::take(&mut self.group),
            runs: std::mem::take(&mut self.runs),
            sessions: self.registry.unwritten(),
            figures: self.registry.figures_to_write(),
            efforts: self.registry.effort_changes(),
        };
        if !batch.is_empty()
            && let Err(mut left) = self.store.commit(batch)
        {
            let over = left.runs.len().saturating_sub(MAX_RUNS);
            self.counters.runs_lost.add(over as u64);
            left.runs.truncate(MAX_RUNS);
            self.runs = left.runs;
            self.registry.not_written(&left.sessions, left.figures);
            self.registry.efforts_not_written(left.efforts);
        }
        if self.store.began_anew() {
            self.registry.write_all();
        }
        self.registry.tell_news(now_ms());
        self.tell_of_ran_denied();
    }

    fn tick(&mut self) -> Ticked {
        let now = now_ms();
        self.registry.figures_are_due();
        if self.take_in()
            && let Some(core) = self.messages.upgrade()
        {
            drop(core.try_send(Message::TakeIn(oneshot::channel().0)));
        }
        self.registry.end_quiet(now);
        let ended = self.registry.newly_ended();
        self.registry.forget(now);
        self.registry.forget_looks(now);
        self.hooks.tick();
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
            log_gone: self.store.lost_its_log(),
        }
    }

    fn event(&mut self, arrival: Arrival) {
        let Arrival {
            event,
            mut record,
            at,
            sent,
            hung_up,
            answerer,
        } = arrival;
        // Before it changes anything: standalone takes it from the start.
        if self.hooks.draining && event.plan().is_some() {
            return self.counters.busy.add(1);
        }
        let now = now_ms();
        let first_word = FIRST_WORD.as_millis() as i64;
        let late = hung_up || now - sent > first_word;
        self.counters.late.add(u64::from(late));
        record.seq = self.store.next_seq();
        let (mut context, mut applied) = (Context::default(), None);
        if let Ok(head) = Head::read(&event.masked) {
            let envelope = &event.envelope;
            record.duplicate_of =
                (self.doubles).find(envelope, &event.masked, &head, record.seq, at);
            context.ran_denied = self.store.mark(&mut record);
            if record.duplicate_of.is_none() {
                let on_time = !late && now - envelope.at < first_word;
                let project = record.project.as_deref();
                let heard = on_time.then(arrival_mark);
                let database = self.store.connection();
                applied = (self.registry).apply(database, &head, envelope, project, heard);
            }
            let session = head.session_id.as_deref().unwrap_or_default();
            self.registry.arrived(session, now);
            context.effort = match &mut applied {
                Some(applied) => applied.effort.take(),
                // A double is judged as the first one was.
                None if record.duplicate_of.is_some() => {
                    let agent = record.agent_id();
                    (self.registry).effort_context(session, agent, &head, envelope)
                }
                None => None,
            };
            context.told = self.registry.was_told(session, event.config.generation);
            if envelope.is_launched() {
                context.launched_at = self.registry.began(session);
            }
        }
        if late {
            // The shim has gone standalone, or will with this `Busy`: nothing is decided here.
            let reply = move || drop(answerer);
            return self.group.push((record, Box::new(reply)));
        }
        context.judge_only = record.duplicate_of.is_some();
        context.change = applied.as_mut().and_then(|applied| applied.display.take());
        if context.change.is_some() {
            context.minute = notice::minute_of_day(now);
        }
        let chained = applied.as_ref().and_then(|applied| applied.chained.clone());
        let in_hand = InHand {
            event: Arc::new(event),
            record,
            context,
            at,
            applied,
        };
        match chained {
            None if wants_files(&in_hand.event, &in_hand.context) => {
                self.read_files(in_hand, answerer);
            }
            None => self.decide(in_hand, answerer),
            Some((from, to)) => self.follow_switches(from, to, Some((in_hand, answerer))),
        }
    }

    fn decide(&mut self, in_hand: InHand, answerer: Answerer) {
        let step = decide(&in_hand.event, &in_hand.context);
        if let Some((session, generation)) = &step.verdict().told {
            self.registry.tell(session, *generation);
        }
        match step {
            Step::Done(verdict) => {
                let verdict = settle(&in_hand.event, verdict, &self.place);
                self.answer(in_hand, answerer, &verdict);
            }
            Step::Run(plan, verdict) => self.hold(in_hand, answerer, *plan, verdict),
            Step::Switch(verdict) => self.set_switch(in_hand, answerer, verdict),
        }
    }

    /// The files that an agent is given are read elsewhere; then the event is decided.
    fn read_files(&self, mut in_hand: InHand, answerer: Answerer) {
        let messages = self.messages.clone();
        tokio::task::spawn_blocking(move || {
            read_files(&in_hand.event, &mut in_hand.context);
            if let Some(core) = messages.upgrade() {
                drop(core.blocking_send(Message::Decide(Box::new((in_hand, answerer)))));
            }
        });
    }

    /// The session remembers what its effort said.
    fn effort_said(&mut self, applied: Option<&Applied>, record: &Record, verdict: &Verdict) {
        if let (Some(applied), Some(said)) = (applied, &verdict.effort) {
            let (agent, event) = (record.agent_id(), record.id());
            let refused = verdict.refuses();
            (self.registry).said(&applied.session, agent, event, said, refused);
        }
    }

    /// Switches wait for a lock and write a file: not on this thread.
    fn set_switch(&mut self, in_hand: InHand, answerer: Answerer, verdict: Verdict) {
        (self.hooks).expect(in_hand.record.seq, FIRST_WORD, Cancel::new());
        let (messages, place) = (self.messages.clone(), self.place.clone());
        tokio::task::spawn_blocking(move || {
            let verdict = switch(&in_hand.event, verdict, &place);
            if let Some(core) = messages.upgrade() {
                let switched = Message::Switched(Box::new((in_hand, answerer, verdict)));
                drop(core.blocking_send(switched));
            }
        });
    }

    /// Puts an event into the group, with its reply.
    fn answer(&mut self, in_hand: InHand, answerer: Answerer, verdict: &Verdict) {
        let InHand {
            event,
            mut record,
            at,
            applied,
            ..
        } = in_hand;
        let output = match record.duplicate_of {
            None => verdict.output(),
            Some(first) => {
                self.counters.duplicates.add(1);
                match self.hooks.decision_of(first) {
                    Some(hooks::Decision::Pending(for_ms)) => {
                        return self.wait_for(first, for_ms, record, answerer);
                    }
                    Some(hooks::Decision::Ready(output)) => output,
                    None => verdict.repeated(),
                }
            }
        };
        let doubles = self.hooks.decided(record.seq, || verdict.repeated());
        record.took_us = Some(micros(at));
        let decision = Decision::new(verdict.decision(), &output);
        record.decision = decision.map(|decision| decision.masked(&event.masker));
        self.run_notice(verdict.notice.as_ref());
        self.effort_said(applied.as_ref(), &record, verdict);
        if let Some(applied) = &applied
            && verdict.blocks_prompt()
        {
            self.registry.decided(applied, &record, Decided::Blocked);
        }
        self.reply(record, doubles.into_iter().chain([(answerer, output)]));
    }

    /// Puts an event into the group. After the commit the answers go out.
    fn reply(&mut self, record: Box<Record>, answers: impl Iterator<Item = (Answerer, Output)>) {
        let version = self.version;
        let frame = |(answerer, output)| {
            let frame = Response::Answer { version, output }.to_frame();
            Some((answerer, frame.ok()?))
        };
        let frames: Vec<(Answerer, Vec<u8>)> = answers.filter_map(frame).collect();
        let send = |(answerer, frame): (Answerer, Vec<u8>)| answerer.send(frame);
        let reply = move || frames.into_iter().for_each(send);
        self.group.push((record, Box::new(reply)));
    }
}

fn micros(since: Instant) -> i64 {
    i64::try_from(since.elapsed().as_micros()).unwrap_or(i64::MAX)
}

/// Now, as the mark of an event: those of one millisecond keep their order.
fn arrival_mark() -> Mark {
    let now = UNIX_EPOCH.elapsed().unwrap_or_default();
    Mark {
        at: now.as_millis() as i64,
        id: EventId::at(now, [0; 2]),
    }
}

/// Within this time the same event from another registration is a double.
const WITHIN: Duration = Duration::from_secs(5);
/// How many events are remembered to find doubles.
const REMEMBERED: usize = 1024;

/// Double registrations: the same event from settings.json and from the plugin, say. The events of
/// the last seconds are remembered to know one that comes again.
#[derive(Debug, Default)]
struct Doubles {
    seen: HashMap<u64, Seen>,
    order: VecDeque<u64>,
}

#[derive(Debug)]
struct Seen {
    from: Option<String>,
    seq: i64,
    at: Instant,
}

impl Doubles {
    /// The event that this one repeats.
    fn find(
        &mut self,
        envelope: &Envelope,
        payload: &[u8],
        head: &Head<'_>,
        seq: i64,
        at: Instant,
    ) -> Option<i64> {
        let from = envelope.from.as_deref();
        let mut hasher = DefaultHasher::new();
        let call = head.tool_use_id.as_ref().or(head.prompt_id.as_ref());
        (&head.session_id, &head.agent_id, &head.event, call, payload).hash(&mut hasher);
        let key = hasher.finish();
        // Two deliveries from one registration are never doubles.
        if let Some(seen) = self.seen.get(&key)
            && seen.from.as_deref() != from
            && at.duration_since(seen.at) < WITHIN
        {
            return Some(seen.seq);
        }
        if self.order.len() >= REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.seen.remove(&oldest);
        }
        let seen = Seen {
            from: envelope.from.clone(),
            seq,
            at,
        };
        if self.seen.insert(key, seen).is_none() {
            self.order.push_back(key);
        }
        None
    }
}
