//! Snapshots of a work tree, in git and beside everything that is the person's own: commits that no
//! branch knows, made with a temporary index, under refs of becket's (`refs/becket/checkpoints/…`).
//! Index, stash, HEAD, reflogs and the work tree itself stay as they are, and no hook of git's runs.

mod git;
#[cfg(test)]
mod tests;

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
use sha2::{Digest, Sha256};
use tempfile::TempDir;

pub use git::{Git, GitError};

/// All checkpoints of a repository.
const REFS: &str = "refs/becket/checkpoints/";

/// Untracked files over this are not taken along.
pub const LARGEST_MB: u64 = 50;

/// So many of one session are kept.
pub const KEEP: usize = 10;

/// In a repository are at most so many times what one session may have.
const SESSIONS: usize = 10;
/// So many files are named in the title.
const NAMED: usize = 3;
const LONGEST_LIST: usize = 20;
/// Who comes in the same millisecond takes a later one.
const ATTEMPTS: i64 = 50;

/// What kind of checkpoint is wanted.
#[derive(Debug, Clone, Copy)]
pub struct Wish<'a> {
    pub session: Option<&'a str>,
    /// What it is made on: an event, or a verb.
    pub event: &'a str,
    /// Milliseconds since 1970.
    pub at: i64,
    /// So many of this session stay, this one included.
    pub keep: usize,
    /// Also if nothing changed since the last one.
    pub always: bool,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Made {
    /// Its name.
    New(String),
    /// There is nothing that is not kept already.
    Same,
}

pub fn make(git: &Git, present: &Present, wish: &Wish<'_>) -> Result<Made, GitError> {
    let folder = folder(wish.session);
    let head = git.head();
    let known = list(git)?;
    let mut own = known.iter().filter(|one| is_of(one, &folder));
    let head_tree = || git.line(&["rev-parse", "--verify", "HEAD^{tree}"]);
    let is_kept = match (own.next(), &head) {
        (Some(last), _) => last.tree == present.tree,
        (None, Some(_)) => head_tree()? == present.tree,
        (None, None) => git.empty_tree()? == present.tree,
    };
    if is_kept && !wish.always {
        return Ok(Made::Same);
    }
    let base_tree = match &head {
        Some(_) => head_tree()?,
        None => git.empty_tree()?,
    };
    let files = changes(git, &base_tree, &present.tree)?;
    let files: Vec<OsString> = files.into_iter().map(|(_, path)| path).collect();
    let commit = commit(
        git,
        present,
        head.as_deref(),
        &message(wish, &files, &present.skipped),
    )?;
    let name = name_it(git, &folder, wish.at, &commit)?;
    prune(git, &name, &folder, wish.keep.max(1))?;
    Ok(Made::New(name))
}

fn is_of(one: &Checkpoint, folder: &str) -> bool {
    one.name
        .split_once('/')
        .is_some_and(|(session, _)| session == folder)
}

/// A session's checkpoints lie together. What is no UUID may hold anything, so its hash stands for it.
fn folder(session: Option<&str>) -> String {
    const LENGTH: usize = 8;
    match session {
        None => "person".to_owned(),
        Some(id) if parse_uuid(id).is_some() => id[..LENGTH].to_ascii_lowercase(),
        Some(id) => {
            let hash = Sha256::digest(id.as_bytes());
            hash.iter()
                .take(LENGTH / 2)
                .fold(String::from("x"), |mut text, byte| {
                    let _ = write!(text, "{byte:02x}");
                    text
                })
        }
    }
}

fn message(wish: &Wish<'_>, files: &[OsString], skipped: &[String]) -> String {
    let one_line = |text: &str| -> String {
        text.chars()
            .map(|c| if is_hidden(c) { '�' } else { c })
            .collect()
    };
    let named: Vec<String> = files
        .iter()
        .take(NAMED)
        .map(|file| one_line(&file.to_string_lossy()))
        .collect();
    let more = match files.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let about = match files {
        [] => "as committed".to_owned(),
        _ => format!("{}{more}", named.join(", ")),
    };
    let mut text = format!("{}: {about}\n\n", one_line(wish.event));
    if let Some(session) = wish.session {
        let _ = writeln!(text, "Session: {}", one_line(session));
    }
    let _ = writeln!(
        text,
        "Event: {}\nFiles: {}",
        one_line(wish.event),
        files.len()
    );
    for what in skipped.iter().take(LONGEST_LIST) {
        let _ = writeln!(text, "Skipped: {}", one_line(what));
    }
    if let Some(more) = skipped
        .len()
        .checked_sub(LONGEST_LIST)
        .filter(|more| *more > 0)
    {
        let _ = writeln!(text, "Skipped: and {more} more");
    }
    text
}

