//! The built-in hooks that run tools, on small real projects with the real tools.

mod languages;

use std::fs;
use std::path::{Path, PathBuf};

use becket_tests::world::{Called, World, call};
use serde_json::{Value, json};

const SESSION: &str = "7541ef66-cab1-4f90-8d34-c3e60bef32b0";

/// A project in a world of its own.
pub struct Project {
    pub world: World,
    pub folder: PathBuf,
    /// Folders before the PATH of the world.
    path: Vec<PathBuf>,
    variables: Vec<(&'static str, PathBuf)>,
}

impl Project {
    pub fn new(files: &[(&str, &str)]) -> Self {
        let world = World::new();
        let folder = world.root().join("shop");
        fs::create_dir(&folder).expect("a folder");
        // The session is older than the changes in it.
        fs::write(world.root().join("t.jsonl"), "").expect("a transcript");
        let mut git = world.command("git");
        let made = git.args(["init", "-q"]).current_dir(&folder).status();
        assert!(made.is_ok_and(|made| made.success()), "git init");
        let project = Self {
            folder,
            world,
            path: Vec::new(),
            variables: Vec::new(),
        };
        for (name, text) in files {
            project.write(name, text);
        }
        project
    }

    pub fn with_path(mut self, folder: &Path) -> Self {
        self.path.push(folder.to_path_buf());
        self
    }

    pub fn with(mut self, variable: &'static str, value: PathBuf) -> Self {
        self.variables.push((variable, value));
        self
    }

    pub fn write(&self, name: &str, text: &str) {
        let file = self.folder.join(name);
        fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
        fs::write(&file, text).expect("a file");
    }

    fn call(&self, hook: &str, mut payload: Value, options: &Value) -> Called {
        payload["session_id"] = SESSION.into();
        payload["cwd"] = self.folder.to_str().into();
        let options = options.to_string();
        let mut command = self.world.becket(["builtin", hook, "--options", &options]);
        let folders = self
            .path
            .iter()
            .cloned()
            .chain([self.world.programs.clone()]);
        let usual = ["/usr/local/bin", "/usr/bin", "/bin"].map(PathBuf::from);
        let path = std::env::join_paths(folders.chain(usual)).expect("a PATH");
        command
            .env("PATH", path)
            .envs(self.variables.iter().cloned());
        call(command, payload.to_string().as_bytes())
    }

    /// Returns the text for the model after an edit; empty for silence.
    pub fn edit(&self, hook: &str, file: &str) -> String {
        self.edit_at(hook, file, None)
    }

    /// Returns the text for the model after an edit with this tool call id, which several hooks share.
    pub fn edit_at(&self, hook: &str, file: &str, id: Option<&str>) -> String {
        let input =
            json!({"file_path": self.folder.join(file), "old_string": "a", "new_string": "b"});
        let payload = json!({"hook_event_name": "PostToolUse", "tool_name": "Edit", "tool_input": input, "tool_use_id": id});
        reason(&self.call(hook, payload, &json!({})))
    }

