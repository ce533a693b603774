//! Work that outlives sessions: tasks, efforts and windows as they are shown, and what may be asked of
//! them. Times are milliseconds since 1970.

use serde::{Deserialize, Serialize};

use crate::EventId;

/// Files that a dehydrated context may name.
pub const MAX_REQUIRED_FILES: usize = 8;

/// A work container: a folder. It never finishes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TaskRow {
    pub id: i64,
    pub project: String,
    /// Where its artifacts lie.
    pub folder: String,
    pub title: Option<String>,
    pub keywords: Vec<String>,
    pub created_at: i64,
    /// One of its efforts is active; else it is dormant.
    pub active: bool,
    pub efforts: u32,
}

/// One run of a skill in a task.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct EffortRow {
    pub id: i64,
    pub task: i64,
    pub project: String,
    /// The task's folder.
    pub folder: String,
    /// Its number within the task: the prefix of its artifacts.
    pub ordinal: u32,
    pub skill: String,
    pub mode: Option<String>,
    pub title: Option<String>,
    pub phase: Option<String>,
    /// Every phase so far, the present one last.
    pub phases: Vec<PhaseRow>,
    /// Directive files that were found.
    pub directives: Vec<String>,
    pub artifacts: Vec<ArtifactRow>,
    pub started_at: i64,
    /// None while it is active.
    pub finished_at: Option<i64>,
    /// The session that worked on it last.
    pub session_id: Option<String>,
    /// That session lives and works on it.
    pub held: bool,
    /// Of the main agent of that session.
    pub heartbeat: u32,
    pub context_pct: Option<f64>,
    /// The context ran out, seen in the transcript.
    pub exhausted: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PhaseRow {
    pub name: String,
    pub since: i64,
}

/// A file of an effort in its task's folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArtifactRow {
    pub kind: Artifact,
    /// Absolute.
    pub path: String,
    pub written_at: i64,
    /// becket has made the file: it was not there before.
    #[serde(default)]
    pub created: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Artifact {
    Log,
    Plan,
    Debrief,
}

impl Artifact {
    pub fn word(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::Plan => "plan",
            Self::Debrief => "debrief",
        }
    }

    /// The file's name: `1_BRAINSTORM_LOG.md`.
    pub fn file_name(self, ordinal: u32, skill: &str) -> String {
        let name = format!("{ordinal}_{skill}_{}", self.word());
        format!("{}.md", name.to_uppercase())
    }
}

/// One context window of one agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WindowRow {
    /// The id of the event that opened it.
    pub id: EventId,
    pub effort: i64,
    pub session_id: String,
    /// None for the main agent.
    pub agent_id: Option<String>,
    pub prev: Option<EventId>,
    /// Why it was opened: startup, resume, clear, compact, subagent, start (of an effort).
    pub source: String,
    pub started_at: i64,
    pub ended_at: Option<i64>,
    pub dehydrated: Option<Dehydrated>,
}

/// What an agent hands to the next window.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Dehydrated {
    pub summary: String,
    pub last_action: String,
    pub next_steps: String,
    pub handover_instructions: String,
    /// Relative to the project, or absolute within it.
    pub required_files: Vec<String>,
}

/// One line of an effort's dialogue.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MessageRow {
    pub effort: i64,
    pub at: i64,
    pub session_id: Option<String>,
    pub agent_id: Option<String>,
    /// `log`, `dialogue` (AskUserQuestion), `failure`, `task_completed`, `teammate_idle`, `exhausted`,
    /// `phase`.
    pub kind: String,
    pub text: String,
}

/// What views show of a session's effort.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct EffortBrief {
    pub id: i64,
    pub ordinal: u32,
    pub skill: String,
    pub phase: Option<String>,
    pub title: Option<String>,
    /// Of the main agent.
    pub heartbeat: u32,
    pub context_pct: Option<f64>,
    /// The launch that started the session is to end it and to start a fresh one: its context is
    /// handed over, or it would be compacted.
    pub handover: bool,
    /// The context ran out, seen in the transcript.
    pub exhausted: bool,
}

impl EffortBrief {
    /// `implement · plan`.
    pub fn label(&self) -> String {
        match &self.phase {
            Some(phase) => format!("{} · {phase}", self.skill),
            None => self.skill.clone(),
        }
    }

