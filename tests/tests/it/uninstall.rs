//! `./uninstall` deletes everything that `./install` placed and nothing else, and refuses while a project
//! needs becket.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use becket_tests::wait::{PATIENCE, until};
use becket_tests::world::{World, place_program};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../uninstall");

/// The folders of `./install` that are not for programs.
const SHARED: [&str; 3] = [
    "bash-completion/completions/becket",
    "zsh/site-functions/_becket",
    "fish/vendor_completions.d/becket.fish",
];

/// Creates a home in which becket is installed as by `./install`, beside a foreign program.
fn installed() -> (World, PathBuf) {
    let world = World::bare();
    let prefix = world.home.join(".local");
    for folder in ["bin", "share/man/man1"] {
        fs::create_dir_all(prefix.join(folder)).expect("a folder");
    }
    for program in ["becket", "becket-hook"] {
        let to = prefix.join("bin").join(program);
        place_program(&world.programs.join(program), &to);
    }
    let man = prefix.join("share/man/man1");
    let becket = |args: &[&str]| {
        let mut command = world.command(prefix.join("bin/becket"));
        let output = command.args(args).output().expect("becket");
        assert!(output.status.success(), "{args:?}: {output:?}");
    };
    becket(&["completions", "--man", &man.to_string_lossy()]);
    becket(&["up", "--only-register"]);
    for file in SHARED.map(|file| prefix.join("share").join(file)) {
        fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
        fs::write(file, "").expect("a file");
    }
    for file in ["bin/other", "share/man/man1/other.1"] {
        fs::write(prefix.join(file), "").expect("a file");
    }
    (world, prefix)
}

fn uninstall(world: &World, args: &[&str]) -> Output {
    let mut command = world.command(SCRIPT);
    command.args(args).output().expect("a shell")
}

/// Returns every file below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder").flatten();
    let mut files: Vec<PathBuf> = entries
        .flat_map(|entry| match entry.path() {
            path if path.is_dir() => files(&path),
            path => vec![path],
        })
        .collect();
    files.sort();
    files
}

#[test]
fn uninstall_removes_only_installed_files() {
    let (world, prefix) = installed();
    assert!(files(&prefix).len() > 20, "{:?}", files(&prefix));
    let mut daemon = world.command(prefix.join("bin/becket"));
    let started = daemon.args(["daemon", "start"]).output().expect("becket");
    assert!(world.daemon_pid().is_some(), "{started:?}");
    let done = uninstall(&world, &[]);
    assert!(done.status.success(), "{done:?}");
    let others = ["bin/other", "share/man/man1/other.1"].map(|file| prefix.join(file));
    assert_eq!(files(&prefix), others);
    assert!(!world.home.join(".claude/settings.json").exists());
    let ended = || world.daemon_pid().is_none().then_some(());
    until(PATIENCE, ended).expect("no daemon");
    assert!(world.becket_home.exists(), "what was recorded stays");
    let again = uninstall(&world, &[]);
    assert_eq!(again.status.code(), Some(1), "{again:?}");
}

#[test]
fn uninstall_refuses_while_a_project_needs_becket() {
    let (world, prefix) = installed();
    let project = world.home.join("shop");
    fs::create_dir_all(project.join(".git")).expect("a project");
    let init = |args: &[&str]| {
        let mut command = world.command(prefix.join("bin/becket"));
        let output = command.args(args).current_dir(&project).output();
        assert!(output.expect("becket").status.success(), "{args:?}");
    };
    init(&["up", "--only-register", "--local"]);
    let refused = uninstall(&world, &[]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(why.contains("shop/.claude/settings.local.json"), "{why}");
    assert!(prefix.join("bin/becket").exists());
    let own = world.home.join(".claude/settings.json");
    assert!(own.exists(), "nothing was done");
    let done = uninstall(&world, &["--force", "--prefix", &prefix.to_string_lossy()]);
    assert!(done.status.success(), "{done:?}");
    assert!(!prefix.join("bin/becket").exists() && !own.exists());
    let theirs = project.join(".claude/settings.local.json");
    assert!(theirs.exists(), "it is not ours to change");
}

#[test]
fn uninstall_restores_adopted_hooks() {
    let (world, prefix) = installed();
    let settings = world.home.join(".claude/settings.json");
    let mine = r#"{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "mine"}]}]}}"#;
    fs::write(&settings, mine).expect("settings");
    for args in [&["up", "--only-register"][..], &["hooks", "adopt", "--all"]] {
        let mut command = world.command(prefix.join("bin/becket"));
        let output = command.args(args).output().expect("becket");
        assert!(output.status.success(), "{output:?}");
    }
    assert!(
        !fs::read_to_string(&settings)
            .expect("settings")
            .contains("mine")
    );
    let done = uninstall(&world, &[]);
    assert!(done.status.success(), "{done:?}");
    assert_eq!(fs::read_to_string(&settings).expect("settings"), mine);
}
