//! What tells one state of a file from another without reading it.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, SystemTime};

/// A file that was written so shortly before it was read may be written again without a new time:
/// the clock of the file system ticks only every few milliseconds.
const SETTLED: Duration = Duration::from_millis(50);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    pub fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

/// What a look at a file showed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    Absent,
    Stamp(Stamp),
    Refused(io::ErrorKind),
}

impl Seen {
    pub fn of(metadata: &io::Result<Metadata>) -> Self {
        match metadata {
            Ok(metadata) => Self::Stamp(Stamp::of(metadata)),
            Err(error) if is_absence(error) => Self::Absent,
            Err(error) => Self::Refused(error.kind()),
        }
    }
}

pub fn is_absence(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

/// Whether the stamp can be relied on.
pub fn is_settled(metadata: &Metadata) -> bool {
    let age = metadata
        .modified()
        .ok()
        .and_then(|modified| SystemTime::now().duration_since(modified).ok());
    age.is_some_and(|age| age > SETTLED)
}
