//! Sessions as people and scripts see them: queries, history, statistics, tables, JSON. This file has
//! the order of sessions, and the tree of the agents of one.

pub mod details;
pub mod history;
pub mod source;
pub mod stats;
pub mod table;
pub mod words;

#[cfg(test)]
pub mod tests;

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use becket_wire::session::{AgentRow, Display, SessionRow};

use crate::ui::style::Glyphs;

pub fn sort(rows: &mut [SessionRow]) {
    rows.sort_by(|one, other| sort_key(one).cmp(&sort_key(other)));
}

/// Returns the sort key of a session. Sessions that need the user come first, the longest wait first;
/// then the others, the last change first; then those without hooks; then those that have ended.
pub fn sort_key(row: &SessionRow) -> impl Ord {
    let waits = matches!(
        row.display,
        Display::Error | Display::Attention | Display::Checked
    );
    let at = match row.ended_at {
        Some(ended) => ended.saturating_neg(),
        None if !row.hooked => row.started_at.saturating_neg(),
        None if waits => row.display_since,
        None => row.display_since.saturating_neg(),
    };
    let rank = (row.ended_at.is_some(), !row.hooked, row.display);
    (rank, at, Reverse(row.last_activity), &*row.session_id)
}

/// An agent in the tree. `index` is its place in the list of agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgentNode {
    pub index: usize,
    /// The number of agents between this one and its session.
    pub depth: usize,
    /// True if no sibling follows.
    pub last: bool,
}

/// Makes a tree of the live agents, each of them once, with siblings in the order of `key`. An agent
/// without a known parent is at the top.
pub fn agent_tree<'a, K: Ord>(
    agents: &'a [AgentRow],
    key: impl Fn(&'a AgentRow) -> K,
) -> Vec<AgentNode> {
    let mut live: Vec<usize> = (0..agents.len())
        .filter(|&index| agents[index].ended_at.is_none())
        .collect();
    live.sort_by_key(|&index| key(&agents[index]));
    let known: HashSet<&str> = live.iter().map(|&index| &*agents[index].agent_id).collect();
    let mut children: HashMap<Option<&str>, Vec<usize>> = HashMap::new();
    for &index in &live {
        let parent = agents[index].parent.as_deref();
        let parent = parent.filter(|parent| known.contains(parent));
        children.entry(parent).or_default().push(index);
    }
    let mut tree: Vec<AgentNode> = Vec::with_capacity(live.len());
    let mut siblings = children.remove(&None).unwrap_or_default();
    loop {
        let mut stack = nodes(&siblings, 0);
        while let Some(node) = stack.pop() {
            tree.push(node);
            let id = Some(&*agents[node.index].agent_id);
            let below = children.remove(&id).unwrap_or_default();
            stack.extend(nodes(&below, node.depth + 1));
        }
        if tree.len() == live.len() {
            return tree;
        }
        // The rest are agents that are each other's parents, which foreign data may contain.
        let placed: HashSet<usize> = tree.iter().map(|node| node.index).collect();
        let Some(&next) = live.iter().find(|index| !placed.contains(index)) else {
            return tree;
        };
        for below in children.values_mut() {
            below.retain(|index| *index != next);
        }
        siblings = vec![next];
    }
}

/// Makes the nodes of siblings, the first one last: the tree takes them from the end.
fn nodes(siblings: &[usize], depth: usize) -> Vec<AgentNode> {
    let last = siblings.last().copied();
    let siblings = siblings.iter().rev();
    siblings
        .map(|&index| AgentNode {
            index,
            depth,
            last: Some(index) == last,
        })
        .collect()
}

/// An agent and the lines of the tree before its name.
#[derive(Debug)]
pub struct Branch<'a> {
    pub agent: &'a AgentRow,
    pub lead: String,
}

/// Draws the tree of the live agents. Agents that wait for the user come first.
pub fn branches(agents: &[AgentRow], glyphs: Glyphs) -> Vec<Branch<'_>> {
    let tree = agent_tree(agents, |agent| {
        let urgency = agent.display().min(Display::Working);
        (urgency, agent.started_at, &agent.agent_id)
    });
    tree.into_iter()
        .map(|node| Branch {
            agent: &agents[node.index],
            lead: format!(
                "{}{} ",
                "  ".repeat(node.depth.min(8)),
                glyphs.branch(node.last)
            ),
        })
        .collect()
}

#[cfg(test)]
mod tree_tests {
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
        let lines = branches(agents, Glyphs::Unicode);
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
    fn agents_that_are_each_others_parents_are_shown_once() {
        let agents = [agent("a", Some("b")), agent("b", Some("a"))];
        assert_eq!(drawn(&agents), "└ a\n  └ b\n");
        assert_eq!(drawn(&[agent("a", Some("a"))]), "└ a\n");
    }
}
