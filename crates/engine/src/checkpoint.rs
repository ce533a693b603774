//! Snapshots of a work tree, kept in git apart from everything that is the user's: commits that no branch
//! contains, made with a temporary index, under refs of becket's own (`refs/becket/checkpoints/…`). Index,
//! stash, HEAD, reflogs and the work tree stay as they are, and no git hook runs.

mod git;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fmt::Write;
use std::fs::{self, File, FileTimes, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use becket_wire::id::parse_uuid;
use becket_wire::text::is_hidden;
use git::{items, line};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use rustix::fs::{Access, access};
use tempfile::TempDir;

use crate::join_first;
use crate::trust::hash_of;
pub use git::{Git, GitError};

/// The prefix of the refs of all checkpoints.
const REFS: &str = "refs/becket/checkpoints/";

/// The size in MB up to which untracked files are part of a checkpoint.
pub const LARGEST_MB: u64 = 50;

/// The number of checkpoints that one session keeps.
pub const KEEP: usize = 10;

/// A repository keeps at most this many times the checkpoints of one session.
const SESSIONS: usize = 10;
/// The number of files that a title names.
const NAMED: usize = 3;
/// The number of skipped files that a message lists.
const LONGEST_LIST: usize = 20;
/// The number of names that are tried: each millisecond can name one checkpoint of a session.
const ATTEMPTS: i64 = 50;

/// A request for a checkpoint.
#[derive(Debug, Clone, Copy)]
pub struct CheckpointRequest<'a> {
    pub session: Option<&'a str>,
    /// The event or verb that it is made on.
    pub event: &'a str,
    /// The time in milliseconds since 1970.
    pub at: i64,
    /// The number of this session's checkpoints to keep, the new one included.
    pub keep: usize,
    /// True to make a checkpoint even if nothing changed since the last one.
    pub always: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckpointOutcome {
    /// The name of the new checkpoint.
    Created(String),
    /// Nothing changed since the last checkpoint, or since the last commit.
    Unchanged,
}

/// Makes a checkpoint of a work tree and deletes those that are too old.
pub fn make(
    git: &Git,
    snapshot: &WorkTreeSnapshot,
    request: &CheckpointRequest<'_>,
) -> Result<CheckpointOutcome, GitError> {
    let folder = folder(request.session);
    let head = git.head();
    let base_tree = match &head {
        Some(_) => git.line(&["rev-parse", "--verify", "HEAD^{tree}"])?,
        None => git.empty_tree()?,
    };
    let known = list(git)?;
    let last = known.iter().find(|one| is_of(one, &folder));
    let last_tree = last.map_or(&base_tree, |last| &last.tree);
    if *last_tree == snapshot.tree && !request.always {
        return Ok(CheckpointOutcome::Unchanged);
    }
    let files = paths_of(changes(git, &base_tree, &snapshot.tree)?);
    let message = message(request, &files, &snapshot.skipped);
    let commit = commit(git, snapshot, head.as_deref(), &message)?;
    let name = create_ref(git, &folder, request.at, &commit)?;
    prune(git, &name, &folder, request.keep.max(1))?;
    Ok(CheckpointOutcome::Created(name))
}

fn is_of(one: &Checkpoint, folder: &str) -> bool {
    one.name
        .split_once('/')
        .is_some_and(|(session, _)| session == folder)
}

/// Returns the ref folder of a session. An id that is not a UUID may hold any character, so its hash is used.
fn folder(session: Option<&str>) -> String {
    const LENGTH: usize = 8;
    match session {
        None => "person".to_owned(),
        Some(id) if parse_uuid(id).is_some() => id[..LENGTH].to_ascii_lowercase(),
        Some(id) => format!("x{}", &hash_of(id.as_bytes())[..LENGTH]),
    }
}

fn message(request: &CheckpointRequest<'_>, files: &[OsString], skipped: &[String]) -> String {
    let names = files.iter().map(|file| visible(&file.to_string_lossy()));
    let about = match files {
        [] => "as committed".to_owned(),
        _ => join_first(names, NAMED),
    };
    let event = visible(request.event);
    let mut text = format!("{event}: {about}\n\n");
    if let Some(session) = request.session {
        let _ = writeln!(text, "Session: {}", visible(session));
    }
    let _ = writeln!(text, "Event: {event}\nFiles: {}", files.len());
    for file in skipped.iter().take(LONGEST_LIST) {
        let _ = writeln!(text, "Skipped: {}", visible(file));
    }
    if skipped.len() > LONGEST_LIST {
        let _ = writeln!(text, "Skipped: and {} more", skipped.len() - LONGEST_LIST);
    }
    text
}

fn commit(
    git: &Git,
    snapshot: &WorkTreeSnapshot,
    head: Option<&str>,
    message: &str,
) -> Result<String, GitError> {
    let mut args = vec!["commit-tree", "--no-gpg-sign", &snapshot.tree];
    if let Some(head) = head {
        args.extend(["-p", head]);
    }
    git.feed(&args, message.as_bytes())
        .map(|output| line(&output))
}

/// Creates a new ref for a checkpoint and returns its name.
fn create_ref(git: &Git, folder: &str, at: i64, commit: &str) -> Result<String, GitError> {
    let mut attempt = 0;
    loop {
        let name = format!("{folder}/{}", ref_time(at + attempt));
        let full = format!("{REFS}{name}");
        match git.run(&["update-ref", "--no-deref", &full, commit, ""]) {
            Ok(_) => return Ok(name),
            Err(error) if attempt == ATTEMPTS => return Err(error),
            Err(_) => attempt += 1,
        }
    }
}

/// Deletes the checkpoints that are too old, but never the new one.
fn prune(git: &Git, new: &str, folder: &str, keep: usize) -> Result<(), GitError> {
    let all = list(git)?;
    let others: Vec<&Checkpoint> = all.iter().filter(|one| one.name != new).collect();
    let own = others.iter().filter(|one| is_of(one, folder));
    let too_many = others.iter().skip(keep.saturating_mul(SESSIONS) - 1);
    let old = own.skip(keep - 1).chain(too_many);
    let orders: BTreeSet<String> = old
        .map(|one| format!("delete {REFS}{} {}\n", one.name, one.commit))
        .collect();
    if !orders.is_empty() {
        let orders = String::from_iter(orders);
        // If another session has deleted one of them, git deletes none: the next checkpoint tries again.
        let _ = git.feed(&["update-ref", "--no-deref", "--stdin"], orders.as_bytes());
    }
    Ok(())
}

/// The bounds of untracked files. More than this is not work but files that an ignore file should name.
const MOST_FILES: usize = 50_000;
const MOST_BYTES: u64 = 1 << 30;

/// The present state of a work tree, as a git tree.
#[derive(Debug)]
pub struct WorkTreeSnapshot {
    pub tree: String,
    /// The files that are not part of it, each with the reason.
    pub skipped: Vec<String>,
    index: TempDir,
}

impl WorkTreeSnapshot {
    /// Takes a snapshot of all files that git does not ignore; of untracked ones only those up to `largest`
    /// bytes.
    pub fn take(git: &Git, largest: u64) -> Result<Self, GitError> {
        let index = tempfile::Builder::new().prefix("becket-").tempdir()?;
        let mut snapshot = Self {
            tree: String::new(),
            skipped: Vec::new(),
            index,
        };
        copy_index(git, &snapshot.file())?;
        let untracked = match snapshot.left_out(git, largest) {
            // The index is damaged: the last commit is good enough.
            Err(GitError::Failed { .. }) => {
                fs::remove_file(snapshot.file()).or_else(unless_missing)?;
                if git.head().is_some() {
                    git.with_index(&snapshot.file(), &["read-tree", "HEAD"], b"")?;
                }
                snapshot.left_out(git, largest)
            }
            other => other,
        };
        match untracked {
            Ok(Some(left_out)) => snapshot.add(git, &["-A"], &pathspecs(&left_out))?,
            Ok(None) | Err(GitError::TooMuch { .. }) => {
                snapshot
                    .skipped
                    .push("all untracked files: there are too many".to_owned());
                snapshot.add(git, &["-u"], b":(top)\0")?;
            }
            Err(error) => return Err(error),
        }
        snapshot.write(git)?;
        Ok(snapshot)
    }

    /// Adds these files, ignored or not.
    pub fn force(&mut self, git: &Git, files: &[OsString]) -> Result<(), GitError> {
        let mut specs = Vec::new();
        for file in files {
            specs.extend_from_slice(b":(top,literal)");
            specs.extend_from_slice(file.as_bytes());
            specs.push(0);
        }
        self.add(git, &["-f"], &specs)?;
        self.write(git)
    }

    fn file(&self) -> PathBuf {
        self.index.path().join("index")
    }

    fn write(&mut self, git: &Git) -> Result<(), GitError> {
        let tree = git.with_index(&self.file(), &["write-tree"], b"")?;
        self.tree = line(&tree);
        Ok(())
    }

    /// Returns the untracked files to leave out; none if there are so many that all of them are left out.
    fn left_out(&mut self, git: &Git, largest: u64) -> Result<Option<Vec<OsString>>, GitError> {
        let args = ["ls-files", "--others", "--exclude-standard", "-z"];
        let listed = git.with_index(&self.file(), &args, b"")?;
        let (mut files, mut bytes) = (0_usize, 0_u64);
        let mut left_out = Vec::new();
        for item in items(&listed) {
            // Another repository keeps its own files.
            if item.as_bytes().ends_with(b"/") {
                left_out.push(item.to_owned());
                continue;
            }
            let path = git.root().join(item);
            let about = fs::symlink_metadata(&path).ok();
            let size = about.as_ref().map_or(0, Metadata::len);
            let is_file = about.is_some_and(|about| about.is_file());
            let why = if size > largest {
                format!("{} MB", size.div_ceil(1 << 20))
            } else if is_file && access(&path, Access::READ_OK).is_err() {
                "not ours to read".to_owned()
            } else {
                String::new()
            };
            if !why.is_empty() {
                self.skipped
                    .push(format!("{} ({why})", visible(&item.to_string_lossy())));
                left_out.push(item.to_owned());
                continue;
            }
            files += 1;
            bytes = bytes.saturating_add(size);
        }
        Ok((files <= MOST_FILES && bytes <= MOST_BYTES).then_some(left_out))
    }

    /// Adds files to the index. One file that fails fails all: git may have added none then, and a file that is
    /// missing in the tree would be lost when a user relies on the checkpoint.
    fn add(&self, git: &Git, how: &[&str], pathspecs: &[u8]) -> Result<(), GitError> {
        let from = ["--pathspec-from-file=-", "--pathspec-file-nul"];
        let mut args = [&["add"], how, &from].concat();
        // Without `--sparse` git refuses files outside a sparse checkout; a git that is too old for sparse
        // checkouts does not know the option.
        let key = ["config", "--type=bool", "--get", "core.sparseCheckout"];
        if git.line(&key).is_ok_and(|is_sparse| is_sparse == "true") {
            args.push("--sparse");
        }
        git.with_index(&self.file(), &args, pathspecs).map(drop)
    }
}

fn unless_missing(error: io::Error) -> io::Result<()> {
    match error.kind() {
        io::ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    }
}

/// Copies the user's index. The copy knows which files are unchanged since they were staged, so git reads only
/// the others. It keeps the time of the original, by which git knows which files it must not trust.
fn copy_index(git: &Git, to: &Path) -> Result<(), GitError> {
    let copied = File::open(git.index()?).and_then(|mut original| {
        let modified = original.metadata()?.modified()?;
        let mut copy = File::create(to)?;
        io::copy(&mut original, &mut copy)?;
        copy.set_times(FileTimes::new().set_modified(modified))
    });
    copied.or_else(unless_missing).map_err(GitError::Start)
}

fn pathspecs(left_out: &[OsString]) -> Vec<u8> {
    let mut specs = b":(top)\0".to_vec();
    for file in left_out {
        specs.extend_from_slice(b":(top,exclude,literal)");
        let name = file.as_bytes();
        specs.extend_from_slice(name.strip_suffix(b"/").unwrap_or(name));
        specs.push(0);
    }
    specs
}

/// Replaces characters that a terminal would not show.
fn visible(text: &str) -> String {
    text.replace(is_hidden, "�")
}

/// The format of the time in the name of a checkpoint: names sort by time.
const MOMENT: &str = "%Y%m%dT%H%M%S%.3f";

/// The number of characters from which a word can be the beginning of a hash: a shorter one fits too many.
const SHORTEST_HASH: usize = 4;

/// One checkpoint in a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// `SESSION/TIME`: its ref without the prefix.
    pub name: String,
    pub commit: String,
    pub tree: String,
    /// The commit that was checked out.
    pub base: Option<String>,
    /// The time in milliseconds since 1970; none if becket did not name it.
    pub at: Option<i64>,
    /// The whole id of its session.
    pub session: Option<String>,
    /// The event or verb that it was made on.
    pub event: Option<String>,
    /// The number of files that differ from the base.
    pub files: Option<u64>,
    pub title: String,
    /// The files that are not in it, each with the reason.
    pub skipped: Vec<String>,
}

