//! What is held back of the log, and when it has to be in the file: rules only, whoever writes is
//! passed in.

use std::ffi::c_int;

/// SQLite's code, if it failed.
pub(super) type Written = Result<(), c_int>;

/// Writes these bytes there, into the file itself.
pub(super) type Put<'p> = dyn FnMut(&[u8], i64) -> Written + 'p;

/// What SQLite's own VFS writes at once. Of more it takes the length modulo 128 KB, and if that is
/// nothing says that the disk is full.
const MOST: usize = 0x1ffff;
const HEAD: usize = 24;

/// The end of the log, as far as it is not in the file yet.
///
/// A reader goes by the wal-index, which SQLite writes at the end of `walFrames`, and only if these
/// frames end a transaction. Nothing may be held back by then. What stays held after a write is the
/// head of a frame behind all others, or the page behind such a head that ends no transaction. Of
/// what `walFrames` does after it has written the page that does:
/// - `walRewriteChecksums` writes heads of frames that lie before the tail, since all of them were
///   written by this transaction: they go into the file at once, and so does what it reads.
/// - What is repeated up to the end of a sector, with synchronous=FULL, ends a transaction too. If
///   a sync splits a head or a page, the rest comes right after the sync, and is not held back.
/// - A sync, and a log that is cut to its size, come after whatever is held.
///
/// Pages that leave a full cache early (`pagerStress`) are frames that end nothing: they may be held
/// until somebody reads them, or overwrites them, or until the commit. SQLite takes them back
/// without a word to the file (`sqlite3WalUndo`), and then another may write in their place: so
/// whoever lets go of the lock to write forgets them first (`forget`). A log begins anew only with the
/// first frame of a transaction (`walRestartLog`), and a checkpoint that restarts or truncates it
/// takes that lock itself: nothing is held then.
#[derive(Debug, Default)]
pub(super) struct Held {
    bytes: Vec<u8>,
    /// Where they begin.
    at: i64,
    /// Where the last frame ends that was appended. What is written before it is no new frame, or
    /// one in the place of frames that were taken back.
    tail: i64,
    next: Next,
}

/// What the next write may be.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Next {
    #[default]
    Anything,
    /// The page of the frame whose head came last, if it comes here.
    Page { at: i64, ends: bool },
    /// What a sync has split.
    Rest,
}

impl Held {
    pub(super) fn write(&mut self, bytes: &[u8], at: i64, put: &mut Put<'_>) -> Written {
        let end = behind(at, bytes.len());
        let awaited = std::mem::take(&mut self.next);
        match (awaited, ends_transaction(bytes)) {
            (Next::Page { at: awaited, ends }, _) if awaited == at => {
                // What lies behind it was taken back.
                self.tail = end;
                self.hold(bytes, at, put)?;
                if ends {
                    self.commit(bytes.len(), put)
                } else {
                    Ok(())
                }
            }
            (Next::Anything | Next::Page { .. }, Some(ends)) => {
                self.next = Next::Page { at: end, ends };
                if at < self.tail {
                    return self.write_through(bytes, at, put);
                }
                self.tail = end;
                self.hold(bytes, at, put)
            }
            _ => {
                self.tail = self.tail.max(end);
                self.write_through(bytes, at, put)
            }
        }
    }

    /// Somebody reads there.
    pub(super) fn read(&mut self, at: i64, length: usize, put: &mut Put<'_>) -> Written {
        let apart = behind(at, length) <= self.at || behind(self.at, self.bytes.len()) <= at;
        if apart { Ok(()) } else { self.flush(put) }
    }

    pub(super) fn sync(&mut self, put: &mut Put<'_>) -> Written {
        self.next = Next::Rest;
        self.flush(put)
    }

    /// What cannot be written stays: SQLite believes that it is, and tries no more to write it,
    /// whereas a read that fails need not be the end of the transaction.
    pub(super) fn flush(&mut self, put: &mut Put<'_>) -> Written {
        if !self.bytes.is_empty() {
            put(&self.bytes, self.at)?;
            self.bytes.clear();
        }
        Ok(())
    }

    pub(super) fn forget(&mut self) {
        self.bytes.clear();
        self.next = Next::Anything;
    }

    /// The last page is not held if it cannot be written: SQLite knows that it is not.
    fn commit(&mut self, last: usize, put: &mut Put<'_>) -> Written {
        let before = self.bytes.len().saturating_sub(last);
        self.flush(put).inspect_err(|_| self.bytes.truncate(before))
    }

    fn hold(&mut self, bytes: &[u8], at: i64, put: &mut Put<'_>) -> Written {
        let whole = self.bytes.len().saturating_add(bytes.len());
        if at != behind(self.at, self.bytes.len()) || whole > MOST {
            self.flush(put)?;
        }
        if bytes.len() > MOST || !self.has_room(bytes.len()) {
            return self.write_through(bytes, at, put);
        }
        if self.bytes.is_empty() {
            self.at = at;
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn has_room(&mut self, more: usize) -> bool {
        let held = self.bytes.len();
        if self.bytes.capacity() - held >= more {
            return true;
        }
        let wanted = (held + more).next_power_of_two();
        self.bytes.try_reserve_exact(wanted - held).is_ok()
    }

    fn write_through(&mut self, bytes: &[u8], at: i64, put: &mut Put<'_>) -> Written {
        self.flush(put)?;
        put(bytes, at)
    }
}

/// Whether the frame of this head is the last of a transaction. None if it is none: nothing else
/// that SQLite writes is so short, but for the rest of what a sync splits.
fn ends_transaction(bytes: &[u8]) -> Option<bool> {
    let size_after = bytes.get(4..8)?;
    (bytes.len() == HEAD).then(|| size_after.iter().any(|byte| *byte != 0))
}

fn behind(at: i64, length: usize) -> i64 {
    at.saturating_add(i64::try_from(length).unwrap_or(i64::MAX))
}
