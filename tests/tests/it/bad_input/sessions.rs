//! What is told of sessions is odd: ids, titles, panes, files, numbers. Every view stays right, says
//! what it does not know, and no control character of anybody's leaves becket.

mod pane;
mod transcript;

use std::collections::HashSet;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, SystemTime};

use becket_tests::skip::skip;
use becket_tests::terminal::Terminal;
use becket_tests::wait::{self, PATIENCE};
use becket_tests::world::{World, call};
use becket_wire::frame::{Decoder, Kind};
use becket_wire::rpc::{Envelope, encode_event};
use becket_wire::{EventId, Version};
use serde_json::{Value, json};

use super::BOUND;

/// Tells of a session; Claude Code is not disturbed.
#[track_caller]
fn tell(world: &World, session: &str, event: &str, fields: &Value) {
    let called = world.tell(session, event, fields);
    assert!(called.is_silent(), "{event}: {called:?}");
}

/// The live session with this id, as `becket sessions --json` has it.
#[track_caller]
fn session(world: &World, id: &str) -> Value {
    let mut all = world.sessions().into_iter();
    let found = all.find(|session| session["session_id"] == id);
    found.unwrap_or_else(|| panic!("there is no session {id}"))
}

/// Waits until a session is as `fits` says.
#[track_caller]
fn wait_for(world: &World, id: &str, fits: impl Fn(&Value) -> bool) -> Value {
    let found = wait::until(PATIENCE, || Some(session(world, id)).filter(&fits));
    found.unwrap_or_else(|| panic!("it never came to that: {:#}", session(world, id)))
}

/// Nothing was lost, nothing panicked, and it is the same daemon.
#[track_caller]
fn unharmed(world: &World, daemon: u32) {
    assert_eq!(world.daemon_pid(), Some(daemon), "another daemon");
    assert_eq!(world.status()["counts"]["lost"], 0);
    for file in fs::read_dir(world.path("log")).expect("a log").flatten() {
        let log = fs::read_to_string(file.path()).unwrap_or_default();
        assert!(!log.contains("panick"), "{log}");
    }
}

