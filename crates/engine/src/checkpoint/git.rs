//! Runs git: in the repository that was found, without its hooks, within bounds.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use thiserror::Error;

use crate::process::{Bounds, run_command};
use crate::program;

/// The number of bytes that git may print.
const MOST: usize = 64 << 20;
const LONGEST_WHY: usize = 4000;

/// The variables of git's that it keeps: where git and the user's settings are, and how far it looks for a
/// repository. All others would point it elsewhere, because the session may run below a git hook.
const STAY: [&str; 6] = [
    "GIT_EXEC_PATH",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_SYSTEM",
    "GIT_CONFIG_NOSYSTEM",
    "GIT_CEILING_DIRECTORIES",
    "GIT_DISCOVERY_ACROSS_FILESYSTEM",
];

/// Settings without hooks, monitor, background maintenance and reflog, and with an index in one piece. A folder
/// that only looks like a bare repository may be part of another one, with settings of its own.
const SETTINGS: [&str; 12] = [
    "safe.bareRepository=explicit",
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.untrackedCache=false",
    "core.splitIndex=false",
    "core.logAllRefUpdates=false",
    "core.safecrlf=false",
    "core.quotePath=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "submodule.recurse=false",
    "i18n.commitEncoding=UTF-8",
];

/// Keeps git from fetching: a repository can name the program that fetches.
const NO_FETCHING: [(&str, &str); 2] = [("GIT_NO_LAZY_FETCH", "1"), ("GIT_ALLOW_PROTOCOL", "")];

/// The name that becket commits under, so that commits work where the user has set none.
const IDENTITY: [(&str, &str); 4] = [
    ("GIT_AUTHOR_NAME", "becket"),
    ("GIT_AUTHOR_EMAIL", "becket@localhost"),
    ("GIT_COMMITTER_NAME", "becket"),
    ("GIT_COMMITTER_EMAIL", "becket@localhost"),
];