/// The checkpoints that a typed word fits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckpointMatch {
    One(Box<Checkpoint>),
    Several(Vec<String>),
    None,
}

/// Formats a time as the name of a checkpoint.
fn ref_time(at_ms: i64) -> String {
    let at = Timestamp::from_millisecond(at_ms).unwrap_or_default();
    at.to_zoned(TimeZone::UTC).strftime(MOMENT).to_string()
}

fn at(name: &str) -> Option<i64> {
    let (_, moment) = name.rsplit_once('/')?;
    let moment = DateTime::strptime(MOMENT, moment).ok()?;
    let moment = moment.to_zoned(TimeZone::UTC).ok()?;
    Some(moment.timestamp().as_millisecond())
}

/// Lists all checkpoints, the newest first.
pub fn list(git: &Git) -> Result<Vec<Checkpoint>, GitError> {
    const FIELDS: &str =
        "--format=%(refname)%00%(objectname)%00%(tree)%00%(parent)%00%(contents)%00";
    let listed = git.run(&["for-each-ref", FIELDS, REFS])?;
    let listed = String::from_utf8_lossy(&listed);
    let fields: Vec<&str> = listed.split('\0').collect();
    let mut found: Vec<Checkpoint> = fields.chunks_exact(5).filter_map(read).collect();
    found.sort_by(|a, b| (b.at, &b.name).cmp(&(a.at, &a.name)));
    Ok(found)
}

