//! Guards through the real program: with a daemon, without one, and across both.

use std::fs;

use becket_tests::wait::{self, PATIENCE};
use becket_tests::world::{Called, World, call};
use rustix::process::Signal;
use serde_json::{Value, json};

const SESSION: &str = "77850d98-4378-4282-9d8f-d2b7113deb20";

/// Creates a world with this config.
fn world_with(config: &str) -> World {
    let world = World::new();
    fs::create_dir_all(&world.becket_home).expect("a home");
    fs::write(world.path("config.toml"), config).expect("a config");
    world
}

fn bash(world: &World, call: &str, command: &str) -> Value {
    json!({
        "hook_event_name": "PreToolUse", "session_id": SESSION, "cwd": world.root(),
        "transcript_path": "/t", "permission_mode": "default", "tool_name": "Bash",
        "tool_input": {"command": command, "description": call}, "tool_use_id": call,
    })
}

/// Returns becket's answer to a Bash call, through the shim.
fn ask(world: &World, id: &str, command: &str, with_daemon: bool) -> Option<(String, String)> {
    let mut shim = world.shim("PreToolUse");
    shim.env("CLAUDE_CODE_SESSION_ATTENDED", "1");
    if !with_daemon {
        shim.env("BECKET_NO_DAEMON", "1");
    }
    let called = call(shim, bash(world, id, command).to_string().as_bytes());
    said(&called)
}

fn said(called: &Called) -> Option<(String, String)> {
    assert_eq!(called.code, Some(0), "{called:?}");
    if called.stdout.is_empty() {
        return None;
    }
    let json: Value = serde_json::from_str(&called.stdout).expect("JSON");
    let output = &json["hookSpecificOutput"];
    let text = |key: &str| output[key].as_str().unwrap_or_default().to_owned();
    Some((text("permissionDecision"), text("permissionDecisionReason")))
}

/// Returns the code that `why` shows to the user.
fn code(world: &World) -> Option<String> {
    let why: Value = serde_json::from_str(&world.run(&["why", "--json"])).expect("JSON");
    why["allow_once"].as_str().map(str::to_owned)
}

#[test]
fn a_guard_holds_with_the_daemon_alive_stopped_and_dead() {
    let world = world_with("[guards.no-rm]\ntools = \"Bash\"\npatterns = [\"rm -rf\"]\n");
    let denied = Some((
        "deny".into(),
        "Command contains forbidden pattern: rm -rf".into(),
    ));
    world.start_daemon();
    assert_eq!(ask(&world, "1", "rm -rf build", true), denied);
    assert_eq!(ask(&world, "2", "ls", true), None);
    world.signal_daemon(Signal::STOP);
    assert_eq!(ask(&world, "3", "rm -rf build", true), denied);
    world.signal_daemon(Signal::CONT);
    world.kill_daemon();
    assert_eq!(ask(&world, "4", "rm -rf build", false), denied);
    let events = world.events();
    let by: Vec<&Value> = events
        .iter()
        .map(|event| &event["decision"]["by"])
        .collect();
    assert_eq!(by.len(), 4);
    assert_eq!(by[0], "guard:no-rm");
    assert_eq!((by[1], by[3]), (&Value::Null, by[0]));
    let alone: Vec<&Value> = events.iter().map(|event| &event["source"]).collect();
    assert_eq!((alone[0], alone[3]), (&json!("daemon"), &json!("alone")));
}

