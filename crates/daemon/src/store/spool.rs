//! The spool: events that no daemon has stored yet, each in a file of its own, left by the shim, by
//! `becket hook` or by a daemon whose database took nothing. A daemon takes them in: insert, commit,
//! unlink. Each goes in once, whichever process dies in between.
//!
//! A file holds the event's frame and what is known of it besides. `ID.ev` is rewritten by a rename
//! when more is known; intake renames it first (`ID.1.ev`), so that it removes only what it has read.
//! `ID.more-PID-N.ev` adds to an event that another process may have left or stored.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use becket_engine::config::ask_to_mask;
use becket_engine::mask::Masker;
use becket_wire::frame::{self, Decoder, HEAD, Kind, MAX_BODY};
use becket_wire::rpc::{Envelope, Request, RpcError, Source, encode_event};
use becket_wire::run::RunRow;
use becket_wire::{EventId, Head, Place};
use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::record::{Decision, Record, Written};
use super::session;
use super::write::{Apply, Brought, LetThrough};

/// The bounds of the spool. Past them, events are refused and counted.
const MAX_FILES: usize = 100_000;
const MAX_BYTES: u64 = 1 << 30;
/// An event and what is known besides: a frame each.
const MAX_FILE: u64 = 2 * (HEAD + MAX_BODY) as u64;
/// What one transaction takes in at the most.
const GROUP_FILES: usize = 256;
const GROUP_BYTES: u64 = 64 << 20;
/// How long an unfinished file waits for its writer.
const PATIENCE: Duration = Duration::from_secs(60);

/// What is known of an event besides its frame.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Left {
    pub took_us: Option<i64>,
    pub decision: Option<Decision>,
    pub masked: u32,
    pub source: Source,
    /// Why no daemon had it.
    pub why: String,
    /// What the named hooks did.
    #[serde(default)]
    pub runs: Vec<RunRow>,
    /// Its hooks run now: the file is rewritten when they have.
    #[serde(default)]
    pub held: bool,
}

impl Left {
    /// What hooks did, and nothing else.
    pub fn of_runs(runs: Vec<RunRow>) -> Self {
        Self {
            took_us: None,
            decision: None,
            masked: 0,
            source: Source::Alone,
            why: String::new(),
            runs,
            held: false,
        }
    }

    /// What is known of a record.
    pub(crate) fn of(record: &Record, why: &str) -> Self {
        Self {
            took_us: record.took_us,
            decision: record.decision.clone(),
            masked: u32::try_from(record.masked()).unwrap_or(u32::MAX),
            source: record.source,
            why: why.to_owned(),
            runs: record.runs.clone(),
            held: false,
        }
    }
}

#[derive(Debug, Error)]
pub enum SpoolError {
    #[error("the spool is full ({files} files, {bytes} bytes)")]
    Full { files: usize, bytes: u64 },
    #[error("could not write to the spool {path}: {why}")]
    Write { path: PathBuf, why: io::Error },
    #[error("could not pack the event: {0}")]
    Pack(RpcError),
}

/// Leaves an event for the next daemon, or rewrites what was left of it. `payload` is masked already.
pub fn leave(
    place: &Place,
    envelope: &Envelope,
    payload: &[u8],
    left: &Left,
) -> Result<(), SpoolError> {
    put(place, &place.spooled(envelope.id), envelope, payload, left)
}

/// Leaves an event that another process may have left or stored: this one adds to it.
pub fn add(
    place: &Place,
    envelope: &Envelope,
    payload: &[u8],
    left: &Left,
) -> Result<(), SpoolError> {
    static NTH: AtomicU32 = AtomicU32::new(0);
    let nth = NTH.fetch_add(1, Ordering::Relaxed);
    let name = format!("{}.more-{}-{nth}.ev", envelope.id, std::process::id());
    put(place, &place.spool().join(name), envelope, payload, left)
}