fn read(fields: &[&str]) -> Option<Checkpoint> {
    let &[name, commit, tree, base, message] = fields else {
        return None;
    };
    let name = name.trim_start().strip_prefix(REFS)?;
    // A ref to something other than a commit is not ours.
    if tree.is_empty() {
        return None;
    }
    let (title, body) = message.split_once('\n').unwrap_or((message, ""));
    Some(Checkpoint {
        name: name.to_owned(),
        commit: commit.to_owned(),
        tree: tree.to_owned(),
        base: base
            .split(' ')
            .next()
            .filter(|base| !base.is_empty())
            .map(str::to_owned),
        at: at(name),
        session: trailers(body, "Session").next().map(str::to_owned),
        event: trailers(body, "Event").next().map(str::to_owned),
        files: trailers(body, "Files")
            .next()
            .and_then(|files| files.parse().ok()),
        title: title.to_owned(),
        skipped: trailers(body, "Skipped").map(str::to_owned).collect(),
    })
}

/// Returns the values of the lines `KEY: value` in a commit message.
fn trailers<'a>(body: &'a str, key: &'a str) -> impl Iterator<Item = &'a str> {
    body.lines()
        .filter_map(move |line| line.strip_prefix(key)?.strip_prefix(": "))
}

/// Finds the checkpoint that a word means: its name, its time, or the beginning of its time or hash.
pub fn find(all: &[Checkpoint], word: &str) -> CheckpointMatch {
    let mut exact = all.iter();
    if let Some(exact) = exact.find(|one| one.name == word || one.commit == word) {
        return CheckpointMatch::One(Box::new(exact.clone()));
    }
    let mut fitting: Vec<&Checkpoint> = all.iter().filter(|one| one.fits(word)).collect();
    // Two that were made of the same tree in the same second are one commit.
    fitting.dedup_by(|a, b| a.commit == b.commit);
    match fitting[..] {
        [] => CheckpointMatch::None,
        [one] => CheckpointMatch::One(Box::new(one.clone())),
        _ => CheckpointMatch::Several(fitting.iter().map(|one| one.name.clone()).collect()),
    }
}

