//! What stands on stdin is no event, or an odd one.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use becket_tests::world::World;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{BOUND, LARGE_BOUND, alone, call, doctor_says, kept, send};

const DEEP: usize = 1_000_000;
const MAX: usize = 32 << 20;

/// What is sent, and what is said of it.
fn faulty() -> Vec<(Vec<u8>, &'static str)> {
    let unclosed = format!("{{\"session_id\":\"s\",\"x\":{}", "[".repeat(DEEP));
    vec![
        (b"".to_vec(), "the event is empty"),
        (b" \n\t".to_vec(), "the event is empty"),
        (b"nope".to_vec(), "the event is not JSON (line 1, column "),
        (b"{\"session_id\":\"s\"".to_vec(), "the event is not JSON"),
        (
            b"{\"session_id\":\"s\"}{}".to_vec(),
            "the event is not JSON",
        ),
        (
            "\u{feff}{\"session_id\":\"s\"}".into(),
            "the event is not JSON",
        ),
        (b"[1]".to_vec(), "the event is JSON, but no object"),
        (b"\"text\"".to_vec(), "the event is JSON, but no object"),
        (b"null".to_vec(), "the event is JSON, but no object"),
        (
            b"{\"session_id\":\"\xff\xfe\"}".to_vec(),
            "the event is not UTF-8 (at byte 15)",
        ),
        (b"\0\0\0".to_vec(), "the event is not JSON"),
        (
            b"{\"session_id\":\"s\0\"}".to_vec(),
            "the event is not JSON",
        ),
        (unclosed.into(), "the event is not JSON"),
        (
            b"{\"hook_event_name\":\"Stop\"}".to_vec(),
            "the event has no session_id",
        ),
        (
            b"{\"session_id\":7}".to_vec(),
            "the event has no session_id",
        ),
    ]
}

fn are_kept_and_named(world: &World, source: &str) {
    let events = world.events();
    let sent = faulty();
    assert_eq!(events.len(), sent.len());
    let log = world.run(&["events"]);
    for (event, (payload, fault)) in events.iter().zip(&sent) {
        let told = event["fault"].as_str().unwrap_or_default();
        assert!(told.starts_with(fault), "{fault}: {told}");
        assert!(kept(world, event) == *payload, "{fault}: {event}");
        assert_eq!(event["source"], source, "{fault}");
        assert!(event["event"] == "PreToolUse" || event["event"] == "Stop");
        assert!(log.contains(fault), "{fault}: {log}");
    }
}

#[test]
fn what_is_no_event_is_kept_raw_and_named() {
    let world = super::registered();
    world.start_daemon();
    for (payload, fault) in faulty() {
        let called = send(&world, &payload);
        assert!(
            called.is_silent() && called.stderr.is_empty(),
            "{fault}: {called:?}"
        );
    }
    are_kept_and_named(&world, "daemon");
    doctor_says(&world, "warning", "the event has no session_id");
    assert_eq!(world.status()["counts"]["lost"], 0);
}

#[test]
fn and_without_a_daemon_too() {
    let world = World::new();
    for (payload, fault) in faulty() {
        let called = call(alone(&world), &payload, BOUND);
        assert!(called.is_silent(), "{fault}: {called:?}");
        // Claude Code shows it in its debug log.
        assert!(called.stderr.contains(fault), "{fault}: {called:?}");
    }
    are_kept_and_named(&world, "alone");
}

/// One line of the log, with the payload unread: it may be deeper than a parser likes.
fn fields(line: &str) -> BTreeMap<String, Box<RawValue>> {
    serde_json::from_str(line).expect("a line of JSON")
}

#[test]
fn depth_is_no_danger() {
    let world = World::new();
    let payload = format!(
        "{{\"hook_event_name\":\"Deep\",\"x\":{}{},\"session_id\":\"deep\"}}",
        "[".repeat(DEEP),
        "]".repeat(DEEP)
    );
    for shim in [world.shim("PreToolUse"), alone(&world)] {
        let called = call(shim, payload.as_bytes(), LARGE_BOUND);
        assert!(called.is_silent() && called.stderr.is_empty(), "{called:?}");
    }
    let log = world.run(&["events", "--json"]);
    assert_eq!(log.lines().count(), 2);
    for line in log.lines() {
        let fields = fields(line);
        assert_eq!(fields["session_id"].get(), "\"deep\"");
        assert!(fields["payload"].get() == payload);
        assert!(!fields.contains_key("fault"));
    }
    assert_eq!(world.run(&["events"]).lines().count(), 2);
}

