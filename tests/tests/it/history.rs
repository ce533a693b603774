//! Turns and cost of sessions, and events with missing fields.

use std::process::Command;

use becket_tests::wait::{self, PATIENCE};
use becket_tests::world::{Called, World, call};
use serde_json::{Value, json};

const FIRST: &str = "aaaaaaaa-0000-4000-8000-000000000001";
const NEXT: &str = "bbbbbbbb-0000-4000-8000-000000000002";
const LINKED: &str = "cccccccc-0000-4000-8000-000000000003";

/// Sends an event of a session with all usual fields, as from this process's Claude Code.
fn tell(world: &World, session: &str, event: &str, fields: &Value) -> Called {
    let mut shim = world.shim(event);
    shim.env("CLAUDE_PID", std::process::id().to_string());
    tell_by(world, shim, session, event, fields)
}

fn tell_by(world: &World, shim: Command, session: &str, event: &str, fields: &Value) -> Called {
    let mut payload = json!({
        "session_id": session,
        "hook_event_name": event,
        "transcript_path": world.home.join("t.jsonl"),
        "cwd": world.home.join("work/api"),
    });
    for (name, value) in fields.as_object().into_iter().flatten() {
        payload[name] = value.clone();
    }
    call(shim, payload.to_string().as_bytes())
}

fn tool(world: &World, session: &str, name: &str, input: &Value) -> Called {
    let mut fields = json!({"tool_name": name, "tool_input": input, "tool_use_id": "t"});
    let called = tell(world, session, "PreToolUse", &fields);
    if called.stdout.is_empty() {
        fields["tool_response"] = json!({});
        tell(world, session, "PostToolUse", &fields);
    }
    called
}

fn prompt(world: &World, session: &str, prompt: &str) {
    tell(
        world,
        session,
        "UserPromptSubmit",
        &json!({"prompt": prompt}),
    );
}

/// Ends the turn; the status line then reports the cost of the session.
fn stop(world: &World, session: &str, cost: f64) {
    tell(world, session, "Stop", &json!({"stop_hook_active": false}));
    let mut line = world.command(world.programs.join("becket-hook"));
    line.args(["--statusline", "--home"])
        .arg(&world.becket_home);
    let payload = json!({
        "session_id": session,
        "model": {"id": "claude-opus-5-5"},
        "cost": {"total_cost_usd": cost},
    });
    call(line, payload.to_string().as_bytes());
}

fn show(world: &World, session: &str) -> Value {
    serde_json::from_str(&world.run(&["show", session, "--json"])).expect("JSON")
}

fn parsed(world: &World, args: &[&str]) -> Value {
    serde_json::from_str(&world.run(args)).expect("JSON")
}

fn git(world: &World, words: &str) {
    let mut git = world.command("git");
    git.args(["-c", "user.name=x", "-c", "user.email=x@x"]);
    git.args(words.split(' '))
        .current_dir(world.home.join("work/api"));
    assert!(git.status().expect("git").success(), "git {words}");
}

/// Returns the branch and the worktree of a session.
fn of_git(rows: &[Value], id: &str) -> [Value; 2] {
    let row = rows.iter().find(|row| row["session_id"] == id);
    let row = row.unwrap_or_else(|| panic!("{rows:?}"));
    [row["git_branch"].clone(), row["git_worktree"].clone()]
}

