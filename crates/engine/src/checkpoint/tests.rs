//! On real repositories, in every state that one finds them in.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;

/// Makes a checkpoint, and looks that nothing else has changed.
fn kept(repo: &Repo) -> CheckpointOutcome {
    let before = repo.state();
    let made = repo.keep(SESSION);
    assert_eq!(repo.state(), before);
    made
}

fn name(made: CheckpointOutcome) -> String {
    match made {
        CheckpointOutcome::Created(name) => name,
        CheckpointOutcome::Unchanged => panic!("no checkpoint was made"),
    }
}

/// What the newest checkpoint holds of a file.
fn held(repo: &Repo, file: &str) -> Option<String> {
    let newest = list(&repo.there()).unwrap().remove(0);
    repo.try_git(&["show", &format!("{}:{file}", newest.commit)])
}

#[test]
fn it_holds_what_is_there_and_touches_nothing() {
    let repo = Repo::with_commit();
    repo.write("a", "changed");
    repo.write("staged", "index");
    repo.git(&["add", "staged"]);
    repo.write("staged", "work tree");
    repo.write("new/one", "untracked");
    repo.write(".gitignore", "ignored\n");
    repo.write("ignored", "secret");
    fs::remove_file(repo.path("b")).unwrap();
    symlink("a", repo.path("link")).unwrap();

    let made = name(kept(&repo));
    assert!(made.starts_with("85d6d150/20"), "{made}");
    for (file, text) in [
        ("a", Some("changed")),
        ("staged", Some("work tree")),
        ("new/one", Some("untracked")),
        ("ignored", None),
        ("b", None),
        ("link", Some("a")),
    ] {
        assert_eq!(held(&repo, file).as_deref(), text, "{file}");
    }
    let one = list(&repo.there()).unwrap().remove(0);
    assert_eq!(one.session.as_deref(), Some(SESSION));
    assert_eq!(one.event.as_deref(), Some("Stop"));
    assert_eq!(one.files, Some(6));
    assert_eq!(one.title, "Stop: .gitignore, a, b and 3 more");
    assert_eq!(
        one.base.as_deref(),
        Some(&*repo.git(&["rev-parse", "HEAD"]))
    );
    assert!(
        one.at.is_some_and(|at| (0..60_000).contains(&(now() - at))),
        "{one:?}"
    );
}

#[test]
fn nothing_new_makes_none() {
    let repo = Repo::with_commit();
    assert_eq!(kept(&repo), CheckpointOutcome::Unchanged, "as committed");
    repo.write("a", "changed");
    name(kept(&repo));
    assert_eq!(kept(&repo), CheckpointOutcome::Unchanged);
    repo.write("a", "again");
    name(kept(&repo));
    repo.git(&["checkout", "-q", "a"]);
    name(kept(&repo));
    assert_eq!(list(&repo.there()).unwrap().len(), 3);
}

#[test]
fn a_repository_without_commits() {
    let repo = Repo::new();
    assert_eq!(kept(&repo), CheckpointOutcome::Unchanged);
    repo.write("a", "1");
    name(kept(&repo));
    assert_eq!(held(&repo, "a").as_deref(), Some("1"));
    assert_eq!(list(&repo.there()).unwrap()[0].base, None);
}

#[test]
fn in_a_worktree_of_its_own() {
    let repo = Repo::with_commit();
    repo.git(&["worktree", "add", "-q", "../other", "-b", "side"]);
    let other = repo.beside("other");
    other.write("a", "here");
    repo.write("a", "there");
    name(kept(&other));
    assert_eq!(held(&repo, "a").as_deref(), Some("here"));
}

#[test]
fn in_the_middle_of_a_conflict() {
    let repo = Repo::with_commit();
    repo.git(&["checkout", "-q", "-b", "side"]);
    repo.commit("a", "side");
    repo.git(&["checkout", "-q", "main"]);
    repo.commit("a", "main");
    assert_eq!(repo.try_git(&["merge", "-q", "side"]), None);
    name(kept(&repo));
    assert!(held(&repo, "a").unwrap().contains("<<<<<<<"));
}

