//! `becket checkpoint` in a repository. The built-in makes the checkpoints, as on a Stop.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use becket_tests::skip::skip;
use becket_tests::terminal::Terminal;
use becket_tests::world::{World, call};
use serde_json::{Value, json};

const SESSION: &str = "85d6d150-187f-464e-b9d0-1f5d4639bdac";

struct Repo {
    world: World,
    root: PathBuf,
}

impl Repo {
    fn new() -> Self {
        let world = World::new();
        let root = world.home.join("project");
        fs::create_dir(&root).expect("a folder");
        let repo = Self { world, root };
        repo.git(&["init", "-q", "-b", "main"]);
        repo.write("a.txt", "committed\n");
        repo.git(&["add", "-A"]);
        repo.git(&[
            "-c",
            "user.name=n",
            "-c",
            "user.email=e",
            "commit",
            "-qm",
            "first",
        ]);
        repo
    }

    fn git(&self, args: &[&str]) -> String {
        let mut git = self.world.command("git");
        let output = git
            .args(args)
            .current_dir(&self.root)
            .output()
            .expect("git");
        assert!(output.status.success(), "git {args:?}: {output:?}");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    fn write(&self, file: &str, text: &str) {
        let file = self.root.join(file);
        fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
        fs::write(file, text).expect("a file");
    }

    fn read(&self, file: &str) -> Option<String> {
        fs::read_to_string(self.root.join(file)).ok()
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.world.becket(["checkpoint"]);
        command.args(args).current_dir(&self.root).env("TZ", "UTC");
        command
    }

    fn output(&self, args: &[&str]) -> Output {
        self.command(args).output().expect("becket runs")
    }

    fn run(&self, args: &[&str]) -> String {
        let output = self.output(args);
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    /// Makes a checkpoint with a fixed time in its name.
    fn keep(&self) -> String {
        self.keep_at(SESSION, "20010909T014640.000")
    }

    fn keep_at(&self, session: &str, moment: &str) -> String {
        let before = self.listed();
        let event = json!({"session_id": session, "hook_event_name": "Stop", "cwd": self.root});
        let hook = self.world.becket(["builtin", "create-checkpoint"]);
        let called = call(hook, event.to_string().as_bytes());
        assert!(called.is_quiet(), "{called:?}");
        let new = self.listed().into_iter().find(|one| !before.contains(one));
        let new = new.expect("a new checkpoint");
        let text = |field: &str| new[field].as_str().expect("a text").to_owned();
        let (made, commit) = (text("name"), text("commit"));
        let name = format!("{}/{moment}", &session[..8]);
        self.git(&[
            "update-ref",
            &format!("refs/becket/checkpoints/{name}"),
            &commit,
        ]);
        self.git(&[
            "update-ref",
            "-d",
            &format!("refs/becket/checkpoints/{made}"),
        ]);
        name
    }

    fn listed(&self) -> Vec<Value> {
        serde_json::from_str(&self.run(&["list", "--json"])).expect("JSON")
    }
}

/// Replaces the parts of an output that differ from run to run.
fn steady(text: &str) -> String {
    let is_hash =
        |word: &str| word.len() == 10 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    let lines = text.lines().map(|line| {
        let words = line
            .split(' ')
            .map(|word| if is_hash(word) { "HASHHASHHA" } else { word });
        words.collect::<Vec<_>>().join(" ")
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn said(output: &Output) -> (Option<i32>, String) {
    let text = String::from_utf8_lossy(&output.stderr);
    (output.status.code(), steady(text.trim()))
}

#[test]
fn list_and_show() {
    let repo = Repo::new();
    assert!(repo.run(&["list"]).starts_with("no checkpoints yet"));
    assert_eq!(repo.listed(), Vec::<Value>::new());
    repo.write("a.txt", "changed\n");
    repo.write("new/b.txt", "new\n");
    repo.keep();
    repo.write("a.txt", "again\n");
    repo.keep_at(
        "0f70117c-c644-46b9-af33-46d3babdc3d2",
        "20010909T020140.000",
    );

    insta::assert_snapshot!(steady(&repo.run(&["list"])));
    insta::assert_snapshot!(steady(&repo.run(&["show", "20010909T0146"])));
    let listed = repo.listed();
    assert_eq!(listed.len(), 2);
    assert_eq!(listed[1]["name"], "85d6d150/20010909T014640.000");
    assert_eq!(listed[1]["at"], "2001-09-09T01:46:40.000Z");
    assert_eq!(listed[1]["files"], 2);
    let id = listed[1]["id"].as_str().expect("an id");
    let patch = repo.run(&["show", id, "--patch"]);
    assert!(patch.contains("\n-committed\n+changed\n"), "{patch}");
    let shown: Value = serde_json::from_str(&repo.run(&["show", id, "--json"])).expect("JSON");
    assert_eq!(shown["changes"][1]["path"], "new/b.txt");
    assert_eq!(shown["changes"][1]["status"], "added");
}

#[test]
fn a_patch_can_be_applied() {
    let repo = Repo::new();
    repo.write("bytes", "\u{0}\u{1}\u{2}");
    repo.write("a.txt", "changed\n");
    let name = repo.keep();
    let patch = repo.output(&["show", &name, "-p"]).stdout;
    fs::write(repo.world.home.join("p"), patch).expect("a file");
    repo.git(&["reset", "-q", "--hard"]);
    fs::remove_file(repo.root.join("bytes")).expect("no file");
    repo.git(&["apply", "../p"]);
    assert_eq!(repo.read("a.txt").as_deref(), Some("changed\n"));
    assert_eq!(repo.read("bytes").as_deref(), Some("\u{0}\u{1}\u{2}"));
}

#[test]
fn restore_brings_files_back_and_keeps_the_previous_ones() {
    let repo = Repo::new();
    repo.write("a.txt", "then\n");
    repo.write("gone.txt", "then\n");
    let name = repo.keep();
    repo.write("a.txt", "now\n");
    repo.git(&["add", "a.txt"]);
    repo.write("later.txt", "now\n");
    fs::remove_file(repo.root.join("gone.txt")).expect("no file");
    let index = fs::read(repo.root.join(".git/index")).expect("an index");

    insta::assert_snapshot!(repo.run(&["restore", &name, "--dry-run"]));
    assert_eq!(repo.read("a.txt").as_deref(), Some("now\n"));
    assert_eq!(repo.listed().len(), 1);

    let done = repo.run(&["restore", &name, "--yes"]);
    assert!(done.contains("wrote 2 files of the checkpoint "), "{done}");
    assert_eq!(repo.read("a.txt").as_deref(), Some("then\n"));
    assert_eq!(repo.read("gone.txt").as_deref(), Some("then\n"));
    assert_eq!(repo.read("later.txt").as_deref(), Some("now\n"));
    assert_eq!(
        fs::read(repo.root.join(".git/index")).expect("an index"),
        index
    );

    let again = repo.run(&["restore", &name, "--yes"]);
    assert!(again.contains("nothing to restore"), "{again}");
    let kept = done.trim_end().rsplit(' ').next().expect("a name");
    assert!(kept.starts_with("person/"), "{done}");
    let back = repo.run(&["restore", kept, "--yes", "--exact", "--json"]);
    let back: Value = serde_json::from_str(&back).expect("JSON");
    assert_eq!(back["written"], json!(["a.txt"]));
    assert_eq!(back["deleted"], json!(["gone.txt"]));
    assert_eq!(repo.read("a.txt").as_deref(), Some("now\n"));
    assert_eq!(repo.read("gone.txt"), None);
    assert_eq!(repo.read("later.txt").as_deref(), Some("now\n"));
}

#[test]
fn errors_are_reported_with_hints() {
    let repo = Repo::new();
    repo.write("a.txt", "1");
    let name = repo.keep();
    repo.write("a.txt", "2");
    repo.keep_at(SESSION, "20010909T020140.000");
    let mut told = Vec::new();
    for args in [
        &["show", "ffffffff"][..],
        &["show", "85d6d150"],
        &["restore", &name],
        &["restore", &name, "--yes", "--path", "nothing"],
    ] {
        let (code, text) = said(&repo.output(args));
        told.push(format!("exit {}\n{text}\n", code.unwrap_or(-1)));
    }
    let mut outside = repo.command(&["list"]);
    let (code, text) = said(&outside.current_dir("/").output().expect("becket"));
    told.push(format!("exit {}\n{text}\n", code.unwrap_or(-1)));
    insta::assert_snapshot!(told.join("\n"));
    assert_eq!(repo.read("a.txt").as_deref(), Some("2"));
}

/// git runs programs that a repository's settings name, so these built-ins need trust.
#[test]
fn no_program_of_an_untrusted_repository_runs_at_a_stop() {
    let repo = Repo::new();
    let mark = repo.world.home.join("mark");
    let config = "[hooks.self-review]\n[hooks.create-checkpoint]\n";
    fs::create_dir_all(&repo.world.becket_home).expect("a folder");
    fs::write(repo.world.path("config.toml"), config).expect("a config");
    let trap = format!("touch {}; cat", mark.display());
    repo.write(".git/info/attributes", "* filter=trap\n");
    repo.git(&["config", "filter.trap.clean", &trap]);
    let stop = |alone: bool| {
        // Of the same size, so that git has to read it.
        repo.write("a.txt", "COMMITTED\n");
        let event = json!({
            "session_id": SESSION, "hook_event_name": "Stop", "cwd": repo.root,
            "stop_hook_active": false, "last_assistant_message": "Done.",
        });
        let mut shim = repo.world.shim("Stop");
        if alone {
            shim.env("BECKET_NO_DAEMON", "1");
        }
        call(shim, event.to_string().as_bytes())
    };
    for alone in [false, true] {
        let called = stop(alone);
        assert!(called.is_silent(), "{called:?}");
        assert!(!mark.exists(), "alone: {alone}");
    }
    assert_eq!(repo.listed(), Vec::<Value>::new());

    let mut trust = repo.world.becket(["trust", "--yes"]);
    let trusted = trust.current_dir(&repo.root).output().expect("becket");
    assert!(trusted.status.success(), "{trusted:?}");
    stop(false);
    assert!(mark.exists());
    assert_eq!(repo.listed().len(), 1);
}

#[test]
fn restore_asks_in_a_terminal() {
    let repo = Repo::new();
    repo.write("a.txt", "then\n");
    let name = repo.keep();
    repo.write("a.txt", "now\n");
    repo.write("later.txt", "now\n");
    let answer = |key: &str| {
        // tmux may forget how a program ended, so a shell prints it.
        let mut line = repo.world.command("/bin/sh");
        line.args(["-c", "\"$@\"; echo exit=$?", "sh"])
            .arg(repo.world.programs.join("becket"))
            .args(["checkpoint", "restore", &name, "--exact"])
            .current_dir(&repo.root);
        let terminal = match Terminal::of(&line, (100, 30)) {
            Ok(terminal) => terminal,
            Err(why) => {
                skip("restore_asks_in_a_terminal", &why);
                return None;
            }
        };
        let screen = terminal.wait_text("[y/N]");
        assert!(
            screen.contains("Write 1 file and delete 1 file, as in"),
            "{screen:?}"
        );
        assert!(screen.contains("delete      later.txt"), "{screen:?}");
        terminal.type_text(key);
        terminal.press("Enter");
        let screen = terminal.wait_text("exit=");
        terminal.wait_end();
        Some(screen)
    };
    let Some(refused) = answer("n") else {
        return;
    };
    assert!(refused.contains("nothing was changed"), "{refused:?}");
    assert!(refused.contains("exit=1"), "{refused:?}");
    assert_eq!(repo.read("a.txt").as_deref(), Some("now\n"));
    let agreed = answer("y").expect("a terminal again");
    assert!(agreed.contains("exit=0"), "{agreed:?}");
    assert_eq!(repo.read("a.txt").as_deref(), Some("then\n"));
    assert_eq!(repo.read("later.txt"), None);
}

#[test]
fn restore_runs_no_filter_of_a_repository_that_is_not_trusted() {
    let repo = Repo::new();
    repo.git(&["update-ref", "refs/becket/checkpoints/x/1", "HEAD"]);
    repo.write(".gitattributes", "* filter=x\n");
    repo.git(&["config", "filter.x.clean", "touch ran; cat"]);
    repo.write("a.txt", "changed\n");
    let head = repo.git(&["rev-parse", "HEAD"]);
    let restore = || {
        let args = ["checkpoint", "restore", "--dry-run", &head];
        let mut becket = repo.world.becket(args);
        becket.current_dir(&repo.root).output().expect("becket")
    };
    let refused = restore();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("filter.x.clean"), "{said}");
    assert_eq!(repo.read("ran"), None);
    let mut trust = repo.world.becket(["trust", "--yes"]);
    let trusted = trust.current_dir(&repo.root).output();
    assert!(trusted.expect("becket").status.success());
    restore();
    assert!(repo.read("ran").is_some(), "what is trusted runs");
}
