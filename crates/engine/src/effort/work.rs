//! What a session keeps of its effort, agent by agent. It is part of the session, so that the daemon, the intake
//! of the spool and the standalone process count alike.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;

use becket_wire::EventId;
use becket_wire::event::EventName;
use serde::{Deserialize, Serialize};

use super::{
    EffortContext, EffortFacts, EffortSaid, FILES, MAIN, bash_command, dialogue, is_auto,
    is_exempt, is_exhausted, named_path, rules, touched,
};
use crate::is_default;
use crate::status::SessionEvent;

/// Files, deliveries and folders that are remembered for each agent: a session is written with each event.
const MAX_FILES: usize = 40;
const MAX_FOLDERS: usize = 100;
/// Agents that are remembered.
const MAX_AGENTS: usize = 100;
const MAX_NOTES: usize = 8;
/// Of a Bash command that writes the log, and of a message: bytes.
const MAX_COMMAND: usize = 2000;
const MAX_MESSAGE: usize = 4000;

/// What a session keeps of its effort. Empty for a session without one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Work {
    #[serde(skip_serializing_if = "is_default")]
    pub effort: Option<i64>,
    /// Its effort reads itself in: no heartbeat is counted.
    #[serde(skip_serializing_if = "is_default")]
    loading: bool,
    #[serde(skip_serializing_if = "is_default")]
    phase_since: i64,
    /// `AGENT_ID`, and the launch that started Claude Code.
    #[serde(skip_serializing_if = "is_default")]
    pub agent: Option<String>,
    #[serde(skip_serializing_if = "is_default")]
    pub launch: Option<String>,
    #[serde(skip_serializing_if = "is_default")]
    pub agents: BTreeMap<String, AgentWork>,
    /// Of the main agent, and when it was told. None since the window was opened.
    #[serde(skip_serializing_if = "is_default")]
    pub context_pct: Option<f64>,
    #[serde(skip_serializing_if = "is_default")]
    pub context_at: i64,
    /// The agent was told to hand over.
    #[serde(skip_serializing_if = "is_default")]
    pub dehydrating: bool,
    /// The launch is to start a fresh Claude Code.
    #[serde(skip_serializing_if = "is_default")]
    pub handover: bool,
    #[serde(skip_serializing_if = "is_default")]
    pub exhausted: bool,
    /// What others did, for the main agent at its next event.
    #[serde(skip_serializing_if = "is_default")]
    pub notes: Vec<String>,
    /// What the last event did besides. The host takes it.
    #[serde(skip)]
    effects: Vec<Effect>,
}

/// One agent in its present window.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AgentWork {
    /// The event that opened the window.
    #[serde(skip_serializing_if = "is_default")]
    pub window: Option<EventId>,
    /// Calls without a log entry.
    #[serde(skip_serializing_if = "is_default")]
    pub heartbeat: u32,
    /// Calls since the phase began.
    #[serde(skip_serializing_if = "is_default")]
    pub calls: u32,
    #[serde(skip_serializing_if = "is_default")]
    phase_since: i64,
    /// Files that it read or wrote, the last one last.
    #[serde(skip_serializing_if = "is_default")]
    pub loaded: Vec<String>,
    /// Folders that it touched, by their hash.
    #[serde(skip_serializing_if = "is_default")]
    folders: Vec<u32>,
    /// Files that it was given, or that Claude Code loaded itself.
    #[serde(skip_serializing_if = "is_default")]
    pub given: BTreeMap<String, Given>,
    /// Rules that have spoken once in this window.
    #[serde(skip_serializing_if = "is_default")]
    pub fired: Vec<String>,
    /// Its Bash call that runs becket, until it has ended.
    #[serde(skip_serializing_if = "is_default")]
    open: Option<OpenCall>,
}

/// A file that was put into an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Given {
    /// The event of that answer.
    pub event: EventId,
    /// The agent went on after it, so the answer arrived.
    pub confirmed: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct OpenCall {
    id: String,
    command: String,
}

/// What a session's effort is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bound {
    pub effort: i64,
    pub loading: bool,
    pub phase_since: i64,
}

/// What an event did besides changing the session.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    Opened {
        agent: Option<String>,
        window: EventId,
        at: i64,
        source: String,
    },
    Ended {
        window: EventId,
        at: i64,
    },
    /// A line of the dialogue.
    Message {
        agent: Option<String>,
        kind: &'static str,
        text: String,
    },
    /// These files arrived.
    Confirmed(Vec<String>),
    /// The agent touched these folders for the first time.
    Touched(Vec<PathBuf>),
    /// A line for the agents that work on the same task.
    Tell(String),
}

