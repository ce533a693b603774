//! A hook has its time also when whoever ran it is killed: another process keeps its clock then.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command};

use becket_tests::wait::{self, PATIENCE};
use becket_tests::world::is_alive;
use rustix::process::{Pid, Signal, getpgid, kill_process};
use serde_json::{Value, json};

use super::Ship;
use super::doubles::begins;

/// Hears no request to end, nor does its child.
const STUBBORN: &str = r#"
[hooks.stubborn]
on = "PreToolUse"
timeout = "2s"
run = """trap '' TERM; sh -c 'echo $$ > child; while :; do sleep 1000; done' & echo $$ > begun; while :; do sleep 1000; done"""
"#;

/// Ends when it is told to go, and not before.
const PATIENT: &str = r#"
[hooks.patient]
on = "PreToolUse"
timeout = "60s"
run = "trap 'echo asked > asked' TERM; echo $$ > begun; while [ ! -e go ]; do sleep 0.05; done; echo done > done"
"#;

impl Ship {
    /// The process whose number a hook wrote down.
    fn process(&self, name: &str) -> u32 {
        self.wait_file(name).trim().parse().expect("a pid")
    }

    /// The one run that was recorded, once it is.
    fn run_of(&self, hook: &str) -> Value {
        let found = || {
            let runs = self.recent();
            runs.into_iter().find(|run| run["hook"] == hook)
        };
        wait::until(PATIENCE, found).expect("a run")
    }

    fn wait_without_keeper(&self) {
        let gone = || self.world.keepers().is_empty().then_some(());
        wait::until(PATIENCE, gone).expect("no keeper stays behind");
    }
}

fn wait_gone(pid: u32) {
    let gone = || (!is_alive(pid)).then_some(());
    wait::until(PATIENCE, gone).unwrap_or_else(|| panic!("{pid} still runs"));
}

fn kill(child: &mut Child) {
    child.kill().expect("a kill");
    child.wait().expect("an end");
}

/// What a call has become that found no daemon: the same process.
fn alone(ship: &Ship) -> Command {
    ship.alone("PreToolUse")
}

#[test]
fn a_hook_ends_in_its_time_though_its_daemon_was_killed() {
    let ship = Ship::new(STUBBORN);
    ship.world.start_daemon();
    let child = begins(ship.shim("PreToolUse"), &ship.bash("t1"));
    let hook = [ship.process("begun"), ship.process("child")];
    ship.world.kill_daemon();
    let output = child.wait_with_output().expect("an end");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    hook.into_iter().for_each(wait_gone);
    ship.world.start_daemon();
    let run = ship.run_of("stubborn");
    assert_eq!(run["outcome"], "orphaned", "{run}");
    assert_eq!(run["note"], "becket was killed; the hook's time was up");
    assert_eq!(run["event"], "PreToolUse");
    assert_eq!(run["session_id"], super::SESSION);
    assert!(run["took_us"].as_i64() >= Some(2_000_000), "{run}");
    assert_eq!(run["exit"], Value::Null);
    let events = ship.world.events();
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!(run["event_id"], events[0]["id"]);
    let why = ship.world.run(&["why"]);
    assert!(why.contains("orphaned"), "{why}");
    ship.wait_without_keeper();
}

#[test]
fn and_so_it_does_alone() {
    let ship = Ship::new(STUBBORN);
    let mut child = begins(alone(&ship), &ship.bash("t1"));
    let hook = [ship.process("begun"), ship.process("child")];
    kill(&mut child);
    hook.into_iter().for_each(wait_gone);
    ship.world.start_daemon();
    let run = ship.run_of("stubborn");
    assert_eq!(run["outcome"], "orphaned", "{run}");
    assert_eq!(run["note"], "becket was killed; the hook's time was up");
    ship.wait_without_keeper();
}

#[test]
fn a_hook_that_has_time_left_goes_on_to_its_own_end() {
    let ship = Ship::new(PATIENT);
    ship.world.start_daemon();
    let child = begins(ship.shim("PreToolUse"), &ship.bash("t1"));
    let hook = ship.process("begun");
    ship.world.kill_daemon();
    child.wait_with_output().expect("an end");
    assert_eq!(ship.world.keepers().len(), 1);
    assert!(is_alive(hook), "nobody ended it");
    fs::write(ship.project.join("go"), "").expect("a file");
    ship.wait_file("done");
    wait_gone(hook);
    let run = ship.run_of("patient");
    assert_eq!(run["outcome"], "orphaned", "{run}");
    let note = run["note"].as_str().expect("a note");
    assert!(note.starts_with("becket was killed; the hook ended by itself"));
    assert!(!ship.project.join("asked").exists(), "nobody asked it to");
    ship.wait_without_keeper();
}

