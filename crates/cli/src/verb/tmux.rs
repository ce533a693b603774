//! `becket tmux`: shows sessions in tmux's status line, colours their panes, and goes to them.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use becket_daemon::lifecycle::now_ms;
use becket_daemon::tmux::{Tally, is_live, is_pane};
use becket_wire::rpc::{Ask, SeenAt};
use becket_wire::session::{Display, SessionQuery, SessionRow};
use serde_json::json;

use crate::client::Client;
use crate::failure::{Code, Failure};
use crate::session::source::find_session;
use crate::tmux::{self, CurrentTmux};
use crate::world::World;

/// Show sessions in tmux, colour their panes, and go to them
#[derive(Debug, clap::Args)]
pub struct TmuxArgs {
    #[command(subcommand)]
    verb: TmuxVerb,
}

#[derive(Debug, clap::Subcommand)]
enum TmuxVerb {
    Status(TmuxStatus),
    Paint(TmuxPaint),
    /// Go to the pane of the session that has waited longest
    Next,
    Jump(TmuxJump),
    Seen(TmuxSeen),
}

/// Print how many sessions failed, wait, work and are done, in a few characters
///
/// The daemon keeps the same text in the tmux option @becket: a status line need not run this.
#[derive(Debug, clap::Args)]
struct TmuxStatus {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Colour the panes of this tmux server by what their sessions do
#[derive(Debug, clap::Args)]
struct TmuxPaint {
    /// Give every pane its own colours back
    #[arg(long)]
    off: bool,
}

/// Go to the pane of a session
#[derive(Debug, clap::Args)]
struct TmuxJump {
    /// The session's id, or the beginning of it
    #[arg(value_name = "ID")]
    session: String,
}

/// Report that the user looks at a pane, so that its session no longer counts as waiting
///
/// For the focus hooks that `becket up --tmux` writes. Where no daemon runs, nothing happens.
#[derive(Debug, clap::Args)]
#[command(hide = true)]
struct TmuxSeen {
    /// The pane (default: the one that this runs in)
    #[arg(long, value_name = "PANE")]
    pane: Option<String>,
    /// The tmux server's socket (default: that of the server that this runs in)
    #[arg(long, value_name = "SOCKET")]
    socket: Option<PathBuf>,
}

impl TmuxArgs {
    pub fn run(self, world: &World) -> Result<ExitCode> {
        match self.verb {
            TmuxVerb::Status(verb) => verb.run(world),
            TmuxVerb::Paint(verb) => verb.run(world),
            TmuxVerb::Next => next(world),
            TmuxVerb::Jump(verb) => verb.run(world),
            TmuxVerb::Seen(verb) => verb.run(world),
        }?;
        Ok(ExitCode::SUCCESS)
    }
}

impl TmuxStatus {
    fn run(self, world: &World) -> Result<()> {
        let rows = sessions(world)?;
        let (tally, now) = (Tally::from_rows(&rows), now_ms());
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

impl TmuxPaint {
    fn run(self, world: &World) -> Result<()> {
        let here = CurrentTmux::read();
        let socket = here.must_be_inside()?;
        Client::connect_or_start(world)?.execute(Ask::Paint {
            tmux_socket: socket.to_string_lossy().into_owned(),
            on: !self.off,
        })
    }
}

impl TmuxJump {
    fn run(self, world: &World) -> Result<()> {
        let mut client = Client::connect_or_start(world)?;
        let row = find_session(&self.session, |query| client.sessions(query))?;
        tmux::jump(&row)
    }
}

impl TmuxSeen {
    fn run(self, world: &World) -> Result<()> {
        let mut here = CurrentTmux::read();
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
            Some(mut client) => client.execute(Ask::Seen(SeenAt::Pane { tmux_socket, pane })),
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
    client.execute(Ask::Seen(SeenAt::Session(row.session_id.clone())))
}

/// Returns the session that has waited longest. If the user has looked at all of them, returns the one whose last look
/// is longest ago.
fn next_waiting(rows: &[SessionRow]) -> Option<&SessionRow> {
    rows.iter()
        .filter(|row| is_live(row) && row.tmux_pane.is_some())
        .filter(|row| matches!(row.display, Display::Attention | Display::Checked))
        .min_by_key(|row| {
            if row.display == Display::Attention {
                (false, row.display_since)
            } else {
                (true, row.seen_at)
            }
        })
}

/// Returns the live sessions from the daemon.
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
