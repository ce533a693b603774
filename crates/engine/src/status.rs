//! The status of one agent: `(agent, event) → agent`, by the table of the hook events. An open question to the
//! user covers the agent's work, so that no end of a call hides it.

mod ask;
mod doing;
mod moment;
mod notified;

use ask::{Asks, Calls, Failures};
use becket_wire::EventId;
use becket_wire::event::EventName;
use becket_wire::session::{Display, Status};
use moment::cut;
use notified::Notified;
use serde::{Deserialize, Serialize};

use crate::is_default;

pub use ask::{Pending, Question};
pub use moment::{Mark, Moment, is_machine_made};
pub use notified::asks_the_person;
pub(crate) use notified::repeats_an_event;

const THINKING: &str = "Thinking";
const COMPACTING: &str = "Compacting";

/// The time for which a question that the user has looked at and not answered counts as seen: milliseconds.
const LOOK_COUNTS: i64 = 5 * 60 * 1000;

/// Tools that are themselves a question to the user.
const INTERACTIVE: [&str; 3] = ["AskUserQuestion", "EnterPlanMode", "ExitPlanMode"];

/// One agent: the main agent of a session, or a subagent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Agent {
    #[serde(skip_serializing_if = "is_default")]
    pub status: Status,
    /// The time since when it is idle, works (on anything), or needs the user for this reason.
    pub since: i64,
    /// True if the status was inferred, not reported by an event.
    #[serde(skip_serializing_if = "is_default")]
    pub inferred: bool,
    /// True if the user has looked at the question.
    #[serde(skip_serializing_if = "is_default")]
    pub seen: bool,
    /// The time when the user last looked at it.
    #[serde(skip_serializing_if = "is_default")]
    pub seen_at: i64,
    /// The reason why the last turn failed, until the next prompt.
    #[serde(skip_serializing_if = "is_default")]
    pub error: Option<String>,
    /// The reason in words, where it tells more than `error`.
    #[serde(skip_serializing_if = "is_default")]
    failure: Option<String>,
    /// True if the user interrupted the turn.
    #[serde(skip_serializing_if = "is_default")]
    pub interrupted: bool,
    #[serde(skip_serializing_if = "is_default")]
    pub failed_tools: u32,
    /// The number of tasks that went on when it stopped.
    #[serde(skip_serializing_if = "is_default")]
    pub background_tasks: u32,
    /// The work of the agent, apart from questions to the user.
    #[serde(skip_serializing_if = "is_default")]
    beneath: Status,
    /// The work of the agent when a compaction began.
    #[serde(skip_serializing_if = "is_default")]
    before_compact: Option<Status>,
    /// The current prompt, or the last one.
    #[serde(skip_serializing_if = "is_default")]
    prompt: Option<String>,
    /// True if the turn of that prompt has ended.
    #[serde(skip_serializing_if = "is_default")]
    over: bool,
    #[serde(skip_serializing_if = "is_default")]
    calls: Calls,
    #[serde(skip_serializing_if = "is_default")]
    failures: Failures,
    #[serde(skip_serializing_if = "is_default")]
    asks: Asks,
    #[serde(skip_serializing_if = "is_default")]
    last: Option<Mark>,
    /// The event by which the agent wanted to stop, while hooks judge it and the agent does nothing else.
    #[serde(skip_serializing_if = "is_default")]
    judged: Option<EventId>,
}

impl Agent {
    /// Makes an agent that exists since `at`.
    pub fn new(at: i64) -> Self {
        Self {
            since: at,
            ..Self::default()
        }
    }

    /// Applies one event. Returns true if the user can see a difference.
    pub fn apply(&mut self, moment: &Moment<'_>) -> bool {
        if self.is_past(moment.mark()) {
            return false;
        }
        let (before, over) = (self.aside(), self.over);
        let prompt = moment.prompt_id();
        let another = prompt.is_some() && prompt != self.prompt.as_deref();
        self.over &= !another;
        if !self.step(moment) {
            self.over = over;
            return false;
        }
        self.last = Some(moment.mark());
        self.inferred = false;
        if another {
            self.prompt = prompt.map(str::to_owned);
        }
        self.settle(moment.at) | (before != self.aside())
    }

