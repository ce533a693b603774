//! Finds the files that changed in a project since the last stop, by git, or else by the times of the files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use becket_wire::place::fnv1a;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::arguments::walk;
use super::memory::{read_json, write_json};
use crate::checkpoint::{Git, GitError, changes};

/// The number of changed files that are kept of a state. With more, the rest counts as changed at every stop.
const MOST_FILES: usize = 50_000;

/// The state of a project at one time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProjectState {
    /// The time of the state in milliseconds since 1970.
    at: i64,
    /// None without git.
    git: Option<GitState>,
}

/// The head and the uncommitted files of a work tree.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct GitState {
    head: String,
    /// The files that differ from the head, with modification time (nanoseconds) and size.
    files: BTreeMap<PathBuf, Option<(i64, u64)>>,
}

impl ProjectState {
    /// Returns the present state of a project, and the files that changed since `before`.
    pub fn look(project: &Path, before: &Baseline) -> (Self, Vec<PathBuf>) {
        let git = Git::find(project).ok().flatten();
        let now = Self {
            at: milliseconds(SystemTime::now()),
            git: git.as_ref().and_then(|git| GitState::look(git).ok()),
        };
        let changed = match (&now.git, &git) {
            (Some(state), Some(git)) => state.changed_since(before, git),
            _ => files_since(project, before.at()),
        };
        (now, changed)
    }
}

/// The earlier state that a project is compared with.
#[derive(Debug)]
pub enum Baseline {
    /// The state at the last stop.
    Stop(ProjectState),
    /// The start of the session, in milliseconds since 1970, if there was no stop.
    SessionStart(i64),
}

impl Baseline {
    /// Reads the state at this agent's last stop. Without one, uses the time when its transcript was created.
    pub fn read(memory: &Path, agent: Option<&str>, transcript: Option<&Path>) -> Self {
        if let Some(state) = read_json(memory, &name_of(agent)) {
            return Self::Stop(state);
        }
        let metadata = transcript.and_then(|path| fs::metadata(path).ok());
        let began = metadata.and_then(|data| data.created().ok());
        // Not every file system keeps the time of creation. Without it, no old file may count as new.
        Self::SessionStart(milliseconds(began.unwrap_or_else(SystemTime::now)))
    }

    fn at(&self) -> i64 {
        match self {
            Self::Stop(state) => state.at,
            Self::SessionStart(at) => *at,
        }
    }
}

/// Stores a state as that of the last stop.
pub fn remember(memory: &Path, agent: Option<&str>, state: &ProjectState) -> io::Result<()> {
    write_json(memory, &name_of(agent), state)
}

fn name_of(agent: Option<&str>) -> String {
    let hash = fnv1a(agent.unwrap_or_default().as_bytes());
    format!("stop-{hash:016x}.json")
}

impl GitState {
    fn look(git: &Git) -> Result<Self, GitError> {
        let status = ["status", "--porcelain=v1", "-z", "--untracked-files=all"];
        // This is the user's own index, which is only read: git takes no lock that it can do without.
        let status = git.with_index(&git.index()?, &status, b"")?;
        let mut files = BTreeMap::new();
        let status = String::from_utf8_lossy(&status);
        for file in status_files(&status).into_iter().take(MOST_FILES) {
            let path = git.root().join(file);
            let stamp = stamp_of(&path);
            files.insert(path, stamp);
        }
        // Without a commit there is no HEAD yet.
        let head = git.head().unwrap_or_default();
        Ok(Self { head, files })
    }

