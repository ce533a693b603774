//! The switches through the real program: `disable`, `enable`, `hooks` and `gc`, with and without a daemon,
//! one at a time and concurrently; and the files of the slash commands.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, SystemTime};

use becket_tests::world::{World, call};
use serde_json::{Value, json};

const SESSION: &str = "77850d98-4378-4282-9d8f-d2b7113deb20";
const OTHER: &str = "11111111-2222-4333-8444-555555555555";

/// Creates a world whose config names these hooks, all on PreToolUse.
fn world_with(hooks: &[&str]) -> World {
    let world = World::new();
    let table = |name: &&str| {
        format!(
            "[hooks.{name}]\ndescription = \"About {name}\"\non = \"PreToolUse\"\nrun = \"true\"\n\n"
        )
    };
    fs::create_dir_all(&world.becket_home).expect("a home");
    let config: String = hooks.iter().map(table).collect();
    fs::write(world.path("config.toml"), config).expect("a config");
    world
}

/// Returns becket as a session of Claude Code calls it, without a daemon.
fn inside(world: &World, session: &str, args: &[&str]) -> Command {
    let mut becket = world.becket(args);
    becket
        .env("CLAUDE_CODE_SESSION_ID", session)
        .env("BECKET_NO_DAEMON", "1");
    becket
}

fn said(output: &Output) -> (String, i32) {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (text, output.status.code().expect("an exit"))
}

fn say(world: &World, args: &[&str]) -> (String, i32) {
    said(&inside(world, SESSION, args).output().expect("becket runs"))
}

fn file(world: &World, session: &str) -> PathBuf {
    world.path("sessions").join(format!("{session}.json"))
}

fn disabled(world: &World, session: &str) -> Vec<String> {
    let text = fs::read(file(world, session)).expect("a file");
    let json: Value = serde_json::from_slice(&text).expect("JSON");
    let names = json["disabledHooks"].as_array().expect("a list");
    let name = |name: &Value| name.as_str().expect("a name").to_owned();
    names.iter().map(name).collect()
}

fn state_of(world: &World, hook: &str) -> String {
    let (text, code) = say(world, &["hooks", "--json"]);
    assert_eq!(code, 0);
    let hooks: Vec<Value> = serde_json::from_str(&text).expect("a list");
    let found = hooks.iter().find(|it| it["name"] == hook).expect("a hook");
    found["state"].as_str().expect("a state").to_owned()
}

#[test]
fn a_hook_is_off_in_one_session_and_on_in_another() {
    let world = world_with(&["typecheck-mine", "lint-mine"]);
    let (text, code) = say(&world, &["disable", "typecheck"]);
    assert_eq!(
        (&*text, code),
        ("🔒 Disabled typecheck-mine for this session\n", 0)
    );
    assert!(file(&world, SESSION).exists());
    assert_eq!(state_of(&world, "typecheck-mine"), "disabled");
    assert_eq!(state_of(&world, "lint-mine"), "enabled");
    let other = inside(&world, OTHER, &["hooks", "--json"]).output();
    assert!(!said(&other.expect("becket runs")).0.contains("disabled\""));
    let (text, code) = say(&world, &["enable", "typecheck"]);
    assert_eq!(
        (&*text, code),
        ("✅ Re-enabled typecheck-mine for this session\n", 0)
    );
    assert_eq!(state_of(&world, "typecheck-mine"), "enabled");
    assert!(world.daemons().is_empty(), "a daemon was started");
}

#[test]
fn slash_command_answers_name_no_session() {
    let world = world_with(&["lint"]);
    let types = |session: &str, prompt: &str, alone: bool| {
        let event = json!({"hook_event_name": "UserPromptSubmit", "session_id": session,
            "prompt": prompt, "cwd": world.home});
        let mut shim = world.shim("UserPromptSubmit");
        if alone {
            shim.env("BECKET_NO_DAEMON", "1");
        }
        call(shim, event.to_string().as_bytes())
    };
    for (session, alone) in [(SESSION, false), (OTHER, true)] {
        let last = || {
            let all = world.sessions();
            let row = all.iter().find(|row| row["session_id"] == session);
            row.unwrap_or_else(|| panic!("{all:?}"))["last_prompt"].clone()
        };
        let said = types(session, "/hook:disable lint", alone);
        assert!(said.stdout.contains("Disabled lint"), "{said:?}");
        assert_eq!(last(), Value::Null, "alone: {alone}");
        types(session, "fix it", alone);
        types(session, "/hook:enable lint", alone);
        assert_eq!(last(), "fix it", "alone: {alone}");
    }
}