    /// Returns true if this event or a newer one was applied already.
    pub fn is_past(&self, mark: Mark) -> bool {
        self.last.is_some_and(|last| mark <= last)
    }

    /// Returns the time of the newest applied event.
    pub fn last_at(&self) -> Option<i64> {
        self.last.map(|mark| mark.at)
    }

    /// Returns the open questions to the user, oldest first.
    pub fn pending(&self) -> &[Pending] {
        self.asks.all()
    }

    pub fn needs_the_person(&self) -> bool {
        matches!(self.status, Status::Attention { .. })
    }

    /// Returns the state as the user sees it.
    pub fn display(&self) -> Display {
        Display::of(&self.status, self.seen)
    }

    /// Notes that the user looks at the agent's question. Returns true if that is new.
    pub fn look(&mut self, at: i64) -> bool {
        let looked = self.needs_the_person() && at >= self.since;
        let news = looked && (!self.seen || at > self.seen_at);
        if news {
            self.seen = true;
            self.seen_at = at;
        }
        news
    }

    /// Makes a question unseen that the user looked at and did not answer for a while. Returns true if that
    /// changes the display.
    pub fn forget_look(&mut self, now: i64) -> bool {
        let forgotten = self.seen && now.saturating_sub(self.seen_at) >= LOOK_COUNTS;
        self.seen &= !forgotten;
        forgotten && self.needs_the_person()
    }

    /// Returns the activity or question in words; none if the agent is idle.
    pub fn doing(&self) -> Option<String> {
        match &self.status {
            Status::Idle => None,
            Status::Working { detail } => {
                let detail = detail.as_deref()?;
                let is_call = self.calls.newest() == Some(detail);
                let known = self.calls.newest_doing().filter(|_| is_call);
                Some(known.unwrap_or_else(|| doing::detail(detail)))
            }
            Status::Attention { reason } => {
                let asked = self.asks.all().first().map(Pending::in_words);
                Some(asked.unwrap_or_else(|| reason.clone()))
            }
        }
    }

    /// Returns the reason why the last turn failed, in words.
    pub fn failed(&self) -> Option<String> {
        let error = self.error.as_deref()?;
        Some(
            self.failure
                .clone()
                .unwrap_or_else(|| doing::failure(error, None)),
        )
    }

    /// Applies the row of the table for the event. Returns false if the event has no row: it does not count as
    /// applied.
    fn step(&mut self, moment: &Moment<'_>) -> bool {
        let head = moment.head;
        match moment.event {
            EventName::PreToolUse => self.call_begins(moment),
            EventName::PostToolUse | EventName::PermissionDenied => self.call_ends(moment),
            EventName::PostToolUseFailure => self.call_fails(moment),
            EventName::PostToolBatch => self.batch_ends(moment),
            EventName::PermissionRequest => return self.permission_asked(moment),
            EventName::Elicitation => self.ask(Pending::elicitation(moment)),
            EventName::ElicitationResult => {
                self.asks.elicited(moment);
                self.asks.end_notices();
                // A background task may ask after the turn.
                if !self.has_ended(moment) {
                    self.work(Some(THINKING));
                }
            }
            EventName::Notification => return self.notified(moment),
            EventName::UserPromptSubmit => self.prompted(moment),
            EventName::UserPromptExpansion => self.work(None),
            EventName::Stop => {
                self.end_turn();
                self.interrupted = false;
                self.background_tasks = moment.background_tasks().unwrap_or(0);
            }
            EventName::StopFailure => {
                self.end_turn();
                self.error = Some(moment.failure());
                let said = moment.head.last_assistant_message.as_deref();
                self.failure = Some(doing::failure(moment.error().unwrap_or_default(), said));
            }
            EventName::SessionStart => self.session_starts(moment),
            EventName::SessionEnd => {
                self.rest();
                self.background_tasks = 0;
            }
            EventName::PreCompact => self.compaction_begins(),
            EventName::PostCompact => self.compaction_ends(head.trigger.as_deref()),
            EventName::Setup => self.work(Some("Setup")),
            EventName::TeammateIdle => self.rest(),
            _ => return false,
        }
        true
    }