#[test]
fn guards_read_json_that_a_strict_parser_refuses() {
    let world = world_with("[guards.no-deploy]\nprompt = [\"deploy\"]\n");
    let send = |event: &str, fields: &str, with_daemon: bool| {
        let mut shim = world.shim(event);
        shim.env("CLAUDE_CODE_SESSION_ATTENDED", "1");
        if !with_daemon {
            shim.env("BECKET_NO_DAEMON", "1");
        }
        let (root, common) = (world.root().display(), r#""transcript_path":"/t""#);
        let payload = format!(
            r#"{{"hook_event_name":"{event}","session_id":"{SESSION}","cwd":"{root}",{common},{fields}}}"#
        );
        call(shim, payload.as_bytes())
    };
    let deep = format!("{}{}", "[".repeat(140), "]".repeat(140));
    let shallow = format!("{}{}", "[".repeat(50), "]".repeat(50));
    let tool = |tool: &str, input: &str| {
        format!(r#""tool_name":"{tool}","tool_use_id":"t","tool_input":{{{input}}}"#)
    };
    let half = r#""command":"rm -rf .git","description":"\ud83d""#;
    world.start_daemon();
    for with_daemon in [true, false] {
        for (fields, answer) in [
            (tool("Bash", half), Some("deny")),
            (tool("Monitor", half), Some("deny")),
            (tool("Bash", r#""command":"ls \ude00""#), None),
            (
                tool("mcp__x__get", &format!(r#""path":"a","x":{deep}"#)),
                Some("ask"),
            ),
            (
                tool("mcp__x__get", &format!(r#""path":"a","x":{shallow}"#)),
                None,
            ),
        ] {
            let answered =
                said(&send("PreToolUse", &fields, with_daemon)).map(|(answer, _)| answer);
            assert_eq!(answered.as_deref(), answer, "{fields}");
        }
        for prompt in [
            r#""prompt":"\ud83d deploy""#,
            "\"prompt\":\"deploy it\", broken",
        ] {
            let called = send("UserPromptSubmit", prompt, with_daemon);
            assert!(
                called.stdout.contains(r#""decision":"block""#),
                "{prompt}: {called:?}"
            );
        }
    }
    let events = world.events();
    let faults = events.iter().filter(|event| event["fault"].is_string());
    assert_eq!(
        faults.count(),
        2,
        "only the broken prompt has one: {events:#?}"
    );
}

#[test]
fn a_denied_call_is_allowed_once_by_a_person() {
    let world = world_with("[guards.no-rm]\npatterns = [\"rm x\"]\n");
    world.start_daemon();
    for daemon in [true, false] {
        let id = |n: u8| format!("{daemon}-{n}");
        assert!(ask(&world, &id(1), "rm x", daemon).is_some());
        let code = code(&world).expect("a code");
        assert!(
            world
                .run(&["why"])
                .contains(&format!("becket allow {code}"))
        );
        assert!(world.run(&["hooks", "recent"]).contains(&code));
        // The code is not shown to the model, and the model cannot use it.
        for verb in [&["why", "--json"][..], &["hooks", "recent"], &["why"]] {
            let inside = world
                .becket(verb)
                .env("CLAUDECODE", "1")
                .output()
                .expect("runs");
            assert!(!String::from_utf8_lossy(&inside.stdout).contains(&code));
        }
        let mut inside = world.becket(["allow", &code]);
        let inside = inside.env("CLAUDECODE", "1").output().expect("runs");
        assert_eq!(inside.status.code(), Some(1));
        assert_eq!(world.output(&["allow", "00000000"]).status.code(), Some(3));
        let line = format!("no-rm            Bash  77850d98  becket allow {code}");
        assert!(world.run(&["hooks", "recent"]).contains(&line));
        world.run(&["allow", &code]);
        assert!(
            ask(&world, &id(2), "rm x y", daemon).is_some(),
            "another input"
        );
        assert_eq!(ask(&world, &id(3), "rm x", daemon), None);
        assert_eq!(
            ask(&world, &id(3), "rm x", !daemon),
            None,
            "the same call, judged again"
        );
        assert!(ask(&world, &id(4), "rm x", daemon).is_some());
    }
    let events = world.run(&["events", "--raw"]);
    assert!(!events.contains("becket allow"));
}

#[test]
fn once_denies_the_first_try_and_passes_the_second() {
    let world = world_with(
        "[guards.think]\npatterns = [\"make deploy\"]\nanswer = \"once\"\nreason = \"Sure?\"\n",
    );
    world.start_daemon();
    let (answer, reason) = ask(&world, "1", "make deploy", true).expect("a denial");
    assert_eq!(answer, "deny");
    assert!(reason.starts_with("Sure?\n"), "{reason}");
    assert!(
        ask(&world, "1", "make deploy", false).is_some(),
        "the same try, judged again"
    );
    assert_eq!(ask(&world, "2", "make deploy", false), None);
    assert!(ask(&world, "3", "make deploy", true).is_some());
}

/// Sends an event of the session through the shim, and returns true if it was denied.
fn is_denied(world: &World, daemon: bool, event: &str, fields: &Value) -> bool {
    let mut payload = json!({
        "hook_event_name": event, "session_id": SESSION, "cwd": world.root(), "transcript_path": "/t",
        "permission_mode": "default", "tool_name": "Bash",
    });
    for (name, value) in fields.as_object().into_iter().flatten() {
        payload[name] = value.clone();
    }
    let mut shim = world.shim(event);
    shim.env("CLAUDE_CODE_SESSION_ATTENDED", "1");
    if !daemon {
        shim.env("BECKET_NO_DAEMON", "1");
    }
    let called = call(shim, payload.to_string().as_bytes());
    assert_eq!(called.code, Some(0), "{called:?}");
    called.stdout.contains("deny")
}

#[test]
fn a_pass_waits_for_the_retry_covers_its_dialog_and_ends_with_it() {
    let world = world_with(
        "[guards.no-rm]\npatterns = [\"rm x\"]\n[guards.think]\npatterns = [\"make deploy\"]\nanswer = \"once\"\n",
    );
    world.start_daemon();
    for (daemon, command) in [
        (true, "rm x"),
        (true, "make deploy"),
        (false, "rm x"),
        (false, "make deploy"),
    ] {
        let name = format!("{command}, {daemon}");
        let denied = |event: &str, call: &str, prompt: &str| {
            let fields = json!({
                "tool_input": {"command": command, "description": call}, "prompt": "go on",
                "prompt_id": format!("{name} {prompt}"), "tool_use_id": format!("{name} {call}"),
            });
            is_denied(&world, daemon, event, &fields)
        };
        let dialog_denied = |prompt: &str| {
            let fields = json!({"tool_input": {"command": command}, "prompt_id": format!("{name} {prompt}")});
            is_denied(&world, daemon, "PermissionRequest", &fields)
        };
        denied("SessionStart", "none", "p");
        assert!(denied("PreToolUse", "first", "p"), "{name}");
        if command == "rm x" {
            world.run(&["allow", &code(&world).expect("a code")]);
        }
        for (event, prompt) in [("Stop", "p"), ("UserPromptSubmit", "q"), ("Stop", "q")] {
            denied(event, "none", prompt);
        }
        assert!(!denied("PreToolUse", "retry", "r"), "{name}: it waits");
        assert!(!dialog_denied("r"), "{name}: the dialog of the retry");
        assert!(!dialog_denied("r"), "{name}: from another registration");
        assert!(dialog_denied("q"), "{name}: a dialog of another turn");
        denied("PostToolUse", "retry", "r");
        assert!(dialog_denied("r"), "{name}: its call is over");
        // A later call is not a first try.
        denied("SessionEnd", "none", "r");
        assert!(denied("PreToolUse", "third", "r"), "{name}: one call");
        denied("SessionEnd", "none", "r");
    }
}

#[test]
fn a_pass_covers_the_input_that_a_hook_rewrote() {
    let answer = json!({"hookSpecificOutput": {
        "hookEventName": "PreToolUse", "updatedInput": {"command": "rm x -v"},
    }});
    let config = format!(
        "[guards.no-rm]\npatterns = [\"rm x\"]\n[hooks.verbose]\non = \"PreToolUse\"\nrun = ['echo', '{answer}']\n"
    );
    let world = world_with(&config);
    world.start_daemon();
    for daemon in [true, false] {
        let denied = |event: &str, call: &str, command: &str| {
            let fields = json!({
                "tool_input": {"command": command}, "tool_use_id": format!("{daemon} {call}"), "prompt_id": daemon.to_string(),
            });
            is_denied(&world, daemon, event, &fields)
        };
        assert!(denied("PreToolUse", "1", "rm x"));
        world.run(&["allow", &code(&world).expect("a code")]);
        assert!(!denied("PreToolUse", "2", "rm x"), "{daemon}");
        for (command, expected) in [("rm x", false), ("rm x -v", false), ("rm x -f", true)] {
            assert_eq!(
                denied("PermissionRequest", "", command),
                expected,
                "{daemon} {command}"
            );
        }
        denied("PostToolUse", "2", "rm x -v");
        assert!(denied("PreToolUse", "3", "rm x"), "{daemon}");
    }
}

#[test]
fn no_code_is_offered_for_a_session_that_has_ended() {
    let world = world_with("[guards.no-rm]\npatterns = [\"rm x\"]\n");
    world.start_daemon();
    let mut claude = world.command("sleep").arg("600").spawn().expect("sleep");
    let deny = || {
        world.tell(SESSION, "SessionStart", &json!({"source": "resume"}));
        let mut shim = world.shim("PreToolUse");
        shim.env("CLAUDE_PID", claude.id().to_string());
        call(shim, bash(&world, "1", "rm x").to_string().as_bytes());
        code(&world).expect("a code")
    };
    let of_ended = deny();
    world.tell(SESSION, "SessionEnd", &json!({"reason": "other"}));
    assert_eq!(code(&world), None);
    assert!(!world.run(&["hooks", "recent"]).contains(&of_ended));
    let output = world.output(&["allow", &of_ended]);
    assert_eq!(output.status.code(), Some(3));
    // A killed session has no last event.
    deny();
    claude.kill().expect("kill");
    claude.wait().expect("an end");
    let gone = wait::until(PATIENCE, || code(&world).is_none().then_some(()));
    assert!(gone.is_some(), "{}", world.run(&["why"]));
}

#[test]
fn ask_becomes_deny_in_an_unattended_session_and_warn_reaches_the_model() {
    let world = world_with(
        "[guards.a]\npatterns = [\"one\"]\nanswer = \"ask\"\nreason = \"R\"\n[guards.w]\npatterns = [\"two\"]\nanswer = \"warn\"\nreason = \"W\"\n",
    );
    world.start_daemon();
    assert_eq!(
        ask(&world, "1", "one", true),
        Some(("ask".into(), "R".into()))
    );
    let mut shim = world.shim("PreToolUse");
    shim.env("CLAUDE_CODE_SESSION_ATTENDED", "0");
    let (answer, _) =
        said(&call(shim, bash(&world, "2", "one").to_string().as_bytes())).expect("an answer");
    assert_eq!(answer, "deny");
    let warned = call(
        world.shim("PreToolUse"),
        bash(&world, "3", "two").to_string().as_bytes(),
    );
    assert!(
        warned.stdout.contains("additionalContext") && warned.stdout.contains("W"),
        "{warned:?}"
    );
    assert!(!warned.stdout.contains("permissionDecision"), "{warned:?}");
}

#[test]
fn hooks_off_hints_at_switching_a_guard_off() {
    let world = World::new();
    let off = world.output(&["hooks", "off", "delete-home"]);
    assert_eq!(off.status.code(), Some(3));
    let said = String::from_utf8_lossy(&off.stderr);
    assert!(
        said.contains("delete-home is a guard, not a hook"),
        "{said}"
    );
    assert!(said.contains("[guards.delete-home]"), "{said}");
}

#[test]
fn a_guard_that_cannot_be_judged_follows_its_fail_key() {
    let world = world_with("[guards.g]\ncommand = \"psql\"\nfail = \"closed\"\n");
    for daemon in [true, false] {
        let mut shim = world.shim("PreToolUse");
        if !daemon {
            shim.env("BECKET_NO_DAEMON", "1");
        }
        let (answer, _) = said(&call(shim, b"{\"tool_name\": nonsense")).expect("an answer");
        assert_eq!(answer, "deny");
        assert_eq!(ask(&world, "1", "ls", daemon), None);
    }
    world.kill_daemon();
    // This config has no last good copy.
    let broken = world_with("[guards.g]\ncommand = \"psql\"\nfail = \"closed\"\n[[[\n");
    assert!(ask(&broken, "1", "ls", false).is_some());
    let open = world_with("[guards.g]\ncommand = \"psql\"\n[[[\n");
    assert_eq!(ask(&open, "1", "ls", false), None);
}

#[test]
fn prompts_are_blocked_and_a_session_keeps_its_hooks() {
    let world = world_with("[guards.p]\nprompt = [\"drop prod\"]\n");
    world.start_daemon();
    let prompt = |text: &str| world.tell(SESSION, "UserPromptSubmit", &json!({"prompt": text}));
    assert!(
        prompt("please drop prod now")
            .stdout
            .contains("\"decision\":\"block\"")
    );
    assert!(!prompt("hello").stdout.contains("block"));
    let settings = world.home.join(".claude/settings.json");
    fs::create_dir_all(settings.parent().expect("a folder")).expect("a folder");
    let transcript = world.home.join(".claude/projects/x/t.jsonl");
    let change = |text: &str| {
        fs::write(&settings, text).expect("settings");
        let fields = json!({
            "source": "user_settings", "file_path": settings, "transcript_path": transcript, "cwd": world.root(),
        });
        world.tell(SESSION, "ConfigChange", &fields).stdout
    };
    assert_eq!(
        change(r#"{"hooks": {"Stop": [{"command": "/x/becket-hook"}]}}"#),
        ""
    );
    assert!(change(r#"{"hooks": {}}"#).contains("block"));
    assert!(change(r#"{"disableAllHooks": true, "x": "becket-hook"}"#).contains("block"));
}

#[test]
fn guard_test_and_backtest_judge_commands() {
    let world = world_with("");
    world.start_daemon();
    let tried: Value =
        serde_json::from_str(&world.run(&["guard", "test", "--json", "git push -f"]))
            .expect("JSON");
    assert_eq!(
        (&tried["answer"], &tried["rule"]),
        (&json!("deny"), &json!("git-push-force"))
    );
    let mut keys: Vec<&str> = tried
        .as_object()
        .expect("an object")
        .keys()
        .map(|key| &**key)
        .collect();
    keys.sort_unstable();
    assert_eq!(
        keys,
        ["acts", "answer", "paths", "reason", "rule", "took_us"]
    );
    let passed: Value =
        serde_json::from_str(&world.run(&["guard", "test", "--json", "ls"])).expect("JSON");
    assert_eq!(
        (&passed["answer"], &passed["rule"]),
        (&Value::Null, &Value::Null)
    );
    assert!(world.run(&["guard", "list"]).contains("git-push-force"));
    assert_eq!(ask(&world, "1", "make deploy", true), None);
    assert!(ask(&world, "2", "git push -f", true).is_some());
    let other = world.root().join("other.toml");
    fs::write(
        &other,
        "[guards.d]\npatterns = [\"deploy\"]\n[guards.git-push-force]\nenabled = false\n",
    )
    .expect("a config");
    let backtest = |args: &[&str]| -> Value {
        let args = [&["guard", "backtest", "--json", "--since", "1d"][..], args].concat();
        serde_json::from_str(&world.run(&args)).expect("JSON")
    };
    assert_eq!(backtest(&[])["rules"], json!([]));
    let changed = backtest(&["--config", &other.display().to_string()]);
    assert_eq!(changed["calls"], 2);
    assert_eq!(changed["rules"][0]["rule"], "d");
    assert_eq!(
        changed["rules"][0]["stopped"].as_array().map(Vec::len),
        Some(1)
    );
    assert_eq!(
        changed["rules"][1]["freed"].as_array().map(Vec::len),
        Some(1)
    );
}