#[test]
fn a_guard_cannot_be_disabled_as_a_hook_and_the_hint_names_the_way() {
    let world = world_with(&["typecheck"]);
    let (text, code) = say(&world, &["disable", "delete-folder"]);
    assert_eq!(code, 3, "{text}");
    assert!(text.contains("'delete-folder' is a guard"), "{text}");
    assert!(text.contains("[guards.delete-folder]"), "{text}");
}

#[test]
fn hook_names_match_loosely() {
    let world = world_with(&["lint-mine", "typecheck-mine"]);
    let upper = SESSION.to_uppercase();
    let (text, code) = say(
        &world,
        &["disable", "\"LINT\",", "typecheck", "--session", &upper],
    );
    assert_eq!(
        (&*text, code),
        (
            "🔒 Disabled lint-mine for this session\n🔒 Disabled typecheck-mine for this session\n",
            0
        )
    );
    assert_eq!(disabled(&world, SESSION), ["lint-mine", "typecheck-mine"]);
    let json = fs::read_to_string(file(&world, SESSION)).expect("a file");
    assert!(json.contains(SESSION) && !json.contains(&upper), "{json}");
    let (text, code) = say(&world, &["enable", "lint", "nothing"]);
    assert_eq!(code, 3, "{text}");
    assert!(text.ends_with("Nothing was changed.\n"), "{text}");
    assert_eq!(disabled(&world, SESSION).len(), 2);
    let (text, code) = say(&world, &["enable", "lint", "types"]);
    assert_eq!(code, 0, "{text}");
    assert_eq!(disabled(&world, SESSION), [""; 0]);
    let (text, code) = say(&world, &["disable", "self-review"]);
    assert_eq!(code, 3);
    assert!(text.contains("self-review is built in and off"), "{text}");
    let (text, _) = say(&World::new(), &["hooks"]);
    assert!(text.contains("`becket hooks adopt` moves hooks"), "{text}");
}

#[test]
fn verbs_exit_differently_for_ambiguous_and_missing_names() {
    let world = world_with(&["typecheck-mine", "lint-mine"]);
    for (args, code, line) in [
        (
            vec!["disable", "mine"],
            2,
            "🤔 Multiple hooks match 'mine':",
        ),
        (
            vec!["enable", "nothing"],
            3,
            "❌ No hook found matching 'nothing'",
        ),
        (vec!["disable"], 0, "Available hooks for this project:"),
        (
            vec!["hooks", "nothing"],
            3,
            "❌ No hook found matching 'nothing'",
        ),
    ] {
        let (text, exit) = say(&world, &args);
        assert_eq!((exit, text.lines().next()), (code, Some(line)), "{args:?}");
        let slash = [&args[..1], &["--slash"], &args[1..]].concat();
        let (text, exit) = say(&world, &slash);
        assert_eq!(exit, 0, "{slash:?}: {text}");
    }
    assert!(!world.path("sessions").exists(), "nothing was changed");
}

#[test]
fn fifty_concurrent_processes_lose_no_switch() {
    let names: Vec<String> = (0..50).map(|number| format!("hook{number:02}")).collect();
    let hooks: Vec<&str> = names.iter().map(String::as_str).collect();
    let world = world_with(&hooks);
    let all = |verb: &str| {
        let start = |hook: &&str| {
            let mut becket = inside(&world, SESSION, &[verb, hook]);
            becket.stdout(Stdio::piped()).stderr(Stdio::piped());
            becket.spawn().expect("becket starts")
        };
        let children: Vec<_> = hooks.iter().map(start).collect();
        for child in children {
            let output = child.wait_with_output().expect("becket ends");
            assert!(output.status.success(), "{output:?}");
        }
        let mut disabled = disabled(&world, SESSION);
        disabled.sort();
        disabled
    };
    assert_eq!(all("disable"), names);
    assert!(all("enable").is_empty());
    let entries = fs::read_dir(world.path("sessions")).expect("a folder");
    assert_eq!(entries.count(), 2, "the file and the lock");
}

