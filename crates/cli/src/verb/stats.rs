//! `becket stats`: adds up what the sessions did and cost.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;

use super::sessions::project;
use crate::session::history::History;
use crate::session::stats::{GroupBy, add_up};
use crate::ui::style::Look;
use crate::ui::text;
use crate::world::World;

/// Show what the sessions did and cost, by day, project or model
///
/// Turns, tool calls, denials, the time that they waited for you, cost and tokens.
#[derive(Debug, clap::Args)]
pub struct StatsArgs {
    /// Only since then: 10m, 2h or 3d ago, or a moment like 2026-11-15T08:00:00Z
    #[arg(long, value_name = "WHEN", value_parser = crate::ui::time::since)]
    since: Option<i64>,
    /// One row for each of these
    #[arg(long, value_name = "WHAT", default_value = "day")]
    by: GroupBy,
    /// Only this project; without FOLDER, the one you are in
    #[arg(long, value_name = "FOLDER", num_args = 0..=1, default_missing_value = ".")]
    project: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl StatsArgs {
    pub fn run(self, world: &World) -> Result<ExitCode> {
        let history = History::open(world)?;
        let look = Look::of_stdout();
        let project = self.project.as_deref().map(|folder| project(world, folder));
        let since = self.since.unwrap_or(0);
        let stats = add_up(&history, self.by, since, look.now.time_zone(), &|facts| {
            let Some(project) = project.as_deref() else {
                return true;
            };
            let place = facts.and_then(|facts| facts.project.as_deref());
            place.is_some_and(|place| Path::new(place).starts_with(project))
        })?;
        if self.json {
            println!("{}", text::json(&stats.json())?);
        } else if stats.is_empty() {
            println!("No activity in that period.");
        } else {
            anstream::print!("{}", stats.table(&look));
        }
        Ok(ExitCode::SUCCESS)
    }
}
