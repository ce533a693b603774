//! The agents of a session as a tree: whoever needs the person first, children below their parents.

use becket_wire::session::{AgentRow, Display};

use super::words::agent_display;
use crate::ui::style::Glyphs;

/// An agent and what leads to it.
#[derive(Debug)]
pub struct Branch<'a> {
    pub agent: &'a AgentRow,
    pub lead: String,
}

/// Every agent once; one whose parent is not among them stands at the top.
pub fn branches<'a>(agents: impl Iterator<Item = &'a AgentRow>, glyphs: Glyphs) -> Vec<Branch<'a>> {
    let mut left: Vec<&AgentRow> = agents.collect();
    left.sort_by_key(|agent| {
        let waits = agent_display(agent) == Display::Attention;
        (!waits, agent.started_at, &agent.agent_id)
    });
    let known: Vec<&str> = left.iter().map(|agent| &*agent.agent_id).collect();
    let (mut top, mut below): (Vec<&AgentRow>, Vec<&AgentRow>) = left.iter().partition(|agent| {
        let parent = agent.parent.as_deref();
        parent.is_none_or(|parent| !known.contains(&parent))
    });
    let mut found = Vec::new();
    loop {
        grow(&top, &mut below, 0, glyphs, &mut found);
        // Agents that are each other's parents: foreign data may say anything.
        if below.is_empty() {
            return found;
        }
        top = vec![below.remove(0)];
    }
}

fn grow<'a>(
    siblings: &[&'a AgentRow],
    below: &mut Vec<&'a AgentRow>,
    depth: usize,
    glyphs: Glyphs,
    found: &mut Vec<Branch<'a>>,
) {
    for (nth, agent) in siblings.iter().enumerate() {
        let mark = glyphs.branch(nth + 1 == siblings.len());
        found.push(Branch {
            agent,
            lead: format!("{}{mark} ", "  ".repeat(depth.min(8))),
        });
        let is_child = |other: &mut &AgentRow| other.parent.as_ref() == Some(&agent.agent_id);
        let children: Vec<&AgentRow> = below.extract_if(.., is_child).collect();
        grow(&children, below, depth + 1, glyphs, found);
    }
}

#[cfg(test)]
mod tests {
    use becket_wire::session::Status;

    use super::*;

    fn agent(id: &str, parent: Option<&str>) -> AgentRow {
        AgentRow {
            agent_id: id.to_owned(),
            parent: parent.map(str::to_owned),
            ..AgentRow::default()
        }
    }

    fn drawn(agents: &[AgentRow]) -> String {
        let lines = branches(agents.iter(), Glyphs::Unicode);
        let lines = lines
            .iter()
            .map(|branch| format!("{}{}\n", branch.lead, branch.agent.agent_id));
        lines.collect()
    }

    #[test]
    fn children_stand_below_their_parents() {
        let mut agents = vec![
            agent("a", None),
            agent("b", Some("main")),
            agent("a1", Some("a")),
            agent("a2", Some("a")),
            agent("a11", Some("a1")),
        ];
        assert_eq!(drawn(&agents), "├ a\n  ├ a1\n    └ a11\n  └ a2\n└ b\n");
        agents[1].status = Status::Attention { reason: "r".into() };
        assert_eq!(drawn(&agents), "├ b\n└ a\n  ├ a1\n    └ a11\n  └ a2\n");
    }

    #[test]
    fn a_circle_of_parents_is_drawn_all_the_same() {
        let agents = [
            agent("a", Some("b")),
            agent("b", Some("a")),
            agent("c", Some("c")),
        ];
        assert_eq!(drawn(&agents), "└ a\n  └ b\n└ c\n");
    }
}
