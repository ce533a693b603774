//! The config layers that are not files: `BECKET_*` variables and `--set` on the command line. No variable
//! of a session relaxes the rules for its events.

use std::fs;
use std::process::Output;

use becket_tests::wait::{self, PATIENCE};
use becket_tests::world::{Called, World, call, is_alive, write_program};
use serde_json::{Value, json};

const ALONE: (&str, &str) = ("BECKET_NO_DAEMON", "1");

fn secret() -> String {
    format!("{}_{}", "ghp", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8")
}

/// Returns a session id by number.
fn id(number: u8) -> String {
    format!("7541ef66-cab1-4f90-8d34-c3e60bef32{number:02}")
}

/// Creates a world with this user config.
fn world(config: &str) -> World {
    let world = World::new();
    fs::create_dir_all(&world.becket_home).expect("a home");
    fs::write(world.path("config.toml"), config).expect("a config");
    world
}

/// Sends an event of a session, from a Claude Code with these variables.
fn send(world: &World, session: u8, event: &str, variables: &[(&str, &str)]) -> Called {
    let payload = json!({
        "session_id": id(session),
        "hook_event_name": event,
        "cwd": world.home,
        "prompt": format!("take {}", secret()),
    });
    let mut shim = world.shim(event);
    shim.envs(variables.iter().copied());
    call(shim, payload.to_string().as_bytes())
}

/// Returns each event's session, who answered it, and whether the secret is readable.
fn stored(world: &World) -> Vec<(String, String, bool)> {
    let text = |row: &Value, field: &str| row[field].as_str().unwrap_or_default().to_owned();
    let rows = world.events().into_iter().map(|row| {
        let plain = row["payload"].to_string().contains(&secret());
        assert_eq!(row["masked"] == 0, plain, "{row}");
        (text(&row, "session_id"), text(&row, "source"), plain)
    });
    rows.collect()
}

fn said(output: &Output) -> (Option<i32>, String) {
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), stderr)
}

#[test]
fn hook_output_is_masked() {
    let fails = format!("run = \"echo {} >&2; exit 1\"", secret());
    let world = world(&format!("[hooks.a]\non = \"Stop\"\n{fails}\n"));
    world.start_daemon();
    for variables in [&[][..], &[ALONE]] {
        send(&world, 1, "Stop", variables);
    }
    let runs = world.run(&["hooks", "recent", "--json"]);
    assert_eq!(runs.matches("«masked:").count(), 2, "{runs}");
    assert!(!runs.contains(&secret()), "{runs}");
}

#[test]
fn environment_variables_relax_nothing() {
    let world = world("");
    world.start_daemon();
    let relaxing = [
        ("BECKET_MASK_ENABLED", "false"),
        ("BECKET_NOTICE_ON", "all"),
        ("BECKET_NOTICE_COMMAND", "true"),
    ];
    let alone = [&relaxing[..], &[ALONE]].concat();
    for (session, variables) in [(1, &relaxing[..]), (2, &alone)] {
        send(&world, session, "UserPromptSubmit", variables);
        let asks = send(&world, session, "PermissionRequest", variables);
        assert!(asks.is_silent(), "{asks:?}");
    }
    let stored = stored(&world);
    assert_eq!(stored.len(), 4, "{stored:?}");
    assert!(stored.iter().all(|(_, _, plain)| !plain), "{stored:?}");
}

#[test]
fn the_command_line_sets_a_key_for_one_command() {
    let world = world("store.keep_days = 30\n[hooks.style]\non = \"Stop\"\nrun = \"true\"\n");
    let value = |args: &[&str], key: &str| {
        let all: Value = serde_json::from_str(&world.run(args)).expect("JSON");
        let mut values = all["values"].as_array().expect("values").iter();
        let value = values.find(|value| value["key"] == key).expect(key).clone();
        (value["value"].clone(), value["level"].clone())
    };
    let set = "--set=store.keep_days=3";
    let twice = ["config", "--json", "--set", "store.keep_days=2", set];
    assert_eq!(
        value(&twice, "store.keep_days"),
        (json!(3), json!("command line"))
    );
    assert_eq!(
        value(&["config", "--json"], "store.keep_days"),
        (json!(30), json!("user"))
    );
    let state = |args: &[&str]| {
        let hooks: Value = serde_json::from_str(&world.run(args)).expect("JSON");
        (hooks[0]["state"].clone(), hooks[0]["off"]["level"].clone())
    };
    let off = ["--set", "hooks.style.enabled=false", "hooks", "--json"];
    assert_eq!(state(&off), (json!("off"), json!("command line")));
    assert_eq!(state(&["hooks", "--json"]), (json!("enabled"), Value::Null));
}

