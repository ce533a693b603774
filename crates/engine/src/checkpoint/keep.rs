//! Makes a checkpoint of the present, and lets go of the oldest.

use std::ffi::OsString;
use std::fmt::Write;

use becket_wire::id::parse_uuid;
use sha2::{Digest, Sha256};

use super::REFS;
use super::git::{Git, GitError, line};
use super::present::Present;
use super::read::{Checkpoint, changes, list, moment};

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
            .map(|c| if c.is_control() { '�' } else { c })
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
