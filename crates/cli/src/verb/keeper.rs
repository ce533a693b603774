//! `becket keeper`: keeps the clocks of hooks whose runner was killed. Whoever runs hooks starts it
//! beside themselves and tells it on stdin what runs.

use std::fs::File;
use std::io::BufReader;
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use becket_engine::run::{Calm, keep};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::world::World;

/// End hooks in their time when the daemon that ran them was killed
#[derive(Debug, clap::Args)]
#[command(hide = true)]
pub struct Keeper {
    /// Whoever tells what runs
    #[arg(long, value_name = "PID")]
    of: Option<i32>,
}

impl Keeper {
    pub fn run(self, _: &World) -> Result<ExitCode> {
        stay();
        // Not through std's own buffer: what waits in that, no poll tells.
        let stdin = File::from(std::io::stdin().as_fd().try_clone_to_owned()?);
        let told = BufReader::with_capacity(64 << 10, Calm(stdin));
        keep(told, self.of, |_| ());
        Ok(ExitCode::SUCCESS)
    }
}

/// Whoever asks all of becket to go means the daemon: what that runs would have nobody then. We go when
/// there is nothing to keep.
fn stay() {
    for signal in [SIGTERM, SIGHUP, SIGINT] {
        // Where they cannot be heard they do what they always do.
        drop(signal_hook::flag::register(signal, Arc::default()));
    }
}
