//! A world with a given number of stored events, which are sent through the socket.

use anyhow::{Result, bail};

use crate::client::{Crowd, Until};
use crate::event::Frames;
use crate::world::{Daemon, Programs, World};

/// The number of connections that send the events.
const CONNECTIONS: usize = 100;

/// A world whose database contains events.
#[derive(Debug)]
pub struct FilledWorld {
    pub frames: Frames,
    // The daemon is dropped before the world, because it ends before its folder is deleted.
    pub daemon: Daemon,
    pub world: World,
}

impl FilledWorld {
    /// Makes a world with this number of stored events.
    pub fn new(programs: &Programs, stored: usize) -> Result<Self> {
        let world = World::new(programs)?;
        // Retention must not drop the events that are measured.
        std::fs::create_dir_all(world.place.home())?;
        std::fs::write(world.place.config(), "[store]\nkeep_bytes = \"1TiB\"\n")?;
        let daemon = world.daemon()?;
        let mut frames = Frames::new(&world.place)?;
        let mut crowd = Crowd::connect(&world.socket(), CONNECTIONS)?;
        let mut left = stored;
        while left > 0 {
            let part = left.min(100_000);
            let result = crowd.send(&mut frames, Until::Count(part))?;
            if result.refused > 0 {
                bail!("{} events were refused while filling", result.refused);
            }
            left -= part;
            eprint!("\r{} of {stored} events ", stored - left);
        }
        eprintln!();
        let status = daemon.client()?.status()?;
        if status.events != stored as u64 || !status.troubles.is_empty() {
            bail!(
                "{} of {stored} events are stored; {:?}",
                status.events,
                status.troubles
            );
        }
        Ok(Self {
            frames,
            daemon,
            world,
        })
    }
}
