//! What lies in the spool, read and not changed.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use becket_engine::config::ask_to_mask;
use becket_engine::mask::Masker;
use becket_wire::frame::{Decoder, HEAD, Kind, MAX_BODY};
use becket_wire::rpc::{EventRow, Request, Source};
use becket_wire::{EventId, Head, Place};

use super::super::open;
use super::super::record::{self, Decision, Record};
use super::Left;

/// An event and what was decided: a frame each.
const MAX_FILE: u64 = 2 * (HEAD + MAX_BODY) as u64;

/// What was said later of an event.
#[derive(Debug, Clone)]
pub struct Amendment {
    pub id: EventId,
    pub left: Left,
}

impl Amendment {
    /// Tells the event as the log will.
    pub fn complete(&self, row: &mut EventRow) {
        let Left {
            took_us,
            decision,
            source,
            ..
        } = &self.left;
        if row.id == self.id && self.left.completes(row.took_us, row.source) {
            (row.took_us, row.source) = (*took_us, *source);
            row.decision = decision.as_ref().map(Decision::to_row);
        }
    }
}

impl Record {
    /// What this one says, if the log has its event already: whoever died over it had kept it.
    pub fn as_amendment(&self) -> Amendment {
        Amendment {
            id: self.id(),
            left: Left::of(self, ""),
        }
    }
}

/// The spool, as whoever has no daemon reads it.
#[derive(Debug, Default)]
pub struct Spooled {
    /// The events, oldest first, with all that was said of them.
    pub events: Vec<Record>,
    /// What was said of others.
    pub later: Vec<Amendment>,
}

impl Spooled {
    pub fn read(place: &Place, masker: &Masker) -> Self {
        let mut later = amendments(place);
        let mut events = Vec::new();
        for (id, path) in waiting(place) {
            let Ok(Some(mut record)) = read(&path, masker) else {
                continue;
            };
            for path in later.remove(&id).unwrap_or_default() {
                let left = read_amendment(&path).ok().flatten();
                left.into_iter().for_each(|left| record.amend(left));
            }
            events.push(record);
        }
        let rest = later.into_iter().flat_map(|(id, paths)| {
            let read = |path: PathBuf| read_amendment(&path).ok().flatten();
            let left = paths.into_iter().filter_map(read);
            left.map(move |left| Amendment { id, left })
        });
        Self {
            events,
            later: rest.collect(),
        }
    }
}

/// Whether an event lies in the spool or in the log. What cannot be read is not known to.
pub fn is_kept(place: &Place, id: EventId) -> bool {
    // In this order: the file is removed after the commit.
    if place.spooled(id).exists() {
        return true;
    }
    let database = open::open_to_read(&place.database()).ok().flatten();
    database.is_some_and(|log| record::is_known(&log, id).unwrap_or(false))
}

/// The spooled events, oldest first.
pub(super) fn waiting(place: &Place) -> Vec<(EventId, PathBuf)> {
    let mut found = files(place, |name| name.strip_suffix(".ev"));
    found.sort();
    found
}

/// What was said later, by event.
pub(super) fn amendments(place: &Place) -> BTreeMap<EventId, Vec<PathBuf>> {
    let mut found: BTreeMap<_, Vec<_>> = BTreeMap::new();
    let of_events = files(place, |name| {
        Some(name.strip_suffix(".left")?.split_once('.')?.0)
    });
    for (id, path) in of_events {
        found.entry(id).or_default().push(path);
    }
    found
}

/// What somebody writes, or was killed over.
pub(super) fn unfinished(place: &Place) -> Vec<PathBuf> {
    let found = files(place, |name| name.strip_suffix(".tmp")?.split('.').next());
    found.into_iter().map(|(_, path)| path).collect()
}

/// The files whose names hold an event's id where `id` looks for it.
fn files(place: &Place, id: impl Fn(&str) -> Option<&str>) -> Vec<(EventId, PathBuf)> {
    let Ok(entries) = fs::read_dir(place.spool()) else {
        return Vec::new();
    };
    let entries = entries.flatten().map(|entry| entry.path());
    let found = entries.filter_map(|path| {
        let id = id(path.file_name()?.to_str()?)?.parse().ok()?;
        Some((id, path))
    });
    found.collect()
}

/// Reads one spooled event. None means that it is no spool file of ours, or not a whole one.
pub(super) fn read(path: &Path, masker: &Masker) -> io::Result<Option<Record>> {
    Ok(contents(path)?.and_then(|bytes| decode(&bytes, masker)))
}

/// Reads what was said later of an event. None means that it is not that, or not all of it.
pub(super) fn read_amendment(path: &Path) -> io::Result<Option<Left>> {
    let left = |bytes: Vec<u8>| {
        let mut decoder = Decoder::new();
        decoder.push(&bytes);
        next_left(&mut decoder)
    };
    Ok(contents(path)?.and_then(left))
}

fn next_left(decoder: &mut Decoder) -> Option<Left> {
    let frame = decoder.next_frame().ok().flatten();
    let frame = frame.filter(|frame| frame.kind == Kind::LEFT)?;
    serde_json::from_slice(&frame.body).ok()
}

/// Reads the frames of a spool file.
pub(in crate::store) fn decode(bytes: &[u8], masker: &Masker) -> Option<Record> {
    let mut decoder = Decoder::new();
    decoder.push(bytes);
    let first = decoder.next_frame().ok()??;
    let Ok(Request::Event(event)) = Request::from_frame(first) else {
        return None;
    };
    let left = next_left(&mut decoder);
    // The shim leaves a bare frame when it finds no becket; nobody masked that one.
    let masked = match left.is_none() && ask_to_mask(&event.envelope.variables) {
        true => masker.mask_anyway(&event.payload),
        false => masker.mask(&event.payload),
    };
    let count = masked.count + left.as_ref().map_or(0, |left| left.masked);
    let source = left.as_ref().map_or(Source::Alone, |left| left.source);
    let head = Head::read(&event.payload);
    let mut record = Record::new(0, event.envelope, &head, masked.bytes, count, source);
    if let Some(left) = left {
        record.detour = left.detour().map(str::to_owned);
        record.took_us = left.took_us;
        record.decision = left.decision;
        record.runs = left.runs;
        record.double_of = left.double_of;
        record.held = left.held;
    }
    Some(record)
}

/// What stands in a plain file that is not too long to be one of ours. A pipe or a device in its
/// place would hold whoever reads it for ever.
fn contents(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let meta = fs::symlink_metadata(path)?;
    if meta.is_file() && meta.len() <= MAX_FILE {
        fs::read(path).map(Some)
    } else {
        Ok(None)
    }
}
