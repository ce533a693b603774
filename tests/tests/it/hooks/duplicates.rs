//! The same event from two registrations: one run, and the same refusal.

use std::fs;
use std::io::Write;
use std::process::{Child, Command};
use std::time::Instant;

use becket_tests::wait::{self, PATIENCE};
use becket_tests::world::{call, finish, start};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::HookWorld;

pub(super) const WAITS_AND_DENIES: &str = r#"
[hooks.slow-no]
on = "PreToolUse"
timeout = "60s"
run = """echo run >> runs; while [ ! -e go ]; do sleep 0.05; done; echo '{"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": "no"}}'"""
"#;

/// A hook that runs until it gets SIGTERM, and records that.
pub(super) const LONG: &str = r#"
[hooks.long]
on = "PreToolUse"
run = "trap 'echo ended > ended; exit' TERM; echo $$ > begun; while :; do sleep 0.05; done"
"#;

/// Sends the same call from one registration or another.
pub(super) fn send_call_from(world: &HookWorld, from: &str) -> Child {
    let mut shim = world.command(world.programs.join("becket-hook"));
    shim.args(["--event", "PreToolUse", "--from", from, "--home"])
        .arg(&world.becket_home);
    start_call(shim, &world.bash("t1"))
}

/// Starts a hook call that may take long.
pub(super) fn start_call(shim: Command, event: &str) -> Child {
    let mut child = start(shim);
    let mut stdin = child.stdin.take().expect("stdin");
    stdin.write_all(event.as_bytes()).expect("an event");
    child
}

#[test]
fn a_duplicate_event_gets_the_same_refusal_and_runs_no_hook() {
    let world = HookWorld::new(WAITS_AND_DENIES);
    world.start_daemon();
    let begin = |from: &str| send_call_from(&world, from);
    let first = begin("settings");
    world.wait_file("runs");
    let second = begin("plugin");
    let both = || (world.events().len() == 2).then_some(());
    wait::until(PATIENCE, both).expect("both events");
    fs::write(world.project.join("go"), "").expect("a file");
    for child in [first, second] {
        let output = child.wait_with_output().expect("an end");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(said.contains("\"deny\""), "{said}");
    }
    // A third event after the decision.
    let third = begin("run").wait_with_output().expect("an end");
    assert!(String::from_utf8_lossy(&third.stdout).contains("\"deny\""));
    assert_eq!(world.wait_file("runs"), "run\n");
    assert_eq!(world.recent().len(), 1);
}

#[test]
fn a_duplicate_event_is_answered_after_the_first_shim_was_killed() {
    let world = HookWorld::new(WAITS_AND_DENIES);
    world.start_daemon();
    let begin = |from: &str| send_call_from(&world, from);
    let mut first = begin("settings");
    world.wait_file("runs");
    let second = begin("plugin");
    let both = || (world.events().len() == 2).then_some(());
    wait::until(PATIENCE, both).expect("both events");
    first.kill().expect("a kill");
    first.wait().expect("an end");
    // Its answer proves that the daemon has handled the earlier messages.
    world.status();
    fs::write(world.project.join("go"), "").expect("a file");
    let output = second.wait_with_output().expect("an end");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("\"deny\""), "{said}");
    assert_eq!(world.wait_file("runs"), "run\n");
}

#[test]
fn a_hook_ends_when_its_last_waiting_shim_is_gone() {
    let world = HookWorld::new(LONG);
    world.start_daemon();
    let mut child = start_call(world.shim("PreToolUse"), &world.bash("t1"));
    world.wait_file("begun");
    child.kill().expect("a kill");
    child.wait().expect("an end");
    world.wait_file("ended");
    let run = wait::until(PATIENCE, || world.recent().first().cloned()).expect("a run");
    assert_eq!(run["outcome"], "cancelled");
    let event = run["event_id"].as_str().expect("an id");
    let why = world.run(&["why", event]);
    let said = "by the daemon; Claude Code ended or stopped waiting";
    assert!(why.contains(said), "{why}");
    let stats = world.stats();
    assert_eq!(
        (&stats["cancelled"], &stats["failed"]),
        (&json!(1), &json!(0))
    );
    assert!(stats["success_pct"].is_null(), "{stats:#}");
    assert!(
        call(
            world.shim("Stop"),
            world.event("Stop", &json!({})).as_bytes()
        )
        .is_silent()
    );
}

#[test]
fn async_hooks_end_with_their_daemon() {
    let world = HookWorld::new(&format!("{LONG}async = true\n"));
    world.start_daemon();
    assert!(world.calls("t1").is_silent());
    world.wait_file("begun");
    world.run(&["daemon", "stop"]);
    world.wait_file("ended");
    assert_eq!(world.recent()[0]["outcome"], "cut off");
    assert_eq!(world.stats()["failed"], 1);
    assert_eq!(world.events().len(), 1);
}

#[test]
fn standalone_hooks_end_with_their_becket_process() {
    let world = HookWorld::new(LONG);
    let mut child = start_call(world.standalone_shim("PreToolUse"), &world.bash("t1"));
    world.wait_file("begun");
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    kill_process(pid.expect("a pid"), Signal::TERM).expect("a signal");
    world.wait_file("ended");
    child.wait().expect("an end");
}

#[test]
fn background_hooks_use_up_no_place_of_waiting_shims() {
    let world = HookWorld::new(
        r#"
[hooks.behind]
on = "PreToolUse"
async = true
run = "while [ ! -e go ]; do sleep 0.3; done"
[hooks.asked]
on = "Stop"
run = """echo '{"systemMessage": "here"}'"""
"#,
    );
    world.start_daemon();
    // Bounded: a shim without a place would wait until the hook's time limit.
    let call = |event: &str, payload: &str| {
        let began = Instant::now();
        finish(start_call(world.shim(event), payload), began, PATIENCE)
    };
    for n in 0..70 {
        assert!(call("PreToolUse", &world.bash(&format!("t{n}"))).is_silent());
    }
    let stop = world.event("Stop", &serde_json::json!({"stop_hook_active": false}));
    let called = call("Stop", &stop);
    assert!(called.stdout.contains("asked: here"), "{called:?}");
    // A shim that finds no place is served after a while, without the daemon.
    let events = world.events();
    let stop = events.iter().find(|event| event["event"] == "Stop");
    assert_eq!(stop.expect("the event")["source"], "daemon");
    fs::write(world.project.join("go"), "").expect("a file");
    let told = || {
        let runs = world.run(&["hooks", "recent", "100", "--json"]);
        let runs: Vec<serde_json::Value> = serde_json::from_str(&runs).expect("JSON");
        // A hook that still runs would never see the file once the folder is deleted.
        let is_over = |run: &&serde_json::Value| run["hook"] == "behind" && run["outcome"] == "ok";
        (runs.iter().filter(is_over).count() == 70).then_some(())
    };
    wait::until(PATIENCE, told).expect("all of them have ended");
}
