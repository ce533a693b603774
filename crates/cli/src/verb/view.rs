//! `becket` without a verb: opens the live view, or prints a summary if there is no terminal.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use becket_daemon::lifecycle::now_ms;
use becket_wire::session::{Display, SessionQuery, SessionRow};

use crate::client::Client;
use crate::settings::is_registered_here;
use crate::tui;
use crate::ui::text;
use crate::ui::time::lasted;
use crate::unhooked_processes::why_no_sessions;
use crate::world::World;

pub fn run(world: &World, frame_times: Option<&Path>) -> Result<ExitCode> {
    if tui::suits_terminal() {
        tui::open(world, frame_times)?;
    } else {
        println!("{}", summary(world));
        println!("In a terminal, `becket` is the live view; `becket --help` lists all commands.");
    }
    Ok(ExitCode::SUCCESS)
}

/// Summarizes the sessions in one line.
pub fn summary(world: &World) -> String {
    let client = Client::connect(world);
    let rows = client.and_then(|client| {
        let rows = client.map(|mut client| client.sessions(SessionQuery::default()));
        rows.transpose()
    });
    match rows {
        Ok(Some(rows)) if !rows.is_empty() => in_words(&rows, now_ms()),
        Ok(None) if is_registered_here(world, None) => {
            "No daemon is running; the next event starts it.".to_owned()
        }
        Ok(_) => why_no_sessions(world),
        Err(error) => format!("Could not read the sessions: {error:#}."),
    }
}

fn in_words(rows: &[SessionRow], now: i64) -> String {
    let mut parts = Vec::new();
    for display in Display::ALL {
        let rows: Vec<&SessionRow> = rows.iter().filter(|row| row.display == display).collect();
        let Some(since) = rows.iter().map(|row| row.display_since).min() else {
            continue;
        };
        let mut part = format!("{} {}", rows.len(), display.label());
        if display == Display::Attention {
            part += &format!(" (longest {})", lasted(now - since));
        }
        parts.push(part);
    }
    format!(
        "{}: {}.",
        text::count(rows.len(), "session", "sessions"),
        parts.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_says_how_things_are() {
        let row = |display, display_since| SessionRow {
            display,
            display_since,
            ..SessionRow::default()
        };
        assert_eq!(in_words(&[row(Display::Done, 0)], 0), "1 session: 1 done.");
        let rows = [
            row(Display::Working, 0),
            row(Display::Attention, 60_000),
            row(Display::Attention, 30_000),
        ];
        assert_eq!(
            in_words(&rows, 90_000),
            "3 sessions: 2 waiting (longest 1m00s), 1 working."
        );
    }
}
