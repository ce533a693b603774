//! The log without a daemon: database and spool, read and not written.

use std::collections::HashMap;

use anyhow::{Context, Result};
use becket_daemon::store::{self, Record, spool};
use becket_engine::mask::Masker;
use becket_wire::EventId;
use becket_wire::rpc::{AskReply, EventQuery, EventRow, complete_session};

use crate::failure::{Code, Failure};
use crate::world::World;

/// The events that are asked for, oldest first.
pub fn read(world: &World, mut query: EventQuery) -> Result<Vec<EventRow>> {
    let mut rows = Vec::new();
    let database = store::open_to_read(&world.place.database())?;
    let spooled = spool::read_all(&world.place, &masker(world));
    if let Some(prefix) = query.session.take() {
        query.session = Some(complete(&prefix, database.as_ref(), &spooled)?);
    }
    if let Some(connection) = &database {
        store::find(connection, &query, &mut |row| {
            rows.push(row);
            true
        })
        .context("could not read the log")?;
    }
    let known = rows.iter().enumerate().map(|(at, row)| (row.id, at));
    let known: HashMap<EventId, usize> = known.collect();
    for record in &spooled {
        if let Some(at) = known.get(&record.id()) {
            record.complete_row(&mut rows[*at]);
            continue;
        }
        // What lies in the spool has no seq yet: it comes after everything.
        let row = EventRow {
            seq: i64::MAX,
            ..record.to_row()
        };
        rows.extend(Some(row).filter(|row| query.wants(row)));
    }
    rows.sort_by_key(|row| (row.at, row.seq));
    let skip = query
        .limit
        .map_or(0, |limit| rows.len().saturating_sub(limit as usize));
    rows.drain(..skip);
    Ok(rows)
}

pub fn masker(world: &World) -> Masker {
    let config = world.loader(None).current();
    let key = store::existing_mask_key(&world.place).unwrap_or_default();
    Masker::from_config(key, &config.config)
}

/// The one session whose id begins so, of those that the log knows.
pub fn complete(
    prefix: &str,
    database: Option<&rusqlite::Connection>,
    spooled: &[Record],
) -> Result<String> {
    let mut found = match database {
        Some(connection) => store::sessions_like(connection, prefix)?,
        None => Vec::new(),
    };
    found.extend(
        spooled
            .iter()
            .filter_map(|record| record.to_row().session_id),
    );
    complete_session(prefix, found.iter().map(String::as_str)).map_err(refusal)
}

/// The one event whose id begins so.
pub fn event_id(world: &World, prefix: &str) -> Result<EventId> {
    // The spool first: an event that is taken in meanwhile is found in the database.
    let spooled = spool::read_all(&world.place, &masker(world));
    let mut found = Vec::new();
    if let Some((first, last)) = EventId::beginning(prefix) {
        if let Some(connection) = store::open_to_read(&world.place.database())? {
            found = store::events_between(&connection, (first, last))
                .context("could not read the log")?;
        }
        let ids = spooled.iter().map(Record::id);
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

/// Why there is nothing to read.
pub fn refusal(told: AskReply) -> anyhow::Error {
    match told {
        AskReply::NoSuchSession(prefix) => Failure::new(
            Code::Missing,
            format!("no session has an id that begins with `{prefix}`"),
        )
        .hint("becket sessions --all shows the ids"),
        AskReply::Ambiguous(ids) => Failure::new(
            Code::Usage,
            "several sessions have an id that begins like this",
        )
        .hint(format!("one of: {}", ids.join(", "))),
        AskReply::No(why) => Failure::new(Code::Failed, why),
        other => Failure::new(
            Code::Failed,
            format!("unexpected reply from the daemon: {other:?}"),
        ),
    }
    .into()
}
