//! Pipes that never end, and pipes that ended long ago.

use std::fs;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use becket_tests::world::{Called, World, finish, start};
use serde_json::json;

use super::{BOUND, LARGE_BOUND, alone, doctor_says, kept};

/// How long stdin may be silent: past it, the event is taken as it is.
const SILENCE: Duration = Duration::from_secs(5);

/// Sends this and then keeps stdin open, saying nothing more.
fn never_ends(shim: Command, beginning: &[u8]) -> Called {
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
fn a_stdin_that_never_ends_is_taken_as_far_as_it_came() {
    let world = super::registered();
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
            let shims = [world.shim("PreToolUse"), alone(&world)];
            for shim in shims {
                scope.spawn(move || {
                    let called = never_ends(shim, beginning);
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
            .filter(|event| kept(&world, event) == beginning);
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
    doctor_says(&world, "warning", "stdin never ended");
}

#[test]
fn a_stdin_that_never_stops_is_cut_at_the_bound() {
    let world = super::registered();
    world.start_daemon();
    let began = Instant::now();
    let mut child = start(world.shim("PreToolUse"));
    let mut stdin = child.stdin.take().expect("a stdin");
    let pouring = std::thread::spawn(move || while stdin.write_all(&[b'x'; 64 << 10]).is_ok() {});
    let called = finish(child, began, LARGE_BOUND);
    drop(pouring.join());
    assert!(called.is_silent(), "{called:?}");
    let fault = "the event is longer than 32 MiB, and was cut";
    let event = &world.events()[0];
    assert_eq!(event["fault"], fault);
    assert_eq!(event["raw"].as_str().map(str::len), Some(32 << 20));
    assert!(world.run(&["events"]).contains(fault));
    doctor_says(&world, "warning", fault);
}

#[test]
fn a_stdin_that_trickles_for_ever_has_a_bound_too() {
    let world = World::new();
    world.start_daemon();
    let began = Instant::now();
    let mut child = start(world.shim("PreToolUse"));
    let mut stdin = child.stdin.take().expect("a stdin");
    let (enough, stopped) = channel::<()>();
    let trickling = std::thread::spawn(move || {
        // Always before the silence is long enough to end it.
        while stopped.recv_timeout(SILENCE / 10) == Err(RecvTimeoutError::Timeout)
            && stdin.write_all(b"x").is_ok()
        {}
    });
    let called = std::panic::catch_unwind(|| finish(child, began, LARGE_BOUND));
    drop(enough);
    drop(trickling.join());
    let called = called.expect("a stdin that brings a byte now and then holds the call for ever");
    assert!(called.is_silent(), "{called:?}");
    let event = &world.events()[0];
    assert!(
        event["fault"]
            .as_str()
            .is_some_and(|fault| fault.starts_with("stdin never ended"))
    );
}

/// A config that does not parse makes becket say something when a session starts.
fn talkative() -> World {
    let world = World::new();
    fs::create_dir_all(&world.becket_home).expect("a home");
    fs::write(world.path("config.toml"), "nonsense = [").expect("a config");
    world
}

#[test]
fn an_answer_that_nobody_reads_changes_nothing() {
    let world = talkative();
    let payload = json!({"hook_event_name": "SessionStart", "session_id": "s"}).to_string();
    let answer = super::call(world.shim("SessionStart"), payload.as_bytes(), BOUND);
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
fn whoever_has_read_enough_of_the_log_hears_no_complaint() {
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

#[test]
fn with_no_descriptors_at_all_it_is_an_empty_event() {
    let world = talkative();
    world.start_daemon();
    for no_daemon in ["0", "1"] {
        let mut shell = world.command("/bin/sh");
        shell
            .args(["-c", "exec \"$0\" \"$@\" <&- >&- 2>&-"])
            .arg(world.programs.join("becket-hook"))
            .args(["--event", "SessionStart", "--home"])
            .arg(&world.becket_home)
            .env("BECKET_NO_DAEMON", no_daemon)
            .stdout(Stdio::null());
        let status = shell.status().expect("a shell");
        assert_eq!((status.code(), status.signal()), (Some(0), None));
    }
    let events = world.events();
    assert_eq!(events.len(), 2);
    assert!(
        events
            .iter()
            .all(|event| event["fault"] == "the event is empty"),
        "{events:?}"
    );
}
