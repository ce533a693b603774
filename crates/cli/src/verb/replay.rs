//! `becket replay`: a recorded session once more, in the live view or through one hook.

use std::process::ExitCode;

use anyhow::Result;

use super::demo::speed;
use crate::demo::{Player, Stage};
use crate::replay::{Recording, hook};
use crate::tui;
use crate::ui::text::count;
use crate::world::{World, the_session};

/// Play a recorded session again in the live view, or run its events through one hook
#[derive(Debug, clap::Args)]
pub struct Replay {
    /// The session: any unique beginning of its id, or its title (inside Claude Code: its own)
    #[arg(value_name = "ID")]
    session: Option<String>,
    /// Play so many times faster than it was
    #[arg(long, value_name = "N", default_value_t = 4.0, value_parser = speed)]
    speed: f64,
    /// Print the events as lines instead of opening the live view
    #[arg(long)]
    plain: bool,
    /// Run the events through this hook instead: its name, or a part that only it has
    #[arg(long, value_name = "NAME", conflicts_with_all = ["speed", "plain"])]
    hook: Option<String>,
    /// Print JSON
    #[arg(long, requires = "hook")]
    json: bool,
}

impl Replay {
    pub fn run(self, world: &World) -> Result<ExitCode> {
        let meant = the_session(self.session)?;
        let recording = Recording::read(world, &meant)?;
        if let Some(typed) = &self.hook {
            return hook::run(world, recording, typed, self.json);
        }
        if recording.left_out > 0 {
            let events = count(recording.left_out, "event is", "events are");
            anstream::eprintln!("warning: {events} left out: the payload is not kept any more");
        }
        let mut beats = recording.beats();
        let stage = Stage::build(world)?;
        let player = Player::new(&stage.world, "replay", self.speed);
        if self.plain || !tui::suits_terminal() {
            player.print(&beats)?;
            println!("{} replayed.", count(beats.len(), "event", "events"));
        } else {
            // The view lists no session that has ended.
            beats.pop_if(|beat| beat.is("SessionEnd"));
            player.show(&beats)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
