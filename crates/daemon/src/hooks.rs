//! The named hooks of an event: whoever asked is held, the hooks run, and what they say together is
//! answered. A double of the event gets the same refusal, once it is there.

mod running;

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use becket_engine::hooks::carry::Kit;
use becket_engine::hooks::kept;
use becket_engine::hooks::switch::{self, SwitchBoard};
use becket_engine::judge::Verdict;
use becket_engine::mask::Masker;
use becket_engine::run::Cancel;
use becket_wire::rpc::Response;
use becket_wire::run::RunRow;
use becket_wire::{EventId, Output, Place};
use tokio::sync::{Semaphore, oneshot};
use tracing::{error, warn};

use crate::connection::{Answerer, Askers};
use crate::dispatch::{Dispatcher, Judged, Planned};
use crate::life::now_ms;
use crate::registry::Applied;
use crate::store::spool::{self, Left};
use crate::store::{Decision, Record};
use running::Run;
pub(crate) use running::Running;

/// The hooks of so many events run at once; more have to wait.
const AT_ONCE: usize = 64;
/// Doubles come within five seconds.
const REMEMBERED: Duration = Duration::from_secs(6);
/// Whoever asked waits a little longer than the hooks may take: their answer has to be kept first.
const MARGIN: Duration = Duration::from_secs(2);
/// How long the dispatcher may wait for somebody who sets a switch.
const PATIENCE: Duration = Duration::from_millis(100);
/// So many that wait for their switches; nobody has as many sessions.
const TO_FOLLOW: usize = 1024;

/// What the dispatcher knows of hooks.
#[derive(Debug)]
pub(crate) struct Hooks {
    pub(crate) place: Place,
    pub(crate) board: SwitchBoard,
    pub(crate) running: Arc<Running>,
    kit: Kit,
    slots: Arc<Semaphore>,
    /// Switches that a session is still to get from another.
    to_follow: Vec<(String, String)>,
    /// Events whose decision is yet to come.
    pending: HashMap<i64, Pending>,
    /// What was decided a moment ago.
    decided: VecDeque<(Instant, i64, Output)>,
}

#[derive(Debug)]
struct Pending {
    for_ms: u32,
    /// Nobody waits for it any more then.
    until: Instant,
    askers: Arc<Askers>,
    /// Who asked the same by another registration.
    doubles: Vec<Answerer>,
}

/// How far the decision about an event is, where it takes its time.
#[derive(Debug)]
pub(crate) enum Decided {
    So(Output),
    /// Not yet; it may take so many milliseconds.
    Not(u32),
}

/// The hooks of an event are done.
pub(crate) struct Hooked {
    record: Record,
    at: Instant,
    verdict: Verdict,
    runs: Vec<RunRow>,
    masker: Arc<Masker>,
    applied: Option<Applied>,
    answerer: Answerer,
}

impl Hooks {
    pub(crate) fn new(place: &Place, becket: PathBuf) -> Self {
        Self {
            place: place.clone(),
            board: SwitchBoard::new(place),
            kit: Kit {
                becket,
                home: place.home().to_path_buf(),
                environment: Arc::default(),
            },
            running: Arc::default(),
            slots: Arc::new(Semaphore::new(AT_ONCE)),
            to_follow: Vec::new(),
            pending: HashMap::new(),
            decided: VecDeque::new(),
        }
    }

    /// The decision about this event will take its time. Gives how many milliseconds at the most.
    pub(crate) fn expect(&mut self, seq: i64, within: Duration, cancel: Cancel) -> u32 {
        let within = within + MARGIN;
        let for_ms = u32::try_from(within.as_millis()).unwrap_or(u32::MAX);
        let pending = Pending {
            for_ms,
            until: Instant::now() + within,
            askers: Askers::one(cancel),
            doubles: Vec::new(),
        };
        self.pending.insert(seq, pending);
        for_ms
    }

    /// Nothing will be decided about this event: whoever waits goes alone.
    pub(crate) fn give_up(&mut self, seq: i64) {
        self.pending.remove(&seq);
    }

