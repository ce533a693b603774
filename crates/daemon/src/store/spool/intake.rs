//! The spool's way into the database: insert, commit, unlink, in groups. First the events, each with
//! what was said of it later; then what was said of events that are in the database already.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use becket_engine::mask::Masker;
use becket_wire::{EventId, Place};
use rusqlite::{Connection, TransactionBehavior};

use super::super::record::{self, Record};
use super::super::write::Apply;
use super::super::{run, session};
use super::Left;
use super::read::{amendments, read, read_amendment, waiting};

/// What one transaction takes in at the most.
pub(super) const GROUP_FILES: usize = 256;
const GROUP_BYTES: u64 = 64 << 20;
/// So long what was said of an event waits for it.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where an intake may die. Tests stop there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) enum Step {
    Inserted,
    Committed,
    Removed,
}

/// What an intake did.
#[derive(Debug, Default)]
pub(in crate::store) struct TakenIn {
    pub(in crate::store) new: Vec<Record>,
    /// Of how many events more was said that were in the database already.
    pub(in crate::store) amended: usize,
    pub(in crate::store) bad: u64,
}

/// Takes everything in: insert, commit together with what it did to sessions, then unlink. `go_on`
/// is asked after each step. What was done counts, also where it ended with an error.
pub(in crate::store) fn take_in(
    connection: &mut Connection,
    place: &Place,
    masker: &Masker,
    next_seq: &mut dyn FnMut() -> i64,
    apply: &Apply,
    go_on: &mut dyn FnMut(Step) -> bool,
) -> (TakenIn, rusqlite::Result<()>) {
    let mut intake = Intake {
        place,
        masker,
        next_seq,
        apply,
        go_on,
        later: amendments(place),
        done: TakenIn::default(),
    };
    let ended = intake.events(connection).and_then(|goes_on| match goes_on {
        true => intake.amendments(connection),
        false => Ok(()),
    });
    (intake.done, ended)
}

struct Intake<'a> {
    place: &'a Place,
    masker: &'a Masker,
    next_seq: &'a mut dyn FnMut() -> i64,
    apply: &'a Apply,
    go_on: &'a mut dyn FnMut(Step) -> bool,
    /// What was said later, and is not taken in yet.
    later: BTreeMap<EventId, Vec<PathBuf>>,
    done: TakenIn,
}

/// What one transaction takes in.
#[derive(Default)]
struct Group {
    files: Vec<PathBuf>,
    records: Vec<Record>,
}

impl Intake<'_> {
    /// Takes in the events. False if told to stop.
    fn events(&mut self, connection: &mut Connection) -> rusqlite::Result<bool> {
        let mut waiting = waiting(self.place).into_iter().peekable();
        while waiting.peek().is_some() {
            let group = self.next_group(&mut waiting);
            let Some(new) = self.insert(connection, group.records)? else {
                return Ok(false);
            };
            self.done.new.extend(Arc::unwrap_or_clone(new));
            if !self.remove(group.files) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Reads as many files as one transaction takes.
    fn next_group(&mut self, waiting: &mut impl Iterator<Item = (EventId, PathBuf)>) -> Group {
        let mut group = Group::default();
        let mut bytes = 0;
        while group.files.len() < GROUP_FILES && bytes < GROUP_BYTES {
            let Some((id, path)) = waiting.next() else {
                break;
            };
            match read(&path, self.masker) {
                Ok(Some(mut record)) => {
                    bytes += fs::metadata(&path).map_or(0, |meta| meta.len());
                    group.files.push(path);
                    for path in self.later.remove(&id).unwrap_or_default() {
                        if let Some(left) = self.amendment(&path) {
                            record.amend(left);
                            group.files.push(path);
                        }
                    }
                    group.records.push(record);
                }
                Ok(None) => self.put_away(&path),
                // Somebody else took it, or it cannot be read now: the next intake looks again.
                Err(_) => {}
            }
        }
        group
    }

    /// Inserts a group in one transaction, and the sessions as they are after it. Gives those that
    /// are new; none if told to stop.
    fn insert(
        &mut self,
        connection: &mut Connection,
        records: Vec<Record>,
    ) -> rusqlite::Result<Option<Arc<Vec<Record>>>> {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut new = Vec::new();
        for mut record in records {
            record.seq = (self.next_seq)();
            if record.insert(&transaction)? {
                new.push(record);
            }
            if !(self.go_on)(Step::Inserted) {
                return Ok(None);
            }
        }
        let new = Arc::new(new);
        let (sessions, then) = (self.apply)(&new);
        session::write(&transaction, sessions.iter())?;
        transaction.commit()?;
        then();
        Ok((self.go_on)(Step::Committed).then_some(new))
    }

    /// Takes in what was said of events that are there already. If one does not come, what its hooks
    /// did is kept all the same.
    fn amendments(&mut self, connection: &mut Connection) -> rusqlite::Result<()> {
        let later = std::mem::take(&mut self.later).into_iter();
        let mut later = later
            .flat_map(|(id, paths)| paths.into_iter().map(move |path| (id, path)))
            .peekable();
        while later.peek().is_some() {
            let (mut files, mut said) = (Vec::new(), Vec::new());
            for (id, path) in later.by_ref().take(GROUP_FILES) {
                if let Some(left) = self.amendment(&path)
                    && (record::is_known(connection, id)? || is_old(&path))
                {
                    files.push(path);
                    said.push((id, left));
                }
            }
            if !files.is_empty() && !(self.amend(connection, &said)? && self.remove(files)) {
                break;
            }
        }
        Ok(())
    }

    /// Writes a group of them in one transaction. False if told to stop.
    fn amend(
        &mut self,
        connection: &mut Connection,
        said: &[(EventId, Left)],
    ) -> rusqlite::Result<bool> {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        for (id, left) in said {
            left.complete(&transaction, *id)?;
            run::insert(&transaction, &left.runs)?;
            if !(self.go_on)(Step::Inserted) {
                return Ok(false);
            }
        }
        transaction.commit()?;
        self.done.amended += said.len();
        Ok((self.go_on)(Step::Committed))
    }

    fn amendment(&mut self, path: &Path) -> Option<Left> {
        match read_amendment(path) {
            Ok(None) => {
                self.put_away(path);
                None
            }
            // It cannot be read now: the next intake looks again.
            read => read.ok().flatten(),
        }
    }

    /// Removes the files of a group that is committed. False if told to stop.
    fn remove(&mut self, files: Vec<PathBuf>) -> bool {
        files.into_iter().all(|path| {
            drop(fs::remove_file(path));
            (self.go_on)(Step::Removed)
        })
    }

    /// Sets a file aside that is none of ours, so that it is looked at once only.
    fn put_away(&mut self, path: &Path) {
        self.done.bad += 1;
        let folder = self.place.spool_bad();
        drop(
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(&folder),
        );
        if let Some(name) = path.file_name() {
            drop(fs::rename(path, folder.join(name)));
        }
    }
}

/// Whether a file has waited long enough. One from the future would wait for ever.
fn is_old(path: &Path) -> bool {
    let modified = fs::metadata(path).and_then(|meta| meta.modified());
    modified.is_ok_and(|at| at.elapsed().map_or(true, |age| age > PATIENCE))
}
