//! `becket up`, `uninit`, `doctor` and `config` through the real program: their output, what they leave
//! alone, and that their fixes work.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::Output;

use becket_tests::world::{World, call};
use serde_json::{Value, json};

/// Settings with comments, odd indentation, foreign hooks, a status line and unknown keys.
const SETTINGS: &str = r#"{
   // mine, hands off
      "model" : "opus",
  "hooks": { "PreToolUse": [
    { "matcher": "Bash", "hooks": [ {"type": "command", "command": "echo mine" /* keep */ } ] },
  ],
	"Stop": []
  },
  "statusLine": { "type": "command", "command": "~/bin/line" },
  "unknownKey": [1,2,   3]   }"#;

fn settings(world: &World) -> PathBuf {
    world.home.join(".claude/settings.json")
}

fn with_settings(text: &str) -> World {
    let world = World::bare();
    fs::write(settings(&world), text).expect("settings");
    world
}

fn text(world: &World) -> String {
    fs::read_to_string(settings(world)).expect("settings")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Returns the names in Claude Code's folder.
fn claude_folder(world: &World) -> Vec<String> {
    let entries = fs::read_dir(world.home.join(".claude")).expect("a folder");
    let names = entries
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

/// Returns the faults that doctor reports, with their fixes.
fn faults(world: &World) -> Vec<(String, String)> {
    let (code, told) = world.doctor();
    let checks = told["checks"].as_array().expect("checks");
    let broken: Vec<_> = checks
        .iter()
        .filter(|check| check["state"] == "broken")
        .map(|check| {
            let field = |name: &str| check[name].as_str().unwrap_or_default().to_owned();
            (field("what"), field("mend"))
        })
        .collect();
    assert_eq!(code, Some(i32::from(!broken.is_empty())), "{told:#}");
    assert_eq!(told["ok"], broken.is_empty(), "{told:#}");
    broken
}

/// Asserts that doctor reports a fault with this fix.
fn assert_broken(world: &World, what: &str, fix: &str) {
    let broken = faults(world);
    let found = broken
        .iter()
        .any(|(fault, advice)| fault.contains(what) && advice.contains(fix));
    assert!(found, "no `{what}` with `{fix}`: {broken:#?}");
}

#[test]
fn doctor_reports_a_healthy_world_as_ok() {
    let world = World::bare();
    world.run(&["up", "--only-register"]);
    assert_eq!(faults(&world), []);
    let (_, told) = world.doctor();
    let checks = told["checks"].as_array().expect("checks");
    let state = |name: &str| {
        let check = checks.iter().find(|check| check["name"] == name);
        check.unwrap_or_else(|| panic!("no {name}: {told:#}"))["state"].clone()
    };
    for part in [
        "becket",
        "shim",
        "home",
        "config",
        "daemon",
        "socket",
        "database",
        "spool",
        "user settings",
        "commands",
        "canary (user)",
    ] {
        assert_eq!(state(part), "good", "{part}");
    }
    assert_eq!(world.events(), Vec::<Value>::new());
    let canaries = world.run(&["events", "--json", "--event", "BecketCanary"]);
    assert_eq!(canaries.lines().count(), 2, "one for each doctor");
    assert!(world.run(&["doctor"]).contains("canary (user)"));
}

#[test]
fn doctor_trusts_only_entries_that_claude_code_would_run() {
    let world = with_settings(SETTINGS);
    world.run(&["up", "--only-register"]);
    // Comments and trailing commas are read as Claude Code reads them.
    let added = world.run(&["up", "--only-register", "--json"]);
    let report: Value = serde_json::from_str(&added).expect("JSON");
    assert_eq!(report["changed"], false);
    let line = text(&world);
    let at = line
        .find("\"--event\", \"SubagentStop\"")
        .expect("an entry");
    let begin = line[..at].rfind("{\"type\"").expect("its beginning");
    let end = at + line[at..].find('}').expect("its end");
    let entry: Value = serde_json::from_str(&line[begin..=end]).expect("an entry");
    assert_eq!(entry["timeout"], 600);
    let mut hook = world.command(entry["command"].as_str().expect("a command"));
    hook.env_remove("BECKET_HOME").args(
        entry["args"]
            .as_array()
            .expect("arguments")
            .iter()
            .filter_map(Value::as_str),
    );
    let payload = json!({"hook_event_name": "SubagentStop", "session_id": "s"}).to_string();
    let called = call(hook, payload.as_bytes());
    assert!(called.is_quiet(), "{called:?}");
    assert_eq!(world.events()[0]["event"], "SubagentStop");
}

#[test]
fn uninit_restores_the_settings_byte_for_byte() {
    for before in [SETTINGS, "{}", "{ }\n", "", "\u{feff}{\r\n}\r\n"] {
        let world = with_settings(before);
        world.run(&["up", "--only-register", "--strict"]);
        world.run(&["up", "--only-register"]);
        assert!(text(&world).contains("becket-hook"), "{before}");
        assert!(text(&world).contains("onFailure"), "{before}");
        world.run(&["down"]);
        assert_eq!(text(&world), before);
        assert_broken(
            &world,
            "becket is not registered with Claude Code",
            "becket up",
        );
    }
}

#[test]
fn doctor_warns_of_the_plugin_alone_until_init() {
    let world = World::new();
    fs::write(
        settings(&world),
        r#"{"enabledPlugins": {"becket@x": true}}"#,
    )
    .expect("settings");
    let settings_check = || {
        let (_, told) = world.doctor();
        let checks = told["checks"].as_array().cloned().unwrap_or_default();
        let check = checks.into_iter().find(|check| check["name"] == "settings");
        check.map(|check| (check["state"].clone(), check["what"].to_string()))
    };
    let (state, what) = settings_check().expect("a check");
    assert_eq!(state, "warning");
    assert!(what.contains("only the plugin registers becket"), "{what}");
    world.run(&["up", "--only-register"]);
    assert_eq!(settings_check(), None);
}

#[test]
fn uninit_after_edits_removes_only_beckets_entries() {
    let world = with_settings(SETTINGS);
    world.run(&["up", "--only-register"]);
    let edited = text(&world).replace("\"opus\"", "\"sonnet\"");
    fs::write(settings(&world), edited).expect("settings");
    world.run(&["down"]);
    assert_eq!(text(&world), SETTINGS.replace("\"opus\"", "\"sonnet\""));
}

#[test]
fn uninit_deletes_a_file_that_init_made() {
    let world = World::bare();
    world.run(&["up", "--only-register"]);
    let mode = fs::metadata(settings(&world))
        .expect("settings")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    world.run(&["down"]);
    assert!(!settings(&world).exists());
    assert!(world.run(&["down"]).contains("is not registered"));
}

#[test]
fn a_dry_run_shows_the_difference_and_changes_nothing() {
    let world = with_settings(SETTINGS);
    let before = claude_folder(&world);
    let diff = world.run(&["up", "--only-register", "--dry-run"]);
    assert!(diff.contains("+") && diff.contains("becket-hook"), "{diff}");
    assert!(diff.lines().any(|line| line.starts_with("@@")), "{diff}");
    assert_eq!(
        (text(&world), claude_folder(&world)),
        (SETTINGS.to_owned(), before)
    );
}

#[test]
fn init_keeps_symbolic_links_and_file_modes() {
    let world = World::bare();
    let dotfiles = world.home.join("dotfiles");
    fs::create_dir(&dotfiles).expect("a folder");
    let real = dotfiles.join("claude.json");
    fs::write(&real, SETTINGS).expect("settings");
    fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).expect("a mode");
    symlink("../dotfiles/claude.json", settings(&world)).expect("a link");
    let target = || fs::read_link(settings(&world)).expect("a link");
    world.run(&["up", "--only-register"]);
    assert_eq!(target(), PathBuf::from("../dotfiles/claude.json"));
    assert!(
        fs::read_to_string(&real)
            .expect("settings")
            .contains("becket-hook")
    );
    assert_eq!(faults(&world), []);
    world.run(&["down"]);
    assert_eq!(target(), PathBuf::from("../dotfiles/claude.json"));
    assert_eq!(fs::read_to_string(&real).expect("settings"), SETTINGS);
    let mode = fs::metadata(&real).expect("settings").permissions().mode();
    assert_eq!(mode & 0o777, 0o640);
}

#[test]
fn init_leaves_invalid_settings_unchanged() {
    let cases = [
        ("{\n  \"model\": opus\n}\n", ":2:12: "),
        ("{\"hooks\": {", ":1:11: "),
        ("[]", ""),
        ("{\"hooks\": []}", ""),
    ];
    for (before, place) in cases {
        let world = with_settings(before);
        let files = claude_folder(&world);
        for verb in ["init", "down"] {
            let output = world.output(&[verb]);
            let said = stderr(&output);
            // Invalid values in place of a list contain nothing of becket to remove.
            if verb == "init" || !place.is_empty() {
                assert_eq!(output.status.code(), Some(1), "{verb} {before}: {output:?}");
                assert!(
                    said.starts_with("error: ") && said.contains("hint: "),
                    "{said}"
                );
                assert!(
                    said.contains("settings.json") && said.contains(place),
                    "{said}"
                );
            }
            assert_eq!(text(&world), before, "{verb}");
            assert_eq!(claude_folder(&world), files, "{verb} leaves nothing behind");
        }
        assert_broken(&world, "", "");
    }
}

#[test]
fn the_fixes_of_doctor_work() {
    let world = with_settings(SETTINGS);
    world.run(&["up", "--only-register"]);
    assert_eq!(faults(&world), []);
    // An entry is missing.
    let without = text(&world).replacen("becket-hook", "somebodys-hook", 1);
    fs::write(settings(&world), without).expect("settings");
    assert_broken(&world, "of 30 events are not registered", "becket up");
    world.run(&["up", "--only-register"]);
    assert_eq!(faults(&world), []);
    fs::write(settings(&world), SETTINGS).expect("settings");
    world.run(&["up", "--only-register"]);
    // An entry is different.
    let other = text(&world).replacen("\"--from\", \"settings\"", "\"--from\", \"elsewhere\"", 1);
    fs::write(settings(&world), other).expect("settings");
    assert_broken(
        &world,
        "1 of 30 hook entries was changed or is outdated",
        "becket up",
    );
    world.run(&["up", "--only-register"]);
    // The home is open to others.
    fs::set_permissions(&world.becket_home, fs::Permissions::from_mode(0o755)).expect("a mode");
    let fix = format!("chmod 700 {}", world.becket_home.display());
    assert_broken(&world, "is open to others (mode 755)", &fix);
    let fixed = world.command("/bin/sh").args(["-c", &fix]).status();
    assert!(fixed.is_ok_and(|status| status.success()));
    assert_eq!(faults(&world), []);
    // The config does not parse.
    fs::write(world.path("config.toml"), "[store]\nkeep_days = \"x\"\n").expect("a config");
    assert_broken(&world, "config.toml:2:13", "becket config check");
    fs::remove_file(world.path("config.toml")).expect("a config");
    assert_eq!(faults(&world), []);
}

#[test]
fn doctor_finds_settings_that_switch_hooks_off() {
    let world = with_settings("{\"disableAllHooks\": true}");
    let output = world.output(&["up", "--only-register"]);
    assert!(stderr(&output).contains("disableAllHooks"), "{output:?}");
    let place = settings(&world).display().to_string();
    assert_broken(
        &world,
        "disableAllHooks is true",
        &format!("take disableAllHooks out of {place}"),
    );
    // A project may do it too.
    let world = World::bare();
    world.run(&["up", "--only-register"]);
    fs::create_dir_all(world.home.join("project/.claude")).expect("a project");
    let local = world.home.join("project/.claude/settings.local.json");
    fs::write(local, "{\"disableAllHooks\": true}").expect("settings");
    let mut doctor = world.becket(["doctor", "--json"]);
    doctor.current_dir(world.home.join("project"));
    let output = doctor.output().expect("becket runs");
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stdout).contains("settings.local.json"));
}

