//! The list's order: who needs the person first, grouped by project, subagents below their session.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::collections::HashSet;

use becket_wire::session::{AgentRow, Display, SessionRow};

/// One row of the list. Numbers are places in the model's rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Twig {
    Group(Option<String>),
    Session(usize),
    Agent {
        session: usize,
        agent: usize,
        /// How deep below its session.
        depth: usize,
        /// No sibling follows.
        last: bool,
    },
}

impl Twig {
    pub fn session(&self) -> Option<usize> {
        match self {
            Self::Group(_) => None,
            Self::Session(session) | Self::Agent { session, .. } => Some(*session),
        }
    }
}

/// How the list is wanted.
#[derive(Debug, Default)]
pub struct Wish {
    pub grouped: bool,
    /// Words that all have to occur.
    pub filter: String,
    /// The lines whose subagents are not shown.
    pub folded: HashSet<String>,
}

/// The key that a session keeps in the list.
pub fn key(row: &SessionRow) -> &str {
    if row.line.is_empty() {
        &row.session_id
    } else {
        &row.line
    }
}

/// Sorts: the most urgent first; among equals whoever waits longest, and what is stale last.
fn urgency(row: &SessionRow) -> (Display, bool, i64, &str) {
    (row.display, row.stale, row.display_since, key(row))
}

pub fn grow(rows: &[SessionRow], wish: &Wish) -> Vec<Twig> {
    let words: Vec<String> = wish
        .filter
        .split_whitespace()
        .map(str::to_lowercase)
        .collect();
    let mut order: Vec<usize> = (0..rows.len())
        .filter(|&place| words.is_empty() || fits(&rows[place], &words))
        .collect();
    order.sort_unstable_by(|&a, &b| urgency(&rows[a]).cmp(&urgency(&rows[b])));
    let mut twigs = Vec::with_capacity(order.len() * 2);
    if !wish.grouped {
        for place in order {
            branch(rows, place, wish, &mut twigs);
        }
        return twigs;
    }
    // Groups stand in the order of their most urgent session, which is the first one met.
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut by_project: HashMap<Option<&str>, usize> = HashMap::new();
    for place in order {
        let group = *by_project.entry(project(&rows[place])).or_insert_with(|| {
            groups.push(Vec::new());
            groups.len() - 1
        });
        groups[group].push(place);
    }
    for group in groups {
        twigs.push(Twig::Group(project(&rows[group[0]]).map(str::to_owned)));
        for place in group {
            branch(rows, place, wish, &mut twigs);
        }
    }
    twigs
}

pub fn project(row: &SessionRow) -> Option<&str> {
    row.project.as_deref().or(row.cwd.as_deref())
}

/// A session and the live agents below it.
fn branch(rows: &[SessionRow], place: usize, wish: &Wish, twigs: &mut Vec<Twig>) {
    twigs.push(Twig::Session(place));
    let row = &rows[place];
    if row.agents.is_empty() || wish.folded.contains(key(row)) {
        return;
    }
    let mut known: HashSet<&str> = HashSet::new();
    let live: Vec<usize> = (0..row.agents.len())
        .filter(|&at| row.agents[at].ended_at.is_none())
        .filter(|&at| known.insert(&row.agents[at].agent_id))
        .collect();
    let parent_of = |at: usize| {
        let parent = row.agents[at].parent.as_deref();
        parent.filter(|parent| known.contains(parent))
    };
    let mut below: HashMap<Option<&str>, Vec<usize>> = HashMap::new();
    for &at in &live {
        below.entry(parent_of(at)).or_default().push(at);
    }
    for children in below.values_mut() {
        children.sort_by_key(|&at| agent_urgency(&row.agents[at]));
    }
    let mut left = below.remove(&None).unwrap_or_default();
    left.reverse();
    let mut stack: Vec<(usize, usize, bool)> = Vec::new();
    let last = left.first().copied();
    stack.extend(left.iter().map(|&at| (at, 0, Some(at) == last)));
    while let Some((agent, depth, last)) = stack.pop() {
        twigs.push(Twig::Agent {
            session: place,
            agent,
            depth,
            last,
        });
        // Taken out, so that parents in a circle end.
        let id = row.agents[agent].agent_id.as_str();
        let children = below.remove(&Some(id)).unwrap_or_default();
        let end = children.last().copied();
        let children = children.iter().rev();
        stack.extend(children.map(|&at| (at, depth + 1, Some(at) == end)));
    }
}

/// Subagents stand in the order of their start: a tree that reorders itself cannot be read.
fn agent_urgency(agent: &AgentRow) -> (i64, Reverse<bool>) {
    (agent.started_at, Reverse(agent.status.reason().is_some()))
}

