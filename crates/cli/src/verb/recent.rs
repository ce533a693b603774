//! `becket recent`: the runs of hooks that go on, and the last ones that did.

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
pub struct RecentArgs {
    /// How many
    #[arg(value_name = "N", default_value_t = 20)]
    limit: u32,
    /// Only this hook
    #[arg(long, value_name = "NAME")]
    hook: Option<String>,
    /// Only this session (any unique beginning of its id)
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl RecentArgs {
    pub fn run(self, world: &World) -> Result<ExitCode> {
        let runs = Runs::open(world)?;
        let query = RunQuery {
            session: runs.session(self.session.as_deref())?,
            hook: self.hook,
            limit: Some(self.limit),
            ..RunQuery::default()
        };
        let is_narrow = query.session.is_some() || query.hook.is_some() || self.limit == 0;
        let found = runs.find_all(&query)?;
        if self.json {
            let found: Vec<_> = found.iter().map(hook_runs::JsonRun::from).collect();
            println!("{}", crate::ui::text::json(&found)?);
        } else if found.is_empty() {
            println!("{}", nothing(is_narrow, &world.place.config()));
        } else {
            anstream::print!("{}", hook_runs::recent_table(&found, &Look::of_stdout()));
        }
        if !self.json {
            let mut calls = denied_calls(world);
            calls.sort_by_key(|denied| std::cmp::Reverse(denied.event_id));
            anstream::print!("{}", denied(&calls, &Look::of_stdout()));
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

/// The calls that guards denied and that can be allowed once.
fn denied(calls: &[Denied], look: &Look) -> String {
    let row = |denied: &Denied| {
        [
            Cell::new(&denied.rule, BOLD),
            Cell::new(&denied.tool, BAD),
            Cell::plain(short(Some(&denied.session_id))),
            Cell::new(format!("becket guard allow-once {}", denied.code), DIM),
        ]
    };
    let rows: Vec<_> = calls.iter().map(row).collect();
    match rows.is_empty() {
        true => String::new(),
        false => format!("\n{}", grid(DENIED, &rows, look)),
    }
}

/// What to say, and what to do, when there is nothing to list.
pub fn nothing(is_narrow: bool, config: &Path) -> String {
    if is_narrow {
        "No run matches.".to_owned()
    } else {
        format!(
            "No hook has run yet. Add one to {}, or to a project's .becket/config.toml; `becket hooks --all` lists the built-in ones, `becket adopt` takes over those of Claude Code's settings files.",
            config.display()
        )
    }
}
