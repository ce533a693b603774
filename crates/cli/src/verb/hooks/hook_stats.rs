//! `becket hooks stats`: adds up the runs, denials and times of each hook.

use std::process::ExitCode;

use anyhow::Result;
use becket_daemon::store::RunQuery;

use crate::hook_runs;
use crate::hook_runs::query::Runs;
use crate::ui::style::Look;
use crate::world::World;

/// Show what each hook did and cost: runs, denials, times
#[derive(Debug, clap::Args)]
pub struct HooksStats {
    /// Only this session (the first characters of its id, or its title)
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Only since then: 10m, 2h or 3d ago, or a moment like 2026-11-15T08:00:00Z
    #[arg(long, value_name = "WHEN", value_parser = crate::ui::time::since)]
    since: Option<i64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl HooksStats {
    pub fn run(self, world: &World) -> Result<ExitCode> {
        let runs = Runs::open(world)?;
        let query = RunQuery {
            session: runs.session(self.session.as_deref())?,
            since: self.since,
            ..RunQuery::default()
        };
        let has_filter = query.session.is_some() || query.since.is_some();
        let found = runs.find(&query)?;
        let hooks = hook_runs::stats(found.iter().map(|found| &found.run));
        if self.json {
            println!("{}", crate::ui::text::json(&hooks)?);
        } else if hooks.is_empty() {
            println!(
                "{}",
                super::recent::nothing(has_filter, &world.place.config())
            );
        } else {
            anstream::print!("{}", hook_runs::stats_table(&hooks, &Look::of_stdout()));
        }
        Ok(ExitCode::SUCCESS)
    }
}
