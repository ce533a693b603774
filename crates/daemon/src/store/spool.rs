//! The spool: events that no daemon has stored yet, each in its own file. They are left by the shim, by
//! `becket hook` or by a daemon whose database failed. A daemon takes them in: insert, commit, unlink. Each event
//! is stored once, even if a process dies in between.
//!
//! A file holds the event's frame and its details. `ID.ev` is rewritten by a rename when more details are known.
//! Intake first renames it to `ID.1.ev`, so that it removes only the version that it has read. `ID.more-PID-N.ev`
//! adds details to an event that another process may have left or stored.

use std::fs::{self, DirEntry, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use becket_engine::mask::Masker;
use becket_engine::replace::make_folder;
use becket_wire::frame::{self, Decoder, FrameKind, HEAD, MAX_BODY};
use becket_wire::hook_run::RunRow;
use becket_wire::rpc::{Envelope, Request, RpcError, Source, encode_event};
use becket_wire::{EventId, Head, Place};
use rusqlite::{Connection, TransactionBehavior};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::denied::DeniedCalls;
use super::effort;
use super::record::{Decision, EventRecord, InsertOutcome};
use super::sessions::{self, StoredSession};

/// The limits of the spool. Beyond them, events are refused and counted.
const MAX_FILES: usize = 100_000;
const MAX_BYTES: u64 = 1 << 30;
/// The largest size of a file: a frame for the event and one for its details.
const MAX_FILE: u64 = 2 * (HEAD + MAX_BODY) as u64;
/// The largest number of files, and of bytes, that one transaction takes in.
const GROUP_FILES: usize = 256;
const GROUP_BYTES: u64 = 64 << 20;
/// The age from which on an unfinished file is deleted: its writer is dead.
const PATIENCE: Duration = Duration::from_secs(60);

/// The details of an event besides its frame.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpoolDetails {
    pub took_us: Option<i64>,
    pub decision: Option<Decision>,
    pub masked: u32,
    pub source: Source,
    /// The reason why no daemon stored it.
    pub why: String,
    /// The project, masked.
    #[serde(default)]
    pub project: Option<String>,
    /// The runs of its named hooks.
    #[serde(default)]
    pub runs: Vec<RunRow>,
    /// True if its hooks still run. The file is rewritten when they have ended.
    #[serde(default)]
    pub held: bool,
}

impl SpoolDetails {
    /// Makes details that hold only the runs of hooks.
    pub fn with_runs(runs: Vec<RunRow>) -> Self {
        Self {
            took_us: None,
            decision: None,
            masked: 0,
            source: Source::Alone,
            why: String::new(),
            project: None,
            runs,
            held: false,
        }
    }

    /// Makes the details of a record.
    pub(crate) fn from_record(record: &EventRecord, why: &str) -> Self {
        Self {
            took_us: record.took_us,
            decision: record.decision.clone(),
            masked: u32::try_from(record.masked()).unwrap_or(u32::MAX),
            source: record.source,
            why: why.to_owned(),
            project: record.project.clone(),
            runs: record.runs.clone(),
            held: false,
        }
    }
}

#[derive(Debug, Error)]
pub enum SpoolError {
    #[error("the spool is full ({files} files, {bytes} bytes)")]
    Full { files: usize, bytes: u64 },
    #[error("could not write to the spool {path}: {why}")]
    Write { path: PathBuf, why: io::Error },
    #[error("could not pack the event: {0}")]
    Pack(RpcError),
}

impl SpoolError {
    fn write(folder: &Path, why: io::Error) -> Self {
        let path = folder.to_owned();
        Self::Write { path, why }
    }
}

/// Leaves an event for the next daemon, or rewrites the file that was left. `payload` is masked already.
pub fn leave(
    place: &Place,
    envelope: &Envelope,
    payload: &[u8],
    details: &SpoolDetails,
) -> Result<(), SpoolError> {
    put(
        place,
        &place.spooled(envelope.id),
        envelope,
        payload,
        details,
    )
}

