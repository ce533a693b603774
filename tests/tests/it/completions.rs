//! Completions in real shells, which call becket for each: hook names come from the config, sessions from the
//! daemon or the database, the rest from the command line.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use becket_tests::skip::{Unavailable, skip};
use becket_tests::terminal::Terminal;
use becket_tests::wait::{self, PATIENCE};
use becket_tests::world::World;
use serde_json::json;

const HOOKS: &str = "[hooks.lint-css]\non = \"Stop\"\nrun = \"true\"\n\
    [hooks.lint-sql]\non = \"Stop\"\nrun = \"true\"\nenabled = false\n\
    [hooks.speak]\non = \"Stop\"\nrun = \"true\"\n";

/// A bash function that prints the completions of the last of its words, options only for a word with a dash.
const OFFERS: &str = r#"
    source <(becket completions bash)
    offers() {
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
        local how=$(complete -p becket) word="${*: -1}" one shown=()
        how=${how#*-F }
        "${how%% *}" becket "${word}" "${COMP_WORDS[COMP_CWORD - 1]}"
        for one in "${COMPREPLY[@]}"; do
            [[ ${one} == -* && ${word} != -* ]] || shown+=("${one}")
        done
        echo "${shown[*]}"
    }
"#;

const WORDS_OF_HOOKS: &str = r#"
    offers becket disable lint
    offers becket --home "$BECKET_HOME" hooks try ''
    offers becket hooks recent --hook sp
    offers becket disable --sl
    offers becket unin
    offers becket disable nothing
    offers becket hook
    offers becket --
    offers becket daemon run --d
    compopt() { [[ $1 == +o ]] || echo nospace; }
    offers becket config --set store.keep_d
    offers becket config --set store.keep_
    COMPLETE=bash becket hooks speak --names
"#;

const WORDS_OF_SESSIONS: &str = r#"
    offers becket show ''
    offers becket show a
    offers becket show Fix
    offers becket show 'Fix\ the'
    offers becket show '"Docs: a'
    offers becket --home "$BECKET_HOME" wait b2
    offers becket tmux jump a
    offers becket hooks recent --session b
    offers becket hooks recent --session = a
    offers becket hooks recent --session ''
    offers becket hooks recent --hook = sp
    offers becket checkpoint show a
    offers becket name a1b2c3d4 a
    offers becket show unknown
    home=$BECKET_HOME
    BECKET_HOME=$HOME/other offers becket show a
    BECKET_HOME=$HOME/other offers becket show --home "$home" a
    BECKET_HOME=$HOME/other offers becket --home = "$home" show a
"#;

/// Creates a world with three live sessions, two of them with a title, and one ended session.
fn with_sessions() -> World {
    let world = with_hooks();
    let begin = |id: &str| {
        let called = world.tell(id, "SessionStart", &json!({"cwd": world.home}));
        assert_eq!(called.code, Some(0), "{called:?}");
    };
    let [login, docs, other, ended] = [
        "a1b2c3d4-0000-4000-8000-000000000001",
        "b2c3d4e5-0000-4000-8000-000000000002",
        "b2c3ffff-0000-4000-8000-000000000003",
        "a1b2ffff-0000-4000-8000-000000000004",
    ];
    [login, docs, other, ended].into_iter().for_each(begin);
    world.tell(ended, "SessionEnd", &json!({"reason": "other"}));
    world.run(&["name", login, "Fix the login"]);
    world.run(&["name", docs, "Docs: all"]);
    world
}

fn with_hooks() -> World {
    let world = World::new();
    fs::create_dir_all(&world.becket_home).expect("a becket home");
    fs::write(world.path("config.toml"), HOOKS).expect("a config");
    world
}

/// Returns the path of a shell; skips the test without it.
fn shell(name: &str, test: &str) -> Option<PathBuf> {
    let places = ["/bin", "/usr/bin", "/usr/local/bin"];
    let mut places = places.iter().map(|folder| Path::new(folder).join(name));
    let found = places.find(|path| path.exists());
    if found.is_none() {
        let why = Unavailable::new(format!("there is no {name} on this machine"));
        skip(test, &why);
    }
    found
}

fn in_bash(world: &World, bash: &Path, words: &str) -> Vec<String> {
    let path = format!("{}:/usr/bin:/bin", world.programs.display());
    let mut bash = world.command(bash);
    let script = format!("{OFFERS}{words}");
    let bash = bash.args(["--norc", "-c", &script]).env("PATH", path);
    let output = bash.output().expect("bash");
    assert!(output.stderr.is_empty(), "{output:?}");
    let offered = String::from_utf8_lossy(&output.stdout).into_owned();
    offered.lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_names_of_hooks() {
    let Some(bash) = shell("bash", "bash_completes_names_of_hooks") else {
        return;
    };
    let world = with_hooks();
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

    let expected = [
        "lint-css lint-sql",
        "lint-css lint-sql speak",
        "speak",
        "--slash",
        "uninit",
        "",
        // Without the words that are not meant to be typed.
        "hooks",
        "--home --set --help --version",
        "--detached --drain",
        // A key is completed without a space, since its value follows.
        "nospace",
        "store.keep_days=",
        "nospace",
        "store.keep_bytes= store.keep_days=",
        // The variable alone, which a project may set for its hooks, changes no command.
        "speak",
    ];
    assert_eq!(in_bash(&world, &bash, WORDS_OF_HOOKS), expected);
}

#[test]
fn bash_completes_sessions() {
    let Some(bash) = shell("bash", "bash_completes_sessions") else {
        return;
    };
    let world = with_sessions();
    let expected = [
        "a1b2c3d4 b2c3d4e5 b2c3ffff",
        "a1b2c3d4",
        // By its title, plain or in quotes.
        "a1b2c3d4",
        "a1b2c3d4",
        "b2c3d4e5",
        "b2c3d4e5 b2c3ffff",
        "a1b2c3d4",
        "b2c3d4e5 b2c3ffff",
        // With `=` between, which is a word of its own in bash.
        "a1b2c3d4",
        "a1b2c3d4 b2c3d4e5 b2c3ffff",
        "speak",
        // A checkpoint's id, a title, an unknown session.
        "",
        "",
        "",
        // Of another home, and of the one that the line names.
        "",
        "a1b2c3d4",
        "a1b2c3d4",
    ];
    let offered = in_bash(&world, &bash, WORDS_OF_SESSIONS);
    let sorted = |line: &String| {
        let mut words: Vec<&str> = line.split(' ').collect();
        words.sort_unstable();
        words.join(" ")
    };
    let offered: Vec<String> = offered.iter().map(sorted).collect();
    assert_eq!(offered, expected);
    // Completion starts no daemon, and without one the database has the names.
    let names = world.run(&["sessions", "--names"]);
    assert!(names.contains("a1b2c3d4\tFix the login\n"), "{names}");
    world.run(&["daemon", "stop"]);
    assert_eq!(world.run(&["sessions", "--names"]), names);
    let of_one = "offers becket show a";
    assert_eq!(in_bash(&world, &bash, of_one), ["a1b2c3d4"]);
    // The daemon's process outlives its lock for a moment.
    let gone = wait::until(PATIENCE, || world.daemon_pid().is_none().then_some(()));
    assert!(gone.is_some(), "a daemon was started");
    // A damaged database prints nothing into the line.
    fs::write(world.path("becket.db"), "no database").expect("a damaged database");
    assert_eq!(in_bash(&world, &bash, of_one), [""]);
}

#[test]
fn fish_completes_hooks_and_sessions() {
    let Some(fish) = shell("fish", "fish_completes_hooks_and_sessions") else {
        return;
    };
    let world = with_sessions();
    let offers = |line: &str| {
        let mut fish = world.command(&fish);
        let script = format!("becket completions fish | source; complete -C '{line}'");
        let output = fish.args(["-c", &script]).output();
        let output = output.expect("fish");
        assert!(output.stderr.is_empty(), "{line}: {output:?}");
        let offered = String::from_utf8_lossy(&output.stdout).into_owned();
        let words = offered.lines().filter_map(|line| line.split('\t').next());
        let words = words.filter(|word| !word.starts_with('-') || word.contains('='));
        words.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(offers("becket disable "), ["lint-css", "lint-sql", "speak"]);
    assert_eq!(offers("becket hooks recent --hook s"), ["speak"]);
    let all = ["a1b2c3d4", "b2c3d4e5", "b2c3ffff"];
    let sorted = |line: &str| {
        let mut words = offers(line);
        words.sort_unstable();
        words
    };
    assert_eq!(sorted("becket show "), all);
    assert_eq!(sorted("becket name "), all);
    assert_eq!(offers("becket wait F"), ["Fix the login"]);
    assert_eq!(offers("becket disable --session D"), ["Docs: all"]);
    assert_eq!(sorted("becket hooks recent --session "), all);
    assert_eq!(offers("becket hooks recent --session F"), ["Fix the login"]);
    assert_eq!(
        offers("becket hooks recent --session=b2c3d"),
        ["--session=b2c3d4e5"]
    );
    // This takes an id only.
    assert_eq!(offers("becket tmux jump a"), ["a1b2c3d4"]);
    assert_eq!(offers("becket name a1b2c3d4 a"), [""; 0]);
    // Without the words that are not meant to be typed.
    assert_eq!(offers("becket hook"), ["hooks"]);
    assert_eq!(offers("becket unin"), ["uninit"]);
}

/// Starts a shell in a terminal, with the programs of this world.
fn in_terminal(world: &World, command: &[OsString], test: &str) -> Option<Terminal> {
    let path = format!("{}:/usr/bin:/bin", world.programs.display());
    let variables = [
        ("HOME", world.home.display().to_string()),
        ("BECKET_HOME", world.becket_home.display().to_string()),
        ("PATH", path),
        ("LANG", "C.UTF-8".to_owned()),
    ];
    let variables = variables.map(|(name, value)| (name.to_owned(), value));
    match Terminal::start(command, &variables, &world.home, (120, 30)) {
        Ok(terminal) => {
            terminal.wait_text("%");
            Some(terminal)
        }
        Err(why) => {
            skip(test, &why);
            None
        }
    }
}

/// Completes a line, and waits for a text.
fn complete(terminal: &Terminal, line: &str, shown: &str) {
    terminal.press("C-u");
    terminal.press("C-l");
    terminal.type_text(&format!("{line}\t"));
    terminal.wait_text(shown);
}

#[test]
fn bash_completes_in_a_terminal() {
    let Some(bash) = shell("bash", "bash_completes_in_a_terminal") else {
        return;
    };
    let world = with_sessions();
    let rc = world.home.join("rc");
    let script = world.run(&["completions", "bash"]);
    fs::write(&rc, format!("{script}\nPS1='% '\n")).expect("an rc file");
    let options = ["--noprofile", "--rcfile"].map(OsString::from);
    let [profile, rcfile] = options;
    let command = [bash.into(), profile, rcfile, rc.into()];
    let Some(terminal) = in_terminal(&world, &command, "bash_completes_in_a_terminal") else {
        return;
    };
    let offers = |line, shown| complete(&terminal, line, shown);
    offers("becket disable sp", "becket disable speak");
    offers("becket show a", "becket show a1b2c3d4");
    offers("becket show Fix", "becket show a1b2c3d4");
    offers("becket show 'Docs: a", "becket show 'b2c3d4e5'");
    offers("becket hooks recent --session=b2c3d", "--session=b2c3d4e5");
    offers("becket hooks recent --hook=\t", "lint-css  lint-sql  speak");
    offers("becket --set store.keep_d", "--set store.keep_days=");
}

#[test]
fn zsh_completes_hooks_and_sessions() {
    let Some(zsh) = shell("zsh", "zsh_completes_hooks_and_sessions") else {
        return;
    };
    let world = with_sessions();
    let functions = world.root().join("functions");
    fs::create_dir_all(&functions).expect("a folder");
    let script = world.run(&["completions", "zsh"]);
    fs::write(functions.join("_becket"), script).expect("the script");
    let fpath = format!("fpath=({} $fpath)", functions.display());
    let rc =
        format!("{fpath}; autoload -U compinit; compinit -u -D; PROMPT='%% '; unsetopt beep\n");
    fs::write(world.home.join(".zshrc"), rc).expect("a .zshrc");
    // Without the configuration of the machine.
    let command = [zsh.into_os_string(), OsString::from("-d")];
    let test = "zsh_completes_hooks_and_sessions";
    let Some(terminal) = in_terminal(&world, &command, test) else {
        return;
    };
    let offers = |line, shown| complete(&terminal, line, shown);
    offers("becket disable sp", "becket disable speak");
    offers("becket hooks recent --hook lint-c", "--hook lint-css");
    offers("becket show a", "becket show a1b2c3d4");
    offers("becket show Fix", r"becket show Fix\ the\ login");
    offers(r"becket show Docs\:\ a", r"becket show Docs:\ all");
    offers("becket hooks recent --session=b2c3d", "--session=b2c3d4e5");
    offers("becket why --session b2c3f", "--session b2c3ffff");
    offers("becket tmux jump a", "becket tmux jump a1b2c3d4");
    offers("becket name ", "b2c3d4e5   -- Docs: all");
}
