//! Gathers what the writer appends to SQLite's log, so that a commit is one write to the file and
//! not two for each page. A VFS of SQLite's: it stands before the usual one, for the writer alone.
#![expect(unsafe_code, reason = "a VFS of SQLite's is an interface of C's")]

mod held;
mod log;

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::sync::LazyLock;

use rusqlite::ffi::{
    SQLITE_ERROR, SQLITE_OK, SQLITE_OPEN_MAIN_DB, SQLITE_OPEN_WAL, sqlite3_file, sqlite3_filename,
    sqlite3_int64, sqlite3_vfs, sqlite3_vfs_find, sqlite3_vfs_register,
};
use tracing::warn;

use log::{Database, Log};

const NAME: &CStr = c"becket-gather";

/// What a library that SQLite loads has under a name.
type Symbol = unsafe extern "C" fn(*mut sqlite3_vfs, *mut c_void, *const c_char);

/// The name to open the writer's connection with. None if SQLite would not have it.
pub(super) fn name() -> Option<&'static CStr> {
    static REGISTERED: LazyLock<bool> = LazyLock::new(register);
    REGISTERED.then_some(NAME)
}

fn register() -> bool {
    // SAFETY: null asks for the default, which SQLite never frees.
    let real = unsafe { sqlite3_vfs_find(ptr::null()) };
    // SAFETY: it is null or valid.
    let Some(usual) = (unsafe { real.as_ref() }) else {
        warn!("SQLite has no VFS; what is committed is not gathered");
        return false;
    };
    let ours = Box::leak(Box::new(before(real, usual)));
    // SAFETY: it is whole, and lives for ever.
    let code = unsafe { sqlite3_vfs_register(ours, 0) };
    if code != SQLITE_OK {
        warn!(
            code,
            "SQLite takes no VFS; what is committed is not gathered"
        );
    }
    code == SQLITE_OK
}

/// Ours: every method asks the real one. Its third version only lets tests replace system calls.
fn before(real: *mut sqlite3_vfs, usual: &sqlite3_vfs) -> sqlite3_vfs {
    sqlite3_vfs {
        iVersion: usual.iVersion.min(2),
        szOsFile: log::place_of_ours(usual).saturating_add(log::SIZE_OF_OURS),
        mxPathname: usual.mxPathname,
        pNext: ptr::null_mut(),
        zName: NAME.as_ptr(),
        pAppData: real.cast(),
        xOpen: Some(open),
        xDelete: Some(delete),
        xAccess: Some(access),
        xFullPathname: Some(full_pathname),
        xDlOpen: usual.xDlOpen.and(Some(dl_open)),
        xDlError: usual.xDlError.and(Some(dl_error)),
        xDlSym: usual.xDlSym.and(Some(dl_sym)),
        xDlClose: usual.xDlClose.and(Some(dl_close)),
        xRandomness: Some(randomness),
        xSleep: Some(sleep),
        xCurrentTime: Some(current_time),
        xGetLastError: Some(last_error),
        xCurrentTimeInt64: usual.xCurrentTimeInt64.and(Some(current_time_int64)),
        xSetSystemCall: None,
        xGetSystemCall: None,
        xNextSystemCall: None,
    }
}

unsafe extern "C" fn open(
    ours: *mut sqlite3_vfs,
    name: sqlite3_filename,
    file: *mut sqlite3_file,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    let open_real = |at: *mut sqlite3_file| {
        // SAFETY: SQLite's contract for this very call; at `at` there is room for a real file.
        unsafe {
            let real = real(ours);
            match (*real).xOpen {
                Some(method) => method(real, name, at, flags, out),
                None => SQLITE_ERROR,
            }
        }
    };
    // SAFETY: `file` has the room that we asked for, and `name` comes from SQLite's pager.
    unsafe {
        if flags & SQLITE_OPEN_WAL != 0
            && let Some(database) = Database::of_log(name, real(ours))
        {
            return Log::open(file, database, open_real);
        }
        let code = open_real(file);
        if code == SQLITE_OK && flags & SQLITE_OPEN_MAIN_DB != 0 {
            Database::watch(file, real(ours));
        }
        code
    }
}

/// # Safety
/// It must be our own VFS.
unsafe fn real(ours: *mut sqlite3_vfs) -> *mut sqlite3_vfs {
    // SAFETY: `before` put the real one there.
    unsafe { (*ours).pAppData.cast() }
}

/// A method that is the real VFS's.
macro_rules! hand_on {
    ($name:ident, $method:ident($($arg:ident: $kind:ty),*) -> $gives:ty, else $none:expr) => {
        unsafe extern "C" fn $name(ours: *mut sqlite3_vfs, $($arg: $kind),*) -> $gives {
            // SAFETY: SQLite's contract for this method is that of the real one's.
            unsafe {
                let real = real(ours);
                match (*real).$method {
                    Some(method) => method(real, $($arg),*),
                    None => $none,
                }
            }
        }
    };
}

hand_on!(delete, xDelete(name: *const c_char, sync: c_int) -> c_int, else SQLITE_ERROR);
hand_on!(
    access,
    xAccess(name: *const c_char, flags: c_int, out: *mut c_int) -> c_int,
    else SQLITE_ERROR
);
hand_on!(
    full_pathname,
    xFullPathname(name: *const c_char, room: c_int, out: *mut c_char) -> c_int,
    else SQLITE_ERROR
);
hand_on!(dl_open, xDlOpen(name: *const c_char) -> *mut c_void, else ptr::null_mut());
hand_on!(dl_error, xDlError(room: c_int, out: *mut c_char) -> (), else ());
hand_on!(dl_sym, xDlSym(library: *mut c_void, name: *const c_char) -> Option<Symbol>, else None);
hand_on!(dl_close, xDlClose(library: *mut c_void) -> (), else ());
hand_on!(randomness, xRandomness(room: c_int, out: *mut c_char) -> c_int, else 0);
hand_on!(sleep, xSleep(microseconds: c_int) -> c_int, else 0);
hand_on!(current_time, xCurrentTime(out: *mut f64) -> c_int, else SQLITE_ERROR);
hand_on!(last_error, xGetLastError(room: c_int, out: *mut c_char) -> c_int, else 0);
hand_on!(
    current_time_int64,
    xCurrentTimeInt64(out: *mut sqlite3_int64) -> c_int,
    else SQLITE_ERROR
);

#[cfg(test)]
mod tests;
