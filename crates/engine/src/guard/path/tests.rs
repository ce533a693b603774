//! What calls of tools touch.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::super::act::{Access, Call};
use super::call;

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(10)
}

fn rendered(call: &Call) -> String {
    let touch = |touch: &super::Touch| {
        let letter = match touch.access {
            Access::Read => "R",
            Access::Write => "W",
            Access::Delete => "D",
            Access::List => "L",
        };
        let below = if touch.recursive { "*" } else { "" };
        let real = touch
            .real
            .as_ref()
            .map_or(String::new(), |real| format!(" -> {real}"));
        let opaque = if touch.opaque { "?" } else { "" };
        format!("{letter}{below} {}{real}{opaque}", touch.path)
    };
    call.touches
        .iter()
        .map(touch)
        .collect::<Vec<_>>()
        .join(", ")
}

#[track_caller]
#[expect(clippy::needless_pass_by_value, reason = "it is made by json!")]
fn touches(tool: &str, input: Value, expected: &str) {
    let call = call(
        tool,
        &input,
        Path::new("/none/p"),
        Path::new("/none/h"),
        soon(),
    );
    assert_eq!(rendered(&call), expected, "{tool} {input}");
}

#[test]
fn tools_of_claude_code() {
    touches("Read", json!({"file_path": "a/../b"}), "R /none/p/b");
    touches("Read", json!({"file_path": "~/x"}), "R /none/h/x");
    touches("Edit", json!({"file_path": "/etc/./x"}), "W /etc/x");
    touches(
        "MultiEdit",
        json!({"file_path": "x", "edits": []}),
        "W /none/p/x",
    );
    touches(
        "Write",
        json!({"file_path": "../../../x", "content": "~/y"}),
        "W /x",
    );
    touches(
        "NotebookEdit",
        json!({"notebook_path": "n.ipynb"}),
        "W /none/p/n.ipynb",
    );
    touches("LS", json!({"path": "/none"}), "L /none");
    touches("Grep", json!({"pattern": "x"}), "R* /none/p");
    touches(
        "Grep",
        json!({"pattern": "x", "path": "s", "glob": "*.rs"}),
        "R* /none/p/s, R /none/p/s/**/*.rs",
    );
    touches("Glob", json!({"pattern": "**/.env"}), "L /none/p/**/.env");
    touches("Glob", json!({"pattern": "~/.ssh/*"}), "L /none/h/.ssh/*");
    touches(
        "Bash",
        json!({"command": "rm -rf a > b"}),
        "D* /none/p/a, W /none/p/b",
    );
    touches("Bash", json!({"description": "x"}), "");
    touches("Read", json!({"file_path": 5}), "");
    touches(
        "WebFetch",
        json!({"url": "https://x/y", "prompt": "/etc/passwd"}),
        "",
    );
    touches(
        "Task",
        json!({"prompt": "rm -rf /", "description": "x"}),
        "",
    );
}

#[test]
fn tools_of_mcp_servers_by_the_shape_of_their_input() {
    touches(
        "mcp__fs__read_text_file",
        json!({"path": "~/.ssh/id_rsa", "head": 5}),
        "R /none/h/.ssh/id_rsa",
    );
    touches(
        "mcp__fs__read_multiple_files",
        json!({"paths": ["a", "/b"]}),
        "R /none/p/a, R /b",
    );
    touches(
        "mcp__fs__write_file",
        json!({"path": "a", "content": "path: /x"}),
        "W /none/p/a",
    );
    touches(
        "mcp__fs__edit_file",
        json!({"path": "a", "edits": [{"oldText": "x"}]}),
        "W /none/p/a",
    );
    touches(
        "mcp__fs__move_file",
        json!({"source": "a", "destination": "/b"}),
        "W /b, D /none/p/a",
    );
    touches(
        "mcp__fs__copyFile",
        json!({"from": "a", "to": "/b"}),
        "R /none/p/a, W /b",
    );
    touches(
        "mcp__fs__delete_file",
        json!({"filePath": "a"}),
        "D* /none/p/a",
    );
    touches(
        "mcp__fs__list_directory",
        json!({"directory": "/etc"}),
        "L /etc",
    );
    touches(
        "mcp__x__open",
        json!({"uri": "file:///etc/my%20file"}),
        "R /etc/my file",
    );
    touches(
        "mcp__x__get_page",
        json!({"url": "https://x", "target": "main"}),
        "",
    );
    touches(
        "mcp__x__apply",
        json!({"changes": [{"path": "a"}, {"path": "b"}]}),
        "W /none/p/a, W /none/p/b",
    );
    touches(
        "mcp__x__upload",
        json!({"file": "a", "content": "x"}),
        "W /none/p/a",
    );
}

#[test]
fn a_tool_that_runs_commands_is_read_as_bash() {
    let acts = |tool: &str, input: Value| {
        let call = call(
            tool,
            &input,
            Path::new("/none/p"),
            Path::new("/none/h"),
            soon(),
        );
        let acts = call
            .acts
            .iter()
            .map(|act| act.program.clone())
            .collect::<Vec<_>>()
            .join(" ");
        format!("{acts} | {}", rendered(&call))
    };
    let line = json!({"command": "cd a && rm b", "cwd": "/none/x"});
    assert_eq!(acts("mcp__sh__run_command", line), "cd rm | D /none/x/a/b");
    let words = json!({"command": ["bash", "-c", "rm a"]});
    assert_eq!(acts("mcp__x__exec", words), "bash rm | D /none/p/a");
    let args = json!({"cmd": "rm", "args": ["-rf", "a b"]});
    assert_eq!(
        acts("mcp__desktop__start_process", args),
        "rm | D* /none/p/a b"
    );
    assert_eq!(acts("mcp__x__search", json!({"command": "rm a"})), " | ");
}

#[test]
fn symlinks_are_followed_as_far_as_the_path_exists() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().canonicalize().expect("it is there");
    let real = |path: &str| {
        let call = call(
            "Read",
            &json!({"file_path": path}),
            &root,
            Path::new("/none"),
            soon(),
        );
        let touch = call.touches.into_iter().next().expect("a touch");
        assert!(!touch.opaque);
        touch
            .real
            .map(|real| real.replace(&format!("{}/", root.display()), ""))
    };
    std::fs::create_dir(root.join("d")).expect("made");
    std::fs::write(root.join("d/f"), "").expect("written");
    symlink("d", root.join("l")).expect("linked");
    symlink(root.join("d/none"), root.join("dangling")).expect("linked");
    symlink("../l/f", root.join("d/up")).expect("linked");
    assert_eq!(real("d/f"), None);
    assert_eq!(real("none/x"), None);
    assert_eq!(real("l/f").as_deref(), Some("d/f"));
    assert_eq!(real("l/none/x").as_deref(), Some("d/none/x"));
    assert_eq!(real("dangling").as_deref(), Some("d/none"));
    assert_eq!(real("d/up").as_deref(), Some("d/f"));
    assert_eq!(real("l/*.rs").as_deref(), Some("d/*.rs"));
}

#[test]
fn what_cannot_be_resolved_in_time_is_opaque() {
    let folder = tempfile::tempdir().expect("a folder");
    symlink("loop", folder.path().join("loop")).expect("linked");
    let opaque = |path: &str, by: Instant| {
        let call = call(
            "Read",
            &json!({"file_path": path}),
            folder.path(),
            Path::new("/none"),
            by,
        );
        call.touches[0].opaque
    };
    assert!(opaque("loop", soon()));
    assert!(opaque("x", Instant::now()));
    assert!(!opaque("x", soon()));
}
