//! The changes of a session that no event reports: the transcript, the process, the user or becket shows them.

use becket_wire::EventId;
use becket_wire::event::EventName;

use super::Session;
use crate::effort::is_exhausted;
use crate::status::Agent;

/// A fact that no event reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Inference {
    /// The user interrupted the turn.
    Interrupted,
    /// The question for this call was answered.
    PermissionAnswered {
        /// None for the main agent.
        agent_id: Option<String>,
        tool_use_id: String,
    },
    /// Claude Code has been at work since then and has no open question: all questions of all agents are
    /// answered. No event tells of a turn that begins with a prompt typed during the last one.
    Busy,
    /// The turn ended without a Stop; `error` if it failed.
    TurnDied { error: Option<String> },
    /// Claude Code ended without a SessionEnd.
    ProcessGone,
}

/// An event whose outcome the session learns after it was applied.
#[derive(Debug, Clone, Copy)]
pub struct JudgedEvent<'a> {
    pub id: EventId,
    pub name: &'a EventName,
    /// The subagent of the event.
    pub agent: Option<&'a str>,
    /// The time from which the outcome counts.
    pub at: i64,
}

/// The outcome of an event that hooks may block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventOutcome {
    /// Hooks still judge the event.
    Pending,
    /// The prompt was not sent, or the agent has to go on.
    Blocked,
    Passed,
}

/// The `end_reason` of a session whose process is gone.
pub const PROCESS_GONE: &str = "process_gone";

impl Session {
    /// Applies a fact that was found out at `at`, unless a newer event was applied. Returns true if the user
    /// can see a difference.
    pub fn infer(&mut self, inference: &Inference, at: i64) -> bool {
        if self.ended_at.is_some() {
            return false;
        }
        let changed = match inference {
            Inference::Interrupted => self.infer_interrupt(at),
            Inference::PermissionAnswered {
                agent_id,
                tool_use_id,
            } => self.infer_answer(agent_id.as_deref(), tool_use_id, at),
            // All questions are answered, even if an agent has done something since, as ending another call.
            Inference::Busy => {
                self.update_agents(at, |agent| agent.remove_answered(None, at))
                    | self.infer_turn(at)
            }
            Inference::TurnDied { error } => {
                if error.as_deref().is_some_and(is_exhausted) {
                    self.work.exhaust();
                }
                self.main.may_infer(at)
                    && !self.main.has_ended_its_turn()
                    && self.main.fail(error.as_deref(), at)
            }
            Inference::ProcessGone => self.infer_end(at),
        };
        changed | self.update_display(at)
    }

    fn infer_interrupt(&mut self, at: i64) -> bool {
        if !self.main.may_infer(at) || self.main.has_ended_its_turn() {
            return false;
        }
        let since = self.main.runs_subagents_since();
        self.main.interrupt(at) | self.end_children_since(since, at)
    }

    fn infer_answer(&mut self, agent: Option<&str>, call: &str, at: i64) -> bool {
        let agent = match agent {
            None => Some(&mut self.main),
            Some(id) => self.children.get_mut(id).map(|child| &mut child.agent),
        };
        agent.is_some_and(|agent| agent.may_infer(at) && agent.remove_answered(Some(call), at))
    }

    /// Begins a turn of the main agent, unless a live subagent explains why Claude Code is busy.
    fn infer_turn(&mut self, at: i64) -> bool {
        let idle = self.main.status.word() == "idle" && self.live_children().next().is_none();
        idle && self.main.last_at().is_none_or(|last| at > last)
            && self.main.begin_unreported_turn(at)
    }

    fn infer_end(&mut self, at: i64) -> bool {
        if at < self.last_activity {
            return false;
        }
        self.main.set_idle(at, true);
        self.main.background_tasks = 0;
        self.end_children(at, |_, _| true);
        self.ended_at = Some(at);
        self.end_reason = Some(PROCESS_GONE.to_owned());
        self.end_inferred = true;
        true
    }

    /// Makes the main agent idle because becket blocked the prompt: no event follows it.
    pub(super) fn block_prompt(&mut self, at: i64) -> bool {
        self.ended_at.is_none()
            && self.main.may_infer(at)
            && (self.main.set_idle(at, false) | self.update_display(at))
    }

    /// Notes that becket's hooks judge this stop of an agent (none: the main one). Until they have, and if they
    /// block it, the agent works.
    pub(super) fn begin_stop_judgement(
        &mut self,
        agent: Option<&str>,
        stop: EventId,
        at: i64,
    ) -> bool {
        if self.ended_at.is_some() {
            return false;
        }
        let changed = match agent {
            None => self.main.may_infer(at) && self.main.begin_judgement(stop, at),
            Some(id) => self.begin_child_judgement(id, stop, at),
        };
        changed | self.update_display(at)
    }

    /// Ends the turn of the agent whose stop the hooks let through, unless it has gone on since.
    pub(super) fn let_stop(&mut self, stop: EventId, at: i64) -> bool {
        let changed = if self.main.is_judged_for(stop) {
            self.main.let_stop(at)
        } else {
            self.let_child_stop(stop, at)
        };
        changed | self.update_display(at)
    }

    /// Applies the outcome of an event that was applied before. Returns true if the user can see a difference.
    pub fn apply_outcome(&mut self, event: &JudgedEvent<'_>, outcome: EventOutcome) -> bool {
        let JudgedEvent { id, agent, at, .. } = *event;
        match (event.name, agent) {
            (EventName::UserPromptSubmit | EventName::UserPromptExpansion, _) => {
                outcome == EventOutcome::Blocked && self.block_prompt(at)
            }
            (EventName::Stop, None) | (EventName::SubagentStop, Some(_)) => match outcome {
                EventOutcome::Pending | EventOutcome::Blocked => {
                    self.begin_stop_judgement(agent, id, at)
                }
                EventOutcome::Passed => self.let_stop(id, at),
            },
            _ => false,
        }
    }

    /// Notes that the user looks at this session.
    pub fn mark_seen(&mut self, at: i64) -> bool {
        self.update_agents(at, |agent| agent.mark_seen(at))
    }

    /// Lets questions wait again that the user looked at a while ago and did not answer.
    pub fn expire_seen(&mut self, now: i64) -> bool {
        self.update_agents(now, |agent| agent.expire_seen(now))
    }

    fn update_agents(&mut self, at: i64, update: impl Fn(&mut Agent) -> bool) -> bool {
        let children = self.children.values_mut().filter(|child| child.is_live());
        let agents = children.map(|child| &mut child.agent);
        let agents = [&mut self.main].into_iter().chain(agents);
        let changed = agents.fold(false, |changed, agent| update(agent) | changed);
        changed | self.update_display(at)
    }
}
