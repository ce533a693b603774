//! One session: its agents, and the other facts from its events. The daemon stores it as it is, so that a
//! restart changes nothing.

mod cost;
mod inference;
mod json;
mod row;

use std::borrow::Cow;
use std::collections::BTreeMap;

use becket_wire::EventId;
use becket_wire::event::EventName;
use becket_wire::session::{Display, Figures};
use serde::{Deserialize, Serialize};

pub use crate::status::{EventTime, SessionEvent};
pub use cost::Process;
use cost::ProcessCosts;
pub use inference::{EventOutcome, Inference, JudgedEvent, PROCESS_GONE};
pub use json::{Json, json};

use crate::coverage::Coverage;
use crate::effort::Work;
use crate::hooks::slash;
use crate::is_default;
use crate::status::{Agent, Question, is_machine_made, repeats_an_event};

/// The longest prompt that is kept, in characters.
const MAX_PROMPT: usize = 500;

/// The longest other text that is kept, in bytes: as long as a path.
const MAX_TEXT: usize = 4096;

/// One session, live or ended. Times are milliseconds since 1970.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Session {
    pub session_id: String,
    #[serde(skip_serializing_if = "is_default")]
    pub prev_session_id: Option<String>,
    /// The first session of the line: `/clear` continues it.
    pub line: String,
    #[serde(skip_serializing_if = "is_default")]
    pub title: Option<String>,
    /// True if the user gave the title: Claude Code's own does not replace it.
    #[serde(skip_serializing_if = "is_default")]
    pub named: bool,
    pub main: Agent,
    #[serde(skip_serializing_if = "is_default")]
    pub children: BTreeMap<String, Child>,
    #[serde(skip_serializing_if = "is_default")]
    pub project: Option<String>,
    #[serde(skip_serializing_if = "is_default")]
    pub cwd: Option<String>,
    #[serde(skip_serializing_if = "is_default")]
    pub model: Option<String>,
    #[serde(skip_serializing_if = "is_default")]
    pub permission_mode: Option<String>,
    #[serde(skip_serializing_if = "is_default")]
    pub attended: bool,
    /// Claude Code's own process, never a guessed parent.
    #[serde(skip_serializing_if = "is_default")]
    pub pid: Option<u32>,
    #[serde(skip_serializing_if = "is_default")]
    pub pid_start: Option<u64>,
    #[serde(skip_serializing_if = "is_default")]
    pub pane: Option<String>,
    #[serde(skip_serializing_if = "is_default")]
    pub tmux_socket: Option<String>,
    #[serde(skip_serializing_if = "is_default")]
    pub entrypoint: Option<String>,
    pub started_at: i64,
    pub last_activity: i64,
    #[serde(skip_serializing_if = "is_default")]
    pub ended_at: Option<i64>,
    #[serde(skip_serializing_if = "is_default")]
    pub end_reason: Option<String>,
    #[serde(skip_serializing_if = "is_default")]
    pub end_inferred: bool,
    /// The last prompt that the user wrote, and its time.
    #[serde(skip_serializing_if = "is_default")]
    pub last_prompt: Option<String>,
    #[serde(skip_serializing_if = "is_default")]
    pub prompted_at: Option<i64>,
    #[serde(skip_serializing_if = "is_default")]
    pub transcript_path: Option<String>,
    #[serde(skip_serializing_if = "is_default")]
    pub figures: Figures,
    #[serde(skip_serializing_if = "is_default")]
    costs: ProcessCosts,
    /// The coverage of its calls by guards, counted at its end.
    #[serde(skip_serializing_if = "is_default")]
    pub coverage: Option<Coverage>,
    /// The session's part of its effort.
    #[serde(skip_serializing_if = "is_default")]
    pub work: Work,
    #[serde(skip_serializing_if = "is_default")]
    shown: Display,
    display_since: i64,
    /// The newest event with facts that were taken over.
    #[serde(skip_serializing_if = "is_default")]
    learned: Option<EventTime>,
}

/// The way in which a session continues another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chain {
    /// `/clear`: the same process, pane and line in every view.
    Clear,
    /// A fork: the other session may go on, so the fork has a line of its own.
    Fork,
}

impl Session {
    pub fn new(id: &str, at: i64) -> Self {
        Self {
            session_id: id.to_owned(),
            line: id.to_owned(),
            main: Agent::new(at),
            attended: true,
            started_at: at,
            last_activity: at,
            display_since: at,
            ..Self::default()
        }
    }

