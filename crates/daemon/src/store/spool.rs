//! The spool: one file an event, left by whoever answered without a daemon, taken in by the next
//! one. Each event goes in once, whatever dies in between.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use becket_engine::config::ask_to_mask;
use becket_engine::mask::Masker;
use becket_wire::frame::{self, Decoder, HEAD, Kind, MAX_BODY};
use becket_wire::rpc::{Envelope, Request, RpcError, Source, encode_event};
use becket_wire::run::RunRow;
use becket_wire::{EventId, Head, Place};
use rusqlite::{Connection, TransactionBehavior};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::record::{Decision, Record};
use super::session;
use super::write::Apply;

/// The bounds of the spool. Past them, events are refused and counted.
const MAX_FILES: usize = 100_000;
const MAX_BYTES: u64 = 1 << 30;
/// An event and what was decided: a frame each.
const MAX_FILE: u64 = 2 * (HEAD + MAX_BODY) as u64;
/// What one transaction takes in at the most.
const GROUP_FILES: usize = 256;
const GROUP_BYTES: u64 = 64 << 20;

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

/// Leaves an event for the next daemon. `payload` is masked already.
pub fn leave(
    place: &Place,
    envelope: &Envelope,
    payload: &[u8],
    left: &Left,
) -> Result<(), SpoolError> {
    let folder = place.spool();
    let failed = |why| SpoolError::Write {
        path: folder.clone(),
        why,
    };
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&folder)
        .map_err(failed)?;
    if let Err(full) = room(&folder) {
        count_refusal(place);
        return Err(full);
    }
    let bytes = pack(envelope, payload, left).map_err(SpoolError::Pack)?;
    let last = place.spooled(envelope.id);
    // The id is unique, but one event may be left twice: by the shim's successor and by the daemon.
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
        fs::rename(&temp, &last)
    };
    write().map_err(|why| {
        drop(fs::remove_file(&temp));
        failed(why)
    })
}

/// The two frames of a spool file.
fn pack(envelope: &Envelope, payload: &[u8], left: &Left) -> Result<Vec<u8>, RpcError> {
    let mut bytes = encode_event(envelope, payload)?;
    let left = serde_json::to_vec(left)?;
    let too_long = |_| RpcError::Malformed("too long");
    bytes.extend(frame::encode(Kind::LEFT, &[&left]).map_err(too_long)?);
    Ok(bytes)
}

/// An event as a spool file holds it.
pub(super) fn encode(record: &Record) -> Result<Vec<u8>, RpcError> {
    pack(record.envelope(), &record.payload(), &Left::of(record, ""))
}

impl Left {
    /// What is known of a record.
    pub(super) fn of(record: &Record, why: &str) -> Self {
        Self {
            took_us: record.took_us,
            decision: record.decision.clone(),
            masked: u32::try_from(record.masked()).unwrap_or(u32::MAX),
            source: record.source,
            why: why.to_owned(),
            runs: record.runs.clone(),
        }
    }
}