#[test]
fn a_checkpoint_is_made_while_another_process_holds_the_index_lock() {
    let repo = Repo::with_commit();
    repo.write("a", "changed");
    repo.write(".git/index.lock", "");
    name(kept(&repo));
    assert_eq!(held(&repo, "a").as_deref(), Some("changed"));
}

#[test]
fn with_a_damaged_index() {
    let repo = Repo::with_commit();
    repo.write("a", "changed");
    repo.write(".git/index", "garbage");
    let before = fs::read(repo.path(".git/index")).unwrap();
    name(repo.keep(SESSION));
    assert_eq!(fs::read(repo.path(".git/index")).unwrap(), before);
    assert_eq!(held(&repo, "a").as_deref(), Some("changed"));
    assert_eq!(held(&repo, "b").as_deref(), Some("b"));
}

#[test]
fn other_repositories_within_are_left_alone() {
    let inner = Repo::with_commit();
    let repo = Repo::with_commit();
    let from = inner.root().display().to_string();
    repo.git(&[
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "--quiet",
        "add",
        &from,
        "sub",
    ]);
    repo.git(&["commit", "-qm", "sub"]);
    fs::write(repo.path("sub/a"), "dirty").unwrap();
    repo.git(&["init", "-q", "empty"]);
    repo.write("empty/x", "1");
    repo.git(&["init", "-q", "full"]);
    repo.beside("repo/full").commit("x", "1");
    assert_eq!(kept(&repo), CheckpointOutcome::Unchanged);
    repo.write("a", "changed");
    name(kept(&repo));
    let one = list(&repo.there()).unwrap().remove(0);
    assert_eq!((one.files, &*one.skipped), (Some(1), &[][..]));
}

#[test]
fn what_is_too_large_is_left_out_and_said() {
    let repo = Repo::with_commit();
    repo.write("small", "1");
    for file in ["huge", "hu[g]e*", "-rf"] {
        repo.write(file, &"x".repeat(3 << 20));
    }
    let git = repo.there();
    let snapshot = WorkTreeSnapshot::take(&git, 2 << 20).unwrap();
    name(make(&git, &snapshot, &repo.request(SESSION)).unwrap());
    assert_eq!(held(&repo, "small").as_deref(), Some("1"));
    assert_eq!(held(&repo, "huge"), None);
    let said = list(&git).unwrap().remove(0).skipped;
    assert_eq!(said, ["-rf (3 MB)", "hu[g]e* (3 MB)", "huge (3 MB)"]);
}

#[test]
fn odd_names() {
    let repo = Repo::with_commit();
    for file in [
        "two\nlines",
        "a b",
        "\"q\"",
        ":(top)x",
        "é",
        "[a]",
        "*",
        "-x",
    ] {
        repo.write(file, file);
    }
    name(kept(&repo));
    for file in ["two\nlines", "é", "*", ":(top)x"] {
        assert_eq!(held(&repo, file).as_deref(), Some(file), "{file}");
    }
}

#[test]
fn the_newest_stay() {
    let repo = Repo::with_commit();
    let other = "00000000-0000-4000-8000-000000000000";
    repo.write("a", "other");
    repo.keep(other);
    let mut made = Vec::new();
    for round in 0..5 {
        repo.write("a", &format!("{round}"));
        let git = repo.there();
        let snapshot = WorkTreeSnapshot::take(&git, 1 << 20).unwrap();
        let request = CheckpointRequest {
            keep: 3,
            ..repo.request(SESSION)
        };
        made.push(name(make(&git, &snapshot, &request).unwrap()));
    }
    let mut left: Vec<String> = list(&repo.there())
        .unwrap()
        .into_iter()
        .map(|one| one.name)
        .collect();
    assert_eq!(left.len(), 4);
    let others = left.pop().unwrap();
    assert!(others.starts_with("00000000/"), "{others}");
    made.reverse();
    assert_eq!(left, made[..3]);
}

