//! A repository of a test's own, and all of it that a checkpoint must not touch.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use tempfile::TempDir;

use super::super::*;

pub const SESSION: &str = "85d6d150-187f-464e-b9d0-1f5d4639bdac";

pub struct Repo {
    root: PathBuf,
    home: Arc<TempDir>,
}

pub fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(now.as_millis()).unwrap()
}

impl Repo {
    pub fn new() -> Self {
        let home = Arc::new(tempfile::tempdir().unwrap());
        let root = home.path().canonicalize().unwrap().join("repo");
        fs::create_dir(&root).unwrap();
        let repo = Self { root, home };
        repo.git(&["init", "-q", "-b", "main"]);
        repo
    }

    pub fn with_commit() -> Self {
        let repo = Self::new();
        repo.write("b", "b");
        repo.git(&["add", "b"]);
        repo.commit("a", "a");
        repo
    }

    /// Another folder of the same home.
    pub fn beside(&self, name: &str) -> Self {
        let home = self.home.clone();
        let root = home.path().canonicalize().unwrap().join(name);
        Self { root, home }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn path(&self, file: &str) -> PathBuf {
        self.root.join(file)
    }

    pub fn write(&self, file: &str, text: &str) {
        let file = self.path(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }

    pub fn read(&self, file: &str) -> Option<String> {
        fs::read_to_string(self.path(file)).ok()
    }

    pub fn commit(&self, file: &str, text: &str) {
        self.write(file, text);
        self.git(&["add", file]);
        self.git(&["commit", "-qm", text]);
    }

    pub fn try_git(&self, args: &[&str]) -> Option<String> {
        let output = Command::new("git")
            .args([
                "--no-optional-locks",
                "-c",
                "user.name=n",
                "-c",
                "user.email=e",
            ])
            .args(args)
            .current_dir(&self.root)
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", self.home.path())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout)
            .trim_end()
            .to_owned();
        output.status.success().then_some(text)
    }

    pub fn git(&self, args: &[&str]) -> String {
        self.try_git(args)
            .unwrap_or_else(|| panic!("git {args:?} fails"))
    }

    pub fn there(&self) -> Git {
        Git::find(&self.root).unwrap().unwrap()
    }

    pub fn wish<'a>(&self, session: &'a str) -> Wish<'a> {
        Wish {
            session: Some(session),
            event: "Stop",
            at: now(),
            keep: 10,
            always: false,
        }
    }

    pub fn keep(&self, session: &str) -> Made {
        let git = self.there();
        let present = Present::take(&git, 50 << 20).unwrap();
        make(&git, &present, &self.wish(session)).unwrap()
    }

    /// Every file but the objects, what git says, and every ref that is not ours.
    pub fn state(&self) -> BTreeMap<String, Vec<u8>> {
        let mut state = BTreeMap::new();
        let mut folders = vec![self.root.clone()];
        let git = self.git(&["rev-parse", "--absolute-git-dir"]);
        folders.push(PathBuf::from(git));
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap().flatten() {
                let path = entry.path();
                let name = path.to_string_lossy().into_owned();
                if ["/objects/", "/refs/becket"]
                    .iter()
                    .any(|ours| format!("{name}/").contains(ours))
                {
                    continue;
                }
                match fs::symlink_metadata(&path).unwrap() {
                    about if about.is_dir() => folders.push(path),
                    about if about.is_symlink() => {
                        let target = fs::read_link(&path).unwrap();
                        state.insert(name, target.into_os_string().into_encoded_bytes());
                    }
                    about => {
                        let time = format!("{:?}", about.modified().unwrap());
                        state.insert(format!("{name} at"), time.into_bytes());
                        state.insert(name, fs::read(path).unwrap());
                    }
                }
            }
        }
        for args in [
            &["status", "--porcelain", "-z", "-uall"][..],
            &["stash", "list"],
            &["reflog", "--all"],
            &["for-each-ref", "--exclude=refs/becket"],
        ] {
            let said = self.try_git(args).unwrap_or_default();
            state.insert(args.join(" "), said.into_bytes());
        }
        state
    }
}
