//! Opens the database: migrations, and what to do with one that is damaged or newer than us.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::ffi::SQLITE_READONLY_ROLLBACK;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use thiserror::Error;

use super::gather;

/// The steps from an empty database to today's, in order. A step that was released never changes.
const MIGRATIONS: [&str; 6] = [
    include_str!("1.sql"),
    include_str!("2.sql"),
    include_str!("3.sql"),
    include_str!("4.sql"),
    include_str!("5.sql"),
    include_str!("6.sql"),
];

/// How long a reader of ours may keep the writer waiting, and the other way round.
pub(super) const BUSY: Duration = Duration::from_secs(5);

#[derive(Debug, Error)]
pub enum OpenError {
    #[error("the database {path} is of version {found}, newer than this becket's {known}")]
    Newer {
        path: PathBuf,
        found: i64,
        known: i64,
    },
    #[error("could not open the database {path}: {why}")]
    Sqlite { path: PathBuf, why: rusqlite::Error },
    #[error("could not set aside the damaged database {path}: {why}")]
    Aside { path: PathBuf, why: std::io::Error },
}

/// An open database, and where a damaged one went.
#[derive(Debug)]
pub struct Opened {
    pub connection: Connection,
    pub set_aside: Option<PathBuf>,
}

/// Opens the database for its one writer. A damaged one is set aside, and a new one begun.
pub fn open(path: &Path, now_ms: i64) -> Result<Opened, OpenError> {
    match try_open(path) {
        Err(OpenError::Sqlite { why, .. }) if is_damage(&why) => {
            let aside = set_aside(path, now_ms)?;
            Ok(Opened {
                connection: try_open(path)?,
                set_aside: Some(aside),
            })
        }
        opened => Ok(Opened {
            connection: opened?,
            set_aside: None,
        }),
    }
}

/// Which file stands there now.
pub(crate) fn inode(path: &Path) -> Option<u64> {
    std::fs::metadata(path).ok().map(|meta| meta.ino())
}

/// Whether an error means that the file itself is broken.
pub(crate) fn is_damage(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
    )
}

pub(super) fn set_aside(path: &Path, now_ms: i64) -> Result<PathBuf, OpenError> {
    let damaged = beside(path, &format!(".damaged-{now_ms}"));
    std::fs::rename(path, &damaged).map_err(|why| OpenError::Aside {
        path: path.to_owned(),
        why,
    })?;
    for part in ["-wal", "-shm"] {
        // What is left of the log belongs to the damaged file; a new database must not replay it.
        drop(std::fs::rename(beside(path, part), beside(&damaged, part)));
    }
    Ok(damaged)
}

/// A file that belongs to another by its name.
fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

fn try_open(path: &Path) -> Result<Connection, OpenError> {
    let failed = |why| OpenError::Sqlite {
        path: path.to_owned(),
        why,
    };
    let known = MIGRATIONS.len() as i64;
    let not_newer = |found| {
        if found <= known {
            return Ok(found);
        }
        Err(OpenError::Newer {
            path: path.to_owned(),
            found,
            known,
        })
    };
    not_newer(version(path).map_err(failed)?)?;
    let mut connection = connect(path).map_err(failed)?;
    let found = not_newer(user_version(&connection).map_err(failed)?)?;
    prepare(&connection).map_err(failed)?;
    migrate(&mut connection, found).map_err(failed)?;
    probe(&connection).map_err(failed)?;
    Ok(connection)
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    match gather::name() {
        Some(vfs) => Connection::open_with_flags_and_vfs(path, OpenFlags::default(), vfs),
        None => Connection::open(path),
    }
}

/// The version of what lies there; 0 if nothing does. It is only read: a newer becket's database
/// must not change, not even in its head.
fn version(path: &Path) -> rusqlite::Result<i64> {
    if !path.exists() {
        return Ok(0);
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY)?;
    match user_version(&connection) {
        Err(why) if is_half_begun(&why) => Ok(0),
        found => found,
    }
}

/// Whether whoever made the database died before it was in WAL mode, where nobody has to be able to
/// write to take back what a dead writer left. Such a database holds nothing yet.
fn is_half_begun(error: &rusqlite::Error) -> bool {
    error
        .sqlite_error()
        .is_some_and(|error| error.extended_code == SQLITE_READONLY_ROLLBACK)
}

pub(super) fn user_version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

