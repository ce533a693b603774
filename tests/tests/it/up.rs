//! `becket up` with its offers, and `becket demo`.

use std::fs;
use std::path::Path;

use becket_tests::terminal::Terminal;
use becket_tests::world::{World, call, write_program};

use crate::notice::{SESSION, send_permission_request};

#[test]
fn up_refuses_an_unknown_built_in_hook_and_changes_nothing() {
    let world = World::bare();
    let refused = world.output(&["up", "--hooks", "check-todos,chek-todos"]);
    let stderr = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(3), "{stderr}");
    assert_eq!(
        stderr,
        "error: there is no built-in hook `chek-todos`\nhint: did you mean check-todos?\n"
    );
    assert!(!world.home.join(".claude/settings.json").exists());
    assert!(!world.becket_home.exists() && world.daemons().is_empty());
}

#[test]
fn up_writes_the_chosen_hooks_and_asks_nothing_without_a_terminal() {
    let world = World::bare();
    world.run(&["up"]);
    assert!(!world.path("config.toml").exists());
    let said = world.run(&["up", "--notice", "osc777"]);
    assert!(said.contains("notices are on: osc777"), "{said}");
    let config = fs::read_to_string(world.path("config.toml")).expect("a config");
    assert_eq!(config, "[notice]\non = \"all\"\nhow = \"osc777\"\n");
    world.run(&["up", "--notice", "off"]);
    assert!(send_permission_request(&world, SESSION).is_silent());
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
    let open = |args: &[&str]| {
        let mut command = world.becket(args);
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
    let Some(terminal) = open(&["up"]) else {
        return;
    };
    type_line(&terminal, "Go ahead? [Y/n]", "n");
    let plan = terminal.wait_text("[ended 1]");
    for said in [
        "register for 30 hook events",
        "show its status line",
        "write /hook:disable",
        "deny dangerous tool calls",
        "Left as it is: 1 hook in Claude Code's settings (`becket hooks adopt`",
        "becket up --tmux",
        "Nothing was changed.",
    ] {
        assert!(plan.contains(said), "{said}: {}", plan.0);
    }
    assert_eq!(fs::read_to_string(&settings).expect("settings"), own);
    assert!(world.daemons().is_empty());
    // One question, and no other.
    let terminal = open(&["up"]).expect("a terminal");
    type_line(&terminal, "Go ahead? [Y/n]", "");
    terminal.wait_text("[ended 0]");
    let shown = terminal.history();
    for said in [
        "wrote /hook:disable, /hook:enable, /hook:status, /brainstorm, /fix, /implement, /prd",
        "BecketCanary",
        "Start Claude Code as always",
    ] {
        assert!(shown.contains(said), "{said}: {}", shown.0);
    }
    // It names every written file. A terminal folds lines.
    let unfolded = shown.0.replace('\n', "");
    let mut files = vec![world.path("environment")];
    for folder in [world.home.join(".claude"), world.path("backup")] {
        let entries = fs::read_dir(folder).expect("a folder").flatten();
        files.extend(
            entries
                .map(|entry| entry.path())
                .filter(|path| path.is_file()),
        );
    }
    assert_eq!(
        files.len(),
        4,
        "settings, their backup, the record: {files:?}"
    );
    for file in files {
        let file = file.display().to_string();
        assert!(unfolded.contains(&file), "{file}: {}", shown.0);
    }
    assert!(!shown.contains("[y/N]"), "{}", shown.0);
    assert!(
        !world.path("config.toml").exists(),
        "nothing is on by itself"
    );
    // Everything is registered: the view opens, without a question.
    let again = open(&["up"]).expect("a terminal");
    again.wait_text("No sessions");
    again.press("q");
    again.wait_text("[ended 0]");
    assert!(!again.history().contains("[Y/n]"), "{}", again.history().0);
    // The view would cover the result of a choice or the report of a missing command.
    fs::remove_file(world.home.join(".claude/commands/prd.md")).expect("remove a command");
    for (args, said) in [
        (["up", "--yes"], "wrote /prd"),
        (["up", "--notice=bell"], "notices are on: bell"),
        (["up", "--hooks=check-todos"], "on from now: check-todos"),
        (["up", "--hooks=Self-Review"], "on from now: self-review"),
    ] {
        let terminal = open(&args).expect("a terminal");
        let shown = terminal.wait_text("[ended 0]");
        assert!(shown.contains(said), "{said}: {}", shown.0);
    }
}

#[test]
fn up_names_the_hooks_that_fit_and_offers_trust() {
    let world = World::new();
    let project = world.home.join("shop");
    fs::create_dir_all(project.join(".git")).expect("a project");
    for name in ["package.json", "tsconfig.json"] {
        fs::write(project.join(name), "{}").expect("a file");
    }
    fs::create_dir_all(project.join("node_modules/.bin")).expect("a folder");
    for name in ["tsc", "eslint"] {
        write_program(&project.join("node_modules/.bin").join(name), "exit 0");
    }
    let up = |args: &[&str]| {
        let mut up = world.becket(args);
        let done = up.current_dir(&project).output().expect("becket");
        let said = [done.stdout, done.stderr].concat();
        String::from_utf8_lossy(&said).into_owned()
    };
    let said = up(&["up"]);
    let line = said
        .lines()
        .find(|line| line.starts_with("Built-in hooks that fit "));
    let line = line.unwrap_or_else(|| panic!("{said}"));
    assert!(
        line.ends_with("all off: typecheck-changed, check-any-changed. To switch them on: becket hooks on typecheck-changed check-any-changed"),
        "{line}"
    );
    assert!(!world.path("config.toml").exists(), "none by default");
    let said = up(&["hooks", "on", "typecheck-changed", "check-any-changed"]);
    assert!(said.contains("until you run `becket trust`"), "{said}");
    let said = up(&["up", "--hooks", "typecheck-changed"]);
    assert!(said.contains("until you run `becket trust`"), "{said}");
    assert!(!said.contains("Built-in hooks that fit"), "{said}");
}

#[test]
fn up_refuses_a_claude_code_that_is_too_old() {
    let world = World::new();
    let with = |version: &str, args: &[&str]| {
        write_program(
            &world.programs.join("claude"),
            &format!("echo '{version} (Claude Code)'"),
        );
        let done = world.output(args);
        let said = [done.stdout, done.stderr].concat();
        (
            done.status.code(),
            String::from_utf8_lossy(&said).into_owned(),
        )
    };
    let (code, said) = with("2.0.10", &["up"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("Claude Code 2.0.10 (Claude Code) is too old: it drops every hook"),
        "{said}"
    );
    assert!(said.contains("hint: `claude update`"), "{said}");
    assert!(!said.contains('✓') && !world.home.join(".claude/settings.json").exists());
    let (code, said) = with("2.1.138", &["up"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("only the home ~/.becket works"), "{said}");
    let (_, said) = with("2.1.325", &["up"]);
    assert!(!said.contains("too old"), "{said}");
}

/// Returns all names below a folder.
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
    // Long enough for the daemon to look twice for sessions that are gone.
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
fn the_demo_picture_is_reproducible() {
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
fn without_a_terminal_the_demo_draws_nothing() {
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
