use crate::world::World;
use anyhow::Result;
use std::process::ExitCode;

/// Init
#[derive(Debug, clap::Args)]
pub struct Init {}

impl Init {
    pub fn run(self, _world: &World) -> Result<ExitCode> {
        Ok(ExitCode::SUCCESS)
    }
}
