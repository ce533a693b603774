//! `becket disable`: a hook off, for one session.

use std::process::ExitCode;

use anyhow::Result;
use becket_engine::hooks::slash::Verb;

use crate::switch::SwitchArgs;
use crate::world::World;

/// Switch a hook off for one session
///
/// Nothing but this session is concerned, and no config is changed. Without a name: the hooks that
/// this project's config names, and which of them do not run.
#[derive(Debug, clap::Args)]
pub struct Disable {
    #[command(flatten)]
    switch: SwitchArgs,
}

impl Disable {
    pub fn run(self, world: &World) -> Result<ExitCode> {
        self.switch.run(Verb::Disable, world)
    }
}