#[test]
fn with_several_sessions_disable_lists_them_and_picks_none() {
    let world = world_with(&["lint-mine"]);
    let project = world.root().join("project");
    fs::create_dir_all(project.join(".git")).expect("a project");
    let third = "22222222-2222-4333-8444-555555555555";
    for (session, cwd) in [(SESSION, &project), (third, &project), (OTHER, &world.home)] {
        let fields = json!({"cwd": cwd, "source": "startup"});
        world.tell(session, "SessionStart", &fields);
    }
    let mut becket = world.becket(["disable", "lint"]);
    let output = becket.current_dir(&project).output().expect("becket runs");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr.contains("--session"), "{stderr}");
    assert!(
        stderr.contains(SESSION) && stderr.contains(third) && !stderr.contains(OTHER),
        "{stderr}"
    );

    let mut becket = world.becket(["disable", "lint", "--session", &SESSION[..6]]);
    let output = becket.current_dir(&project).output().expect("becket runs");
    assert_eq!(said(&output).0, "🔒 Disabled lint-mine for this session\n");
    assert_eq!(disabled(&world, SESSION), ["lint-mine"]);
    let json: Value =
        serde_json::from_slice(&fs::read(file(&world, SESSION)).expect("a file")).expect("JSON");
    let real = project.canonicalize().expect("a folder");
    assert_eq!(json["workingDirectory"], real.to_str().expect("UTF-8"));
}

#[test]
fn a_damaged_switch_file_is_set_aside_and_reported() {
    let world = world_with(&["lint-mine", "house-style"]);
    say(&world, &["disable", "lint"]);
    fs::write(file(&world, SESSION), "{\"disabledHooks\": [").expect("damage");
    let (text, code) = say(&world, &["disable", "house"]);
    assert_eq!(code, 0);
    assert!(
        text.starts_with("🔒 Disabled house-style for this session\n⚠️  "),
        "{text}"
    );
    assert_eq!(disabled(&world, SESSION), ["house-style"]);

    fs::write(file(&world, SESSION), "x").expect("damage");
    let output = inside(&world, SESSION, &["hooks"])
        .output()
        .expect("becket runs");
    assert!(String::from_utf8_lossy(&output.stderr).contains("set aside as"));
    assert!(output.status.success() && !file(&world, SESSION).exists());
}

fn age(path: &Path, days: u64) {
    let before = SystemTime::now() - Duration::from_secs(days * 24 * 3600);
    let file = fs::File::open(path).expect("a file");
    file.set_modified(before).expect("another time");
}

#[test]
fn gc_lists_old_switch_files_and_deletes_only_with_yes() {
    let world = world_with(&["lint-mine"]);
    let gone = "99999999-0000-4000-8000-000000000000";
    let just_gone = "99999999-0000-4000-8000-000000000001";
    for session in [SESSION, OTHER, gone, just_gone] {
        let args = ["disable", "lint", "--session", session];
        assert!(
            inside(&world, SESSION, &args)
                .status()
                .expect("becket")
                .success()
        );
    }
    fs::write(world.path("sessions/notes.json"), "{}").expect("a person's");
    let memory = world.path("run/hooks").join(gone).join("lint-mine");
    fs::create_dir_all(&memory).expect("a memory");
    fs::write(memory.join("seen"), "x").expect("a memory");
    world.tell(
        OTHER,
        "SessionStart",
        &json!({"cwd": world.home, "source": "startup"}),
    );
    for session in [SESSION, OTHER, gone] {
        age(&file(&world, session), 40);
    }
    age(&world.path("sessions/notes.json"), 40);
    for path in [
        memory.join("seen"),
        memory.clone(),
        world.path("run/hooks").join(gone),
    ] {
        age(&path, 31);
    }

    let doctor = world.output(&["doctor"]).stdout;
    let doctor = String::from_utf8_lossy(&doctor);
    assert!(doctor.contains("`becket gc` deletes them"), "{doctor}");
    let listed = world.run(&["gc"]);
    assert!(listed.contains("Nothing was deleted"), "{listed}");
    assert!(
        !listed.contains(OTHER) && !listed.contains("notes"),
        "{listed}"
    );
    assert!(!listed.contains(just_gone), "{listed}");
    let (text, _) = said(
        &inside(&world, SESSION, &["gc", "--yes", "--json"])
            .output()
            .expect("gc"),
    );
    let deleted: Vec<Value> = serde_json::from_str(&text).expect("a list");
    let what: Vec<&str> = deleted
        .iter()
        .filter_map(|it| it["what"].as_str())
        .collect();
    assert_eq!(what, ["memory", "switches"], "{text}");
    assert!(file(&world, SESSION).exists(), "who calls lives");
    assert!(file(&world, OTHER).exists(), "it lives");
    assert!(file(&world, just_gone).exists(), "it may come back");
    assert!(!file(&world, gone).exists() && !world.path("run/hooks").join(gone).exists());
    assert!(world.path("sessions/notes.json").exists());
}

