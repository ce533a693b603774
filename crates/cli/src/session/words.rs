//! Formats a session for people: state, activity, title, model; the shortest unique names of sessions
//! and projects; the tree of agents.

use std::collections::{BTreeSet, HashMap};

use becket_wire::session::{AgentRow, Display, MAIN, SessionRow, Status};

use crate::ui::text::{SHORT_ID_CHARS, count, one_line};

/// Returns the state in one word.
pub fn state(row: &SessionRow) -> &'static str {
    match row {
        row if row.ended_at.is_some() => "ended",
        row if !row.hooked => "unhooked",
        row => row.display.label(),
    }
}

/// Returns the activity, the question or the error of a session. Empty if the state says it all.
pub fn doing(row: &SessionRow) -> String {
    if row.ended_at.is_some() {
        return match row.end_reason.as_deref().unwrap_or_default() {
            "other" => String::new(),
            reason => one_line(&reason.replace('_', " ")),
        };
    }
    if !row.hooked {
        let launch = row.waiting_reason.as_deref();
        return one_line(launch.unwrap_or("it runs without becket's hooks"));
    }
    let known = row.doing.as_deref().map(one_line);
    let mut said = match row.display {
        Display::Error | Display::Attention | Display::Checked => known.unwrap_or_default(),
        Display::Working => known.unwrap_or_else(|| working(row)),
        Display::Done => done(row),
    };
    if row.stale {
        said = format!("{said} (stale)").trim_start().to_owned();
    }
    said
}

/// Returns the activity of a session with the subagent that waits for the user, else the state.
pub fn activity(row: &SessionRow) -> String {
    let doing = doing(row);
    match waiting_agent(row) {
        _ if doing.is_empty() => state(row).to_owned(),
        Some(agent) => format!("{doing} ({})", agent_name(agent)),
        None => doing,
    }
}

/// Returns the state and the activity.
pub fn sentence(row: &SessionRow) -> String {
    let (state, activity) = (state(row), activity(row));
    if activity == state {
        activity
    } else {
        format!("{state}: {activity}")
    }
}

/// Returns the question that the main agent or a subagent asks the user.
pub fn question(row: &SessionRow) -> Option<String> {
    if let Some(reason) = row.status.reason() {
        let shown = matches!(row.display, Display::Attention | Display::Checked);
        let words = row.doing.as_deref().filter(|_| shown);
        return Some(one_line(words.unwrap_or(reason)));
    }
    let asking = live_agents(row).find(|agent| agent.status.reason().is_some());
    asking.map(agent_doing)
}

/// Returns the subagent that needs the user. None if it is the main agent.
fn waiting_agent(row: &SessionRow) -> Option<&AgentRow> {
    let waits = row.waiting_for.as_deref().filter(|id| *id != MAIN)?;
    row.agents.iter().find(|agent| agent.agent_id == waits)
}

fn working(row: &SessionRow) -> String {
    match row.status {
        Status::Working { .. } => String::new(),
        // Only subagents work.
        _ => count(live_agents(row).count(), "agent", "agents"),
    }
}

fn done(row: &SessionRow) -> String {
    match row.background_tasks as usize {
        0 if row.interrupted => "interrupted".to_owned(),
        0 => String::new(),
        tasks => count(tasks, "background task", "background tasks"),
    }
}

/// Returns the agents that have not ended.
fn live_agents(row: &SessionRow) -> impl Iterator<Item = &AgentRow> {
    row.agents.iter().filter(|agent| agent.ended_at.is_none())
}

pub fn agent_name(agent: &AgentRow) -> String {
    let name = one_line(agent.agent_type.as_deref().unwrap_or_default());
    if name.is_empty() {
        "agent".to_owned()
    } else {
        name
    }
}

/// Returns the activity of an agent, else its state.
pub fn agent_doing(agent: &AgentRow) -> String {
    let state = agent.display().label();
    one_line(agent.doing.as_deref().unwrap_or(state))
}

/// Returns the title of a session, else its last prompt.
pub fn about(row: &SessionRow) -> String {
    let said = row.title.as_deref().or(row.last_prompt.as_deref());
    said.map(one_line).unwrap_or_default()
}