    fn call_begins(&mut self, moment: &Moment<'_>) {
        let tool = moment.tool();
        self.calls.begin(moment);
        if INTERACTIVE.contains(&tool) {
            self.ask(Pending::interactive(moment));
        }
        self.work(Some(tool));
    }

    fn call_ends(&mut self, moment: &Moment<'_>) {
        self.asks.call_ended(moment);
        self.calls.end(moment.tool_use_id());
        self.go_on(moment);
    }

    /// Goes on with the work, unless this is a late event of a turn that the user interrupted: no event would
    /// follow it.
    fn go_on(&mut self, moment: &Moment<'_>) {
        if self.interrupted && self.has_ended(moment) {
            return;
        }
        let detail = self.calls.newest().unwrap_or(THINKING).to_owned();
        self.work(Some(&detail));
    }

    fn call_fails(&mut self, moment: &Moment<'_>) {
        if moment.head.is_interrupt == Some(true) {
            self.rest();
            self.interrupted = true;
        } else {
            let failed = u32::from(self.failures.is_news(moment.tool_use_id()));
            self.failed_tools = self.failed_tools.saturating_add(failed);
            self.call_ends(moment);
        }
    }

    /// Ends all calls of one message, also denied ones, which have no event of their own.
    fn batch_ends(&mut self, moment: &Moment<'_>) {
        self.asks.prompt_answered(moment.prompt_id());
        self.calls.clear();
        self.go_on(moment);
    }

    fn permission_asked(&mut self, moment: &Moment<'_>) -> bool {
        if !moment.envelope.attended() {
            return false;
        }
        let call = self.calls.unasked(moment, self.asks.all());
        self.asks.end_notices();
        self.ask(Pending::permission(moment, call));
        if !matches!(self.beneath, Status::Working { .. }) {
            self.work(Some(moment.tool()));
        }
        true
    }

    fn ask(&mut self, pending: Pending) {
        if self.asks.push(pending) {
            self.seen = false;
        }
    }

    fn notified(&mut self, moment: &Moment<'_>) -> bool {
        let message = moment.head.message.as_deref().unwrap_or_default();
        match Notified::of(moment.head.notification_type.as_deref()) {
            // A notification comes late and knows little: it never replaces better knowledge, and says nothing
            // about a turn that has ended.
            Notified::Asks(_) if self.asks.knows_more() || self.has_ended(moment) => return false,
            Notified::Asks(reason) => {
                let call = self.calls.only().map(str::to_owned);
                self.ask(Pending::notice(moment, reason, call));
            }
            Notified::AsksInWords => {
                let call = self.calls.only().map(str::to_owned);
                self.ask(Pending::notice(moment, "", call));
            }
            Notified::Answered => self.asks.end_notices(),
            Notified::AgentEnded if moment.agent_id().is_some() => self.rest(),
            Notified::AgentEnded => {
                let ended = notified::ended_agent(message);
                return ended.is_some_and(|agent| self.asks.agent_ended(agent));
            }
            Notified::Idle if self.asks.knows_more() => return false,
            Notified::Idle => self.end_turn(),
            Notified::Nothing => return false,
        }
        true
    }

    fn prompted(&mut self, moment: &Moment<'_>) {
        // A user who writes a prompt sees no dialog; a generated prompt proves nothing.
        if !moment.is_machine_made() {
            self.rest();
        }
        self.error = None;
        self.work(None);
    }

