//! `becket up` with its offers, and `becket demo`.

use std::fs;
use std::path::Path;

use becket_tests::terminal::Terminal;
use becket_tests::world::{World, call};

use crate::notice::{SESSION, asks};

#[test]
fn up_does_nothing_for_a_hook_that_becket_does_not_bring() {
    let world = World::bare();
    let refused = world.output(&["up", "--hooks", "check-todos,check-todo"]);
    let stderr = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(3), "{stderr}");
    assert_eq!(
        stderr,
        "error: there is no built-in hook `check-todo`\nhint: did you mean check-todos?\n"
    );
    assert!(!world.home.join(".claude/settings.json").exists());
    assert!(!world.becket_home.exists() && world.daemons().is_empty());
}

#[test]
fn up_writes_what_was_chosen_and_asks_nobody_who_is_not_there() {
    let world = World::bare();
    world.run(&["up"]);
    assert!(!world.path("config.toml").exists());
    let said = world.run(&["up", "--notice", "osc777"]);
    assert!(said.contains("notices are on: osc777"), "{said}");
    let config = fs::read_to_string(world.path("config.toml")).expect("a config");
    assert_eq!(config, "[notice]\non = \"all\"\nhow = \"osc777\"\n");
    world.run(&["up", "--notice", "off"]);
    assert!(asks(&world, SESSION).is_silent());
    fs::write(world.path("config.toml"), "[notice").expect("a config");
    let refused = world.output(&["up", "--notice", "bell"]);
    let stderr = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("becket config check"), "{stderr}");
}

#[test]
fn up_asks_a_person_once() {
    let world = World::bare();
    let settings = world.home.join(".claude/settings.json");
    let own = r#"{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "own"}]}]}}"#;
    fs::create_dir_all(world.home.join(".claude")).expect("a folder");
    fs::write(&settings, own).expect("settings");
    let open = || {
        let mut command = world.becket(["up", "--no-view"]);
        match Terminal::that_ends(command.env("PATH", "/usr/bin:/bin"), (120, 60)) {
            Ok(terminal) => Some(terminal),
            Err(why) => {
                becket_tests::skip::skip("up_asks_a_person_once", &why);
                None
            }
        }
    };
    let type_line = |terminal: &Terminal, question: &str, line: &str| {
        terminal.wait_text(question);
        terminal.type_text(line);
        terminal.press("Enter");
    };
    let Some(terminal) = open() else {
        return;
    };
    type_line(&terminal, "Go ahead? [Y/n]", "n");
    let plan = terminal.wait_text("[ended 1]");
    for said in [
        "register for 30 hook events",
        "show its status line",
        "write /hook:disable",
        "deny dangerous tool calls",
        "Left as it is: 1 hook in Claude Code's settings (`becket adopt`",
        "becket init --tmux",
        "Nothing was changed.",
    ] {
        assert!(plan.contains(said), "{said}: {}", plan.0);
    }
    assert_eq!(fs::read_to_string(&settings).expect("settings"), own);
    assert!(world.daemons().is_empty());
    let up = |answer: &str, hooks: Option<&str>| {
        let terminal = open()?;
        if fs::read_to_string(&settings).expect("settings") == own {
            type_line(&terminal, "Go ahead? [Y/n]", "");
        }
        if !answer.is_empty() {
            type_line(&terminal, "[y/N]", answer);
        }
        if let Some(hooks) = hooks {
            type_line(&terminal, "Which ones?", hooks);
        }
        terminal.wait_text("[ended 0]");
        Some(terminal.history())
    };
    for (answer, config) in [("n", false), ("what", false), ("y", true)] {
        let shown = up(answer, Some("")).expect("a terminal");
        assert!(shown.contains("Start Claude Code as always"), "{}", shown.0);
        assert_eq!(world.path("config.toml").exists(), config, "{answer}");
    }
    let chosen = up("", Some("check-todos, 12")).expect("a terminal");
    assert!(!chosen.contains("[y/N]"), "{}", chosen.0);
    assert!(chosen.contains("on from now: check-todos"), "{}", chosen.0);
    let config = fs::read_to_string(world.path("config.toml")).expect("a config");
    assert!(
        config.contains("[hooks.check-todos]\nenabled = true\n"),
        "{config}"
    );
    let again = up("", None).expect("a terminal");
    assert!(!again.contains("Which ones?"), "{}", again.0);
}

/// All names below a folder.
fn names(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        found.push(entry.path().display().to_string());
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(names(&entry.path()));
        }
    }
    found.sort();
    found
}

#[test]
fn a_demo_plays_in_its_own_home_and_leaves_nothing() {
    let world = World::bare();
    let temp = world.root().join("temp");
    fs::create_dir(&temp).expect("a folder");
    let before = names(world.root());
    // Long enough for the daemon to look for sessions that are gone, twice.
    let mut demo = world.becket(["demo", "--plain", "--speed", "25"]);
    demo.env("TMPDIR", &temp);
    let called = call(demo, b"");
    let said = called.stdout.clone();
    assert_eq!(called.code, Some(0), "{said}{called:?}");
    for event in [
        "SubagentStart",
        "PermissionRequest",
        "PermissionDenied",
        "PostCompact",
        "StopFailure",
        "SessionEnd",
    ] {
        assert!(said.contains(event), "{event}: {said}");
    }
    let summary = said.lines().last().unwrap_or_default();
    for count in ["1 failed", "2 waiting", "2 working", "2 done"] {
        assert!(summary.contains(count), "{summary}");
    }
    assert!(!said.contains('\u{1b}'));
    assert_eq!(names(world.root()), before);
    assert!(world.daemons().is_empty());
}

#[test]
fn the_picture_is_the_same_each_time() {
    let world = World::bare();
    let draw = |name: &str| {
        let file = world.root().join(name);
        world.run(&["demo", "--svg", &file.to_string_lossy()]);
        fs::read_to_string(file).expect("a picture")
    };
    let first = draw("one.svg");
    assert!(first.starts_with("<svg "));
    assert_eq!(first, draw("two.svg"));
}

#[test]
fn without_a_terminal_nothing_is_drawn() {
    let world = World::bare();
    let called = call(world.becket::<&str>([]), b"");
    let said = called.stdout.clone();
    assert_eq!((called.code, called.stderr.len()), (Some(0), 0), "{said}");
    assert!(
        said.lines().count() == 2 && !said.contains('\u{1b}'),
        "{said}"
    );
    let refused = call(world.becket(["demo"]), b"");
    assert_eq!(refused.code, Some(2));
    assert!(refused.stderr.contains("hint: becket demo --plain"));
}