impl Work {
    /// The session works on this effort now, or on none.
    pub fn bind(&mut self, bound: Option<Bound>) {
        let effort = bound.map(|bound| bound.effort);
        if self.effort != effort {
            *self = Self {
                effort,
                agent: self.agent.take(),
                launch: self.launch.take(),
                effects: std::mem::take(&mut self.effects),
                ..Self::default()
            };
        }
        if let Some(bound) = bound {
            self.loading = bound.loading;
            self.phase_since = bound.phase_since;
        }
    }

    /// What the last event did besides.
    pub fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    pub fn main(&self) -> Option<&AgentWork> {
        self.agents.get(MAIN)
    }

    /// Applies one event of the session.
    pub fn apply(&mut self, moment: &SessionEvent<'_>) {
        let (head, agent) = (moment.head, moment.agent_id());
        let is_main = agent.is_none();
        if is_main {
            self.agent = moment.envelope.variable("AGENT_ID").map(str::to_owned);
            self.launch = moment.envelope.launch().map(str::to_owned);
        }
        if self.effort.is_none() {
            return;
        }
        let key = agent.unwrap_or(MAIN).to_owned();
        match moment.name {
            EventName::SessionStart if is_main => {
                let source = head.source.as_deref().unwrap_or("startup");
                self.open(&key, moment, source);
                self.context_pct = None;
                (self.dehydrating, self.handover, self.exhausted) = (false, false, false);
                return;
            }
            // The inner agents of Claude Code have no type.
            EventName::SubagentStart | EventName::SubagentStop
                if is_main || moment.agent_type() == Some("") =>
            {
                return;
            }
            EventName::SubagentStart => return self.open(&key, moment, "subagent"),
            EventName::SessionEnd if is_main => return self.end_all(moment),
            EventName::SessionEnd => return,
            EventName::InstructionsLoaded => return self.instructions(&key, moment),
            _ => {}
        }
        // The first event that is heard of an agent: its start was before the effort's, or was missed.
        if self
            .agents
            .get(&key)
            .is_none_or(|work| work.window.is_none())
        {
            self.open(&key, moment, "start");
        }
        self.confirm(&key, moment);
        match moment.name {
            EventName::PreToolUse => self.call(&key, moment),
            EventName::PostToolUse => self.called(&key, moment),
            EventName::PostToolUseFailure => {
                self.close_call(&key, moment);
                let error = head.error.as_deref().unwrap_or("unknown");
                self.message(moment, "failure", &format!("{}: {error}", moment.tool()));
            }
            EventName::Stop | EventName::StopFailure if is_main => {
                let said = [&head.last_assistant_message, &head.error];
                if said.into_iter().flatten().any(|said| is_exhausted(said)) {
                    self.exhaust();
                }
            }
            EventName::SubagentStop => self.subagent_ends(&key, moment),
            EventName::TaskCompleted => {
                let subject = head.task_subject.as_deref().unwrap_or("a task");
                self.message(moment, "task_completed", subject);
            }
            EventName::TeammateIdle => {
                let name = head.teammate_name.as_deref().unwrap_or("a teammate");
                let line = format!("Teammate {name} is idle.");
                self.message(moment, "teammate_idle", &line);
                self.note(line);
            }
            EventName::PreCompact if is_main && is_auto(head) && moment.envelope.restarts() => {
                self.handover = true;
            }
            _ => {}
        }
    }

    /// Opens a window of the main agent without an event: the effort begins, or is taken up.
    pub fn begin(&mut self, window: EventId, at: i64, source: &str) {
        self.open_window(None, window, at, source);
    }

    fn agent(&mut self, key: &str) -> &mut AgentWork {
        self.agents.entry(key.to_owned()).or_default()
    }

    fn open(&mut self, key: &str, moment: &SessionEvent<'_>, source: &str) {
        if self.agents.len() >= MAX_AGENTS && !self.agents.contains_key(key) {
            let others = self.agents.iter().filter(|(id, _)| *id != MAIN);
            let oldest = others.min_by_key(|(_, work)| work.window);
            if let Some(id) = oldest.map(|(id, _)| id.clone()) {
                self.agents.remove(&id);
            }
        }
        self.open_window(moment.agent_id(), moment.envelope.id, moment.at, source);
    }