fn commands(world: &World) -> PathBuf {
    world.home.join(".claude/commands/hook")
}

#[test]
fn init_writes_the_slash_commands_and_uninit_removes_only_those() {
    let world = World::new();
    let shown = world.run(&["up", "--only-register", "--dry-run"]);
    assert!(shown.contains("commands/hook/disable.md"), "{shown}");
    assert!(!commands(&world).exists());
    world.run(&["up", "--only-register"]);
    let text = fs::read_to_string(commands(&world).join("disable.md")).expect("a command");
    assert!(
        world
            .run(&["up", "--only-register"])
            .starts_with("already registered")
    );
    let again = fs::read_to_string(commands(&world).join("disable.md")).expect("a command");
    assert_eq!(text, again, "nothing is written anew without need");
    world.run(&["down"]);
    assert!(!world.home.join(".claude/commands").exists());

    // Files from before, and changes of the user.
    fs::create_dir_all(commands(&world)).expect("a folder");
    let own = world.home.join(".claude/commands/implement.md");
    fs::write(&own, "my own way").expect("a command");
    fs::write(commands(&world).join("enable.md"), "mine").expect("a command");
    let told = world.run(&["up", "--only-register"]);
    assert!(told.contains("enable.md alone"), "{told}");
    let status = commands(&world).join("status.md");
    let changed = fs::read_to_string(&status).expect("a command") + "more";
    fs::write(&status, &changed).expect("a change");
    assert!(own.with_file_name("brainstorm.md").exists());
    let told = world.run(&["down"]);
    assert!(
        told.contains("enable.md alone") && told.contains("status.md alone"),
        "{told}"
    );
    assert!(!commands(&world).join("disable.md").exists());
    assert_eq!(
        fs::read_to_string(commands(&world).join("enable.md")).expect("it"),
        "mine"
    );
    assert_eq!(fs::read_to_string(&status).expect("it"), changed);
    assert_eq!(fs::read_to_string(&own).expect("it"), "my own way");
    assert!(!own.with_file_name("brainstorm.md").exists());
}

#[test]
fn project_and_user_registrations_share_the_commands() {
    let world = World::new();
    let project = world.root().join("project");
    fs::create_dir_all(project.join(".git")).expect("a project");
    let run = |args: &[&str]| {
        let output = world.becket(args).current_dir(&project).output();
        assert!(output.expect("becket runs").status.success(), "{args:?}");
    };
    let file = project.join(".claude/commands/hook/disable.md");
    run(&["up", "--only-register", "--project"]);
    let text = fs::read_to_string(&file).expect("a command");
    assert!(
        text.contains("\nbecket disable --slash"),
        "no path of this machine: {text}"
    );
    run(&["up", "--only-register", "--local"]);
    run(&["down", "--local"]);
    assert!(file.exists(), "the project needs it");
    run(&["down", "--project"]);
    assert!(!project.join(".claude").exists());
}

#[test]
fn a_session_without_a_process_ends_after_an_hour() {
    let world = World::new();
    let two_hours_ago = jiff::Timestamp::now().as_millisecond() - 2 * 3600 * 1000;
    let id = becket_wire::EventId::new(two_hours_ago, [7; 2]);
    let envelope = json!({
        "id": id, "at": two_hours_ago, "version": becket_wire::Version::current(),
        "home": world.becket_home, "pid": 4,
    });
    let envelope = serde_json::from_value(envelope).expect("an envelope");
    let payload = json!({
        "hook_event_name": "UserPromptSubmit", "session_id": SESSION, "cwd": "/w", "prompt": "go",
    });
    let payload = payload.to_string();
    let frame = becket_wire::rpc::encode_event(&envelope, payload.as_bytes()).expect("a frame");
    fs::create_dir_all(world.path("spool")).expect("a spool");
    fs::write(world.path("spool").join(format!("{id}.ev")), frame).expect("an event");
    let ended = becket_tests::wait::until(becket_tests::wait::PATIENCE, || {
        let listed = world.run(&["sessions", "--all", "--json"]);
        (listed.contains(SESSION) && listed.contains("process_gone")).then_some(())
    });
    assert!(ended.is_some(), "{}", world.run(&["sessions", "--all"]));
    assert!(!world.run(&["sessions"]).contains(SESSION));
}

