//! The day's end as rows, and the picture of it.
//!
//! FOR THE LEAD: `rows` is made by hand because the fold of events into a session is not in this
//! tree. With it, fold `day()` by session instead, and delete the table; nothing else changes.

use anyhow::Result;
use becket_wire::Place;
use becket_wire::rpc::{EventRequest, EventRow};
use becket_wire::session::{AgentRow, Display, Figures, MAIN, SessionRow, Status};
use serde_json::Value;

use super::play::{envelope, row};
use super::script::{Beat, What, day};
use super::svg::svg;
use crate::tui::{Still, still};

/// When the curtain rises in the picture: 2026-11-15T09:00:00Z.
const CURTAIN: i64 = 1_794_733_200_000;
/// The moment of the picture, in seconds after that.
const LATER: i64 = 290;
const SIZE: (u16, u16) = (120, 32);
const HOME: &str = "/home/you";

/// The live view at the day's end, as SVG.
pub fn picture() -> Result<String> {
    let beats = day()?;
    let events = events(&beats)?;
    let now = CURTAIN + LATER * 1_000;
    let rows = rows(&beats, now);
    let waiting = rows
        .iter()
        .find(|row| row.title.as_deref() == Some("Idempotent checkout"));
    let selected = waiting
        .map(|row| row.session_id.clone())
        .unwrap_or_default();
    let buffer = still(Still {
        rows,
        events: &events,
        selected: &selected,
        now,
        home: HOME,
        size: SIZE,
    });
    Ok(svg(
        &buffer,
        "becket: the live view at the end of the demo's day",
    ))
}

/// The events as the log would tell them.
fn events(beats: &[Beat]) -> Result<Vec<EventRow>> {
    let place = Place::new(format!("{HOME}/.becket"));
    let mut rows = Vec::new();
    for (number, beat) in (1..).zip(beats) {
        if let What::Event(name, payload) = &beat.what {
            let request = EventRequest {
                envelope: envelope(&place, beat, Some(name), CURTAIN + beat.at, number),
                sent: CURTAIN + beat.at,
                payload: serde_json::to_vec(payload)?,
            };
            rows.push(row(&request, payload, number));
        }
    }
    Ok(rows)
}

/// One session's end of the day: its title, display, what it says, and the seconds at which that began.
type End = (&'static str, Display, &'static str, i64);

const ENDS: [End; 7] = [
    (
        "Idempotent checkout",
        Display::Attention,
        "Permission for Bash",
        100,
    ),
    (
        "Slow query in the order list",
        Display::Working,
        "Agent",
        -890,
    ),
    (
        "Headings in 日本語",
        Display::Attention,
        "Permission for WebFetch",
        45,
    ),
    (
        "CI runners to arm64",
        Display::Error,
        "overloaded: API Error: 529 overloaded",
        90,
    ),
    ("Rotate the signing keys", Display::Done, "", 42),
    (
        "API reference, page by page",
        Display::Working,
        "Bash",
        -3_590,
    ),
    ("Summary of the week", Display::Done, "", -7_680),
];

fn rows(beats: &[Beat], now: i64) -> Vec<SessionRow> {
    let agents = |title: &str| match title {
        "Slow query in the order list" => vec![
            agent("a7e5b21904cd6f83a", "Explore", working("Grep"), 74),
            agent("b3c8810fa6e24d97c", "test-runner", working("Bash"), 72),
        ],
        "Headings in 日本語" => vec![agent(
            "a90d3c7be1245f68a",
            "researcher",
            Status::Attention {
                reason: "Permission for WebFetch".into(),
            },
            45,
        )],
        _ => Vec::new(),
    };
    let made = ENDS.iter().map(|&(title, display, says, since)| {
        let mut row = facts(beats, title);
        row.display = display;
        row.display_since = CURTAIN + since * 1_000;
        row.status_since = row.display_since;
        row.status = match display {
            Display::Working => working(says),
            Display::Attention => Status::Attention {
                reason: says.into(),
            },
            _ => Status::Idle,
        };
        row.agents = agents(title);
        row.error = (display == Display::Error).then(|| says.into());
        if display == Display::Attention {
            let agent = row.agents.first().map(|agent| agent.agent_id.clone());
            row.waiting_for = Some(agent.unwrap_or_else(|| MAIN.into()));
            row.waiting_reason = Some(says.into());
        }
        row.last_activity = now;
        row
    });
    made.collect()
}

fn working(detail: &str) -> Status {
    Status::Working {
        detail: Some(detail.into()),
    }
}

fn agent(id: &str, kind: &str, status: Status, since: i64) -> AgentRow {
    AgentRow {
        agent_id: id.into(),
        agent_type: Some(kind.into()),
        status,
        status_since: CURTAIN + since * 1_000,
        started_at: CURTAIN + since * 1_000,
        ..AgentRow::default()
    }
}

/// What the script says of the session with this title besides its status.
fn facts(beats: &[Beat], title: &str) -> SessionRow {
    let text = |payload: &Value, field: &str| payload[field].as_str().map(str::to_owned);
    let titled = beats.iter().find_map(|beat| match &beat.what {
        What::Event(_, payload) if payload["session_title"] == title => Some(payload),
        _ => None,
    });
    let Some(prompt) = titled else {
        return SessionRow::default();
    };
    let id = text(prompt, "session_id").unwrap_or_default();
    let mut row = SessionRow {
        line: id.clone(),
        title: Some(title.to_owned()),
        project: text(prompt, "cwd"),
        cwd: text(prompt, "cwd"),
        permission_mode: text(prompt, "permission_mode"),
        last_prompt: text(prompt, "prompt"),
        attended: true,
        alive: true,
        hooked: true,
        ..SessionRow::default()
    };
    for beat in beats {
        match &beat.what {
            What::Event(_, payload) if payload["session_id"] == *id && row.started_at == 0 => {
                row.started_at = CURTAIN + beat.at;
                row.model = text(payload, "model");
            }
            What::StatusLine(line) if line["session_id"] == *id => row.figures = figures(line),
            _ => {}
        }
    }
    row.session_id = id;
    row
}

fn figures(line: &Value) -> Figures {
    let window = &line["context_window"];
    Figures {
        context_pct: window["used_percentage"].as_f64(),
        context_tokens: window["total_input_tokens"].as_u64(),
        context_size: window["context_window_size"].as_u64(),
        cost_usd: line["cost"]["total_cost_usd"].as_f64(),
        model_name: line["model"]["display_name"].as_str().map(str::to_owned),
        ..Figures::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The picture in the README. To make it anew: `becket demo --svg docs/demo.svg`.
    #[test]
    fn the_picture_in_the_docs_is_the_view_of_today() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/demo.svg");
        let kept = std::fs::read_to_string(file).unwrap_or_default();
        let drawn = picture().unwrap();
        assert!(kept == drawn, "run: becket demo --svg docs/demo.svg");
    }

    #[test]
    fn the_day_ends_with_all_that_it_is_to_show() {
        let drawn = picture().unwrap();
        let drawn = drawn.replace('\u{a0}', " ");
        for wanted in [
            "1 failed",
            "2 waiting",
            "2 working",
            "2 done",
            "日本語",
            "test-runner",
            "$",
        ] {
            assert!(drawn.contains(wanted), "{wanted}");
        }
        // It has ended.
        assert!(!drawn.contains("Count words"));
    }
}
