//! `becket events`: the log.

use std::io;
use std::process::ExitCode;

use anyhow::{Context, Result};
use becket_daemon::store::{self, spool};
use becket_engine::config::Loader;
use becket_engine::mask::Masker;
use becket_wire::EventId;
use becket_wire::rpc::{Ask, EventQuery, EventRow, Response, Told};

use crate::client::Client;
use crate::failure::{Code, Failure};
use crate::line::{Form, Lines};
use crate::world::World;

/// Without a limit a person gets so many, the newest; a program gets all.
const FOR_A_PERSON: u32 = 50;

/// Show the log of events, oldest first
#[derive(Debug, clap::Args)]
pub struct Events {
    /// Go on with what happens from now on
    #[arg(long, short)]
    follow: bool,
    /// Only this session (any unique beginning of its id)
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Only this event, like PreToolUse
    #[arg(long, value_name = "NAME")]
    event: Option<String>,
    /// Only this tool, like Bash
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// Only since then: 10m, 2h, 3d, or a moment like 2026-11-15T08:00:00Z
    #[arg(long, value_name = "WHEN", value_parser = crate::when::since)]
    since: Option<i64>,
    /// Only the newest so many (default: 50; with --json all)
    #[arg(long, short = 'n', value_name = "N")]
    limit: Option<u32>,
    /// Only the event with this id
    #[arg(long, value_name = "ID")]
    id: Option<EventId>,
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
        let query = EventQuery {
            session: self.session,
            event: self.event,
            tool: self.tool,
            since: self.since,
            id: self.id,
            after: None,
            limit: self
                .limit
                .or((form == Form::Person).then_some(FOR_A_PERSON)),
            follow: self.follow,
            duplicates: self.duplicates,
        };
        let mut lines = Lines::new(form);
        let printed = if world.no_daemon {
            without_daemon(world, query, &mut lines)
        } else {
            through_daemon(world, query, &mut lines)
        };
        match printed {
            // `becket events | head` is no failure.
            Err(error) if is_closed_pipe(&error) => Ok(ExitCode::SUCCESS),
            Err(error) => Err(error),
            Ok(()) => {
                lines.end()?;
                Ok(ExitCode::SUCCESS)
            }
        }
    }
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<io::Error>()
        .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
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
    loop {
        client.ask(Ask::Events(query.clone()))?;
        let ended = stream(&mut client, &mut query, lines);
        match ended {
            Ok(()) if !query.follow => return Ok(()),
            // The daemon was replaced or ended: whoever follows goes on with the next one.
            Ok(()) => {}
            Err(error)
                if query.follow
                    && error
                        .downcast_ref::<Failure>()
                        .is_some_and(Failure::is_unreachable) => {}
            Err(error) => return Err(error),
        }
        query.limit = None;
        client = Client::connect_or_start(world)?;
    }
}

/// Prints what comes until the daemon says that it is all.
fn stream(client: &mut Client, query: &mut EventQuery, lines: &mut Lines) -> Result<()> {
    loop {
        let word = if query.follow {
            client.wait()?
        } else {
            client.next()?
        };
        match word {
            Response::Row(row) => {
                query.after = query.after.max(Some(row.seq));
                lines.print(&row)?;
                if query.follow {
                    lines.flush()?;
                }
            }
            Response::Told(Told::Done) => return Ok(()),
            Response::Told(told) => return Err(refusal(told)),
            other => anyhow::bail!("the daemon said something else: {other:?}"),
        }
    }
}

fn refusal(told: Told) -> anyhow::Error {
    match told {
        Told::NoSuchSession(prefix) => Failure::new(
            Code::Missing,
            format!("no session has an id that begins with `{prefix}`"),
        )
        .hint("becket events shows the beginnings of the ids"),
        Told::Ambiguous(ids) => {
            Failure::new(Code::Usage, "several sessions have an id that begins so")
                .hint(format!("one of: {}", ids.join(", ")))
        }
        Told::No(why) => Failure::new(Code::Failed, why),
        other => Failure::new(
            Code::Failed,
            format!("the daemon said something else: {other:?}"),
        ),
    }
    .into()
}

/// Reads database and spool, and writes nothing.
fn without_daemon(world: &World, mut query: EventQuery, lines: &mut Lines) -> Result<()> {
    if query.follow {
        return Err(Failure::new(
            Code::Unreachable,
            "only a daemon can be followed, and BECKET_NO_DAEMON is set",
        )
        .hint("unset BECKET_NO_DAEMON")
        .into());
    }
    let mut rows = Vec::new();
    let database = store::open_to_read(&world.place.database())?;
    let spooled = read_spool(world);
    if let Some(prefix) = query.session.take() {
        query.session = Some(complete(&prefix, database.as_ref(), &spooled)?);
    }
    if let Some(connection) = &database {
        store::find(connection, &query, &mut |row| {
            rows.push(row);
            true
        })
        .context("could not read the log")?;
    }
    let known: std::collections::HashSet<_> = rows.iter().map(|row| row.id).collect();
    rows.extend(
        spooled
            .into_iter()
            .filter(|row| query.wants(row) && !known.contains(&row.id)),
    );
    rows.sort_by_key(|row| (row.at, row.seq));
    let skip = query
        .limit
        .map_or(0, |limit| rows.len().saturating_sub(limit as usize));
    for row in &rows[skip..] {
        lines.print(row)?;
    }
    Ok(())
}

/// What lies in the spool, as the log will tell it. It has no seq yet: it comes after everything.
fn read_spool(world: &World) -> Vec<EventRow> {
    let config = Loader::read_only(&world.place).current();
    let key = store::existing_mask_key(&world.place).unwrap_or_default();
    let masker = Masker::from_config(key, &config.config);
    let records = spool::waiting(&world.place)
        .into_iter()
        .filter_map(|(_, path)| spool::read(&path, &masker).ok()?);
    records
        .map(|record| EventRow {
            seq: i64::MAX,
            ..record.to_row()
        })
        .collect()
}

fn complete(
    prefix: &str,
    database: Option<&rusqlite::Connection>,
    spooled: &[EventRow],
) -> Result<String> {
    let mut found = match database {
        Some(connection) => store::sessions_like(connection, prefix)?,
        None => Vec::new(),
    };
    found.extend(
        spooled
            .iter()
            .filter_map(|row| row.session_id.clone())
            .filter(|id| id.starts_with(prefix)),
    );
    found.sort();
    found.dedup();
    match found.len() {
        0 => Err(refusal(Told::NoSuchSession(prefix.to_owned()))),
        1 => Ok(found.remove(0)),
        _ if found.iter().any(|id| id == prefix) => Ok(prefix.to_owned()),
        _ => Err(refusal(Told::Ambiguous(found))),
    }
}
