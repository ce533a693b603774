//! `becket demo`: plays a day of several sessions in a throw-away home.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};

use super::view;
use crate::demo::{self, Player, Stage};
use crate::failure::{Code, Failure};
use crate::tui;
use crate::world::World;

/// Show a made-up day of several sessions in a throw-away home
#[derive(Debug, clap::Args)]
pub struct DemoArgs {
    /// Play N times as fast as it happened
    #[arg(long, value_name = "N", default_value_t = 4.0, value_parser = speed)]
    speed: f64,
    /// Print the events as lines instead of opening the live view
    #[arg(long)]
    plain: bool,
    /// Draw the view at the end of the day into this file instead
    #[arg(long, value_name = "FILE", conflicts_with = "plain")]
    svg: Option<PathBuf>,
}

pub(super) fn speed(text: &str) -> Result<f64, String> {
    let speed = text.parse::<f64>().ok();
    let speed = speed.filter(|speed| (0.1..=10_000.0).contains(speed));
    speed.ok_or_else(|| "not a number from 0.1 to 10000".to_owned())
}

impl DemoArgs {
    pub fn run(self, world: &World) -> Result<ExitCode> {
        if let Some(file) = &self.svg {
            return draw(file);
        }
        if !self.plain && !tui::suits_terminal() {
            let why = "the live view needs a terminal";
            let failure = Failure::new(Code::Usage, why).hint("becket demo --plain");
            return Err(failure.into());
        }
        let beats = demo::day()?;
        let stage = Stage::build(world)?;
        let player = Player::new(&stage.world, "demo", self.speed);
        if self.plain {
            player.print(&beats)?;
            println!("{}", view::summary(&stage.world));
        } else {
            player.show(&beats)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn draw(file: &Path) -> Result<ExitCode> {
    let picture = demo::picture()?;
    std::fs::write(file, picture).with_context(|| format!("could not write {}", file.display()))?;
    Ok(ExitCode::SUCCESS)
}
