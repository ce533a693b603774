//! The checkpoints that a repository has, as their refs and messages tell.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use super::REFS;
use super::git::{Git, GitError, items};

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
pub(super) fn moment(at_ms: i64) -> String {
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
pub(super) fn changes_in(
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
