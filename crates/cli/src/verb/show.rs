//! `becket show`: one session in full.

use std::process::ExitCode;

use anyhow::Result;
use becket_engine::session::json;
use becket_wire::rpc::EventQuery;
use becket_wire::session::SessionRow;

use crate::launch::state;
use crate::session::Look;
use crate::session::full::full;
use crate::session::source::Source;
use crate::world::{World, the_session};

/// So many of its events are shown.
const EVENTS: u32 = 10;

/// Show one session in full
#[derive(Debug, clap::Args)]
pub struct Show {
    /// The session: any unique beginning of its id, or its title (inside Claude Code: its own); or
    /// the pid of a `becket run` or of its Claude Code
    #[arg(value_name = "ID")]
    session: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Show {
    pub fn run(self, world: &World) -> Result<ExitCode> {
        let meant = the_session(self.session)?;
        let mut source = Source::open(world);
        let mut row = match source.one(&meant) {
            Ok(row) => row,
            Err(error) => match launched(world, &meant) {
                Some(Ok(session)) => source.one(&session)?,
                Some(Err(row)) => row,
                None => return Err(error),
            },
        };
        if self.json {
            println!("{}", serde_json::to_string(&json(&row))?);
            return Ok(ExitCode::SUCCESS);
        }
        let query = EventQuery {
            session: Some(row.session_id.clone()),
            limit: Some(EVENTS),
            ..EventQuery::default()
        };
        // A log that cannot be read is no reason to keep the rest back.
        let events = match row.session_id.is_empty() {
            true => Ok(Vec::new()),
            false => source.events(query),
        };
        let events = events.unwrap_or_else(|why| {
            row.troubles.push(format!("its events: {why:#}"));
            Vec::new()
        });
        anstream::print!("{}", full(&row, &events, &Look::of_stdout()));
        Ok(ExitCode::SUCCESS)
    }
}

/// A launch, by one of its pids: the id of its session, or what is known without one.
fn launched(world: &World, meant: &str) -> Option<Result<String, SessionRow>> {
    state::by_pid(&world.place, meant.parse().ok()?)
}
