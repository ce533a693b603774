//! `becket uninit`: takes becket out of Claude Code's settings again.

use std::process::ExitCode;

use anyhow::Result;
use serde_json::json;

use super::init::{ScopeArgs, print_diff, report, tell_backup};
use crate::adopt;
use crate::settings::{self, Outcome, Scope, State};
use crate::tell::WARN;
use crate::tmux::conf;
use crate::world::World;

/// Take becket out of Claude Code's settings
///
/// Removes becket's own entries from a settings file and leaves the rest as it is. If nothing else
/// was changed since `becket init`, the file is again what it was before, byte for byte. Lines that
/// `becket init --tmux --write` added are taken out too.
#[derive(Debug, clap::Args)]
pub struct Uninit {
    #[command(flatten)]
    scope: ScopeArgs,
    /// Print what would change, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Uninit {
    pub fn run(self, world: &World) -> Result<ExitCode> {
        if !self.dry_run {
            world.refuse_inside_claude("uninit")?;
        }
        let outcome = settings::uninit(world, self.scope.scope(), self.dry_run)?;
        let tmux = if self.dry_run || outcome.scope != Scope::User {
            Vec::new()
        } else {
            conf::take_out(&world.place)?
        };
        let entries = &outcome.inspection.entries;
        let events = entries.len() - outcome.inspection.count(State::Missing);
        if self.json {
            let mut report = report(&outcome, events, self.dry_run);
            report["removed_file"] = json!(outcome.changed() && outcome.after.is_none());
            report["tmux_files"] = json!(tmux);
            anstream::println!("{report}");
        } else if self.dry_run && outcome.changed() {
            print_diff(&outcome);
        } else {
            tell(world, &outcome, events);
        }
        if !self.dry_run && outcome.changed() && adopt::any_adopted(&world.place, &outcome.file) {
            anstream::eprintln!(
                "{WARN}warning:{WARN:#} hooks that were adopted from {} do not run without becket: `becket adopt --undo` gives them back",
                outcome.file.display()
            );
        }
        for file in tmux.iter().filter(|_| !self.json) {
            anstream::println!("took becket's lines out of {}", file.display());
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn tell(world: &World, outcome: &Outcome, events: usize) {
    let file = outcome.file.display();
    if !outcome.changed() {
        anstream::println!("becket is not registered in {file}");
        return;
    }
    match outcome.after {
        Some(_) => anstream::println!("took {events} events out of {file}"),
        None => anstream::println!("removed {file}, which held nothing else"),
    }
    tell_backup(outcome);
    anstream::println!(
        "next: `becket daemon stop` ends the daemon; what it recorded stays in {}",
        world.place.home().display()
    );
}
