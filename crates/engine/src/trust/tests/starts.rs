//! What a program starts in a project: where its words lead, and what says so without a word.

use std::os::unix::fs::symlink;

use super::super::watch::ASKED;
use super::*;
use crate::hooks::carry::{ASTRAY, CHANGED};
use crate::run::Program;

impl World {
    /// Writes a config with this one hook.
    pub(super) fn run(&self, run: &str) {
        let text = format!("[hooks.x]\non = \"Stop\"\nrun = {run}\n");
        self.write("project/.becket/config.toml", &text);
    }

    /// The files that are pinned then, `.becket/` aside.
    pub(super) fn pinned(&self, run: &str) -> Vec<String> {
        self.run(run);
        let pins = pins_of(&self.project(), &self.place()).unwrap();
        let files = pins.paths().filter(|path| !path.starts_with(".becket"));
        files.map(str::to_owned).collect()
    }
}

#[test]
fn a_line_is_followed_into_the_folders_that_it_names() {
    let world = World::new();
    for name in ["y", "x/y", "x/b/y", "z/y", "x/b/deep/y"] {
        world.write(&format!("project/{name}"), name);
    }
    symlink("../z", world.path("project/x/link")).unwrap();
    for (run, files) in [
        (r#""cd x && ./y""#, vec!["x/y", "y"]),
        (r#""(cd x; ./y)""#, vec!["x/y", "y"]),
        (r#""pushd z >/dev/null; y""#, vec!["y", "z/y"]),
        (r#""git -C x status && ./y""#, vec!["x/y", "y"]),
        (r#""cd x && cd b && ./y""#, vec!["x/b/y", "x/y", "y"]),
        (r#""cd x/b && ./y""#, vec!["x/b/y", "y"]),
        (r#""cd x/b && ../y""#, vec!["x/y"]),
        (r#"["sh", "-c", "cd x && ./y"]"#, vec!["x/y", "y"]),
        (r#"["make", "--directory=x", "y"]"#, vec!["x/y", "y"]),
        (r#"'cd "$CLAUDE_PROJECT_DIR"/x && ./y'"#, vec!["x/y", "y"]),
        // A shell comes back to `x`, another program to the folder above `z`.
        (
            r#""cd x/link && cd .. && ./y""#,
            vec!["x/link/y", "x/y", "y"],
        ),
        (r#""cd nowhere && ./y""#, vec!["y"]),
        (r#""cd .. && ./y""#, vec!["y"]),
    ] {
        assert_eq!(world.pinned(run), files, "{run}");
    }
}

#[test]
fn a_folder_that_comes_later_is_followed_then() {
    let world = World::new();
    world.run(r#""cd late && ./y""#);
    assert_eq!(paths(&world.trust()), [".becket/config.toml"]);
    let mut loader = world.loader("project");
    assert_eq!(trust(&loader.current()), Trust::Yes);
    world.write("project/late/other", "");
    assert_eq!(trust(&loader.current()), Trust::Yes, "nothing starts that");
    world.write("project/late/y", "evil");
    assert_eq!(trust(&loader.current()), Trust::Changed);
}

#[test]
fn whoever_names_too_many_folders_hides_nothing() {
    let world = World::new();
    let many = |number: usize| {
        let folders = (0..number).map(|it| format!("d{it}"));
        let folders: Vec<String> = folders.collect();
        for folder in &folders {
            fs::create_dir_all(world.path("project").join(folder)).unwrap();
        }
        world.run(&format!("\"cd {} && ./y\"", folders.join(" ")));
        pins_of(&world.project(), &world.place())
    };
    assert!(many(20).is_ok());
    let path = ".becket/config.toml".to_owned();
    assert_eq!(many(80), Err(Refusal::TooMuch { path }));
    let long = "ä".repeat(400);
    world.run(&format!("\"echo '{long}' node\""));
    assert!(pins_of(&world.project(), &world.place()).is_ok());
}

#[test]
fn what_says_what_a_program_starts_is_pinned() {
    let world = World::new();
    let all = [
        "package.json",
        "app/package.json",
        "Makefile",
        "Cargo.toml",
        ".cargo/config.toml",
        "conftest.py",
        "tools/lint.py",
        "pkg/__main__.py",
        "web/check.js",
    ];
    for name in all {
        world.write(&format!("project/{name}"), "x");
    }
    for (run, files) in [
        (r#""npm run lint""#, vec!["package.json"]),
        (
            r#""npm --prefix app run lint""#,
            vec!["app/package.json", "package.json"],
        ),
        (r#"["timeout", "9", "make", "x"]"#, vec!["Makefile"]),
        (
            r#""cargo clippy""#,
            vec![".cargo/config.toml", "Cargo.toml"],
        ),
        (r#""cargo fmt --check""#, vec![".cargo/config.toml"]),
        (r#""python3 -m pytest -q""#, vec!["conftest.py"]),
        (r#""python3 -m tools.lint""#, vec!["tools/lint.py"]),
        (r#""python -mpkg""#, vec!["pkg/__main__.py"]),
        (r#""node web/check""#, vec!["web/check.js"]),
        (r#""jq . && true""#, vec![]),
    ] {
        assert_eq!(world.pinned(run), files, "{run}");
    }
    world.run(r#""make x""#);
    world.trust();
    let mut loader = world.loader("project");
    assert_eq!(trust(&loader.current()), Trust::Yes);
    world.write("project/GNUmakefile", "x:\n\tevil");
    assert_eq!(
        trust(&loader.current()),
        Trust::Changed,
        "make would take that one"
    );
}

#[test]
fn an_approval_of_fewer_files_than_would_be_pinned_now_does_not_count() {
    let world = World::new();
    world.write("project/x/y", "x");
    world.run(r#""cd x && ./y""#);
    let pins = pins_of(&world.project(), &world.place()).unwrap();
    let mut fewer = serde_json::to_value(&pins).unwrap();
    assert!(fewer.as_object_mut().unwrap().remove("x/y").is_some());
    world.approve(&world.project(), &serde_json::from_value(fewer).unwrap());
    assert_eq!(trust(&world.loader("project").current()), Trust::Changed);
}

#[test]
fn what_a_hook_starts_can_be_told() {
    let world = World::new();
    world.write("project/package.json", "x");
    let starts = |line: &str| {
        world.run(&format!("'{line}'"));
        let pins = pins_of(&world.project(), &world.place()).unwrap();
        let program = Program::Shell(line.to_owned());
        let starts = Starts::of(&[program], &world.project(), &pins);
        (starts.pinned.join(" "), starts.runners, starts.unknown)
    };
    let told = |pinned: &str, runners: &[&'static str], unknown: &[&'static str]| {
        (pinned.to_owned(), runners.to_vec(), unknown.to_vec())
    };
    assert_eq!(starts("jq ."), told("", &[], &[]));
    assert_eq!(
        starts("cd scripts && sh style.sh"),
        told("scripts/style.sh", &[], &[])
    );
    assert_eq!(
        starts("npm test && make && `x` $(y)"),
        told("package.json", &["make", "npm"], &["$(…)", "`…`"])
    );
}

#[test]
fn a_line_does_not_go_into_other_folders_than_it_was_approved_for() {
    let world = World::new();
    for name in ["x/y", "sub/README", "other/x/y"] {
        world.write(&format!("project/{name}"), name);
    }
    let astray = |run: &str, cwd: &str| {
        world.run(run);
        world.trust();
        let snapshot = world.loader("project").current();
        snapshot.hooks[0].is_led_astray(&world.path(cwd))
    };
    for (run, cwd, expected) in [
        (r#""cd x && ./y""#, "project", false),
        (r#""cd x && ./y""#, "project/sub", false),
        (r#""cd x && ./y""#, "project/other", true),
        (r#""cd x && ./y""#, "project/x", false),
        (
            r#"'cd "$CLAUDE_PROJECT_DIR" && cd x && ./y'"#,
            "project/other",
            false,
        ),
        (r#"'cd $CLAUDE_PROJECT_DIR && x/y'"#, "project/other", false),
        (r#"'cd "$CLAUDE_PROJECT_DIR"; x/y'"#, "project/other", true),
        (
            r#"'cd "$CLAUDE_PROJECT_DIR"/other && x/y'"#,
            "project/other",
            false,
        ),
        (
            r#"'cd "$CLAUDE_PROJECT_DIR" && cd - && x/y'"#,
            "project/other",
            true,
        ),
        (
            r#"'cd "$CLAUDE_PROJECT_DIR" && pushd x; popd; popd; x/y'"#,
            "project/other",
            true,
        ),
        (
            r#"'cd "$CLAUDE_PROJECT_DIR" && cd "$OLDPWD"; x/y'"#,
            "project/other",
            true,
        ),
        (
            r#"'cd "$CLAUDE_PROJECT_DIR" && "$OLDPWD"/x/y'"#,
            "project/other",
            true,
        ),
        (
            r#"'cd "$CLAUDE_PROJECT_DIR" && cd $where && x/y'"#,
            "project/other",
            true,
        ),
        (
            r#"'cd "$CLAUDE_PROJECT_DIR" && cd && x/y'"#,
            "project/other",
            true,
        ),
        (
            r#"'cd "$CLAUDE_PROJECT_DIR" && true & x/y'"#,
            "project/other",
            true,
        ),
        (
            r#"'cd "$CLAUDE_PROJECT_DIR" && sh -c "cd -; x/y" && true 2>&1'"#,
            "project/other",
            true,
        ),
        (
            r#"'cd "$CLAUDE_PROJECT_DIR" && cd -P x && ./y 2>&1 && cd "$CLAUDE_PROJECT_DIR"/x'"#,
            "project/other",
            false,
        ),
    ] {
        assert_eq!(astray(run, cwd), expected, "{run} in {cwd}");
    }
}

#[test]
fn what_changes_after_the_look_is_not_started() {
    let world = World::new();
    world.trust();
    let snapshot = world.loader("project").current();
    let hook = &snapshot.hooks[0];
    assert!(!hook.untrusted && !hook.has_changed());
    world.settle();
    assert!(!hook.has_changed(), "and now by stats alone");
    world.write("project/scripts/style.sh", "exit 1");
    assert!(hook.has_changed());
    world.write("project/scripts/style.sh", "exit 0");
    assert!(!hook.has_changed(), "as it was");
    world.write("project/scripts/unpinned.sh", "exit 0");
    assert!(!hook.has_changed());
    fs::remove_file(world.path("project/scripts/style.sh")).unwrap();
    assert!(hook.has_changed());
}

#[test]
fn a_hook_that_changes_the_next_one_ends_it() {
    let world = World::new();
    let text = "[hooks.first]\non = \"PreToolUse\"\nrewrites = true\nrun = \"cp evil scripts/style.sh\"\n\
        [hooks.second]\non = \"PreToolUse\"\nrun = \"sh scripts/style.sh\"\n\
        [hooks.lint-changed]\non = \"PreToolUse\"\ntools = \"Bash\"\ncommand = \"sh scripts/style.sh\"\n\
        [hooks.test-changed]\ncommand = [\"sh\", \"scripts/style.sh\"]\n";
    let own = "[hooks.test-changed]\non = \"PreToolUse\"\ntools = \"Bash\"\n";
    world.write("home/config.toml", own);
    world.write("project/.becket/config.toml", text);
    world.write("project/evil", "touch evil-was-here");
    world.trust();
    let (runs, _) = world.carry_out("project", &[]);
    let ends: Vec<_> = runs.iter().map(|run| (&*run.hook, &*run.outcome)).collect();
    let none = "not started";
    let expected = [
        ("test-changed", none),
        ("first", "ok"),
        ("second", none),
        ("lint-changed", none),
    ];
    assert_eq!(ends, expected);
    for run in runs.iter().filter(|run| run.hook != "first") {
        assert!(format!("{run:?}").contains(CHANGED), "{run:?}");
    }
    assert!(!world.path("project/evil-was-here").exists());
}

#[test]
fn those_that_start_together_are_looked_at_once() {
    let world = World::new();
    let hook = |name: &str, more: &str| {
        format!("[hooks.{name}]\non = \"PreToolUse\"\nrun = \"sh scripts/style.sh\"\n{more}")
    };
    let rewrites = "rewrites = true\n";
    let text = [("a", ""), ("b", rewrites), ("c", rewrites), ("d", "")];
    let text: String = text.map(|(name, more)| hook(name, more)).concat();
    world.write("project/.becket/config.toml", &text);
    world.trust();
    let before = ASKED.get();
    let (runs, _) = world.carry_out("project", &[]);
    assert!(runs.iter().all(|run| run.outcome == "ok"), "{runs:?}");
    assert_eq!(runs.len(), 4);
    assert_eq!(ASKED.get() - before, 3, "b, c, and the others together");
}

#[test]
fn a_hook_that_is_led_astray_is_not_started_and_says_so() {
    let world = World::new();
    world.write("project/sub/scripts/style.sh", "touch ../marked");
    let text = "[hooks.line]\non = \"PreToolUse\"\nrun = \"sh scripts/style.sh\"\n\
        [hooks.root]\non = \"PreToolUse\"\nrun = 'cd \"$CLAUDE_PROJECT_DIR\" && sh scripts/style.sh'\n";
    world.write("project/.becket/config.toml", text);
    world.trust();
    let (runs, marked) = world.carry_out("project/sub", &[]);
    let ends: Vec<_> = runs.iter().map(|run| (&*run.hook, &*run.outcome)).collect();
    assert_eq!(ends, [("line", "not started"), ("root", "ok")]);
    assert!(runs[0].note.as_ref().unwrap().ends_with(ASTRAY), "{runs:?}");
    assert!(!marked);
}
