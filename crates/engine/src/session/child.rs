//! The agents of a session: which of them an event moves.

use becket_wire::EventId;
use becket_wire::event::EventName;
use serde::{Deserialize, Serialize};

use super::{Session, set};
use crate::is_default;
use crate::status::{Agent, Moment};

/// Subagents that a session remembers, and how many of them may have ended: the session is written
/// down with each event. Those that ended first are forgotten first.
const MAX: usize = 200;
const MAX_ENDED: usize = 50;

/// One subagent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Child {
    pub agent: Agent,
    #[serde(skip_serializing_if = "is_default")]
    pub agent_type: Option<String>,
    /// The agent that started it; none for the main agent. Claude Code does not tell of others.
    #[serde(skip_serializing_if = "is_default")]
    pub parent: Option<String>,
    pub started_at: i64,
    #[serde(skip_serializing_if = "is_default")]
    pub ended_at: Option<i64>,
    #[serde(skip_serializing_if = "is_default")]
    pub transcript_path: Option<String>,
}

impl Child {
    fn new(at: i64) -> Self {
        Self {
            agent: Agent::new(at),
            started_at: at,
            ..Self::default()
        }
    }

    pub fn is_live(&self) -> bool {
        self.ended_at.is_none()
    }

    /// Whether nothing newer was heard of it.
    fn is_quiet_since(&self, at: i64) -> bool {
        self.agent.may_infer(at)
    }

    fn learn(&mut self, moment: &Moment<'_>) -> bool {
        let earlier = moment.at < self.started_at;
        self.started_at = self.started_at.min(moment.at);
        let typed = moment.agent_type().is_some_and(|it| !it.is_empty());
        let head = moment.head;
        earlier
            | (typed && set(&mut self.agent_type, &head.agent_type))
            | set(&mut self.transcript_path, &head.agent_transcript_path)
    }

    /// One of its own events: one that has ended and yet works was woken again.
    fn apply(&mut self, moment: &Moment<'_>) -> bool {
        let past = self.agent.is_past(moment.mark());
        let mut changed = self.agent.apply(moment);
        if past {
            return changed;
        }
        if moment.event == EventName::SessionEnd {
            changed |= self.end(moment.at);
        } else if self.agent.status.word() != "idle" {
            changed |= self.ended_at.take().is_some();
        }
        changed
    }

    fn end(&mut self, at: i64) -> bool {
        if self.ended_at.is_some() {
            return false;
        }
        self.ended_at = Some(at);
        true
    }
}

fn is_question(moment: &Moment<'_>) -> bool {
    moment.head.notification_type.as_deref() != Some("idle_prompt")
}

impl Session {
    /// The subagents that have not ended.
    pub fn live_children(&self) -> impl Iterator<Item = (&str, &Child)> {
        let children = self.children.iter();
        children
            .filter(|(_, child)| child.is_live())
            .map(|(id, child)| (&**id, child))
    }

    pub(super) fn move_agents(&mut self, moment: &Moment<'_>) -> bool {
        match (&moment.event, moment.agent_id()) {
            (EventName::SubagentStart, Some(id)) => self.child_begins(id, moment),
            (EventName::SubagentStop, Some(id)) => self.child_ends(id, moment),
            (EventName::SubagentStart | EventName::SubagentStop, None) => false,
            (EventName::TeammateIdle, id) => self.teammate_rests(id, moment),
            (_, Some(id)) => self.move_child(id, moment),
            (EventName::SessionEnd, None) => self.end(moment),
            // It names no agent: what a subagent is waiting for, it says better itself.
            (EventName::Notification, None) if is_question(moment) && self.a_child_waits() => false,
            (_, None) => self.move_main(moment),
        }
    }

    fn a_child_waits(&self) -> bool {
        self.live_children()
            .any(|(_, child)| child.agent.needs_the_person())
    }

    fn move_main(&mut self, moment: &Moment<'_>) -> bool {
        if self.main.is_past(moment.mark()) {
            return false;
        }
        let subagents_since = self.main.runs_subagents_since();
        let mut changed = self.main.apply(moment);
        match moment.event {
            EventName::SessionStart if moment.head.source.as_deref() != Some("compact") => {
                changed |= self.end_children(moment.at, |_, child| child.is_quiet_since(moment.at));
            }
            EventName::PostToolUseFailure if self.main.interrupted => {
                changed |= self.end_children_since(subagents_since, moment.at);
            }
            EventName::Stop => changed |= self.end_unlisted(moment),
            _ => {}
        }
        changed
    }

    /// A turn that has ended leaves only its background tasks; one that is asking something is
    /// there whatever a list says. Where teammates are listed, any that is not may be one of them.
    fn end_unlisted(&mut self, moment: &Moment<'_>) -> bool {
        if self.live_children().next().is_none() || moment.lists_a_teammate() {
            return false;
        }
        let Some(listed) = moment.background_ids() else {
            return false;
        };
        self.end_children(moment.at, |id, child| {
            let works = child.agent.status.word() == "working";
            works && child.is_quiet_since(moment.at) && !listed.iter().any(|one| one == id)
        })
    }