    fn open_window(&mut self, agent: Option<&str>, window: EventId, at: i64, source: &str) {
        let phase_since = self.phase_since;
        let work = self.agent(agent.unwrap_or(MAIN));
        let opened = AgentWork {
            window: Some(window),
            phase_since,
            ..AgentWork::default()
        };
        let before = std::mem::replace(work, opened);
        // What Claude Code loaded itself before the start was heard.
        if before.window.is_none() {
            work.given = before.given;
        }
        self.end(before.window.filter(|before| *before != window), at);
        self.effects.push(Effect::Opened {
            agent: agent.map(str::to_owned),
            window,
            at,
            source: cut(source, 64),
        });
    }

    fn end(&mut self, window: Option<EventId>, at: i64) {
        let ended = window.map(|window| Effect::Ended { window, at });
        self.effects.extend(ended);
    }

    /// The session is over. The files of the main agent are kept for the window that goes on from it.
    pub fn end_windows(&mut self, at: i64) {
        for (key, work) in std::mem::take(&mut self.agents) {
            self.end(work.window, at);
            if key == MAIN {
                self.agent(MAIN).loaded = work.loaded;
            }
        }
    }

    fn end_all(&mut self, moment: &SessionEvent<'_>) {
        self.end_windows(moment.at);
        let who = self.agent.as_deref().or(moment.head.session_id.as_deref());
        let reason = moment.head.reason.as_deref().unwrap_or("other");
        let line = format!("Agent {} ended ({reason}).", who.unwrap_or("?"));
        self.effects.push(Effect::Tell(line));
    }

    fn subagent_ends(&mut self, key: &str, moment: &SessionEvent<'_>) {
        let Some(work) = self.agents.remove(key) else {
            return;
        };
        self.end(work.window, moment.at);
        let main = self.agent(MAIN);
        for file in work.loaded {
            remember(&mut main.loaded, file, MAX_FILES);
        }
    }

    /// A call begins.
    fn call(&mut self, key: &str, moment: &SessionEvent<'_>) {
        let paused = self.loading || self.dehydrating || self.handover;
        let exempt = is_exempt(moment.head);
        let phase_since = self.phase_since;
        let command = bash_command(moment.head).filter(|command| command.contains("becket"));
        let work = self.agent(key);
        if work.phase_since != phase_since {
            (work.phase_since, work.calls) = (phase_since, 0);
        }
        work.calls = work.calls.saturating_add(u32::from(!exempt));
        work.heartbeat = work.heartbeat.saturating_add(u32::from(!exempt && !paused));
        if let (Some(id), Some(command)) = (moment.tool_use_id(), command) {
            work.open = Some(OpenCall {
                id: id.to_owned(),
                command: cut(&command, MAX_COMMAND),
            });
        }
    }

    fn close_call(&mut self, key: &str, moment: &SessionEvent<'_>) {
        let work = self.agent(key);
        let ended = |open: &OpenCall| Some(&*open.id) == moment.tool_use_id();
        if work.open.as_ref().is_some_and(ended) {
            work.open = None;
        }
    }

    /// A call has succeeded.
    fn called(&mut self, key: &str, moment: &SessionEvent<'_>) {
        self.close_call(key, moment);
        let head = moment.head;
        if let Some(entry) = dialogue(head) {
            self.message(moment, "dialogue", &entry);
        }
        let work = self.agent(key);
        if FILES.contains(&moment.tool())
            && let Some(path) = named_path(head)
        {
            remember(&mut work.loaded, path.display().to_string(), MAX_FILES);
        }
        let folders = touched(head).into_iter().filter(|folder| {
            let mut hasher = DefaultHasher::new();
            folder.hash(&mut hasher);
            remember(&mut work.folders, hasher.finish() as u32, MAX_FOLDERS)
        });
        let folders: Vec<PathBuf> = folders.collect();
        if !folders.is_empty() {
            self.effects.push(Effect::Touched(folders));
        }
    }

    /// What was given before arrived: the agent goes on.
    fn confirm(&mut self, key: &str, moment: &SessionEvent<'_>) {
        let id = moment.envelope.id;
        let Some(work) = self.agents.get_mut(key) else {
            return;
        };
        let mut arrived = Vec::new();
        for (path, given) in &mut work.given {
            if !given.confirmed && given.event != id {
                given.confirmed = true;
                arrived.push(path.clone());
            }
        }
        if !arrived.is_empty() {
            self.effects.push(Effect::Confirmed(arrived));
        }
    }