fn fits(row: &SessionRow, words: &[String]) -> bool {
    let mut text = format!("{} {}", row.display.word(), row.session_id);
    let named = [
        &row.title,
        &row.project,
        &row.cwd,
        &row.model,
        &row.last_prompt,
        &row.waiting_reason,
        &row.error,
        &row.tmux_pane,
        &row.effort,
    ];
    let agents = row
        .agents
        .iter()
        .filter_map(|agent| agent.agent_type.as_ref());
    for part in named.into_iter().flatten().chain(agents) {
        text.push(' ');
        text.push_str(part);
    }
    if let Some(detail) = row.status.detail() {
        text.push(' ');
        text.push_str(detail);
    }
    let text = text.to_lowercase();
    words.iter().all(|word| text.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(id: &str, project: &str, display: Display, since: i64) -> SessionRow {
        SessionRow {
            session_id: id.into(),
            line: id.into(),
            project: Some(project.into()),
            display,
            display_since: since,
            ..SessionRow::default()
        }
    }

    fn agent(id: &str, parent: Option<&str>, started_at: i64) -> AgentRow {
        AgentRow {
            agent_id: id.into(),
            parent: parent.map(str::to_owned),
            started_at,
            ..AgentRow::default()
        }
    }

    fn ids(rows: &[SessionRow], wish: &Wish) -> String {
        let name = |twig: &Twig| match twig {
            Twig::Group(project) => format!("[{}]", project.as_deref().unwrap_or("-")),
            Twig::Session(at) => rows[*at].session_id.clone(),
            Twig::Agent {
                session,
                agent,
                depth,
                last,
            } => format!(
                "{}{}{}",
                if *last { '`' } else { '|' },
                "-".repeat(*depth),
                rows[*session].agents[*agent].agent_id
            ),
        };
        grow(rows, wish)
            .iter()
            .map(name)
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn the_most_urgent_stands_first_and_the_longest_wait_before_others() {
        use Display::*;
        let mut rows = [
            row("done", "p", Done, 1),
            row("checked", "p", Checked, 1),
            row("working", "p", Working, 1),
            row("new", "p", Attention, 9),
            row("old", "p", Attention, 2),
            row("error", "p", Error, 50),
            row("forgotten", "p", Done, 0),
        ];
        rows[6].stale = true;
        let flat = Wish::default();
        assert_eq!(
            ids(&rows, &flat),
            "error old new working checked done forgotten"
        );
        rows.reverse();
        assert_eq!(
            ids(&rows, &flat),
            "error old new working checked done forgotten"
        );
    }

    #[test]
    fn a_project_stands_where_its_most_urgent_session_would() {
        let rows = [
            row("a", "quiet", Display::Done, 1),
            row("b", "busy", Display::Done, 2),
            row("c", "busy", Display::Attention, 3),
        ];
        let wish = Wish {
            grouped: true,
            ..Wish::default()
        };
        assert_eq!(ids(&rows, &wish), "[busy] c b [quiet] a");
    }

    #[test]
    fn live_agents_hang_below_their_parents() {
        let mut rows = [row("s", "p", Display::Working, 1)];
        rows[0].agents = vec![
            agent("b", None, 2),
            agent("a", None, 1),
            agent("a1", Some("a"), 3),
            agent("lost", Some("gone"), 4),
        ];
        rows[0].agents.push(AgentRow {
            ended_at: Some(5),
            ..agent("gone", None, 0)
        });
        let mut wish = Wish::default();
        assert_eq!(ids(&rows, &wish), "s |a `-a1 |b `lost");
        wish.folded.insert("s".into());
        assert_eq!(ids(&rows, &wish), "s");
    }

    #[test]
    fn agents_that_are_each_others_parents_or_twins_do_no_harm() {
        let mut rows = [row("s", "p", Display::Working, 1)];
        rows[0].agents = vec![
            agent("x", Some("y"), 1),
            agent("y", Some("x"), 2),
            agent("z", Some("z"), 3),
            agent("t", None, 4),
            agent("t", None, 5),
        ];
        assert_eq!(ids(&rows, &Wish::default()), "s `t");
    }

    #[test]
    fn all_words_of_the_filter_must_occur_somewhere() {
        let mut rows = [
            row("a", "/home/u/shop", Display::Working, 1),
            row("b", "/home/u/blog", Display::Done, 2),
        ];
        rows[0].title = Some("Fix Checkout".into());
        let filtered = |filter: &str| {
            let wish = Wish {
                filter: filter.into(),
                ..Wish::default()
            };
            ids(&rows, &wish)
        };
        assert_eq!(filtered("check SHOP"), "a");
        assert_eq!(filtered("done"), "b");
        assert_eq!(filtered("u"), "a b");
        assert_eq!(filtered("shop blog"), "");
    }
}
