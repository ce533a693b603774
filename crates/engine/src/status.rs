//! The status of one agent: `(agent, event) → agent`, by the table of the hook events. An open question to the
//! user covers the agent's work, so that no end of a call hides it.

mod notifications;
mod questions;
mod session_event;
mod words;

use becket_wire::EventId;
use becket_wire::event::EventName;
use becket_wire::session::{Display, Status};
use notifications::NotificationEffect;
use questions::{FailedCalls, OpenCalls, Questions};
use serde::{Deserialize, Serialize};
use session_event::cut;

use crate::is_default;

pub use notifications::asks_user;
pub(crate) use notifications::repeats_an_event;
pub use questions::{PendingQuestion, Question};
pub use session_event::{EventTime, SessionEvent, is_machine_made};

const THINKING: &str = "Thinking";
const COMPACTING: &str = "Compacting";

/// The time for which a question that the user has looked at and not answered counts as seen: milliseconds.
const SEEN_LASTS: i64 = 5 * 60 * 1000;

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
    #[serde(rename = "beneath", skip_serializing_if = "is_default")]
    activity: Status,
    /// The work of the agent when a compaction began.
    #[serde(skip_serializing_if = "is_default")]
    before_compact: Option<Status>,
    /// The current prompt, or the last one.
    #[serde(skip_serializing_if = "is_default")]
    prompt: Option<String>,
    /// True if the turn of that prompt has ended.
    #[serde(rename = "over", skip_serializing_if = "is_default")]
    turn_ended: bool,
    #[serde(skip_serializing_if = "is_default")]
    calls: OpenCalls,
    #[serde(skip_serializing_if = "is_default")]
    failures: FailedCalls,
    #[serde(rename = "asks", skip_serializing_if = "is_default")]
    questions: Questions,
    #[serde(skip_serializing_if = "is_default")]
    last: Option<EventTime>,
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
    pub fn apply(&mut self, event: &SessionEvent<'_>) -> bool {
        if self.is_past(event.time()) {
            return false;
        }
        let (before, turn_ended) = (self.visible_details(), self.turn_ended);
        let prompt = event.prompt_id();
        let another = prompt.is_some() && prompt != self.prompt.as_deref();
        self.turn_ended &= !another;
        if !self.apply_row(event) {
            self.turn_ended = turn_ended;
            return false;
        }
        self.last = Some(event.time());
        self.inferred = false;
        if another {
            self.prompt = prompt.map(str::to_owned);
        }
        self.update_status(event.at) | (before != self.visible_details())
    }

    /// Returns true if this event or a newer one was applied already.
    pub fn is_past(&self, time: EventTime) -> bool {
        self.last.is_some_and(|last| time <= last)
    }

    /// Returns the time of the newest applied event.
    pub fn last_at(&self) -> Option<i64> {
        self.last.map(|time| time.at)
    }

    /// Returns the open questions to the user, oldest first.
    pub fn pending(&self) -> &[PendingQuestion] {
        self.questions.all()
    }

    pub fn needs_user(&self) -> bool {
        matches!(self.status, Status::Attention { .. })
    }

    /// Returns the state as the user sees it.
    pub fn display(&self) -> Display {
        Display::of(&self.status, self.seen)
    }

    /// Notes that the user looks at the agent's question. Returns true if that is new.
    pub fn mark_seen(&mut self, at: i64) -> bool {
        let looked = self.needs_user() && at >= self.since;
        let news = looked && (!self.seen || at > self.seen_at);
        if news {
            self.seen = true;
            self.seen_at = at;
        }
        news
    }

    /// Makes a question unseen that the user looked at and did not answer for a while. Returns true if that
    /// changes the display.
    pub fn expire_seen(&mut self, now: i64) -> bool {
        let forgotten = self.seen && now.saturating_sub(self.seen_at) >= SEEN_LASTS;
        self.seen &= !forgotten;
        forgotten && self.needs_user()
    }

    /// Returns the activity or question in words; none if the agent is idle.
    pub fn doing(&self) -> Option<String> {
        match &self.status {
            Status::Idle => None,
            Status::Working { detail } => {
                let detail = detail.as_deref()?;
                let is_call = self.calls.newest() == Some(detail);
                let known = self.calls.newest_doing().filter(|_| is_call);
                Some(known.unwrap_or_else(|| words::detail(detail)))
            }
            Status::Attention { reason } => {
                let asked = self.questions.all().first().map(PendingQuestion::in_words);
                Some(asked.unwrap_or_else(|| reason.clone()))
            }
        }
    }

    /// Returns the reason why the last turn failed, in words.
    pub fn failed(&self) -> Option<String> {
        let error = self.error.as_deref()?;
        let known = self.failure.clone();
        Some(known.unwrap_or_else(|| words::failure(error, None)))
    }

    /// Applies the row of the table for the event. Returns false if the event has no row: it does not count as
    /// applied.
    fn apply_row(&mut self, event: &SessionEvent<'_>) -> bool {
        let head = event.head;
        match event.name {
            EventName::PreToolUse => self.call_begins(event),
            EventName::PostToolUse | EventName::PermissionDenied => self.call_ends(event),
            EventName::PostToolUseFailure => self.call_fails(event),
            EventName::PostToolBatch => self.batch_ends(event),
            EventName::PermissionRequest => return self.permission_asked(event),
            EventName::Elicitation => self.ask(PendingQuestion::elicitation(event)),
            EventName::ElicitationResult => {
                self.questions.elicited(event);
                self.questions.end_notices();
                // A background task may ask after the turn.
                if !self.has_ended(event) {
                    self.start_work(Some(THINKING));
                }
            }
            EventName::Notification => return self.apply_notification(event),
            EventName::UserPromptSubmit => self.apply_prompt(event),
            EventName::UserPromptExpansion => self.start_work(None),
            EventName::Stop => {
                self.end_turn();
                self.interrupted = false;
                self.background_tasks = event.background_tasks().unwrap_or(0);
            }
            EventName::StopFailure => {
                self.end_turn();
                self.error = Some(event.failure());
                let said = event.head.last_assistant_message.as_deref();
                self.failure = Some(words::failure(event.error().unwrap_or_default(), said));
            }
            EventName::SessionStart => self.session_starts(event),
            EventName::SessionEnd => {
                self.end_everything();
                self.background_tasks = 0;
            }
            EventName::PreCompact => self.compaction_begins(),
            EventName::PostCompact => self.compaction_ends(head.trigger.as_deref()),
            EventName::Setup => self.start_work(Some("Setup")),
            EventName::TeammateIdle => self.end_everything(),
            _ => return false,
        }
        true
    }

    fn call_begins(&mut self, event: &SessionEvent<'_>) {
        let tool = event.tool();
        self.calls.begin(event);
        if INTERACTIVE.contains(&tool) {
            let call = event.tool_use_id().map(str::to_owned);
            self.ask(PendingQuestion::permission(event, call));
        }
        self.start_work(Some(tool));
    }

    fn call_ends(&mut self, event: &SessionEvent<'_>) {
        self.questions.call_ended(event);
        self.calls.end(event.tool_use_id());
        self.resume_work(event);
    }

    /// Goes on with the work, unless this is a late event of a turn that the user interrupted: no event would
    /// follow it.
    fn resume_work(&mut self, event: &SessionEvent<'_>) {
        if self.interrupted && self.has_ended(event) {
            return;
        }
        let detail = self.calls.newest().unwrap_or(THINKING).to_owned();
        self.start_work(Some(&detail));
    }

    fn call_fails(&mut self, event: &SessionEvent<'_>) {
        if event.head.is_interrupt == Some(true) {
            self.end_everything();
            self.interrupted = true;
        } else {
            let failed = u32::from(self.failures.is_news(event.tool_use_id()));
            self.failed_tools = self.failed_tools.saturating_add(failed);
            self.call_ends(event);
        }
    }

    /// Ends all calls of one message, also denied ones, which have no event of their own.
    fn batch_ends(&mut self, event: &SessionEvent<'_>) {
        self.questions.prompt_answered(event.prompt_id());
        self.calls.clear();
        self.resume_work(event);
    }

    fn permission_asked(&mut self, event: &SessionEvent<'_>) -> bool {
        if !event.envelope.attended() {
            return false;
        }
        let call = self.calls.unasked(event, self.questions.all());
        self.questions.end_notices();
        self.ask(PendingQuestion::permission(event, call));
        if !matches!(self.activity, Status::Working { .. }) {
            self.start_work(Some(event.tool()));
        }
        true
    }

    fn ask(&mut self, pending: PendingQuestion) {
        if self.questions.push(pending) {
            self.seen = false;
        }
    }

    fn apply_notification(&mut self, event: &SessionEvent<'_>) -> bool {
        let message = event.head.message.as_deref().unwrap_or_default();
        match NotificationEffect::of(event.head.notification_type.as_deref()) {
            // A notification comes late and knows little: it never replaces better knowledge, and says nothing
            // about a turn that has ended.
            NotificationEffect::Asks(_)
                if self.questions.has_own_event() || self.has_ended(event) =>
            {
                return false;
            }
            NotificationEffect::Asks(reason) => {
                let call = self.calls.only().map(str::to_owned);
                self.ask(PendingQuestion::notice(event, reason, call));
            }
            NotificationEffect::AsksInWords => {
                let call = self.calls.only().map(str::to_owned);
                self.ask(PendingQuestion::notice(event, "", call));
            }
            NotificationEffect::Answered => self.questions.end_notices(),
            NotificationEffect::AgentEnded if event.agent_id().is_some() => self.end_everything(),
            NotificationEffect::AgentEnded => {
                let ended = notifications::ended_agent(message);
                return ended.is_some_and(|agent| self.questions.agent_ended(agent));
            }
            NotificationEffect::Idle if self.questions.has_own_event() => return false,
            NotificationEffect::Idle => self.end_turn(),
            NotificationEffect::Nothing => return false,
        }
        true
    }

    fn apply_prompt(&mut self, event: &SessionEvent<'_>) {
        // A user who writes a prompt sees no dialog; a generated prompt proves nothing.
        if !is_machine_made(event.head) {
            self.end_everything();
        }
        self.error = None;
        self.start_work(None);
    }

    fn session_starts(&mut self, event: &SessionEvent<'_>) {
        if event.head.source.as_deref() == Some("compact") {
            match self.before_compact.take() {
                Some(before) => self.activity = before,
                None if self.activity.detail() == Some(COMPACTING) => self.activity = Status::Idle,
                None => {}
            }
            return;
        }
        self.end_everything();
        self.prompt = None;
        self.error = None;
        self.interrupted = false;
        self.background_tasks = 0;
    }

    fn compaction_begins(&mut self) {
        if self.activity.detail() != Some(COMPACTING) {
            self.before_compact = Some(self.activity.clone());
        }
        self.set_working(Some(COMPACTING));
    }

    fn compaction_ends(&mut self, trigger: Option<&str>) {
        let before = self.before_compact.take();
        match (trigger, before) {
            (Some("manual"), _) => self.activity = Status::Idle,
            (Some("auto"), _) => self.set_working(Some(THINKING)),
            (_, Some(before)) => self.activity = before,
            (_, None) => {}
        }
    }

    /// Begins this subagent. Returns false if a newer event was applied.
    pub fn begin(&mut self, event: &SessionEvent<'_>) -> bool {
        !self.is_past(event.time()) && {
            self.end_everything();
            self.start_work(None);
            self.record(event)
        }
    }

    /// Ends this subagent. Returns false if it has gone on since.
    pub fn end(&mut self, event: &SessionEvent<'_>) -> bool {
        !self.is_past(event.time()) && {
            self.end_everything();
            self.record(event);
            true
        }
    }

    /// Notes that a subagent of this type begins, or that one has ended. It matters only while the agent works.
    pub fn note_child(&mut self, event: &SessionEvent<'_>, agent_type: Option<&str>) -> bool {
        self.status.word() == "working" && !self.is_past(event.time()) && {
            self.set_working(agent_type.or(Some(THINKING)));
            self.record(event)
        }
    }

    fn record(&mut self, event: &SessionEvent<'_>) -> bool {
        self.last = Some(event.time());
        self.inferred = false;
        self.update_status(event.at)
    }

    /// Ends the turn. The questions of other agents stay open, since these go on.
    fn end_turn(&mut self) {
        self.end_work();
        self.questions.end_own();
    }

    /// Ends the turn, with all open calls and questions.
    fn end_everything(&mut self) {
        self.end_work();
        self.questions.clear();
    }

    fn end_work(&mut self) {
        self.activity = Status::Idle;
        self.turn_ended = true;
        self.judged = None;
        self.before_compact = None;
        self.calls.clear();
        self.failures.clear();
    }

    fn start_work(&mut self, detail: Option<&str>) {
        self.interrupted = false;
        self.turn_ended = false;
        self.judged = None;
        self.set_working(detail);
    }

    fn set_working(&mut self, detail: Option<&str>) {
        if !matches!(&self.activity, Status::Working { detail: old } if old.as_deref() == detail) {
            self.activity = Status::Working {
                detail: detail.map(str::to_owned),
            };
        }
    }

    /// Returns true if the turn of the event has ended.
    fn has_ended(&self, event: &SessionEvent<'_>) -> bool {
        let prompt = event.prompt_id();
        self.turn_ended && prompt.is_some() && prompt == self.prompt.as_deref()
    }
}