    /// Returns the reason with which the hook blocks a stop; empty for silence.
    pub fn stop(&self, hook: &str) -> String {
        let payload = json!({"hook_event_name": "Stop", "stop_hook_active": false, "last_assistant_message": "Done.", "transcript_path": self.world.root().join("t.jsonl")});
        reason(&self.call(hook, payload, &json!({})))
    }
}

fn reason(called: &Called) -> String {
    assert_eq!((called.code, &*called.stderr), (Some(0), ""), "{called:?}");
    if called.stdout.is_empty() {
        return String::new();
    }
    let said: Value = serde_json::from_str(&called.stdout).expect("JSON");
    assert_eq!(said["decision"], "block", "{said}");
    said["reason"].as_str().expect("a reason").to_owned()
}

#[test]
fn an_unknown_built_in_is_reported_and_blocks_nothing() {
    let world = World::new();
    let called = call(world.becket(["builtin", "typechek"]), b"{}");
    assert_eq!(called.code, Some(3), "{called:?}");
    assert!(
        called
            .stderr
            .contains("there is no built-in hook `typechek`"),
        "{called:?}"
    );
    let called = call(
        world.becket(["builtin", "lint-changed", "--options", "{"]),
        b"{}",
    );
    assert_eq!((called.code, &*called.stdout), (Some(1), ""), "{called:?}");
}

#[test]
fn a_session_id_that_is_not_a_uuid_leaves_no_files() {
    let project = Project::new(&[("a.txt", "x\n")]);
    let options = json!({"command": "echo wrong; exit 1"});
    let payload = json!({"hook_event_name": "PostToolUse", "tool_name": "Write",
        "tool_input": {"file_path": "a.txt"}, "cwd": project.folder, "session_id": "../../x"});
    let mut command =
        project
            .world
            .becket(["builtin", "lint-changed", "--options", &options.to_string()]);
    command.env("TMPDIR", project.world.root());
    let called = call(command, payload.to_string().as_bytes());
    assert!(
        reason(&called).contains("1 new problem in a.txt (its command)\nwrong"),
        "{called:?}"
    );
    assert!(!project.world.path("run/hooks").exists());
    // With a session, the result is remembered in a folder of this hook.
    assert_ne!(
        reason(&project.call("lint-changed", payload.clone(), &options)),
        ""
    );
    assert_eq!(
        reason(&project.call("lint-changed", payload, &options)),
        "1 problem told before is still there in a.txt (its command)"
    );
    assert!(
        project
            .world
            .path(&format!("run/hooks/{SESSION}/lint-changed"))
            .is_dir()
    );
}

#[test]
fn tools_start_in_the_approved_project_only() {
    let project = Project::new(&[
        ("a.txt", "x\n"),
        ("inner/.git/HEAD", ""),
        ("inner/b.txt", ""),
    ]);
    let other = project.world.root().join("other");
    fs::create_dir_all(other.join(".git")).expect("a folder");
    fs::write(other.join("c.txt"), "").expect("a file");
    std::os::unix::fs::symlink(&other, project.folder.join("link")).expect("a link");
    let options = json!({"command": "touch ran; echo wrong; exit 1"}).to_string();
    let edit = |cwd: &Path, file: &Path| {
        let payload = json!({"hook_event_name": "PostToolUse", "tool_name": "Write",
            "tool_input": {"file_path": file}, "cwd": cwd, "session_id": SESSION});
        let folder = project.folder.to_str().expect("a path");
        let args = ["builtin", "lint-changed", "--options", &options];
        let mut command = project.world.becket(args);
        command.args(["--project", folder]);
        reason(&call(command, payload.to_string().as_bytes()))
    };
    let ran = || [&project.folder, &other].map(|folder| folder.join("ran").exists());
    let file = other.join("c.txt");
    assert_eq!(edit(&other, &file), "");
    assert_eq!(edit(&project.folder.join("link"), &file), "");
    assert_eq!(edit(&project.folder, &file), "");
    assert_eq!(ran(), [false, false]);
    // A nested project is a part of it.
    let inner = project.folder.join("inner");
    assert_ne!(edit(&inner, &project.folder.join("a.txt")), "");
    assert_eq!(ran(), [true, false]);
}

/// The model reads one merged answer of several hooks and needs each name once.
#[test]
fn an_answer_names_each_built_in_once() {
    let project = Project::new(&[("a.txt", "x\n")]);
    let config = "[hooks.lint-changed]\ncommand = \"echo wrong; exit 1\"\n";
    fs::create_dir_all(&project.world.becket_home).expect("a home");
    fs::write(project.world.path("config.toml"), config).expect("a config");
    let mut trust = project.world.becket(["trust", "--yes"]);
    let trusted = trust.current_dir(&project.folder).output().expect("becket");
    assert!(trusted.status.success(), "{trusted:?}");
    let payload = json!({"hook_event_name": "PostToolUse", "tool_name": "Write",
        "tool_input": {"file_path": project.folder.join("a.txt")}, "tool_use_id": "t",
        "cwd": project.folder, "session_id": SESSION});
    let shim = project.world.shim("PostToolUse");
    let told = reason(&call(shim, payload.to_string().as_bytes()));
    assert_eq!(
        told,
        "lint-changed: 1 new problem in a.txt (its command)\nwrong"
    );
}

#[test]
fn a_missing_tool_is_reported_in_the_log_only() {
    let project = Project::new(&[
        ("package.json", "{}"),
        ("eslint.config.js", ""),
        ("pnpm-lock.yaml", ""),
        ("a.js", ""),
    ]);
    let input = json!({"file_path": project.folder.join("a.js")});
    let payload =
        json!({"hook_event_name": "PostToolUse", "tool_name": "Edit", "tool_input": input});
    let called = project.call("lint-changed", payload, &json!({}));
    assert_eq!((called.code, &*called.stdout), (Some(1), ""), "{called:?}");
    let folder = project.folder.display();
    assert_eq!(
        called.stderr,
        format!("eslint is not installed; {folder} uses it, so run `pnpm install` there\n")
    );
}
