//! The sessions without a daemon: as the database has them, read and not written.

use anyhow::{Context, Result};
use becket_daemon::life::now_ms;
use becket_daemon::store::{self, Which};
use becket_wire::rpc::complete_session;
use becket_wire::session::{SessionQuery, SessionRow};

use crate::client;
use crate::world::World;

/// So many ended ones, unless more are asked for.
const ENDED: u32 = 200;

/// The sessions that are asked for.
pub fn sessions_without_daemon(world: &World, query: &SessionQuery) -> Result<Vec<SessionRow>> {
    let mut found = match store::open_to_read(&world.place.database())? {
        Some(connection) => read(&connection, query).context("could not read the sessions")?,
        None => Vec::new(),
    };
    let Some(prefix) = &query.session else {
        return Ok(found);
    };
    let id = complete_session(prefix, found.iter().map(|row| &*row.session_id));
    let id = id.map_err(client::refusal)?;
    found.retain(|row| row.session_id == id);
    Ok(found)
}

fn read(
    connection: &rusqlite::Connection,
    query: &SessionQuery,
) -> rusqlite::Result<Vec<SessionRow>> {
    let mut sessions = match &query.session {
        Some(prefix) => store::sessions(connection, Which::Like(prefix))?,
        None => store::sessions(connection, Which::Live)?,
    };
    if query.all && query.session.is_none() {
        let limit = query.limit.unwrap_or(ENDED);
        sessions.extend(store::sessions(connection, Which::Ended(limit))?);
    }
    let now = now_ms();
    let mut rows: Vec<SessionRow> = sessions.iter().map(|session| session.row(now)).collect();
    rows.sort_by_key(|row| (row.ended_at.is_some(), row.display));
    Ok(rows)
}