#[test]
fn in_a_shell_disable_picks_the_only_session_of_the_project() {
    let world = world_with(&["lint-mine", "test-mine"]);
    let project = world.home.join("shop");
    fs::create_dir_all(project.join(".git")).expect("a project");
    let switch = |args: &[&str]| {
        let mut becket = world.becket(args);
        let output = becket.current_dir(&project).output().expect("becket");
        (
            said(&output),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    };
    let start = json!({"cwd": project, "source": "startup"});
    world.tell(SESSION, "SessionStart", &start);
    let ((lines, code), told) = switch(&["disable", "lint"]);
    assert_eq!(
        (&*lines, code),
        ("🔒 Disabled lint-mine for this session\n", 0)
    );
    assert!(told.contains(SESSION), "{told}");
    let ((lines, code), _) = switch(&["disable", "--all"]);
    assert_eq!(code, 0);
    assert!(lines.contains("lint-mine' is already disabled"), "{lines}");
    assert!(lines.contains("Disabled test-mine"), "{lines}");
    let ((lines, _), _) = switch(&["enable", "--all"]);
    assert_eq!(lines.matches("Re-enabled").count(), 2, "{lines}");
    world.tell(OTHER, "SessionStart", &start);
    let ((_, code), told) = switch(&["disable", "lint"]);
    assert_eq!(code, 2, "{told}");
    assert!(told.contains(SESSION) && told.contains(OTHER), "{told}");
}

#[test]
fn hooks_on_and_off_change_the_config() {
    let world = world_with(&["lint-mine"]);
    let project = world.home.join("shop");
    fs::create_dir_all(project.join(".git")).expect("a project");
    let theirs = "[hooks.theirs]\non = \"Stop\"\nrun = \"true\"\n";
    fs::create_dir_all(project.join(".becket")).expect("a folder");
    fs::write(project.join(".becket/config.toml"), theirs).expect("a config");
    let becket = |args: &[&str]| {
        let output = world.becket(args).current_dir(&project).output();
        let output = output.expect("becket");
        let (text, code) = said(&output);
        (
            format!("{text}{}", String::from_utf8_lossy(&output.stderr)),
            code,
        )
    };
    assert_eq!(becket(&["trust", "--yes"]).1, 0);
    let before = fs::read_to_string(world.path("config.toml")).expect("a config");
    let state = |name: &str| {
        let rows: Vec<Value> = serde_json::from_str(&becket(&["hooks", "--json"]).0).expect("JSON");
        let row = rows.into_iter().find(|row| row["name"] == name);
        row.map(|row| row["state"].as_str().expect("a state").to_owned())
    };
    for name in ["lint-mine", "theirs"] {
        assert_eq!(becket(&["hooks", "off", name]).1, 0);
        assert_eq!(state(name).as_deref(), Some("off"));
    }
    assert_eq!(
        said(&world.output(&["config", "check"])).1,
        0,
        "elsewhere too"
    );
    for name in ["lint-mine", "theirs", "check-todos"] {
        assert_eq!(becket(&["hooks", "on", name]).1, 0);
        assert_eq!(state(name).as_deref(), Some("enabled"));
    }
    let after = fs::read_to_string(world.path("config.toml")).expect("a config");
    assert!(
        !after.contains("theirs") && after.starts_with(before.trim_end()),
        "{after}"
    );
    let (said, code) = becket(&["hooks", "on", "lint-changed", "self-review"]);
    assert_eq!(code, 0, "{said}");
    assert_eq!(state("self-review").as_deref(), Some("enabled"), "{said}");
    assert_eq!(becket(&["hooks", "off", "lint-mine", "no-such"]).1, 3);
    assert_eq!(
        state("lint-mine").as_deref(),
        Some("enabled"),
        "not half of it"
    );
    assert_eq!(becket(&["hooks", "off", "no-such"]).1, 3);
    assert_eq!(becket(&["hooks", "off", "changed"]).1, 2);
}
