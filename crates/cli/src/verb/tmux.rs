//! `becket tmux`: sessions in tmux's status line, their panes' colours, and the way there.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use becket_daemon::life::now_ms;
use becket_daemon::tmux::{Tally, is_live, is_pane};
use becket_wire::rpc::{Ask, SeenAt};
use becket_wire::session::{Display, SessionQuery, SessionRow};
use serde_json::json;

use crate::client::Client;
use crate::failure::{Code, Failure};
use crate::session::source::find_session;
use crate::tmux::{self, Here};
use crate::world::World;

/// Show sessions in tmux, colour their panes, and go to them
#[derive(Debug, clap::Args)]
pub struct Tmux {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    Status(Status),
    Paint(Paint),
    /// Go to the pane of the session that has waited longest, then to those you looked at only
    Next,
    Jump(Jump),
    Seen(Seen),
}

/// Print how many sessions failed, wait, work and are done, in a few characters
///
/// The daemon keeps the same text in the tmux option @becket: a status line need not run this.
#[derive(Debug, clap::Args)]
struct Status {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Colour the panes of this tmux server by what their sessions do
#[derive(Debug, clap::Args)]
struct Paint {
    /// Give every pane its own colours back
    #[arg(long)]
    off: bool,
}

/// Go to the pane of a session
#[derive(Debug, clap::Args)]
struct Jump {
    /// The session's id, or the beginning of it
    #[arg(value_name = "ID")]
    session: String,
}

/// Say that the person looks at a pane: its session need not be shown as waiting any more
///
/// For the focus hooks that `becket init --tmux` writes. Where no daemon runs, nothing happens.
#[derive(Debug, clap::Args)]
#[command(hide = true)]
struct Seen {
    /// The pane (default: the one that this runs in)
    #[arg(long, value_name = "PANE")]
    pane: Option<String>,
    /// The tmux server's socket (default: that of the server that this runs in)
    #[arg(long, value_name = "SOCKET")]
    socket: Option<PathBuf>,
}

impl Tmux {
    pub fn run(self, world: &World) -> Result<ExitCode> {
        match self.verb {
            Verb::Status(verb) => verb.run(world),
            Verb::Paint(verb) => verb.run(world),
            Verb::Next => next(world),
            Verb::Jump(verb) => verb.run(world),
            Verb::Seen(verb) => verb.run(world),
        }?;
        Ok(ExitCode::SUCCESS)
    }
}

impl Status {
    fn run(self, world: &World) -> Result<()> {
        let rows = sessions(world)?;
        let (tally, now) = (Tally::of(&rows), now_ms());
        let text = tally.text(now);
        if self.json {
            let waited = tally.waiting_since.map(|since| (now - since).max(0));
            let report = json!({
                "text": text,
                "error": tally.error,
                "attention": tally.attention,
                "longest_wait_ms": waited,
                "checked": tally.checked,
                "working": tally.working,
                "done": tally.done,
            });
            anstream::println!("{report}");
        } else {
            anstream::println!("{text}");
        }
        Ok(())
    }
}

impl Paint {
    fn run(self, world: &World) -> Result<()> {
        let here = Here::read();
        let socket = here.must_be_inside()?;
        Client::connect_or_start(world)?.done(Ask::Paint {
            tmux_socket: socket.to_string_lossy().into_owned(),
            on: !self.off,
        })
    }
}

impl Jump {
    fn run(self, world: &World) -> Result<()> {
        let mut client = Client::connect_or_start(world)?;
        let row = find_session(&self.session, |query| client.sessions(query))?;
        tmux::jump(&row)
    }
}

impl Seen {
    fn run(self, world: &World) -> Result<()> {
        let mut here = Here::read();
        here.socket = self.socket.or(here.socket);
        let tmux_socket = here.must_be_inside()?.to_string_lossy().into_owned();
        let pane = self.pane.or(here.pane).filter(|pane| is_pane(pane));
        let Some(pane) = pane else {
            let what = "there is no such pane";
            return Err(Failure::new(Code::Usage, what)
                .hint("a pane is named like %3")
                .into());
        };
        match Client::connect(world)? {
            Some(mut client) => client.done(Ask::Seen(SeenAt::Pane { tmux_socket, pane })),
            None => Ok(()),
        }
    }
}

fn next(world: &World) -> Result<()> {
    let mut client = Client::connect_or_start(world)?;
    let rows = client.sessions(SessionQuery::default())?;
    let Some(row) = next_waiting(&rows) else {
        let what = "no session in a tmux pane waits for you";
        return Err(Failure::new(Code::Missing, what).into());
    };
    tmux::jump(row)?;
    client.done(Ask::Seen(SeenAt::Session(row.session_id.clone())))
}

/// The one that has waited longest; once all were looked at, the one whose last look is longest ago.
fn next_waiting(rows: &[SessionRow]) -> Option<&SessionRow> {
    let order = |row: &&SessionRow| match row.display {
        Display::Attention => Some((false, row.display_since)),
        Display::Checked => Some((true, row.seen_at)),
        _ => None,
    };
    let live = rows
        .iter()
        .filter(|row| is_live(row) && row.tmux_pane.is_some());
    let waiting = live.filter_map(|row| Some((order(&row)?, row)));
    waiting.min_by_key(|(order, _)| *order).map(|(_, row)| row)
}

/// The live sessions, as the daemon knows them.
fn sessions(world: &World) -> Result<Vec<SessionRow>> {
    Client::connect_or_start(world)?.sessions(SessionQuery::default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_not_looked_at_come_first_and_then_the_others_in_turn() {
        let row = |id: &str, display, since, seen_at| SessionRow {
            session_id: id.to_owned(),
            display,
            display_since: since,
            seen_at,
            hooked: true,
            tmux_pane: Some("%1".to_owned()),
            ..SessionRow::default()
        };
        let mut rows = vec![
            row("seen last", Display::Checked, 1, 30),
            row("seen first", Display::Checked, 2, 20),
            row("works", Display::Working, 0, 0),
            row("new", Display::Attention, 9, 0),
            row("old", Display::Attention, 5, 0),
        ];
        let next = |rows: &[SessionRow]| next_waiting(rows).map(|row| row.session_id.clone());
        assert_eq!(next(&rows).as_deref(), Some("old"));
        rows.truncate(3);
        assert_eq!(next(&rows).as_deref(), Some("seen first"));
        rows[1].seen_at = 40;
        assert_eq!(next(&rows).as_deref(), Some("seen last"));
        assert_eq!(next(&rows[2..]), None);
    }
}