fn prepare(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(BUSY)?;
    // Of an event of 2 KB one fits into SQLite's usual page, and three into this: a third more events
    // a second. A database that is there already keeps its own.
    connection.pragma_update(None, "page_size", 8192)?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.pragma_update(None, "synchronous", "normal")?;
    // Checkpoints run on a thread of their own: one inside a commit took 1.8 ms in the p99.
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    // In KB. The ends of all indexes have to fit, one a session too: with half of it, and a million
    // events of 500 sessions, an event cost half as much again.
    connection.pragma_update(None, "cache_size", -16384)?;
    connection.pragma_update(None, "temp_store", "memory")?;
    // An end must be quick, for the next daemon waits: the log is left to it.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.set_prepared_statement_cache_capacity(32);
    Ok(())
}

fn migrate(connection: &mut Connection, found: i64) -> rusqlite::Result<()> {
    for (version, step) in (1..)
        .zip(MIGRATIONS)
        .filter(|(version, _)| *version > found)
    {
        let transaction = connection.transaction()?;
        transaction.execute_batch(step)?;
        transaction.pragma_update(None, "user_version", version)?;
        transaction.commit()?;
    }
    Ok(())
}

/// Touches every table and index once: damage at their roots shows now, not under load.
fn probe(connection: &Connection) -> rusqlite::Result<()> {
    for query in [
        "SELECT max(seq) FROM events",
        "SELECT max(id) FROM events",
        "SELECT max(at) FROM events",
        "SELECT max(seq >> 10) FROM events",
        "SELECT max(event) FROM events",
        "SELECT max(seq) FROM payloads",
        "SELECT max(seq) FROM decisions",
        "SELECT max(event_id) FROM runs",
        "SELECT max(session_id) FROM figures",
        "SELECT max(at) FROM runs",
        "SELECT max(hook) FROM runs",
        "SELECT max(session_id) FROM runs",
    ] {
        connection.query_row(query, [], |_| Ok(()))?;
    }
    Ok(())
}

/// Opens the database to read, beside the daemon or without one. None if there is none.
pub fn open_to_read(path: &Path) -> Result<Option<Connection>, OpenError> {
    if !path.exists() {
        return Ok(None);
    }
    let failed = |why| OpenError::Sqlite {
        path: path.to_owned(),
        why,
    };
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(failed)?;
    connection.busy_timeout(BUSY).map_err(failed)?;
    let (connection, found) = match user_version(&connection) {
        Err(why) if is_unopened(&why) && !beside(path, "-wal").exists() => {
            let connection = open_unchanging(path, flags).map_err(failed)?;
            let found = user_version(&connection).map_err(failed)?;
            (connection, found)
        }
        Err(why) if is_half_begun(&why) => return Ok(None),
        found => (connection, found.map_err(failed)?),
    };
    // A database whose first migration was never committed holds nothing.
    Ok((found > 0).then_some(connection))
}

fn is_unopened(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::CannotOpen)
}

/// On a read-only disk SQLite cannot make the files that it shares with a writer. There is no
/// writer there either, so the database is read as it lies.
fn open_unchanging(path: &Path, flags: OpenFlags) -> rusqlite::Result<Connection> {
    let mut uri = b"file:".to_vec();
    for &byte in path.as_os_str().as_bytes() {
        match byte {
            b'?' | b'#' | b'%' => uri.extend(format!("%{byte:02x}").bytes()),
            _ => uri.push(byte),
        }
    }
    uri.extend(b"?immutable=1");
    let uri = OsString::from_vec(uri);
    Connection::open_with_flags(uri, flags | OpenFlags::SQLITE_OPEN_URI)
}

#[cfg(test)]
mod tests {
    use super::super::run::{self, RunQuery};
    use super::super::sample::{Home, masker, record, rows, run as sample_run};
    use super::super::session::{self, Which};
    use super::super::{inbox, spool};
    use super::*;

