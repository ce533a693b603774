//! The log without a daemon: database and spool, read and not written.

use std::collections::{HashMap, HashSet};

use anyhow::{Context, Result};
use becket_daemon::store::spool::{Amendment, Spooled};
use becket_daemon::store::{self, Record};
use becket_engine::mask::Masker;
use becket_wire::EventId;
use becket_wire::rpc::{EventQuery, EventRow, Told};

use crate::failure::{Code, Failure};
use crate::world::World;

/// The events that are asked for, oldest first.
pub fn read(world: &World, mut query: EventQuery) -> Result<Vec<EventRow>> {
    let mut rows = Vec::new();
    let database = store::open_to_read(&world.place.database())?;
    let (spooled, later) = read_spool(world, database.as_ref());
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
    if let Some(connection) = &database {
        let inbox = store::in_inbox(connection, &masker(world)).unwrap_or_default();
        rows.extend(
            inbox
                .iter()
                .map(Record::to_row)
                .filter(|row| query.wants(row)),
        );
    }
    let mut known: HashMap<EventId, usize> = HashMap::new();
    known.extend(rows.iter().enumerate().map(|(at, row)| (row.id, at)));
    for amendment in &later {
        if let Some(at) = known.get(&amendment.id) {
            amendment.complete(&mut rows[*at]);
        }
    }
    rows.extend(
        spooled
            .into_iter()
            .filter(|row| query.wants(row) && !known.contains_key(&row.id)),
    );
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

/// What lies in the spool, as the log will tell it, and all that is said there of events which the log
/// may have. What lies there has no seq yet: it comes after everything.
fn read_spool(
    world: &World,
    database: Option<&rusqlite::Connection>,
) -> (Vec<EventRow>, Vec<Amendment>) {
    let Spooled { events, later } = Spooled::read(&world.place, &masker(world));
    let here: HashSet<EventId> = events.iter().map(Record::id).collect();
    let seq_of = |first: EventId| match here.contains(&first) {
        true => Some(i64::MAX),
        false => seq_in(database?, first),
    };
    let row = |record: &Record| EventRow {
        seq: i64::MAX,
        duplicate_of: record.double_of().and_then(seq_of),
        ..record.to_row()
    };
    let again = events.iter().map(Record::as_amendment);
    let later = again.chain(later).collect();
    (events.iter().map(row).collect(), later)
}

fn seq_in(database: &rusqlite::Connection, id: EventId) -> Option<i64> {
    let query = EventQuery {
        id: Some(id),
        duplicates: true,
        ..EventQuery::default()
    };
    let mut seq = None;
    let found = store::find(database, &query, &mut |row| {
        seq = Some(row.seq);
        false
    });
    found.ok().and(seq)
}

/// The one session whose id begins so, of those that the log knows.
pub fn complete(
    prefix: &str,
    database: Option<&rusqlite::Connection>,
    spooled: &[EventRow],
) -> Result<String> {
    let mut found = match database {
        Some(connection) => store::sessions_like(connection, prefix)?,
        None => Vec::new(),
    };
    found.extend(
        spooled
            .iter()
            .filter_map(|row| row.session_id.clone())
            .filter(|id| id.starts_with(prefix)),
    );
    found.sort();
    found.dedup();
    match found.len() {
        0 => Err(refusal(Told::NoSuchSession(prefix.to_owned()))),
        1 => Ok(found.remove(0)),
        _ if found.iter().any(|id| id == prefix) => Ok(prefix.to_owned()),
        _ => Err(refusal(Told::Ambiguous(found))),
    }
}

/// Why there is nothing to read.
pub fn refusal(told: Told) -> anyhow::Error {
    match told {
        Told::NoSuchSession(prefix) => Failure::new(
            Code::Missing,
            format!("no session has an id that begins with `{prefix}`"),
        )
        .hint("becket sessions --all shows the ids"),
        Told::Ambiguous(ids) => {
            Failure::new(Code::Usage, "several sessions have an id that begins so")
                .hint(format!("one of: {}", ids.join(", ")))
        }
        Told::No(why) => Failure::new(Code::Failed, why),
        other => Failure::new(
            Code::Failed,
            format!("the daemon said something else: {other:?}"),
        ),
    }
    .into()
}
