//! Opens the database. Sets a database aside that is damaged or was made by an older becket.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use thiserror::Error;

const SCHEMA: &str = include_str!("schema.sql");
/// The `user_version` that the schema sets.
const VERSION: i64 = 7;

/// The time that one of our readers may keep the writer waiting, and the writer a reader.
pub(super) const BUSY: Duration = Duration::from_secs(5);
/// The same time for the writer. It is short because the shim waits only a second, and the spool takes the
/// events that the database does not.
pub(super) const WRITER_BUSY: Duration = Duration::from_millis(300);

#[derive(Debug, Error)]
pub enum OpenError {
    #[error("the database {path} is of version {found}, newer than this becket's {VERSION}")]
    Newer { path: PathBuf, found: i64 },
    #[error("could not open the database {path}: {why}")]
    Sqlite { path: PathBuf, why: rusqlite::Error },
    #[error("could not set aside the database {path}: {why}")]
    Aside { path: PathBuf, why: io::Error },
}

impl OpenError {
    pub(crate) fn sqlite(path: &Path, why: rusqlite::Error) -> Self {
        let path = path.to_owned();
        Self::Sqlite { path, why }
    }
}

/// An open database. `set_aside` tells the user that an unusable database was moved away for it.
#[derive(Debug)]
pub struct Opened {
    pub connection: Connection,
    pub set_aside: Option<String>,
}

/// Opens the database for its one writer. A database that is damaged or was made by an older becket is set
/// aside, and a new one is created.
pub fn open(path: &Path, now_ms: i64) -> Result<Opened, OpenError> {
    let unusable = match try_open(path) {
        Ok((Some(connection), _)) => {
            return Ok(Opened {
                connection,
                set_aside: None,
            });
        }
        Ok((None, version)) if version > VERSION => {
            let path = path.to_owned();
            return Err(OpenError::Newer {
                path,
                found: version,
            });
        }
        Ok((None, _)) => "was made by an older becket",
        Err(why) if is_damage(&why) => "was damaged",
        Err(why) => return Err(OpenError::sqlite(path, why)),
    };
    let aside = set_aside(path, now_ms)?.unwrap_or_default();
    let (connection, _) = try_open(path).map_err(|why| OpenError::sqlite(path, why))?;
    Ok(Opened {
        connection: connection
            .ok_or_else(|| OpenError::sqlite(path, rusqlite::Error::InvalidQuery))?,
        set_aside: Some(format!(
            "the database {unusable}; it was set aside as {}",
            aside.display()
        )),
    })
}

/// Returns the inode of the file at this path.
pub(crate) fn inode(path: &Path) -> Option<u64> {
    fs::metadata(path).ok().map(|meta| meta.ino())
}

/// Returns the paths of SQLite's log of a database, and of the index of the log.
pub(super) fn log_files(path: &Path) -> [PathBuf; 2] {
    ["-wal", "-shm"].map(|suffix| with_suffix(path, suffix))
}

/// Returns true if an error means that the file itself is damaged.
pub(crate) fn is_damage(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
    )
}

/// Moves a database and its log away. Returns the new path, or none if there was no database file.
pub(super) fn set_aside(path: &Path, now_ms: i64) -> Result<Option<PathBuf>, OpenError> {
    let aside = with_suffix(path, &format!(".damaged-{now_ms}"));
    let existed = match fs::rename(path, &aside) {
        Ok(()) => true,
        Err(why) if why.kind() == io::ErrorKind::NotFound => false,
        Err(why) => {
            let path = path.to_owned();
            return Err(OpenError::Aside { path, why });
        }
    };
    for (from, to) in log_files(path).iter().zip(log_files(&aside)) {
        // The log belongs to the old file: a new database must not replay it.
        drop(fs::rename(from, to));
    }
    Ok(existed.then_some(aside))
}

