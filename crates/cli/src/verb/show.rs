//! `becket show`: one session in full.

use std::process::ExitCode;

use anyhow::Result;
use becket_engine::session::json;
use becket_wire::rpc::EventQuery;

use crate::session::Look;
use crate::session::full::full;
use crate::session::source::Source;
use crate::world::{World, the_session};

/// So many of its events are shown.
const EVENTS: u32 = 10;

/// Show one session in full
#[derive(Debug, clap::Args)]
pub struct Show {
    /// The session: any unique beginning of its id, or its title (inside Claude Code: its own)
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
        let mut row = source.one(&meant)?;
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
        let events = source.events(query).unwrap_or_else(|why| {
            row.troubles.push(format!("its events: {why:#}"));
            Vec::new()
        });
        anstream::print!("{}", full(&row, &events, &Look::of_stdout()));
        Ok(ExitCode::SUCCESS)
    }
}
