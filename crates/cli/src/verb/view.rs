//! `becket` without a verb: the live view, or where there is no terminal a word on how things are.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use becket_daemon::life::now_ms;
use becket_wire::rpc::{Ask, Response, Told};
use becket_wire::session::{Display, SessionQuery, SessionRow};

use crate::client::Client;
use crate::tui;
use crate::world::World;

pub fn run(world: &World, frame_times: Option<&Path>) -> Result<ExitCode> {
    if tui::suits_terminal() {
        tui::open(world, frame_times)?;
    } else {
        println!("{}", summary(world));
        println!("In a terminal, `becket` is the live view; `becket --help` tells all verbs.");
    }
    Ok(ExitCode::SUCCESS)
}

/// How things are, in one line.
pub fn summary(world: &World) -> String {
    match sessions(world) {
        Ok(Some(rows)) => in_words(&rows, now_ms()),
        Ok(None) => "No daemon runs; the next event starts it.".to_owned(),
        Err(error) => format!("Nothing is known of sessions: {error:#}."),
    }
}

fn sessions(world: &World) -> Result<Option<Vec<SessionRow>>> {
    let Some(mut client) = Client::connect(world)? else {
        return Ok(None);
    };
    client.ask(Ask::Sessions(SessionQuery::default()))?;
    match client.next()? {
        Response::Told(Told::Sessions(rows)) => Ok(Some(rows)),
        Response::Told(told) => Err(crate::log::refusal(told)),
        other => anyhow::bail!("the daemon said something else: {other:?}"),
    }
}

fn in_words(rows: &[SessionRow], now: i64) -> String {
    let count = |display: Display| rows.iter().filter(|row| row.display == display).count();
    let waits = rows.iter().filter(|row| row.display == Display::Attention);
    let longest = waits.map(|row| row.display_since).min();
    let mut parts = Vec::new();
    for (display, what) in [
        (Display::Error, "failed"),
        (Display::Attention, "waiting"),
        (Display::Working, "working"),
        (Display::Checked, "seen"),
        (Display::Done, "done"),
    ] {
        let mut part = format!("{} {what}", count(display));
        if let (Display::Attention, Some(since)) = (display, longest) {
            part = format!("{part} (longest {})", tui::lasted(now - since));
        }
        if count(display) > 0 {
            parts.push(part);
        }
    }
    match rows.len() {
        0 => "No sessions.".to_owned(),
        1 => format!("1 session: {}.", parts.join(", ")),
        many => format!("{many} sessions: {}.", parts.join(", ")),
    }
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
        assert_eq!(in_words(&[], 0), "No sessions.");
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
