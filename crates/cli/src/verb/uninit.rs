use crate::world::World;
use anyhow::Result;
use std::process::ExitCode;

/// Uninit
#[derive(Debug, clap::Args)]
pub struct Uninit {}

impl Uninit {
    pub fn run(self, _world: &World) -> Result<ExitCode> {
        Ok(ExitCode::SUCCESS)
    }
}
