//! The spool: one file an event, left by whoever answered without a daemon, and one for whatever is
//! said of an event later; taken in by the next daemon. Each goes in once, whatever dies in between.

mod intake;
mod read;

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use becket_wire::frame::{self, Kind, MAX_BODY};
use becket_wire::rpc::{Envelope, RpcError, Source, encode_event};
use becket_wire::run::RunRow;
use becket_wire::{EventId, Place};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::record::{Decision, Record};
pub(super) use intake::take_in;
pub(super) use read::decode;
pub use read::{Amendment, Spooled, is_kept};

/// The bounds of the spool. Past them, events are refused and counted.
const MAX_FILES: usize = 100_000;
const MAX_BYTES: u64 = 1 << 30;

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
    /// The event that this one repeats: whoever left it ran no hook.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub double_of: Option<EventId>,
    /// Its hooks run now: whoever left it says more when they have.
    #[serde(default)]
    pub held: bool,
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
    // The id is unique, but one event may be left twice: by the shim's successor and by the daemon.
    let last = place.spooled(envelope.id);
    put(place, &last, || pack(envelope, payload, left))
}

/// Says more about an event that was left or committed before: what was decided and how long it
/// took, if that is not known yet, and what its hooks did.
pub fn amend(place: &Place, id: EventId, left: &Left) -> Result<(), SpoolError> {
    static NTH: AtomicU32 = AtomicU32::new(0);
    let nth = NTH.fetch_add(1, Ordering::Relaxed);
    let last = place.amendment(id, std::process::id(), nth);
    put(place, &last, || pack_left(left))
}

/// Puts a file in its place, unless the spool is full.
fn put(
    place: &Place,
    last: &Path,
    pack: impl FnOnce() -> Result<Vec<u8>, RpcError>,
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
    let bytes = pack().map_err(SpoolError::Pack)?;
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

/// The two frames of a spool file.
fn pack(envelope: &Envelope, payload: &[u8], left: &Left) -> Result<Vec<u8>, RpcError> {
    let mut bytes = encode_event(envelope, payload)?;
    bytes.extend(pack_left(left)?);
    Ok(bytes)
}

fn pack_left(left: &Left) -> Result<Vec<u8>, RpcError> {
    let left = serde_json::to_vec(left)?;
    let too_long = |_| RpcError::Malformed("too long");
    frame::encode(Kind::LEFT, &[&left]).map_err(too_long)
}

/// An event as a spool file holds it.
pub(super) fn encode(record: &Record) -> Result<Vec<u8>, RpcError> {
    pack(record.envelope(), &record.payload(), &Left::of(record, ""))
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
            double_of: None,
            held: false,
        }
    }

    /// Whether this tells how an event was answered of which so much is known. What alone said is
    /// what Claude Code heard. The database goes by the same rule: `record::complete`.
    pub(super) fn completes(&self, took_us: Option<i64>, source: Source) -> bool {
        let outdoes = source == Source::Daemon && self.source == Source::Alone;
        self.took_us.is_some() && (took_us.is_none() || outdoes)
    }

    /// Whether nobody will be answered: hooks that somebody waited for were ended first. What is
    /// said of runs alone is of hooks that nobody waits for.
    pub(super) fn is_unheard(&self) -> bool {
        let of_the_answer = self.source == Source::Daemon || self.detour().is_some();
        let ended = |run: &RunRow| run.was_cut_off() || run.was_cancelled();
        of_the_answer && self.took_us.is_none() && self.runs.iter().any(ended)
    }

    /// Why no daemon had the event, if somebody said so.
    pub(super) fn detour(&self) -> Option<&str> {
        Some(&*self.why).filter(|why| !why.is_empty())
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
            double_of: record.double_of,
            held: false,
        }
    }
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

/// How many files wait in the spool, by their names alone: whoever leaves an event asks.
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
    name.extension()
        .is_some_and(|end| end == "ev" || end == "left")
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

#[cfg(test)]
mod tests;