/// Puts a file in its place, unless the spool is full.
fn put(
    place: &Place,
    last: &Path,
    envelope: &Envelope,
    payload: &[u8],
    left: &Left,
) -> Result<(), SpoolError> {
    let folder = place.spool();
    let failed = |why| SpoolError::Write {
        path: folder.clone(),
        why,
    };
    private_folder(&folder).map_err(failed)?;
    if let Err(full) = room(&folder) {
        count_refusal(place);
        return Err(full);
    }
    let bytes = pack(envelope, payload, left).map_err(SpoolError::Pack)?;
    let temp = last.with_extension(format!("{}.tmp", std::process::id()));
    let write = || {
        let mut file = OpenOptions::new()
            .create(true)
            .truncate(true)
            .write(true)
            .mode(0o600)
            .open(&temp)?;
        file.write_all(&bytes)?;
        drop(file);
        fs::rename(&temp, last)
    };
    write().map_err(|why| {
        drop(fs::remove_file(&temp));
        failed(why)
    })
}

fn private_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// The two frames of a spool file.
fn pack(envelope: &Envelope, payload: &[u8], left: &Left) -> Result<Vec<u8>, RpcError> {
    let mut bytes = encode_event(envelope, payload)?;
    let left = serde_json::to_vec(left)?;
    let too_long = |_| RpcError::Malformed("too long");
    bytes.extend(frame::encode(Kind::LEFT, &[&left]).map_err(too_long)?);
    Ok(bytes)
}

fn room(folder: &Path) -> Result<(), SpoolError> {
    let files = count(folder);
    // A file is at most one frame: few files cannot be too many bytes, and need not be looked at.
    let mut bytes = 0;
    if files as u64 * MAX_BODY as u64 > MAX_BYTES {
        bytes = usage(folder).1;
    }
    if files >= MAX_FILES || bytes >= MAX_BYTES {
        Err(SpoolError::Full { files, bytes })
    } else {
        Ok(())
    }
}

/// How many files wait in the spool, by their names alone.
fn count(folder: &Path) -> usize {
    let Ok(entries) = fs::read_dir(folder) else {
        return 0;
    };
    let names = entries.flatten().map(|entry| entry.file_name());
    names.filter(|name| counts(name.as_ref())).count()
}

/// How many files wait in the spool, and how many bytes they are.
pub fn usage(folder: &Path) -> (usize, u64) {
    let Ok(entries) = fs::read_dir(folder) else {
        return (0, 0);
    };
    entries
        .flatten()
        .filter(|entry| counts(entry.file_name().as_ref()))
        .filter_map(|entry| entry.metadata().ok())
        .fold((0, 0), |(files, bytes), meta| {
            (files + 1, bytes + meta.len())
        })
}

/// Whether a file waits to be taken in. What a kill left unfinished does not.
fn counts(name: &Path) -> bool {
    name.extension().is_some_and(|end| end == "ev")
}

fn count_refusal(place: &Place) {
    let refused = OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(place.spool_refused());
    drop(refused.and_then(|mut file| file.write_all(b".")));
}

/// How many events the full spool has refused.
pub fn refused(place: &Place) -> u64 {
    fs::metadata(place.spool_refused()).map_or(0, |meta| meta.len())
}

/// The events in the spool, oldest first, each with all that was added to it. The database may have
/// them already.
pub fn read_all(place: &Place, masker: &Masker) -> Vec<Record> {
    let mut records: Vec<Record> = Vec::new();
    for (_, path) in waiting(place) {
        match (read(&path, masker), records.last_mut()) {
            (Ok(Some(record)), Some(last)) if last.id() == record.id() => last.merge(record),
            (Ok(Some(record)), _) => records.push(record),
            _ => {}
        }
    }
    records
}

/// The files of events, oldest event first; for each event what was left first, then what was added.
fn waiting(place: &Place) -> Vec<(EventId, PathBuf)> {
    let mut found = files(place, ".ev");
    found.sort();
    found
}

