//! One session: its agents, and what its events tell of it besides. The daemon keeps it as it is,
//! so that a restart changes nothing.

mod child;
mod infer;
mod json;
mod show;

use std::borrow::Cow;
use std::collections::BTreeMap;

use becket_wire::event::EventName;
use becket_wire::session::{Display, Figures};
use serde::{Deserialize, Serialize};

pub use crate::status::{Mark, Moment};
pub use child::Child;
pub use infer::{Decided, DecidedEvent, Inference, PROCESS_GONE};
pub use json::{Json, json};

use crate::hooks::slash;
use crate::is_default;
use crate::status::Agent;

/// How much of a prompt is kept, in characters.
const MAX_PROMPT: usize = 500;

/// How long anything else may be that is kept, in bytes: as long as a path.
const MAX_TEXT: usize = 4096;

/// One session, live or ended. Times are milliseconds since 1970.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Session {
    pub session_id: String,
    #[serde(skip_serializing_if = "is_default")]
    pub prev_session_id: Option<String>,
    /// The first session of the line that `/clear` goes on.
    pub line: String,
    #[serde(skip_serializing_if = "is_default")]
    pub title: Option<String>,
    /// The title is the person's: Claude Code's own does not replace it.
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
    /// Claude Code's own process: never a parent that was only guessed.
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
    /// The last prompt that a person wrote, and when.
    #[serde(skip_serializing_if = "is_default")]
    pub last_prompt: Option<String>,
    #[serde(skip_serializing_if = "is_default")]
    pub prompted_at: Option<i64>,
    #[serde(skip_serializing_if = "is_default")]
    pub transcript_path: Option<String>,
    #[serde(skip_serializing_if = "is_default")]
    pub figures: Figures,
    #[serde(skip_serializing_if = "is_default")]
    shown: Display,
    display_since: i64,
    /// The newest event that facts were taken from.
    #[serde(skip_serializing_if = "is_default")]
    learned: Option<Mark>,
}

/// Why a session goes on from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chain {
    /// `/clear`: the same process, the same pane, the same line in every view.
    Clear,
    /// A fork: the other session may go on beside it, so that it has a line of its own.
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

    /// Applies one event of this session. True if a person can see a difference; that something
    /// was heard at all (`last_activity`) is none.
    pub fn apply(&mut self, moment: &Moment<'_>) -> bool {
        let mut changed = false;
        if self.ended_at.is_some() {
            if !self.is_revived_by(moment) {
                return false;
            }
            self.ended_at = None;
            self.end_reason = None;
            self.end_inferred = false;
            changed = true;
        }
        changed |= moment.at < self.started_at;
        self.started_at = self.started_at.min(moment.at);
        self.last_activity = self.last_activity.max(moment.at);
        changed |= self.learn(moment);
        changed |= self.move_agents(moment);
        changed | self.redisplay(moment.at)
    }

    fn is_revived_by(&self, moment: &Moment<'_>) -> bool {
        let begins = matches!(
            moment.event,
            EventName::SessionStart | EventName::UserPromptSubmit
        );
        begins && moment.agent_id().is_none() && !self.main.is_past(moment.mark())
    }

    /// Nothing can have happened after what is heard now. Where it seems so, the clock was set back,
    /// and what was heard before counts as past.
    pub fn nothing_after(&mut self, now: Mark) {
        let children = self.children.values_mut().map(|child| &mut child.agent);
        for agent in children.chain([&mut self.main]) {
            agent.nothing_after(now);
        }
        self.learned = self.learned.map(|learned| learned.min(now));
        self.prompted_at = self.prompted_at.map(|prompted| prompted.min(now.at));
        self.last_activity = self.last_activity.min(now.at);
    }

    /// Goes on from another session.
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

    /// A title by the person, or back to Claude Code's own.
    pub fn name(&mut self, title: Option<String>) -> bool {
        let title = title.map(cut);
        self.named = title.is_some();
        let changed = self.title != title;
        self.title = title;
        changed
    }

    /// What the event says of the session itself. One that is older than the last fills only what
    /// is unknown yet: the first events of a session overtake each other.
    fn learn(&mut self, moment: &Moment<'_>) -> bool {
        let mark = moment.mark();
        let newer = self.learned.is_none_or(|learned| mark > learned);
        self.learned = self.learned.max(Some(mark));
        let head = moment.head;
        let mut changed = (newer || self.pid.is_none()) && self.learn_process(moment);
        let mut learn = |field: &mut Option<String>, value: &Option<Cow<'_, str>>| {
            changed |= (newer || field.is_none()) && set(field, value);
        };
        learn(&mut self.transcript_path, &head.transcript_path);
        // A subagent may work elsewhere and with other rights.
        if moment.agent_id().is_some() {
            return changed;
        }
        learn(&mut self.cwd, &head.cwd);
        learn(&mut self.project, &moment.project.map(Cow::Borrowed));
        learn(&mut self.permission_mode, &head.permission_mode);
        // What becket answers is no part of what the session is about: it names nothing.
        let answered_here = slash::parse(head, moment.envelope).is_some();
        if !self.named && !answered_here {
            learn(&mut self.title, &head.session_title);
        }
        match moment.event {
            EventName::SessionStart => learn(&mut self.model, &head.model),
            EventName::PostModelSwitch => learn(&mut self.model, &head.to_model),
            EventName::CwdChanged => learn(&mut self.cwd, &head.new_cwd),
            EventName::UserPromptSubmit if !answered_here => {
                return self.learn_prompt(moment) | changed;
            }
            _ => {}
        }
        changed
    }

    fn learn_process(&mut self, moment: &Moment<'_>) -> bool {
        let envelope = moment.envelope;
        // Another parent than Claude Code may run in another place.
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

    fn learn_prompt(&mut self, moment: &Moment<'_>) -> bool {
        let late = self.prompted_at.is_some_and(|last| moment.at < last);
        if late || moment.is_machine_made() {
            return false;
        }
        self.prompted_at = Some(moment.at);
        if let Some(prompt) = moment.head.prompt.as_deref() {
            let end = prompt.char_indices().nth(MAX_PROMPT);
            let prompt = &prompt[..end.map_or(prompt.len(), |(end, _)| end)];
            set(&mut self.last_prompt, &Some(Cow::Borrowed(prompt)));
        }
        true
    }

    /// Whether no status line tells its figures, so that its transcript has to.
    pub fn lacks_status_line(&self) -> bool {
        self.figures == Figures::default() || self.figures.from_transcript
    }

    /// Takes figures over. True if a person can see a difference.
    pub fn figure(&mut self, figures: &Figures) -> bool {
        let known = &self.figures;
        let better = *known != Figures::default() && !known.from_transcript;
        if *known == *figures || (figures.from_transcript && better) {
            return false;
        }
        self.figures.clone_from(figures);
        for text in [&mut self.figures.model_id, &mut self.figures.model_name] {
            *text = text.take().map(cut);
        }
        // A transcript tells of the last reply; events of an attended session know the model after it.
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

/// No longer than what is kept.
fn cut(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(MAX_TEXT));
    text
}

/// Takes over what is there and differs.
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

#[cfg(test)]
mod tests;