    /// Applies one event of this session. Returns true if the user can see a difference; `last_activity` alone
    /// is none.
    pub fn apply(&mut self, event: &SessionEvent<'_>) -> bool {
        let mut changed = false;
        if self.ended_at.is_some() {
            if !self.is_revived_by(event) {
                return false;
            }
            self.ended_at = None;
            self.end_reason = None;
            self.end_inferred = false;
            changed = true;
        }
        changed |= event.at < self.started_at;
        self.started_at = self.started_at.min(event.at);
        self.last_activity = self.last_activity.max(event.at);
        changed |= self.learn(event);
        changed |= self.move_agents(event);
        self.work.apply(event);
        changed | self.update_display(event.at)
    }

    fn is_revived_by(&self, event: &SessionEvent<'_>) -> bool {
        let begins = matches!(
            event.name,
            EventName::SessionStart | EventName::UserPromptSubmit
        );
        begins && event.agent_id().is_none() && !self.main.is_past(event.time())
    }

    /// Clamps all times to now. Later ones come from a clock that was set back.
    pub fn clamp_times(&mut self, now: EventTime) {
        let children = self.children.values_mut().map(|child| &mut child.agent);
        for agent in children.chain([&mut self.main]) {
            agent.clamp_times(now);
        }
        self.learned = self.learned.map(|learned| learned.min(now));
        self.prompted_at = self.prompted_at.map(|prompted| prompted.min(now.at));
        self.last_activity = self.last_activity.min(now.at);
    }

    /// Takes over facts of the session that this one continues.
    pub fn continue_from(&mut self, prev: &Self, chain: Chain) {
        self.prev_session_id = Some(prev.session_id.clone());
        if chain == Chain::Fork {
            return;
        }
        self.line.clone_from(&prev.line);
        if prev.named || self.title.is_none() {
            self.title.clone_from(&prev.title);
            self.named = prev.named;
        }
        for (mine, theirs) in [
            (&mut self.project, &prev.project),
            (&mut self.cwd, &prev.cwd),
            (&mut self.model, &prev.model),
            (&mut self.permission_mode, &prev.permission_mode),
            (&mut self.pane, &prev.pane),
            (&mut self.tmux_socket, &prev.tmux_socket),
            (&mut self.entrypoint, &prev.entrypoint),
        ] {
            if mine.is_none() {
                mine.clone_from(theirs);
            }
        }
    }

    /// Sets the user's title, or goes back to Claude Code's own.
    pub fn name(&mut self, title: Option<String>) -> bool {
        let title = title.map(cut);
        self.named = title.is_some();
        let changed = self.title != title;
        self.title = title;
        changed
    }

