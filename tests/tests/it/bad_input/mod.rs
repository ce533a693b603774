//! Bad input: whatever comes, the call ends, Claude Code is undisturbed, nothing is lost, and a
//! person can see what was wrong.

#[cfg(target_os = "linux")]
mod disk;
pub(crate) mod fake;
mod home;
#[cfg(target_os = "linux")]
mod limits;
mod listener;
mod payload;
#[cfg(target_os = "linux")]
mod peer;
mod sessions;
#[cfg(target_os = "linux")]
mod stuck;

use std::process::Command;
use std::time::{Duration, Instant};

use becket_tests::world::{Called, World, finish, start};
use serde_json::{Value, json};

/// What a call may take at the most: the second that it waits for the daemon, and the rest for a
/// loaded machine.
const BOUND: Duration = Duration::from_secs(20);
/// The same for events that are as large as they may be, in a build that is not optimised.
const LARGE_BOUND: Duration = Duration::from_secs(60);

/// Runs a hook that has to end in time. A writer of its own feeds stdin: the hook may not want all.
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

/// A world that is registered with Claude Code, so that doctor has nothing to say of it.
fn registered() -> World {
    let world = World::new();
    world.run(&["init"]);
    world
}

/// An event that can be told from the others.
fn numbered(n: u32) -> String {
    json!({"hook_event_name": "PreToolUse", "session_id": "s", "tool_use_id": n.to_string()})
        .to_string()
}

/// The numbers of the events in the log, but for what doctor sends, in their order.
fn numbers(world: &World) -> Vec<u32> {
    let events = world.events();
    let numbers = events
        .iter()
        .filter_map(|event| event["payload"]["tool_use_id"].as_str());
    numbers.map(|n| n.parse().expect("a number")).collect()
}

/// A payload, byte for byte as it was kept.
fn kept(world: &World, event: &Value) -> Vec<u8> {
    let id = event["id"].as_str().expect("an id");
    let output = world.output(&["events", "--raw", "--duplicates", "--id", id]);
    assert!(output.status.success(), "{output:?}");
    let mut bytes = output.stdout;
    assert_eq!(bytes.pop(), Some(b'\n'));
    bytes
}

/// Doctor says this of some part, in this state, with a way to mend it.
fn doctor_says(world: &World, state: &str, what: &str) {
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

/// The road without a daemon.
fn alone(world: &World) -> Command {
    let mut shim = world.shim("PreToolUse");
    shim.env("BECKET_NO_DAEMON", "1");
    shim
}