    /// The subagents that ran within a turn end with it when the person breaks it off.
    pub(super) fn end_children_since(&mut self, since: Option<i64>, at: i64) -> bool {
        since.is_some_and(|since| {
            self.end_children(at, |_, child| {
                child.started_at >= since && child.is_quiet_since(at)
            })
        })
    }

    pub(super) fn end_children(&mut self, at: i64, which: impl Fn(&str, &Child) -> bool) -> bool {
        let mut changed = false;
        for (id, child) in &mut self.children {
            if child.is_live() && which(id, child) {
                child.agent.rests(at, true);
                changed |= child.end(at);
            }
        }
        changed
    }

    fn child_begins(&mut self, id: &str, moment: &Moment<'_>) -> bool {
        // The inner agents of Claude Code have no type.
        if moment.agent_type() == Some("") {
            return false;
        }
        let child = self.child(id, moment.at);
        let mut changed = child.learn(moment);
        if !child.agent.is_past(moment.mark()) {
            changed |= child.ended_at.take().is_some() | child.agent.begins(moment);
        }
        changed | self.main.child_begins(moment)
    }

    fn child_ends(&mut self, id: &str, moment: &Moment<'_>) -> bool {
        if moment.agent_type() == Some("") {
            return false;
        }
        let child = self.child(id, moment.at);
        let mut changed = child.learn(moment);
        if child.agent.ends(moment) {
            changed |= child.end(moment.at);
        }
        if let Some(listed) = moment.background_ids()
            && !self.main.is_past(moment.mark())
        {
            let others = listed.iter().filter(|one| *one != id).count() as u32;
            changed |= self.main.background_tasks != others;
            self.main.background_tasks = others;
        }
        changed | self.main.child_ends(moment)
    }

    pub(super) fn child_is_judged(&mut self, id: &str, stop: EventId, at: i64) -> bool {
        let child = self.children.get_mut(id);
        let Some(child) = child.filter(|child| child.is_quiet_since(at)) else {
            return false;
        };
        let revived = child.ended_at.take().is_some();
        let changed = child.agent.is_judged(stop, at) | revived;
        self.main.child_turns(child.agent_type.as_deref(), at) | changed
    }

    pub(super) fn child_stops(&mut self, stop: EventId, at: i64) -> bool {
        let mut children = self.children.values_mut();
        let Some(child) = children.find(|child| child.agent.awaits(stop)) else {
            return false;
        };
        child.agent.rests(at, false);
        child.end(at) | self.main.child_turns(None, at)
    }

    fn teammate_rests(&mut self, id: Option<&str>, moment: &Moment<'_>) -> bool {
        let name = moment.head.teammate_name.as_deref();
        let by_name = || {
            let mut named = self.live_children();
            named
                .find(|(_, child)| name.is_some() && child.agent_type.as_deref() == name)
                .map(|(id, _)| id.to_owned())
        };
        match id.map(str::to_owned).or_else(by_name) {
            Some(id) => self.move_child(&id, moment),
            None => false,
        }
    }

    fn move_child(&mut self, id: &str, moment: &Moment<'_>) -> bool {
        if let Some(child) = self.children.get_mut(id) {
            return child.learn(moment) | child.apply(moment);
        }
        let mut child = Child::new(moment.at);
        child.learn(moment);
        child.apply(moment);
        // An event without a meaning for the status makes no agent.
        if child.agent.last_at().is_none() {
            return false;
        }
        *self.child(id, moment.at) = child;
        true
    }

    /// That child, made room for if it is new.
    fn child(&mut self, id: &str, at: i64) -> &mut Child {
        if !self.children.contains_key(id) {
            self.make_room();
        }
        let id = id.to_owned();
        self.children.entry(id).or_insert_with(|| Child::new(at))
    }

    fn make_room(&mut self) {
        let live = self.live_children().count();
        if self.children.len() < MAX && self.children.len() - live < MAX_ENDED {
            return;
        }
        let first = self.children.iter().min_by_key(|(_, child)| {
            let asks = child.agent.needs_the_person();
            (child.is_live(), asks, child.ended_at, child.started_at)
        });
        if let Some(id) = first.map(|(id, _)| id.clone()) {
            self.children.remove(&id);
        }
    }

    fn end(&mut self, moment: &Moment<'_>) -> bool {
        if self.main.is_past(moment.mark()) {
            return false;
        }
        self.main.apply(moment);
        self.end_children(moment.at, |_, _| true);
        self.ended_at = Some(moment.at);
        self.end_reason = None;
        set(&mut self.end_reason, &moment.head.reason);
        true
    }
}
