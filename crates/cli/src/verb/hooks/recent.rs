//! `becket hooks recent`: lists the running hooks and the last runs.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use becket_daemon::store::RunQuery;
use becket_engine::guard::memory::Denied;

use crate::hook_runs::query::Runs;
use crate::hook_runs::{self, short};
use crate::ui::style::{BAD, BOLD, DIM, Look};
use crate::ui::table::{Cell, Column, grid};
use crate::world::{World, denied_calls};

/// Show the last runs of hooks, the newest first
#[derive(Debug, clap::Args)]
pub struct HooksRecent {
    /// The number of runs
    #[arg(value_name = "N", default_value_t = 20)]
    limit: u32,
    /// Only this hook
    #[arg(long, value_name = "NAME")]
    hook: Option<String>,
    /// Only this session (the first characters of its id, or its title)
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl HooksRecent {
    pub fn run(self, world: &World) -> Result<ExitCode> {
        let runs = Runs::open(world)?;
        let query = RunQuery {
            session: runs.session(self.session.as_deref())?,
            hook: self.hook,
            limit: Some(self.limit),
            ..RunQuery::default()
        };
        let has_filter = query.session.is_some() || query.hook.is_some() || self.limit == 0;
        let found = runs.find_all(&query)?;
        if self.json {
            let found: Vec<_> = found.iter().map(hook_runs::JsonRun::from).collect();
            println!("{}", crate::ui::text::json(&found)?);
        } else if found.is_empty() {
            println!("{}", nothing(has_filter, &world.place.config()));
        } else {
            anstream::print!("{}", hook_runs::recent_table(&found, &Look::of_stdout()));
        }
        if !self.json {
            let mut calls = denied_calls(world);
            calls.sort_by_key(|denied| std::cmp::Reverse(denied.event_id));
            anstream::print!("{}", denied_table(&calls, &Look::of_stdout()));
        }
        Ok(ExitCode::SUCCESS)
    }
}

const DENIED: [Column; 4] = [
    Column::left("DENIED BY GUARD", 0).cut_to(12),
    Column::left("TOOL", 2).cut_to(8),
    Column::left("SESSION", 1),
    Column::left("TO LET IT PASS ONCE", 0),
];

/// Lists the denied calls that can be allowed once.
fn denied_table(calls: &[Denied], look: &Look) -> String {
    if calls.is_empty() {
        return String::new();
    }
    let rows = calls.iter().map(|denied| {
        [
            Cell::new(&denied.rule, BOLD),
            Cell::new(&denied.tool, BAD),
            Cell::plain(short(Some(&denied.session_id))),
            Cell::new(format!("becket allow {}", denied.code), DIM),
        ]
    });
    format!("\n{}", grid(DENIED, &rows.collect::<Vec<_>>(), look))
}

/// Returns the text for an empty list, with the way to add a hook.
pub fn nothing(has_filter: bool, config: &Path) -> String {
    if has_filter {
        "No run matches.".to_owned()
    } else {
        format!(
            "No hook has run yet. Add one to {}, or to a project's .becket/config.toml; `becket hooks --all` lists the built-in ones, `becket hooks adopt` takes over those of Claude Code's settings files.",
            config.display()
        )
    }
}
