//! Bad input: each call ends in time, Claude Code is undisturbed, no event is lost, and the user can see
//! the fault.

#[cfg(target_os = "linux")]
mod clients;
#[cfg(target_os = "linux")]
mod disk;
pub(crate) mod fake_daemon;
mod home;
#[cfg(target_os = "linux")]
mod limits;
mod listener;
mod payload;
mod sessions;
#[cfg(target_os = "linux")]
mod stopped_daemon;

use std::process::Command;
use std::time::{Duration, Instant};

use becket_tests::world::{Called, World, finish, start};
use serde_json::{Value, json};

/// The longest time of a call: the second that it waits for the daemon, and the rest for a loaded machine.
const BOUND: Duration = Duration::from_secs(20);
/// The longest time of a call with an event of the largest size, in a build that is not optimised.
const LARGE_BOUND: Duration = Duration::from_secs(60);

/// Runs a hook that has to end in time. A thread feeds stdin, because the hook may not read all of it.
fn call(command: Command, payload: &[u8], bound: Duration) -> Called {
    use std::io::Write;
    let began = Instant::now();
    let mut child = start(command);
    let mut stdin = child.stdin.take().expect("a stdin");
    let payload = payload.to_vec();
    let writing = std::thread::spawn(move || drop(stdin.write_all(&payload)));
    let called = finish(child, began, bound);
    drop(writing.join());
    called
}

fn send(world: &World, payload: &[u8]) -> Called {
    call(world.shim("PreToolUse"), payload, BOUND)
}

/// Creates a world that is registered with Claude Code, so that doctor finds no fault.
fn registered() -> World {
    let world = World::new();
    world.run(&["up", "--only-register"]);
    world
}

/// Returns an event with a number.
fn numbered(n: u32) -> String {
    json!({"hook_event_name": "PreToolUse", "session_id": "s", "tool_use_id": n.to_string()})
        .to_string()
}

/// Sends the event of this number.
fn send_numbered(world: &World, n: u32) -> Called {
    send(world, numbered(n).as_bytes())
}

/// Sends the event of this number without a daemon.
fn send_standalone(world: &World, n: u32) -> Called {
    call(
        world.standalone_shim("PreToolUse"),
        numbered(n).as_bytes(),
        BOUND,
    )
}

/// Returns the numbers of the events in the log, in order, without the events of doctor.
fn numbers(world: &World) -> Vec<u32> {
    let events = world.events();
    let numbers = events
        .iter()
        .filter_map(|event| event["payload"]["tool_use_id"].as_str());
    numbers.map(|n| n.parse().expect("a number")).collect()
}

/// Returns a payload, byte for byte as stored.
fn raw_payload(world: &World, event: &Value) -> Vec<u8> {
    let id = event["id"].as_str().expect("an id");
    let output = world.output(&["events", "--raw", "--duplicates", "--id", id]);
    assert!(output.status.success(), "{output:?}");
    let mut bytes = output.stdout;
    assert_eq!(bytes.pop(), Some(b'\n'));
    bytes
}

/// Asserts that doctor reports `what` in this state, with a fix.
fn assert_doctor_reports(world: &World, state: &str, what: &str) {
    let (code, told) = world.doctor();
    let checks = told["checks"].as_array().expect("checks");
    let says = checks.iter().any(|check| {
        check["state"] == state
            && check["what"]
                .as_str()
                .is_some_and(|said| said.contains(what))
            && check["mend"].as_str().is_some_and(|mend| !mend.is_empty())
    });
    assert!(says, "doctor does not say `{what}` ({state}): {told:#}");
    let broken = checks.iter().any(|check| check["state"] == "broken");
    assert_eq!(code, Some(i32::from(broken)), "{told:#}");
    assert_eq!(told["ok"], !broken, "{told:#}");
}
