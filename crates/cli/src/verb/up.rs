//! `becket up`: the first run.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};

use super::init::{folder_of, install};
use crate::doctor::registration::send_canary;
use crate::offer::{self, Choice};
use crate::settings::{self, Scope, StatusLine, Strict};
use crate::ui::style::{BOLD, DIM, GOOD};
use crate::world::World;
use crate::{client, tui, verb};

/// Set becket up: register with Claude Code, start the daemon, prove that an event arrives
#[derive(Debug, clap::Args)]
pub struct Up {
    /// Block tool calls when the shim is missing or crashes
    #[arg(long)]
    strict: bool,
    /// Do not open the live view at the end
    #[arg(long)]
    no_view: bool,
    /// How to tell you when a session needs you or is done after long work (off takes it back)
    #[arg(long, value_name = "HOW")]
    notice: Option<Choice>,
    /// Switch these of becket's own hooks on, in your config
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    hooks: Vec<String>,
}

impl Up {
    pub fn run(self, world: &World) -> Result<ExitCode> {
        // Before anything is done: a typing error should leave nothing behind.
        let hooks = offer::hooks::named(&self.hooks)?;
        let strict = if self.strict {
            Strict::On
        } else {
            Strict::Keep
        };
        let outcome = settings::init(world, Scope::User, strict, StatusLine::Keep, false)
            .context("could not register with Claude Code")?;
        let events = outcome.inspection.entries.len();
        let how = if outcome.changed() {
            "registered"
        } else {
            "already registered"
        };
        step(
            &format!("{how} with Claude Code for {events} events"),
            &outcome.file.display().to_string(),
        );
        if let Some(backup) = &outcome.backup {
            step(
                "kept the file as it was before",
                &backup.display().to_string(),
            );
        }
        if outcome.changed() && outcome.inspection.status_line.is_beside() {
            step("kept your own status line", "becket's stands beneath it");
        }
        let commands = install(world, Scope::User, false);
        if let Some(folder) = folder_of(&commands) {
            step(
                "wrote /hook:disable, /hook:enable and /hook:status",
                &folder.display().to_string(),
            );
        }
        let started = client::start(world)?;
        let how = if started {
            "started the daemon"
        } else {
            "the daemon runs already"
        };
        step(how, &world.socket().display().to_string());
        let entry = outcome
            .inspection
            .entries
            .iter()
            .find_map(|entry| entry.command.as_ref());
        let entry = entry.context("nothing is registered")?;
        let flight = send_canary(world, Path::new(&entry.program), &entry.args, true)
            .context("no event arrives")?;
        let took = format!(
            "{:.1} ms, kept as event {}",
            flight.took.as_secs_f64() * 1e3,
            flight.row.seq
        );
        step("sent an event through, and found it in the database", &took);
        if let Some(set) = offer::notices(world, self.notice)? {
            step(&set, &world.place.config().display().to_string());
        }
        if let Some(set) = offer::hooks::offer(world, hooks)? {
            step(&set, &world.place.config().display().to_string());
        }
        tell_what_next(world);
        if !self.no_view && tui::suits_terminal() {
            return verb::view::run(world, None);
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn tell_what_next(world: &World) {
    anstream::println!();
    anstream::println!("Start Claude Code as always. Then:");
    for (command, what) in [
        ("becket", "see all sessions, live"),
        ("becket events --follow", "see everything that happens"),
        (
            "becket hooks --all",
            "see the hooks, yours and becket's own",
        ),
        ("becket doctor", "check every part"),
        ("becket uninit", "take it all back"),
    ] {
        anstream::println!("  {BOLD}{command:24}{BOLD:#}{what}");
    }
    anstream::println!();
    anstream::println!(
        "{DIM}Events are kept in {}. Payloads go after 90 days or 4 GiB ([store] in the config); rows stay.{DIM:#}",
        world.place.database().display()
    );
}

fn step(what: &str, detail: &str) {
    anstream::println!("{GOOD}✓{GOOD:#} {what}  {DIM}{detail}{DIM:#}");
}
