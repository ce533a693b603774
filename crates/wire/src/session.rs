//! The session rows that every view shows, and the figures of a status line.

use serde::{Deserialize, Serialize};

use crate::effort::EffortBrief;

/// The state of one agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It is the user's turn, and there is no hurry.
    #[default]
    Idle,
    Working {
        detail: Option<String>,
    },
    /// The agent cannot go on before the user has acted.
    Attention {
        reason: String,
    },
}

impl Status {
    /// Returns the word for `--json`.
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

/// The most urgent state of a session and its live agents, in the order of urgency.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Display {
    /// The last turn failed. It lasts until the next prompt.
    Error,
    Attention,
    /// The user has looked at a question that is still open.
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

    /// Makes the state of one agent. `seen` is true if the user has looked at its question.
    pub fn of(status: &Status, seen: bool) -> Self {
        match status {
            Status::Idle => Self::Done,
            Status::Working { .. } => Self::Working,
            Status::Attention { .. } if seen => Self::Checked,
            Status::Attention { .. } => Self::Attention,
        }
    }

    /// Returns the word for `--json` and `--for`.
    pub fn word(self) -> &'static str {
        self.names().0
    }

    /// Returns the word that people read, everywhere.
    pub fn label(self) -> &'static str {
        self.names().1
    }

    /// Returns the symbol that people see, everywhere.
    pub fn symbol(self) -> &'static str {
        self.names().2
    }

    fn names(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Error => ("error", "failed", "✗"),
            Self::Attention => ("attention", "waiting", "◆"),
            Self::Checked => ("checked", "seen", "◇"),
            Self::Working => ("working", "working", "●"),
            Self::Done => ("done", "done", "○"),
        }
    }
}

/// The name of the main agent in `waiting_for`.
pub const MAIN: &str = "main";

/// One session. Times are milliseconds since 1970.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SessionRow {
    pub session_id: String,
    /// The session that this one continues, after `/clear` or a fork.
    pub prev_session_id: Option<String>,
    /// The line of the session in every view: `/clear` keeps it, though the id changes.
    pub line: String,
    pub title: Option<String>,
    /// The status of the main agent.
    pub status: Status,
    pub status_since: i64,
    pub display: Display,
    /// The time of the last change of `display`: the start of a wait for the user.
    pub display_since: i64,
    /// The agent that needs the user: its id, or `main`.
    pub waiting_for: Option<String>,
    /// The reason of that agent, in words.
    pub waiting_reason: Option<String>,
    /// The time when the user last looked at its question; 0 if never.
    pub seen_at: i64,
    /// The reason why the last turn failed.
    pub error: Option<String>,
    /// The current activity, question or failure, in words; none if `display` says it all.
    pub doing: Option<String>,
    /// True if the user interrupted the turn.
    pub interrupted: bool,
    pub background_tasks: u32,
    /// The number of tool calls that failed.
    pub failed_tools: u32,
    pub project: Option<String>,
    pub cwd: Option<String>,
    pub model: Option<String>,
    pub permission_mode: Option<String>,
    pub attended: bool,
    pub pid: Option<u32>,
    pub pid_start: Option<u64>,
    /// True if that process lives.
    pub alive: bool,
    /// True if its events reach becket; false for a Claude Code that was only found running.
    pub hooked: bool,
    pub tmux_pane: Option<String>,
    /// The socket of the tmux server of that pane.
    pub tmux_socket: Option<String>,
    pub started_at: i64,
    pub last_activity: i64,
    pub ended_at: Option<i64>,
    pub end_reason: Option<String>,
    /// True if the status or the end was inferred, not reported by an event.
    pub inferred: bool,
    /// True if no event came for eight hours.
    pub stale: bool,
    pub figures: Figures,
    /// The number of the oldest question that becket can answer.
    pub question: Option<i64>,
    /// The effort that it works on.
    pub effort: Option<EffortBrief>,
    pub last_prompt: Option<String>,
    pub transcript_path: Option<String>,
    pub agents: Vec<AgentRow>,
    /// Problems and unknowns, in words: a transcript that cannot be read, a pane that is gone.
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
    /// True if the user has looked at its question.
    pub seen: bool,
    /// The current activity or question, in words.
    pub doing: Option<String>,
    pub started_at: i64,
    pub ended_at: Option<i64>,
    pub transcript_path: Option<String>,
}

impl AgentRow {
    /// Returns the state of this subagent alone.
    pub fn display(&self) -> Display {
        Display::of(&self.status, self.seen)
    }
}

/// The figures of a session, from its status line, or from its transcript if there is none.
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
    /// True if the figures were computed from the transcript.
    pub from_transcript: bool,
}

/// A query for sessions.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SessionQuery {
    /// The id of a session, or a unique prefix of one. It finds ended ones too.
    pub session: Option<String>,
    /// True to include ended sessions.
    pub all: bool,
    /// The number of newest ended sessions.
    pub limit: Option<u32>,
}
