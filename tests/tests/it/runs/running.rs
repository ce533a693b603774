//! `becket hooks recent` and `becket why` list running hooks.

use std::fs;
use std::io::Write;
use std::time::Instant;

use becket_tests::wait::{self, PATIENCE};
use becket_tests::world::{finish, start};
use serde_json::{Value, json};

use super::{OTHER, RunWorld, SESSION, outcomes, text};

/// A hook that is waited for and an async hook, which run until they are released, and a hook that ends.
const HOOKS: &str = r#"
    [hooks.waits]
    on = "PostToolUse"
    run = "touch began; while ! test -e go; do sleep 0.05; done; echo no >&2; exit 2"
    timeout = "300s"

    [hooks.behind]
    on = "PostToolUse"
    run = "touch began-behind; while ! test -e go; do sleep 0.05; done"
    timeout = "200s"
    async = true

    [hooks.ends]
    on = "PostToolUse"
    run = "true"
"#;

fn pairs<const N: usize>(expected: [(&str, &str); N]) -> Vec<(String, String)> {
    let owned = |(hook, outcome): (&str, &str)| (hook.to_owned(), outcome.to_owned());
    expected.map(owned).to_vec()
}

#[test]
fn a_running_hook_is_listed_before_it_ends() {
    let world = RunWorld::new();
    fs::write(world.path("config.toml"), HOOKS).expect("a config");
    world.start_daemon();
    let mut shim = start(world.shim("PostToolUse"));
    let began = Instant::now();
    let event = world.event(SESSION);
    let mut stdin = shim.stdin.take().expect("stdin");
    stdin.write_all(event.as_bytes()).expect("an event");
    drop(stdin);
    let recent = || world.json(&["hooks", "recent", "--json"]);
    let expected = pairs([("behind", "running"), ("waits", "running")]);
    let seen = wait::until(PATIENCE, || {
        let recent = recent();
        (outcomes(&recent) == expected).then_some(recent)
    });
    // All questions come before any assertion: a failed test must not leave a hook that waits for ever.
    let top = world.json(&["hooks", "recent", "2", "--json"]);
    let of_another = world.output(&["hooks", "recent", "--json", "--hook", "unknown"]);
    let stats = world.json(&["hooks", "stats", "--json"]);
    let shown = text(&world.output(&["hooks", "recent"]).stdout);
    let id = top[0]["event_id"].as_str().unwrap_or_default().to_owned();
    let why = world.output(&["why", &id, "--json"]);
    let why_shown = text(&world.output(&["why", &id]).stdout);
    let bare = world.output(&["why", "--json"]);
    let of_another_session = world.output(&["why", "--session", OTHER]);
    fs::write(world.project.join("go"), "").expect("a file");
    let called = finish(shim, began, PATIENCE);

    let seen = seen.unwrap_or_else(|| panic!("they never ran: {shown}"));
    for one in seen.as_array().expect("a list") {
        assert_eq!(one["session_id"], SESSION, "{one:#}");
        assert_eq!(one["tool"], "Write", "{one:#}");
        assert!(one["until"].is_string(), "{one:#}");
        assert!(one["exit"].is_null(), "{one:#}");
    }
    assert_eq!(outcomes(&top), expected, "what runs comes first");
    assert_eq!(text(&of_another.stdout).trim(), "[]");
    assert_eq!(stats, json!([]), "what has not ended has cost nothing yet");
    // The second does not matter: of 300 there are more than four minutes left, of 200 three.
    let line = |hook: &str| {
        let line = shown.lines().find(|line| line.contains(hook));
        line.unwrap_or_else(|| panic!("{hook}: {shown}")).to_owned()
    };
    for (hook, left) in [("waits", "up in 4m"), ("behind", "up in 3m")] {
        assert!(line(hook).contains("running"), "{shown}");
        assert!(line(hook).contains(left), "{shown}");
    }
    let why: Value = serde_json::from_slice(&why.stdout).expect("JSON");
    assert_eq!(outcomes(&why["runs"]), expected);
    assert_eq!(why["took_us"], Value::Null);
    let said = "2 hooks run still, until ";
    assert!(why_shown.contains(said), "{why_shown}");
    assert!(why_shown.contains("not answered yet\n"), "{why_shown}");
    // Nothing is decided yet, and no hook has failed: only the running hook is shown.
    let bare: Value = serde_json::from_slice(&bare.stdout).expect("JSON");
    assert_eq!(bare["event_id"], *id, "{bare:#}");
    assert_eq!(of_another_session.status.code(), Some(3));

    assert!(called.stdout.contains("no"), "{called:?}");
    let ended = pairs([("behind", "ok"), ("ends", "ok"), ("waits", "ok")]);
    let last = wait::until(PATIENCE, || {
        let recent = recent();
        (outcomes(&recent) == ended).then_some(recent)
    });
    let last = last.unwrap_or_else(|| panic!("{:#}", recent()));
    assert!(last[0]["until"].is_null(), "{last:#}");
}

#[test]
fn a_running_hook_is_listed_without_a_daemon() {
    let world = RunWorld::new();
    fs::write(world.path("config.toml"), HOOKS).expect("a config");
    let shim = world.standalone_shim("PostToolUse");
    let mut shim = start(shim);
    let began = Instant::now();
    let mut stdin = shim.stdin.take().expect("stdin");
    let event = world.event(OTHER);
    stdin.write_all(event.as_bytes()).expect("an event");
    drop(stdin);
    let begun = ["began", "began-behind"].map(|name| world.project.join(name));
    let all = || begun.iter().all(|path| path.exists()).then_some(());
    let runs = wait::until(PATIENCE, all);
    let recent = || {
        let mut recent = world.verb(&["hooks", "recent", "--json"]);
        let output = recent.env("BECKET_NO_DAEMON", "1").output();
        serde_json::from_slice::<Value>(&output.expect("becket runs").stdout).expect("JSON")
    };
    // A hook may run before its file is written.
    let running = pairs([("behind", "running"), ("waits", "running")]);
    let early = wait::until(PATIENCE, || (outcomes(&recent()) == running).then_some(()));
    fs::write(world.project.join("go"), "").expect("a file");
    let called = finish(shim, began, PATIENCE);
    runs.expect("they run");
    assert!(early.is_some(), "{:#}", recent());
    assert!(called.stdout.contains("no"), "{called:?}");
    let ended = pairs([("behind", "ok"), ("ends", "ok"), ("waits", "ok")]);
    let all = || (outcomes(&recent()) == ended).then_some(());
    wait::until(PATIENCE, all).unwrap_or_else(|| panic!("{:#}", recent()));
}