fn commit(
    git: &Git,
    present: &Present,
    head: Option<&str>,
    message: &str,
) -> Result<String, GitError> {
    let mut args = vec!["commit-tree", "--no-gpg-sign", &present.tree];
    if let Some(head) = head {
        args.extend(["-p", head]);
    }
    git.feed(&args, message.as_bytes()).map(|said| line(&said))
}

/// Gives it a ref that nobody has.
fn name_it(git: &Git, folder: &str, at: i64, commit: &str) -> Result<String, GitError> {
    let mut attempt = 0;
    loop {
        let name = format!("{folder}/{}", moment(at + attempt));
        let full = format!("{REFS}{name}");
        match git.run(&["update-ref", "--no-deref", &full, commit, ""]) {
            Ok(_) => return Ok(name),
            Err(error) if attempt == ATTEMPTS => return Err(error),
            Err(_) => attempt += 1,
        }
    }
}

/// Lets go of what is too old, never of the one that was just made.
fn prune(git: &Git, made: &str, folder: &str, keep: usize) -> Result<(), GitError> {
    let all = list(git)?;
    let others = || all.iter().filter(|one| one.name != made);
    let own = others().filter(|one| is_of(one, folder)).skip(keep - 1);
    let elder = others().skip(keep.saturating_mul(SESSIONS) - 1);
    let mut old: Vec<&Checkpoint> = own.chain(elder).collect();
    old.sort_by(|a, b| a.name.cmp(&b.name));
    old.dedup_by(|a, b| a.name == b.name);
    if old.is_empty() {
        return Ok(());
    }
    let orders = old.iter().fold(String::new(), |mut orders, one| {
        let _ = writeln!(orders, "delete {REFS}{} {}", one.name, one.commit);
        orders
    });
    // Another session may have let go of the same: then all of them wait for the next time.
    let _ = git.feed(&["update-ref", "--no-deref", "--stdin"], orders.as_bytes());
    Ok(())
}

/// More untracked files than this, or more in them, are no work but something that nobody ignores.
const MOST_FILES: usize = 50_000;
const MOST_BYTES: u64 = 1 << 30;

/// The present state.
#[derive(Debug)]
pub struct Present {
    pub tree: String,
    /// What was not taken along, and why.
    pub skipped: Vec<String>,
    index: TempDir,
}

impl Present {
    /// Takes everything that git does not ignore; untracked files only up to `largest` bytes.
    pub fn take(git: &Git, largest: u64) -> Result<Self, GitError> {
        let index = tempfile::Builder::new().prefix("becket-").tempdir()?;
        let mut present = Self {
            tree: String::new(),
            skipped: Vec::new(),
            index,
        };
        copy_index(git, &present.file())?;
        let untracked = present.untracked(git, largest);
        let untracked = match untracked {
            // A damaged index: the last commit will do.
            Err(GitError::Failed { .. }) => {
                fs::remove_file(present.file()).or_else(unless_missing)?;
                if git.head().is_some() {
                    git.with_index(&present.file(), &["read-tree", "HEAD"], b"")?;
                }
                present.untracked(git, largest)
            }
            other => other,
        };
        match untracked {
            Ok(Some(left_out)) => present.add(git, &["-A"], &pathspecs(&left_out))?,
            Ok(None) | Err(GitError::TooMuch { .. }) => {
                present
                    .skipped
                    .push("all untracked files: there are too many".to_owned());
                present.add(git, &["-u"], b":(top)\0")?;
            }
            Err(error) => return Err(error),
        }
        present.write(git)?;
        Ok(present)
    }

    /// Takes these files too, ignored or not.
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

