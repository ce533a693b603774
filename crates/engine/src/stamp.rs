//! File stamps, which tell two states of a file apart without reading it, and readers of regular files.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;

/// Opens a regular file to read it. For a pipe, a device or a file like `/proc/kmsg`, opening or reading fails
/// instead of waiting.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
    let mut options = OpenOptions::new();
    let file = options
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    Ok(file)
}

/// Reads a regular file of at most `longest` bytes as text.
pub(crate) fn read_text(path: &Path, longest: u64) -> io::Result<String> {
    let text = String::from_utf8(read_bytes(path, longest)?);
    text.map_err(|_| io::Error::other("it is not UTF-8"))
}

/// Reads a regular file of at most `longest` bytes.
pub(crate) fn read_bytes(path: &Path, longest: u64) -> io::Result<Vec<u8>> {
    read_open(open_regular(path)?, longest)
}

/// Reads an open file of at most `longest` bytes. The size in its metadata is not enough: files in `/proc` have
/// size 0, and some never end.
pub(crate) fn read_open(file: File, longest: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = file.take(longest + 1).read_to_end(&mut bytes)?;
    if read as u64 > longest {
        let why = format!("it is longer than {} KiB", longest >> 10);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
    }
    Ok(bytes)
}

/// The age from which a stamp can be relied on. A file that was written shortly before it was read may be written
/// again without a new time: the clock of the file system ticks only every few milliseconds.
const SETTLED: Duration = Duration::from_millis(50);

/// The metadata of a path that changes whenever the file changes, or the reason for which there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileStamp {
    Absent,
    Present {
        device: u64,
        inode: u64,
        size: u64,
        modified: (i64, i64),
        changed: (i64, i64),
    },
    Refused(io::ErrorKind),
}

impl FileStamp {
    pub fn of(metadata: &io::Result<Metadata>) -> Self {
        match metadata {
            Ok(metadata) => Self::Present {
                device: metadata.dev(),
                inode: metadata.ino(),
                size: metadata.size(),
                modified: (metadata.mtime(), metadata.mtime_nsec()),
                changed: (metadata.ctime(), metadata.ctime_nsec()),
            },
            Err(error) if is_absence(error) => Self::Absent,
            Err(error) => Self::Refused(error.kind()),
        }
    }
}

/// Returns true if an error means that there is no file.
pub fn is_absence(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

/// Returns true if the stamp can be relied on. A user can set the time of a file's modification, but not the
/// time of its change. A time in the future is as good as one long past: the clock was set back, and a new
/// change would have another time.
pub fn is_settled(metadata: &Metadata) -> bool {
    let changed = Timestamp::new(metadata.ctime(), metadata.ctime_nsec() as i32);
    let age = Timestamp::now().duration_since(changed.unwrap_or_default());
    age.unsigned_abs() > SETTLED
}

#[cfg(test)]
pub(crate) mod tests;
