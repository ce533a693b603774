//! The JSON of a session for scripts: stable names, in the order of the documentation.

use std::path::Path;

use becket_wire::effort::EffortBrief;
use becket_wire::session::{AgentRow, SessionRow};
use serde::Serialize;

use crate::git::Checkout;

/// The JSON of one session. Unknown values are null. Of a Claude Code without hooks only the process is known.
#[derive(Debug, Serialize)]
pub struct Json<'a> {
    session_id: Option<&'a str>,
    prev_session_id: Option<&'a str>,
    title: Option<&'a str>,
    status: Option<&'static str>,
    detail: Option<&'a str>,
    reason: Option<&'a str>,
    status_since: Option<String>,
    display: Option<&'static str>,
    waiting_for: Option<&'a str>,
    error: Option<&'a str>,
    background_tasks: u32,
    project: Option<&'a str>,
    cwd: Option<&'a str>,
    model: Option<&'a str>,
    permission_mode: Option<&'a str>,
    attended: Option<bool>,
    pid: Option<u32>,
    alive: bool,
    hooked: bool,
    tmux_pane: Option<&'a str>,
    started_at: Option<String>,
    last_activity: Option<String>,
    ended_at: Option<String>,
    end_reason: Option<&'a str>,
    inferred: bool,
    stale: bool,
    context_pct: Option<f64>,
    cost_usd: Option<f64>,
    question: Option<i64>,
    effort: Option<&'a EffortBrief>,
    last_prompt: Option<&'a str>,
    transcript_path: Option<&'a str>,
    agents: Vec<Agent<'a>>,
    display_since: Option<String>,
    waiting_reason: Option<&'a str>,
    interrupted: bool,
    failed_tools: u32,
    lines_added: Option<u64>,
    lines_removed: Option<u64>,
    duration_ms: Option<u64>,
    context_tokens: Option<u64>,
    context_size: Option<u64>,
    troubles: &'a [String],
    tmux_socket: Option<&'a str>,
    line: Option<&'a str>,
    git_branch: Option<String>,
    git_worktree: Option<String>,
}

#[derive(Debug, Serialize)]
struct Agent<'a> {
    agent_id: &'a str,
    agent_type: Option<&'a str>,
    parent: Option<&'a str>,
    status: &'static str,
    detail: Option<&'a str>,
    reason: Option<&'a str>,
    started_at: Option<String>,
    ended_at: Option<String>,
    transcript_path: Option<&'a str>,
    status_since: Option<String>,
    display: &'static str,
}

/// Makes the JSON of a session. It reads the git branch from the working folder of a live one, so it is not for
/// the core thread.
pub fn json(row: &SessionRow) -> Json<'_> {
    let cwd = row.cwd.as_deref().filter(|_| row.ended_at.is_none());
    let git = cwd
        .map(|cwd| Checkout::of(Path::new(cwd)))
        .unwrap_or_default();
    let figures = &row.figures;
    let model = row.model.as_deref().or(figures.model_id.as_deref());
    Json {
        session_id: non_empty(&row.session_id),
        prev_session_id: row.prev_session_id.as_deref(),
        title: row.title.as_deref(),
        status: row.hooked.then(|| row.status.word()),
        detail: row.status.detail(),
        reason: row.status.reason(),
        status_since: at(row.status_since),
        display: row.hooked.then(|| row.display.word()),
        waiting_for: row.waiting_for.as_deref(),
        error: row.error.as_deref(),
        background_tasks: row.background_tasks,
        project: row.project.as_deref(),
        cwd: row.cwd.as_deref(),
        model,
        permission_mode: row.permission_mode.as_deref(),
        attended: row.hooked.then_some(row.attended),
        pid: row.pid,
        alive: row.alive,
        hooked: row.hooked,
        tmux_pane: row.tmux_pane.as_deref(),
        started_at: at(row.started_at),
        last_activity: at(row.last_activity),
        ended_at: row.ended_at.map(timestamp),
        end_reason: row.end_reason.as_deref(),
        inferred: row.inferred,
        stale: row.stale,
        context_pct: figures.context_pct,
        cost_usd: figures.cost_usd,
        question: row.question,
        effort: row.effort.as_ref(),
        last_prompt: row.last_prompt.as_deref(),
        transcript_path: row.transcript_path.as_deref(),
        agents: row.agents.iter().map(agent).collect(),
        display_since: at(row.display_since),
        waiting_reason: row.waiting_reason.as_deref(),
        interrupted: row.interrupted,
        failed_tools: row.failed_tools,
        lines_added: figures.lines_added,
        lines_removed: figures.lines_removed,
        duration_ms: figures.duration_ms,
        context_tokens: figures.context_tokens,
        context_size: figures.context_size,
        troubles: &row.troubles,
        tmux_socket: row.tmux_socket.as_deref(),
        line: non_empty(&row.line),
        git_branch: git.branch,
        git_worktree: git.worktree,
    }
}

fn agent(agent: &AgentRow) -> Agent<'_> {
    Agent {
        agent_id: &agent.agent_id,
        agent_type: agent.agent_type.as_deref(),
        parent: agent.parent.as_deref(),
        status: agent.status.word(),
        detail: agent.status.detail(),
        reason: agent.status.reason(),
        started_at: at(agent.started_at),
        ended_at: agent.ended_at.map(timestamp),
        transcript_path: agent.transcript_path.as_deref(),
        status_since: at(agent.status_since),
        display: agent.display().word(),
    }
}

/// Formats a time as RFC 3339 in UTC, with milliseconds.
fn timestamp(at_ms: i64) -> String {
    jiff::Timestamp::from_millisecond(at_ms)
        .map_or_else(|_| at_ms.to_string(), |at| format!("{at:.3}"))
}

/// Formats a time, if it is known (not 0).
fn at(ms: i64) -> Option<String> {
    (ms != 0).then(|| timestamp(ms))
}

fn non_empty(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}