/// No control character but the ends of lines, and nothing that turns the direction of text.
#[track_caller]
fn is_inert(what: &str, text: &str) {
    let obeyed = |c: &char| {
        (c.is_control() && *c != '\n')
            || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let found: Vec<char> = text.chars().filter(obeyed).take(5).collect();
    let begin: String = text.chars().take(2000).collect();
    assert!(found.is_empty(), "{what} lets {found:?} out: {begin:?}");
}

/// The view in a terminal; none, and the test skipped, where there is no tmux.
fn view(name: &str, world: &World, path: Option<&str>) -> Option<Terminal> {
    let becket = world.becket::<&str>([]);
    let text = |text: &std::ffi::OsStr| text.to_string_lossy().into_owned();
    let env: Vec<(String, String)> = becket
        .get_envs()
        .filter_map(|(name, value)| Some((text(name), text(value?))))
        .collect();
    let mut command = vec![world.programs.join("becket").into_os_string()];
    if let Some(path) = path {
        command.insert(0, format!("PATH={path}").into());
        command.insert(0, "/usr/bin/env".into());
    }
    match Terminal::start(&command, &env, Path::new("/"), (120, 32)) {
        Ok(terminal) => Some(terminal),
        Err(why) => {
            skip(name, &why);
            None
        }
    }
}

/// Names a window, clears it, rings, turns text round, breaks lines, is wide.
const NASTY: &str = "\u{1b}]2;HACKED\u{7}\u{1b}[2J\u{9b}31mred\u{202e}\r\n\t日本語\u{0}\u{7f}end";

#[test]
fn no_text_of_anybodys_is_obeyed_by_the_terminal() {
    let world = World::new();
    let daemon = world.start_daemon();
    let start = json!({
        "source": NASTY, "model": NASTY, "session_title": NASTY, "cwd": format!("/w/{NASTY}"),
        "permission_mode": NASTY, "transcript_path": format!("/w/{NASTY}.jsonl"),
    });
    tell(&world, "s1", "SessionStart", &start);
    tell(&world, "s1", "UserPromptSubmit", &json!({"prompt": NASTY}));
    tell(
        &world,
        "s1",
        "SubagentStart",
        &json!({"agent_id": NASTY, "agent_type": NASTY}),
    );
    let ask = json!({"tool_name": NASTY, "tool_input": {"command": NASTY}, "tool_use_id": NASTY});
    tell(&world, "s1", "PermissionRequest", &ask);
    tell(&world, "s2", "UserPromptSubmit", &json!({"prompt": NASTY}));
    tell(&world, "s2", "StopFailure", &json!({"error": NASTY}));
    tell(
        &world,
        NASTY,
        "UserPromptSubmit",
        &json!({"prompt": "odd id"}),
    );
    tell(
        &world,
        "s3",
        "UserPromptSubmit",
        &json!({"prompt": "named"}),
    );
    let named = world.output(&["name", "s3", NASTY.replace('\0', "").as_str()]);
    is_inert("becket name", &String::from_utf8_lossy(&named.stdout));
    is_inert("becket name", &String::from_utf8_lossy(&named.stderr));
    for args in [
        &["sessions"][..],
        &["sessions", "--json"],
        &["sessions", "--all"],
        &["show", "s1"],
        &["show", "s1", "--json"],
        &["show", "s2"],
        &["tmux", "status"],
        &["tmux", "status", "--json"],
        &["events"],
        &["events", "--json"],
        &["daemon", "status"],
        &[],
    ] {
        let mut said = world.run(args);
        if args.contains(&"--json") {
            // Data for a program: what JSON does not escape stands there as it came.
            said.retain(|c| c.is_ascii() && c != '\u{7f}');
        }
        is_inert(&format!("becket {args:?}"), &said);
    }
    let again = format!("{NASTY}2");
    tell(&world, &again, "UserPromptSubmit", &json!({"prompt": "x"}));
    for args in [
        &["show", "\u{1b}[31m"][..],
        &["show", "\u{1b}"],
        &["tmux", "jump", "\u{1b}"],
        &["tmux", "jump", "s1"],
        &["events", "--session", "\u{1b}"],
    ] {
        let output = world.output(args);
        assert!(!output.status.success());
        is_inert("an error", &String::from_utf8_lossy(&output.stderr));
    }
    assert_eq!(session(&world, "s1")["title"], NASTY, "kept as it came");
    unharmed(&world, daemon);
}

#[test]
fn the_status_line_obeys_no_text_either() {
    let world = World::new();
    let daemon = world.start_daemon();
    let payload = json!({
        "session_id": NASTY, "model": {"id": NASTY, "display_name": NASTY},
        "workspace": {"current_dir": NASTY, "project_dir": format!("/w/{NASTY}")},
    });
    for args in [&["--statusline"][..], &["--statusline", "--beside"]] {
        let mut line = world.command(world.programs.join("becket-hook"));
        line.args(args).arg("--home").arg(&world.becket_home);
        line.env("COLUMNS", "120").env("NO_COLOR", "1");
        let called = call(line, payload.to_string().as_bytes());
        assert_eq!(called.code, Some(0), "{called:?}");
        assert!(called.stdout.contains("red"), "{called:?}");
        is_inert("the status line", &called.stdout);
    }
    unharmed(&world, daemon);
}

#[test]
fn the_view_obeys_no_text_either() {
    let world = World::new();
    let daemon = world.start_daemon();
    let start = json!({"source": "startup", "session_title": NASTY, "cwd": NASTY});
    tell(&world, "s1", "SessionStart", &start);
    tell(&world, "s1", "UserPromptSubmit", &json!({"prompt": NASTY}));
    let Some(view) = view("the_view_obeys_no_text_either", &world, None) else {
        return;
    };
    let screen = view.wait_for("the title and the events", |screen| {
        screen.contains("日本語") && screen.contains("UserPromptSubmit")
    });
    assert!(screen.0.starts_with(" becket "), "{}", screen.0);
    let title = view.tmux_says(&["display-message", "-p", "#{pane_title}"]);
    assert_ne!(title, "HACKED");
    unharmed(&world, daemon);
}

#[test]
fn a_title_of_a_megabyte_is_cut() {
    let world = World::new();
    let daemon = world.start_daemon();
    for (id, long) in [("s1", "x".repeat(1 << 20)), ("s2", "語".repeat(1 << 19))] {
        let start = json!({"source": "startup", "session_title": long, "cwd": long});
        tell(&world, id, "SessionStart", &start);
        tell(&world, id, "UserPromptSubmit", &json!({"prompt": long}));
        tell(&world, id, "PreToolUse", &json!({"tool_name": long}));
        let told = session(&world, id);
        assert!(told.to_string().len() < 100_000);
        assert_eq!(told["status"], "working");
        assert!(world.run(&["show", id]).len() < 100_000);
    }
    let table = world.run(&["sessions"]);
    assert!(
        table.lines().all(|line| line.chars().count() <= 200),
        "{table}"
    );
    let refused = world.output(&["name", "s1", &"n".repeat(100_000)]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    unharmed(&world, daemon);
}

#[test]
fn an_id_that_is_no_uuid_is_an_id_like_any_other() {
    let world = World::new();
    let daemon = world.start_daemon();
    let ids = [
        "7",
        "../../../../etc/passwd",
        "%",
        "_",
        "*",
        "/",
        "-x",
        "'; --",
        "ünï",
    ];
    for id in ids {
        tell(&world, id, "UserPromptSubmit", &json!({"prompt": "go"}));
    }
    let long = "x".repeat(1 << 20);
    tell(
        &world,
        &long,
        "UserPromptSubmit",
        &json!({"prompt": "long"}),
    );
    tell(&world, "", "UserPromptSubmit", &json!({"prompt": "none"}));
    let told = world.sessions();
    for id in ids {
        assert_eq!(session(&world, id)["status"], "working", "{id}");
        let shown = world.run(&["show", "--json", "--", id]);
        let shown: Value = serde_json::from_str(&shown).expect("JSON");
        let shown = shown.get("session").unwrap_or(&shown);
        assert_eq!(shown["session_id"], id, "{shown}");
    }
    // The one that is far too long makes no session, and its event is kept.
    assert!(
        told.iter().all(|one| one["last_prompt"] != "long"),
        "{told:?}"
    );
    let events = world.events();
    assert!(events.iter().any(|event| event["session_id"] == long));
    let files: Vec<_> = fs::read_dir(world.path("sessions"))
        .into_iter()
        .flatten()
        .collect();
    assert!(files.is_empty(), "{files:?}");
    unharmed(&world, daemon);
}

/// Sends events of many sessions through one connection.
fn crowd(world: &World, ids: impl Iterator<Item = u32>) {
    let mut stream = UnixStream::connect(world.path("run/socket")).expect("a daemon");
    stream.set_read_timeout(Some(BOUND)).expect("a timeout");
    let mut decoder = Decoder::new();
    let mut buffer = [0; 4096];
    for id in ids {
        let payload = json!({
            "session_id": format!("c{id:05}"), "hook_event_name": "UserPromptSubmit",
            "prompt": format!("part {id}"), "cwd": format!("/w/{}", id % 40),
        });
        let now = SystemTime::UNIX_EPOCH
            .elapsed()
            .expect("a clock")
            .as_millis() as i64;
        let envelope = Envelope {
            id: EventId::new(now, [u64::from(id), u64::from(id) << 16 | 77]),
            at: now,
            version: Version::current(),
            event: Some("UserPromptSubmit".into()),
            from: Some("settings".into()),
            home: world.becket_home.to_string_lossy().into_owned(),
            pid: 1,
            pid_start: None,
            pid_is_claude: false,
            pid_parent: None,
            variables: Default::default(),
            cut: None,
        };
        let frame = encode_event(&envelope, payload.to_string().as_bytes()).expect("a frame");
        stream.write_all(&frame).expect("sent");
        let answer = loop {
            if let Some(frame) = decoder.next_frame().expect("a frame") {
                break frame;
            }
            let len = stream.read(&mut buffer).expect("an answer");
            assert!(len > 0, "the daemon hung up");
            decoder.push(&buffer[..len]);
        };
        assert_eq!(answer.kind, Kind::ANSWER);
    }
}

/// Who of the ten thousand and one is not told of.
fn missing(told: &[Value]) -> Vec<u32> {
    let ids: HashSet<&str> = told
        .iter()
        .filter_map(|one| one["session_id"].as_str())
        .collect();
    let is_missing = |id: &u32| !ids.contains(&*format!("c{id:05}"));
    (0..10_001).filter(is_missing).collect()
}

#[test]
fn of_ten_thousand_and_one_sessions_the_quietest_is_not_shown() {
    let world = World::new();
    let daemon = world.start_daemon();
    crowd(&world, 0..10_001);
    let told = world.sessions();
    assert_eq!((told.len(), missing(&told)), (10_000, vec![0]));
    let says = || {
        let troubles = world.status()["troubles"].to_string();
        troubles.contains("10000 sessions live").then_some(())
    };
    assert!(wait::until(PATIENCE, says).is_some(), "{}", world.status());
    // With its next word it is back.
    crowd(&world, 0..1);
    let told = world.sessions();
    assert_eq!((told.len(), missing(&told)), (10_000, vec![1]));
    assert!(world.run(&["sessions"]).lines().count() > 10_000);
    unharmed(&world, daemon);
    let name = "of_ten_thousand_and_one_sessions_the_quietest_is_not_shown";
    if let Some(view) = view(name, &world, None) {
        let bound = Duration::from_secs(120);
        view.wait_at_most(bound, "all of them", |screen| {
            screen.contains("10000 working")
        });
    }
}