/// Returns a short name of the model: `Opus 4.5`, or `opus-4-5` for `claude-opus-4-5-20251101`.
pub fn model(row: &SessionRow) -> String {
    if let Some(name) = &row.figures.model_name {
        return one_line(name);
    }
    let id = row.model.as_deref().or(row.figures.model_id.as_deref());
    let id = one_line(id.unwrap_or_default());
    let id = id.strip_prefix("claude-").unwrap_or(&id);
    match id.rsplit_once('-') {
        Some((short, end)) if is_date(end) => short.to_owned(),
        _ => id.to_owned(),
    }
}

fn is_date(text: &str) -> bool {
    text.len() == 8 && text.bytes().all(|c| c.is_ascii_digit())
}

/// Returns the time since which the session is in its state.
pub fn since(row: &SessionRow) -> i64 {
    match row.ended_at {
        Some(ended) => ended,
        None if !row.hooked => row.started_at,
        None => row.display_since,
    }
}

/// Returns an unambiguous beginning of each id, with at least [`SHORT_ID_CHARS`] characters.
pub fn ids(rows: &[SessionRow]) -> HashMap<&str, String> {
    let ids: BTreeSet<&str> = rows.iter().map(|row| &*row.session_id).collect();
    let ids: Vec<(Vec<char>, &str)> = ids.iter().map(|id| (id.chars().collect(), *id)).collect();
    let short = unique_beginnings(&ids).map(|(chars, length, id)| {
        let length = length.max(SHORT_ID_CHARS);
        let beginning: String = chars.iter().take(length).collect();
        (id, one_line(&beginning))
    });
    short.collect()
}

/// Returns the last component of each project's path, with as many parents as make it unambiguous.
pub fn projects<'p>(paths: impl Iterator<Item = &'p str>) -> HashMap<&'p str, String> {
    let mut paths: Vec<(Vec<&str>, &str)> = paths
        .map(|path| {
            let parts = path.rsplit('/').filter(|part| !part.is_empty());
            (parts.collect(), path)
        })
        .collect();
    paths.sort_unstable();
    paths.dedup();
    let names = unique_beginnings(&paths).map(|(parts, length, path)| {
        let end: Vec<&str> = parts.iter().take(length).rev().copied().collect();
        let name = if end.is_empty() { "/" } else { &end.join("/") };
        (path, one_line(name))
    });
    names.collect()
}

/// Adds to each of these sorted sequences the length of its shortest beginning that no other one has.
fn unique_beginnings<'s, 't, T: PartialEq>(
    sorted: &'s [(Vec<T>, &'t str)],
) -> impl Iterator<Item = (&'s [T], usize, &'t str)> {
    sorted.iter().enumerate().map(|(nth, (one, name))| {
        // Only the neighbours can have more in common.
        let before = nth.checked_sub(1).and_then(|nth| sorted.get(nth));
        let neighbours = before.into_iter().chain(sorted.get(nth + 1));
        let shared = neighbours.map(|(other, _)| {
            let pairs = one.iter().zip(other);
            pairs.take_while(|(a, b)| a == b).count()
        });
        (&**one, shared.max().unwrap_or(0) + 1, *name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_known_by_short_names() {
        let of = |id: &str| {
            model(&SessionRow {
                model: Some(id.into()),
                ..SessionRow::default()
            })
        };
        assert_eq!(of("claude-opus-4-5-20251101"), "opus-4-5");
        assert_eq!(of("claude-sonnet-5"), "sonnet-5");
        assert_eq!(of("local-7b"), "local-7b");
    }

    fn with_ids(ids: &[&str]) -> Vec<SessionRow> {
        let row = |id: &&str| SessionRow {
            session_id: (*id).to_owned(),
            ..SessionRow::default()
        };
        ids.iter().map(row).collect()
    }

    #[test]
    fn ids_are_as_short_as_they_can_be() {
        let rows = with_ids(&["aaaaaaaa-1111", "aaaaaaaa-1222", "bbbbbbbb-1", "c"]);
        let ids = ids(&rows);
        assert_eq!(ids["aaaaaaaa-1111"], "aaaaaaaa-11");
        assert_eq!(ids["aaaaaaaa-1222"], "aaaaaaaa-12");
        assert_eq!(ids["bbbbbbbb-1"], "bbbbbbbb");
        assert_eq!(ids["c"], "c");
    }
}
