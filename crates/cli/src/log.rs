//! Reads the log of events from database and spool, without a daemon and without writing to them.

use std::collections::HashMap;

use anyhow::{Context, Result};
use becket_daemon::store::{self, EventRecord, spool};
use becket_engine::mask::Masker;
use becket_wire::EventId;
use becket_wire::rpc::{EventQuery, EventRow, complete_session};

use crate::client;
use crate::failure::{Code, Failure};
use crate::world::World;

/// Returns the events that match the query, oldest first.
pub fn read(world: &World, mut query: EventQuery) -> Result<Vec<EventRow>> {
    let mut rows = Vec::new();
    let database = store::open_to_read(&world.place.database())?;
    let spooled = spool::read_all(&world.place, &masker(world));
    if let Some(prefix) = query.session.take() {
        query.session = Some(complete(&prefix, database.as_ref(), &spooled)?);
    }
    if let Some(connection) = &database {
        store::find_events(connection, &query, &mut |row| {
            rows.push(row);
            true
        })
        .context("could not read the log")?;
    }
    let positions: HashMap<EventId, usize> = rows.iter().map(|row| row.id).zip(0..).collect();
    for record in &spooled {
        if let Some(at) = positions.get(&record.id()) {
            record.complete_row(&mut rows[*at]);
            continue;
        }
        // A spooled event has no number yet: it comes after all others.
        let row = EventRow {
            seq: i64::MAX,
            ..record.to_row()
        };
        rows.extend(Some(row).filter(|row| query.wants(row)));
    }
    rows.sort_by_key(|row| (row.at, row.seq));
    let most = query.limit.map_or(usize::MAX, |limit| limit as usize);
    rows.drain(..rows.len().saturating_sub(most));
    Ok(rows)
}

/// Makes the masker of the current config and key.
pub fn masker(world: &World) -> Masker {
    let config = world.loader(None).current();
    let key = store::existing_mask_key(&world.place).unwrap_or_default();
    Masker::from_config(key, &config.config)
}

/// Returns the only session of the log whose id begins with `prefix`.
pub fn complete(
    prefix: &str,
    database: Option<&rusqlite::Connection>,
    spooled: &[EventRecord],
) -> Result<String> {
    let mut found = match database {
        Some(connection) => store::sessions_like(connection, prefix)?,
        None => Vec::new(),
    };
    let rows = spooled.iter().map(EventRecord::to_row);
    found.extend(rows.filter_map(|row| row.session_id));
    complete_session(prefix, found.iter().map(String::as_str)).map_err(client::refusal)
}

/// Returns the only event whose id begins with `prefix`.
pub fn event_id(world: &World, prefix: &str) -> Result<EventId> {
    // The spool is read first: an event that the daemon takes in meanwhile is then found in the database.
    let spooled = spool::read_all(&world.place, &masker(world));
    let mut found = Vec::new();
    if let Some((first, last)) = EventId::beginning(prefix) {
        if let Some(connection) = store::open_to_read(&world.place.database())? {
            found = store::events_between(&connection, (first, last))
                .context("could not read the log")?;
        }
        let ids = spooled.iter().map(EventRecord::id);
        found.extend(ids.filter(|id| (first..=last).contains(id)));
    }
    found.sort();
    found.dedup();
    match found[..] {
        [id] => Ok(id),
        [] => {
            let what = format!("no event has an id that begins with `{prefix}`");
            let failure = Failure::new(Code::Missing, what);
            Err(failure.hint("becket events shows the ids").into())
        }
        _ => {
            let what = format!("several events have an id that begins with `{prefix}`");
            let ids: Vec<String> = found.iter().map(ToString::to_string).collect();
            let failure = Failure::new(Code::Usage, what);
            Err(failure.hint(format!("one of: {}", ids.join(", "))).into())
        }
    }
}