    fn changed_since(&self, before: &Baseline, git: &Git) -> Vec<PathBuf> {
        let mut changed = BTreeSet::new();
        match before {
            Baseline::Stop(ProjectState {
                git: Some(before), ..
            }) => {
                let files = self.files.iter();
                let different =
                    files.filter(|(file, stamp)| before.files.get(*file) != Some(stamp));
                changed.extend(different.map(|(file, _)| file.clone()));
                // A file that was changed before may be as committed again.
                let gone = before
                    .files
                    .keys()
                    .filter(|file| !self.files.contains_key(*file));
                changed.extend(gone.cloned());
                if before.head != self.head {
                    changed.extend(between(git, &before.head, &self.head));
                    // A file that was only committed has not changed.
                    changed.retain(|file| before.files.get(file) != Some(&stamp_of(file)));
                }
            }
            _ => {
                let at = before.at();
                let files = self.files.iter();
                let new = files.filter(|(_, stamp)| stamp.is_none_or(|stamp| is_since(stamp, at)));
                changed.extend(new.map(|(file, _)| file.clone()));
                changed.extend(committed_since(git, at));
            }
        }
        changed.into_iter().collect()
    }
}

/// Returns the paths in `git status --porcelain=v1 -z`. After a renamed file comes its old name.
fn status_files(status: &str) -> Vec<&str> {
    let mut files = Vec::new();
    let mut entries = status.split('\0');
    while let Some(entry) = entries.next() {
        let Some((state, file)) = entry.split_at_checked(3) else {
            continue;
        };
        files.push(file);
        if state.starts_with(['R', 'C']) {
            files.extend(entries.next());
        }
    }
    files
}

fn between(git: &Git, from: &str, to: &str) -> Vec<PathBuf> {
    let files = changes(git, from, to).unwrap_or_default();
    let files = files.into_iter().take(MOST_FILES);
    files.map(|(_, file)| git.root().join(file)).collect()
}

fn committed_since(git: &Git, at: i64) -> Vec<PathBuf> {
    let since = format!("--since=@{}", at / 1000);
    let args = [
        "log",
        "-z",
        "--format=",
        "--name-only",
        "--no-renames",
        "--no-show-signature",
        "--no-ext-diff",
        "--no-textconv",
        &since,
    ];
    let names = git.run(&args).unwrap_or_default();
    let names = String::from_utf8_lossy(&names);
    let names = names
        .split('\0')
        .map(str::trim)
        .filter(|name| !name.is_empty());
    names
        .take(MOST_FILES)
        .map(|name| git.root().join(name))
        .collect()
}

/// Returns the files that were changed since a time, for a project without git.
fn files_since(project: &Path, at: i64) -> Vec<PathBuf> {
    let mut changed = Vec::new();
    walk(project, &mut |file| {
        if stamp_of(file).is_some_and(|stamp| is_since(stamp, at)) {
            changed.push(file.to_path_buf());
        }
    });
    changed
}

/// Returns true if a stamp is not older than a time in milliseconds.
fn is_since((time, _): (i64, u64), at: i64) -> bool {
    time / 1_000_000 >= at
}

/// Returns the modification time in nanoseconds and the size of a file.
fn stamp_of(file: &Path) -> Option<(i64, u64)> {
    let data = fs::symlink_metadata(file).ok()?;
    Some((data.mtime() * 1_000_000_000 + data.mtime_nsec(), data.len()))
}

