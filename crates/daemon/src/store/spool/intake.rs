//! The spool's way into the database: insert, commit, unlink, in groups. First the events, each with
//! what was said of it later, and doubles after what they repeat; then what was said of events that
//! are in the database already.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use becket_engine::mask::Masker;
use becket_wire::rpc::Source;
use becket_wire::{EventId, Place};
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};

use super::super::record::{self, Decision, Record};
use super::super::write::{Apply, Brought, LetThrough};
use super::super::{double, run, session};
use super::Left;
use super::read::{amendments, read, read_amendment, unfinished, waiting};

/// What one transaction takes in at the most.
pub(super) const GROUP_FILES: usize = 256;
const GROUP_BYTES: u64 = 64 << 20;
/// So long what belongs to an event waits for it, and what is not finished for its writer.
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
    /// Which of them are decided since.
    pub(in crate::store) decided: Vec<i64>,
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
    for path in unfinished(place) {
        if is_old(&path) {
            drop(fs::remove_file(path));
        }
    }
    let mut intake = Intake {
        place,
        masker,
        next_seq,
        apply,
        go_on,
        later: amendments(place),
        doubles: Some(Vec::new()),
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
    /// Events that repeat another, which comes first: that one, and theirs. None when it has.
    doubles: Option<Vec<(EventId, Waiting)>>,
    done: TakenIn,
}

/// An event that waits in a file.
type Waiting = (EventId, PathBuf);

/// What one transaction takes in.
#[derive(Default)]
struct Group {
    files: Vec<PathBuf>,
    records: Vec<Record>,
}

