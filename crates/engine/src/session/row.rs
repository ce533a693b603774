//! The display of a session: the state of its most urgent agent, and the row of every view.

use becket_wire::session::{AgentRow, Display, MAIN, SessionRow};

use super::{Child, Session};
use crate::coverage::Coverage;
use crate::status::Agent;

/// The time without events after which a session is stale.
const STALE: i64 = 8 * 60 * 60 * 1000;

impl Session {
    pub fn is_stale(&self, now: i64) -> bool {
        now.saturating_sub(self.last_activity) > STALE
    }

    /// Returns the most urgent state of the session and its live agents, the agent that needs the user, and its
    /// reason. A question is named beside an error too: neither hides the other.
    pub fn display(&self) -> (Display, Option<&str>, Option<&str>) {
        if self.ended_at.is_some() {
            return (Display::Done, None, None);
        }
        let (id, waiting) = self.waiting().unzip();
        let reason = waiting.and_then(|agent| agent.status.reason());
        let display = if self.main.error.is_some() {
            Display::Error
        } else {
            let shown = self.agents().map(|(_, agent)| agent.display());
            shown.min().unwrap_or_default()
        };
        match (display, id) {
            (Display::Error, None) => (display, Some(MAIN), self.main.error.as_deref()),
            _ => (display, id, reason),
        }
    }

    /// Returns the words for the display: the failure, the question, or the main agent's activity.
    pub fn doing(&self) -> Option<String> {
        match self.display().0 {
            Display::Error => self.main.failed(),
            Display::Attention | Display::Checked => self.waiting()?.1.doing(),
            Display::Working if self.main.display() == Display::Working => self.main.doing(),
            Display::Working | Display::Done => None,
        }
    }

    /// Returns the display after the last change.
    pub fn shown(&self) -> Display {
        self.shown
    }

    /// Returns the agent that needs the user: unseen questions first, then the oldest one.
    fn waiting(&self) -> Option<(&str, &Agent)> {
        self.agents()
            .filter(|(_, agent)| agent.needs_user())
            .min_by_key(|(_, agent)| (agent.seen, agent.since))
    }

    fn agents(&self) -> impl Iterator<Item = (&str, &Agent)> {
        let children = self.live_children().map(|(id, child)| (id, &child.agent));
        [(MAIN, &self.main)].into_iter().chain(children)
    }

    /// Notes the display and its start: for a question, the time when it was asked.
    pub(super) fn update_display(&mut self, at: i64) -> bool {
        let (display, ..) = self.display();
        let asked = match display {
            Display::Attention | Display::Checked => self.waiting().map(|(_, agent)| agent.since),
            _ => None,
        };
        let same = (display == self.shown).then_some(self.display_since);
        let since = asked.or(same).unwrap_or(at);
        let changed = (display, since) != (self.shown, self.display_since);
        self.shown = display;
        self.display_since = since;
        changed
    }

    /// Makes the row of every view. The caller fills in `alive`, `effort`, `question` and `troubles`, which events do not
    /// tell.
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
            seen_at: self.waiting().map_or(0, |(_, agent)| agent.seen_at),
            error: self.main.error.clone(),
            doing: self.doing(),
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
            question: None,
            last_prompt: self.last_prompt.clone(),
            transcript_path: self.transcript_path.clone(),
            agents: self.agent_rows(),
            troubles: (self.coverage.iter())
                .filter_map(Coverage::trouble)
                .collect(),
        }
    }

    /// Makes the rows of the live subagents and of those that ended since the user's last prompt. They stay in
    /// view until the next prompt, so no clock is needed to remove them.
    fn agent_rows(&self) -> Vec<AgentRow> {
        let turn = self.prompted_at.unwrap_or(self.started_at);
        let mut rows: Vec<AgentRow> = self
            .children
            .iter()
            .filter(|(_, child)| child.ended_at.is_none_or(|end| end >= turn))
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
            seen: self.agent.seen,
            doing: self.agent.doing(),
            started_at: self.started_at,
            ended_at: self.ended_at,
            transcript_path: self.transcript_path.clone(),
        }
    }
}
