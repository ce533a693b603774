//! The work tree as it is now, written into git as a tree, by way of a temporary index.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, FileTimes, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use tempfile::TempDir;

use super::git::{Git, GitError, items, line};

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
        .map(|c| if c.is_control() { '�' } else { c })
        .collect()
}
