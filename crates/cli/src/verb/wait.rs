//! `becket wait`: blocks until a session is idle, needs the user, or has ended.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use becket_engine::session::json;
use becket_wire::rpc::{Ask, AskReply, Response};
use becket_wire::session::{Display, SessionRow};

use crate::client::{Client, gone};
use crate::failure::{Code, Failure};
use crate::log;
use crate::session::source::one;
use crate::session::words;
use crate::ui::{text, time};
use crate::world::{World, the_session};

/// Wait until a session is idle, needs you, or has ended
#[derive(Debug, clap::Args)]
pub struct Wait {
    /// The session: any unique beginning of its id, or its title (inside Claude Code: its own)
    #[arg(value_name = "ID")]
    session: Option<String>,
    /// What to wait for
    #[arg(long = "for", value_name = "WHAT", value_enum)]
    goal: Goal,
    /// Give up after this long, like 30s or 5m (exit 5; default: never)
    #[arg(long, value_name = "SPAN", value_parser = crate::ui::time::parse_span)]
    timeout: Option<Duration>,
    /// Print nothing on success
    #[arg(long, short)]
    quiet: bool,
    /// Print the session as JSON
    #[arg(long, conflicts_with = "quiet")]
    json: bool,
}

impl Wait {
    pub fn run(self, world: &World) -> Result<ExitCode> {
        let meant = the_session(self.session)?;
        let row = wait(world, &meant, self.goal, self.timeout)?;
        if self.json {
            println!("{}", text::json(&json(&row))?);
        } else if !self.quiet {
            let name = row.title.as_deref().unwrap_or(&row.session_id);
            println!("{}: {}", text::one_line(name), words::sentence(&row));
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// However short the time: what is so already is found out.
const FIRST_LOOK: Duration = Duration::from_secs(2);

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Goal {
    /// Its turn is over, with or without an error
    Idle,
    /// It needs you, whether you have looked or not
    Attention,
    /// It has ended
    End,
}

/// How a session stands to a goal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stands {
    There,
    NotYet,
    /// It has ended, and never will be.
    Never,
}

impl Goal {
    fn word(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Attention => "waiting for you",
            Self::End => "at its end",
        }
    }

    fn stands(self, row: &SessionRow) -> Stands {
        let is_there = match self {
            Self::Idle => matches!(row.display, Display::Done | Display::Error),
            Self::Attention => matches!(row.display, Display::Attention | Display::Checked),
            Self::End => false,
        };
        match (self, row.ended_at) {
            (Self::End, Some(_)) => Stands::There,
            (_, Some(_)) => Stands::Never,
            (_, None) if is_there => Stands::There,
            (_, None) => Stands::NotYet,
        }
    }
}

/// Waits until the session that is meant has come to its goal.
pub fn wait(
    world: &World,
    meant: &str,
    goal: Goal,
    timeout: Option<Duration>,
) -> Result<SessionRow> {
    if world.no_daemon {
        let what = "`becket wait` needs the daemon, and BECKET_NO_DAEMON is set";
        let failure = Failure::new(Code::Unreachable, what);
        return Err(failure.hint("unset BECKET_NO_DAEMON").into());
    }
    let from_now = |span: Duration| Instant::now().checked_add(span);
    let until = timeout.and_then(from_now);
    let first_look = timeout.and_then(|timeout| from_now(timeout.max(FIRST_LOOK)));
    let mut client = Client::connect_or_start(world)?.until(first_look);
    let mut waiting = Waiting {
        world,
        goal,
        timeout,
        until,
        last: one(meant, |query| client.sessions(query))?,
    };
    if let Some(row) = waiting.judge(waiting.last.clone())? {
        return Ok(row);
    }
    client = client.until(until);
    loop {
        match waiting.watch(&mut client) {
            // The daemon was replaced or ended: the next one knows the session too.
            Err(error) if is_gone(&error) => match Client::follow_on(world, until) {
                Err(error) if is_late(&error) => return Err(waiting.too_late()),
                next => client = next?.until(until),
            },
            ended => return ended,
        }
    }
}

fn is_late(error: &anyhow::Error) -> bool {
    let failure = error.downcast_ref::<Failure>();
    failure.is_some_and(Failure::is_late)
}

fn is_gone(error: &anyhow::Error) -> bool {
    let failure = error.downcast_ref::<Failure>();
    failure.is_some_and(Failure::is_unreachable)
}

struct Waiting<'a> {
    world: &'a World,
    goal: Goal,
    timeout: Option<Duration>,
    until: Option<Instant>,
    /// The session as it was last heard of.
    last: SessionRow,
}

impl Waiting<'_> {
    /// The session, if it is there; none if it is worth waiting on.
    fn judge(&mut self, row: SessionRow) -> Result<Option<SessionRow>> {
        match self.goal.stands(&row) {
            Stands::There => Ok(Some(row)),
            Stands::Never => Err(self.never(&row)),
            Stands::NotYet => {
                self.last = row;
                Ok(None)
            }
        }
    }

    fn never(&self, row: &SessionRow) -> anyhow::Error {
        let why = row.end_reason.as_deref().map(text::one_line);
        let why = why.map(|why| format!(" ({why})")).unwrap_or_default();
        let what = format!(
            "session {} has ended{why} without being {}",
            row.session_id,
            self.goal.word()
        );
        Failure::new(Code::Failed, what).into()
    }

    /// Follows one daemon's stream.
    fn watch(&mut self, client: &mut Client) -> Result<SessionRow> {
        client.ask(Ask::Watch)?;
        loop {
            let heard = match client.wait() {
                Err(error) if is_late(&error) => return Err(self.too_late()),
                Err(error) => return Err(error),
                Ok(Response::Reply(AskReply::Sessions(rows))) => Some(self.among(rows)?),
                Ok(Response::Reply(AskReply::Changed(row))) => {
                    Some(*row).filter(|row| row.session_id == self.last.session_id)
                }
                Ok(Response::Reply(AskReply::Done)) => return Err(gone()),
                Ok(Response::Reply(told)) => return Err(log::refusal(told)),
                Ok(other) => return Err(anyhow!("unexpected reply from the daemon: {other:?}")),
            };
            if let Some(row) = heard
                && let Some(row) = self.judge(row)?
            {
                return Ok(row);
            }
        }
    }

    /// The session as the stream begins. If it is not among those that live, it has ended since it
    /// was found, and the daemon knows how.
    fn among(&self, rows: Vec<SessionRow>) -> Result<SessionRow> {
        let id = &self.last.session_id;
        match rows.into_iter().find(|row| row.session_id == *id) {
            Some(row) => Ok(row),
            None => {
                let client = Client::connect_again(self.world)?.ok_or_else(gone)?;
                let mut client = client.until(self.until);
                one(id, |query| client.sessions(query))
            }
        }
    }

    fn too_late(&self) -> anyhow::Error {
        let within = self.timeout.unwrap_or_default().as_millis();
        let within = time::span(i64::try_from(within).unwrap_or(i64::MAX));
        let what = format!(
            "session {} was not {} within {within} (it is {})",
            self.last.session_id,
            self.goal.word(),
            words::sentence(&self.last),
        );
        Failure::new(Code::TimedOut, what).into()
    }
}
