//! The files that are not wholly SQLite's own: the log, of which the end is held back, and the
//! database, whose locks tell when that must be forgotten.

use std::ffi::{c_int, c_void};
use std::mem::size_of;
use std::ptr;
use std::slice;

use rusqlite::ffi::{
    SQLITE_IOERR, SQLITE_OK, SQLITE_SHM_LOCK, SQLITE_SHM_SHARED, SQLITE_SHM_UNLOCK,
    sqlite3_database_file_object, sqlite3_file, sqlite3_filename, sqlite3_int64,
    sqlite3_io_methods, sqlite3_vfs,
};

use super::held::{Held, Put, Written};

/// What we need beside a real file.
pub(super) const SIZE_OF_OURS: c_int = {
    let (log, database) = (size_of::<Log>(), size_of::<Database>());
    rounded(if log > database { log } else { database }) as c_int
};
/// The number of the lock to write, in the wal-index: `WAL_WRITE_LOCK`.
const TO_WRITE: c_int = 0;

const fn rounded(size: usize) -> usize {
    size.next_multiple_of(align_of::<Log>())
}

/// Where ours begins behind a real file.
pub(super) fn place_of_ours(real: &sqlite3_vfs) -> c_int {
    let size = usize::try_from(real.szOsFile).unwrap_or_default();
    c_int::try_from(rounded(size)).unwrap_or(c_int::MAX)
}

type ShmLock = unsafe extern "C" fn(*mut sqlite3_file, c_int, c_int, c_int) -> c_int;

/// Lies behind the real file of the database, which has these methods instead of its own; they are
/// its own but for the one that locks.
#[repr(C)]
pub(super) struct Database {
    methods: sqlite3_io_methods,
    lock: ShmLock,
    /// Null if none is open.
    log: *mut Log,
}

impl Database {
    /// Watches the locks of a database that was opened.
    ///
    /// # Safety
    /// `file` must be open, by `real`, and have room for ours behind it.
    pub(super) unsafe fn watch(file: *mut sqlite3_file, real: *mut sqlite3_vfs) {
        // SAFETY: an open file has methods. The third version has all that we know of.
        unsafe {
            let Some(theirs) = (*file).pMethods.as_ref() else {
                return;
            };
            let Some(lock) = (theirs.iVersion >= 3).then_some(theirs.xShmLock).flatten() else {
                return;
            };
            let methods = sqlite3_io_methods {
                iVersion: 3,
                xShmLock: Some(shm_lock),
                ..*theirs
            };
            let database = Self::behind(file, real);
            database.write(Self {
                methods,
                lock,
                log: ptr::null_mut(),
            });
            (*file).pMethods = database.cast::<sqlite3_io_methods>().cast_const();
        }
    }

    /// The database of the log of this name, if its locks are watched.
    ///
    /// # Safety
    /// The name must be what SQLite's pager opens a log with.
    pub(super) unsafe fn of_log(
        name: sqlite3_filename,
        real: *mut sqlite3_vfs,
    ) -> Option<*mut Self> {
        // SAFETY: such a name leads to the file of the database, which is open.
        unsafe {
            let file = sqlite3_database_file_object(name);
            let database = Self::behind(file, real);
            ptr::addr_eq((*file).pMethods, database).then_some(database)
        }
    }

    /// # Safety
    /// `file` must have room for ours behind it.
    unsafe fn behind(file: *mut sqlite3_file, real: *mut sqlite3_vfs) -> *mut Self {
        // SAFETY: so there is room. SQLite aligns its files to 8 bytes.
        unsafe {
            let place = usize::try_from(place_of_ours(&*real)).unwrap_or_default();
            file.cast::<u8>().add(place).cast()
        }
    }
}

/// Whoever may write no longer forgets what was not committed. With locking_mode=exclusive no lock is
/// let go; whoever leaves that begins to read, and nobody does so in the middle of a transaction.
unsafe extern "C" fn shm_lock(
    file: *mut sqlite3_file,
    first: c_int,
    count: c_int,
    flags: c_int,
) -> c_int {
    // SAFETY: only `watch` gives a file this method, and the methods are the first part of ours.
    // The log is open as long as it is named there, and used by the same thread.
    unsafe {
        let database = (*file).pMethods.cast_mut().cast::<Database>();
        let no_longer = flags & SQLITE_SHM_UNLOCK != 0 && first == TO_WRITE;
        let not_yet = flags == SQLITE_SHM_LOCK | SQLITE_SHM_SHARED;
        if (no_longer || not_yet)
            && let Some(log) = (*database).log.as_mut()
        {
            log.held.forget();
        }
        ((*database).lock)(file, first, count, flags)
    }
}

/// The log's file; the real one lies behind it.
#[repr(C)]
pub(super) struct Log {
    file: sqlite3_file,
    database: *mut Database,
    held: Held,
}

static METHODS: sqlite3_io_methods = sqlite3_io_methods {
    iVersion: 1,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    // Asked of the database's file.
    xShmMap: None,
    xShmLock: None,
    xShmBarrier: None,
    xShmUnmap: None,
    xFetch: None,
    xUnfetch: None,
};