    /// Takes facts of the session from the event. An event older than the last one fills only unknown fields:
    /// the first events of a session overtake each other.
    fn learn(&mut self, event: &SessionEvent<'_>) -> bool {
        let time = event.time();
        let newer = self.learned.is_none_or(|learned| time > learned);
        self.learned = self.learned.max(Some(time));
        let head = event.head;
        let mut changed = (newer || self.pid.is_none()) && self.learn_process(event);
        let mut learn = |field: &mut Option<String>, value: &Option<Cow<'_, str>>| {
            changed |= (newer || field.is_none()) && set(field, value);
        };
        learn(&mut self.transcript_path, &head.transcript_path);
        // A subagent may work elsewhere and with other rights.
        if event.agent_id().is_some() {
            return changed;
        }
        learn(&mut self.cwd, &head.cwd);
        learn(&mut self.project, &event.project.map(Cow::Borrowed));
        learn(&mut self.permission_mode, &head.permission_mode);
        // A prompt that becket answers is not the subject of the session, so it gives no title.
        let answered_here = slash::parse(head, event.envelope).is_some();
        if !self.named && !answered_here {
            learn(&mut self.title, &head.session_title);
        }
        match event.name {
            EventName::SessionStart => learn(&mut self.model, &head.model),
            EventName::PostModelSwitch => learn(&mut self.model, &head.to_model),
            EventName::CwdChanged => learn(&mut self.cwd, &head.new_cwd),
            EventName::UserPromptSubmit if !answered_here => {
                return self.learn_prompt(event) | changed;
            }
            _ => {}
        }
        changed
    }

    fn learn_process(&mut self, event: &SessionEvent<'_>) -> bool {
        let envelope = event.envelope;
        // A parent other than Claude Code may run elsewhere.
        if !envelope.pid_is_claude && self.pid.is_some() {
            return false;
        }
        let variable = |name| envelope.variable(name).map(Cow::Borrowed);
        let mut changed = self.attended != envelope.attended();
        self.attended = envelope.attended();
        let process = (Some(envelope.pid), envelope.pid_start);
        if envelope.pid_is_claude && (self.pid, self.pid_start) != process {
            (self.pid, self.pid_start) = process;
            (self.pane, self.tmux_socket) = (None, None);
            changed = true;
        }
        let socket = envelope.variable("TMUX").and_then(socket_of);
        changed |= set(&mut self.pane, &variable("TMUX_PANE"));
        changed |= set(&mut self.tmux_socket, &socket.map(Cow::Borrowed));
        changed | set(&mut self.entrypoint, &variable("CLAUDE_CODE_ENTRYPOINT"))
    }

    fn learn_prompt(&mut self, event: &SessionEvent<'_>) -> bool {
        let late = self.prompted_at.is_some_and(|last| event.at < last);
        if late || is_machine_made(event.head) {
            return false;
        }
        self.prompted_at = Some(event.at);
        if let Some(prompt) = event.head.prompt.as_deref() {
            let end = prompt.char_indices().nth(MAX_PROMPT);
            let prompt = &prompt[..end.map_or(prompt.len(), |(end, _)| end)];
            set(&mut self.last_prompt, &Some(Cow::Borrowed(prompt)));
        }
        true
    }

    /// Returns true if no status line gives the figures, so that the transcript has to.
    pub fn lacks_status_line(&self) -> bool {
        self.figures == Figures::default() || self.figures.from_transcript
    }

    /// Takes over figures: those of a status line with the process of its Claude Code. Returns true if the user
    /// can see a difference.
    pub fn figure(&mut self, figures: &Figures, process: Process) -> bool {
        if figures.from_transcript && !self.lacks_status_line() {
            return false;
        }
        let known = &self.figures;
        let mut figures = figures.clone();
        let costs = self.costs.clone();
        let before = known.cost_usd.unwrap_or(0.0);
        figures.cost_usd = match figures.cost_usd {
            Some(figure) if figures.from_transcript => Some(figure.max(before)),
            Some(figure) => Some(self.costs.total(process, figure, before)),
            None => known.cost_usd,
        };
        // A reply that failed used no context: the window is as full as before.
        let used_nothing = match figures.context_tokens {
            Some(tokens) => tokens == 0,
            None => figures.context_pct == Some(0.0),
        };
        if used_nothing {
            figures.context_tokens = known.context_tokens;
            figures.context_pct = known.context_pct;
        }
        // A status line that is only drawn again differs in the duration alone.
        let was = Figures {
            duration_ms: figures.duration_ms,
            ..known.clone()
        };
        if was == figures && costs == self.costs {
            self.figures.duration_ms = figures.duration_ms;
            return false;
        }
        self.figures.clone_from(&figures);
        self.work.figure(figures.context_pct, self.last_activity);
        for text in [&mut self.figures.model_id, &mut self.figures.model_name] {
            *text = text.take().map(cut);
        }
        // A transcript has the model of the last reply; events of an attended session may know a later one.
        let late = figures.from_transcript && self.attended && self.model.is_some();
        if figures.model_id.is_some() && !late {
            self.model.clone_from(&self.figures.model_id);
        }
        true
    }
}

/// The socket in `TMUX`: `SOCKET,PID,SESSION`.
fn socket_of(tmux: &str) -> Option<&str> {
    tmux.split(',').next().filter(|socket| !socket.is_empty())
}

/// Cuts a text to the length that is kept.
fn cut(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(MAX_TEXT));
    text
}

/// Sets a field to a value, if there is one and it differs. Returns true if it did.
fn set(field: &mut Option<String>, value: &Option<Cow<'_, str>>) -> bool {
    let Some(value) = value.as_deref() else {
        return false;
    };
    let value = &value[..value.floor_char_boundary(MAX_TEXT)];
    let differs = field.as_deref() != Some(value);
    if differs {
        *field = Some(value.to_owned());
    }
    differs
}

/// The most subagents that a session remembers, and the most ended ones among them: the session is stored with
/// each event. Those that ended first are dropped first.
const MAX_CHILDREN: usize = 200;
const MAX_ENDED_CHILDREN: usize = 50;

/// One subagent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Child {
    pub agent: Agent,
    #[serde(skip_serializing_if = "is_default")]
    pub agent_type: Option<String>,
    /// The agent that started it; none for the main agent. Claude Code names no others.
    #[serde(skip_serializing_if = "is_default")]
    pub parent: Option<String>,
    pub started_at: i64,
    #[serde(skip_serializing_if = "is_default")]
    pub ended_at: Option<i64>,
    #[serde(skip_serializing_if = "is_default")]
    pub transcript_path: Option<String>,
}

impl Child {
    fn new(at: i64) -> Self {
        Self {
            agent: Agent::new(at),
            started_at: at,
            ..Self::default()
        }
    }