/// The files that end so and whose names begin with an event's id.
fn files(place: &Place, end: &str) -> Vec<(EventId, PathBuf)> {
    let Ok(entries) = fs::read_dir(place.spool()) else {
        return Vec::new();
    };
    let paths = entries.flatten().map(|entry| entry.path());
    let found = paths.filter_map(|path| {
        let name = path.file_name()?.to_str()?.strip_suffix(end)?;
        let id = name.split('.').next()?.parse().ok()?;
        Some((id, path))
    });
    found.collect()
}

/// Reads one file. None means that it is no spool file of ours, or not a whole one.
fn read(path: &Path, masker: &Masker) -> io::Result<Option<Record>> {
    let meta = fs::symlink_metadata(path)?;
    // Reading a pipe or a device in its place would never end.
    if !meta.is_file() || meta.len() > MAX_FILE {
        return Ok(None);
    }
    Ok(decode(&fs::read(path)?, masker))
}

fn decode(bytes: &[u8], masker: &Masker) -> Option<Record> {
    let mut decoder = Decoder::new();
    decoder.push(bytes);
    let first = decoder.next_frame().ok()??;
    let Ok(Request::Event(event)) = Request::from_frame(first) else {
        return None;
    };
    let second = decoder.next_frame().ok().flatten();
    let second = second.filter(|frame| frame.kind == Kind::LEFT);
    let left: Option<Left> = second.and_then(|frame| serde_json::from_slice(&frame.body).ok());
    // The shim leaves a bare frame when it finds no becket; that one is not masked yet.
    let masked = match left.is_none() && ask_to_mask(&event.envelope.variables) {
        true => masker.mask_anyway(&event.payload),
        false => masker.mask(&event.payload),
    };
    let count = masked.count + left.as_ref().map_or(0, |left| left.masked);
    let source = left.as_ref().map_or(Source::Alone, |left| left.source);
    let head = Head::read(&event.payload);
    let mut record = Record::new(0, event.envelope, &head, masked.bytes, count, source);
    if let Some(left) = left {
        record.detour = Some(left.why).filter(|why| !why.is_empty());
        record.took_us = left.took_us;
        record.decision = left.decision;
        record.runs = left.runs;
        record.held = left.held;
    }
    Some(record)
}

/// What an intake did.
#[derive(Debug, Default)]
pub(super) struct TakenIn {
    pub(super) new: Vec<Record>,
    /// Those that completed a row, with its number.
    pub(super) completed: Vec<Record>,
    pub(super) bad: u64,
}

/// Takes everything in: insert, commit together with what it did to sessions, then unlink. What was
/// done counts, also where it ended with an error.
pub(super) fn take_in(
    connection: &mut Connection,
    place: &Place,
    masker: &Masker,
    next_seq: &mut dyn FnMut() -> i64,
    apply: &mut Apply<'_>,
) -> (TakenIn, rusqlite::Result<()>) {
    for (_, path) in files(place, ".tmp") {
        if is_old(&path) {
            drop(fs::remove_file(path));
        }
    }
    let mut done = TakenIn::default();
    let mut waiting = waiting(place).into_iter().peekable();
    while waiting.peek().is_some() {
        let (files, records) = next_group(place, masker, &mut waiting, &mut done.bad);
        if records.is_empty() {
            continue;
        }
        if let Err(why) = insert(connection, records, next_seq, apply, &mut done) {
            return (done, Err(why));
        }
        for path in files {
            drop(fs::remove_file(path));
        }
    }
    (done, Ok(()))
}