impl Log {
    /// # Safety
    /// `file` must have the room that our VFS asks for, and `database` must outlive it.
    pub(super) unsafe fn open(
        file: *mut sqlite3_file,
        database: *mut Database,
        open_real: impl FnOnce(*mut sqlite3_file) -> c_int,
    ) -> c_int {
        let log = file.cast::<Self>();
        // SAFETY: there is room for both. What is not open has no methods, and nobody closes it.
        unsafe {
            let real = real(file);
            (*real).pMethods = ptr::null();
            let code = open_real(real);
            if code != SQLITE_OK {
                (*file).pMethods = ptr::null();
                return code;
            }
            log.write(Self {
                file: sqlite3_file {
                    pMethods: &raw const METHODS,
                },
                database,
                held: Held::default(),
            });
            (*database).log = log;
        }
        SQLITE_OK
    }
}

/// The real file behind a log.
///
/// # Safety
/// It must be a file of ours.
unsafe fn real(log: *mut sqlite3_file) -> *mut sqlite3_file {
    // SAFETY: our VFS asks for so much room.
    unsafe { log.cast::<u8>().add(rounded(size_of::<Log>())).cast() }
}

/// Asks the real file behind a log.
macro_rules! ask {
    ($log:expr, $method:ident($($arg:expr),*)) => {{
        let real = real($log);
        match (*real).pMethods.as_ref().and_then(|methods| methods.$method) {
            Some(method) => method(real, $($arg),*),
            None => SQLITE_IOERR,
        }
    }};
}

/// Does something with what is held, and with the real file to write it to.
///
/// # Safety
/// It must be a log that is open.
unsafe fn with_held(
    log: *mut sqlite3_file,
    work: impl FnOnce(&mut Held, &mut Put<'_>) -> Written,
) -> Written {
    let mut put = |bytes: &[u8], at: i64| {
        let length = c_int::try_from(bytes.len()).map_err(|_| SQLITE_IOERR)?;
        #[cfg(test)]
        super::tests::before_write()?;
        // SAFETY: the bytes are there, and the real file is open as long as the log is.
        match unsafe { ask!(log, xWrite(bytes.as_ptr().cast(), length, at)) } {
            SQLITE_OK => Ok(()),
            code => Err(code),
        }
    };
    // SAFETY: whoever uses a connection does so alone, and the real file is no part of `held`.
    let held = unsafe { &mut (*log.cast::<Log>()).held };
    work(held, &mut put)
}

unsafe extern "C" fn close(file: *mut sqlite3_file) -> c_int {
    // SAFETY: the log is open, and never used again. What is held now was not committed.
    unsafe {
        let log = file.cast::<Log>();
        (*(*log).database).log = ptr::null_mut();
        let code = ask!(file, xClose());
        log.drop_in_place();
        code
    }
}

unsafe extern "C" fn read(
    file: *mut sqlite3_file,
    into: *mut c_void,
    length: c_int,
    at: sqlite3_int64,
) -> c_int {
    let whole = usize::try_from(length).unwrap_or_default();
    // SAFETY: the log is open, and there is room for what is read.
    unsafe {
        match with_held(file, |held, put| held.read(at, whole, put)) {
            Ok(()) => ask!(file, xRead(into, length, at)),
            Err(code) => code,
        }
    }
}

unsafe extern "C" fn write(
    file: *mut sqlite3_file,
    from: *const c_void,
    length: c_int,
    at: sqlite3_int64,
) -> c_int {
    let Ok(length) = usize::try_from(length) else {
        return SQLITE_IOERR;
    };
    // SAFETY: the log is open, and so many bytes are there.
    let written = unsafe {
        let bytes = slice::from_raw_parts(from.cast::<u8>(), length);
        with_held(file, |held, put| held.write(bytes, at, put))
    };
    written.err().unwrap_or(SQLITE_OK)
}

/// A method that is the real file's, once all that is held is in it.
macro_rules! once_written {
    ($name:ident, $method:ident($($arg:ident: $kind:ty),*), $write:expr) => {
        unsafe extern "C" fn $name(file: *mut sqlite3_file, $($arg: $kind),*) -> c_int {
            // SAFETY: the log is open; else SQLite's contract is that of the real file's.
            unsafe {
                match with_held(file, $write) {
                    Ok(()) => ask!(file, $method($($arg),*)),
                    Err(code) => code,
                }
            }
        }
    };
}

once_written!(sync, xSync(flags: c_int), |held, put| held.sync(put));
once_written!(truncate, xTruncate(to: sqlite3_int64), |held, put| held.flush(put));
once_written!(size, xFileSize(out: *mut sqlite3_int64), |held, put| held.flush(put));
once_written!(control, xFileControl(what: c_int, with: *mut c_void), |held, put| held.flush(put));

/// A method that has nothing to do with what is held.
macro_rules! hand_on {
    ($name:ident, $method:ident($($arg:ident: $kind:ty),*)) => {
        unsafe extern "C" fn $name(file: *mut sqlite3_file, $($arg: $kind),*) -> c_int {
            // SAFETY: the log is open; else SQLite's contract is that of the real file's.
            unsafe { ask!(file, $method($($arg),*)) }
        }
    };
}

hand_on!(lock, xLock(level: c_int));
hand_on!(unlock, xUnlock(level: c_int));
hand_on!(check_reserved_lock, xCheckReservedLock(out: *mut c_int));
hand_on!(sector_size, xSectorSize());
hand_on!(device_characteristics, xDeviceCharacteristics());
