//! What an ending daemon still runs, though another one serves. A file in its home tells it to
//! whoever asks, and counts for as long as that daemon holds its lock.

use std::collections::BTreeSet;
#[cfg(test)]
use std::collections::HashSet;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use becket_wire::run::{CurrentRun, RUNNING};
use becket_wire::{EventId, Place};
use serde::{Deserialize, Serialize};
use tracing::warn;

use crate::life::now_ms;

/// What is longer is none of ours.
const MOST: u64 = 16 << 20;
/// A file that is longer is begun anew.
const ENOUGH: u64 = 1 << 20;
/// Readers hold the lock for a moment only. Whoever waits so long in vain tries once from then on.
const LOCK_TRIES: usize = 500;
/// A file is without a line for a moment only.
const READ_TRIES: usize = 50;
const MOMENT: Duration = Duration::from_millis(1);

/// What is told: a line.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Still {
    runs: Vec<CurrentRun>,
    /// The events that are to be decided: somebody waits for hooks of theirs.
    awaited: BTreeSet<EventId>,
}

impl Still {
    /// What makes it news. Times pass without any.
    fn key(&self) -> Key {
        let run = |one: &CurrentRun| {
            let run = &one.run;
            (run.event_id, run.hook.clone(), run.outcome.clone())
        };
        let runs = self.runs.iter().map(run).collect();
        (runs, self.awaited.clone())
    }
}

type Key = (BTreeSet<(EventId, String, String)>, BTreeSet<EventId>);

/// Our own file: a line for each time that something began or ended, of which the last one counts.
#[derive(Debug)]
pub(crate) struct Outlasting {
    path: PathBuf,
    file: Option<File>,
    told: Key,
    /// It could not be told, and that was said.
    failed: bool,
}

impl Outlasting {
    pub(crate) fn of(place: &Place) -> Self {
        Self {
            path: place.ending(std::process::id()),
            file: None,
            told: Key::default(),
            failed: false,
        }
    }

    /// Tells what runs, and which events wait for it, if that is news. Where it cannot be told, the
    /// hooks go on all the same, and the next time it is tried again.
    pub(crate) fn tell(&mut self, mut awaited: BTreeSet<EventId>, runs: Vec<CurrentRun>) {
        // What ended and is not recorded ran for somebody who waits.
        let ended = runs.iter().filter(|one| one.until.is_none());
        awaited.extend(ended.map(|one| one.run.event_id));
        let still = Still { runs, awaited };
        let key = still.key();
        if key == self.told {
            return;
        }
        match self.write(&still) {
            Ok(()) => (self.told, self.failed) = (key, false),
            Err(why) if !self.failed => {
                self.failed = true;
                warn!(%why, "could not tell which hooks go on");
            }
            Err(_) => {}
        }
    }

    fn write(&mut self, still: &Still) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            None => {
                let tries = if self.failed { 1 } else { LOCK_TRIES };
                self.file.insert(begin(&self.path, tries)?)
            }
        };
        // First: on a disk that was full there may be half a line.
        let mut line = vec![b'\n'];
        serde_json::to_writer(&mut line, still)?;
        if file.metadata()?.len() > ENOUGH {
            file.set_len(0)?;
        }
        file.write_all(&line)
    }
}

impl Drop for Outlasting {
    fn drop(&mut self) {
        if self.file.is_some() {
            drop(fs::remove_file(&self.path));
        }
    }
}

/// Makes the file, and empties it only when it is ours: another namespace may have the same pid.
fn begin(path: &Path, tries: usize) -> io::Result<File> {
    let folder = path.parent().unwrap_or(path);
    // Only the folder itself: a home that was thrown away does not come back by it.
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(why) if why.kind() != ErrorKind::AlreadyExists => return Err(why),
        _ => {}
    }
    let mut options = OpenOptions::new();
    options.create(true).append(true).mode(0o600);
    for _ in 0..tries {
        let file = options.open(path)?;
        match file.try_lock() {
            // Else it was tidied away meanwhile.
            Ok(()) if is_at(&file, path) => {
                file.set_len(0)?;
                return Ok(file);
            }
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => thread::park_timeout(MOMENT),
            Err(TryLockError::Error(why)) => return Err(why),
        }
    }
    Err(ErrorKind::WouldBlock.into())
}

fn is_at(file: &File, path: &Path) -> bool {
    let (Ok(file), Ok(there)) = (file.metadata(), fs::symlink_metadata(path)) else {
        return false;
    };
    (file.dev(), file.ino()) == (there.dev(), there.ino())
}

/// What daemons of this home that are ending still run.
pub fn outlasting(place: &Place) -> Vec<CurrentRun> {
    told(place).flat_map(|still| still.runs).collect()
}

/// The events that daemons which are ending are still to decide.
#[cfg(test)]
pub(crate) fn awaited(place: &Place) -> HashSet<EventId> {
    told(place).flat_map(|still| still.awaited).collect()
}

fn told(place: &Place) -> impl Iterator<Item = Still> {
    let held = files(place).filter_map(|(_, file)| is_held(&file).then_some(file));
    held.filter_map(last_line)
}

/// Removes what daemons have left that were killed. Only whoever holds the lock for life does so, and
/// each while it holds the file's: nobody else can begin it, or remove it, before it is gone.
pub(crate) fn tidy(place: &Place) {
    for (path, file) in files(place) {
        if file.try_lock_shared().is_ok() && is_at(&file, &path) {
            drop(fs::remove_file(path));
        }
    }
}

fn files(place: &Place) -> impl Iterator<Item = (PathBuf, File)> {
    let entries = fs::read_dir(place.endings()).into_iter().flatten();
    let files = entries.flatten().filter(|entry| {
        let kind = entry.file_type();
        kind.is_ok_and(|kind| kind.is_file())
    });
    files.filter_map(|entry| {
        let path = entry.path();
        File::open(&path).ok().map(|file| (path, file))
    })
}

fn is_held(file: &File) -> bool {
    matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock))
}

/// The last line that is whole, with the times of now.
fn last_line(mut file: File) -> Option<Still> {
    for _ in 0..READ_TRIES {
        let mut bytes = Vec::new();
        file.rewind().ok()?;
        (&file).take(MOST).read_to_end(&mut bytes).ok()?;
        let mut lines = bytes.rsplit(|byte| *byte == b'\n');
        if let Some(still) = lines.find_map(|line| serde_json::from_slice(line).ok()) {
            return Some(at_now(still));
        }
        // It was begun a moment ago.
        thread::park_timeout(MOMENT);
    }
    None
}

fn at_now(mut still: Still) -> Still {
    let now = now_ms();
    for CurrentRun { run, .. } in &mut still.runs {
        if run.outcome == RUNNING {
            run.took_us = (now - run.at).max(0).saturating_mul(1000);
        }
    }
    still
}

#[cfg(test)]
mod tests;