    pub fn is_live(&self) -> bool {
        self.ended_at.is_none()
    }

    /// Returns true if it had no event after `at`.
    fn is_quiet_since(&self, at: i64) -> bool {
        self.agent.may_infer(at)
    }

    fn learn(&mut self, event: &SessionEvent<'_>) -> bool {
        let earlier = event.at < self.started_at;
        self.started_at = self.started_at.min(event.at);
        let typed = event.agent_type().is_some_and(|it| !it.is_empty());
        let head = event.head;
        earlier
            | (typed && set(&mut self.agent_type, &head.agent_type))
            | set(&mut self.transcript_path, &head.agent_transcript_path)
    }

    /// Applies one of its own events. A subagent that ended and works was woken again.
    fn apply(&mut self, event: &SessionEvent<'_>) -> bool {
        let past = self.agent.is_past(event.time());
        let mut changed = self.agent.apply(event);
        if past {
            return changed;
        }
        if event.name == EventName::SessionEnd {
            changed |= self.end(event.at);
        } else if self.agent.status.word() != "idle" {
            changed |= self.ended_at.take().is_some();
        }
        changed
    }

    fn end(&mut self, at: i64) -> bool {
        let is_live = self.is_live();
        self.ended_at.get_or_insert(at);
        is_live
    }
}

impl Session {
    /// Returns true if this question of an agent (none: the main one) waits for the user.
    pub fn asks(&self, agent: Option<&str>, question: &Question) -> bool {
        let agent = match agent {
            None => Some(&self.main),
            Some(id) => self.children.get(id).map(|child| &child.agent),
        };
        let is_open = |agent: &Agent| agent.pending().iter().any(|one| one.question == *question);
        self.ended_at.is_none() && agent.is_some_and(is_open)
    }

    /// Removes this question of an agent, which a person has answered.
    pub fn end_question(&mut self, agent: Option<&str>, question: &Question, at: i64) -> bool {
        let agent = match agent {
            None => Some(&mut self.main),
            Some(id) => self.children.get_mut(id).map(|child| &mut child.agent),
        };
        agent.is_some_and(|agent| agent.end_question(question, at))
    }

    /// Returns the subagents that have not ended.
    pub fn live_children(&self) -> impl Iterator<Item = (&str, &Child)> {
        let children = self.children.iter().map(|(id, child)| (&**id, child));
        children.filter(|(_, child)| child.is_live())
    }

    pub(super) fn move_agents(&mut self, event: &SessionEvent<'_>) -> bool {
        match (&event.name, event.agent_id()) {
            (EventName::SubagentStart, Some(id)) => self.begin_child(id, event),
            (EventName::SubagentStop, Some(id)) => self.end_child(id, event),
            (EventName::SubagentStart | EventName::SubagentStop, None) => false,
            (EventName::TeammateIdle, id) => self.teammate_goes_idle(id, event),
            (_, Some(id)) => self.move_child(id, event),
            (EventName::SessionEnd, None) => self.end(event),
            // The notification names no agent, and the subagent's own event says more.
            (EventName::Notification, None)
                if repeats_an_event(event.head.notification_type.as_deref())
                    && self.live_children().any(|(_, it)| it.agent.needs_user()) =>
            {
                false
            }
            (_, None) => self.move_main(event),
        }
    }

    fn move_main(&mut self, event: &SessionEvent<'_>) -> bool {
        if self.main.is_past(event.time()) {
            return false;
        }
        let subagents_since = self.main.runs_subagents_since();
        let mut changed = self.main.apply(event);
        match event.name {
            EventName::SessionStart if event.head.source.as_deref() != Some("compact") => {
                changed |= self.end_children(event.at, |_, child| child.is_quiet_since(event.at));
            }
            EventName::PostToolUseFailure if self.main.interrupted => {
                changed |= self.end_children_since(subagents_since, event.at);
            }
            EventName::Stop => changed |= self.end_unlisted(event),
            _ => {}
        }
        changed
    }

    /// Ends the working subagents that are not background tasks of an ended turn. One with an open question is
    /// live, whatever the list says. If teammates are listed, an unlisted subagent may be one of them.
    fn end_unlisted(&mut self, event: &SessionEvent<'_>) -> bool {
        if self.live_children().next().is_none() || event.lists_a_teammate() {
            return false;
        }
        let Some(listed) = event.background_ids() else {
            return false;
        };
        self.end_children(event.at, |id, child| {
            let works = child.agent.status.word() == "working";
            works && child.is_quiet_since(event.at) && !listed.iter().any(|one| one == id)
        })
    }

