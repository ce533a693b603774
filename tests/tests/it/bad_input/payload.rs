//! Stdin with an invalid or unusual event, pipes that never end, and output that is not read.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use becket_tests::world::{Called, World, finish, start};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{BOUND, LARGE_BOUND, assert_doctor_reports, call, raw_payload, registered, send};

const DEEP: usize = 1_000_000;
const MAX: usize = 32 << 20;

/// Returns invalid events with the fault that becket names.
fn invalid_events() -> Vec<(Vec<u8>, &'static str)> {
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
        (b"[1]".to_vec(), "the event is JSON, but not an object"),
        (b"\"text\"".to_vec(), "the event is JSON, but not an object"),
        (b"null".to_vec(), "the event is JSON, but not an object"),
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

fn assert_stored_with_fault(world: &World, source: &str) {
    let events = world.events();
    let sent = invalid_events();
    assert_eq!(events.len(), sent.len());
    let log = world.run(&["events"]);
    for (event, (payload, fault)) in events.iter().zip(&sent) {
        let told = event["fault"].as_str().unwrap_or_default();
        assert!(told.starts_with(fault), "{fault}: {told}");
        assert!(raw_payload(world, event) == *payload, "{fault}: {event}");
        assert_eq!(event["source"], source, "{fault}");
        assert!(event["event"] == "PreToolUse" || event["event"] == "Stop");
        assert!(log.contains(fault), "{fault}: {log}");
    }
}

#[test]
fn invalid_events_are_stored_raw_with_their_fault() {
    let world = registered();
    world.start_daemon();
    for (payload, fault) in invalid_events() {
        let called = send(&world, &payload);
        assert!(called.is_quiet(), "{fault}: {called:?}");
    }
    assert_stored_with_fault(&world, "daemon");
    assert_doctor_reports(&world, "warning", "the event has no session_id");
    assert_eq!(world.status()["counts"]["lost"], 0);
}

#[test]
fn invalid_events_are_stored_raw_without_a_daemon() {
    let world = World::new();
    for (payload, fault) in invalid_events() {
        let called = call(world.standalone_shim("PreToolUse"), &payload, BOUND);
        assert!(called.is_silent(), "{fault}: {called:?}");
        // Claude Code shows this line in its debug log.
        assert!(called.stderr.contains(fault), "{fault}: {called:?}");
    }
    assert_stored_with_fault(&world, "alone");
}

/// Parses one line of the log without its payload, which may be too deep for the parser.
fn fields(line: &str) -> BTreeMap<String, Box<RawValue>> {
    serde_json::from_str(line).expect("a line of JSON")
}

#[test]
fn deeply_nested_json_is_stored() {
    let world = World::new();
    let payload = format!(
        "{{\"hook_event_name\":\"Deep\",\"x\":{}{},\"session_id\":\"deep\"}}",
        "[".repeat(DEEP),
        "]".repeat(DEEP)
    );
    for shim in [
        world.shim("PreToolUse"),
        world.standalone_shim("PreToolUse"),
    ] {
        let called = call(shim, payload.as_bytes(), LARGE_BOUND);
        assert!(called.is_quiet(), "{called:?}");
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
fn events_up_to_the_size_bound_are_accepted() {
    let world = registered();
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
    assert_doctor_reports(&world, "warning", fault);
}

/// Returns all paths of a folder, except those in `without`.
fn tree(folder: &Path, without: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).expect("a folder").flatten() {
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
fn an_id_is_never_used_as_a_path() {
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
        for shim in [
            world.shim("SessionStart"),
            world.standalone_shim("PreToolUse"),
        ] {
            let payload = json!({"hook_event_name": "SessionStart", "session_id": id, "agent_id": id, "cwd": id, "transcript_path": id, "source": id});
            let called = call(shim, payload.to_string().as_bytes(), BOUND);
            assert!(called.is_quiet(), "{id}: {called:?}");
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
    // `becket events` accepts each id.
    assert_eq!(
        world
            .run(&["events", "--json", "--session", "../x"])
            .lines()
            .count(),
        2
    );
}

/// The longest silence on stdin. After it, the event is taken as it is.
const SILENCE: Duration = Duration::from_secs(5);

/// Sends `beginning` and then keeps stdin open in silence.
fn send_with_open_stdin(shim: Command, beginning: &[u8]) -> Called {
    let began = Instant::now();
    let mut child = start(shim);
    let mut stdin = child.stdin.take().expect("a stdin");
    stdin.write_all(beginning).expect("it reads");
    let called = finish(child, began, SILENCE + BOUND);
    assert!(called.took >= SILENCE, "it gave up after {:?}", called.took);
    drop(stdin);
    called
}

#[test]
fn a_stdin_that_never_ends_is_read_up_to_a_silence() {
    let world = registered();
    world.start_daemon();
    let cases: [(&[u8], &str); 3] = [
        (b"", "stdin never ended; the event is empty"),
        (
            b"{\"session_id\":\"s\",",
            "stdin never ended; the event is not JSON",
        ),
        (b"{\"session_id\":\"s\"}", "stdin never ended"),
    ];
    std::thread::scope(|scope| {
        for (beginning, fault) in cases {
            let shims = [
                world.shim("PreToolUse"),
                world.standalone_shim("PreToolUse"),
            ];
            for shim in shims {
                scope.spawn(move || {
                    let called = send_with_open_stdin(shim, beginning);
                    assert!(called.is_silent(), "{fault}: {called:?}");
                });
            }
        }
    });
    let events = world.events();
    assert_eq!(events.len(), 2 * cases.len());
    let log = world.run(&["events"]);
    for (beginning, fault) in cases {
        let same = events
            .iter()
            .filter(|event| raw_payload(&world, event) == beginning);
        let faults: Vec<_> = same
            .map(|event| event["fault"].as_str().unwrap_or_default())
            .collect();
        assert_eq!(faults.len(), 2, "{events:?}");
        assert!(
            faults.iter().all(|told| told.starts_with(fault)),
            "{fault}: {faults:?}"
        );
        assert!(log.contains(fault), "{log}");
    }
    assert_doctor_reports(&world, "warning", "stdin never ended");
}

/// Creates a world with an invalid config, which becket reports when a session starts.
fn world_with_invalid_config() -> World {
    let world = World::new();
    fs::create_dir_all(&world.becket_home).expect("a home");
    fs::write(world.path("config.toml"), "nonsense = [").expect("a config");
    world
}

#[test]
fn an_unread_answer_changes_nothing() {
    let world = world_with_invalid_config();
    let payload = json!({"hook_event_name": "SessionStart", "session_id": "s"}).to_string();
    let answer = call(world.shim("SessionStart"), payload.as_bytes(), BOUND);
    assert!(
        answer.code == Some(0) && answer.stdout.contains("config.toml"),
        "{answer:?}"
    );
    for no_daemon in ["0", "1"] {
        let mut shim = world.shim("SessionStart");
        shim.env("BECKET_NO_DAEMON", no_daemon);
        let began = Instant::now();
        let mut child = start(shim);
        drop(child.stdout.take());
        let other = payload.replace("\"s\"", &format!("\"other-{no_daemon}\""));
        child
            .stdin
            .take()
            .expect("a stdin")
            .write_all(other.as_bytes())
            .expect("it reads");
        let called = finish(child, began, BOUND);
        assert_eq!(called.code, Some(0), "{called:?}");
    }
    let events = world.events();
    assert_eq!(events.len(), 3);
    assert!(
        events
            .iter()
            .all(|event| event["decision"]["by"] == "becket:config"),
        "{events:?}"
    );
}

#[test]
fn a_closed_output_pipe_is_not_an_error() {
    let world = World::new();
    world.start_daemon();
    world.tell("s", "Stop", &json!({}));
    for no_daemon in ["0", "1"] {
        for form in [&["events"][..], &["events", "--json"], &["events", "--raw"]] {
            let mut log = world.becket(form);
            log.env("BECKET_NO_DAEMON", no_daemon);
            log.stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut log = log.spawn().expect("becket runs");
            drop(log.stdout.take());
            let output = log.wait_with_output().expect("an end");
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!((output.status.code(), &*said), (Some(0), ""), "{form:?}");
        }
    }
}