/// Adds details to an event that another process may have left or stored.
pub fn add(
    place: &Place,
    envelope: &Envelope,
    payload: &[u8],
    details: &SpoolDetails,
) -> Result<(), SpoolError> {
    static NTH: AtomicU32 = AtomicU32::new(0);
    let nth = NTH.fetch_add(1, Ordering::Relaxed);
    let name = format!("{}.more-{}-{nth}.ev", envelope.id, std::process::id());
    put(place, &place.spool().join(name), envelope, payload, details)
}

/// Writes a spool file, unless the spool is full.
fn put(
    place: &Place,
    path: &Path,
    envelope: &Envelope,
    payload: &[u8],
    details: &SpoolDetails,
) -> Result<(), SpoolError> {
    let folder = place.spool();
    make_folder(&folder, 0o700).map_err(|why| SpoolError::write(&folder, why))?;
    check_room(&folder)?;
    let bytes = pack(envelope, payload, details).map_err(SpoolError::Pack)?;
    let temp = path.with_extension(format!("{}.tmp", std::process::id()));
    write_and_rename(&temp, path, &bytes).map_err(|why| {
        drop(fs::remove_file(&temp));
        SpoolError::write(&folder, why)
    })
}

fn write_and_rename(temp: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .create(true)
        .truncate(true)
        .write(true)
        .mode(0o600)
        .open(temp)?;
    file.write_all(bytes)?;
    drop(file);
    fs::rename(temp, path)
}

/// Encodes the two frames of a spool file.
fn pack(envelope: &Envelope, payload: &[u8], details: &SpoolDetails) -> Result<Vec<u8>, RpcError> {
    let mut bytes = encode_event(envelope, payload)?;
    let details = serde_json::to_vec(details)?;
    bytes.extend(frame::encode(FrameKind::LEFT, &[&details])?);
    Ok(bytes)
}

/// Returns an error if the spool is full.
fn check_room(folder: &Path) -> Result<(), SpoolError> {
    let files = event_files(folder).count();
    // So few files cannot fill it: their sizes need no look.
    if files as u64 * MAX_FILE <= MAX_BYTES {
        return Ok(());
    }
    let (files, bytes) = usage(folder);
    if files >= MAX_FILES || bytes >= MAX_BYTES {
        Err(SpoolError::Full { files, bytes })
    } else {
        Ok(())
    }
}

/// Returns the number of event files, and their bytes.
pub fn usage(folder: &Path) -> (usize, u64) {
    let sizes = event_files(folder).map(|entry| entry.metadata().map_or(0, |meta| meta.len()));
    sizes.fold((0, 0), |(files, bytes), size| (files + 1, bytes + size))
}

/// Lists the event files. Another ending is the unfinished write of a killed process.
fn event_files(folder: &Path) -> impl Iterator<Item = DirEntry> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter(|entry| entry.path().extension().is_some_and(|end| end == "ev"))
}

/// Reads the events in the spool, oldest first, each merged with its additions. The database may have them
/// already.
pub fn read_all(place: &Place, masker: &Masker) -> Vec<EventRecord> {
    let mut records: Vec<EventRecord> = Vec::new();
    for (_, path) in waiting(place) {
        match (read(&path, masker), records.last_mut()) {
            (Ok(Some(record)), Some(last)) if last.id() == record.id() => last.merge(record),
            (Ok(Some(record)), _) => records.push(record),
            _ => {}
        }
    }
    records
}

/// Lists the event files, oldest event first. For each event, additions come last.
fn waiting(place: &Place) -> Vec<(EventId, PathBuf)> {
    let mut found = files(place, ".ev");
    found.sort();
    found
}