#[test]
fn doctor_finds_a_missing_or_different_shim() {
    let world = World::bare();
    world.run(&["up", "--only-register"]);
    let shim = world.programs.join("becket-hook");
    fs::remove_file(&shim).expect("a shim");
    assert_broken(&world, "becket-hook is missing", "./install");
    assert_broken(&world, "could not start", "");
    fs::write(&shim, "#!/bin/sh\necho becket-hook 0.0.0\n").expect("a script");
    assert_broken(&world, "does not run", "./install");
    fs::set_permissions(&shim, fs::Permissions::from_mode(0o755)).expect("a mode");
    assert_broken(&world, "says `becket-hook 0.0.0`", "./install");
    assert_broken(&world, "must print nothing", "");
}

#[test]
fn a_new_user_is_told_where_to_begin() {
    let world = World::bare();
    assert_broken(&world, "does not exist", "becket up");
    assert!(!world.becket_home.exists(), "reading makes no home");
}

#[test]
fn a_wrong_config_is_reported_with_its_place_and_the_last_good_copy_applies() {
    let world = World::bare();
    world.start_daemon();
    let config = world.path("config.toml");
    let check = || world.output(&["config", "check"]);
    fs::write(&config, "[store]\nkeep_days = 7\n").expect("a config");
    assert_eq!(check().status.code(), Some(0));
    // The daemon reads the good config with this event.
    world.send("Stop", "{\"session_id\":\"s\"}");
    fs::write(&config, "[store]\nkeep_days = \n").expect("a config");
    let output = check();
    assert_eq!(output.status.code(), Some(1));
    let said = format!(
        "{}{}",
        stderr(&output),
        String::from_utf8_lossy(&output.stdout)
    );
    assert!(said.contains("config.toml:2:13"), "{said}");
    let shown: Value = serde_json::from_str(&world.run(&["config", "--json"])).expect("JSON");
    assert!(shown.to_string().contains("last"), "{shown:#}");
    // Reported once at the start of a session, and nothing stops.
    let start = json!({"hook_event_name": "SessionStart", "session_id": "s"}).to_string();
    let called = world.send("SessionStart", &start);
    assert_eq!(called.code, Some(0), "{called:?}");
    let answer: Value = serde_json::from_str(&called.stdout).expect("an answer");
    let message = answer["systemMessage"].as_str().expect("a message");
    assert!(message.contains("config.toml:2:13"), "{message}");
    assert!(
        world.send("SessionStart", &start).is_silent(),
        "once is enough"
    );
    assert_eq!(world.events().len(), 3);
}

#[test]
fn doctor_names_the_host_that_judged_its_test_event() {
    let world = World::bare();
    world.run(&["up", "--only-register"]);
    let canary = |variables: &[(&str, &str)]| {
        let mut doctor = world.becket(["doctor"]);
        let output = doctor.envs(variables.iter().copied()).output();
        String::from_utf8(output.expect("becket").stdout).expect("text")
    };
    let alone = canary(&[("BECKET_NO_DAEMON", "1")]);
    assert!(alone.contains(" ms (judged without a daemon)"), "{alone}");
    let asked = canary(&[]);
    assert!(asked.contains(" ms (by the daemon)"), "{asked}");
}
