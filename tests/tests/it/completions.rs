//! Completions as a shell uses them: names of hooks come from the config, the rest from the script.

use std::fs;
use std::path::Path;

use becket_tests::skip::{Unavailable, skip};
use becket_tests::world::World;

const HOOKS: &str = "[hooks.lint-css]\non = \"Stop\"\nrun = \"true\"\n\
    [hooks.lint-sql]\non = \"Stop\"\nrun = \"true\"\nenabled = false\n\
    [hooks.speak]\non = \"Stop\"\nrun = \"true\"\n";

/// What bash offers for the last of these words.
const OFFERS: &str = r#"
    source <(becket completions bash)
    offers() {
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
        local how=$(complete -p becket)
        how=${how#*-F }
        "${how%% *}" becket "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
        echo "${COMPREPLY[*]}"
    }
    offers becket disable lint
    offers becket --home "$BECKET_HOME" try ''
    offers becket recent --hook sp
    offers becket disable --sl
    offers becket unin
    offers becket disable nothing
    offers becket keep
    offers becket --frame
    offers becket daemon run --det
    offers becket hook
    compopt() { echo "$*"; }
    offers becket config --set store.keep_d
    offers becket config --set store.keep_
"#;

#[test]
fn bash_completes_names_of_hooks() {
    if !Path::new("/bin/bash").exists() {
        let why = Unavailable::new("there is no bash on this machine".to_owned());
        return skip("bash_completes_names_of_hooks", &why);
    }
    let world = World::new();
    fs::create_dir_all(&world.becket_home).expect("a becket home");
    fs::write(world.path("config.toml"), HOOKS).expect("a config");
    assert_eq!(
        world.run(&["hooks", "--names"]),
        "lint-css\nlint-sql\nspeak\n"
    );
    assert_eq!(
        world.run(&["hooks", "lint", "--names"]),
        "lint-css\nlint-sql\n"
    );
    let all = world.run(&["hooks", "--names", "--all"]);
    assert!(
        all.contains("speak\n") && all.contains("check-todos\n"),
        "{all}"
    );

    let path = format!("{}:/usr/bin:/bin", world.programs.display());
    let mut bash = world.command("/bin/bash");
    let bash = bash.args(["--norc", "-c", OFFERS]).env("PATH", path);
    let output = bash.output().expect("bash");
    let offered = String::from_utf8_lossy(&output.stdout).into_owned();
    let expected = [
        "lint-css lint-sql",
        "lint-css lint-sql speak",
        "speak",
        "--slash",
        "uninit",
        "",
        // What nobody is meant to type.
        "",
        "",
        "",
        "hooks hook",
        // A key is completed without the space, since its value follows.
        "-o nospace",
        "store.keep_days=",
        "store.keep_days= store.keep_bytes=",
    ];
    assert_eq!(offered.lines().collect::<Vec<_>>(), expected, "{output:?}");
}
