//! `becket wait`: blocks until a session is done, waits for the user, or has ended.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Result;
use becket_engine::session::json;
use becket_wire::rpc::{Ask, AskReply, Response};
use becket_wire::session::{Display, SessionRow};

use crate::client::{
    Client, gone, is_late, is_unreachable, refusal, require_daemon, unexpected_reply,
};
use crate::failure::{Code, Failure};
use crate::session::source::find_session;
use crate::session::words;
use crate::ui::{text, time};
use crate::world::{World, the_session};

/// Wait until a session is done, needs you, or has ended
#[derive(Debug, clap::Args)]
pub struct WaitArgs {
    /// The session: the first characters of its id, or its title (inside Claude Code: its own)
    #[arg(value_name = "ID")]
    session: Option<String>,
    /// The state to wait for
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

impl WaitArgs {
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

/// The least time for the first look, however short the timeout: a goal that is reached already must be found.
const FIRST_LOOK: Duration = Duration::from_secs(2);

/// The states to wait for. The aliases are the words of the JSON, and those for a session as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Goal {
    /// Its turn is over, with or without an error
    #[value(alias = "idle")]
    Done,
    /// It needs you, whether you have looked or not
    #[value(alias = "attention")]
    Waiting,
    /// Its turn ended with an error
    #[value(alias = "error")]
    Failed,
    /// You have looked at its question
    #[value(alias = "checked")]
    Seen,
    /// It works
    Working,
    /// It has ended
    #[value(alias = "end")]
    Ended,
}

/// The distance of a session from a goal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GoalState {
    Reached,
    NotYet,
    /// The session has ended without it.
    Never,
}

impl Goal {
    fn word(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Waiting => "waiting for you",
            Self::Failed => "failed",
            Self::Seen => "seen",
            Self::Working => "working",
            Self::Ended => "ended",
        }
    }

    fn state(self, row: &SessionRow) -> GoalState {
        let is_reached = match self {
            Self::Done => matches!(row.display, Display::Done | Display::Error),
            Self::Waiting => matches!(row.display, Display::Attention | Display::Checked),
            Self::Failed => row.display == Display::Error,
            Self::Seen => row.display == Display::Checked,
            Self::Working => row.display == Display::Working,
            Self::Ended => false,
        };
        match (self, row.ended_at) {
            (Self::Ended, Some(_)) => GoalState::Reached,
            (_, Some(_)) => GoalState::Never,
            (_, None) if is_reached => GoalState::Reached,
            (_, None) => GoalState::NotYet,
        }
    }
}

/// Waits until the session that `meant` names has reached the goal.
pub fn wait(
    world: &World,
    meant: &str,
    goal: Goal,
    timeout: Option<Duration>,
) -> Result<SessionRow> {
    require_daemon(world, "`becket wait` needs the daemon")?;
    let now = Instant::now();
    let until = timeout.and_then(|timeout| now.checked_add(timeout));
    let first_look = timeout.and_then(|timeout| now.checked_add(timeout.max(FIRST_LOOK)));
    let mut client = Client::connect_or_start(world)?.until(first_look);
    let mut waiting = Waiting {
        world,
        goal,
        timeout,
        until,
        last: find_session(meant, |query| client.sessions(query))?,
    };
    if let Some(row) = waiting.judge(waiting.last.clone())? {
        return Ok(row);
    }
    client = client.until(until);
    loop {
        match waiting.watch(&mut client) {
            // The daemon was replaced or has ended. The next one knows the session too.
            Err(error) if is_unreachable(&error) => match Client::reconnect_or_wait(world, until) {
                Err(error) if is_late(&error) => return Err(waiting.too_late()),
                next => client = next?.until(until),
            },
            ended => return ended,
        }
    }
}

struct Waiting<'a> {
    world: &'a World,
    goal: Goal,
    timeout: Option<Duration>,
    until: Option<Instant>,
    /// The session as the daemon last reported it.
    last: SessionRow,
}

impl Waiting<'_> {
    /// Returns the session if it has reached the goal, and none if it may still do so.
    fn judge(&mut self, row: SessionRow) -> Result<Option<SessionRow>> {
        match self.goal.state(&row) {
            GoalState::Reached => Ok(Some(row)),
            GoalState::Never => Err(self.never(&row)),
            GoalState::NotYet => {
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

    /// Reads one daemon's stream until the goal is reached.
    fn watch(&mut self, client: &mut Client) -> Result<SessionRow> {
        client.ask(Ask::Watch)?;
        loop {
            let row = match client.next_in_stream() {
                Err(error) if is_late(&error) => return Err(self.too_late()),
                Err(error) => return Err(error),
                Ok(Response::Reply(AskReply::Sessions(rows))) => Some(self.among(rows)?),
                Ok(Response::Reply(AskReply::Changed(row))) => {
                    Some(*row).filter(|row| row.session_id == self.last.session_id)
                }
                Ok(Response::Reply(AskReply::Done)) => return Err(gone()),
                Ok(Response::Reply(told)) => return Err(refusal(told)),
                Ok(_) => return Err(unexpected_reply()),
            };
            if let Some(row) = row
                && let Some(row) = self.judge(row)?
            {
                return Ok(row);
            }
        }
    }

    /// Returns the session as the stream begins. If it is not among the live ones, it has ended since it was
    /// found, and the daemon has its row.
    fn among(&self, rows: Vec<SessionRow>) -> Result<SessionRow> {
        let id = &self.last.session_id;
        match rows.into_iter().find(|row| row.session_id == *id) {
            Some(row) => Ok(row),
            None => {
                let client = Client::reconnect_once(self.world)?.ok_or_else(gone)?;
                let mut client = client.until(self.until);
                find_session(id, |query| client.sessions(query))
            }
        }
    }

    fn too_late(&self) -> anyhow::Error {
        let within = self.timeout.unwrap_or_default().as_millis();
        let within = time::span(i64::try_from(within).unwrap_or(i64::MAX));
        let missed = match self.goal {
            Goal::Ended => "did not end".to_owned(),
            goal => format!("was not {}", goal.word()),
        };
        let what = format!(
            "session {} {missed} within {within} (it is {})",
            self.last.session_id,
            words::sentence(&self.last),
        );
        Failure::new(Code::TimedOut, what).into()
    }
}