#[test]
fn an_unknown_key_on_the_command_line_is_refused_with_a_suggestion() {
    let world = world("");
    for (set, what, hint) in [
        (
            "store.keep_day=3",
            "unknown key store.keep_day",
            "store.keep_days",
        ),
        (
            "hooks.x.timout=5s",
            "unknown key hooks.x.timout",
            "hooks.x.timeout",
        ),
        ("colour=red", "unknown key colour", "`becket config` lists"),
        ("guards.x.answer=deny", "cannot be set here", "config file"),
        ("nonsense", "expected KEY=VALUE", "--help"),
    ] {
        let (code, stderr) = said(&world.output(&["sessions", "--set", set]));
        assert_eq!(code, Some(2), "{set}: {stderr}");
        assert!(stderr.contains(what) && stderr.contains(hint), "{stderr}");
    }
    let (code, stderr) = said(&world.output(&["sessions", "--set", "mask.enabled=maybe"]));
    assert_eq!(code, Some(2), "{stderr}");
    assert_eq!(
        stderr,
        "error: --set: mask.enabled: expected true or false, found \"maybe\"\n"
    );
    assert!(world.daemons().is_empty(), "nothing was begun");
}

#[test]
fn verbs_that_write_or_start_something_refuse_set() {
    let world = world("");
    let set = "hooks.style.on=Notification";
    for verb in ["up", "init", "hooks adopt", "trust", "daemon start"] {
        let words = verb.split(' ').chain(["--set", set]);
        let (code, stderr) = said(&world.output(&words.collect::<Vec<_>>()));
        let verb = verb.strip_suffix(" start").unwrap_or(verb);
        assert_eq!(code, Some(2), "{verb}: {stderr}");
        let why = format!("`becket {verb}` does not take --set");
        assert!(
            stderr.contains(&why) && stderr.contains("hint: "),
            "{stderr}"
        );
    }
    let settings = world.home.join(".claude/settings.json");
    assert!(!settings.exists(), "nothing was written");
    assert!(world.daemons().is_empty(), "nothing was begun");
}

#[test]
fn events_of_claude_code_are_taken_with_any_set_option() {
    let world = world("");
    let payload = json!({"session_id": id(1), "hook_event_name": "Stop"});
    for set in [&["--set", "mask.enabled=false"][..], &["--set=nonsense"]] {
        let hook = ["hook", "--event", "Stop"].iter().chain(set);
        let called = call(world.becket(hook), payload.to_string().as_bytes());
        assert_eq!(called.code, Some(0), "{called:?}");
        assert!(called.stderr.contains("ignores --set"), "{called:?}");
    }
    assert_eq!(world.events().len(), 2);
    let before = world.becket(["--set", "mask.enabled=false", "hook", "--event", "Stop"]);
    let called = call(before, payload.to_string().as_bytes());
    assert_eq!(called.code, Some(1), "it does not block: {called:?}");
    assert!(
        called.stderr.contains("after the word `hook`"),
        "{called:?}"
    );
}

#[test]
fn a_daemon_ends_after_its_idle_time() {
    let world = world("[daemon]\nidle = \"1s\"\n");
    world.start_daemon();
    let pid = world.daemon_pid();
    let gone = || pid.is_none_or(|pid| !is_alive(pid)).then_some(());
    assert!(wait::until(PATIENCE, gone).is_some(), "{pid:?} lives on");
}

#[test]
fn a_misspelled_variable_is_reported() {
    let world = world("");
    let mut check = world.becket(["config", "check"]);
    let check = check.env("BECKET_MASK_ENABLE", "true").output();
    let told = String::from_utf8_lossy(&check.expect("becket").stdout).into_owned();
    assert_eq!(
        told,
        "warning: BECKET_MASK_ENABLE: unknown variable (did you mean BECKET_MASK_ENABLED?)\n"
    );
}

#[test]
fn config_check_reports_hooks_that_would_never_run() {
    let world = world(
        r#"
[hooks.gone]
on = "Stop"
run = ["/nowhere/check"]
[hooks.script]
on = "Stop"
run = "python3 ~/hooks/gone.py"
[hooks.fine]
on = "Stop"
run = "test -e /nowhere/x && ~/bin/later"
[hooks.case]
on = "PreToolUse"
tools = "bash"
run = "true"
[guards.no-such-guard]
enabled = false
[hooks.home]
on = "Stop"
run = "$HOME/hooks/none.sh"
[hooks.braces]
on = "Stop"
run = "sh '${HOME}/hooks/none.sh'"
[hooks.quoted]
on = "Stop"
run = "\"$HOME\"/hooks/none.sh"
[hooks.variable]
on = "Stop"
run = "FOO=1 BAR= /nowhere/z"
[hooks.bare]
on = "Stop"
run = ["python3", "check.py", "-c"]
[hooks.program]
on = "Stop"
run = "no-such-program --all"
[hooks.or]
on = "Stop"
run = "~/bin/missing.sh || true"
[hooks.errors]
on = "Stop"
run = "'/nowhere/a;b' 2>/dev/null"
[hooks.pipe]
on = "Stop"
run = "python3 ~/x/missing.py | tee /tmp/log"
[hooks.then]
on = "Stop"
run = "$CLAUDE_PROJECT_DIR/gone.sh; true"
"#,
    );
    let check = world.becket(["config", "check"]).output().expect("becket");
    let told = String::from_utf8_lossy(&check.stdout).into_owned();
    assert_eq!(check.status.code(), Some(0), "{told}");
    let file = world.path("config.toml").display().to_string();
    let none = world.home.join("hooks/none.sh").display().to_string();
    for line in [
        format!("warning: {file}:4: hooks.gone.run: /nowhere/check does not exist"),
        format!("warning: {file}:7: hooks.script.run: ~/hooks/gone.py does not exist"),
        format!(
            "warning: {file}:13:9: hooks.case.tools: \"bash\" never matches a tool (did you mean Bash?)"
        ),
        format!(
            "warning: {file}:15:9: guards.no-such-guard switches off a guard that does not exist"
        ),
        format!("hooks.home.run: {none} does not exist"),
        format!("hooks.braces.run: {none} does not exist"),
        format!("hooks.quoted.run: {none} does not exist"),
        "hooks.variable.run: /nowhere/z does not exist".to_owned(),
        "hooks.bare.run: check.py does not exist".to_owned(),
        "hooks.program.run: no-such-program is not on PATH".to_owned(),
        "hooks.or.run: ~/bin/missing.sh does not exist".to_owned(),
        "hooks.errors.run: /nowhere/a;b does not exist".to_owned(),
        "hooks.pipe.run: ~/x/missing.py does not exist".to_owned(),
        "/gone.sh does not exist".to_owned(),
    ] {
        assert!(told.contains(&line), "{line}\n{told}");
    }
    assert_eq!(told.matches("warning:").count(), 14, "{told}");
}

