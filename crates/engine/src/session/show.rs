//! A session as a person sees it: the most urgent of its agents, and the row of every view.

use becket_wire::session::{AgentRow, Display, MAIN, SessionRow};
use serde::Serialize;

use super::{Child, Session};
use crate::status::Agent;

/// After so long without a word a session is stale.
const STALE: i64 = 8 * 60 * 60 * 1000;

impl Session {
    pub fn is_stale(&self, now: i64) -> bool {
        now.saturating_sub(self.last_activity) > STALE
    }

    /// The most urgent of the session and its live agents, the agent that needs the person, and
    /// what for. A question is named beside an error too: neither hides the other.
    pub fn display(&self) -> (Display, Option<&str>, Option<&str>) {
        if self.ended_at.is_some() {
            return (Display::Done, None, None);
        }
        let (id, waiting) = match self.waiting() {
            Some((id, agent)) => (Some(id), Some(agent)),
            None => (None, None),
        };
        let reason = waiting.and_then(|agent| agent.status.reason());
        let display = match waiting {
            _ if self.main.error.is_some() => Display::Error,
            Some(agent) if !agent.seen => Display::Attention,
            _ if self.agents().any(|(_, agent)| works(agent)) => Display::Working,
            Some(_) => Display::Checked,
            None => Display::Done,
        };
        match (display, id) {
            (Display::Error, None) => (display, Some(MAIN), self.main.error.as_deref()),
            _ => (display, id, reason),
        }
    }

    /// What was displayed after the last thing that happened.
    pub fn shown(&self) -> Display {
        self.shown
    }

    /// The agent that needs the person: what was not looked at first, then what has waited longest.
    fn waiting(&self) -> Option<(&str, &Agent)> {
        self.agents()
            .filter(|(_, agent)| agent.needs_the_person())
            .min_by_key(|(_, agent)| (agent.seen, agent.since))
    }

    fn agents(&self) -> impl Iterator<Item = (&str, &Agent)> {
        let children = self.live_children().map(|(id, child)| (id, &child.agent));
        [(MAIN, &self.main)].into_iter().chain(children)
    }

    /// Notes since when the display is what it is: a question since it was asked.
    pub(super) fn redisplay(&mut self, at: i64) -> bool {
        let (display, ..) = self.display();
        let asked = match display {
            Display::Attention | Display::Checked => self.waiting().map(|(_, agent)| agent.since),
            _ => None,
        };
        let since = match asked {
            Some(since) => since,
            None if display == self.shown => self.display_since,
            None => at,
        };
        let changed = (display, since) != (self.shown, self.display_since);
        self.shown = display;
        self.display_since = since;
        changed
    }

    /// The row of every view. `alive`, `effort` and `troubles` are for who knows more than events.
    pub fn row(&self, now: i64) -> SessionRow {
        let (display, waiting_for, reason) = self.display();
        SessionRow {
            session_id: self.session_id.clone(),
            prev_session_id: self.prev_session_id.clone(),
            line: self.line.clone(),
            title: self.title.clone(),
            status: self.main.status.clone(),
            status_since: self.main.since,
            display,
            display_since: self.display_since,
            waiting_for: waiting_for.map(str::to_owned),
            waiting_reason: reason.map(str::to_owned),
            error: self.main.error.clone(),
            interrupted: self.main.interrupted,
            background_tasks: self.main.background_tasks,
            failed_tools: self.main.failed_tools,
            project: self.project.clone(),
            cwd: self.cwd.clone(),
            model: self.model.clone().or_else(|| self.figures.model_id.clone()),
            permission_mode: self.permission_mode.clone(),
            attended: self.attended,
            pid: self.pid,
            pid_start: self.pid_start,
            alive: self.ended_at.is_none(),
            hooked: true,
            tmux_pane: self.pane.clone(),
            tmux_socket: self.tmux_socket.clone(),
            started_at: self.started_at,
            last_activity: self.last_activity,
            ended_at: self.ended_at,
            end_reason: self.end_reason.clone(),
            inferred: self.main.inferred || self.end_inferred,
            stale: self.is_stale(now),
            figures: self.figures.clone(),
            effort: None,
            last_prompt: self.last_prompt.clone(),
            transcript_path: self.transcript_path.clone(),
            agents: self.agent_rows(),
            troubles: Vec::new(),
        }
    }

    /// The live subagents, and those that ended since the person's last prompt: what a turn did
    /// stays in sight until the next, and no clock is needed to take it away.
    fn agent_rows(&self) -> Vec<AgentRow> {
        let turn = self.prompted_at.unwrap_or(self.started_at);
        let shown = |child: &Child| child.ended_at.is_none_or(|end| end >= turn);
        let mut rows: Vec<AgentRow> = self
            .children
            .iter()
            .filter(|(_, child)| shown(child))
            .map(|(id, child)| child.row(id))
            .collect();
        rows.sort_by_key(|row| row.started_at);
        rows
    }
}

impl Child {
    fn row(&self, id: &str) -> AgentRow {
        AgentRow {
            agent_id: id.to_owned(),
            agent_type: self.agent_type.clone(),
            parent: self.parent.clone(),
            status: self.agent.status.clone(),
            status_since: self.agent.since,
            started_at: self.started_at,
            ended_at: self.ended_at,
            transcript_path: self.transcript_path.clone(),
        }
    }
}

fn works(agent: &Agent) -> bool {
    agent.status.word() == "working"
}

/// What is not known is null. Of a Claude Code that is not hooked only the process is known.
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
    effort: Option<&'a str>,
    last_prompt: Option<&'a str>,
    transcript_path: Option<&'a str>,
    agents: Vec<JsonAgent<'a>>,
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
}

#[derive(Debug, Serialize)]
struct JsonAgent<'a> {
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
}

pub fn json(row: &SessionRow) -> Json<'_> {
    let figures = &row.figures;
    let model = row.model.as_deref().or(figures.model_id.as_deref());
    Json {
        session_id: said(&row.session_id),
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
        ended_at: row.ended_at.map(moment),
        end_reason: row.end_reason.as_deref(),
        inferred: row.inferred,
        stale: row.stale,
        context_pct: figures.context_pct,
        cost_usd: figures.cost_usd,
        effort: row.effort.as_deref(),
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
        line: said(&row.line),
    }
}

fn agent(agent: &AgentRow) -> JsonAgent<'_> {
    JsonAgent {
        agent_id: &agent.agent_id,
        agent_type: agent.agent_type.as_deref(),
        parent: agent.parent.as_deref(),
        status: agent.status.word(),
        detail: agent.status.detail(),
        reason: agent.status.reason(),
        started_at: at(agent.started_at),
        ended_at: agent.ended_at.map(moment),
        transcript_path: agent.transcript_path.as_deref(),
        status_since: at(agent.status_since),
    }
}

/// RFC 3339 in UTC, with milliseconds.
fn moment(at_ms: i64) -> String {
    jiff::Timestamp::from_millisecond(at_ms)
        .map_or_else(|_| at_ms.to_string(), |at| format!("{at:.3}"))
}

/// A moment that nobody knows is 0.
fn at(ms: i64) -> Option<String> {
    (ms != 0).then(|| moment(ms))
}

fn said(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}