    /// Claude Code loaded a file itself: it is not given again.
    fn instructions(&mut self, key: &str, moment: &SessionEvent<'_>) {
        let Some(path) = moment.head.file_path.as_deref() else {
            return;
        };
        let event = moment.envelope.id;
        let work = self.agent(key);
        if work.given.len() < MAX_FILES {
            let given = Given {
                event,
                confirmed: true,
            };
            work.given.entry(cut(path, 4096)).or_insert(given);
        }
    }

    fn message(&mut self, moment: &SessionEvent<'_>, kind: &'static str, text: &str) {
        self.effects.push(Effect::Message {
            agent: moment.agent_id().map(str::to_owned),
            kind,
            text: cut(text, MAX_MESSAGE),
        });
    }

    /// The context ran out.
    pub fn exhaust(&mut self) {
        if self.effort.is_some() && !self.exhausted {
            self.exhausted = true;
            self.effects.push(Effect::Message {
                agent: None,
                kind: "exhausted",
                text: "The context ran out.".to_owned(),
            });
        }
    }

    /// A line for the main agent at its next event.
    pub fn note(&mut self, line: String) {
        remember(&mut self.notes, line, MAX_NOTES);
    }

    /// A log entry: the heartbeat of the agent whose open Bash call contains it is 0, else the main agent's.
    pub fn logged(&mut self, text: &str) {
        let writes = |work: &AgentWork, text: &str| {
            let open = work.open.as_ref();
            open.is_some_and(|open| open.command.contains(text))
        };
        let by_text = self.agents.iter().find(|(_, work)| writes(work, text));
        let by_call = || self.agents.iter().find(|(_, work)| writes(work, " log"));
        let agent = by_text.or_else(by_call).map(|(id, _)| id.clone());
        if let Some(work) = self.agents.get_mut(agent.as_deref().unwrap_or(MAIN)) {
            work.heartbeat = 0;
        }
    }

    /// A figure of the main agent's context.
    pub fn figure(&mut self, context_pct: Option<f64>, at: i64) {
        if self.effort.is_some() && context_pct.is_some() {
            (self.context_pct, self.context_at) = (context_pct, at);
        }
    }

    /// What the effort said to an event of this agent. What was refused did not reach the agent.
    pub fn said(&mut self, agent: Option<&str>, event: EventId, said: &EffortSaid, refused: bool) {
        if self.effort != Some(said.effort_id) {
            return;
        }
        self.notes
            .retain(|note| refused || !said.told.contains(note));
        let out = said.allow == Some(false);
        self.dehydrating |= out && said.fired_rules.iter().any(|rule| rule == rules::OVERFLOW);
        let Some(work) = self.agents.get_mut(agent.unwrap_or(MAIN)) else {
            return;
        };
        for rule in &said.fired_rules {
            remember(&mut work.fired, rule.clone(), MAX_FILES);
        }
        if refused {
            // What was found there is found again.
            work.folders.clear();
            return;
        }
        for file in said.files_to_preload.iter().chain(&said.pending_injections) {
            let given = Given {
                event,
                confirmed: false,
            };
            work.given.entry(file.clone()).or_insert(given);
        }
    }

    /// The files that an agent has already.
    pub fn files(&self, agent: Option<&str>) -> Vec<String> {
        let work = self.agents.get(agent.unwrap_or(MAIN));
        let files = work.map(|work| work.given.keys().chain(&work.loaded));
        files.into_iter().flatten().cloned().collect()
    }

    /// What the judgement of an event depends on.
    pub fn context(&self, agent: Option<&str>, facts: EffortFacts) -> EffortContext {
        let key = agent.unwrap_or(MAIN);
        let nothing = AgentWork::default();
        let work = self.agents.get(key).unwrap_or(&nothing);
        let is_main = agent.is_none();
        EffortContext {
            facts,
            agent: key.to_owned(),
            window: work.window,
            heartbeat: work.heartbeat,
            calls: work.calls,
            fired: work.fired.clone(),
            context_pct: self.context_pct.filter(|_| is_main),
            loading: self.loading,
            dehydrating: self.dehydrating,
            handed_over: self.handover,
            notes: if is_main {
                self.notes.clone()
            } else {
                Vec::new()
            },
            ..EffortContext::default()
        }
    }
}

fn cut(text: &str, most: usize) -> String {
    text[..text.floor_char_boundary(most)].to_owned()
}

/// Adds what is not there yet, and forgets the first beyond the bound.
fn remember<T: PartialEq>(list: &mut Vec<T>, item: T, most: usize) -> bool {
    let known = list.iter().position(|one| *one == item);
    if let Some(at) = known {
        list.remove(at);
    }
    list.push(item);
    if list.len() > most {
        list.remove(0);
    }
    known.is_none()
}
