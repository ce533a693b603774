//! The day's end as rows, folded from its events, and the picture of it.

use std::collections::BTreeMap;

use anyhow::Result;
use becket_engine::session::{Moment, Session};
use becket_wire::rpc::{EventRequest, EventRow};
use becket_wire::session::{Figures, SessionRow};
use becket_wire::{Head, Place};
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
    let now = CURTAIN + LATER * 1_000;
    let (events, rows) = fold(&beats, now)?;
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

/// The events as the log would tell them, and the live sessions that come of them.
fn fold(beats: &[Beat], now: i64) -> Result<(Vec<EventRow>, Vec<SessionRow>)> {
    let place = Place::new(format!("{HOME}/.becket"));
    let mut events = Vec::new();
    let mut sessions: BTreeMap<String, Session> = BTreeMap::new();
    for (number, beat) in (1..).zip(beats) {
        let at = CURTAIN + beat.at;
        let (event, payload) = match &beat.what {
            What::Event(event, payload) => (Some(event.as_str()), payload),
            What::StatusLine(line) => (None, line),
        };
        let id = payload["session_id"].as_str().unwrap_or_default();
        let session = sessions.entry(id.to_owned());
        let session = session.or_insert_with(|| Session::new(id, at));
        if event.is_none() {
            session.figures = figures(payload);
            continue;
        }
        let request = EventRequest {
            envelope: envelope(&place, beat, event, at, number),
            sent: at,
            payload: serde_json::to_vec(payload)?,
        };
        let head = Head::read(&request.payload)?;
        let moment = Moment::new(&head, &request.envelope);
        session.apply(&moment.in_project(head.cwd.as_deref()));
        events.push(row(&request, payload, number));
    }
    let live = sessions
        .values()
        .filter(|session| session.ended_at.is_none());
    Ok((events, live.map(|session| session.row(now)).collect()))
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
