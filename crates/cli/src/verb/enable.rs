//! `becket enable`: a hook on again, for one session.

use std::process::ExitCode;

use anyhow::Result;
use becket_engine::hooks::slash::Verb;

use crate::switch::SwitchArgs;
use crate::world::World;

/// Switch a hook on again for one session
///
/// Takes `becket disable` back. A hook that the config switches off stays off: what switches it off
/// is said. Without a name: the hooks that this project's config names, and which of them do not run.
#[derive(Debug, clap::Args)]
pub struct Enable {
    #[command(flatten)]
    switch: SwitchArgs,
}

impl Enable {
    pub fn run(self, world: &World) -> Result<ExitCode> {
        self.switch.run(Verb::Enable, world)
    }
}