#[cfg(test)]
pub(crate) mod tests;

impl Agent {
    /// Updates the status: the oldest question, else the agent's work.
    fn update_status(&mut self, at: i64) -> bool {
        let (status, since) = match self.questions.all().first() {
            Some(first) => {
                let reason = first.reason();
                (Status::Attention { reason }, first.at)
            }
            None if self.activity == self.status => return false,
            None if self.activity.word() == self.status.word()
                && self.status.reason().is_none() =>
            {
                (self.activity.clone(), self.since)
            }
            None => (self.activity.clone(), at),
        };
        let changed = status != self.status || since != self.since;
        self.status = status;
        self.since = since;
        changed
    }

    /// Returns the other facts that the user can see.
    fn visible_details(&self) -> ([Option<String>; 2], [u32; 2], [bool; 3]) {
        (
            [self.error.clone(), self.calls.newest_doing()],
            [self.failed_tools, self.background_tasks],
            [self.interrupted, self.seen, self.inferred],
        )
    }
}

impl Agent {
    /// Makes the agent idle. `inferred` is false if becket itself caused it.
    pub fn set_idle(&mut self, at: i64, inferred: bool) -> bool {
        self.end_everything();
        self.update_without_event(at, inferred)
    }

    /// Begins a turn that no event reported.
    pub fn begin_unreported_turn(&mut self, at: i64) -> bool {
        self.start_work(None);
        self.update_without_event(at, true)
    }