    fn session_starts(&mut self, moment: &Moment<'_>) {
        if moment.head.source.as_deref() == Some("compact") {
            match self.before_compact.take() {
                Some(before) => self.beneath = before,
                None if self.beneath.detail() == Some(COMPACTING) => self.beneath = Status::Idle,
                None => {}
            }
            return;
        }
        self.rest();
        self.prompt = None;
        self.error = None;
        self.interrupted = false;
        self.background_tasks = 0;
    }

    fn compaction_begins(&mut self) {
        if self.beneath.detail() != Some(COMPACTING) {
            self.before_compact = Some(self.beneath.clone());
        }
        self.set_working(Some(COMPACTING));
    }

    fn compaction_ends(&mut self, trigger: Option<&str>) {
        let before = self.before_compact.take();
        match (trigger, before) {
            (Some("manual"), _) => self.beneath = Status::Idle,
            (Some("auto"), _) => self.set_working(Some(THINKING)),
            (_, Some(before)) => self.beneath = before,
            (_, None) => {}
        }
    }

    /// Begins this subagent. Returns false if a newer event was applied.
    pub fn begins(&mut self, moment: &Moment<'_>) -> bool {
        !self.is_past(moment.mark()) && {
            self.rest();
            self.work(None);
            self.said(moment)
        }
    }

    /// Ends this subagent. Returns false if it has gone on since.
    pub fn ends(&mut self, moment: &Moment<'_>) -> bool {
        !self.is_past(moment.mark()) && {
            self.rest();
            self.said(moment);
            true
        }
    }

    /// Notes that a subagent of this agent begins. It matters only while the agent works.
    pub fn child_begins(&mut self, moment: &Moment<'_>) -> bool {
        self.child_moves(moment, moment.agent_type())
    }

    pub fn child_ends(&mut self, moment: &Moment<'_>) -> bool {
        self.child_moves(moment, Some(THINKING))
    }

    fn child_moves(&mut self, moment: &Moment<'_>, detail: Option<&str>) -> bool {
        self.status.word() == "working" && !self.is_past(moment.mark()) && {
            self.set_working(detail);
            self.said(moment)
        }
    }

    fn said(&mut self, moment: &Moment<'_>) -> bool {
        self.last = Some(moment.mark());
        self.inferred = false;
        self.settle(moment.at)
    }

    /// Ends the turn. The questions of other agents stay open, since these go on.
    fn end_turn(&mut self) {
        let of_others = self.asks.of_other_agents();
        self.rest();
        self.asks = of_others;
    }

    /// Ends the turn, with all open calls and questions.
    fn rest(&mut self) {
        self.beneath = Status::Idle;
        self.over = true;
        self.judged = None;
        self.before_compact = None;
        self.calls.clear();
        self.failures.clear();
        self.asks.clear();
    }

    fn work(&mut self, detail: Option<&str>) {
        self.interrupted = false;
        self.over = false;
        self.judged = None;
        self.set_working(detail);
    }

    fn set_working(&mut self, detail: Option<&str>) {
        if !matches!(&self.beneath, Status::Working { detail: old } if old.as_deref() == detail) {
            self.beneath = Status::Working {
                detail: detail.map(str::to_owned),
            };
        }
    }

    /// Returns true if the turn of the event has ended.
    fn has_ended(&self, moment: &Moment<'_>) -> bool {
        let prompt = moment.prompt_id();
        self.over && prompt.is_some() && prompt == self.prompt.as_deref()
    }
}

#[cfg(test)]
pub(crate) mod script;
#[cfg(test)]
mod tests;

impl Agent {
    /// Updates the status: the oldest question, else the agent's work.
    fn settle(&mut self, at: i64) -> bool {
        let (status, since) = match self.asks.all().first() {
            Some(first) => {
                let reason = first.reason();
                (Status::Attention { reason }, first.at)
            }
            None if self.beneath == self.status => return false,
            None if self.beneath.word() == self.status.word() && self.status.reason().is_none() => {
                (self.beneath.clone(), self.since)
            }
            None => (self.beneath.clone(), at),
        };
        let changed = status != self.status || since != self.since;
        self.status = status;
        self.since = since;
        changed
    }

