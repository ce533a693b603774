//! The sessions without a daemon: as the database has them, read and not written.

use anyhow::Result;
use becket_wire::session::{SessionQuery, SessionRow};

use crate::world::World;

/// The sessions that are asked for. The database keeps none yet.
pub fn sessions_without_daemon(_world: &World, _query: &SessionQuery) -> Result<Vec<SessionRow>> {
    Ok(Vec::new())
}
