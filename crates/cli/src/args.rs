//! The command line, as typed. Each verb's own arguments stand in its file in `verb/`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::verb;
use crate::world::World;

/// The hook runtime for Claude Code
#[derive(Debug, Parser)]
#[command(name = "becket", version = version(), propagate_version = true, disable_help_subcommand = true)]
pub struct Args {
    /// Work with this becket home instead of ~/.becket
    #[arg(long, global = true, value_name = "FOLDER")]
    home: Option<PathBuf>,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Up(verb::up::Up),
    Init(verb::init::Init),
    Uninit(verb::uninit::Uninit),
    Doctor(verb::doctor::Doctor),
    Events(verb::events::Events),
    Tmux(verb::tmux::Tmux),
    Daemon(verb::daemon::Daemon),
    Config(verb::config::Config),
    Completions(verb::completions::Completions),
    Hook(verb::hook::Hook),
}

fn version() -> String {
    becket_wire::Version::current().to_string()
}

impl Args {
    pub fn run(self) -> Result<ExitCode> {
        let world = World::read(self.home)?;
        match self.verb {
            Verb::Init(verb) => verb.run(&world),
            Verb::Uninit(verb) => verb.run(&world),
            Verb::Up(verb) => verb.run(&world),
            Verb::Doctor(verb) => verb.run(&world),
            Verb::Events(verb) => verb.run(&world),
            Verb::Tmux(verb) => verb.run(&world),
            Verb::Daemon(verb) => verb.run(&world),
            Verb::Config(verb) => verb.run(&world),
            // `main` has taken every real call already.
            Verb::Hook(_) => Ok(ExitCode::FAILURE),
            Verb::Completions(verb) => verb.run(),
        }
    }
}