    /// Returns the other facts that the user can see.
    fn aside(&self) -> ([Option<String>; 2], [u32; 2], [bool; 3]) {
        (
            [self.error.clone(), self.calls.newest_doing()],
            [self.failed_tools, self.background_tasks],
            [self.interrupted, self.seen, self.inferred],
        )
    }
}

impl Agent {
    /// Makes the agent idle. `inferred` is false if becket itself caused it.
    pub fn rests(&mut self, at: i64, inferred: bool) -> bool {
        self.rest();
        self.conclude(at, inferred)
    }

    /// Begins a turn that no event reported.
    pub fn began(&mut self, at: i64) -> bool {
        self.work(None);
        self.conclude(at, true)
    }

    /// Notes that becket's hooks judge this stop. Until they have, the agent works.
    pub fn is_judged(&mut self, stop: EventId, at: i64) -> bool {
        self.work(Some(THINKING));
        self.judged = Some(stop);
        self.conclude(at, false)
    }

    /// Returns true if hooks judge this stop and the agent has done nothing since.
    pub fn awaits(&self, stop: EventId) -> bool {
        self.judged == Some(stop)
    }

    /// Returns true if the agent wants to stop and no hook has decided yet.
    pub fn wants_to_stop(&self) -> bool {
        self.judged.is_some()
    }

    /// Lets the agent stop. All open questions are newer, because the stop itself had ended all others.
    pub fn is_let_stop(&mut self, at: i64) -> bool {
        let asks = std::mem::take(&mut self.asks);
        self.rest();
        self.asks = asks;
        self.conclude(at, false)
    }

    /// Notes that a subagent goes on or has ended. It matters only while the agent works.
    pub fn child_turns(&mut self, agent_type: Option<&str>, at: i64) -> bool {
        self.status.word() == "working" && self.may_infer(at) && {
            self.set_working(agent_type.or(Some(THINKING)));
            self.conclude(at, false)
        }
    }

    /// Ends a turn that the user interrupted. For an agent that wants to stop, the interrupt shows only that it
    /// may, before a hook said so. Outside a turn only a dialog was closed.
    pub fn was_interrupted(&mut self, at: i64) -> bool {
        self.interrupted |= self.beneath != Status::Idle && !self.wants_to_stop();
        self.end_turn();
        self.conclude(at, true)
    }

    /// Returns true if the agent does nothing and at most other agents ask the user something.
    pub fn has_ended_its_turn(&self) -> bool {
        self.beneath == Status::Idle && self.asks.are_of_other_agents()
    }

    /// Ends a turn whose end no event reported.
    pub fn died(&mut self, error: Option<&str>, at: i64) -> bool {
        if let Some(error) = error {
            self.error = Some(cut(error).to_owned());
            self.failure = None;
        }
        self.end_turn();
        self.conclude(at, true)
    }

    /// Removes the question about one call, or all questions up to `at`, as answered.
    pub fn was_answered(&mut self, tool_use_id: Option<&str>, at: i64) -> bool {
        self.asks.answered(tool_use_id, at) && self.conclude(at, true)
    }

    /// Returns true if no event after `at` was applied, so that an inference for that time still counts.
    pub fn may_infer(&self, at: i64) -> bool {
        self.last.is_none_or(|last| at >= last.at)
    }

    /// Clamps all times to now. Later ones come from a clock that was set back.
    pub fn nothing_after(&mut self, now: Mark) {
        if self.is_past(now) {
            self.last = Some(Mark::before_all_of(now.at));
        }
        self.since = self.since.min(now.at);
        self.asks.nothing_after(now.at);
    }

    fn conclude(&mut self, at: i64, inferred: bool) -> bool {
        self.last = self.last.max(Some(Mark::before_all_of(at)));
        self.inferred = inferred;
        self.settle(at)
    }

    /// Returns the time since when it waits for a subagent within its turn, if it does.
    pub fn runs_subagents_since(&self) -> Option<i64> {
        self.calls.subagents_since()
    }
}