#[derive(Debug, Error)]
pub enum GitError {
    #[error("could not run git: {0}")]
    Start(#[from] io::Error),
    #[error("git {verb} failed: {why}")]
    Failed { verb: String, why: String },
    #[error("git {verb} says more than becket takes")]
    TooMuch { verb: String },
}

/// A repository with a work tree.
#[derive(Debug, Clone)]
pub struct Git {
    program: PathBuf,
    root: PathBuf,
}

impl Git {
    /// Finds the repository that a folder is in. Returns none if there is none, or it has no work tree.
    pub fn find(folder: &Path) -> Result<Option<Self>, GitError> {
        let program = program::find("git", &program::folders())
            .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "it is not on PATH"))?;
        let args = ["rev-parse", "--show-toplevel"];
        let none = ["not a git repository", "work tree", "bare repository"];
        match run(&program, folder, None, &args, b"") {
            Ok(root) => {
                let root = path(&root);
                Ok(Some(Self { program, root }))
            }
            Err(GitError::Failed { why, .. }) if none.iter().any(|it| why.contains(it)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the path of the user's own index.
    pub fn index(&self) -> Result<PathBuf, GitError> {
        let folder = self.run(&["rev-parse", "--absolute-git-dir"])?;
        Ok(path(&folder).join("index"))
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Runs git at the root, and returns what it prints.
    pub fn run(&self, args: &[&str]) -> Result<Vec<u8>, GitError> {
        self.feed(args, b"")
    }

    /// Runs git in a folder below the root, for paths as the user typed them.
    pub fn run_in(
        &self,
        folder: &Path,
        args: &[&str],
        paths: &[OsString],
    ) -> Result<Vec<u8>, GitError> {
        let paths = paths.iter().map(OsString::as_os_str);
        let args: Vec<&OsStr> = args.iter().map(OsStr::new).chain(paths).collect();
        run(&self.program, folder, None, &args, b"")
    }

    /// Runs git with another index.
    pub fn with_index(
        &self,
        index: &Path,
        args: &[&str],
        stdin: &[u8],
    ) -> Result<Vec<u8>, GitError> {
        run(&self.program, &self.root, Some(index), args, stdin)
    }

    /// Runs git with this text on stdin.
    pub fn feed(&self, args: &[&str], stdin: &[u8]) -> Result<Vec<u8>, GitError> {
        run(&self.program, &self.root, None, args, stdin)
    }

    /// Runs git, and returns the first line that it prints.
    pub fn line(&self, args: &[&str]) -> Result<String, GitError> {
        self.run(args).map(|bytes| line(&bytes))
    }

    /// Returns the commit that is checked out; none before the first commit.
    pub fn head(&self) -> Option<String> {
        let head = self.line(&["rev-parse", "--quiet", "--verify", "HEAD^{commit}"]);
        head.ok().filter(|head| !head.is_empty())
    }

    /// Returns the repository's own settings that name filters: programs that git runs on its files.
    pub fn own_filters(&self) -> Result<Vec<String>, GitError> {
        let pattern = r"^filter\..*\.(clean|smudge|process)$";
        let listed = ["config", "--show-scope", "--name-only", "-z"];
        let listed = match self.run(&[&listed[..], &["--get-regexp", pattern]].concat()) {
            // Without an error text there is no such setting.
            Err(GitError::Failed { why, .. }) if why.is_empty() => return Ok(Vec::new()),
            listed => listed?,
        };
        let words: Vec<&OsStr> = items(&listed).collect();
        let pairs = words.chunks_exact(2);
        let own = pairs.filter(|pair| pair[0] == "local" || pair[0] == "worktree");
        Ok(own
            .map(|pair| pair[1].to_string_lossy().into_owned())
            .collect())
    }

    /// Returns the hash of the empty tree, in the hash algorithm of this repository.
    pub fn empty_tree(&self) -> Result<String, GitError> {
        let tree = self.feed(&["hash-object", "-t", "tree", "--stdin"], b"")?;
        Ok(line(&tree))
    }
}

pub fn line(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_end().to_owned()
}

fn path(bytes: &[u8]) -> PathBuf {
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    PathBuf::from(OsString::from_vec(bytes.to_vec()))
}

/// Splits texts that end with a NUL each.
pub fn items(bytes: &[u8]) -> impl Iterator<Item = &OsStr> {
    bytes
        .split(|byte| *byte == 0)
        .filter(|item| !item.is_empty())
        .map(OsStr::from_bytes)
}

fn git(program: &Path, folder: &Path, index: Option<&Path>) -> Command {
    let mut command = Command::new(program);
    command
        .current_dir(folder)
        .args(["--no-pager", "--no-optional-locks"]);
    for setting in SETTINGS {
        command.args(["-c", setting]);
    }
    for (name, _) in std::env::vars_os() {
        if name.as_bytes().starts_with(b"GIT_") && !STAY.iter().any(|stays| name == *stays) {
            command.env_remove(name);
        }
    }
    command
        .envs(IDENTITY)
        .envs(NO_FETCHING)
        .env("LC_ALL", "C")
        .env("GIT_TERMINAL_PROMPT", "0");
    // Never the user's own index, even to read: it may be damaged, and some verbs write to it.
    command.env(
        "GIT_INDEX_FILE",
        index.unwrap_or(Path::new("/nonexistent/index")),
    );
    // No test reads the real home.
    #[cfg(test)]
    command
        .env("HOME", "/nonexistent")
        .env("GIT_CONFIG_NOSYSTEM", "1");
    command
}

fn run<S: AsRef<OsStr>>(
    program: &Path,
    folder: &Path,
    index: Option<&Path>,
    args: &[S],
    stdin: &[u8],
) -> Result<Vec<u8>, GitError> {
    let verb = args.first().map_or_else(String::new, |verb| {
        verb.as_ref().to_string_lossy().into_owned()
    });
    let bounds = Bounds {
        bytes: MOST,
        ..Bounds::default()
    };
    let done = run_command(git(program, folder, index).args(args), stdin, &bounds)?;
    if done.dropped > 0 {
        return Err(GitError::TooMuch { verb });
    }
    if done.success() {
        return Ok(done.stdout);
    }
    let why = &done.stderr[..done.stderr.len().min(LONGEST_WHY)];
    Err(GitError::Failed {
        verb,
        why: line(why).replace('\n', "; "),
    })
}