    /// Notes that becket's hooks judge this stop. Until they have, the agent works.
    pub fn begin_judgement(&mut self, stop: EventId, at: i64) -> bool {
        self.start_work(Some(THINKING));
        self.judged = Some(stop);
        self.update_without_event(at, false)
    }

    /// Returns true if hooks judge this stop and the agent has done nothing since.
    pub fn is_judged_for(&self, stop: EventId) -> bool {
        self.judged == Some(stop)
    }

    /// Returns true if the agent wants to stop and no hook has decided yet.
    pub fn wants_to_stop(&self) -> bool {
        self.judged.is_some()
    }

    /// Lets the agent stop. All open questions are newer, because the stop itself had ended all others.
    pub fn let_stop(&mut self, at: i64) -> bool {
        self.end_work();
        self.update_without_event(at, false)
    }

    /// Notes that a subagent goes on or has ended. It matters only while the agent works.
    pub fn note_child_changed(&mut self, agent_type: Option<&str>, at: i64) -> bool {
        self.status.word() == "working" && self.may_infer(at) && {
            self.set_working(agent_type.or(Some(THINKING)));
            self.update_without_event(at, false)
        }
    }

    /// Ends a turn that the user interrupted. For an agent that wants to stop, the interrupt shows only that it
    /// may, before a hook said so. Outside a turn only a dialog was closed.
    pub fn interrupt(&mut self, at: i64) -> bool {
        self.interrupted |= self.activity != Status::Idle && !self.wants_to_stop();
        self.end_turn();
        self.update_without_event(at, true)
    }

