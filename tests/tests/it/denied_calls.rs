//! Denied calls that ran: a mod inside Claude Code can lift a denial. Tested here without Claude Code.

use std::fs;

use becket_tests::skip::skip;
use becket_tests::terminal::Terminal;
use becket_tests::wait::{self, PATIENCE};
use becket_tests::world::{World, call};
use jiff::Timestamp;
use serde_json::{Value, json};

const SESSION: &str = "9d1f6a30-0000-4000-8000-000000000003";
const FAULT: &str = "denied, but it ran";

/// Creates a world with guards, and a notice command that records its input.
fn world() -> World {
    let world = World::new();
    fs::create_dir_all(&world.becket_home).expect("a home");
    let config = r#"
[guards.no-rm]
patterns = ["rm x"]
[guards.sure]
patterns = ["make deploy"]
answer = "ask"
[notice]
on = "attention"
command = 'cd; echo "$BECKET_NOTICE_KIND $BECKET_NOTICE_TEXT" > told.new; mv told.new told'
"#;
    fs::write(world.path("config.toml"), config).expect("a config");
    world
}

/// Sends an event of a call, and returns becket's output.
fn send(world: &World, daemon: bool, event: &str, id: &str, command: &str) -> String {
    let transcript = world
        .home
        .join(format!(".claude/projects/p/{SESSION}.jsonl"));
    let payload = json!({
        "hook_event_name": event, "session_id": SESSION, "cwd": world.root(), "transcript_path": transcript,
        "tool_name": "Bash", "tool_input": {"command": command}, "tool_use_id": id, "prompt_id": "p",
        "tool_response": {}, "error": "exit 1",
    });
    let mut shim = world.shim(event);
    shim.env("CLAUDE_CODE_SESSION_ATTENDED", "1");
    if !daemon {
        shim.env("BECKET_NO_DAEMON", "1");
    }
    call(shim, payload.to_string().as_bytes()).stdout
}

/// Returns the ids of the calls whose result has the fault, once there are `count`.
fn faults(world: &World, count: usize) -> Vec<String> {
    let find = || {
        let events = world.events();
        let faulty = events.iter().filter(|event| event["fault"] == FAULT);
        let ids = faulty.filter_map(|event| event["payload"]["tool_use_id"].as_str());
        let ids: Vec<String> = ids.map(str::to_owned).collect();
        (ids.len() >= count).then_some(ids)
    };
    wait::until(PATIENCE, find).unwrap_or_else(|| panic!("{:#?}", world.events()))
}

/// Writes a transcript in which this call has ended.
fn write_transcript(world: &World, id: &str) {
    let folder = world.home.join(".claude/projects/p");
    fs::create_dir_all(&folder).expect("a folder");
    let blocks = [
        (
            "assistant",
            json!({"type": "tool_use", "id": id, "name": "Bash", "input": {}}),
        ),
        (
            "user",
            json!({"type": "tool_result", "tool_use_id": id, "content": "done"}),
        ),
    ];
    let lines = blocks.map(|(kind, block)| {
        let at = Timestamp::now().to_string();
        let line = json!({"type": kind, "timestamp": at, "message": {"content": [block]}});
        format!("{line}\n")
    });
    fs::write(folder.join(format!("{SESSION}.jsonl")), lines.concat()).expect("a transcript");
}

