//! The person's own hooks in a project that they do not trust.

use std::fs;
use std::path::Path;

use becket_tests::world::{call, write_program};
use serde_json::json;

use super::{Hostile, SESSION, text, write};

fn program(path: &Path, line: &str) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    write_program(path, line);
}

#[test]
fn a_path_in_ones_own_config_starts_no_file_of_a_strange_project() {
    let hostile = Hostile::new();
    let own = "[hooks.list]\non = \"SessionStart\"\nrun = [\"scripts/mark\", \"list\"]\n\
        [hooks.line]\non = \"SessionStart\"\nrun = \"./scripts/mark line\"\n";
    write(&hostile.world.becket_home.join("config.toml"), own);
    let mark = hostile.project.join("scripts/mark");
    program(&mark, "touch \"marked-$1\"");
    let marked =
        || ["list", "line"].map(|it| hostile.project.join(format!("marked-{it}")).exists());
    hostile.start("1");
    assert_eq!(marked(), [false; 2]);
    let listed = text(&hostile.becket(&["hooks"]));
    let lines = listed.lines().filter(|line| line.contains("mark"));
    assert!(lines.clone().count() == 2, "{listed}");
    assert!(
        lines.into_iter().all(|line| line.contains("not trusted")),
        "{listed}"
    );
    hostile.becket(&["trust", "--yes"]);
    hostile.start("1");
    assert_eq!(marked(), [true; 2]);
}

#[test]
fn no_variable_of_a_strange_project_leads_ones_own_hooks_into_it() {
    let hostile = Hostile::new();
    let own = "[hooks.tool]\non = \"SessionStart\"\nrun = [\"tool\", \"x\"]\n\
        [hooks.shell]\non = \"SessionStart\"\nrun = [\"bash\", \"-c\", \"true\"]\n";
    write(&hostile.world.becket_home.join("config.toml"), own);
    let evil = hostile.project.join("evil");
    let marked = hostile.project.join("marked");
    let touch = format!("touch '{}'", marked.display());
    program(&evil.join("tool"), &touch);
    write(&evil.join("env.sh"), &touch);
    let start = || {
        let payload = json!({
            "hook_event_name": "SessionStart", "session_id": SESSION, "source": "startup",
            "cwd": hostile.project, "transcript_path": "/t",
        });
        let path = format!("{}:/usr/local/bin:/usr/bin:/bin", evil.display());
        let mut shim = hostile.world.shim("SessionStart");
        shim.env("PATH", path).env("BASH_ENV", evil.join("env.sh"));
        call(shim, payload.to_string().as_bytes());
    };
    start();
    assert!(!marked.exists());
    let recent = text(&hostile.becket(&["recent", "--json"]));
    assert!(
        recent.contains("look at it with `becket trust`"),
        "{recent}"
    );
    hostile.becket(&["trust", "--yes"]);
    start();
    assert!(marked.exists(), "what is trusted runs");
}