/// Returns the path with a suffix added to the file name.
fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Opens the database and returns its version. Returns no connection if that is not our version.
fn try_open(path: &Path) -> rusqlite::Result<(Option<Connection>, i64)> {
    let mut connection = Connection::open(path)?;
    connection.busy_timeout(BUSY)?;
    // The daemon must end quickly, for the next daemon waits: the log is left to it. And the database of a newer
    // becket must not change.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    let version = user_version(&connection)?;
    if version != 0 && version != VERSION {
        return Ok((None, version));
    }
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.pragma_update(None, "synchronous", "normal")?;
    // Checkpoints run on a thread of their own: one inside a commit took 1.8 ms in the p99.
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    // In bytes: the size to which the log file is truncated when SQLite restarts the log.
    connection.pragma_update(None, "journal_size_limit", 128 << 20)?;
    // In KB. The last pages of all indexes have to fit.
    connection.pragma_update(None, "cache_size", -6144)?;
    connection.pragma_update(None, "temp_store", "memory")?;
    connection.set_prepared_statement_cache_capacity(32);
    if version == 0 {
        let transaction = connection.transaction()?;
        transaction.execute_batch(SCHEMA)?;
        transaction.commit()?;
    }
    probe(&connection)?;
    Ok((Some(connection), version))
}

fn user_version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

/// Reads from every table and index once: damage at their root pages shows now, not under load.
fn probe(connection: &Connection) -> rusqlite::Result<()> {
    for query in [
        "SELECT max(seq) FROM events",
        "SELECT max(id) FROM events",
        "SELECT max(at) FROM events",
        "SELECT max(session_id) FROM events",
        "SELECT max(seq) FROM payloads",
        "SELECT max(seq) FROM decisions",
        "SELECT max(session_id) FROM sessions",
        "SELECT max(event_id) FROM runs",
        "SELECT max(session_id) FROM figures",
        "SELECT max(at) FROM runs",
        "SELECT max(hook) FROM runs",
        "SELECT max(session_id) FROM runs",
        "SELECT max(id) FROM efforts",
        "SELECT max(id) FROM windows",
        "SELECT max(id) FROM messages",
    ] {
        connection.query_row(query, [], |_| Ok(()))?;
    }
    Ok(())
}

/// Opens the database for reading, which needs no daemon. Returns none if there is no database, or one of an
/// older becket, which the next daemon sets aside.
pub fn open_to_read(path: &Path) -> Result<Option<Connection>, OpenError> {
    if !path.exists() {
        return Ok(None);
    }
    try_open_to_read(path).map_err(|why| OpenError::sqlite(path, why))
}

fn try_open_to_read(path: &Path) -> rusqlite::Result<Option<Connection>> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY)?;
    let version = user_version(&connection)?;
    Ok((version >= VERSION).then_some(connection))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_or_older_database_is_set_aside_and_kept() {
        for older in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("becket.db");
            if older {
                let made = Connection::open(&path).unwrap();
                made.execute_batch("CREATE TABLE events (seq); PRAGMA user_version = 5;")
                    .unwrap();
                assert!(open_to_read(&path).unwrap().is_none());
            } else {
                fs::write(&path, "this is no database".repeat(999)).unwrap();
            }
            let before = fs::read(&path).unwrap();
            let opened = open(&path, 17).unwrap();
            let told = opened.set_aside.unwrap();
            let why = if older { "an older becket" } else { "damaged" };
            assert!(told.contains(why), "{told}");
            let aside = with_suffix(&path, ".damaged-17");
            assert!(told.ends_with(&*aside.to_string_lossy()), "{told}");
            assert_eq!(fs::read(aside).unwrap(), before);
            assert_eq!(user_version(&opened.connection).unwrap(), VERSION);
            drop(opened.connection);
            assert!(open(&path, 18).unwrap().set_aside.is_none());
        }
    }

    #[test]
    fn a_newer_database_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("becket.db");
        Connection::open(&path)
            .unwrap()
            .pragma_update(None, "user_version", 99)
            .unwrap();
        let before = fs::read(&path).unwrap();
        assert!(matches!(
            open(&path, 0),
            Err(OpenError::Newer { found: 99, .. })
        ));
        assert_eq!(fs::read(&path).unwrap(), before);
    }
}