#[test]
fn a_word_finds_one() {
    let repo = Repo::with_commit();
    let git = repo.there();
    for (text, at) in [("1", 1_000_000_000_000), ("2", 1_000_000_001_000)] {
        repo.write("a", text);
        let snapshot = WorkTreeSnapshot::take(&git, 1 << 20).unwrap();
        make(
            &git,
            &snapshot,
            &CheckpointRequest {
                at,
                ..repo.request(SESSION)
            },
        )
        .unwrap();
    }
    let all = list(&git).unwrap();
    let [new, old] = &*all else { panic!("{all:?}") };
    assert_eq!(old.name, "85d6d150/20010909T014640.000");
    assert_eq!(old.at, Some(1_000_000_000_000));
    let found = |word: &str| match find(&all, word) {
        CheckpointMatch::One(one) => Ok(one.name),
        CheckpointMatch::Several(names) => Err(names.len()),
        CheckpointMatch::None => Err(0),
    };
    assert_eq!(found(&old.name), Ok(old.name.clone()));
    assert_eq!(found("20010909T014640"), Ok(old.name.clone()));
    assert_eq!(found(&new.commit[..10]), Ok(new.name.clone()));
    assert_eq!(found("85d6d150"), Err(2));
    assert_eq!(found("2001"), Err(2));
    assert_eq!(found("nothing"), Err(0));
    assert_eq!(found(""), Err(0));
}

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

    pub fn request<'a>(&self, session: &'a str) -> CheckpointRequest<'a> {
        CheckpointRequest {
            session: Some(session),
            event: "Stop",
            at: now(),
            keep: 10,
            always: false,
        }
    }

    pub fn keep(&self, session: &str) -> CheckpointOutcome {
        let git = self.there();
        let snapshot = WorkTreeSnapshot::take(&git, 50 << 20).unwrap();
        make(&git, &snapshot, &self.request(session)).unwrap()
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

/// Back to the newest checkpoint.
fn restored(repo: &Repo, paths: &[&str], exact: bool) -> RestorePlan {
    let git = repo.there();
    let one = list(&git).unwrap().remove(0);
    let paths: Vec<_> = paths.iter().map(|path| (*path).into()).collect();
    let index = fs::read(repo.path(".git/index")).ok();
    let plan = plan_restore(&git, &one, repo.root(), &paths, 1 << 20).unwrap();
    plan.keep_present(
        &git,
        &CheckpointRequest {
            always: true,
            ..repo.request("x")
        },
    )
    .unwrap();
    plan.write(&git).unwrap();
    if exact {
        plan.delete_later(&git).unwrap();
    }
    assert_eq!(
        fs::read(repo.path(".git/index")).ok(),
        index,
        "the index was touched"
    );
    plan
}

#[test]
fn files_come_back_and_later_ones_stay() {
    let repo = Repo::with_commit();
    repo.write("a", "then");
    repo.write("deep/er", "then");
    symlink("a", repo.path("link")).unwrap();
    repo.keep(SESSION);
    repo.write("a", "now");
    repo.write("later/x", "now");
    fs::remove_dir_all(repo.path("deep")).unwrap();
    fs::remove_file(repo.path("link")).unwrap();
    repo.git(&["add", "later"]);

    let plan = restored(&repo, &[], false);
    assert_eq!((plan.write.len(), plan.later.len()), (3, 1));
    assert_eq!(repo.read("a").as_deref(), Some("then"));
    assert_eq!(repo.read("deep/er").as_deref(), Some("then"));
    assert!(repo.path("link").is_symlink());
    assert_eq!(repo.read("later/x").as_deref(), Some("now"));
    // What was there before the restore is kept.
    assert_eq!(held(&repo, "a").as_deref(), Some("now"));
}

#[test]
fn only_the_paths_that_were_named() {
    let repo = Repo::with_commit();
    repo.write("a", "then");
    repo.write("b", "then");
    repo.keep(SESSION);
    repo.write("a", "now");
    repo.write("b", "now");
    restored(&repo, &["a"], false);
    assert_eq!(repo.read("a").as_deref(), Some("then"));
    assert_eq!(repo.read("b").as_deref(), Some("now"));
}

#[test]
fn what_is_ignored_now_is_kept_before_it_is_overwritten() {
    let repo = Repo::with_commit();
    repo.write("secret", "then");
    repo.keep(SESSION);
    repo.write(".git/info/exclude", "secret\n");
    repo.write("secret", "now");
    restored(&repo, &[], false);
    assert_eq!(repo.read("secret").as_deref(), Some("then"));
    assert_eq!(held(&repo, "secret").as_deref(), Some("now"));
}

#[test]
fn what_stands_in_the_way_is_left_alone() {
    let repo = Repo::with_commit();
    let outside = tempfile::tempdir().unwrap();
    repo.write("file", "then");
    repo.write("folder/x", "then");
    repo.write("way/x", "then");
    repo.keep(SESSION);
    repo.write(".git/info/exclude", "precious\n");
    fs::remove_file(repo.path("file")).unwrap();
    repo.write("file/precious", "now");
    for folder in ["folder", "way"] {
        fs::remove_dir_all(repo.path(folder)).unwrap();
    }
    repo.write("folder", "now");
    symlink(outside.path(), repo.path("way")).unwrap();
    let plan = restored(&repo, &[], false);
    assert_eq!(plan.blocked, ["file", "folder/x", "way/x"]);
    assert_eq!(repo.read("file/precious").as_deref(), Some("now"));
    assert_eq!(repo.read("folder").as_deref(), Some("now"));
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
}

/// As with Git LFS in a repository that needs it, where it is not installed: git takes nothing then.
#[test]
fn what_cannot_be_kept_is_not_overwritten() {
    let repo = Repo::with_commit();
    repo.write("a", "then");
    repo.keep(SESSION);
    repo.write("a", "now");
    repo.write("picture", "now");
    repo.write(".git/info/attributes", "picture filter=gone\n");
    repo.git(&["config", "filter.gone.clean", "exit 1"]);
    repo.git(&["config", "filter.gone.required", "true"]);
    let git = repo.there();
    let one = list(&git).unwrap().remove(0);
    let refused = plan_restore(&git, &one, repo.root(), &[], 1 << 20).unwrap_err();
    assert!(
        refused.to_string().contains("clean filter 'gone' failed"),
        "{refused}"
    );
    assert_eq!(repo.read("a").as_deref(), Some("now"));
}

#[test]
fn no_program_of_the_repository_runs() {
    let repo = Repo::with_commit();
    repo.write("a", "changed");
    let mark = repo.beside("mark").root().to_owned();
    let script = format!("#!/bin/sh\ntouch {}\n", mark.display());
    for hook in [
        "pre-commit",
        "post-commit",
        "post-index-change",
        "reference-transaction",
        "fsmonitor",
    ] {
        let file = repo.path(".git/hooks").join(hook);
        fs::create_dir_all(repo.path(".git/hooks")).unwrap();
        fs::write(&file, &script).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let hooks = repo.path(".git/hooks").display().to_string();
    repo.write(
        ".git/config",
        &format!(
            "[core]\n\tbare = false\n\thooksPath = {hooks}\n\tfsmonitor = {hooks}/fsmonitor\n\
         [commit]\n\tgpgSign = true\n[gpg]\n\tprogram = false\n"
        ),
    );
    name(repo.keep(SESSION));
    assert!(!mark.exists());
    // The trap would have caught a git that is not held back.
    repo.try_git(&["add", "a"]);
    assert!(mark.exists());
}

/// A repository can bring folders along that git takes for repositories, with settings of theirs.
#[test]
fn a_folder_that_looks_like_a_bare_repository_is_none() {
    let repo = Repo::with_commit();
    let mark = repo.beside("mark").root().to_owned();
    let inner = repo.path("vendor/x");
    repo.write("vendor/x/HEAD", "ref: refs/heads/main\n");
    repo.write("vendor/x/.gitattributes", "* filter=x\n");
    fs::create_dir_all(inner.join("objects")).unwrap();
    fs::create_dir_all(inner.join("refs")).unwrap();
    repo.write(
        "vendor/x/config",
        &format!(
            "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = {}\n\
             [filter \"x\"]\n\tclean = touch {}; cat\n",
            inner.display(),
            mark.display()
        ),
    );
    assert!(Git::find(&inner).unwrap().is_none());
    name(repo.keep(SESSION));
    assert!(!mark.exists());
    repo.beside("repo/vendor/x").try_git(&["add", "-A"]);
    assert!(mark.exists());
}

#[derive(Debug, Clone)]
enum Work {
    Write(u8, u8),
    Remove(u8),
    Stage(u8),
    Unstage,
    Commit,
    Stash,
    Ignore(u8),
    Link(u8, u8),
    Move(u8, u8),
}

fn any_work() -> impl Strategy<Value = Work> {
    prop_oneof![
        4 => (0_u8..6, any::<u8>()).prop_map(|(file, text)| Work::Write(file, text)),
        1 => (0_u8..6).prop_map(Work::Remove),
        2 => (0_u8..6).prop_map(Work::Stage),
        1 => Just(Work::Unstage),
        1 => Just(Work::Commit),
        1 => Just(Work::Stash),
        1 => (0_u8..6).prop_map(Work::Ignore),
        1 => (0_u8..6, 0_u8..6).prop_map(|(from, to)| Work::Link(from, to)),
        1 => (0_u8..6, 0_u8..6).prop_map(|(from, to)| Work::Move(from, to)),
    ]
}

fn file(nth: u8) -> String {
    ["a", "b", "deep/c", "deep/er/d", "o d\td", "é"][usize::from(nth)].to_owned()
}

fn work(repo: &Repo, work: &Work) {
    match work {
        Work::Write(nth, text) => {
            let path = repo.path(&file(*nth));
            let _ = fs::create_dir_all(path.parent().unwrap());
            let _ = fs::write(path, text.to_string());
        }
        Work::Remove(nth) => drop(fs::remove_file(repo.path(&file(*nth)))),
        Work::Stage(nth) => drop(repo.try_git(&["add", "--", &file(*nth)])),
        Work::Unstage => drop(repo.try_git(&["reset", "-q"])),
        Work::Commit => drop(repo.try_git(&["commit", "-qm", "x"])),
        Work::Stash => drop(repo.try_git(&["stash", "-q"])),
        Work::Ignore(nth) => repo.write(".gitignore", &format!("{}\n", file(*nth))),
        Work::Link(from, to) => drop(symlink(file(*from), repo.path(&file(*to)))),
        Work::Move(from, to) => drop(repo.try_git(&["mv", "-f", &file(*from), &file(*to)])),
    }
}

/// The files that git does not ignore.
fn files(repo: &Repo) -> Vec<(String, Option<Vec<u8>>)> {
    let listed = repo.git(&[
        "-c",
        "core.quotePath=false",
        "ls-files",
        "-co",
        "--exclude-standard",
        "-z",
    ]);
    let mut found: Vec<_> = listed
        .split('\0')
        .filter(|name| !name.is_empty() && fs::symlink_metadata(repo.path(name)).is_ok())
        .map(|name| {
            let path = repo.path(name);
            let bytes = match fs::read_link(&path) {
                Ok(target) => Some(target.into_os_string().into_encoded_bytes()),
                Err(_) => fs::read(path).ok(),
            };
            (name.to_owned(), bytes)
        })
        .collect();
    found.sort();
    found.dedup();
    found
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_touched_and_everything_comes_back(
        before in prop::collection::vec(any_work(), 0..10),
        after in prop::collection::vec(any_work(), 0..6),
    ) {
        let repo = Repo::new();
        for step in &before {
            work(&repo, step);
        }
        let then = files(&repo);
        if kept(&repo) == CheckpointOutcome::Unchanged {
            return Ok(());
        }
        let one = list(&repo.there()).unwrap().remove(0);
        for step in after.iter().filter(|step| !matches!(step, Work::Ignore(_))) {
            work(&repo, step);
        }
        let git = repo.there();
        let plan = plan_restore(&git, &one, repo.root(), &[], 1 << 20).unwrap();
        plan.write(&git).unwrap();
        plan.delete_later(&git).unwrap();
        if plan.blocked.is_empty() {
            prop_assert_eq!(files(&repo), then);
        }
    }
}
