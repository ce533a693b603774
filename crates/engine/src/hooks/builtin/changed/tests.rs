use std::process::Command;

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

    /// Writes a file, and says when: files of one moment differ in time by hand.
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

    fn look(&self) -> State {
        State::look(self.root(), &Before::Began(0)).0
    }

    fn since(&self, before: State) -> Vec<String> {
        self.compared(&Before::Stop(before))
    }

    fn compared(&self, before: &Before) -> Vec<String> {
        let (_, changed) = State::look(self.root(), before);
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
fn what_is_taken_back_is_a_change() {
    let project = Project::new(true);
    project.write("a.rs", "1", 10);
    project.commit();
    project.write("a.rs", "2", 20);
    let before = project.look();
    project.git(&["checkout", "-q", "a.rs"]);
    assert_eq!(project.since(before), ["a.rs"]);
}

#[test]
fn a_rename_names_both() {
    assert_eq!(
        status_files("R  new.rs\0old.rs\0?? x y\0 M a\0"),
        ["new.rs", "old.rs", "x y", "a"]
    );
    assert_eq!(status_files(""), Vec::<&str>::new());
}

#[test]
fn at_the_first_stop_what_is_older_than_the_session_does_not_count() {
    let project = Project::new(true);
    project.write("old.rs", "1", 10);
    project.write("new.rs", "1", 30);
    assert_eq!(project.compared(&Before::Began(20_000)), ["new.rs"]);
    project.commit();
    // The commit is of now.
    let now = milliseconds(SystemTime::now());
    assert_eq!(
        project.compared(&Before::Began(now - 60_000)),
        ["new.rs", "old.rs"]
    );
    assert_eq!(
        project.compared(&Before::Began(now + 60_000)),
        Vec::<String>::new()
    );
}

#[test]
fn without_git_the_times_of_files_tell() {
    let project = Project::new(false);
    project.write("src/old.rs", "1", 10);
    project.write("src/new.rs", "1", 30);
    project.write("node_modules/x.js", "1", 30);
    assert_eq!(project.compared(&Before::Began(20_000)), ["src/new.rs"]);
    let before = project.look();
    assert!(before.git.is_none());
    assert_eq!(project.since(before), Vec::<String>::new());
}

#[test]
fn a_stop_is_remembered_for_its_agent() {
    let memory = tempfile::tempdir().unwrap();
    let state = State {
        at: 7,
        git: Some(Tree {
            head: "abc".into(),
            files: [("/p/a".into(), Some((1, 2)))].into(),
        }),
    };
    remember(memory.path(), None, &state).unwrap();
    let read = |agent| Before::read(memory.path(), agent, None);
    assert!(matches!(read(None), Before::Stop(read) if read == state));
    assert!(matches!(read(Some("agent")), Before::Began(_)));
    fs::write(place(memory.path(), None), "{").unwrap();
    assert!(matches!(read(None), Before::Began(_)));
}

#[test]
fn a_session_began_with_its_transcript() {
    let memory = tempfile::tempdir().unwrap();
    let transcript = memory.path().join("t.jsonl");
    fs::write(&transcript, "").unwrap();
    let now = milliseconds(SystemTime::now());
    let before = Before::read(memory.path(), None, Some(&transcript));
    assert!(
        matches!(before, Before::Began(at) if (now - at).abs() < 60_000),
        "{before:?}"
    );
}

#[test]
fn a_session_whose_beginning_nobody_knows_began_now() {
    let project = Project::new(true);
    project.write("old.rs", "1", 10);
    let memory = tempfile::tempdir().unwrap();
    for transcript in [None, Some(Path::new("/nowhere.jsonl"))] {
        let before = Before::read(memory.path(), None, transcript);
        assert_eq!(project.compared(&before), Vec::<String>::new());
    }
}