impl Checkpoint {
    fn fits(&self, word: &str) -> bool {
        if word.is_empty() {
            return false;
        }
        let time = self.name.rsplit('/').next().unwrap_or_default();
        let by_hash = word.len() >= SHORTEST_HASH && self.commit.starts_with(word);
        by_hash || time.starts_with(word) || self.name.starts_with(word)
    }
}

/// The difference of one file between two trees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileStatus {
    Added,
    Changed,
    Deleted,
}

/// Returns the files in which two trees differ. Submodules are ignored.
pub fn changes(git: &Git, from: &str, to: &str) -> Result<Vec<(FileStatus, OsString)>, GitError> {
    changes_in(git, from, to, git.root(), &[])
}

fn paths_of(changes: Vec<(FileStatus, OsString)>) -> Vec<OsString> {
    changes.into_iter().map(|(_, path)| path).collect()
}

/// Returns the files below these paths in which two trees differ. Paths are as typed in `folder`; no path means
/// all files.
fn changes_in(
    git: &Git,
    from: &str,
    to: &str,
    folder: &Path,
    paths: &[OsString],
) -> Result<Vec<(FileStatus, OsString)>, GitError> {
    let args = [
        "diff-tree",
        "-r",
        "-z",
        "--no-renames",
        "--ignore-submodules=all",
        "--name-status",
        from,
        to,
        "--",
    ];
    let output = git.run_in(folder, &args, paths)?;
    let mut changes = Vec::new();
    let mut fields = items(&output);
    while let (Some(status), Some(path)) = (fields.next(), fields.next()) {
        let status = match status.to_str() {
            Some("A") => FileStatus::Added,
            Some("D") => FileStatus::Deleted,
            _ => FileStatus::Changed,
        };
        changes.push((status, path.to_owned()));
    }
    Ok(changes)
}