    #[test]
    fn a_damaged_database_is_set_aside_and_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("becket.db");
        std::fs::write(
            &path,
            "this is no database, and it is longer than a header of SQLite's would be".repeat(99),
        )
        .unwrap();
        let opened = open(&path, 17).unwrap();
        let aside = opened.set_aside.unwrap();
        assert!(
            std::fs::read(&aside)
                .unwrap()
                .starts_with(b"this is no database")
        );
        assert!(aside.to_string_lossy().ends_with("becket.db.damaged-17"));
        opened
            .connection
            .query_row("SELECT count(*) FROM events", [], |row| {
                row.get::<_, i64>(0)
            })
            .unwrap();
        drop(opened.connection);
        assert!(open(&path, 18).unwrap().set_aside.is_none());
    }

    #[test]
    fn a_database_whose_maker_died_is_begun_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("becket.db");
        {
            // What a process leaves that dies in the middle of a transaction without a WAL.
            let other = folder.path().join("other.db");
            let dying = Connection::open(&other).unwrap();
            dying.pragma_update(None, "cache_size", 1).unwrap();
            dying
                .execute_batch(
                    "CREATE TABLE t (x); INSERT INTO t VALUES (1); BEGIN;
                     INSERT INTO t SELECT randomblob(5000) FROM t;
                     INSERT INTO t SELECT randomblob(5000) FROM t;
                     INSERT INTO t SELECT randomblob(5000) FROM t;
                     INSERT INTO t SELECT randomblob(5000) FROM t",
                )
                .unwrap();
            for part in ["", "-journal"] {
                std::fs::copy(beside(&other, part), beside(&path, part)).unwrap();
            }
        }
        assert!(is_half_begun(
            &Connection::open_with_flags(&path, OpenFlags::SQLITE_OPEN_READ_ONLY)
                .and_then(|connection| user_version(&connection))
                .unwrap_err()
        ));
        assert!(open_to_read(&path).unwrap().is_none());
        let opened = open(&path, 17).unwrap();
        assert!(opened.set_aside.is_none());
        assert!(open_to_read(&path).unwrap().is_some());
    }

    #[test]
    fn a_newer_database_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("becket.db");
        Connection::open(&path)
            .unwrap()
            .pragma_update(None, "user_version", 99)
            .unwrap();
        let before = std::fs::read(&path).unwrap();
        assert!(matches!(
            open(&path, 0),
            Err(OpenError::Newer { found: 99, .. })
        ));
        assert_eq!(std::fs::read(&path).unwrap(), before);
    }

    #[test]
    fn a_database_without_runs_gets_them_and_keeps_all_else() {
        let home = Home::new();
        let path = home.place.database();
        {
            let older = Connection::open(&path).unwrap();
            older.execute_batch(&MIGRATIONS[..2].concat()).unwrap();
            older.pragma_update(None, "user_version", 2).unwrap();
            older.execute_batch(include_str!("fixture-2.sql")).unwrap();
        }
        let asked = RunQuery::default();
        let unchanged = open_to_read(&path).unwrap().unwrap();
        let before = rows(&unchanged);
        assert_eq!(before.len(), 2);
        assert_eq!(run::runs(&unchanged, &asked).unwrap(), []);
        drop(unchanged);
        let connection = open(&path, 0).unwrap().connection;
        let newest = i64::try_from(MIGRATIONS.len()).unwrap();
        assert_eq!(user_version(&connection).unwrap(), newest);
        assert_eq!(rows(&connection), before);
        let live = session::sessions(&connection, Which::Live).unwrap();
        assert_eq!(live[0].title.as_deref(), Some("kept"));
        run::insert(&connection, &[sample_run(1, "lint")]).unwrap();
        let found = run::runs(&connection, &asked).unwrap();
        assert_eq!(found[0].tool.as_deref(), Some("Bash"));
    }

    #[test]
    fn what_waits_in_the_inbox_of_an_older_becket_is_settled() {
        let home = Home::new();
        let path = home.place.database();
        {
            let older = Connection::open(&path).unwrap();
            older.execute_batch(MIGRATIONS[0]).unwrap();
            older.pragma_update(None, "user_version", 1).unwrap();
            let frames = spool::encode(&record(7, 1)).unwrap();
            older
                .execute("INSERT INTO inbox VALUES (7, ?1)", [frames])
                .unwrap();
        }
        let unchanged = open_to_read(&path).unwrap().unwrap();
        assert_eq!(inbox::waiting(&unchanged, &masker()).unwrap().len(), 1);
        let live = session::sessions(&unchanged, Which::Live).unwrap();
        assert!(live.is_empty());
        drop(unchanged);
        let mut connection = open(&path, 0).unwrap().connection;
        let waiting = inbox::waiting(&connection, &masker()).unwrap();
        inbox::settle(&mut connection, &waiting).unwrap();
        assert_eq!(rows(&connection), [record(7, 1).to_row()]);
        assert!(
            session::sessions(&connection, Which::Live)
                .unwrap()
                .is_empty()
        );
    }
}
