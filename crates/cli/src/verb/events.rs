//! `becket events`: prints the log of events.

use std::collections::VecDeque;
use std::process::ExitCode;

use anyhow::Result;
use becket_daemon::lifecycle::now_ms;
use becket_wire::rpc::{Ask, AskReply, EventQuery, EventRow, FollowCursor, Response};

use crate::client::{Client, is_unreachable, refusal, require_daemon, unexpected_reply};
use crate::event_line::{EventPrinter, LineFormat};
use crate::log;
use crate::session::source::id_of_title;
use crate::world::World;

/// The number of events that a person gets without --limit, the newest. Scripts get all.
const DEFAULT_LIMIT: u32 = 50;

/// Show the log of events, oldest first
#[derive(Debug, clap::Args)]
pub struct EventsArgs {
    /// Keep printing new events as they come
    #[arg(long, short)]
    follow: bool,
    /// Only this session (the first characters of its id, or its title)
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Only this event, like PreToolUse (BecketCanary: those of `becket doctor`)
    #[arg(long, value_name = "NAME")]
    event: Option<String>,
    /// Only this tool, like Bash
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// Only events that contain this text, in capital or small letters
    #[arg(long, value_name = "TEXT")]
    grep: Option<String>,
    /// Only since then: 10m, 2h or 3d ago, or a moment like 2026-11-15T08:00:00Z
    #[arg(long, value_name = "WHEN", value_parser = crate::ui::time::since)]
    since: Option<i64>,
    /// Only the newest N (default: 50; with --json all)
    #[arg(long, short = 'n', value_name = "N")]
    limit: Option<u32>,
    /// Only this event (the first characters of its id)
    #[arg(long, value_name = "ID")]
    id: Option<String>,
    /// Also events that came twice, from two registrations
    #[arg(long)]
    duplicates: bool,
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
    /// Print the payloads alone, byte for byte as they were kept
    #[arg(long, conflicts_with = "json")]
    raw: bool,
}

impl EventsArgs {
    pub fn run(self, world: &World) -> Result<ExitCode> {
        let format = if self.json {
            LineFormat::Json
        } else if self.raw {
            LineFormat::Raw
        } else {
            LineFormat::Person
        };
        let session = self.session.as_deref();
        let session = session.map(|meant| id_of_title(world, meant)).transpose()?;
        let id = self.id.map(|id| log::event_id(world, &id)).transpose()?;
        // A follower gets all earlier events with the text: the limit counts events before their text is read.
        let is_short = format == LineFormat::Person && !(self.follow && self.grep.is_some());
        let limit = self.limit.or(is_short.then_some(DEFAULT_LIMIT));
        // The daemon limits all events, and not those with the text.
        let keeps_newest = self.grep.is_some() && !self.follow;
        let query = EventQuery {
            session,
            event: self.event,
            tool: self.tool,
            // `--limit 0` means only events from now on, also after the daemon was replaced.
            since: self.since.or((self.limit == Some(0)).then(now_ms)),
            id,
            after: None,
            limit: limit.filter(|_| !keeps_newest),
            follow: self.follow,
            duplicates: self.duplicates,
        };
        let mut printer = EventPrinter::new(format);
        printer.has_filter = self.grep.is_some()
            || query
                != EventQuery {
                    limit: query.limit,
                    ..EventQuery::default()
                };
        let mut output = EventOutput {
            printer,
            text: self.grep.map(|text| text.to_lowercase()),
            newest: keeps_newest.then(VecDeque::new),
            limit: limit.map_or(usize::MAX, |limit| limit as usize),
        };
        if world.no_daemon {
            without_daemon(world, query, &mut output)?;
        } else {
            through_daemon(world, query, &mut output)?;
        }
        output.end()?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Prints the events that contain the text of `--grep`.
struct EventOutput {
    printer: EventPrinter,
    /// The text of `--grep` in small letters.
    text: Option<String>,
    /// The newest events with the text, if only so many are printed, at the end.
    newest: Option<VecDeque<EventRow>>,
    limit: usize,
}

impl EventOutput {
    fn print(&mut self, row: EventRow) -> Result<()> {
        if let Some(text) = &self.text {
            let payload = row.payload.as_deref().unwrap_or_default();
            let payload = String::from_utf8_lossy(payload).to_lowercase();
            if !payload.contains(&**text) {
                return Ok(());
            }
        }
        let Some(newest) = &mut self.newest else {
            return Ok(self.printer.print(&row)?);
        };
        newest.push_back(row);
        if newest.len() > self.limit {
            newest.pop_front();
        }
        Ok(())
    }

    fn end(mut self) -> Result<()> {
        for row in self.newest.take().into_iter().flatten() {
            self.printer.print(&row)?;
        }
        Ok(self.printer.end()?)
    }
}

fn through_daemon(world: &World, mut query: EventQuery, output: &mut EventOutput) -> Result<()> {
    let mut client = match Client::connect_or_start(world) {
        Ok(client) => client,
        Err(error) if query.follow => return Err(error),
        Err(error) => {
            anstream::eprintln!("warning: {error:#}; reading the database without it");
            return without_daemon(world, query, output);
        }
    };
    let mut shown = FollowCursor::of(&query);
    loop {
        match stream(&mut client, &query, &mut shown, output) {
            Ok(()) if !query.follow => return Ok(()),
            // The daemon was replaced or has ended: continue with the next one.
            Ok(()) => {}
            Err(error) if query.follow && is_unreachable(&error) => {}
            Err(error) => return Err(error),
        }
        query.limit = None;
        query.after = Some(shown.after());
        client = Client::reconnect_or_wait(world, None)?;
    }
}

/// Asks for the events, and prints them until the daemon reports the end.
fn stream(
    client: &mut Client,
    query: &EventQuery,
    shown: &mut FollowCursor,
    output: &mut EventOutput,
) -> Result<()> {
    if query.follow {
        // Fails for a stopped daemon. After that, a follower waits as long as it takes.
        client.status()?;
    }
    client.ask(Ask::Events(query.clone()))?;
    loop {
        let response = if query.follow {
            client.next_in_stream()?
        } else {
            client.next()?
        };
        match response {
            Response::Row(row) if query.follow => {
                if shown.is_new(row.seq) {
                    output.print(*row)?;
                    output.printer.flush()?;
                }
            }
            Response::Row(row) => output.print(*row)?,
            Response::Reply(AskReply::Done) => return Ok(()),
            Response::Reply(told) => return Err(refusal(told)),
            _ => return Err(unexpected_reply()),
        }
    }
}

/// Prints the events of database and spool without changing them.
fn without_daemon(world: &World, query: EventQuery, output: &mut EventOutput) -> Result<()> {
    if query.follow {
        require_daemon(world, "--follow needs the daemon")?;
    }
    for row in log::read(world, query)? {
        output.print(row)?;
    }
    Ok(())
}