    /// What of the untracked is left out; none if all of it has to be.
    fn untracked(&mut self, git: &Git, largest: u64) -> Result<Option<Vec<OsString>>, GitError> {
        let args = ["ls-files", "--others", "--exclude-standard", "-z"];
        let listed = git.with_index(&self.file(), &args, b"")?;
        let (mut files, mut bytes) = (0_usize, 0_u64);
        let mut left_out = Vec::new();
        for item in items(&listed) {
            // Another repository: its own business.
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
                self.skipped.push(format!("{} ({why})", shown(item)));
                left_out.push(item.to_owned());
                continue;
            }
            files += 1;
            bytes = bytes.saturating_add(size);
        }
        Ok((files <= MOST_FILES && bytes <= MOST_BYTES).then_some(left_out))
    }

    /// One file that fails fails all: git may have taken none then, and what is not in the tree is
    /// as good as lost once somebody relies on it.
    fn add(&self, git: &Git, how: &[&str], pathspecs: &[u8]) -> Result<(), GitError> {
        let from = ["--pathspec-from-file=-", "--pathspec-file-nul"];
        let mut args = [&["add"], how, &from].concat();
        // Without it git refuses what lies outside; and a git that is too old for sparse checkouts
        // does not know the word.
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

/// The copy knows which files are unchanged since they were staged, so only the others are read. It
/// has to be as old as the original: by that git knows which files it must not trust.
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

/// A path on one line.
fn shown(path: &OsStr) -> String {
    let path = path.to_string_lossy();
    path.chars()
        .map(|c| if is_hidden(c) { '�' } else { c })
        .collect()
}

/// How a moment stands in the name of a checkpoint: the order of names is that of time.
const MOMENT: &str = "%Y%m%dT%H%M%S%.3f";

/// What is not taken for the beginning of a hash: it could mean too many.
const SHORTEST_HASH: usize = 4;

/// One snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// `SESSION/TIME`: the rest of its ref.
    pub name: String,
    pub commit: String,
    pub tree: String,
    /// The commit that was checked out.
    pub base: Option<String>,
    /// Milliseconds since 1970; none if somebody else named it.
    pub at: Option<i64>,
    /// The whole id of its session.
    pub session: Option<String>,
    /// What it was made on.
    pub event: Option<String>,
    /// How many files differ from the base.
    pub files: Option<u64>,
    pub title: String,
    /// What is not in it, and why.
    pub skipped: Vec<String>,
}

/// What a word may mean.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    One(Box<Checkpoint>),
    Several(Vec<String>),
    None,
}

/// The name that a checkpoint of this moment gets.
fn moment(at_ms: i64) -> String {
    let at = Timestamp::from_millisecond(at_ms).unwrap_or_default();
    at.to_zoned(TimeZone::UTC).strftime(MOMENT).to_string()
}

fn at(name: &str) -> Option<i64> {
    let (_, moment) = name.rsplit_once('/')?;
    let moment = DateTime::strptime(MOMENT, moment).ok()?;
    let moment = moment.to_zoned(TimeZone::UTC).ok()?;
    Some(moment.timestamp().as_millisecond())
}

/// All of them, the newest first.
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
    // Whatever is no commit is none of ours.
    if tree.is_empty() {
        return None;
    }
    let (title, body) = message.split_once('\n').unwrap_or((message, ""));
    let said = |key: &'static str| {
        let values = body.lines().filter_map(move |line| line.strip_prefix(key));
        values.filter_map(|value| value.strip_prefix(": "))
    };
    let first = |key| said(key).next().map(str::to_owned);
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
        session: first("Session"),
        event: first("Event"),
        files: first("Files").and_then(|files| files.parse().ok()),
        title: title.to_owned(),
        skipped: said("Skipped").map(str::to_owned).collect(),
    })
}

/// The checkpoint that a word means: its name, its time, or the beginning of its time or hash.
pub fn find(all: &[Checkpoint], word: &str) -> Found {
    if let Some(exact) = all
        .iter()
        .find(|one| one.name == word || one.commit == word)
    {
        return Found::One(Box::new(exact.clone()));
    }
    let fits = |one: &&Checkpoint| {
        let time = one.name.rsplit('/').next().unwrap_or_default();
        let by_hash = word.len() >= SHORTEST_HASH && one.commit.starts_with(word);
        !word.is_empty() && (by_hash || time.starts_with(word) || one.name.starts_with(word))
    };
    let mut fitting: Vec<&Checkpoint> = all.iter().filter(fits).collect();
    // Two that were made of the same in the same second are one commit.
    fitting.dedup_by(|a, b| a.commit == b.commit);
    match fitting.len() {
        0 => Found::None,
        1 => Found::One(Box::new(fitting.remove(0).clone())),
        _ => Found::Several(fitting.iter().map(|one| one.name.clone()).collect()),
    }
}

/// What happened to a file between two trees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    Added,
    Changed,
    Deleted,
}