#[test]
fn a_denied_call_that_ran_is_shown_everywhere() {
    let world = world();
    world.start_daemon();
    assert!(send(&world, true, "PreToolUse", "a", "rm x").contains("deny"));
    let said = send(&world, true, "PostToolUse", "a", "rm x");
    assert!(
        said.contains("\"systemMessage\":\"becket denied this call"),
        "{said}"
    );
    assert_eq!(faults(&world, 1), ["a"]);
    let told = wait::until(PATIENCE, || {
        fs::read_to_string(world.home.join("told")).ok()
    });
    let told = told.expect("a notice");
    assert_eq!(told, "ran-denied ran a Bash call that becket had denied\n");
    let why: Value = serde_json::from_str(&world.run(&["why", "--json"])).expect("JSON");
    assert_eq!(
        (&why["event"], &why["fault"]),
        (&json!("PostToolUse"), &json!(FAULT))
    );
    assert!(world.run(&["why"]).contains(FAULT));
    write_transcript(&world, "a");
    let coverage: Value =
        serde_json::from_str(&world.run(&["guard", "coverage", "--json"])).expect("JSON");
    let ran = &coverage[0]["ran_denied"][0];
    assert_eq!(
        (&ran["tool_use_id"], &ran["tool"]),
        (&json!("a"), &json!("Bash"))
    );
    let line = format!("{FAULT}: Bash of session 9d1f6a30");
    assert!(world.run(&["guard", "coverage"]).contains(&line));
    let (_, doctor) = world.doctor();
    let checks = doctor["checks"].as_array().cloned().unwrap_or_default();
    let check = |name: &str| checks.iter().find(|check| check["name"] == name).cloned();
    let denials = check("denials").expect("a check");
    assert_eq!(denials["state"], "broken");
    let what = denials["what"].as_str().unwrap_or_default();
    assert!(
        what.starts_with("1 call that becket had denied ran"),
        "{what}"
    );
    assert_eq!(check("events"), None, "the same again");
    match Terminal::of(&world.becket::<&str>([]), (140, 30)) {
        Ok(view) => {
            view.wait_text("1 call that becket had denied ran");
            view.wait_text(&format!("{FAULT}: rm x"));
        }
        Err(why) => skip("a denied call in the live view", &why),
    }
}

#[test]
fn an_open_view_and_coverage_show_at_once_that_a_denied_call_ran() {
    let world = world();
    world.start_daemon();
    let view = Terminal::of(&world.becket::<&str>([]), (140, 30));
    if let Ok(view) = &view {
        view.wait_text("No sessions");
    }
    send(&world, true, "PreToolUse", "a", "rm x");
    send(&world, true, "PostToolUse", "a", "rm x");
    match view {
        Ok(view) => drop(view.wait_text("1 call that becket had denied ran")),
        Err(why) => skip("a denied call in the open view", &why),
    }
    // Claude Code writes the transcript later, or never.
    let line = format!("{FAULT}: Bash of session 9d1f6a30");
    for args in [
        &["guard", "coverage"][..],
        &["guard", "coverage", "--session", SESSION],
    ] {
        let said = world.run(args);
        assert!(said.contains(&line), "{said}");
    }
}

#[test]
fn a_denial_is_remembered_across_daemon_and_standalone() {
    let world = world();
    world.start_daemon();
    let cases = [
        ("restart", true, "PostToolUseFailure", true),
        ("alone, then daemon", false, "PostToolUse", true),
        ("daemon, then alone", true, "PostToolUse", false),
        ("alone", false, "PostToolUse", false),
    ];
    for (count, (id, denied_by_daemon, event, result_to_daemon)) in (1..).zip(cases) {
        let said = send(&world, denied_by_daemon, "PreToolUse", id, "rm x");
        assert!(said.contains("deny"), "{id}");
        if id == "restart" {
            world.kill_daemon();
            world.start_daemon();
        }
        send(&world, result_to_daemon, event, id, "rm x");
        assert!(faults(&world, count).contains(&id.to_owned()), "{id}");
    }
}

#[test]
fn an_allowed_call_that_ran_is_not_reported() {
    let world = world();
    world.start_daemon();
    // A denied call, and the retry that the user allowed.
    assert!(send(&world, true, "PreToolUse", "first", "rm x").contains("deny"));
    let why: Value = serde_json::from_str(&world.run(&["why", "--json"])).expect("JSON");
    let code = why["allow_once"].as_str().expect("a code");
    world.run(&["allow", code]);
    assert_eq!(send(&world, true, "PreToolUse", "second", "rm x"), "");
    // The same event from another registration.
    let double = json!({
        "hook_event_name": "PreToolUse", "session_id": SESSION, "cwd": world.root(), "tool_name": "Bash",
        "tool_input": {"command": "rm x"}, "tool_use_id": "second", "prompt_id": "p",
    });
    let mut plugin = world.command(world.programs.join("becket-hook"));
    plugin.args(["--event", "PreToolUse", "--from", "plugin", "--home"]);
    plugin.arg(&world.becket_home);
    assert_eq!(call(plugin, double.to_string().as_bytes()).stdout, "");
    assert_eq!(send(&world, true, "PostToolUse", "second", "rm x"), "");
    // A call that the user approved in the dialog.
    assert!(send(&world, true, "PreToolUse", "asked", "make deploy").contains("ask"));
    assert_eq!(
        send(&world, true, "PostToolUse", "asked", "make deploy"),
        ""
    );
    // Another session may have a call of the same id.
    let fields =
        json!({"tool_name": "Bash", "tool_input": {}, "tool_response": {}, "tool_use_id": "first"});
    assert!(world.tell("other", "PostToolUse", &fields).is_silent());
    world.run(&["sessions"]);
    let events = world.events();
    assert!(
        events.iter().all(|event| event["fault"] != FAULT),
        "{events:#?}"
    );
}