/// The changes that a restore would make.
#[derive(Debug)]
pub struct RestorePlan {
    /// The files that get another content, or come back.
    pub write: Vec<(FileStatus, OsString)>,
    /// The files that were created after the checkpoint.
    pub later: Vec<OsString>,
    /// The files that cannot be written, because another file or folder is in the way.
    pub blocked: Vec<OsString>,
    tree: String,
    present: WorkTreeSnapshot,
}

/// Compares the work tree with a checkpoint. Paths are as typed in `folder`; no path means all files.
pub fn plan_restore(
    git: &Git,
    checkpoint: &Checkpoint,
    folder: &Path,
    paths: &[OsString],
    largest: u64,
) -> Result<RestorePlan, GitError> {
    let mut present = WorkTreeSnapshot::take(git, largest)?;
    let mut changes = changes_in(git, &present.tree, &checkpoint.tree, folder, paths)?;
    // A file that exists but is not in the present tree (ignored, or too large) would be lost.
    let unseen = changes.iter().filter(|(status, path)| {
        let file = git.root().join(path);
        *status == FileStatus::Added && fs::symlink_metadata(file).is_ok_and(|file| !file.is_dir())
    });
    let unseen: Vec<OsString> = unseen.map(|(_, path)| path.clone()).collect();
    if !unseen.is_empty() {
        present.force(git, &unseen)?;
        changes = changes_in(git, &present.tree, &checkpoint.tree, folder, paths)?;
    }
    let (gone, back): (Vec<_>, Vec<_>) = changes
        .into_iter()
        .partition(|(status, _)| *status == FileStatus::Deleted);
    let (blocked, write): (Vec<_>, Vec<_>) = back
        .into_iter()
        .partition(|(_, path)| is_blocked(git.root(), path));
    Ok(RestorePlan {
        write,
        later: paths_of(gone),
        blocked: paths_of(blocked),
        tree: checkpoint.tree.clone(),
        present,
    })
}

/// Returns true if a checkpoint contains one of these paths, as typed in `folder`.
pub fn contains_any(
    git: &Git,
    checkpoint: &Checkpoint,
    folder: &Path,
    paths: &[OsString],
) -> Result<bool, GitError> {
    let args = ["ls-tree", "-r", "-z", "--name-only", &checkpoint.tree, "--"];
    Ok(!git.run_in(folder, &args, paths)?.is_empty())
}

/// Returns true if git must not write a file: it would remove a folder of that name with all ignored files in
/// it, or follow a link, and the target of a link is not part of the work tree.
fn is_blocked(root: &Path, path: &OsStr) -> bool {
    let path = Path::new(path);
    let mut above = path
        .ancestors()
        .skip(1)
        .filter(|above| !above.as_os_str().is_empty());
    fs::symlink_metadata(root.join(path)).is_ok_and(|it| it.is_dir())
        || above.any(|above| fs::symlink_metadata(root.join(above)).is_ok_and(|it| !it.is_dir()))
}

impl RestorePlan {
    pub fn is_empty(&self) -> bool {
        self.write.is_empty() && self.later.is_empty()
    }

    /// Makes a checkpoint of the work tree as it is before the restore.
    pub fn keep_present(
        &self,
        git: &Git,
        request: &CheckpointRequest<'_>,
    ) -> Result<CheckpointOutcome, GitError> {
        make(git, &self.present, request)
    }

    /// Writes the files of the checkpoint.
    pub fn write(&self, git: &Git) -> Result<(), GitError> {
        if self.write.is_empty() {
            return Ok(());
        }
        let folder = tempfile::Builder::new().prefix("becket-").tempdir()?;
        let index = folder.path().join("index");
        git.with_index(&index, &["read-tree", &self.tree], b"")?;
        let mut names = Vec::new();
        for (_, path) in &self.write {
            names.extend_from_slice(path.as_bytes());
            names.push(0);
        }
        let args = ["checkout-index", "--force", "-z", "--stdin"];
        git.with_index(&index, &args, &names).map(drop)
    }

    /// Deletes the files that were created later, and the folders that are empty then.
    pub fn delete_later(&self, git: &Git) -> Result<(), GitError> {
        for path in &self.later {
            let file = git.root().join(path);
            fs::remove_file(&file)?;
            let mut folder: PathBuf = file;
            while folder.pop() && folder != git.root() && fs::remove_dir(&folder).is_ok() {}
        }
        Ok(())
    }
}