    /// Ends the subagents of a turn that the user interrupted.
    pub(super) fn end_children_since(&mut self, since: Option<i64>, at: i64) -> bool {
        since.is_some_and(|since| {
            self.end_children(at, |_, child| {
                child.started_at >= since && child.is_quiet_since(at)
            })
        })
    }

    pub(super) fn end_children(&mut self, at: i64, which: impl Fn(&str, &Child) -> bool) -> bool {
        let mut changed = false;
        for (id, child) in &mut self.children {
            if child.is_live() && which(id, child) {
                child.agent.set_idle(at, true);
                changed |= child.end(at);
            }
        }
        changed
    }

    fn begin_child(&mut self, id: &str, event: &SessionEvent<'_>) -> bool {
        // The inner agents of Claude Code have no type.
        if event.agent_type() == Some("") {
            return false;
        }
        let child = self.child(id, event.at);
        let mut changed = child.learn(event);
        if !child.agent.is_past(event.time()) {
            changed |= child.ended_at.take().is_some() | child.agent.begin(event);
        }
        changed | self.main.note_child(event, event.agent_type())
    }

    fn end_child(&mut self, id: &str, event: &SessionEvent<'_>) -> bool {
        if event.agent_type() == Some("") {
            return false;
        }
        let child = self.child(id, event.at);
        let mut changed = child.learn(event);
        if child.agent.end(event) {
            changed |= child.end(event.at);
        }
        if let Some(listed) = event.background_ids()
            && !self.main.is_past(event.time())
        {
            let others = listed.iter().filter(|one| *one != id).count() as u32;
            changed |= self.main.background_tasks != others;
            self.main.background_tasks = others;
        }
        changed | self.main.note_child(event, None)
    }

    pub(super) fn begin_child_judgement(&mut self, id: &str, stop: EventId, at: i64) -> bool {
        let child = self.children.get_mut(id);
        let Some(child) = child.filter(|child| child.is_quiet_since(at)) else {
            return false;
        };
        let revived = child.ended_at.take().is_some();
        let changed = child.agent.begin_judgement(stop, at) | revived;
        self.main
            .note_child_changed(child.agent_type.as_deref(), at)
            | changed
    }

    pub(super) fn let_child_stop(&mut self, stop: EventId, at: i64) -> bool {
        let mut children = self.children.values_mut();
        let Some(child) = children.find(|child| child.agent.is_judged_for(stop)) else {
            return false;
        };
        child.agent.set_idle(at, false);
        child.end(at) | self.main.note_child_changed(None, at)
    }

    fn teammate_goes_idle(&mut self, id: Option<&str>, event: &SessionEvent<'_>) -> bool {
        let name = event.head.teammate_name.as_deref();
        let by_name = self
            .live_children()
            .find(|(_, child)| name.is_some() && child.agent_type.as_deref() == name)
            .map(|(id, _)| id);
        let Some(id) = id.or(by_name).map(str::to_owned) else {
            return false;
        };
        self.move_child(&id, event)
    }

    fn move_child(&mut self, id: &str, event: &SessionEvent<'_>) -> bool {
        if let Some(child) = self.children.get_mut(id) {
            return child.learn(event) | child.apply(event);
        }
        let mut child = Child::new(event.at);
        child.learn(event);
        child.apply(event);
        // An event without a meaning for the status makes no agent.
        if child.agent.last_at().is_none() {
            return false;
        }
        *self.child(id, event.at) = child;
        true
    }

    /// Returns that child. A new one may replace an old one.
    fn child(&mut self, id: &str, at: i64) -> &mut Child {
        if !self.children.contains_key(id) {
            self.make_room();
        }
        let id = id.to_owned();
        self.children.entry(id).or_insert_with(|| Child::new(at))
    }

    fn make_room(&mut self) {
        let live = self.live_children().count();
        if self.children.len() < MAX_CHILDREN && self.children.len() - live < MAX_ENDED_CHILDREN {
            return;
        }
        let first = self.children.iter().min_by_key(|(_, child)| {
            let asks = child.agent.needs_user();
            (child.is_live(), asks, child.ended_at, child.started_at)
        });
        if let Some(id) = first.map(|(id, _)| id.clone()) {
            self.children.remove(&id);
        }
    }

    fn end(&mut self, event: &SessionEvent<'_>) -> bool {
        if self.main.is_past(event.time()) {
            return false;
        }
        self.main.apply(event);
        self.end_children(event.at, |_, _| true);
        self.ended_at = Some(event.at);
        self.end_reason = None;
        set(&mut self.end_reason, &event.head.reason);
        true
    }
}

#[cfg(test)]
mod tests;