    /// For a status line: `implement/plan ♥4`.
    pub fn short(&self) -> String {
        let phase = self.phase.as_ref().map(|phase| format!("/{phase}"));
        let (phase, heartbeat) = (phase.unwrap_or_default(), self.heartbeat);
        format!("{}{phase} ♥{heartbeat}", self.skill)
    }

    /// In full: `effort 1 implement, phase plan, heartbeat 4, context 45 %`.
    pub fn line(&self) -> String {
        let mut line = format!("effort {} {}", self.ordinal, self.skill);
        let phase = self.phase.as_ref();
        line.extend(phase.map(|phase| format!(", phase {phase}")));
        line.push_str(&format!(", heartbeat {}", self.heartbeat));
        let used = self.context_pct;
        line.extend(used.map(|used| format!(", context {used:.0} %")));
        line.push_str(match (self.exhausted, self.handover) {
            (true, _) => ", the context ran out",
            (false, true) => ", handing over",
            (false, false) => "",
        });
        line
    }
}

/// Where a request comes from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Caller {
    /// `CLAUDE_CODE_SESSION_ID`.
    pub session_id: Option<String>,
    /// `AGENT_ID`: the identity of a pane or launch, not of a subagent.
    pub agent_id: Option<String>,
    /// `TMUX_PANE`, and the socket in `TMUX`.
    pub pane: Option<String>,
    pub tmux_socket: Option<String>,
    /// `BECKET_LAUNCH`.
    pub launch: Option<String>,
    pub cwd: String,
    pub project: String,
    /// An effort that was named, by its id.
    pub effort: Option<i64>,
}

/// A request about work, and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EffortAsk {
    pub caller: Caller,
    pub what: EffortDo,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EffortDo {
    /// A task of this folder, made if there is none yet. → `Task`
    TaskNew {
        folder: String,
        title: Option<String>,
        keywords: Vec<String>,
    },
    /// The project's tasks, or those of all projects. → `Tasks`
    Tasks { all: bool },
    /// One task (none: that of the caller's effort, else of the project root), and its efforts. → `Task`
    TaskShow { task: Option<i64> },
    /// A new effort of this skill; without a task, one for the project root. The caller's session works
    /// on it from then on. → `Effort`
    Start {
        skill: String,
        mode: Option<String>,
        task: Option<i64>,
        title: Option<String>,
    },
    /// The effort goes on to this phase. → `Effort`
    Phase { name: String },
    /// Appends to the effort's log, and sets the heartbeat to 0. → `Written`
    Log { text: String },
    /// Writes the effort's plan or debrief. → `Written`
    Write { kind: Artifact, text: String },
    /// JSON or Markdown: checks it, and stores it with the window. → `Effort`
    Dehydrate { text: String },
    /// The caller's session works on this effort from now on (`caller.effort`, else the project's latest
    /// active one). → `Effort`
    Resume,
    /// → `Effort`
    Finish,
    /// The project's efforts, or those of all projects, the newest first. → `Efforts`
    List { all: bool },
    /// → `Shown`
    Show { dialogue: bool },
    /// What the agent gets at the start of a window: the recovery block. → `Text`
    Context,
}

/// Answers to an [`EffortAsk`]. A refusal is `AskReply::Refused`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EffortTold {
    Task {
        task: TaskRow,
        efforts: Vec<EffortRow>,
    },
    Tasks(Vec<TaskRow>),
    Effort(EffortRow),
    Efforts(Vec<EffortRow>),
    Shown {
        effort: EffortRow,
        /// The oldest first.
        windows: Vec<WindowRow>,
        /// Empty unless asked for.
        messages: Vec<MessageRow>,
    },
    /// The file that was written.
    Written {
        effort: EffortRow,
        path: String,
    },
    Text(String),
    /// The caller has no effort.
    None,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn artifacts_carry_the_ordinal_and_the_skill() {
        assert_eq!(
            Artifact::Log.file_name(1, "brainstorm"),
            "1_BRAINSTORM_LOG.md"
        );
        assert_eq!(
            Artifact::Plan.file_name(12, "my-skill"),
            "12_MY-SKILL_PLAN.md"
        );
    }

    #[test]
    fn a_dehydrated_context_is_camel_case() {
        let text = r#"{"summary": "s", "lastAction": "l", "requiredFiles": ["a"]}"#;
        let read: Dehydrated = serde_json::from_str(text).unwrap();
        assert_eq!(
            (&*read.last_action, &*read.required_files),
            ("l", &["a".to_owned()][..])
        );
    }
}