    /// What was left undone, now and then.
    pub(crate) fn look_after(&mut self) {
        let now = Instant::now();
        self.pending.retain(|_, pending| pending.until > now);
        let Self {
            place, to_follow, ..
        } = self;
        to_follow.retain(|(from, to)| switch::copy(place, from, to, PATIENCE).is_err());
    }

    /// None if it was decided at once, or long ago.
    pub(crate) fn decision_of(&self, seq: i64) -> Option<Decided> {
        if let Some(pending) = self.pending.get(&seq) {
            return Some(Decided::Not(pending.for_ms));
        }
        let mut decided = self.decided.iter();
        let (_, _, output) = decided.find(|(_, decided, _)| *decided == seq)?;
        Some(Decided::So(output.clone()))
    }

    /// Keeps a decision for doubles, and gives those that wait for it.
    fn decided(&mut self, seq: i64, output: impl FnOnce() -> Output) -> Vec<(Answerer, Output)> {
        while let Some((at, ..)) = self.decided.front()
            && at.elapsed() > REMEMBERED
        {
            self.decided.pop_front();
        }
        let Some(pending) = self.pending.remove(&seq) else {
            return Vec::new();
        };
        let output = output();
        self.decided
            .push_back((Instant::now(), seq, output.clone()));
        let doubles = pending.doubles.into_iter();
        doubles.map(|answerer| (answerer, output.clone())).collect()
    }
}

/// What is said in place of hooks that were not let come to their answer: an error, which Claude Code
/// shows and passes over, or blocks by, as its person has it registered (`--strict`).
fn unheard(hooks: &[&str]) -> Output {
    let hooks = hooks.join(", ");
    Output {
        stdout: Vec::new(),
        stderr: format!("becket: the daemon ended before this had answered: {hooks}\n")
            .into_bytes(),
        exit: 1,
    }
}

impl Dispatcher {
    /// Commits the event, holds whoever asked, and has the hooks run in a thread of their own.
    pub(crate) fn hold(&mut self, judged: Judged) {
        let Judged {
            mut record,
            verdict,
            held,
            masker,
            at,
            mut applied,
            alone,
            answerer,
        } = judged;
        let Some(Planned { plan, grounds }) = held else {
            return;
        };
        let seq = record.seq;
        let cancel = Cancel::new();
        let for_ms = self.hooks.expect(seq, plan.longest(), cancel.clone());
        let Some(pending) = self.hooks.pending.get(&seq) else {
            return;
        };
        let askers = Arc::clone(&pending.askers);
        let word = |need_env| Response::Hold { for_ms, need_env }.to_frame();
        let (Ok(hold), Ok(begun_word)) = (word(true), word(false)) else {
            return;
        };
        if let Some(applied) = &mut applied {
            self.registry.stop_judged(applied, &record);
        }
        let (session, news) = applied
            .clone()
            .map(|applied| self.keep_session(&verdict, applied))
            .unwrap_or_default();
        record.session = session;
        record.held = true;
        let (environment, handed) = oneshot::channel();
        let (begin, begun) = oneshot::channel();
        let then = Box::new(move || {
            drop(begin.send(answerer.hold(hold, Some(environment), askers)));
            if let Some(news) = news {
                news.tell();
            }
        });
        let run = Run {
            plan,
            record: record.clone(),
            at,
            verdict,
            grounds,
            applied,
            kit: self.hooks.kit.clone(),
            place: self.hooks.place.clone(),
            masker,
            watched: Running::watch(&self.hooks.running, seq, cancel, self.myself.clone()),
            begun: begun_word,
        };
        let slots = Arc::clone(&self.hooks.slots);
        self.keep(record, then, alone);
        tokio::spawn(run.start(slots, begun, handed));
    }