/// Lists the files whose names begin with an event's id and have this ending.
fn files(place: &Place, end: &str) -> Vec<(EventId, PathBuf)> {
    let Ok(entries) = fs::read_dir(place.spool()) else {
        return Vec::new();
    };
    let paths = entries.flatten().map(|entry| entry.path());
    let found = paths.filter_map(|path| {
        let name = path.file_name()?.to_str()?.strip_suffix(end)?;
        let id = name.split('.').next()?.parse().ok()?;
        Some((id, path))
    });
    found.collect()
}

/// Reads one file. Returns none if it is not a whole spool file.
fn read(path: &Path, masker: &Masker) -> io::Result<Option<EventRecord>> {
    let meta = fs::symlink_metadata(path)?;
    // Reading a pipe or a device would never end.
    if !meta.is_file() || meta.len() > MAX_FILE {
        return Ok(None);
    }
    Ok(decode(&fs::read(path)?, masker))
}

fn decode(bytes: &[u8], masker: &Masker) -> Option<EventRecord> {
    let mut decoder = Decoder::new();
    decoder.push(bytes);
    let first = decoder.next_frame().ok()??;
    let Ok(Request::Event(event)) = Request::from_frame(first) else {
        return None;
    };
    let second = decoder.next_frame().ok().flatten();
    let second = second.filter(|frame| frame.kind == FrameKind::LEFT);
    let details: Option<SpoolDetails> =
        second.and_then(|frame| serde_json::from_slice(&frame.body).ok());
    // The shim leaves the event alone, unmasked, when it finds no becket.
    let masked = masker.mask(&event.payload);
    let count = masked.count + details.as_ref().map_or(0, |details| details.masked);
    let source = (details.as_ref()).map_or(Source::Alone, |details| details.source);
    let head = Head::read(&masked.bytes);
    let mut envelope = event.envelope;
    masker.envelope(&mut envelope);
    let mut record = EventRecord::new(envelope, &head, &masked.bytes, count, source);
    if let Some(details) = details {
        record.detour = Some(details.why).filter(|why| !why.is_empty());
        record.took_us = details.took_us;
        record.decision = details.decision;
        record.runs = details.runs;
        record.hooks_pending = details.held;
        record.project = details.project;
    }
    Some(record)
}

/// The events that were taken in.
#[derive(Debug, Default)]
pub(crate) struct Intake {
    pub(crate) new: Vec<EventRecord>,
    /// Events that completed a row, with its number, and events that will never be answered.
    pub(crate) completed: Vec<EventRecord>,
    pub(super) bad: u64,
}

/// The rows that change with the events of one transaction.
#[derive(Debug, Default)]
pub(crate) struct IntakeChanges {
    pub(crate) sessions: Vec<StoredSession>,
    pub(crate) efforts: Vec<effort::Change>,
}

/// Applies the events of one transaction to live state, and returns the rows that change with it.
pub(crate) type ApplyIntake<'a> = dyn FnMut(&Connection, &Intake) -> IntakeChanges + 'a;

/// Takes in one group: inserts it, commits it together with its changes of sessions, then deletes its files.
/// Returns true if more files wait.
pub(super) fn take_in(
    connection: &mut Connection,
    place: &Place,
    masker: &Masker,
    denied: &mut DeniedCalls,
    next_seq: &mut i64,
    apply: &mut ApplyIntake<'_>,
) -> (Intake, rusqlite::Result<bool>) {
    for (_, path) in files(place, ".tmp") {
        if is_old(&path) {
            drop(fs::remove_file(path));
        }
    }
    let mut done = Intake::default();
    let mut waiting = waiting(place).into_iter().peekable();
    let (files, records) = next_group(place, masker, &mut waiting, &mut done.bad);
    match insert(connection, records, denied, next_seq, apply) {
        Ok(group) => (done.new, done.completed) = (group.new, group.completed),
        Err(why) => return (done, Err(why)),
    }
    for path in files {
        drop(fs::remove_file(path));
    }
    (done, Ok(waiting.peek().is_some()))
}

