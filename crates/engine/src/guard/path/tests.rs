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
    let monitor = json!({"command": "rm a", "description": "x", "timeout_ms": 1000});
    for tool in ["Bash", "Monitor", "PowerShell"] {
        assert_eq!(acts(tool, monitor.clone()), "rm | D /none/p/a");
    }
    for key in ["command", "cmd", "script"] {
        let search = json!({key: "rm a", "path": "b"});
        assert_eq!(
            acts("mcp__x__search", search),
            "rm | D /none/p/a, R /none/p/b"
        );
    }
    let two = json!({"cmd": "ls", "script": "rm a"});
    assert_eq!(acts("mcp__x__job", two), "ls rm | L /none/p, D /none/p/a");
    assert_eq!(acts("Workflow", json!({"script": "agent(`rm a`)"})), " | ");
}

fn unread(tool: &str, input: &Value) -> String {
    let (cwd, home) = (Path::new("/none/p"), Path::new("/none/h"));
    call(tool, input, cwd, home, soon()).unread.join(", ")
}

#[test]
fn only_what_must_be_shell_is_unread_if_it_is_not() {
    let broken = json!({"command": "if ( x { rm a"});
    for (tool, is_alarming) in [
        ("Bash", true),
        ("Monitor", true),
        ("PowerShell", false),
        ("mcp__x__run", false),
        ("mcp__x__search", false),
    ] {
        assert_eq!(!unread(tool, &broken).is_empty(), is_alarming, "{tool}");
    }
    let long = json!({"cmd": "ls; ".repeat(5000)});
    assert_eq!(unread("mcp__x__search", &long), "too much to read");
}

#[test]
fn an_input_is_read_as_a_whole_or_unread() {
    let deep = |levels: usize| (1..levels).fold(json!({"path": "/deep"}), |all, _| json!([all]));
    touches("mcp__x__get", deep(64), "R /deep");
    touches("mcp__x__get", json!({"path": [[["/deep"]]]}), "R /deep");
    touches("mcp__x__get", deep(65), "");
    assert_eq!(unread("mcp__x__get", &deep(64)), "");
    assert_eq!(
        unread("mcp__x__get", &deep(65)),
        "the input is nested deeper than 64 levels"
    );
    let fields = (0..9000).map(|n| (format!("f{n}"), json!(n)));
    let mut many = Value::from(serde_json::Map::from_iter(fields));
    many["path"] = json!("/last");
    touches("mcp__x__get", many, "R /last");
    let paths: Vec<String> = (0..9000).map(|n| format!("/{n}")).collect();
    for (tool, input) in [
        ("mcp__x__get", json!({"paths": &paths})),
        (
            "Bash",
            json!({"command": format!("rm {}", paths.join(" "))}),
        ),
    ] {
        assert_eq!(unread(tool, &input), "it touches more than 8192 paths");
    }
}

#[test]
fn what_a_tool_of_claude_code_sends_and_saves() {
    touches(
        "SendUserFile",
        json!({"files": ["~/.ssh/id_rsa"], "caption": "/x"}),
        "R /none/h/.ssh/id_rsa",
    );
    touches(
        "LSP",
        json!({"operation": "hover", "filePath": "a.rs"}),
        "R /none/p/a.rs",
    );
    touches(
        "Projects",
        json!({"method": "project_write", "local_path": "~/.env"}),
        "R /none/h/.env",
    );
    touches(
        "SendUserMessage",
        json!({"message": "/x", "attachments": ["~/.ssh/id_rsa"]}),
        "R /none/h/.ssh/id_rsa",
    );
    touches(
        "mcp__mail__create_draft",
        json!({"attachment": "a.pdf"}),
        "R /none/p/a.pdf",
    );
    touches("Workflow", json!({"scriptPath": "a.js"}), "R /none/p/a.js");
    touches(
        "Artifact",
        json!({"file_paths": ["a", "b"], "out_dir": "/c"}),
        "R /none/p/a, R /none/p/b, W /c",
    );
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