/// Reads as many files as one transaction takes.
fn next_group(
    place: &Place,
    masker: &Masker,
    waiting: &mut impl Iterator<Item = (EventId, PathBuf)>,
    bad: &mut u64,
) -> (Vec<PathBuf>, Vec<Record>) {
    let (mut files, mut records, mut bytes) = (Vec::new(), Vec::new(), 0);
    while files.len() < GROUP_FILES
        && bytes < GROUP_BYTES
        && let Some((id, mut path)) = waiting.next()
    {
        if path == place.spooled(id) {
            let claimed = place.spool().join(format!("{id}.1.ev"));
            if fs::rename(&path, &claimed).is_err() {
                continue;
            }
            path = claimed;
        }
        match read(&path, masker) {
            Ok(Some(record)) => {
                bytes += fs::metadata(&path).map_or(0, |meta| meta.len());
                files.push(path);
                records.push(record);
            }
            Ok(None) => {
                *bad += 1;
                put_away(place, id, &path);
            }
            // It cannot be read now: the next intake looks again.
            Err(_) => {}
        }
    }
    (files, records)
}

/// Inserts a group in one transaction, and the sessions as they are after it.
fn insert(
    connection: &mut Connection,
    records: Vec<Record>,
    next_seq: &mut dyn FnMut() -> i64,
    apply: &mut Apply<'_>,
    done: &mut TakenIn,
) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let (mut brought, mut completed) = (Brought::default(), Vec::new());
    for mut record in records {
        record.seq = next_seq();
        match record.insert(&transaction)? {
            Written::New => brought.new.push(record),
            Written::Completed(seq) => {
                record.seq = seq;
                brought.blocked.extend(blocked(&record));
                brought
                    .let_through
                    .extend(let_through(&transaction, &record)?);
                completed.push(record);
            }
            Written::Known if record.is_unheard() => {
                brought
                    .let_through
                    .extend(let_through(&transaction, &record)?);
            }
            Written::Known => {}
        }
    }
    let brought = Arc::new(brought);
    let (sessions, then) = apply(&brought);
    session::write(&transaction, sessions.iter())?;
    transaction.commit()?;
    then();
    done.new.extend(Arc::unwrap_or_clone(brought).new);
    done.completed.extend(completed);
    Ok(())
}

/// The session and the time of a prompt that is blocked by what was answered.
fn blocked(record: &Record) -> Option<(String, i64)> {
    let session = record.blocks_prompt().then(|| record.to_row().session_id);
    Some((session??, record.envelope().at))
}

/// The stop that is let through by what was answered, or because nothing will be.
fn let_through(connection: &Connection, record: &Record) -> rusqlite::Result<Option<LetThrough>> {
    let blocked = record.decision.as_ref().is_some_and(Decision::blocks_stop);
    let is_answered = record.took_us.is_some();
    if blocked || !record.is_stop() || !(is_answered || record.is_unheard()) {
        return Ok(None);
    }
    let mut select = connection.prepare_cached(
        "SELECT session_id, at, event = 'Stop' FROM events WHERE id = ?1 AND (?2 OR took_us IS NULL)
         AND session_id IS NOT NULL AND duplicate_of IS NULL",
    )?;
    let lasted = record.took_us.unwrap_or(0) / 1000;
    let found = select.query_row(params![record.id().as_bytes(), is_answered], |row| {
        let at: i64 = row.get(1)?;
        Ok(LetThrough {
            stop: record.id(),
            session: row.get(0)?,
            at,
            let_at: at.saturating_add(lasted),
            main: row.get(2)?,
            alone: record.source == Source::Alone,
        })
    });
    found.optional()
}

/// Sets a file aside that is none of ours, so that it is looked at once only.
fn put_away(place: &Place, id: EventId, path: &Path) {
    let folder = place.spool_bad();
    drop(private_folder(&folder));
    drop(fs::rename(path, folder.join(format!("{id}.ev"))));
}

/// Whether a file has waited long enough. One from the future would wait for ever.
fn is_old(path: &Path) -> bool {
    let modified = fs::metadata(path).and_then(|meta| meta.modified());
    modified.is_ok_and(|at| at.elapsed().map_or(true, |age| age > PATIENCE))
}

#[cfg(test)]
mod tests;
