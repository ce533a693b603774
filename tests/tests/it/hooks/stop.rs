//! A session whose Stop is judged by hooks of becket's own works until they let it stop.

use std::fs;

use serde_json::json;

use super::Ship;
use super::doubles::begins;

fn config(then: &str) -> String {
    format!(
        r#"
[hooks.judge]
on = "Stop"
timeout = "60s"
run = "echo begun > begun; while [ ! -e go ]; do sleep 0.05; done; {then}"
"#
    )
}

fn display(ship: &Ship) -> String {
    let sessions = ship.world.sessions();
    sessions[0]["display"].as_str().expect("a word").to_owned()
}

/// What the session displays while its Stop is judged, and afterwards.
fn displays(then: &str) -> [String; 2] {
    let ship = Ship::new(&config(then));
    ship.world.start_daemon();
    let prompt = ship.event("UserPromptSubmit", &json!({"prompt": "go"}));
    assert!(ship.world.send("UserPromptSubmit", prompt).is_silent());
    let stop = ship.event("Stop", &json!({"stop_hook_active": false}));
    let child = begins(ship.shim("Stop"), &stop);
    ship.wait_file("begun");
    let judged = display(&ship);
    fs::write(ship.project.join("go"), "").expect("a file");
    child.wait_with_output().expect("an end");
    [judged, display(&ship)]
}

#[test]
fn a_session_works_until_its_stop_is_let_through() {
    assert_eq!(displays("exit 0"), ["working", "done"]);
}

#[test]
fn and_works_on_if_it_is_not() {
    assert_eq!(displays("echo on >&2; exit 2"), ["working", "working"]);
}
