//! `becket show`: shows one session in full.

use std::process::ExitCode;

use anyhow::Result;
use becket_engine::session::{Json, json};
use becket_wire::rpc::EventQuery;
use becket_wire::session::SessionRow;
use serde::Serialize;

use crate::launch::launch_file;
use crate::session::details::{self, details};
use crate::session::history::{History, Timeline};
use crate::session::source::SessionSource;
use crate::ui::style::Look;
use crate::world::{World, the_session};

/// The number of events that are shown, the newest.
const EVENTS: u32 = 10;
/// The default number of turns for a person, the newest.
const TURNS: usize = 10;

/// Show one session in full
#[derive(Debug, clap::Args)]
pub struct ShowArgs {
    /// The session: the first characters of its id, or its title (inside Claude Code: its own); or
    /// the pid of a `becket run` or of its Claude Code
    #[arg(value_name = "ID")]
    session: Option<String>,
    /// The newest N of its turns, or all (default: 10; with --json all)
    #[arg(long, value_name = "N", value_parser = turns)]
    turns: Option<usize>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn turns(text: &str) -> Result<usize, String> {
    if text == "all" {
        return Ok(usize::MAX);
    }
    text.parse()
        .map_err(|_| "expected a number or `all`".to_owned())
}

/// A session with its past, for scripts.
#[derive(Debug, Serialize)]
struct ShownSession<'a> {
    #[serde(flatten)]
    session: Json<'a>,
    #[serde(flatten)]
    past: details::JsonTimeline<'a>,
}

impl ShowArgs {
    pub fn run(self, world: &World) -> Result<ExitCode> {
        let meant = the_session(self.session)?;
        let mut source = SessionSource::open(world);
        let mut row = match source.find(&meant) {
            Ok(row) => row,
            Err(error) => match launched(world, &meant) {
                Some(Ok(session)) => source.find(&session)?,
                Some(Err(row)) => row,
                None => return Err(error),
            },
        };
        let id = row.session_id.clone();
        // If the past cannot be read, the rest is shown all the same.
        let read =
            History::open(world).and_then(|history| Ok((read_timeline(&history, &id)?, history)));
        let (past, history) = read.unwrap_or_else(|why| {
            row.troubles.push(format!("its past: {why:#}"));
            Default::default()
        });
        if self.json {
            let most = self.turns.unwrap_or(usize::MAX);
            let shown = ShownSession {
                session: json(&row),
                past: details::json_timeline(&past, &history.after(&id), most),
            };
            println!("{}", crate::ui::text::json(&shown)?);
            return Ok(ExitCode::SUCCESS);
        }
        let query = EventQuery {
            session: Some(row.session_id.clone()),
            limit: Some(EVENTS),
            ..EventQuery::default()
        };
        let events = if row.session_id.is_empty() {
            Ok(Vec::new())
        } else {
            source.events(query)
        };
        let events = events.unwrap_or_else(|why| {
            row.troubles.push(format!("its events: {why:#}"));
            Vec::new()
        });
        let look = Look::of_stdout();
        let past = [
            details::turns_table(&past, self.turns.unwrap_or(TURNS), &look),
            details::files(&past, row.project.as_deref(), &look),
            details::chain(&history.before(&id), &history.after_all(&id), &look),
        ];
        anstream::print!("{}", details(&row, &past.concat(), &events, &look));
        Ok(ExitCode::SUCCESS)
    }
}

/// Finds a launch by one of its pids. Returns the id of its session, else the row of the launch.
fn launched(world: &World, meant: &str) -> Option<Result<String, SessionRow>> {
    launch_file::by_pid(&world.place, meant.parse().ok()?)
}

fn read_timeline(history: &History, id: &str) -> Result<Timeline> {
    let mut past = Timeline::default();
    history.events(Some(id), 0, &mut |event| past.add(&event))?;
    let figures = history.figures(Some(id))?;
    if let Some(first) = figures.first() {
        past.price(&figures, history.cost_before(id, first.began)?);
    }
    Ok(past)
}
