//! An agent works until becket's named hooks let its stop through, with and without a daemon, and if the
//! daemon ends meanwhile.

use std::fs;
use std::process::{Child, Command};

use becket_tests::wait::{self, PATIENCE};
use becket_tests::world::{World, is_alive};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::duplicates::start_call;
use super::{HookWorld, answer};

const LETS: &str = "exit 0";
const BLOCKS: &str = "echo on >&2; exit 2";

fn config(then: &str) -> String {
    format!(
        r#"
[hooks.judge]
on = ["Stop", "SubagentStop"]
timeout = "60s"
run = "echo begun > begun; while [ -e begun ] && [ ! -e go ]; do sleep 0.05; done; {then}"
"#
    )
}

/// Creates a world with a working session.
fn working_world(then: &str) -> HookWorld {
    let world = HookWorld::new(&config(then));
    world.start_daemon();
    let prompt = world.event("UserPromptSubmit", &json!({"prompt": "go"}));
    assert!(world.send("UserPromptSubmit", prompt).is_silent());
    world
}

/// Sends the session's Stop, and waits until its hooks run.
fn send_stop(world: &HookWorld, by: fn(&World, &str) -> Command) -> Child {
    let stop = world.event("Stop", &json!({"stop_hook_active": false}));
    let child = start_call(by(world, "Stop"), &stop);
    world.wait_file("begun");
    child
}

fn finish_hooks(world: &HookWorld, child: Child) {
    fs::write(world.project.join("go"), "").expect("a file");
    child.wait_with_output().expect("an end");
}

fn displayed_state(world: &HookWorld) -> String {
    let sessions = world.sessions();
    sessions[0]["display"].as_str().expect("a word").to_owned()
}

fn wait_display(world: &HookWorld, wanted: &str) {
    let is_so = || (displayed_state(world) == wanted).then_some(());
    wait::until(PATIENCE, is_so).unwrap_or_else(|| panic!("it is {}", displayed_state(world)));
}

/// Waits for the decision about the Stop in the log.
fn wait_decision(world: &HookWorld) -> Value {
    let found = || {
        let log = world.events();
        let stop = log.into_iter().find(|event| event["event"] == "Stop")?;
        stop["took_us"].is_i64().then_some(stop)
    };
    wait::until(PATIENCE, found).expect("a decision")
}

/// Returns the displayed state of the session while its Stop is judged, and afterwards.
fn displayed_states(then: &str) -> [String; 2] {
    let world = working_world(then);
    let child = send_stop(&world, World::shim);
    let judged = displayed_state(&world);
    finish_hooks(&world, child);
    [judged, displayed_state(&world)]
}

#[test]
fn a_session_works_until_its_stop_is_let_through() {
    assert_eq!(displayed_states(LETS), ["working", "done"]);
}

#[test]
fn a_session_works_on_after_a_blocked_stop() {
    assert_eq!(displayed_states(BLOCKS), ["working", "working"]);
}

#[test]
fn standalone_hooks_judge_a_stop_alike() {
    for (then, after) in [(LETS, "done"), (BLOCKS, "working")] {
        let world = working_world(then);
        let child = send_stop(&world, World::standalone_shim);
        let taken_in = || (world.events().len() == 2).then_some(());
        wait::until(PATIENCE, taken_in).expect("the stop is taken in");
        let judged = displayed_state(&world);
        finish_hooks(&world, child);
        wait_decision(&world);
        assert_eq!([&*judged, &*displayed_state(&world)], ["working", after]);
    }
}

#[test]
fn hooks_judge_a_stop_alike_while_the_daemon_is_being_stopped() {
    for (then, after) in [(LETS, "done"), (BLOCKS, "working")] {
        let world = working_world(then);
        let child = send_stop(&world, World::shim);
        let old = world.signal_daemon(Signal::TERM).expect("a daemon");
        let judged = displayed_state(&world);
        finish_hooks(&world, child);
        let gone = || (!is_alive(old)).then_some(());
        wait::until(PATIENCE, gone).expect("it is gone");
        wait_decision(&world);
        assert_eq!([&*judged, &*displayed_state(&world)], ["working", after]);
    }
}

#[test]
fn a_daemon_killed_during_stop_hooks_leaves_no_session_working() {
    let world = working_world(BLOCKS);
    let child = send_stop(&world, World::shim);
    world.kill_daemon();
    // The standalone becket answers, without the hooks.
    let output = child.wait_with_output().expect("an end");
    let answered = (output.status.code(), output.stdout.is_empty());
    world.start_daemon();
    wait_display(&world, "done");
    fs::write(world.project.join("go"), "").expect("a file");
    assert_eq!(answered, (Some(0), true), "{output:?}");
    assert_eq!(wait_decision(&world)["source"], "alone");
    assert_eq!(displayed_state(&world), "done");
}

#[test]
fn a_daemon_that_cuts_off_stop_hooks_leaves_no_session_working() {
    let world = working_world(BLOCKS);
    let child = send_stop(&world, World::shim);
    world.signal_daemon(Signal::TERM).expect("a daemon");
    let judged = displayed_state(&world);
    world.signal_daemon(Signal::TERM).expect("a daemon");
    let output = child.wait_with_output().expect("an end");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    world.start_daemon();
    wait_display(&world, "done");
    assert_eq!(judged, "working");
}

#[test]
fn a_subagent_works_until_its_stop_is_let_through() {
    for (then, after) in [(LETS, "idle"), (BLOCKS, "working")] {
        let world = working_world(then);
        let agent = json!({"agent_id": "a1", "agent_type": "Explore"});
        let start = world.event("SubagentStart", &agent);
        assert!(world.send("SubagentStart", start).is_silent());
        let status = || {
            let session = world.sessions().remove(0);
            let agent = session["agents"][0].clone();
            assert_eq!(agent["agent_id"], "a1", "{session:#}");
            let ended = !agent["ended_at"].is_null();
            (agent["status"].as_str().expect("a word").to_owned(), ended)
        };
        let stop = world.event("SubagentStop", &agent);
        let child = start_call(world.shim("SubagentStop"), &stop);
        world.wait_file("begun");
        let judged = status();
        finish_hooks(&world, child);
        assert_eq!(judged, ("working".to_owned(), false));
        assert_eq!(status(), (after.to_owned(), after == "idle"));
    }
}

#[test]
fn a_blocked_stop_sends_no_notice() {
    let world = HookWorld::new(
        r#"
[notice]
on = "done"
after = "0s"

[hooks.judge]
on = "Stop"
run = "[ -e go ] || { echo on >&2; exit 2; }"
"#,
    );
    world.start_daemon();
    let prompt = world.event("UserPromptSubmit", &json!({"prompt": "go"}));
    assert!(world.send("UserPromptSubmit", prompt).is_silent());
    let stop = || {
        let stop = world.event("Stop", &json!({"stop_hook_active": false}));
        answer(&world.send("Stop", stop))
    };
    let blocked = stop();
    assert_eq!(blocked["decision"], "block", "{blocked}");
    assert_eq!(blocked["terminalSequence"], Value::Null);
    fs::write(world.project.join("go"), "").expect("a file");
    assert_eq!(stop(), json!({"terminalSequence": "\u{7}"}));
}