#[test]
fn doctor_lists_the_mods_that_can_lift_a_denial() {
    let world = World::new();
    world.run(&["up", "--only-register"]);
    let claude = world.home.join(".claude");
    let project = world.home.join("shop");
    fs::create_dir_all(project.join(".git")).expect("a project");
    let make = |folder: &std::path::Path, hooks: &str, code: &str| {
        fs::create_dir_all(folder.join("hooks/lib")).expect("a folder");
        fs::write(folder.join("hooks/hooks.json"), hooks).expect("hooks.json");
        fs::write(folder.join("hooks/lib/register.js"), code).expect("code");
    };
    let (modules, none) = (r#"{"modules": ["./lib/register.js"]}"#, r#"{"hooks": {}}"#);
    let installed = world.root().join("market/lifter/1.0");
    make(
        &installed,
        modules,
        "on('classic.PreToolUse', async () => ({}))",
    );
    make(
        &claude.join("skills/checker"),
        modules,
        "on('tool.check', f); on('tool.call', g)",
    );
    make(
        &claude.join("skills/painter"),
        modules,
        "on('ui.render', f)",
    );
    make(&claude.join("skills/hooker"), none, "on('tool.check', f)");
    make(
        &project.join(".claude/skills/caller"),
        modules,
        "on('tool.call', f)",
    );
    // Their manifests name the hooks file, which is beside the code.
    let elsewhere = |name: &str, place: &str, hooks: Value| {
        let folder = claude.join("skills").join(name);
        make(&folder, none, "");
        for place in [".claude-plugin", place] {
            fs::create_dir_all(folder.join(place)).expect("a folder");
        }
        let manifest = json!({"name": name, "hooks": hooks}).to_string();
        fs::write(folder.join(".claude-plugin/plugin.json"), manifest).expect("a manifest");
        let hooks = r#"{"modules": ["./register.js"]}"#;
        fs::write(folder.join(place).join("extra.json"), hooks).expect("a hooks file");
        fs::write(folder.join(place).join("register.js"), "on('tool.call', f)").expect("code");
        folder
    };
    let named = elsewhere("named", "conf", json!("./conf/extra.json"));
    let deep = elsewhere(
        "deep",
        "a/b/c/d/e/f/g",
        json!(["./a/b/c/d/e/f/g/extra.json"]),
    );
    let list = json!({"version": 2, "plugins": {"lifter@market": [{"scope": "user", "installPath": installed}]}});
    fs::create_dir_all(claude.join("plugins")).expect("a folder");
    fs::write(
        claude.join("plugins/installed_plugins.json"),
        list.to_string(),
    )
    .expect("a list");
    let mut doctor = world.becket(["doctor", "--json"]);
    let told = doctor.current_dir(&project).output().expect("runs");
    let told: Value = serde_json::from_slice(&told.stdout).expect("JSON");
    let checks = told["checks"].as_array().cloned().unwrap_or_default();
    let mods = checks.iter().filter(|check| check["name"] == "mods");
    let mut mods: Vec<&str> = mods.filter_map(|check| check["what"].as_str()).collect();
    mods.sort_unstable();
    let says = |folder: &std::path::Path, names: &str| {
        let folder = folder.display();
        format!("the mod in {folder} names {names}: it can lift a denial")
    };
    let mut expected = [
        says(&installed, "classic."),
        says(&claude.join("skills/checker"), "tool.call, tool.check"),
        says(&project.join(".claude/skills/caller"), "tool.call"),
        says(&named, "tool.call"),
        says(&deep, "tool.call"),
    ];
    expected.sort();
    assert_eq!(mods, expected, "{told:#}");
}
