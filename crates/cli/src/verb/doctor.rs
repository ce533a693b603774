//! `becket doctor`: checks every part, and sends an event through the registered command.

use std::process::ExitCode;

use anyhow::Result;
use serde_json::json;

use crate::doctor::{CheckState, DoctorCheck, examine};
use crate::ui::style::{BAD, BOLD, DIM, GOOD, WARN};
use crate::ui::text::{count, visible};
use crate::world::World;

/// Check every part of becket, and show how to fix what is wrong
///
/// Sends an event through the very command that is registered with Claude Code, and looks for it
/// in the database. Exits 1 when something is broken.
#[derive(Debug, clap::Args)]
pub struct DoctorArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl DoctorArgs {
    pub fn run(self, world: &World) -> Result<ExitCode> {
        let checks = examine(world);
        let broken = checks.iter().any(|check| check.state == CheckState::Broken);
        if self.json {
            println!("{}", json!({"ok": !broken, "checks": checks}));
        } else {
            show(&checks, broken);
        }
        Ok(if broken {
            ExitCode::FAILURE
        } else {
            ExitCode::SUCCESS
        })
    }
}

fn show(checks: &[DoctorCheck], broken: bool) {
    let width = checks
        .iter()
        .map(|check| check.name.chars().count())
        .max()
        .unwrap_or(0);
    for check in checks {
        let (style, sign) = match check.state {
            CheckState::Good => (GOOD, "✓"),
            CheckState::Warning => (WARN, "!"),
            CheckState::Broken => (BAD, "✗"),
        };
        anstream::println!(
            "{style}{sign}{style:#} {BOLD}{:width$}{BOLD:#}  {}",
            check.name,
            visible(&check.what)
        );
        if let Some(fix) = check.fix.as_deref().map(visible) {
            anstream::println!("  {:width$}  {DIM}fix:{DIM:#} {fix}", "");
        }
    }
    let warnings = checks
        .iter()
        .filter(|check| check.state == CheckState::Warning)
        .count();
    println!();
    if broken {
        anstream::println!("{BAD}Something is broken.{BAD:#}");
    } else if warnings == 0 {
        anstream::println!("{GOOD}All is well.{GOOD:#}");
    } else {
        let warnings = count(warnings, "warning", "warnings");
        anstream::println!("{GOOD}It works{GOOD:#}, with {warnings}.");
    }
}