    /// The hooks of an event are done: keeps what they decided, then answers.
    pub(crate) fn hooked(&mut self, hooked: Hooked) {
        let Hooked {
            mut record,
            at,
            verdict,
            runs,
            masker,
            applied,
            answerer,
        } = hooked;
        let ended: Vec<&str> = (runs.iter())
            .filter(|run| run.was_cut_off() || run.was_cancelled())
            .map(|run| &*run.hook)
            .collect();
        let is_answer = ended.is_empty() || verdict.refuses();
        let output = match is_answer {
            true => verdict.output(),
            // Whoever hears it would take silence for consent.
            false => unheard(&ended),
        };
        self.decided(record.seq, || match is_answer {
            true => verdict.repeated(),
            false => output.clone(),
        });
        // Whoever hung up heard nothing of it.
        if is_answer && !runs.iter().any(RunRow::was_cancelled) {
            let decision = Decision::new(verdict.decision(), &output);
            record.decision = decision.map(|decision| decision.masked(&masker));
            record.took_us = Some(i64::try_from(at.elapsed().as_micros()).unwrap_or(i64::MAX));
        }
        record.runs = kept::masked(runs, &masker);
        let goes_on = verdict.blocks_stop();
        if !goes_on {
            self.run_notice(verdict.notice.as_ref(), now_ms());
        }
        let stops = record.is_stop() && !goes_on;
        let is_news = |_: &Applied| stops || verdict.blocks_prompt();
        let (session, news) = applied
            .filter(is_news)
            .map(|mut applied| {
                if stops {
                    self.registry.stop_let_through(&mut applied, record.id());
                }
                self.keep_session(&verdict, applied)
            })
            .unwrap_or_default();
        record.session = session;
        let answer = Response::Answer {
            version: self.version,
            output,
        };
        let Ok(frame) = answer.to_frame() else { return };
        let then = Box::new(move || {
            answerer.send(frame);
            if let Some(news) = news {
                news.tell();
            }
        });
        if let Err((record, then)) = self.writer.decide(record, then) {
            // There is too much to write. The event is kept, and the shim gets what was decided.
            self.leave_later(record.id(), &Left::of(&record, ""));
            then();
        }
    }

    pub(crate) fn hook_ended(&mut self, runs: Vec<RunRow>) {
        if let Err(runs) = self.writer.runs(runs)
            && let Some(id) = runs.first().map(|run| run.event_id)
        {
            self.leave_later(id, &Left::of_runs(runs));
        }
    }

    /// For whoever next takes in the spool. A home that was thrown away does not come back by it.
    fn leave_later(&self, id: EventId, left: &Left) {
        let place = &self.hooks.place;
        if !place.home().exists() || spool::amend(place, id, left).is_err() {
            error!(event = %id, runs = left.runs.len(), "what hooks did could not be kept anywhere");
            self.counters.runs_lost.add(left.runs.len() as u64);
        }
    }

    /// Tells the doubles of an event what was decided.
    pub(crate) fn decided(&mut self, seq: i64, repeated: impl Fn() -> Output) {
        let version = self.version;
        for (answerer, output) in self.hooks.decided(seq, repeated) {
            if let Ok(frame) = (Response::Answer { version, output }).to_frame() {
                answerer.send(frame);
            }
        }
    }

    /// A double of an event that is not decided yet waits with it.
    pub(crate) fn wait_for(&mut self, seq: i64, for_ms: u32, record: Record, answerer: Answerer) {
        let hold = Response::Hold {
            for_ms,
            need_env: false,
        };
        let (Ok(hold), Some(pending)) = (hold.to_frame(), self.hooks.pending.get_mut(&seq)) else {
            return;
        };
        pending
            .doubles
            .push(answerer.hold(hold, None, pending.askers.and_another()));
        self.keep(record, Box::new(|| ()), false);
    }

    /// A session that goes on from another keeps its switches.
    pub(crate) fn follow_switches(&mut self, applied: Option<&Applied>) {
        let chained = applied.and_then(|applied| applied.chained.as_ref());
        if let Some((from, to)) = chained
            && let Err(why) = switch::copy(&self.hooks.place, from, to, PATIENCE)
        {
            warn!(%why, "could not take the switches along yet");
            if self.hooks.to_follow.len() < TO_FOLLOW {
                self.hooks.to_follow.push((from.clone(), to.clone()));
            }
        }
    }
}