/// Reads the files of one transaction.
fn next_group(
    place: &Place,
    masker: &Masker,
    waiting: &mut impl Iterator<Item = (EventId, PathBuf)>,
    bad: &mut u64,
) -> (Vec<PathBuf>, Vec<EventRecord>) {
    let (mut files, mut records, mut bytes) = (Vec::new(), Vec::new(), 0);
    while files.len() < GROUP_FILES
        && bytes < GROUP_BYTES
        && let Some((id, mut path)) = waiting.next()
    {
        if path == place.spooled(id) {
            let claimed = place.spool().join(format!("{id}.1.ev"));
            if fs::rename(&path, &claimed).is_err() {
                continue;
            }
            path = claimed;
        }
        match read(&path, masker) {
            Ok(Some(record)) => {
                bytes += fs::metadata(&path).map_or(0, |meta| meta.len());
                files.push(path);
                records.push(record);
            }
            Ok(None) => {
                *bad += 1;
                set_aside(place, id, &path);
            }
            // It cannot be read now: the next intake tries again.
            Err(_) => {}
        }
    }
    (files, records)
}

/// Inserts a group, and the sessions that it changes, in one transaction.
fn insert(
    connection: &mut Connection,
    records: Vec<EventRecord>,
    denied: &mut DeniedCalls,
    next_seq: &mut i64,
    apply: &mut ApplyIntake<'_>,
) -> rusqlite::Result<Intake> {
    let mut group = Intake::default();
    if records.is_empty() {
        return Ok(group);
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for mut record in records {
        record.seq = *next_seq;
        *next_seq += 1;
        denied.mark_result(&mut record);
        let written = record.insert(&transaction)?;
        denied.note_written(&record, written, &transaction)?;
        match written {
            InsertOutcome::New => group.new.push(record),
            InsertOutcome::Completed(seq) => {
                record.seq = seq;
                group.completed.push(record);
            }
            InsertOutcome::Known if record.was_never_answered() => group.completed.push(record),
            InsertOutcome::Known => {}
        }
    }
    let changed = apply(&transaction, &group);
    sessions::write(&transaction, &changed.sessions)?;
    effort::write(&transaction, &changed.efforts)?;
    transaction.commit()?;
    Ok(group)
}

/// Moves away a file that is not a spool file, so that it is read only once.
fn set_aside(place: &Place, id: EventId, path: &Path) {
    let folder = place.spool_bad();
    drop(make_folder(&folder, 0o700));
    drop(fs::rename(path, folder.join(format!("{id}.ev"))));
}

/// Returns true if an unfinished file is older than [`PATIENCE`], or from the future.
fn is_old(path: &Path) -> bool {
    let modified = fs::metadata(path).and_then(|meta| meta.modified());
    modified.is_ok_and(|at| at.elapsed().map_or(true, |age| age > PATIENCE))
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::fs::File;
    use std::time::SystemTime;

    use becket_engine::session::{EventOutcome, Session};
    use proptest::prelude::*;

    use super::super::sessions::{SessionFilter, sessions};
    use super::super::tests::{
        Home, decision, details, envelope, id, masker, payload, record, rows, run, runs_of,
    };
    use super::*;

    const EVENTS: u32 = 8;

    /// The operations on one home, which may come in any order.
    #[derive(Debug, Clone)]
    enum Move {
        /// The event is left in the spool: by standalone, or bare by a shim that found no becket.
        Leave(u32),
        /// Its hooks have run: the file is rewritten.
        Rewrite(u32),
        /// A process in the background tells what a hook did.
        Add(u32),
        /// The daemon gets the event by the socket, too late for an answer or in time.
        Socket {
            event: u32,
            late: bool,
        },
        /// A daemon is killed in the middle of an intake: before the commit, or after it.
        Killed {
            committed: bool,
        },
        TakeIn,
    }

    fn moves() -> impl Strategy<Value = Vec<Move>> {
        let with_hooks = || (0..EVENTS / 4).prop_map(|nth| 4 * nth + 3);
        let one = prop_oneof![
            4 => (0..EVENTS).prop_map(Move::Leave),
            3 => with_hooks().prop_map(Move::Rewrite),
            2 => with_hooks().prop_map(Move::Add),
            3 => (0..EVENTS, any::<bool>()).prop_map(|(event, late)| Move::Socket { event, late }),
            3 => any::<bool>().prop_map(|committed| Move::Killed { committed }),
            2 => Just(Move::TakeIn),
        ];
        prop::collection::vec(one, 1..40)
    }

    fn answer_of(event: u32) -> SpoolDetails {
        details(900 + i64::from(event), (event % 2 == 1).then_some("deny"))
    }

    fn undecided() -> SpoolDetails {
        SpoolDetails {
            why: "absent".to_owned(),
            ..SpoolDetails::with_runs(Vec::new())
        }
    }

    fn ran(event: u32, hook: &str, outcome: &str) -> RunRow {
        RunRow {
            outcome: outcome.into(),
            ..run(event, hook)
        }
    }

    fn add_runs(home: &Home, event: u32, runs: Vec<RunRow>) {
        let left = SpoolDetails::with_runs(runs);
        add(&home.place, &envelope(event), &payload(event), &left).unwrap();
    }

    struct Daemon {
        home: Home,
        connection: Connection,
        next: i64,
    }

    impl Daemon {
        fn new() -> Self {
            let home = Home::new();
            Self {
                connection: home.open(),
                home,
                next: 1,
            }
        }

        fn take_in(&mut self) -> Intake {
            self.take_in_and(&mut |_, _| IntakeChanges::default())
        }

        fn take_in_and(&mut self, apply: &mut ApplyIntake<'_>) -> Intake {
            let mut all = Intake::default();
            loop {
                let place = &self.home.place;
                let (done, more) = take_in(
                    &mut self.connection,
                    place,
                    &masker(),
                    &mut DeniedCalls::new(place),
                    &mut self.next,
                    apply,
                );
                all.new.extend(done.new);
                all.completed.extend(done.completed);
                all.bad += done.bad;
                if !more.unwrap() {
                    return all;
                }
            }
        }

        fn by_socket(&mut self, event: u32, late: bool) {
            let mut record = record(self.next, event);
            self.next += 1;
            if !late {
                record.took_us = Some(1);
                record.decision = Some(decision("ask"));
            }
            record.insert(&self.connection).unwrap();
        }

        /// Simulates a daemon that is killed in the middle of an intake.
        fn killed(&mut self, committed: bool) {
            let files = |place: &Place| -> BTreeMap<PathBuf, Vec<u8>> {
                let paths = waiting(place).into_iter().map(|(_, path)| path);
                paths
                    .map(|path| (path.clone(), fs::read(path).unwrap()))
                    .collect()
            };
            next_group(
                &self.home.place,
                &masker(),
                &mut waiting(&self.home.place).into_iter(),
                &mut 0,
            );
            if committed {
                let claimed = files(&self.home.place);
                self.take_in();
                for (path, bytes) in claimed {
                    fs::write(path, bytes).unwrap();
                }
            }
        }
    }

    /// The events that were sent, by the way that they took.
    #[derive(Debug, Default)]
    struct Sent {
        left: BTreeSet<u32>,
        answered: BTreeSet<u32>,
        ran: BTreeSet<u32>,
        /// True if the daemon got it in time.
        by_socket: BTreeMap<u32, bool>,
    }

    impl Sent {
        fn all(&self) -> BTreeSet<u32> {
            self.by_socket.keys().chain(&self.left).copied().collect()
        }

        /// Each event is in the database or in a file still.
        fn nothing_is_lost(&self, daemon: &Daemon) {
            let rows = rows(&daemon.connection);
            let mut known: BTreeSet<EventId> = rows.iter().map(|row| row.id).collect();
            known.extend(waiting(&daemon.home.place).into_iter().map(|(id, _)| id));
            assert_eq!(known, self.all().into_iter().map(id).collect());
        }

        fn everything_is_there_once(&self, connection: &Connection) {
            let rows = rows(connection);
            let ids: Vec<EventId> = rows.iter().map(|row| row.id).collect();
            assert_eq!(ids, self.all().into_iter().map(id).collect::<Vec<_>>());
            for (event, row) in self.all().into_iter().zip(&rows) {
                assert_eq!(row.payload.as_deref(), Some(&payload(event)[..]));
                let answer = row
                    .decision
                    .as_ref()
                    .map(|decision| decision.answer.as_str());
                if self.answered.contains(&event) {
                    let alone = answer_of(event);
                    assert_eq!((row.took_us, row.source), (alone.took_us, Source::Alone));
                    assert_eq!(answer, alone.decision.as_ref().map(|it| it.answer.as_str()));
                } else {
                    let in_time = self.by_socket.get(&event) == Some(&true);
                    assert_eq!(row.took_us, in_time.then_some(1), "event {event}");
                    assert_eq!(answer, in_time.then_some("ask"), "event {event}");
                }
            }
            let ran: BTreeSet<EventId> = runs_of(connection).into_iter().map(|run| run.0).collect();
            assert_eq!(ran, self.ran.iter().copied().map(id).collect());
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_interleaving_of_kills_and_intakes_stores_each_event_once(moves in moves()) {
            let mut daemon = Daemon::new();
            let mut sent = Sent::default();
            for step in moves {
                let home = &daemon.home;
                match step {
                    Move::Leave(event) if event % 4 == 0 => {
                        let frame = encode_event(&envelope(event), &payload(event)).unwrap();
                        fs::write(home.place.spooled(id(event)), frame).unwrap();
                        sent.left.insert(event);
                    }
                    // Its hooks run: a file that says more is not written before.
                    Move::Leave(event) if event % 4 == 3 => {
                        if sent.left.insert(event) {
                            home.leave(event, &SpoolDetails { held: true, ..undecided() });
                        }
                    }
                    Move::Leave(event) => {
                        home.leave(event, &answer_of(event));
                        sent.left.insert(event);
                        sent.answered.insert(event);
                    }
                    Move::Rewrite(event) => {
                        home.leave(event, &SpoolDetails { runs: vec![run(event, "lint")], ..answer_of(event) });
                        sent.left.insert(event);
                        sent.answered.insert(event);
                        sent.ran.insert(event);
                    }
                    Move::Add(event) => {
                        add_runs(home, event, vec![run(event, "notify")]);
                        sent.left.insert(event);
                        sent.ran.insert(event);
                    }
                    Move::Socket { event, late } => {
                        daemon.by_socket(event, late);
                        *sent.by_socket.entry(event).or_default() |= !late;
                    }
                    Move::Killed { committed } => daemon.killed(committed),
                    Move::TakeIn => {
                        daemon.take_in();
                        assert_eq!(daemon.home.files(), 0);
                    }
                }
                sent.nothing_is_lost(&daemon);
            }
            daemon.take_in();
            sent.everything_is_there_once(&daemon.connection);
            assert!(daemon.take_in().new.is_empty());
        }
    }

    #[test]
    fn a_file_that_is_rewritten_during_an_intake_is_not_removed_with_it() {
        let mut daemon = Daemon::new();
        daemon.home.leave(3, &undecided());
        let place = daemon.home.place.clone();
        let mut rewrite = |_: &Connection, _: &Intake| {
            leave(&place, &envelope(3), &payload(3), &answer_of(3)).unwrap();
            IntakeChanges::default()
        };
        assert_eq!(daemon.take_in_and(&mut rewrite).new.len(), 1);
        let done = daemon.take_in();
        assert_eq!((done.new.len(), done.completed.len()), (0, 1));
        assert_eq!(rows(&daemon.connection)[0].took_us, Some(903));
        assert_eq!(daemon.home.files(), 0);
    }

    #[test]
    fn intake_is_in_order_of_id_and_returns_new_events() {
        let mut daemon = Daemon::new();
        for event in [3, 1, 2] {
            daemon.home.leave(event, &details(1, None));
        }
        daemon.by_socket(2, true);
        let new: Vec<EventId> = daemon.take_in().new.iter().map(EventRecord::id).collect();
        assert_eq!(new, [id(1), id(3)]);
        let mut rows = rows(&daemon.connection);
        rows.sort_by_key(|row| row.seq);
        let order: Vec<EventId> = rows.iter().map(|row| row.id).collect();
        assert_eq!(order, [id(2), id(1), id(3)]);
    }

    #[test]
    fn an_event_comes_with_its_session_and_what_was_taken_in_before_a_failure_counts() {
        let mut daemon = Daemon::new();
        for event in 0..=GROUP_FILES as u32 {
            daemon.home.leave(event, &details(1, None));
        }
        // A database that takes the first group and not the second.
        let full = format!(
            "CREATE TRIGGER full BEFORE INSERT ON events WHEN NEW.seq >= {GROUP_FILES}
             BEGIN SELECT RAISE(ABORT, 'no room'); END"
        );
        daemon.connection.execute_batch(&full).unwrap();
        let mut apply = |_: &Connection, group: &Intake| {
            let at = group.new[0].envelope().at;
            let session = StoredSession::new(&Session::new(&format!("s{at}"), at));
            IntakeChanges {
                sessions: session.into_iter().collect(),
                ..IntakeChanges::default()
            }
        };
        let mut next_seq = 0;
        let mut one_group = || {
            let place = &daemon.home.place;
            take_in(
                &mut daemon.connection,
                place,
                &masker(),
                &mut DeniedCalls::new(place),
                &mut next_seq,
                &mut apply,
            )
        };
        let (done, more) = one_group();
        assert_eq!((done.new.len(), more), (GROUP_FILES, Ok(true)));
        assert!(one_group().1.is_err());
        assert_eq!(daemon.home.files(), 1, "the rest waits");
        let live = sessions(&daemon.connection, SessionFilter::Live).unwrap();
        assert_eq!(live.len(), 1, "that of the first group");
    }

    #[test]
    fn a_file_without_an_event_is_set_aside() {
        let mut daemon = Daemon::new();
        let place = daemon.home.place.clone();
        daemon.home.leave(1, &details(1, None));
        let whole = fs::read(place.spooled(id(1))).unwrap();
        for (event, bytes) in [(0, &b"garbage"[..]), (2, &whole[..20]), (3, b"")] {
            fs::write(place.spooled(id(event)), bytes).unwrap();
        }
        // Not ours, or not there yet: left alone.
        let others = ["notes.txt", "notes.ev", "x.17.tmp"].map(|name| place.spool().join(name));
        for path in &others {
            fs::write(path, "mine").unwrap();
        }
        let done = daemon.take_in();
        assert_eq!((done.new.len(), done.bad), (1, 3));
        assert_eq!(fs::read_dir(place.spool_bad()).unwrap().count(), 3);
        assert!(others.iter().all(|path| path.exists()));
        assert_eq!(daemon.take_in().bad, 0, "looked at once");
    }

    #[test]
    fn a_bare_frame_is_masked_by_the_intake() {
        let mut daemon = Daemon::new();
        let secret = format!("{}_{}", "ghp", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8");
        let payload = format!(r#"{{"session_id":"s","command":"curl {secret}"}}"#);
        let frame = encode_event(&envelope(1), payload.as_bytes()).unwrap();
        fs::write(daemon.home.place.spooled(id(1)), frame).unwrap();
        daemon.take_in();
        let row = &rows(&daemon.connection)[0];
        let kept = String::from_utf8(row.payload.clone().unwrap()).unwrap();
        assert!(!kept.contains(&secret) && row.masked == 1, "{kept}");
    }

    #[test]
    fn an_answer_stands_and_the_end_of_a_run_replaces_its_beginning() {
        for apart in [false, true] {
            let mut daemon = Daemon::new();
            let runs = vec![ran(1, "notify", "async"), ran(1, "lint", "ok")];
            let first = SpoolDetails {
                runs,
                ..details(7, Some("ask"))
            };
            daemon.home.leave(1, &first);
            if apart {
                daemon.take_in();
            }
            let later = vec![ran(1, "notify", "failed"), ran(1, "lint", "async")];
            add_runs(&daemon.home, 1, later);
            let spooled = read_all(&daemon.home.place, &masker());
            assert_eq!(spooled.len(), 1);
            assert_eq!(spooled[0].took_us, (!apart).then_some(7));
            daemon.take_in();
            let rows = rows(&daemon.connection);
            let answer = rows[0]
                .decision
                .as_ref()
                .map(|decision| decision.answer.as_str());
            assert_eq!(
                (rows.len(), rows[0].took_us, answer),
                (1, Some(7), Some("ask"))
            );
            let ran = runs_of(&daemon.connection).into_iter();
            let ran: BTreeSet<_> = ran.map(|(_, hook, outcome)| (hook, outcome)).collect();
            let expected = [("lint", "ok"), ("notify", "failed")];
            let expected = expected.map(|(hook, outcome)| (hook.to_owned(), outcome.to_owned()));
            assert_eq!(ran, BTreeSet::from(expected));
        }
    }

    /// Takes in details one after the other. Returns the decisions that the session gets.
    fn decisions_after(payload: &[u8], files: &[SpoolDetails]) -> Vec<EventOutcome> {
        let mut daemon = Daemon::new();
        leave(&daemon.home.place, &envelope(7), payload, &undecided()).unwrap();
        daemon.take_in();
        let mut states = Vec::new();
        for details in files {
            leave(&daemon.home.place, &envelope(7), payload, details).unwrap();
            let done = daemon.take_in();
            states.extend(done.completed.iter().map(EventRecord::outcome));
        }
        states
    }

    #[test]
    fn a_decision_reaches_its_session_once() {
        let stop = br#"{"hook_event_name":"Stop","session_id":"s"}"#;
        let block = || details(900, Some("block"));
        let twice = [details(900, None), details(950, None)];
        assert_eq!(decisions_after(stop, &twice), [EventOutcome::Passed]);
        assert_eq!(
            decisions_after(stop, &[block(), block()]),
            [EventOutcome::Blocked]
        );
        assert_eq!(decisions_after(stop, &[undecided()]), [], "not yet");
        for outcome in ["cut off", "cancelled"] {
            let ended = SpoolDetails::with_runs(vec![ran(7, "judge", outcome)]);
            let unanswered = SpoolDetails {
                why: "absent".to_owned(),
                ..ended.clone()
            };
            assert_eq!(
                decisions_after(stop, &[unanswered]),
                [EventOutcome::Passed],
                "{outcome}"
            );
            assert_eq!(
                decisions_after(stop, &[ended]),
                [],
                "a hook in the background"
            );
        }
    }

    #[test]
    fn an_unfinished_file_takes_no_room_and_is_removed_after_a_minute() {
        let mut daemon = Daemon::new();
        let spool = daemon.home.place.spool();
        let ours = ["", ".17", ".more-17-0.17"].map(|by| spool.join(format!("{}{by}.tmp", id(1))));
        let other = spool.join("notes.tmp");
        for path in ours.iter().chain([&other]) {
            fs::write(path, "half").unwrap();
        }
        assert_eq!(usage(&spool), (0, 0));
        daemon.take_in();
        assert_eq!(daemon.home.files(), 4, "they may be written still");
        let long_ago = SystemTime::now() - Duration::from_secs(61);
        for path in ours.iter().chain([&other]) {
            File::open(path).unwrap().set_modified(long_ago).unwrap();
        }
        daemon.take_in();
        assert_eq!(daemon.home.files(), 1);
        assert!(other.exists(), "not ours");
    }
}
