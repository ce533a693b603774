//! The path of one event: shim, daemon, database, and back by `becket events`.

use std::fs;
use std::process::Command;

use becket_tests::wait::{self, PATIENCE};
use becket_tests::world::{World, call, fixtures};
use rustix::process::Signal;
use serde_json::{Value, json};

fn payload_of(events: &[Value], nth: usize) -> &Value {
    &events[nth]["payload"]
}

/// Returns true for the only recorded payload that becket answers: one of its slash commands.
fn is_answered(name: &str) -> bool {
    name == "UserPromptSubmit.slash_command.json"
}

/// Returns the shim in the environment of the recorded payloads: that version of Claude Code sets the
/// variable for attended sessions, and so sends a prompt before its expansion.
fn shim(world: &World, event: &str) -> Command {
    let mut shim = world.shim(event);
    shim.env("CLAUDE_CODE_SESSION_ATTENDED", "1");
    shim
}

fn all_fixtures_come_back(world: &World, source: &str) {
    let fixtures = fixtures();
    for (name, payload) in &fixtures {
        let event: Value = serde_json::from_slice(payload).expect("JSON");
        let event = event["hook_event_name"].as_str().expect("a name");
        let called = call(shim(world, event), payload);
        assert_eq!(called.is_silent(), !is_answered(name), "{name}: {called:?}");
        assert!(called.stderr.is_empty(), "{name}: {called:?}");
    }
    let events = world.events();
    assert_eq!(events.len(), fixtures.len());
    for (nth, (name, payload)) in fixtures.iter().enumerate() {
        let sent: Value = serde_json::from_slice(payload).expect("JSON");
        assert_eq!(payload_of(&events, nth), &sent, "{name}");
        assert_eq!(events[nth]["event"], sent["hook_event_name"], "{name}");
        assert_eq!(events[nth]["session_id"], sent["session_id"], "{name}");
        assert_eq!(events[nth]["agent_id"], sent["agent_id"], "{name}");
        assert_eq!(events[nth]["tool"], sent["tool_name"], "{name}");
        assert_eq!(events[nth]["source"], source, "{name}");
        let said = events[nth]["decision"] != Value::Null;
        assert_eq!(said, is_answered(name), "{name}");
        assert_eq!(events[nth]["masked"], 0, "{name}");
    }
}

#[test]
fn every_recorded_payload_is_stored_unchanged() {
    let world = World::new();
    world.start_daemon();
    all_fixtures_come_back(&world, "daemon");
}

#[test]
fn every_recorded_payload_is_stored_unchanged_without_a_daemon() {
    let world = World::new();
    let fixtures = fixtures();
    for (name, payload) in &fixtures {
        let mut shim = shim(&world, "x");
        shim.env("BECKET_NO_DAEMON", "1");
        let called = call(shim, payload);
        assert_eq!(called.is_silent(), !is_answered(name), "{name}: {called:?}");
        assert!(called.stderr.is_empty(), "{name}: {called:?}");
    }
    assert!(world.daemon_pid().is_none());
    // Read without a daemon, then by the daemon that takes them in: the same events, once.
    let read = world
        .becket(["events", "--json"])
        .env("BECKET_NO_DAEMON", "1")
        .output()
        .expect("becket runs");
    assert_eq!(
        String::from_utf8_lossy(&read.stdout).lines().count(),
        fixtures.len()
    );
    let events = world.events();
    assert_eq!(events.len(), fixtures.len());
    for (nth, (name, payload)) in fixtures.iter().enumerate() {
        let sent: Value = serde_json::from_slice(payload).expect("JSON");
        assert_eq!(payload_of(&events, nth), &sent, "{name}");
        assert_eq!(events[nth]["source"], "alone", "{name}");
    }
}

#[test]
fn payload_bytes_are_stored_unchanged() {
    let world = World::new();
    // Unusual layout, escapes, a number that no float holds, an unknown event name.
    let payload = "{\"hook_event_name\" :\t\"FromTheFuture\",\"session_id\":\"s\\u00e9\", \"n\":12345678901234567890123.0100,\n \"deep\":[[[{}]]]}";
    assert!(world.send("FromTheFuture", payload).is_silent());
    let event = &world.events()[0];
    assert_eq!(event["event"], "FromTheFuture");
    assert_eq!(event["session_id"], "sé");
    assert_eq!(world.run(&["events", "--raw"]), format!("{payload}\n"));
}

