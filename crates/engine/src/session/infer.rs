//! What no event says of a session: told by the transcript, the process, the person, or becket.

use becket_wire::EventId;
use becket_wire::event::EventName;

use super::Session;
use crate::effort::is_exhausted;
use crate::status::Agent;

/// Something that was found out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Inference {
    /// The person broke the turn off: no event tells of it.
    Interrupted,
    /// The question for this call was answered.
    PermissionAnswered {
        /// None for the main agent.
        agent_id: Option<String>,
        tool_use_id: String,
    },
    /// Claude Code has been at work since then and waits for nobody: all that any agent had asked
    /// is answered. No event tells of a turn that begins with a prompt typed during the last one.
    Busy,
    /// The turn ended without a Stop; `error` if it failed.
    TurnDied { error: Option<String> },
    /// Claude Code is gone without a SessionEnd.
    ProcessGone,
}

/// An event about which something was decided after it was applied.
#[derive(Debug, Clone, Copy)]
pub struct DecidedEvent<'a> {
    pub id: EventId,
    pub name: &'a EventName,
    /// The subagent whose event it is.
    pub agent: Option<&'a str>,
    /// When it counts from.
    pub at: i64,
}

/// How far the decision about an event is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decided {
    /// Hooks still judge it.
    Pending,
    /// The prompt is not sent; the agent has to go on.
    Blocked,
    Passed,
}

/// The `end_reason` of a session whose process is gone.
pub const PROCESS_GONE: &str = "process_gone";

impl Session {
    /// Applies what was found out, unless an event has told something newer. `at` is when it
    /// happened. True if a person can see a difference.
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
            Inference::Busy => self.infer_answers(at) | self.infer_turn(at),
            Inference::TurnDied { error } => {
                if error.as_deref().is_some_and(is_exhausted) {
                    self.work.exhaust();
                }
                self.main.may_infer(at)
                    && !self.main.has_ended_its_turn()
                    && self.main.died(error.as_deref(), at)
            }
            Inference::ProcessGone => self.infer_end(at),
        };
        changed && {
            self.redisplay(at);
            true
        }
    }

    fn infer_interrupt(&mut self, at: i64) -> bool {
        if !self.main.may_infer(at) || self.main.has_ended_its_turn() {
            return false;
        }
        let since = self.main.runs_subagents_since();
        self.main.was_interrupted(at) | self.end_children_since(since, at)
    }

    fn infer_answer(&mut self, agent: Option<&str>, call: &str, at: i64) -> bool {
        let agent = match agent {
            None => Some(&mut self.main),
            Some(id) => self.children.get_mut(id).map(|child| &mut child.agent),
        };
        agent.is_some_and(|agent| agent.may_infer(at) && agent.was_answered(Some(call), at))
    }

    /// What an agent did since, another call's end for one, makes no answer undone.
    fn infer_answers(&mut self, at: i64) -> bool {
        let children = self.children.values_mut().filter(|child| child.is_live());
        let agents = children.map(|child| &mut child.agent);
        let agents = [&mut self.main].into_iter().chain(agents);
        agents.fold(false, |changed, agent| {
            agent.was_answered(None, at) | changed
        })
    }

    /// A subagent that is left makes Claude Code busy too.
    fn infer_turn(&mut self, at: i64) -> bool {
        let idle = self.main.status.word() == "idle" && self.live_children().next().is_none();
        idle && self.main.last_at().is_none_or(|last| at > last) && self.main.began(at)
    }

    fn infer_end(&mut self, at: i64) -> bool {
        if at < self.last_activity {
            return false;
        }
        self.main.rests(at, true);
        self.main.background_tasks = 0;
        self.end_children(at, |_, _| true);
        self.ended_at = Some(at);
        self.end_reason = Some(PROCESS_GONE.to_owned());
        self.end_inferred = true;
        true
    }

    /// becket itself blocked the prompt: nothing follows it.
    pub(super) fn prompt_blocked(&mut self, at: i64) -> bool {
        self.ended_at.is_none()
            && self.main.may_infer(at)
            && (self.main.rests(at, false) | self.redisplay(at))
    }

    /// becket's own hooks judge whether an agent (none: the main one) may stop by this event: until they
    /// have, and if they say no, it works.
    pub(super) fn stop_judged(&mut self, agent: Option<&str>, stop: EventId, at: i64) -> bool {
        if self.ended_at.is_some() {
            return false;
        }
        let changed = match agent {
            None => self.main.may_infer(at) && self.main.is_judged(stop, at),
            Some(id) => self.child_is_judged(id, stop, at),
        };
        changed | self.redisplay(at)
    }

    /// They let whoever wanted to stop by this event. It may have gone on since.
    pub(super) fn stop_let_through(&mut self, stop: EventId, at: i64) -> bool {
        let changed = match self.main.awaits(stop) {
            true => self.main.is_let_stop(at),
            false => self.child_stops(stop, at),
        };
        changed && {
            self.redisplay(at);
            true
        }
    }

    /// What was decided about an event of this session after it was applied. True if a user can see a
    /// difference.
    pub fn decided(&mut self, event: &DecidedEvent<'_>, answer: Decided) -> bool {
        let DecidedEvent { id, agent, at, .. } = *event;
        match (event.name, agent) {
            (EventName::UserPromptSubmit | EventName::UserPromptExpansion, _) => {
                answer == Decided::Blocked && self.prompt_blocked(at)
            }
            (EventName::Stop, None) | (EventName::SubagentStop, Some(_)) => match answer {
                Decided::Pending | Decided::Blocked => self.stop_judged(agent, id, at),
                Decided::Passed => self.stop_let_through(id, at),
            },
            _ => false,
        }
    }

    /// The person looks at this session.
    pub fn seen(&mut self, at: i64) -> bool {
        self.looks(at, |agent| agent.look(at))
    }

    /// What was looked at a while ago and not answered waits again.
    pub fn forget_looks(&mut self, now: i64) -> bool {
        self.looks(now, |agent| agent.forget_look(now))
    }

    fn looks(&mut self, at: i64, look: impl Fn(&mut Agent) -> bool) -> bool {
        let children = self.children.values_mut().filter(|child| child.is_live());
        let agents = children.map(|child| &mut child.agent);
        let agents = [&mut self.main].into_iter().chain(agents);
        let changed = agents.fold(false, |changed, agent| look(agent) | changed);
        changed && {
            self.redisplay(at);
            true
        }
    }
}
