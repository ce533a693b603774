//! A world with so many events stored, put there through the socket.

use anyhow::{Result, bail};

use crate::client::{Crowd, Until};
use crate::event::Frames;
use crate::world::{Daemon, Programs, World};

/// So many connections fill it.
const FILLERS: usize = 100;

#[derive(Debug)]
pub struct Filled {
    pub frames: Frames,
    // The world goes last: the daemon ends before its folder does.
    pub daemon: Daemon,
    pub world: World,
}

pub fn fill(programs: &Programs, stored: usize) -> Result<Filled> {
    let world = World::new(programs)?;
    // Retention must not drop what is being measured.
    std::fs::create_dir_all(world.place.home())?;
    std::fs::write(world.place.config(), "[store]\nkeep_bytes = \"1TiB\"\n")?;
    let daemon = world.daemon()?;
    let mut frames = Frames::new(&world.place)?;
    let mut crowd = Crowd::connect(&world.socket(), FILLERS)?;
    let mut left = stored;
    while left > 0 {
        let part = left.min(100_000);
        let seen = crowd.send(&mut frames, Until::Count(part))?;
        if seen.refused > 0 {
            bail!("{} events were refused while filling", seen.refused);
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
    Ok(Filled {
        frames,
        daemon,
        world,
    })
}