fn room(folder: &Path) -> Result<(), SpoolError> {
    let files = fs::read_dir(folder).map_or(0, Iterator::count);
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

/// How many events wait in the spool, and how many bytes they are.
pub fn usage(folder: &Path) -> (usize, u64) {
    let Ok(entries) = fs::read_dir(folder) else {
        return (0, 0);
    };
    entries
        .flatten()
        .filter(|entry| entry.path().extension().is_some_and(|end| end == "ev"))
        .filter_map(|entry| entry.metadata().ok())
        .fold((0, 0), |(files, bytes), meta| {
            (files + 1, bytes + meta.len())
        })
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

/// The spooled events, oldest first.
pub fn waiting(place: &Place) -> Vec<(EventId, PathBuf)> {
    let Ok(entries) = fs::read_dir(place.spool()) else {
        return Vec::new();
    };
    let mut found: Vec<_> = entries
        .flatten()
        .filter_map(|entry| {
            let path = entry.path();
            let id = path
                .file_name()?
                .to_str()?
                .strip_suffix(".ev")?
                .parse()
                .ok()?;
            Some((id, path))
        })
        .collect();
    found.sort();
    found
}

/// Reads one spooled event. None means that it is no spool file of ours, or not a whole one.
pub fn read(path: &Path, masker: &Masker) -> io::Result<Option<Record>> {
    Ok(contents(path)?.and_then(|bytes| decode(&bytes, masker)))
}

/// Reads the frames of a spool file.
pub(super) fn decode(bytes: &[u8], masker: &Masker) -> Option<Record> {
    let mut decoder = Decoder::new();
    decoder.push(bytes);
    let first = decoder.next_frame().ok()??;
    let Ok(Request::Event(event)) = Request::from_frame(first) else {
        return None;
    };
    let left = decoder
        .next_frame()
        .ok()
        .flatten()
        .filter(|frame| frame.kind == Kind::LEFT);
    let left: Option<Left> = left.and_then(|frame| serde_json::from_slice(&frame.body).ok());
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
        record.took_us = left.took_us;
        record.decision = left.decision;
        record.runs = left.runs;
        record.detour = Some(left.why).filter(|why| !why.is_empty());
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

/// Where an intake may die. Tests stop there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Inserted,
    Committed,
    Removed,
}

/// What an intake did.
#[derive(Debug, Default)]
pub(super) struct TakenIn {
    pub(super) new: Vec<Record>,
    pub(super) bad: u64,
}

/// Takes everything in: insert, commit together with what it did to sessions, then unlink. `go_on`
/// is asked after each step. What was done counts, also where it ended with an error.
pub(super) fn take_in(
    connection: &mut Connection,
    place: &Place,
    masker: &Masker,
    next_seq: &mut dyn FnMut() -> i64,
    apply: &Apply,
    go_on: &mut dyn FnMut(Step) -> bool,
) -> (TakenIn, rusqlite::Result<()>) {
    let mut done = TakenIn::default();
    let mut waiting = waiting(place).into_iter().map(|(_, path)| path).peekable();
    while waiting.peek().is_some() {
        let (files, records) = next_group(&mut waiting, place, masker, &mut done);
        match insert_group(connection, records, next_seq, apply, go_on) {
            Ok(Some(new)) => {
                done.new.extend(Arc::unwrap_or_clone(new));
                if !remove_group(files, go_on) {
                    break;
                }
            }
            Ok(None) => break,
            Err(why) => return (done, Err(why)),
        }
    }
    (done, Ok(()))
}

/// Reads as many files as one transaction takes.
fn next_group(
    waiting: &mut impl Iterator<Item = PathBuf>,
    place: &Place,
    masker: &Masker,
    done: &mut TakenIn,
) -> (Vec<PathBuf>, Vec<Record>) {
    let (mut files, mut records) = (Vec::new(), Vec::new());
    let mut bytes = 0;
    while files.len() < GROUP_FILES && bytes < GROUP_BYTES {
        let Some(path) = waiting.next() else {
            break;
        };
        match read(&path, masker) {
            Ok(Some(record)) => {
                bytes += fs::metadata(&path).map_or(0, |meta| meta.len());
                files.push(path);
                records.push(record);
            }
            Ok(None) => {
                done.bad += 1;
                put_away(place, &path);
            }
            // Somebody else took it, or it cannot be read now: the next intake looks again.
            Err(_) => {}
        }
    }
    (files, records)
}

/// Inserts a group in one transaction, and the sessions as they are after it. Gives those that are
/// new; none if told to stop.
fn insert_group(
    connection: &mut Connection,
    records: Vec<Record>,
    next_seq: &mut dyn FnMut() -> i64,
    apply: &Apply,
    go_on: &mut dyn FnMut(Step) -> bool,
) -> rusqlite::Result<Option<Arc<Vec<Record>>>> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut new = Vec::new();
    for mut record in records {
        record.seq = next_seq();
        if record.insert(&transaction)? {
            new.push(record);
        }
        if !go_on(Step::Inserted) {
            return Ok(None);
        }
    }
    let new = Arc::new(new);
    let (sessions, then) = apply(&new);
    session::write(&transaction, sessions.iter())?;
    transaction.commit()?;
    then();
    Ok(go_on(Step::Committed).then_some(new))
}

/// Removes the files of a group that is committed. False if told to stop.
fn remove_group(files: Vec<PathBuf>, go_on: &mut dyn FnMut(Step) -> bool) -> bool {
    files.into_iter().all(|path| {
        drop(fs::remove_file(path));
        go_on(Step::Removed)
    })
}

/// Sets a file aside that is no event, so that it is looked at once only.
fn put_away(place: &Place, path: &Path) {
    drop(
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(place.spool_bad()),
    );
    if let Some(name) = path.file_name() {
        drop(fs::rename(path, place.spool_bad().join(name)));
    }
}

#[cfg(test)]
mod tests;