/// The files in which two trees differ. Submodules are not looked at.
pub fn changes(git: &Git, from: &str, to: &str) -> Result<Vec<(Status, OsString)>, GitError> {
    changes_in(git, from, to, git.root(), &[])
}

/// The same, of these paths alone, as typed in `folder`; none is all.
fn changes_in(
    git: &Git,
    from: &str,
    to: &str,
    folder: &Path,
    paths: &[OsString],
) -> Result<Vec<(Status, OsString)>, GitError> {
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
    let paths: Vec<&OsStr> = paths.iter().map(OsString::as_os_str).collect();
    let said = git.run_in(folder, &args, &paths)?;
    Ok(read_changes(&said))
}

fn read_changes(said: &[u8]) -> Vec<(Status, OsString)> {
    let mut changes = Vec::new();
    let mut fields = items(said);
    while let (Some(status), Some(path)) = (fields.next(), fields.next()) {
        let status = match status.to_str() {
            Some("A") => Status::Added,
            Some("D") => Status::Deleted,
            _ => Status::Changed,
        };
        changes.push((status, path.to_owned()));
    }
    changes
}

/// What a restore would do.
#[derive(Debug)]
pub struct Plan {
    /// Files that get another content, or come back.
    pub write: Vec<(Status, OsString)>,
    /// Files that came later.
    pub later: Vec<OsString>,
    /// Files that cannot be written, because something else stands in their place.
    pub blocked: Vec<OsString>,
    tree: String,
    present: Present,
}

/// Compares the present with a checkpoint. Paths are as typed in `folder`; none is all.
pub fn plan(
    git: &Git,
    checkpoint: &Checkpoint,
    folder: &Path,
    paths: &[OsString],
    largest: u64,
) -> Result<Plan, GitError> {
    let mut present = Present::take(git, largest)?;
    let mut changes = changes_in(git, &present.tree, &checkpoint.tree, folder, paths)?;
    // What is there and not in the present tree (ignored, or too large) would be lost.
    let unseen = changes.iter().filter(|(status, path)| {
        let file = git.root().join(path);
        *status == Status::Added && fs::symlink_metadata(file).is_ok_and(|file| !file.is_dir())
    });
    let unseen: Vec<OsString> = unseen.map(|(_, path)| path.clone()).collect();
    if !unseen.is_empty() {
        present.force(git, &unseen)?;
        changes = changes_in(git, &present.tree, &checkpoint.tree, folder, paths)?;
    }
    let (gone, back): (Vec<_>, Vec<_>) = changes
        .into_iter()
        .partition(|(status, _)| *status == Status::Deleted);
    let (blocked, write): (Vec<_>, Vec<_>) = back
        .into_iter()
        .partition(|(_, path)| is_blocked(git.root(), path));
    let names =
        |changes: Vec<(Status, OsString)>| changes.into_iter().map(|(_, path)| path).collect();
    Ok(Plan {
        write,
        later: names(gone),
        blocked: names(blocked),
        tree: checkpoint.tree.clone(),
        present,
    })
}

/// Whether a checkpoint has any of these paths, as typed in `folder`.
pub fn holds(
    git: &Git,
    checkpoint: &Checkpoint,
    folder: &Path,
    paths: &[OsString],
) -> Result<bool, GitError> {
    let args = ["ls-tree", "-r", "-z", "--name-only", &checkpoint.tree, "--"];
    let paths: Vec<&OsStr> = paths.iter().map(OsString::as_os_str).collect();
    Ok(!git.run_in(folder, &args, &paths)?.is_empty())
}

/// git would remove a folder that stands where the file was, with all that is ignored in it; and
/// what lies behind a link is not ours.
fn is_blocked(root: &Path, path: &OsStr) -> bool {
    let kind = |path: &Path| fs::symlink_metadata(root.join(path)).map(|file| file.is_dir());
    let path = Path::new(path);
    let mut above = path
        .ancestors()
        .skip(1)
        .filter(|above| !above.as_os_str().is_empty());
    kind(path).is_ok_and(|is_folder| is_folder)
        || above.any(|above| kind(above).is_ok_and(|is_folder| !is_folder))
}

impl Plan {
    pub fn is_empty(&self) -> bool {
        self.write.is_empty() && self.later.is_empty()
    }

    /// Keeps the present state first.
    pub fn keep_present(&self, git: &Git, wish: &Wish<'_>) -> Result<Made, GitError> {
        make(git, &self.present, wish)
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

    /// Deletes what came later, and the folders that are empty then.
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