/// Creates a session of three turns that `/clear` ended, and the one after it.
fn world_with_turns() -> World {
    let world = World::new();
    std::fs::create_dir_all(world.home.join("work/api/.git")).expect("a project");
    world.start_daemon();
    let config = r#"
        [hooks.no-prod]
        on = "PreToolUse"
        tools = "Bash"
        run = "if grep -q prod; then echo off limits >&2; exit 2; fi"
    "#;
    std::fs::write(world.path("config.toml"), config).expect("a config");
    tell(&world, FIRST, "SessionStart", &json!({"source": "startup"}));
    prompt(&world, FIRST, "Fix the login\nand its test");
    let file = json!({"file_path": world.home.join("work/api/login.rs")});
    tool(&world, FIRST, "Edit", &file);
    tool(&world, FIRST, "Edit", &file);
    tool(&world, FIRST, "Bash", &json!({"command": "cargo test"}));
    stop(&world, FIRST, 0.5);
    prompt(&world, FIRST, "Deploy it");
    let refused = tool(&world, FIRST, "Bash", &json!({"command": "ship prod"}));
    assert!(refused.stdout.contains("off limits"), "{refused:?}");
    stop(&world, FIRST, 0.75);
    prompt(&world, FIRST, "Thank you");
    stop(&world, FIRST, 0.75);
    tell(&world, FIRST, "SessionEnd", &json!({"reason": "clear"}));
    tell(&world, NEXT, "SessionStart", &json!({"source": "clear"}));
    prompt(&world, NEXT, "Something else");
    stop(&world, NEXT, 0.25);
    // Figures are written with the next tick.
    let priced = wait::until(PATIENCE, || {
        let cost = |id, turn: usize| show(&world, id)["turns"][turn]["cost_usd"].as_f64();
        (cost(FIRST, 2).is_some() && cost(NEXT, 0).is_some()).then_some(())
    });
    assert!(priced.is_some(), "{}", show(&world, FIRST));
    world
}

