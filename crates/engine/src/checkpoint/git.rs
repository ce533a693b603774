//! git as a program: in the repository that was found, without its hooks, within bounds.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use thiserror::Error;

use crate::process::{Bounds, run_command};
use crate::program;

/// What git may say, in bytes.
const MOST: usize = 64 << 20;
const LONGEST_WHY: usize = 4000;

/// Of git's own variables these stay: where git and the person's settings are, and how far it looks
/// for a repository. All others would lead it elsewhere: the session may run below a hook of git's.
const STAY: [&str; 6] = [
    "GIT_EXEC_PATH",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_SYSTEM",
    "GIT_CONFIG_NOSYSTEM",
    "GIT_CEILING_DIRECTORIES",
    "GIT_DISCOVERY_ACROSS_FILESYSTEM",
];

/// No hooks, no monitor, no cleaning up in the background, no reflog; and an index in one piece. A
/// folder that only looks like a bare repository may be part of somebody's, with settings of its own.
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

/// What a repository says is far away is not fetched: it says by which program, too.
const NO_FETCHING: [(&str, &str); 2] = [("GIT_NO_LAZY_FETCH", "1"), ("GIT_ALLOW_PROTOCOL", "")];

/// Its own name, so that it works where nobody has said theirs.
const WHO: [(&str, &str); 4] = [
    ("GIT_AUTHOR_NAME", "becket"),
    ("GIT_AUTHOR_EMAIL", "becket@localhost"),
    ("GIT_COMMITTER_NAME", "becket"),
    ("GIT_COMMITTER_EMAIL", "becket@localhost"),
];

/// Why git did not do it.
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
    /// The repository that a folder is in; none if it is in none, or in one without a work tree.
    pub fn find(folder: &Path) -> Result<Option<Self>, GitError> {
        let program = program::find("git", &program::folders())
            .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "it is not on PATH"))?;
        match run(
            &program,
            folder,
            None,
            &["rev-parse", "--show-toplevel"],
            b"",
        ) {
            Ok(root) => {
                let root = path(&root);
                Ok(Some(Self { program, root }))
            }
            Err(GitError::Failed { why, .. })
                if ["not a git repository", "work tree", "bare repository"]
                    .iter()
                    .any(|none| why.contains(none)) =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Where the person's own index is.
    pub fn index(&self) -> Result<PathBuf, GitError> {
        let folder = self.run(&["rev-parse", "--absolute-git-dir"])?;
        Ok(path(&folder).join("index"))
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Runs git at the root, and gives what it prints.
    pub fn run(&self, args: &[&str]) -> Result<Vec<u8>, GitError> {
        run(&self.program, &self.root, None, args, b"")
    }

    /// The same from a folder below, for paths as its person types them.
    pub fn run_in(
        &self,
        folder: &Path,
        args: &[&str],
        more: &[&OsStr],
    ) -> Result<Vec<u8>, GitError> {
        let args: Vec<&OsStr> = args
            .iter()
            .map(OsStr::new)
            .chain(more.iter().copied())
            .collect();
        run(&self.program, folder, None, &args, b"")
    }

    /// The same with another index.
    pub fn with_index(
        &self,
        index: &Path,
        args: &[&str],
        stdin: &[u8],
    ) -> Result<Vec<u8>, GitError> {
        run(&self.program, &self.root, Some(index), args, stdin)
    }

    pub fn feed(&self, args: &[&str], stdin: &[u8]) -> Result<Vec<u8>, GitError> {
        run(&self.program, &self.root, None, args, stdin)
    }

    /// One line of what it prints.
    pub fn line(&self, args: &[&str]) -> Result<String, GitError> {
        self.run(args).map(|bytes| line(&bytes))
    }

    /// The commit that is checked out; none where there is none yet.
    pub fn head(&self) -> Option<String> {
        let head = self.line(&["rev-parse", "--quiet", "--verify", "HEAD^{commit}"]);
        head.ok().filter(|head| !head.is_empty())
    }

    /// The settings of this repository's own that name filters: programs that git runs on its files.
    pub fn own_filters(&self) -> Result<Vec<String>, GitError> {
        let pattern = r"^filter\..*\.(clean|smudge|process)$";
        let args = [
            "config",
            "--show-scope",
            "--name-only",
            "-z",
            "--get-regexp",
            pattern,
        ];
        let listed = match self.run(&args) {
            // There is none.
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

    /// The tree of nothing, by the hash that this repository uses.
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

/// Texts that end with a NUL each.
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
        .envs(WHO)
        .envs(NO_FETCHING)
        .env("LC_ALL", "C")
        .env("GIT_TERMINAL_PROMPT", "0");
    // Not the person's, even to read: it may be damaged, and some verbs write what they have learnt.
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
    let verb = || {
        args.first().map_or_else(String::new, |verb| {
            verb.as_ref().to_string_lossy().into_owned()
        })
    };
    let bounds = Bounds {
        bytes: MOST,
        ..Bounds::default()
    };
    let done = run_command(git(program, folder, index).args(args), stdin, &bounds)?;
    if done.dropped > 0 {
        return Err(GitError::TooMuch { verb: verb() });
    }
    if done.success() {
        return Ok(done.stdout);
    }
    let why = &done.stderr[..done.stderr.len().min(LONGEST_WHY)];
    Err(GitError::Failed {
        verb: verb(),
        why: line(why).replace('\n', "; "),
    })
}
