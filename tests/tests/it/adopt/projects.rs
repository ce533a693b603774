//! Adopted hooks of a project, and hooks that start files of a project and so need trust.

use std::fs;

use becket_tests::world::{call, write_program};
use serde_json::json;

use super::{registered, settings, stderr, text};

/// A user who moves hooks has to learn which of them do nothing in untrusted projects. Two checks stop them
/// there: one reads the config, one comes right before the start.
#[test]
fn adopted_hooks_that_start_project_files_wait_for_trust() {
    const OWN: &str = r#"{"hooks": {"SessionStart": [{"hooks": [
        {"type": "command", "command": "\"$CLAUDE_PROJECT_DIR\"/mark here"},
        {"type": "command", "command": "./mark bash", "shell": "bash"},
        {"type": "command", "command": "touch \"$CLAUDE_PROJECT_DIR/mark-far\""}
    ]}]}}"#;
    let (world, _) = registered(OWN);
    let project = world.home.join("shop");
    fs::create_dir_all(project.join(".git")).expect("a project");
    write_program(&project.join("mark"), "touch \"mark-$1\"");
    let adopt = |args: &[&str]| {
        let mut adopt = world.becket(args);
        let done = adopt.current_dir(&project).output().expect("becket");
        String::from_utf8_lossy(&done.stdout).into_owned()
    };
    let listed = adopt(&["hooks", "adopt"]);
    for name in ["mark", "mark-bash"] {
        assert!(
            listed.contains(&format!("{name} starts a file of")),
            "{listed}"
        );
    }
    for args in [
        &["hooks", "adopt", "--all", "--dry-run"][..],
        &["hooks", "adopt", "--all"],
    ] {
        let said = adopt(args);
        let told = said.lines().find(|line| line.contains("becket trust"));
        let told = told.unwrap_or_else(|| panic!("{said}"));
        assert!(
            told.starts_with("2 hooks start files or tools of"),
            "{told}"
        );
        assert!(told.ends_with(": mark, mark-bash"), "{told}");
    }
    let start = || {
        let event = json!({
            "hook_event_name": "SessionStart", "cwd": project, "source": "startup",
            "session_id": "7541ef66-cab1-4f90-8d34-c3e60bef32b0",
        });
        let mut shim = world.shim("SessionStart");
        shim.env("CLAUDE_PROJECT_DIR", &project);
        call(shim, event.to_string().as_bytes());
        ["here", "bash", "far"].map(|it| project.join(format!("mark-{it}")).exists())
    };
    assert_eq!(start(), [false, false, true]);
    let mut trust = world.becket(["trust", "--yes"]);
    let trusted = trust.current_dir(&project).output().expect("becket");
    assert!(trusted.status.success(), "{}", stderr(&trusted));
    assert_eq!(start(), [true; 3]);
}

#[test]
fn hooks_of_a_project_move_only_on_request() {
    let (world, before) =
        registered(r#"{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "mine"}]}]}}"#);
    let project = world.home.join("shop");
    fs::create_dir_all(project.join(".git")).expect("a project");
    fs::create_dir_all(project.join(".claude")).expect("a project");
    let theirs = r#"{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "theirs"}]}]}}"#;
    let local = theirs.replace("theirs", "local");
    fs::write(project.join(".claude/settings.json"), theirs).expect("settings");
    fs::write(project.join(".claude/settings.local.json"), &local).expect("settings");
    let run = |args: &[&str]| {
        let output = world
            .becket(args)
            .current_dir(&project)
            .output()
            .expect("becket");
        assert!(output.status.success(), "{output:?}");
        (
            String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr(&output),
        )
    };
    let (listed, _) = run(&["hooks", "adopt"]);
    assert!(listed.contains("theirs is this project's"), "{listed}");
    assert!(!listed.contains("mine is"), "{listed}");
    let rest = "would not run until `becket trust`: theirs, local";
    let (would, warned) = run(&["hooks", "adopt", "--all", "--dry-run"]);
    assert!(would.contains("+[hooks.mine]"), "{would}");
    assert!(!would.contains("[hooks.theirs]"), "{would}");
    assert!(
        would.contains("left where they are: theirs, local"),
        "{would}"
    );
    assert!(warned.contains(rest), "{warned}");
    let (would, warned) = run(&["hooks", "adopt", "--yes", "--dry-run"]);
    assert!(
        would.contains("+[hooks.theirs]") && !would.contains("left"),
        "{would}"
    );
    assert!(warned.contains(rest), "{warned}");
    assert_eq!(text(&settings(&world)), before);

    let (said, warned) = run(&["hooks", "adopt", "--all"]);
    assert!(warned.contains(rest), "{warned}");
    assert!(warned.contains("are shared"), "{warned}");
    assert!(
        said.contains("left where they are: theirs, local"),
        "{said}"
    );
    assert_eq!(text(&project.join(".claude/settings.json")), theirs);
    assert!(!project.join(".becket").exists());

    let (said, _) = run(&["hooks", "adopt", "--yes"]);
    assert!(said.contains("next: `becket trust`"), "{said}");
    assert!(text(&project.join(".becket/config.toml")).contains("[hooks.theirs]"));
    assert!(text(&project.join(".becket/local.toml")).contains("[hooks.local]"));
    run(&["hooks", "adopt", "--undo"]);
    assert_eq!(text(&project.join(".claude/settings.json")), theirs);
    assert_eq!(text(&project.join(".claude/settings.local.json")), local);
    assert!(!project.join(".becket").exists());
    assert_eq!(text(&settings(&world)), before);
}