impl Intake<'_> {
    /// Takes in the events. False if told to stop.
    fn events(&mut self, connection: &mut Connection) -> rusqlite::Result<bool> {
        if !self.in_groups(connection, waiting(self.place))? {
            return Ok(false);
        }
        let mut ready = Vec::new();
        for (first, double) in self.doubles.take().unwrap_or_default() {
            // Of what was lost the double tells.
            if record::is_known(connection, first)? || is_old(&double.1) {
                ready.push(double);
            }
        }
        self.in_groups(connection, ready)
    }

    fn in_groups(
        &mut self,
        connection: &mut Connection,
        waiting: Vec<Waiting>,
    ) -> rusqlite::Result<bool> {
        let mut waiting = waiting.into_iter().peekable();
        while waiting.peek().is_some() {
            let group = self.next_group(&mut waiting);
            let Some(brought) = self.insert(connection, group.records)? else {
                return Ok(false);
            };
            self.done.new.extend(Arc::unwrap_or_clone(brought).new);
            if !self.remove(group.files) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Reads as many files as one transaction takes.
    fn next_group(&mut self, waiting: &mut impl Iterator<Item = Waiting>) -> Group {
        let mut group = Group::default();
        let mut bytes = 0;
        while group.files.len() < GROUP_FILES && bytes < GROUP_BYTES {
            let Some((id, path)) = waiting.next() else {
                break;
            };
            match read(&path, self.masker) {
                Ok(Some(record))
                    if let (Some(first), Some(doubles)) =
                        (record.double_of(), &mut self.doubles) =>
                {
                    doubles.push((first, (id, path)));
                }
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
    ) -> rusqlite::Result<Option<Arc<Brought>>> {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut brought = Brought::default();
        for mut record in records {
            record.duplicate_of = double::first_of(&transaction, &record)?;
            record.seq = (self.next_seq)();
            if record.insert(&transaction)? {
                brought.new.push(record);
            } else {
                // Whoever had it before was killed over its hooks.
                let left = Left::of(&record, "");
                let through = let_through(&transaction, record.id(), &left)?;
                brought.let_through.extend(through);
            }
            if !(self.go_on)(Step::Inserted) {
                return Ok(None);
            }
        }
        let brought = Arc::new(brought);
        self.commit(transaction, &brought)?;
        Ok((self.go_on)(Step::Committed).then_some(brought))
    }

    /// Commits what a group brings together with the sessions as they are after it.
    fn commit(&self, transaction: Transaction<'_>, brought: &Arc<Brought>) -> rusqlite::Result<()> {
        let (sessions, then) = (self.apply)(brought);
        session::write(&transaction, sessions.iter())?;
        transaction.commit()?;
        then();
        Ok(())
    }

    /// Takes in what was said of events that are there already. If one does not come, what its hooks
    /// did is kept all the same.
    fn amendments(&mut self, connection: &mut Connection) -> rusqlite::Result<()> {
        let mut ready = Vec::new();
        for (id, mut paths) in std::mem::take(&mut self.later) {
            // What waits on is not read: thousands may, and every two seconds they are looked at.
            if !record::is_known(connection, id)? {
                paths.retain(|path| is_old(path));
            }
            ready.extend(paths.into_iter().map(|path| (id, path)));
        }
        for group in ready.chunks(GROUP_FILES) {
            let (mut files, mut said) = (Vec::new(), Vec::new());
            for (id, path) in group {
                if let Some(left) = self.amendment(path) {
                    files.push(path.clone());
                    said.push((*id, left));
                }
            }
            if files.is_empty() {
                continue;
            }
            if !self.amend(connection, &said)? || !self.remove(files) {
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
        let (mut brought, mut decided) = (Brought::default(), Vec::new());
        for (id, left) in said {
            let seq = complete(&transaction, *id, left)?;
            if let Some(seq) = seq {
                brought.blocked.extend(blocked(&transaction, seq, left)?);
                decided.push(seq);
            }
            if seq.is_some() || left.is_unheard() {
                let through = let_through(&transaction, *id, left)?;
                brought.let_through.extend(through);
            }
            run::insert(&transaction, &left.runs)?;
            if !(self.go_on)(Step::Inserted) {
                return Ok(false);
            }
        }
        if brought.blocked.is_empty() && brought.let_through.is_empty() {
            transaction.commit()?;
        } else {
            self.commit(transaction, &Arc::new(brought))?;
        }
        self.done.amended += said.len();
        self.done.decided.extend(decided);
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

/// Tells the log what was answered. Gives the number of the event, if that was not known.
fn complete(connection: &Connection, id: EventId, left: &Left) -> rusqlite::Result<Option<i64>> {
    let (detour, decision) = (left.detour(), left.decision.as_ref());
    record::complete(connection, id, left.took_us, left.source, detour, decision)
}

/// The session and the time of a prompt that is blocked by what was answered.
fn blocked(
    connection: &Connection,
    seq: i64,
    left: &Left,
) -> rusqlite::Result<Option<(String, i64)>> {
    if !left.decision.as_ref().is_some_and(Decision::blocks) {
        return Ok(None);
    }
    let mut select = connection.prepare_cached(
        "SELECT session_id, at FROM events WHERE seq = ?1
         AND event IN ('UserPromptSubmit', 'UserPromptExpansion')
         AND session_id IS NOT NULL AND duplicate_of IS NULL",
    )?;
    let prompt = select.query_row([seq], |row| Ok((row.get(0)?, row.get(1)?)));
    prompt.optional()
}

/// The stop that is let through by what was answered, or because nothing will be.
pub(super) fn let_through(
    connection: &Connection,
    stop: EventId,
    left: &Left,
) -> rusqlite::Result<Option<LetThrough>> {
    let blocked = left.decision.as_ref().is_some_and(Decision::blocks_stop);
    let is_answered = left.took_us.is_some();
    if blocked || !(is_answered || left.is_unheard()) {
        return Ok(None);
    }
    let mut select = connection.prepare_cached(
        "SELECT session_id, at, event = 'Stop' FROM events WHERE id = ?1
         AND event IN ('Stop', 'SubagentStop') AND (?2 OR took_us IS NULL)
         AND session_id IS NOT NULL AND duplicate_of IS NULL",
    )?;
    let lasted = left.took_us.unwrap_or(0) / 1000;
    let found = select.query_row(params![stop.as_bytes(), is_answered], |row| {
        let at: i64 = row.get(1)?;
        Ok(LetThrough {
            stop,
            session: row.get(0)?,
            at,
            let_at: at.saturating_add(lasted),
            main: row.get(2)?,
            alone: left.source == Source::Alone,
        })
    });
    found.optional()
}

/// Whether a file has waited long enough. One from the future would wait for ever.
fn is_old(path: &Path) -> bool {
    let modified = fs::metadata(path).and_then(|meta| meta.modified());
    modified.is_ok_and(|at| at.elapsed().map_or(true, |age| age > PATIENCE))
}
