//! An agent works until becket's named hooks let its stop through, with and without a daemon, and if the
//! daemon ends meanwhile.

use std::fs;
use std::process::{Child, Command};

use becket_tests::wait::{self, PATIENCE};
use becket_tests::world::is_alive;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::doubles::begins;
use super::{Ship, answer};

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
fn ship(then: &str) -> Ship {
    let ship = Ship::new(&config(then));
    ship.world.start_daemon();
    let prompt = ship.event("UserPromptSubmit", &json!({"prompt": "go"}));
    assert!(ship.world.send("UserPromptSubmit", prompt).is_silent());
    ship
}

/// Sends the session's Stop, and waits until its hooks run.
fn stops(ship: &Ship, by: fn(&Ship, &str) -> Command) -> Child {
    let stop = ship.event("Stop", &json!({"stop_hook_active": false}));
    let child = begins(by(ship, "Stop"), &stop);
    ship.wait_file("begun");
    child
}

fn ends(ship: &Ship, child: Child) {
    fs::write(ship.project.join("go"), "").expect("a file");
    child.wait_with_output().expect("an end");
}

fn display(ship: &Ship) -> String {
    let sessions = ship.world.sessions();
    sessions[0]["display"].as_str().expect("a word").to_owned()
}

fn wait_display(ship: &Ship, wanted: &str) {
    let is_so = || (display(ship) == wanted).then_some(());
    wait::until(PATIENCE, is_so).unwrap_or_else(|| panic!("it is {}", display(ship)));
}

/// Waits for the decision about the Stop in the log.
fn decided(ship: &Ship) -> Value {
    let found = || {
        let log = ship.world.events();
        let stop = log.into_iter().find(|event| event["event"] == "Stop")?;
        stop["took_us"].is_i64().then_some(stop)
    };
    wait::until(PATIENCE, found).expect("a decision")
}

/// Returns the displayed state of the session while its Stop is judged, and afterwards.
fn displays(then: &str) -> [String; 2] {
    let ship = ship(then);
    let child = stops(&ship, Ship::shim);
    let judged = display(&ship);
    ends(&ship, child);
    [judged, display(&ship)]
}

#[test]
fn a_session_works_until_its_stop_is_let_through() {
    assert_eq!(displays(LETS), ["working", "done"]);
}

#[test]
fn a_session_works_on_after_a_blocked_stop() {
    assert_eq!(displays(BLOCKS), ["working", "working"]);
}

#[test]
fn standalone_hooks_judge_a_stop_alike() {
    for (then, after) in [(LETS, "done"), (BLOCKS, "working")] {
        let ship = ship(then);
        let child = stops(&ship, Ship::alone);
        let taken_in = || (ship.world.events().len() == 2).then_some(());
        wait::until(PATIENCE, taken_in).expect("the stop is taken in");
        let judged = display(&ship);
        ends(&ship, child);
        decided(&ship);
        assert_eq!([&*judged, &*display(&ship)], ["working", after]);
    }
}

#[test]
fn hooks_judge_a_stop_alike_while_the_daemon_is_being_stopped() {
    for (then, after) in [(LETS, "done"), (BLOCKS, "working")] {
        let ship = ship(then);
        let child = stops(&ship, Ship::shim);
        let old = ship.world.signal_daemon(Signal::TERM).expect("a daemon");
        let judged = display(&ship);
        ends(&ship, child);
        let gone = || (!is_alive(old)).then_some(());
        wait::until(PATIENCE, gone).expect("it is gone");
        decided(&ship);
        assert_eq!([&*judged, &*display(&ship)], ["working", after]);
    }
}

#[test]
fn a_daemon_killed_during_stop_hooks_leaves_no_session_working() {
    let ship = ship(BLOCKS);
    let child = stops(&ship, Ship::shim);
    ship.world.kill_daemon();
    // The standalone becket answers, without the hooks.
    let output = child.wait_with_output().expect("an end");
    let answered = (output.status.code(), output.stdout.is_empty());
    ship.world.start_daemon();
    wait_display(&ship, "done");
    fs::write(ship.project.join("go"), "").expect("a file");
    assert_eq!(answered, (Some(0), true), "{output:?}");
    assert_eq!(decided(&ship)["source"], "alone");
    assert_eq!(display(&ship), "done");
}

#[test]
fn a_daemon_that_cuts_off_stop_hooks_leaves_no_session_working() {
    let ship = ship(BLOCKS);
    let child = stops(&ship, Ship::shim);
    ship.world.signal_daemon(Signal::TERM).expect("a daemon");
    let judged = display(&ship);
    ship.world.signal_daemon(Signal::TERM).expect("a daemon");
    let output = child.wait_with_output().expect("an end");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    ship.world.start_daemon();
    wait_display(&ship, "done");
    assert_eq!(judged, "working");
}

#[test]
fn a_subagent_works_until_its_stop_is_let_through() {
    for (then, after) in [(LETS, "idle"), (BLOCKS, "working")] {
        let ship = ship(then);
        let agent = json!({"agent_id": "a1", "agent_type": "Explore"});
        let start = ship.event("SubagentStart", &agent);
        assert!(ship.world.send("SubagentStart", start).is_silent());
        let status = || {
            let session = ship.world.sessions().remove(0);
            let agent = session["agents"][0].clone();
            assert_eq!(agent["agent_id"], "a1", "{session:#}");
            let ended = !agent["ended_at"].is_null();
            (agent["status"].as_str().expect("a word").to_owned(), ended)
        };
        let stop = ship.event("SubagentStop", &agent);
        let child = begins(ship.shim("SubagentStop"), &stop);
        ship.wait_file("begun");
        let judged = status();
        ends(&ship, child);
        assert_eq!(judged, ("working".to_owned(), false));
        assert_eq!(status(), (after.to_owned(), after == "idle"));
    }
}

#[test]
fn a_blocked_stop_sends_no_notice() {
    let ship = Ship::new(
        r#"
[notice]
on = "done"
after = "0s"

[hooks.judge]
on = "Stop"
run = "[ -e go ] || { echo on >&2; exit 2; }"
"#,
    );
    ship.world.start_daemon();
    let prompt = ship.event("UserPromptSubmit", &json!({"prompt": "go"}));
    assert!(ship.world.send("UserPromptSubmit", prompt).is_silent());
    let stop = || {
        let stop = ship.event("Stop", &json!({"stop_hook_active": false}));
        answer(&ship.world.send("Stop", stop))
    };
    let blocked = stop();
    assert_eq!(blocked["decision"], "block", "{blocked}");
    assert_eq!(blocked["terminalSequence"], Value::Null);
    fs::write(ship.project.join("go"), "").expect("a file");
    assert_eq!(stop(), json!({"terminalSequence": "\u{7}"}));
}