    /// Returns true if the agent does nothing and at most other agents ask the user something.
    pub fn has_ended_its_turn(&self) -> bool {
        self.activity == Status::Idle && self.questions.are_of_other_agents()
    }

    /// Ends a turn whose end no event reported.
    pub fn fail(&mut self, error: Option<&str>, at: i64) -> bool {
        if let Some(error) = error {
            self.error = Some(cut(error).to_owned());
            self.failure = None;
        }
        self.end_turn();
        self.update_without_event(at, true)
    }

    /// Removes one question, as answered.
    pub fn end_question(&mut self, question: &Question, at: i64) -> bool {
        self.questions.end(question) && self.update_without_event(at, true)
    }

    /// Removes the question about one call, or all questions up to `at`, as answered.
    pub fn remove_answered(&mut self, tool_use_id: Option<&str>, at: i64) -> bool {
        self.questions.answered(tool_use_id, at) && self.update_without_event(at, true)
    }

    /// Returns true if no event after `at` was applied, so that an inference for that time still counts.
    pub fn may_infer(&self, at: i64) -> bool {
        self.last.is_none_or(|last| at >= last.at)
    }

    /// Clamps all times to now. Later ones come from a clock that was set back.
    pub fn clamp_times(&mut self, now: EventTime) {
        if self.is_past(now) {
            self.last = Some(EventTime::before_all_of(now.at));
        }
        self.since = self.since.min(now.at);
        self.questions.clamp_times(now.at);
    }

    fn update_without_event(&mut self, at: i64, inferred: bool) -> bool {
        self.last = self.last.max(Some(EventTime::before_all_of(at)));
        self.inferred = inferred;
        self.update_status(at)
    }

    /// Returns the time since when it waits for a subagent within its turn, if it does.
    pub fn runs_subagents_since(&self) -> Option<i64> {
        self.calls.subagents_since()
    }
}
