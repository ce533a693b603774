//! A session as every view shows it, and what a status line says of one.

use serde::{Deserialize, Serialize};

use crate::effort::EffortBrief;

/// What an agent is doing: exactly one of three.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It is the person's turn, and there is no hurry.
    #[default]
    Idle,
    Working {
        detail: Option<String>,
    },
    /// Nothing goes on before the person has acted.
    Attention {
        reason: String,
    },
}

impl Status {
    /// The word of `--json`.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Working { .. } => "working",
            Self::Attention { .. } => "attention",
        }
    }

    pub fn detail(&self) -> Option<&str> {
        match self {
            Self::Working { detail } => detail.as_deref(),
            _ => None,
        }
    }

    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Attention { reason } => Some(reason),
            _ => None,
        }
    }
}

/// The most urgent of a session and its live agents. The order is that of urgency.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Display {
    /// A turn that failed, until the next prompt.
    Error,
    Attention,
    /// A question that the person has looked at, and that is still open.
    Checked,
    Working,
    #[default]
    Done,
}

impl Display {
    pub const ALL: [Self; 5] = [
        Self::Error,
        Self::Attention,
        Self::Checked,
        Self::Working,
        Self::Done,
    ];

    /// The state of one agent; `seen` if the person has looked at what it asks.
    pub fn of(status: &Status, seen: bool) -> Self {
        match status {
            Status::Idle => Self::Done,
            Status::Working { .. } => Self::Working,
            Status::Attention { .. } if seen => Self::Checked,
            Status::Attention { .. } => Self::Attention,
        }
    }

    /// The word of `--json` and `--for`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Attention => "attention",
            Self::Working => "working",
            Self::Checked => "checked",
            Self::Done => "done",
        }
    }

    /// The word that a person reads, everywhere.
    pub fn label(self) -> &'static str {
        match self {
            Self::Error => "failed",
            Self::Attention => "waiting",
            Self::Working => "working",
            Self::Checked => "seen",
            Self::Done => "done",
        }
    }

    /// The symbol that a person sees, everywhere.
    pub fn symbol(self) -> &'static str {
        match self {
            Self::Error => "✗",
            Self::Attention => "◆",
            Self::Working => "●",
            Self::Checked => "◇",
            Self::Done => "○",
        }
    }
}

/// The main agent in `waiting_for`.
pub const MAIN: &str = "main";

/// One session. Times are milliseconds since 1970.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SessionRow {
    pub session_id: String,
    /// The session that this one goes on from, after `/clear` or a fork.
    pub prev_session_id: Option<String>,
    /// The line that it has in every view: `/clear` keeps it, though the id is a new one.
    pub line: String,
    pub title: Option<String>,
    /// The main agent's.
    pub status: Status,
    pub status_since: i64,
    pub display: Display,
    /// Since when `display` is what it is: how long somebody has been waited for.
    pub display_since: i64,
    /// The agent that needs the person: its id, or `main`.
    pub waiting_for: Option<String>,
    /// What it is waited for, in words: the reason of that agent.
    pub waiting_reason: Option<String>,
    /// When the person last looked at what it waits for; 0 if never.
    pub seen_at: i64,
    /// Why the last turn failed.
    pub error: Option<String>,
    /// What it does, asks or failed of, in words; none if there is nothing to say beyond `display`.
    pub doing: Option<String>,
    /// The turn was interrupted by the person.
    pub interrupted: bool,
    pub background_tasks: u32,
    /// Tool calls that failed.
    pub failed_tools: u32,
    pub project: Option<String>,
    pub cwd: Option<String>,
    pub model: Option<String>,
    pub permission_mode: Option<String>,
    pub attended: bool,
    pub pid: Option<u32>,
    pub pid_start: Option<u64>,
    /// Whether that process lives.
    pub alive: bool,
    /// Whether its events come here; false for a Claude Code that was only found running.
    pub hooked: bool,
    pub tmux_pane: Option<String>,
    /// The tmux server of that pane: its socket.
    pub tmux_socket: Option<String>,
    pub started_at: i64,
    pub last_activity: i64,
    pub ended_at: Option<i64>,
    pub end_reason: Option<String>,
    /// The status or the end was not said by an event but inferred.
    pub inferred: bool,
    /// Nothing was heard of it for eight hours.
    pub stale: bool,
    pub figures: Figures,
    /// What it works on.
    pub effort: Option<EffortBrief>,
    pub last_prompt: Option<String>,
    pub transcript_path: Option<String>,
    pub agents: Vec<AgentRow>,
    /// What is wrong or unknown, in words: a transcript that cannot be read, a pane that is gone.
    pub troubles: Vec<String>,
}

/// One subagent of a session.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AgentRow {
    pub agent_id: String,
    pub agent_type: Option<String>,
    /// The agent that started it; none for the main agent.
    pub parent: Option<String>,
    pub status: Status,
    pub status_since: i64,
    /// The person has looked at what it asks.
    pub seen: bool,
    /// What it does or asks, in words.
    pub doing: Option<String>,
    pub started_at: i64,
    pub ended_at: Option<i64>,
    pub transcript_path: Option<String>,
}

impl AgentRow {
    /// The state of this subagent alone.
    pub fn display(&self) -> Display {
        Display::of(&self.status, self.seen)
    }
}

/// What the status line says of a session, or its transcript where there is no status line.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Figures {
    pub context_pct: Option<f64>,
    pub context_tokens: Option<u64>,
    pub context_size: Option<u64>,
    pub cost_usd: Option<f64>,
    pub lines_added: Option<u64>,
    pub lines_removed: Option<u64>,
    pub duration_ms: Option<u64>,
    pub api_duration_ms: Option<u64>,
    pub model_id: Option<String>,
    pub model_name: Option<String>,
    /// They were reckoned from the transcript.
    pub from_transcript: bool,
}

/// Which sessions are wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SessionQuery {
    /// A session's id, or a beginning that only it has. Ended ones are found too.
    pub session: Option<String>,
    /// Ended ones too.
    pub all: bool,
    /// Of the ended ones only the newest so many.
    pub limit: Option<u32>,
}
