//! `becket events`: the log.

use std::process::ExitCode;

use anyhow::Result;
use becket_daemon::life::now_ms;
use becket_wire::rpc::{Ask, AskReply, EventQuery, FollowCursor, Response};

use crate::client::Client;
use crate::failure::{Code, Failure};
use crate::line::{Form, Lines};
use crate::log;
use crate::world::World;

/// Without a limit a person gets so many, the newest; a program gets all.
const FOR_A_PERSON: u32 = 50;

/// Show the log of events, oldest first
#[derive(Debug, clap::Args)]
pub struct Events {
    /// Keep printing new events as they come
    #[arg(long, short)]
    follow: bool,
    /// Only this session (any unique beginning of its id)
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Only this event, like PreToolUse (BecketCanary: those of `becket doctor`)
    #[arg(long, value_name = "NAME")]
    event: Option<String>,
    /// Only this tool, like Bash
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// Only since then: 10m, 2h or 3d ago, or a moment like 2026-11-15T08:00:00Z
    #[arg(long, value_name = "WHEN", value_parser = crate::ui::time::since)]
    since: Option<i64>,
    /// Only the newest N (default: 50; with --json all)
    #[arg(long, short = 'n', value_name = "N")]
    limit: Option<u32>,
    /// Only this event (any unique beginning of its id)
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

impl Events {
    pub fn run(self, world: &World) -> Result<ExitCode> {
        let form = match (self.json, self.raw) {
            (true, _) => Form::Json,
            (_, true) => Form::Raw,
            _ => Form::Person,
        };
        let id = self.id.map(|id| log::event_id(world, &id)).transpose()?;
        let query = EventQuery {
            session: self.session,
            event: self.event,
            tool: self.tool,
            // Nothing of what was: then only from now on, also when the daemon changes.
            since: self.since.or((self.limit == Some(0)).then(now_ms)),
            id,
            after: None,
            limit: self
                .limit
                .or((form == Form::Person).then_some(FOR_A_PERSON)),
            follow: self.follow,
            duplicates: self.duplicates,
        };
        let mut lines = Lines::new(form);
        lines.narrowed = query
            != EventQuery {
                limit: query.limit,
                ..EventQuery::default()
            };
        if world.no_daemon {
            without_daemon(world, query, &mut lines)?;
        } else {
            through_daemon(world, query, &mut lines)?;
        }
        lines.end()?;
        Ok(ExitCode::SUCCESS)
    }
}

fn through_daemon(world: &World, mut query: EventQuery, lines: &mut Lines) -> Result<()> {
    let mut client = match Client::connect_or_start(world) {
        Ok(client) => client,
        Err(error) if query.follow => return Err(error),
        Err(error) => {
            anstream::eprintln!("warning: {error:#}; reading the database without it");
            return without_daemon(world, query, lines);
        }
    };
    let mut shown = FollowCursor::of(&query);
    loop {
        let ended = stream(&mut client, &query, &mut shown, lines);
        match ended {
            Ok(()) if !query.follow => return Ok(()),
            // The daemon was replaced or ended: go on with the next one.
            Ok(()) => {}
            Err(error)
                if query.follow
                    && error
                        .downcast_ref::<Failure>()
                        .is_some_and(Failure::is_unreachable) => {}
            Err(error) => return Err(error),
        }
        query.limit = None;
        query.after = Some(shown.after());
        client = Client::follow_on(world, None)?;
    }
}

/// Asks for the events, and prints what comes until the daemon says that it is all.
fn stream(
    client: &mut Client,
    query: &EventQuery,
    shown: &mut FollowCursor,
    lines: &mut Lines,
) -> Result<()> {
    if query.follow {
        // A follower waits as long as it takes, but not for a daemon that was stopped.
        client.status()?;
    }
    client.ask(Ask::Events(query.clone()))?;
    loop {
        let word = if query.follow {
            client.wait()?
        } else {
            client.next()?
        };
        match word {
            Response::Row(row) if query.follow => {
                if shown.is_new(row.seq) {
                    lines.print(&row)?;
                    lines.flush()?;
                }
            }
            Response::Row(row) => lines.print(&row)?,
            Response::Reply(AskReply::Done) => return Ok(()),
            Response::Reply(told) => return Err(log::refusal(told)),
            other => anyhow::bail!("unexpected reply from the daemon: {other:?}"),
        }
    }
}

/// Prints what database and spool hold, and writes nothing to them.
fn without_daemon(world: &World, query: EventQuery, lines: &mut Lines) -> Result<()> {
    if query.follow {
        return Err(Failure::new(
            Code::Unreachable,
            "--follow needs the daemon, and BECKET_NO_DAEMON is set",
        )
        .hint("unset BECKET_NO_DAEMON")
        .into());
    }
    for row in log::read(world, query)? {
        lines.print(&row)?;
    }
    Ok(())
}
