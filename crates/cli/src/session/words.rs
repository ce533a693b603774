//! What is said of a session in words: what it does, what it is about, how long, how much.

use becket_wire::session::{AgentRow, Display, MAIN, SessionRow, Status};

use crate::ui::text::{count, one_line};

/// The state in one word: the display's, unless there is none.
pub fn state(row: &SessionRow) -> &'static str {
    match row {
        row if row.ended_at.is_some() => "ended",
        row if !row.hooked => "unhooked",
        row => row.display.word(),
    }
}

/// What it does, waits for or died of; empty if there is nothing to say beyond its state.
pub fn doing(row: &SessionRow) -> String {
    if row.ended_at.is_some() {
        return row.end_reason.as_deref().map(one_line).unwrap_or_default();
    }
    if !row.hooked {
        let launch = row.waiting_reason.as_deref();
        return one_line(launch.unwrap_or("nothing is heard of it"));
    }
    let mut said = match row.display {
        Display::Error => one_line(row.error.as_deref().unwrap_or("the turn failed")),
        Display::Attention | Display::Checked => waiting(row),
        Display::Working => working(row),
        Display::Done => done(row),
    };
    if row.stale {
        said = format!("{said} (stale)").trim_start().to_owned();
    }
    said
}

fn waiting(row: &SessionRow) -> String {
    let reason = row.waiting_reason.as_deref().or(row.status.reason());
    one_line(reason.unwrap_or("needs you"))
}

/// The state and what it does; also whose permission it is, where no line of that agent's follows.
pub fn sentence(row: &SessionRow) -> String {
    let doing = doing(row);
    let mut said = state(row).to_owned();
    if !doing.is_empty() {
        said = format!("{said}: {doing}");
    }
    match waiting_agent(row) {
        Some(agent) => format!("{said} ({})", agent_name(agent)),
        None => said,
    }
}

/// The subagent that needs the person, if it is not the main agent.
fn waiting_agent(row: &SessionRow) -> Option<&AgentRow> {
    let waits = row.waiting_for.as_deref().filter(|id| *id != MAIN)?;
    row.agents.iter().find(|agent| agent.agent_id == waits)
}

fn working(row: &SessionRow) -> String {
    match &row.status {
        Status::Working { detail } => one_line(detail.as_deref().unwrap_or_default()),
        // It is not the main agent that works.
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

/// Those that have not ended.
pub fn live_agents(row: &SessionRow) -> impl Iterator<Item = &AgentRow> {
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

/// How an agent's own status is displayed.
pub fn agent_display(agent: &AgentRow) -> Display {
    match agent.status {
        Status::Idle => Display::Done,
        Status::Working { .. } => Display::Working,
        Status::Attention { .. } => Display::Attention,
    }
}

/// What an agent does, in words.
pub fn agent_doing(agent: &AgentRow) -> String {
    let said = agent.status.detail().or(agent.status.reason());
    said.map_or_else(|| agent.status.word().to_owned(), one_line)
}

/// What it is about: its title, else the last prompt.
pub fn about(row: &SessionRow) -> String {
    let said = row.title.as_deref().or(row.last_prompt.as_deref());
    said.map(one_line).unwrap_or_default()
}

/// The model by a short name: `Opus 4.5`, or `opus-4-5` of `claude-opus-4-5-20251101`.
pub fn model(row: &SessionRow) -> String {
    if let Some(name) = &row.figures.model_name {
        return one_line(name);
    }
    let id = row.model.as_deref().or(row.figures.model_id.as_deref());
    let id = one_line(id.unwrap_or_default());
    let id = id.strip_prefix("claude-").unwrap_or(&id);
    let is_date = |end: &str| end.len() == 8 && end.bytes().all(|c| c.is_ascii_digit());
    match id.rsplit_once('-') {
        Some((short, end)) if is_date(end) => short.to_owned(),
        _ => id.to_owned(),
    }
}

/// Since when it is what it is.
pub fn since(row: &SessionRow) -> i64 {
    match row.ended_at {
        Some(ended) => ended,
        None if !row.hooked => row.started_at,
        None => row.display_since,
    }
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
}