#[test]
fn inline_code_modules_and_shell_builtins_are_not_reported_as_missing_scripts() {
    let runs = [
        r#"["bash", "-lc", "cat src/x"]"#,
        r#""bash -euc 'cat src/x'""#,
        r#""bash -o pipefail -c 'cat src/x'""#,
        r#"["perl", "-pe", "s/a/b/"]"#,
        r#"["php", "-r", "readfile('src/x');"]"#,
        r#"["node", "--eval", "require('./x.js')"]"#,
        r#"["node", "--eval=require('./x.js')", "a.b"]"#,
        r#"["node", "-p", "require('./x.js')"]"#,
        r#"["python3", "-m", "shop.check"]"#,
        r#"["python3", "-W", "ignore.x", "check.py"]"#,
        r#"["deno", "run", "check.ts"]"#,
        r#""exec true""#,
        r#""cd src && ./x.sh""#,
        r#""if grep -q x; then src/x; fi""#,
        r#""echo \"a;b\" 'c|d' | src/x""#,
        r#""(cd src; ./x)""#,
    ];
    let table = |(nth, run): (usize, &&str)| format!("[hooks.n{nth}]\non = 'Stop'\nrun = {run}\n");
    let tables: String = runs.iter().enumerate().map(table).collect();
    let world = world(&tables);
    for name in ["perl", "php", "node", "deno", "python3"] {
        write_program(&world.programs.join(name), "exit 0");
    }
    assert_eq!(
        world.run(&["config", "check"]),
        "the configuration is clean\n"
    );
}

#[test]
fn the_author_of_a_project_checks_it_before_trusting_it() {
    let world = world("");
    let project = world.home.join("shop");
    fs::create_dir_all(project.join(".git")).expect("a project");
    fs::create_dir_all(project.join(".becket")).expect("a folder");
    let config = "[guards.no-such-guard]\nenabled = false\n[hooks.gone]\non = \"Stop\"\nrun = \"/nowhere/check\"\n";
    fs::write(project.join(".becket/config.toml"), config).expect("a config");
    let mut check = world.becket(["config", "check"]);
    let check = check.current_dir(&project).output().expect("becket");
    let told = String::from_utf8_lossy(&check.stdout).into_owned();
    assert_eq!(check.status.code(), Some(0), "{told}");
    for warning in [
        "guards.no-such-guard switches off a guard that does not exist",
        "hooks.gone.run: /nowhere/check does not exist",
    ] {
        assert!(told.contains(warning), "{warning}\n{told}");
    }
    assert_eq!(told.matches("warning:").count(), 2, "{told}");
}

#[test]
fn verbs_refuse_a_relative_home_and_the_shim_does_not() {
    let world = world("");
    let relative = ("BECKET_HOME", "beckets/home");
    for verb in [
        &["sessions"][..],
        &["config", "check"],
        &["daemon", "start"],
    ] {
        let mut becket = world.command(world.programs.join("becket"));
        let output = becket.args(verb).envs([relative]).output();
        let (code, stderr) = said(&output.expect("becket"));
        assert_eq!(code, Some(2), "{verb:?}: {stderr}");
        assert!(
            stderr.contains("BECKET_HOME is not an absolute path: beckets/home"),
            "{stderr}"
        );
    }
    assert!(world.daemons().is_empty(), "nothing was begun");
    let mut shim = world.command(world.programs.join("becket-hook"));
    shim.args(["--event", "Stop"]).envs([relative, ALONE]);
    let payload = json!({"session_id": id(1), "hook_event_name": "Stop"});
    let called = call(shim, payload.to_string().as_bytes());
    assert_eq!(called.code, Some(0), "{called:?}");
}
