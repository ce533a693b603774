//! The layers of the config that are no file, through the real programs: the environment counts for
//! whoever has it, and only to tighten; the command line for one command, or for one daemon.

mod daemon;
mod told;

use std::fs;
use std::process::{Command, Output, Stdio};

use becket_tests::wait::{self, PATIENCE};
use becket_tests::world::{Called, World, call, is_alive};
use serde_json::{Value, json};

const MASK: (&str, &str) = ("BECKET_MASK_ENABLED", "true");
const ALONE: (&str, &str) = ("BECKET_NO_DAEMON", "1");

fn secret() -> String {
    format!("{}_{}", "ghp", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8")
}

/// A session's id, by its number.
fn id(number: u8) -> String {
    format!("7541ef66-cab1-4f90-8d34-c3e60bef32{number:02}")
}

/// A world with this for the user's config.
fn world(config: &str) -> World {
    let world = World::new();
    fs::create_dir_all(&world.becket_home).expect("a home");
    fs::write(world.path("config.toml"), config).expect("a config");
    world
}

/// An event of a session, from a Claude Code with this in its environment.
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

/// Of each event: its session, whose answer it got, and whether the secret can be read.
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
fn the_environment_of_a_session_masks_what_is_stored_of_it_and_of_no_other() {
    let world = world("mask.enabled = false\n");
    world.start_daemon();
    send(&world, 1, "UserPromptSubmit", &[MASK]);
    send(&world, 2, "UserPromptSubmit", &[]);
    send(&world, 3, "UserPromptSubmit", &[MASK, ALONE]);
    send(&world, 4, "UserPromptSubmit", &[ALONE]);
    let unread = ("BECKET_MASK_ENABLED", "yes");
    send(&world, 5, "UserPromptSubmit", &[unread]);
    send(&world, 6, "UserPromptSubmit", &[unread, ALONE]);
    let row = |number, source: &str, plain| (id(number), source.to_owned(), plain);
    assert_eq!(
        stored(&world),
        [
            row(1, "daemon", false),
            row(2, "daemon", true),
            row(3, "alone", false),
            row(4, "alone", true),
            row(5, "daemon", false),
            row(6, "alone", false),
        ]
    );
    for session in world.sessions() {
        let masked = [id(1), id(3), id(5), id(6)]
            .iter()
            .any(|id| session["session_id"] == **id);
        let prompt = session["last_prompt"].as_str().expect("a prompt");
        assert_eq!(prompt.contains(&secret()), !masked, "{session}");
    }
}

#[test]
fn a_shim_without_becket_hands_its_wish_on() {
    let world = world("mask.enabled = false\n");
    let becket = world.programs.join("becket");
    let aside = world.programs.join("becket-aside");
    fs::rename(&becket, &aside).expect("becket goes");
    for (session, variables) in [(1, &[MASK, ALONE][..]), (2, &[ALONE])] {
        let called = send(&world, session, "Stop", variables);
        assert_eq!(called.code, Some(1), "{called:?}");
    }
    fs::rename(&aside, &becket).expect("becket comes back");
    let plain: Vec<bool> = stored(&world).into_iter().map(|row| row.2).collect();
    assert_eq!(plain, [false, true]);
}

#[test]
fn what_hooks_say_is_masked_as_their_event_is() {
    let fails = format!("run = \"echo {} >&2; exit 1\"", secret());
    let world = world(&format!(
        "mask.enabled = false\n[hooks.a]\non = \"Stop\"\n{fails}\n[hooks.b]\non = \"Stop\"\nasync = true\n{fails}\n"
    ));
    world.start_daemon();
    send(&world, 1, "Stop", &[MASK]);
    send(&world, 2, "Stop", &[]);
    send(&world, 3, "Stop", &[MASK, ALONE]);
    let told = || {
        let runs: Value = serde_json::from_str(&world.run(&["recent", "--json"])).expect("JSON");
        let runs = runs.as_array().expect("a list").clone();
        let ended = runs.iter().filter(|run| run["outcome"] == "failed").count();
        (ended == 6).then_some(runs)
    };
    let runs = wait::until(PATIENCE, told).expect("the end of all six");
    for run in runs.iter().filter(|run| run["outcome"] == "failed") {
        let note = run["note"].as_str().expect("why");
        let plain = note.contains(&secret());
        assert_eq!(plain, run["session_id"] == *id(2), "{run}");
        assert_eq!(note.contains("«masked:"), !plain, "{run}");
    }
}

#[test]
fn no_environment_relaxes_anything() {
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
    let mut check = world.becket(["config", "check"]);
    let check = check.envs(relaxing).output().expect("becket");
    let told = String::from_utf8_lossy(&check.stdout).into_owned();
    let count = |what| told.matches(what).count();
    assert_eq!(count("may tighten, never relax"), 2, "{told}");
    assert_eq!(count("cannot be set by the environment"), 1, "{told}");
}

#[test]
fn no_environment_puts_a_command_in_place_of_ones_own() {
    let own = "command = 'cd; echo own >> told'";
    let world = world(&format!(
        "[notice]\non = \"attention\"\nhow = \"command\"\n{own}\n"
    ));
    world.start_daemon();
    let other = ("BECKET_NOTICE_COMMAND", "cd; echo other >> told");
    assert!(send(&world, 1, "PermissionRequest", &[other]).is_silent());
    let told = || fs::read_to_string(world.home.join("told")).ok();
    let told = wait::until(PATIENCE, || told().filter(|told| told.ends_with('\n')));
    assert_eq!(told.as_deref(), Some("own\n"));
}

#[test]
fn a_variable_that_is_wrong_is_told_once_a_session() {
    let world = world("");
    world.start_daemon();
    let wrong = [("BECKET_DAEMON_IDLE", "soon")];
    let told = |session, event, variables: &[(&str, &str)]| {
        let called = send(&world, session, event, variables);
        assert_eq!(called.code, Some(0), "{called:?}");
        called
            .stdout
            .contains("BECKET_DAEMON_IDLE: expected a time")
    };
    assert!(told(1, "SessionStart", &wrong));
    assert!(!told(1, "UserPromptSubmit", &wrong), "a second time");
    assert!(!told(2, "SessionStart", &[]), "somebody else");
    assert!(!told(1, "UserPromptSubmit", &wrong), "after somebody else");
    assert!(told(3, "UserPromptSubmit", &wrong), "another session");
    assert!(told(4, "SessionStart", &[wrong[0], ALONE]), "alone");
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
fn a_wrong_word_on_the_command_line_is_refused_with_the_right_one() {
    let world = world("");
    for (set, what, hint) in [
        (
            "store.keep_day=3",
            "store.keep_day is no key",
            "store.keep_days",
        ),
        (
            "hooks.x.timout=5s",
            "hooks.x.timout is no key",
            "hooks.x.timeout",
        ),
        ("colour=red", "colour is no key", "`becket config` lists"),
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
fn what_stays_goes_by_the_files() {
    let world = world("");
    let set = "hooks.style.on=Notification";
    for verb in ["up", "init", "adopt", "trust"] {
        let (code, stderr) = said(&world.output(&[verb, "--set", set]));
        assert_eq!(code, Some(2), "{verb}: {stderr}");
        let why = format!("what `becket {verb}` does stays");
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
fn what_claude_code_sends_is_taken_whatever_the_command_line_sets() {
    let world = world("");
    let payload = json!({"session_id": id(1), "hook_event_name": "Stop"});
    for set in [&["--set", "mask.enabled=false"][..], &["--set=nonsense"]] {
        let hook = ["hook", "--event", "Stop"].iter().chain(set);
        let called = call(world.becket(hook), payload.to_string().as_bytes());
        assert_eq!(called.code, Some(0), "{called:?}");
        assert!(called.stderr.contains("--set does not count"), "{called:?}");
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
fn a_session_that_wants_no_notice_gets_none() {
    let world = world("[notice]\non = \"attention\"\n");
    world.start_daemon();
    let quiet = ("BECKET_NOTICE_ON", "off");
    let rings = |session, variables: &[(&str, &str)]| {
        let called = send(&world, session, "PermissionRequest", variables);
        called.stdout.contains("terminalSequence")
    };
    assert!(rings(1, &[]) && !rings(2, &[quiet]));
    assert!(rings(3, &[ALONE]) && !rings(4, &[quiet, ALONE]));
}

#[test]
fn a_session_that_wanted_no_notice_gets_none_from_the_next_daemon() {
    let tells = "command = 'cd; echo $BECKET_NOTICE_SESSION >> told'";
    let world = world(&format!(
        "[notice]\non = \"attention\"\nhow = \"command\"\n{tells}\n"
    ));
    for (session, variables) in [
        (1, &[("BECKET_NOTICE_ON", "off"), ALONE][..]),
        (2, &[ALONE]),
    ] {
        assert!(send(&world, session, "PermissionRequest", variables).is_silent());
    }
    world.start_daemon();
    let told = || fs::read_to_string(world.home.join("told")).ok();
    let second = || told().filter(|told| told.contains(&id(2)));
    let told = wait::until(PATIENCE, second).expect("somebody is told");
    assert!(!told.contains(&id(1)), "{told}");
}

#[test]
fn the_status_line_says_what_is_wrong_with_the_environment_that_it_has() {
    let world = world("");
    world.start_daemon();
    let wrong = ("BECKET_DAEMON_IDLE", "soon");
    let line = |variables: &[(&str, &str)]| {
        let mut shim = world.command(world.programs.join("becket-hook"));
        shim.args(["--statusline", "--home"])
            .arg(&world.becket_home);
        shim.envs(variables.iter().copied());
        call(shim, json!({"session_id": id(1)}).to_string().as_bytes()).stdout
    };
    let with = |variables: &[(&str, &str)], what: &str| line(variables).contains(what);
    assert!(with(&[wrong], "config: 1 error") && !with(&[], "config"));
    // Alone that there is no daemon comes first.
    assert!(with(&[wrong, ALONE], "(+1)") && !with(&[ALONE], "(+1)"));
}