#[test]
fn show_lists_turns_files_and_related_sessions() {
    let world = world_with_turns();
    let shown = show(&world, FIRST);
    let turns = shown["turns"].as_array().expect("turns");
    let of = |field: &str| {
        turns
            .iter()
            .map(|turn| turn[field].clone())
            .collect::<Value>()
    };
    assert_eq!(of("turn"), json!([1, 2, 3]));
    assert_eq!(
        of("prompt"),
        json!(["Fix the login", "Deploy it", "Thank you"])
    );
    assert_eq!(of("cost_usd"), json!([0.5, 0.25, 0.0]));
    assert_eq!(of("denied"), json!([0, 1, 0]));
    let calls = json!([{"tool": "Edit", "calls": 2}, {"tool": "Bash", "calls": 1}]);
    assert_eq!(turns[0]["tools"], calls);
    let decision = &turns[1]["decisions"][0];
    assert_eq!(
        (&decision["answer"], &decision["by"]),
        (&json!("deny"), &json!("no-prod"))
    );
    assert_eq!(shown["next_session_ids"], json!([NEXT]));
    assert_eq!(show(&world, NEXT)["prev_session_id"], FIRST);
    assert_eq!(shown["files"][0]["edits"], 2);

    let text = world.run(&["show", FIRST, "--turns", "2"]);
    assert!(
        !text.contains("Fix the login\n") && text.contains("1 earlier turn"),
        "{text}"
    );
    for part in [
        "Deploy it",
        "deny by no-prod on Bash",
        "login.rs",
        "2 edits",
        NEXT,
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let text = world.run(&["show", NEXT]);
    assert!(text.contains("before") && text.contains(FIRST), "{text}");
    let bad = world.output(&["show", FIRST, "--turns", "few"]);
    assert_eq!(bad.status.code(), Some(2));

    for words in [
        "init -q -b fix/login",
        "commit -q --allow-empty -m one",
        "worktree add -q -b tide ../tree",
    ] {
        git(&world, words);
    }
    let linked = json!({"source": "startup", "cwd": world.home.join("work/tree")});
    tell(&world, LINKED, "SessionStart", &linked);
    let rows = world.sessions();
    assert_eq!(of_git(&rows, NEXT), [json!("fix/login"), Value::Null]);
    assert_eq!(of_git(&rows, LINKED), [json!("tide"), json!("tree")]);
}

/// Claude Code keeps the case of the id that `--session-id` gives.
#[test]
fn ids_are_accepted_in_upper_case() {
    let world = world_with_turns();
    std::fs::write(world.home.join("t.jsonl"), "").expect("a transcript");
    let upper = "ABCDEF66-0000-4000-8000-000000000004";
    tell(&world, upper, "SessionStart", &json!({"source": "startup"}));
    tool(&world, upper, "Bash", &json!({"command": "ship prod"}));
    for words in [
        "show",
        "events --session",
        "hooks recent --session",
        "hooks stats --session",
        "why --session",
        "guard coverage --session",
        "hooks --session",
        "guard backtest --session",
    ] {
        for id in ["AAAA", "ABCDEF66", "abcdef", upper, &upper.to_lowercase()] {
            let words: Vec<&str> = words.split(' ').chain([id]).collect();
            let done = world.output(&words);
            assert!(done.status.success(), "{words:?}: {done:?}");
        }
    }
    let rows = parsed(&world, &["sessions", "--json"]);
    assert!(rows.to_string().contains(upper), "{rows}");
    for words in [&["show"][..], &["why"], &["hooks"]] {
        let mut becket = world.becket(words);
        becket.env("CLAUDE_CODE_SESSION_ID", upper);
        let done = becket.output().expect("becket runs");
        assert!(done.status.success(), "{words:?}: {done:?}");
    }
}

#[test]
fn stats_add_up_all_sessions() {
    let world = world_with_turns();
    let by = |what| parsed(&world, &["stats", "--by", what, "--json"]);
    let expected = json!({
        "day": null, "project": world.home.join("work/api"), "model": null,
        "sessions": 2, "turns": 4, "tools": 4, "denials": 1, "waiting_ms": 0,
        "cost_usd": 1.0, "input_tokens": 0, "output_tokens": 0,
    });
    assert_eq!(by("project"), json!([expected]));
    let today = becket_engine::local_time::now().date().to_string();
    let days = parsed(&world, &["stats", "--json"]);
    assert!(
        days[0]["day"] == today.as_str() || days[1]["day"] == today.as_str(),
        "{days}"
    );
    assert_eq!(by("model")[0]["model"], "claude-opus-5-5");
    let table = world.run(&["stats", "--by", "project"]);
    assert!(
        table.contains("PROJECT") && table.contains("$1.00"),
        "{table}"
    );

    let elsewhere = ["stats", "--project", "/"];
    assert!(world.run(&elsewhere).contains("$1.00"));
    let elsewhere = ["stats", "--project", "/nowhere"];
    assert!(world.run(&elsewhere).contains("No activity"));
    assert!(
        world
            .run(&["stats", "--since", "0s"])
            .contains("No activity")
    );
    for wrong in [&["sessions", "--by", "day"][..], &["stats", "--by", "hour"]] {
        assert_eq!(world.output(wrong).status.code(), Some(2), "{wrong:?}");
    }
}

#[test]
fn events_with_missing_or_wrong_fields_are_kept_and_shown() {
    let world = World::new();
    world.run(&["up", "--only-register"]);
    world.start_daemon();
    let alone = world.standalone_shim("PreToolUse");
    for shim in [world.shim("PreToolUse"), alone] {
        let odd = json!({"tool_name": 7, "tool_use_id": "t"});
        let called = tell_by(&world, shim, FIRST, "PreToolUse", &odd);
        assert!(called.is_quiet(), "{called:?}");
    }
    tell(&world, FIRST, "Stop", &json!({"stop_hook_active": false}));
    tell(&world, FIRST, "NewerThanBecket", &json!({}));
    let events = world.events();
    let fault = "the PreToolUse event lacks tool_name, tool_input";
    let faults: Vec<_> = events.iter().map(|event| event.get("fault")).collect();
    assert_eq!(
        faults,
        [Some(&json!(fault)), Some(&json!(fault)), None, None]
    );
    assert!(events.iter().all(|event| event["payload"].is_object()));
    assert!(world.run(&["events"]).contains(fault));
    let (_, doctor) = world.doctor();
    let checks = doctor["checks"].as_array().expect("checks");
    let said = checks.iter().find(|check| check["name"] == "events");
    let said = said.expect("a check of events").to_string();
    assert!(
        said.contains("2 events with a fault") && said.contains(fault),
        "{said}"
    );
}
