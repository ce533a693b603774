//! What is said of a run in words: how long, how it ended, and in which colour.

use anstyle::Style;
use becket_daemon::store::FoundRun;
use becket_wire::run::{RUNNING, RunRow};

use super::cost::{TOO_LONG, TOO_SLOW};
use crate::ui::style::{BAD, BOLD, DIM, GOOD, WARN};
use crate::ui::time::span;

/// The colour of a time.
pub fn pace(us: i64) -> Style {
    if us > TOO_SLOW { WARN } else { Style::new() }
}

/// The colour of a length.
pub fn length(characters: u64) -> Style {
    if characters > TOO_LONG {
        WARN
    } else {
        Style::new()
    }
}

/// The colour of how a run ended.
pub fn ended(run: &RunRow) -> Style {
    match &*run.outcome {
        _ if run.has_failed() => BAD,
        "ok" => GOOD,
        RUNNING => BOLD,
        _ => DIM,
    }
}

/// Why it failed; of one that goes on, when its time is up.
pub fn note(found: &FoundRun, now_ms: i64) -> String {
    match found.until {
        Some(until) if until > now_ms => {
            format!("its time is up in {}", span(until - now_ms))
        }
        Some(_) => "its time is up: it is being ended".to_owned(),
        None => found.run.note.clone().unwrap_or_default(),
    }
}

/// How it ended, with its exit code where that says more.
pub fn outcome(run: &RunRow) -> String {
    match run.exit {
        Some(exit) if run.has_failed() => format!("{} ({exit})", run.outcome),
        _ => run.outcome.clone(),
    }
}

/// The event, and the tool that it is about.
pub fn event(run: &RunRow, tool: Option<&str>) -> String {
    let words = [Some(&*run.event), tool].into_iter().flatten();
    words.collect::<Vec<_>>().join(" ")
}

/// Enough of a session's id to name it.
pub fn short(id: Option<&str>) -> String {
    id.map_or_else(|| "-".to_owned(), |id| id.chars().take(8).collect())
}
