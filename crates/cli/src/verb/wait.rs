//! `becket wait`: blocks until a session is idle, needs somebody, or has ended.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use becket_engine::session::json;

use crate::session::goal::{Goal, wait};
use crate::session::words;
use crate::ui::text;
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
    /// Give up after so long, like 30s or 5m (exit 5; default: never)
    #[arg(long, value_name = "SPAN", value_parser = crate::ui::time::parse_span)]
    timeout: Option<Duration>,
    /// Print nothing when it is so
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
            println!("{}", serde_json::to_string(&json(&row))?);
        } else if !self.quiet {
            let name = row.title.as_deref().unwrap_or(&row.session_id);
            println!("{}: {}", text::one_line(name), words::sentence(&row));
        }
        Ok(ExitCode::SUCCESS)
    }
}