fn milliseconds(time: SystemTime) -> i64 {
    Timestamp::try_from(time).map_or(0, Timestamp::as_millisecond)
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::UNIX_EPOCH;

    use super::*;

    struct Project {
        folder: tempfile::TempDir,
    }

    impl Project {
        fn new(has_git: bool) -> Self {
            let project = Self {
                folder: tempfile::tempdir().unwrap(),
            };
            if has_git {
                project.git(&["init", "-q"]);
            }
            project
        }

        fn root(&self) -> &Path {
            self.folder.path()
        }

        fn git(&self, args: &[&str]) {
            let done = Command::new("git")
                .args([
                    "-c",
                    "user.name=a",
                    "-c",
                    "user.email=a@b",
                    "-c",
                    "commit.gpgsign=false",
                ])
                .args(args)
                .env("GIT_CONFIG_GLOBAL", "/dev/null")
                .env("GIT_CONFIG_SYSTEM", "/dev/null")
                .current_dir(self.root())
                .output()
                .unwrap();
            assert!(
                done.status.success(),
                "{args:?}: {}",
                String::from_utf8_lossy(&done.stderr)
            );
        }

        fn commit(&self) {
            self.git(&["add", "-A"]);
            self.git(&["commit", "-qm", "x", "--allow-empty"]);
        }

        /// Writes a file with a time of its own, so that two files differ in time.
        fn write(&self, name: &str, text: &str, second: u64) {
            let path = self.root().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            let time = UNIX_EPOCH + std::time::Duration::from_secs(second);
            fs::File::options()
                .write(true)
                .open(&path)
                .unwrap()
                .set_modified(time)
                .unwrap();
        }

        fn look(&self) -> ProjectState {
            ProjectState::look(self.root(), &Baseline::SessionStart(0)).0
        }

        fn since(&self, before: ProjectState) -> Vec<String> {
            self.compared(&Baseline::Stop(before))
        }

        fn compared(&self, before: &Baseline) -> Vec<String> {
            let (_, changed) = ProjectState::look(self.root(), before);
            let near = |file: PathBuf| {
                file.strip_prefix(self.root())
                    .unwrap()
                    .display()
                    .to_string()
            };
            changed.into_iter().map(near).collect()
        }
    }

    #[test]
    fn nothing_is_nothing_and_each_kind_of_change_is_seen() {
        let project = Project::new(true);
        project.write("a.rs", "1", 10);
        project.write("b.rs", "1", 10);
        project.commit();
        let before = project.look();
        assert_eq!(project.since(before.clone()), Vec::<String>::new());
        project.write("a.rs", "2", 20);
        project.write("new folder/ü.rs", "1", 20);
        let edited = ["a.rs", "new folder/ü.rs"];
        assert_eq!(project.since(before.clone()), edited);

        // Dirty as before, and nothing more.
        let dirty = project.look();
        assert_eq!(project.since(dirty.clone()), Vec::<String>::new());
        project.write("a.rs", "3", 30);
        assert_eq!(project.since(dirty.clone()), ["a.rs"]);
        fs::remove_file(project.root().join("b.rs")).unwrap();
        assert_eq!(project.since(dirty), ["a.rs", "b.rs"]);
    }

    #[test]
    fn a_commit_of_what_was_seen_is_no_change() {
        let project = Project::new(true);
        project.write("a.rs", "1", 10);
        project.commit();
        project.write("a.rs", "2", 20);
        let before = project.look();
        project.commit();
        assert_eq!(project.since(before.clone()), Vec::<String>::new());
        project.write("b.rs", "1", 30);
        project.commit();
        assert_eq!(project.since(before), ["b.rs"]);
    }

    #[test]
    fn at_the_first_stop_what_is_older_than_the_session_does_not_count() {
        let project = Project::new(true);
        project.write("old.rs", "1", 10);
        project.write("new.rs", "1", 30);
        assert_eq!(
            project.compared(&Baseline::SessionStart(20_000)),
            ["new.rs"]
        );
        project.commit();
        // The commit is of now.
        let now = milliseconds(SystemTime::now());
        assert_eq!(
            project.compared(&Baseline::SessionStart(now - 60_000)),
            ["new.rs", "old.rs"]
        );
        assert_eq!(
            project.compared(&Baseline::SessionStart(now + 60_000)),
            Vec::<String>::new()
        );
    }

    #[test]
    fn without_git_the_times_of_files_tell() {
        let project = Project::new(false);
        project.write("src/old.rs", "1", 10);
        project.write("src/new.rs", "1", 30);
        project.write("node_modules/x.js", "1", 30);
        assert_eq!(
            project.compared(&Baseline::SessionStart(20_000)),
            ["src/new.rs"]
        );
        let before = project.look();
        assert!(before.git.is_none());
        assert_eq!(project.since(before), Vec::<String>::new());
    }
}