#[test]
fn the_first_event_starts_the_daemon() {
    let world = World::new();
    let called = world.send(
        "Stop",
        json!({"hook_event_name": "Stop", "session_id": "s"}).to_string(),
    );
    assert!(called.is_silent(), "{called:?}");
    assert!(world.daemon_pid().is_some());
    assert_eq!(world.events().len(), 1);
}

#[test]
fn a_large_payload_is_compressed_and_complete() {
    let world = World::new();
    let content = "fn main() { println!(\"hello\"); }\n".repeat(10_000);
    let payload = json!({"hook_event_name": "PreToolUse", "session_id": "s", "tool_name": "Write", "tool_input": {"content": content}});
    for _ in 0..3 {
        assert!(world.send("PreToolUse", payload.to_string()).is_silent());
    }
    let events = world.events();
    assert_eq!(events.len(), 3);
    assert!(events.iter().all(|event| event["payload"] == payload));
    world.run(&["daemon", "stop"]);
    let size: u64 = ["becket.db", "becket.db-wal"]
        .iter()
        .filter_map(|name| fs::metadata(world.path(name)).ok())
        .map(|meta| meta.len())
        .sum();
    assert!(size < 300_000, "three payloads of 320 KB take {size} bytes");
}

#[test]
fn events_can_be_filtered() {
    let world = World::new();
    for (session, tool) in [("aaaa-1", "Bash"), ("aaaa-2", "Read"), ("bbbb-1", "Bash")] {
        world.send(
            "PreToolUse",
            json!({"hook_event_name": "PreToolUse", "session_id": session, "tool_name": tool})
                .to_string(),
        );
    }
    world.send(
        "Stop",
        json!({"hook_event_name": "Stop", "session_id": "bbbb-1"}).to_string(),
    );
    let count = |args: &[&str]| {
        let all: Vec<&str> = ["events", "--json"].iter().chain(args).copied().collect();
        world.run(&all).lines().count()
    };
    assert_eq!(count(&[]), 4);
    assert_eq!(count(&["--tool", "Bash"]), 2);
    assert_eq!(count(&["--event", "Stop"]), 1);
    assert_eq!(count(&["--session", "b"]), 2);
    assert_eq!(count(&["--limit", "3"]), 3);
    assert_eq!(count(&["--since", "1h"]), 4);
    assert_eq!(count(&["--since", "2099-01-01T00:00:00Z"]), 0);
    assert_eq!(
        world.output(&["events", "--session", "aaaa"]).status.code(),
        Some(2),
        "ambiguous"
    );
    assert_eq!(
        world.output(&["events", "--session", "zzz"]).status.code(),
        Some(3),
        "no such session"
    );
    assert_eq!(
        world.output(&["events", "--since", "soon"]).status.code(),
        Some(2),
        "no moment"
    );
}

#[test]
fn an_event_from_two_registrations_counts_once() {
    let world = World::new();
    let payload = json!({"hook_event_name": "PreToolUse", "session_id": "s", "tool_use_id": "t1", "tool_name": "Bash"}).to_string();
    world.send("PreToolUse", &payload);
    let mut plugin = world.command(world.programs.join("becket-hook"));
    plugin.args(["--event", "PreToolUse", "--from", "plugin"]);
    call(plugin, payload.as_bytes());
    // Two deliveries from one source are two events.
    world.send("PreToolUse", &payload);
    let events = world.events();
    assert_eq!(events.len(), 3);
    assert_eq!(events[1]["duplicate_of"], events[0]["seq"]);
    assert_eq!(events[2]["duplicate_of"], Value::Null);
    assert_eq!(world.run(&["events", "--json"]).lines().count(), 2);
}