#[test]
fn half_a_character_is_kept_as_it_came() {
    let world = World::new();
    // Well-formed JSON that is no text: what JavaScript makes of a string that was cut.
    let payload = "{\"session_id\":\"\\ud800\",\"x\":\"\\udfff\"}";
    for shim in [world.shim("PreToolUse"), alone(&world)] {
        assert!(call(shim, payload.as_bytes(), BOUND).is_silent());
    }
    let log = world.run(&["events", "--json"]);
    assert_eq!(log.lines().count(), 2);
    for line in log.lines() {
        let fields = fields(line);
        assert_eq!(fields["payload"].get(), payload);
        assert_eq!(fields["fault"].get(), "\"the event has no session_id\"");
    }
    assert_eq!(
        world.run(&["events", "--raw"]),
        format!("{payload}\n").repeat(2)
    );
}

#[test]
fn an_event_may_be_as_large_as_the_bound_and_no_larger() {
    let world = super::registered();
    world.start_daemon();
    let of_size = |size: usize| {
        let mut payload =
            b"{\"session_id\":\"large\",\"hook_event_name\":\"Large\",\"x\":\"".to_vec();
        payload.resize(size - 2, b'x');
        payload.extend(b"\"}");
        payload
    };
    for size in [MAX, MAX + 1] {
        let called = call(world.shim("PreToolUse"), &of_size(size), LARGE_BOUND);
        assert!(called.is_silent(), "{size}: {called:?}");
    }
    let log = world.run(&["events", "--json"]);
    let lines: Vec<_> = log.lines().map(fields).collect();
    assert_eq!(lines.len(), 2);
    assert!(!lines[0].contains_key("fault"), "{}", lines[0]["fault"]);
    assert!(lines[0]["payload"].get().as_bytes() == of_size(MAX));
    let fault = "the event is longer than 32 MiB, and was cut";
    assert_eq!(lines[1]["fault"].get(), json!(fault).to_string());
    assert_eq!(lines[1]["event"].get(), "\"PreToolUse\"");
    let raw: String = serde_json::from_str(lines[1]["raw"].get()).expect("a string");
    assert!(raw.as_bytes() == &of_size(MAX + 1)[..MAX]);
    doctor_says(&world, "warning", fault);
}

#[test]
fn bytes_that_are_no_text_are_kept_up_to_the_bound() {
    let world = World::new();
    let payload = vec![0xff; MAX + 1];
    let called = call(world.shim("PreToolUse"), &payload, LARGE_BOUND);
    assert!(called.is_silent(), "{}", called.stderr);
    let log = world.run(&["events", "--json"]);
    let fields = fields(log.trim_end());
    // Two digits a byte, and the quotes.
    assert_eq!(fields["raw_hex"].get().len(), 2 * MAX + 2);
}

/// Everything in a folder, but for one folder in it.
fn tree(folder: &Path, without: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
            let path = entry.path();
            if path == without {
                continue;
            }
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                open.push(path.clone());
            }
            found.insert(path);
        }
    }
    found
}

#[test]
fn an_id_is_data_and_never_a_path() {
    let world = World::new();
    let ids = [
        "../x",
        "/tmp/../x",
        "..",
        "",
        "a\0b",
        "a/b",
        "\u{1b}[31mred",
    ];
    let nowhere = Path::new("/nowhere");
    let before = tree(world.root(), &world.becket_home);
    for id in ids {
        for shim in [world.shim("SessionStart"), alone(&world)] {
            let payload = json!({"hook_event_name": "SessionStart", "session_id": id, "agent_id": id, "cwd": id, "transcript_path": id, "source": id});
            let called = call(shim, payload.to_string().as_bytes(), BOUND);
            assert!(
                called.is_silent() && called.stderr.is_empty(),
                "{id}: {called:?}"
            );
        }
    }
    let events = world.events();
    let seen: Vec<_> = events.iter().map(|event| &event["session_id"]).collect();
    let sent: Vec<Value> = ids.iter().flat_map(|id| [json!(id), json!(id)]).collect();
    assert_eq!(seen, sent.iter().collect::<Vec<_>>());
    assert!(events.iter().all(|event| event.get("fault").is_none()));
    assert_eq!(tree(world.root(), &world.becket_home), before);
    let ours = tree(&world.becket_home, nowhere);
    let names = ours.iter().filter_map(|path| path.file_name()?.to_str());
    let named: Vec<_> = names
        .filter(|name| ["x", "b", "red"].iter().any(|end| name.ends_with(end)))
        .collect();
    assert_eq!(named, ["becket.db"], "only the database ends so");
    assert_eq!(tree(&world.path("sessions"), nowhere), BTreeSet::new());
    // A person can ask for them all the same.
    assert_eq!(
        world
            .run(&["events", "--json", "--session", "../x"])
            .lines()
            .count(),
        2
    );
}
