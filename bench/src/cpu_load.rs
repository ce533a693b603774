//! Keeps cores busy with other work during a measurement.

use std::os::unix::process::parent_id;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Load {
    Idle,
    OneCore,
    All,
}

impl Load {
    pub const ALL: [Self; 3] = [Self::Idle, Self::OneCore, Self::All];

    pub fn from_name(name: &str) -> Result<Self> {
        match name {
            "idle" => Ok(Self::Idle),
            "one" => Ok(Self::OneCore),
            "all" => Ok(Self::All),
            _ => bail!("there is no load `{name}`: idle, one, all"),
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::OneCore => "one core busy",
            Self::All => "all cores busy",
        }
    }

    fn cores(self) -> usize {
        match self {
            Self::Idle => 0,
            Self::OneCore => 1,
            Self::All => cores(),
        }
    }
}

pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, Into::into)
}

/// Processes that keep cores busy until they are dropped.
#[derive(Debug)]
pub struct Spinners(Vec<Child>);

impl Spinners {
    pub fn start(load: Load) -> Result<Self> {
        let myself = std::env::current_exe().context("could not find this program")?;
        let mut spinners = Self(Vec::new());
        for _ in 0..load.cores() {
            let spinner = Command::new(&myself)
                .arg("spin")
                .env_clear()
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .spawn()
                .context("could not start a spinner")?;
            spinners.0.push(spinner);
        }
        Ok(spinners)
    }
}

impl Drop for Spinners {
    fn drop(&mut self) {
        for spinner in &mut self.0 {
            drop(spinner.kill());
            drop(spinner.wait());
        }
    }
}

/// Spins until the parent process has ended.
pub fn spin() {
    let parent = parent_id();
    while parent_id() == parent {
        for turn in 0..50_000_000_u64 {
            std::hint::black_box(turn);
        }
    }
}