#[test]
fn what_ended_before_is_recorded_as_it_was() {
    let quick = r#"
[hooks.quick]
on = ["PreToolUse", "Stop"]
run = "echo $$ > quick; echo no luck >&2; exit 3"
"#;
    let ship = Ship::new(&format!("{quick}{PATIENT}"));
    ship.world.start_daemon();
    let child = begins(ship.shim("PreToolUse"), &ship.bash("t1"));
    let hook = ship.process("begun");
    let buried = PathBuf::from(format!("/proc/{}", ship.process("quick")));
    let buried = || (!buried.exists()).then_some(());
    wait::until(PATIENCE, buried).expect("the daemon has seen its end");
    // Another event, whole: of the first one's quick hook all is told by then.
    let stop = ship.event("Stop", &json!({"stop_hook_active": false}));
    assert!(ship.world.send("Stop", stop).is_silent());
    ship.world.kill_daemon();
    child.wait_with_output().expect("an end");
    fs::write(ship.project.join("go"), "").expect("a file");
    wait_gone(hook);
    ship.wait_without_keeper();
    assert_eq!(ship.run_of("patient")["outcome"], "orphaned");
    let runs = ship.recent();
    assert_eq!(runs.len(), 3, "{runs:?}");
    for run in runs.iter().filter(|run| run["hook"] == "quick") {
        assert_eq!(run["outcome"], "failed", "{run}");
        assert_eq!(run["exit"], 3);
        // What a hook wrote is masked before it is kept: the keeper is not told.
        let is_whole = run["event"] == "Stop";
        assert_eq!(run["note"].is_string(), is_whole, "{run}");
    }
}

#[test]
fn a_home_that_was_thrown_away_does_not_come_back() {
    let ship = Ship::new(PATIENT);
    let mut child = begins(alone(&ship), &ship.bash("t1"));
    let hook = ship.process("begun");
    kill(&mut child);
    fs::remove_dir_all(&ship.world.becket_home).expect("becket's home");
    fs::write(ship.project.join("go"), "").expect("a file");
    wait_gone(hook);
    ship.wait_without_keeper();
    assert!(!ship.world.becket_home.exists());
}

#[test]
fn a_daemon_that_stops_leaves_no_keeper_behind() {
    let ship = Ship::new(PATIENT);
    ship.world.start_daemon();
    assert!(ship.world.keepers().is_empty(), "there is nothing to keep");
    let child = begins(ship.shim("PreToolUse"), &ship.bash("t1"));
    let hook = ship.process("begun");
    let keepers = ship.world.keepers();
    let keeper = keepers.first().and_then(|pid| i32::try_from(*pid).ok());
    let keeper = keeper.and_then(Pid::from_raw).expect("a keeper");
    assert_eq!(getpgid(Some(keeper)), Ok(keeper), "in a group of its own");
    ship.world.run(&["daemon", "stop"]);
    child.wait_with_output().expect("an end");
    wait_gone(hook);
    ship.wait_without_keeper();
    assert_eq!(ship.run_of("patient")["outcome"], "cancelled");
}

#[test]
fn one_keeper_serves_all_events_and_a_new_one_takes_its_place() {
    let ship = Ship::new("[hooks.quick]\non = \"PreToolUse\"\nrun = \"true\"\n");
    ship.world.start_daemon();
    for n in 0..5 {
        assert!(ship.calls(&format!("t{n}")).is_silent());
    }
    let first = ship.world.keepers();
    assert_eq!(first.len(), 1);
    let pid = i32::try_from(first[0]).ok().and_then(Pid::from_raw);
    kill_process(pid.expect("a pid"), Signal::KILL).expect("a kill");
    wait_gone(first[0]);
    assert!(ship.calls("t9").is_silent());
    let second = ship.world.keepers();
    assert!(second.len() == 1 && second != first, "{second:?}");
    let runs = ship.recent();
    assert!(runs.iter().all(|run| run["outcome"] == "ok"), "{runs:?}");
    assert_eq!(runs.len(), 6);
}

#[test]
fn what_goes_on_in_the_background_alone_keeps_its_clock() {
    let ship = Ship::new(
        r#"
[hooks.goes-on]
on = "PreToolUse"
run = """echo '{"async": true, "asyncTimeout": 1000}'; echo $$ > begun; exec sleep 1000"""
"#,
    );
    let called = becket_tests::world::call(alone(&ship), ship.bash("t1").as_bytes());
    assert!(called.is_silent(), "{called:?}");
    wait_gone(ship.process("begun"));
    // By then it has told the end.
    ship.wait_without_keeper();
    let run = ship.run_of("goes-on");
    assert_eq!(run["outcome"], "timed out", "{run}");
}

#[test]
fn what_a_person_tries_ends_too_when_the_try_is_killed() {
    let ship = Ship::new(STUBBORN);
    let event = ship.project.join("event.json");
    fs::write(&event, ship.bash("t1")).expect("an event");
    let mut command = ship.world.becket(["try", "stubborn", "--event"]);
    command.arg(event).current_dir(&ship.project);
    let mut child = command.spawn().expect("becket");
    let hook = [ship.process("begun"), ship.process("child")];
    kill(&mut child);
    hook.into_iter().for_each(wait_gone);
    ship.wait_without_keeper();
    assert_eq!(json!(ship.recent()), json!([]), "nothing is recorded");
}
