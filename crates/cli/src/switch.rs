//! The switch on the command line: which session is meant, which hooks its project has, and what
//! was asked, done by the same hands that answer the slash commands.

mod meant;

use std::io::{self, Read};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result};
use becket_engine::hooks::Hook;
use becket_engine::hooks::slash::{Acted, Scene, Verb, act};

pub use meant::Meant;

use crate::ui::style::WARN;
use crate::world::World;

/// Nobody's hook has a longer name.
const LONGEST: u64 = 64 << 10;

/// What `disable` and `enable` take.
#[derive(Debug, clap::Args)]
pub struct SwitchArgs {
    /// The hook: its name, or a part that only it has; - reads it from stdin (default: list them)
    #[arg(value_name = "NAME")]
    hook: Option<String>,
    /// The session: any unique beginning of its id, or its title (inside Claude Code: its own)
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// For slash commands: exit with 0 whatever happens
    #[arg(long)]
    slash: bool,
}

impl SwitchArgs {
    pub fn run(self, verb: Verb, world: &World) -> Result<ExitCode> {
        let slash = self.slash;
        match self.act(verb, world) {
            Ok(acted) => {
                println!("{}", acted.lines);
                let code = if slash { 0 } else { acted.exit };
                Ok(ExitCode::from(code))
            }
            // What a slash command prints is read by a person all the same.
            Err(error) if slash => {
                println!("❌ {error:#}");
                Ok(ExitCode::SUCCESS)
            }
            Err(error) => Err(error),
        }
    }

    fn act(self, verb: Verb, world: &World) -> Result<Acted> {
        let name = name(self.hook)?;
        let meant = Meant::find(world, self.session.as_deref())?;
        let hooks = hooks_of(world, &meant);
        let scene = Scene {
            place: &world.place,
            session: &meant.session,
            cwd: &world.cwd,
            agent_type: meant.agent_type.as_deref(),
            hooks: &hooks,
        };
        Ok(act(verb, &name, &scene))
    }
}

/// Those that the config names, for the project in which that session works.
pub fn hooks_of(world: &World, meant: &Meant) -> Vec<Arc<Hook>> {
    configured(world, &meant.project)
}

/// The hooks that the config names for a project. What is wrong with it is told: a hook that is not
/// there may be one that does not count.
pub fn configured(world: &World, project: &Path) -> Vec<Arc<Hook>> {
    let config = world.loader(Some(project)).current();
    for error in config.errors() {
        let said = error.to_string();
        let first = said.lines().next().unwrap_or_default();
        anstream::eprintln!("{WARN}warning:{WARN:#} {first} (`becket config check` shows it)");
    }
    config.hooks.clone()
}

/// The name as it was typed, or as stdin has it; empty if there is none.
pub fn name(typed: Option<String>) -> Result<String> {
    let typed = typed.unwrap_or_default();
    if typed != "-" {
        return Ok(typed.trim().to_owned());
    }
    let mut text = String::new();
    let mut stdin = io::stdin().lock().take(LONGEST);
    let read = stdin.read_to_string(&mut text);
    read.context("could not read the name from stdin")?;
    Ok(text.trim().to_owned())
}