#[test]
fn secrets_are_masked_in_database_and_spool() {
    let world = World::new();
    let secret = format!("{}_{}", "ghp", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8");
    let payload = json!({"hook_event_name": "PreToolUse", "session_id": "s", "tool_input": {"command": format!("curl -H 'x: {secret}' y")}});
    let alone = world.standalone_shim("PreToolUse");
    call(alone, payload.to_string().as_bytes());
    let everything = |folder: &str| -> Vec<u8> {
        let entries = fs::read_dir(world.path(folder))
            .expect("a folder")
            .flatten();
        entries
            .filter(|entry| entry.path().is_file())
            .flat_map(|entry| fs::read(entry.path()).expect("a file"))
            .collect()
    };
    let holds = |bytes: &[u8]| {
        bytes
            .windows(secret.len())
            .any(|window| window == secret.as_bytes())
    };
    assert!(!everything("spool").is_empty() && !holds(&everything("spool")));
    world.send("PreToolUse", payload.to_string());
    let events = world.events();
    assert!(
        events.iter().all(|event| event["masked"] == 1),
        "{events:?}"
    );
    let masked = events[0]["payload"]["tool_input"]["command"]
        .as_str()
        .expect("a command");
    assert!(
        masked.starts_with("curl -H 'x: «masked:") && masked.ends_with("»' y"),
        "{masked}"
    );
    assert_eq!(
        events[0]["payload"], events[1]["payload"],
        "the same secret has the same hash"
    );
    assert!(!holds(&everything(".")) && !holds(&everything("log")));
}

#[test]
fn an_event_whose_sender_has_hung_up_is_only_recorded() {
    let world = World::new();
    world.start_daemon();
    world.signal_daemon(Signal::STOP);
    // The daemon sleeps: the shim gives up after 50 ms, hangs up, and goes standalone.
    fs::write(world.path("run/slow"), "").expect("a mark");
    let payload = json!({"hook_event_name": "Stop", "session_id": "s"}).to_string();
    assert!(world.send("Stop", &payload).is_silent());
    let alone = fs::read_dir(world.path("spool")).expect("a spool");
    assert_eq!(alone.count(), 1);
    world.signal_daemon(Signal::CONT);
    let counted = wait::until(PATIENCE, || {
        let status: Value =
            serde_json::from_str(&world.run(&["daemon", "status", "--json"])).ok()?;
        (status["counts"]["late"] == 1).then_some(())
    });
    assert!(
        counted.is_some(),
        "the daemon did not notice that the sender was gone"
    );
    let events = world.events();
    assert_eq!(events.len(), 1);
    assert_eq!(events[0]["source"], "alone");
}

#[test]
fn the_shim_started_by_hand_explains_itself_and_sends_no_event() {
    let world = World::new();
    let shim = world.programs.join("becket-hook");
    for (arg, said) in [
        ("--help", "Usage: becket-hook"),
        ("-h", "Usage: becket-hook"),
        ("--version", "becket-hook "),
        ("-V", "becket-hook "),
    ] {
        let mut command = world.command(&shim);
        command.arg(arg);
        let called = call(command, b"");
        assert_eq!(called.code, Some(0), "{arg}: {called:?}");
        assert!(called.stdout.contains(said), "{arg}: {called:?}");
    }
    assert!(world.daemon_pid().is_none(), "a daemon was started");
    // A registration may have an argument that only a later becket knows.
    let mut command = world.shim("Stop");
    command.arg("--help");
    let called = call(command, br#"{"hook_event_name":"Stop","session_id":"s"}"#);
    assert!(called.is_silent(), "{called:?}");
    assert_eq!(world.events()[0]["event"], "Stop");
}

fn goes_by(config: &str) {
    let world = World::new();
    fs::create_dir_all(&world.becket_home).expect("a folder");
    for number in 1..=3 {
        world.send(
            "PreToolUse",
            json!({"session_id": "s", "number": number}).to_string(),
        );
    }
    let before = world.events();
    assert!(before.iter().all(|row| row["payload"].is_object()));
    // Changes take effect without a restart.
    fs::write(world.path("config.toml"), config).expect("a config");
    let after = wait::until(PATIENCE, || {
        let rows = world.events();
        rows.iter()
            .all(|row| row["payload"].is_null())
            .then_some(rows)
    });
    let after = after.expect("the payloads go");
    let without_payload = |rows: &[Value]| -> Vec<Value> {
        let mut rows = rows.to_vec();
        for row in &mut rows {
            row["payload"] = Value::Null;
        }
        rows
    };
    assert_eq!(
        after,
        without_payload(&before),
        "the rows stay as they were"
    );
}

#[test]
fn old_and_excess_payloads_are_deleted_and_their_rows_kept() {
    goes_by("[store]\nkeep_days = 0\n");
    goes_by("[store]\nkeep_bytes = 1\n");
}
