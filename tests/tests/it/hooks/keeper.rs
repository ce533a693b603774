//! A hook has its time also when whoever ran it is killed: another process keeps its clock then.

mod service;

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command};

use becket_tests::wait::{self, PATIENCE};
use becket_tests::world::is_alive;
use becket_wire::process::group_and_session;
use rustix::process::{Pid, Signal, kill_process};
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

fn signal(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    kill_process(pid.expect("a pid"), signal).expect("a signal");
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
    assert_eq!(ship.world.keepers().len(), 1);
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
    let keeper = *keepers.first().expect("a keeper");
    let stat = fs::read_to_string(format!("/proc/{keeper}/stat")).expect("it runs");
    let group = group_and_session(&stat).map(|(group, _)| group);
    assert_eq!(group, Some(keeper), "in a group of its own");
    ship.world.run(&["daemon", "stop"]);
    assert_eq!(ship.world.keepers(), [keeper], "the hook has a clock still");
    fs::write(ship.project.join("go"), "").expect("a file");
    child.wait_with_output().expect("an end");
    wait_gone(hook);
    ship.wait_without_keeper();
    assert_eq!(ship.run_of("patient")["outcome"], "ok");
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
    signal(first[0], Signal::KILL);
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

#[test]
fn a_new_keeper_knows_what_the_old_one_knew() {
    let quick = "[hooks.quick]\non = \"Stop\"\nrun = \"true\"\n";
    let ship = Ship::new(&format!("{quick}{}", STUBBORN.replace("2s", "4s")));
    ship.world.start_daemon();
    let child = begins(ship.shim("PreToolUse"), &ship.bash("t1"));
    let hook = [ship.process("begun"), ship.process("child")];
    let first = ship.world.keepers()[0];
    signal(first, Signal::KILL);
    wait_gone(first);
    let stop = ship.event("Stop", &json!({"stop_hook_active": false}));
    assert!(ship.world.send("Stop", stop).is_silent());
    ship.world.kill_daemon();
    child.wait_with_output().expect("an end");
    hook.into_iter().for_each(wait_gone);
    ship.world.start_daemon();
    let run = ship.run_of("stubborn");
    assert_eq!(run["note"], "becket was killed; the hook's time was up");
    ship.wait_without_keeper();
}

/// Whether it has come so far in its life.
fn catches_signals(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = caught.and_then(|caught| u64::from_str_radix(caught.trim(), 16).ok());
    let asked = [Signal::TERM, Signal::INT, Signal::HUP];
    asked
        .iter()
        .all(|one| caught.unwrap_or(0) >> (one.as_raw() - 1) & 1 == 1)
}

#[test]
fn a_keeper_that_is_asked_to_go_stays_while_there_is_something_to_keep() {
    let ship = Ship::new(STUBBORN);
    ship.world.start_daemon();
    let child = begins(ship.shim("PreToolUse"), &ship.bash("t1"));
    let hook = [ship.process("begun"), ship.process("child")];
    let keeper = ship.world.keepers()[0];
    wait::until(PATIENCE, || catches_signals(keeper).then_some(())).expect("it listens");
    for asked in [Signal::TERM, Signal::INT, Signal::HUP] {
        signal(keeper, asked);
    }
    ship.world.kill_daemon();
    child.wait_with_output().expect("an end");
    signal(keeper, Signal::TERM);
    hook.into_iter().for_each(wait_gone);
    assert_eq!(ship.run_of("stubborn")["outcome"], "orphaned");
    ship.wait_without_keeper();
}

#[test]
fn of_many_that_were_killed_while_they_began_each_has_its_own_row() {
    let hook = |n| {
        format!(
            "[hooks.h{n}]\non = \"PreToolUse\"\ntimeout = \"1s\"\nrun = 'read -r event; echo \"$event\" > \"ran-$BECKET_HOOK-$BECKET_RUN\"; echo $$ > begun; exec sleep 1000'\n"
        )
    };
    let ship = Ship::new(&(1..=5).map(hook).collect::<String>());
    ship.world.start_daemon();
    let calls = (0..20).map(|n| {
        let event = ship.bash(&format!("t{n}"));
        begins(ship.shim("PreToolUse"), &format!("{event}\n"))
    });
    let calls: Vec<Child> = calls.collect();
    ship.wait_file("begun");
    ship.world.kill_daemon();
    for call in calls {
        call.wait_with_output().expect("an end");
    }
    ship.wait_without_keeper();
    ship.world.start_daemon();
    let all = || Some(ship.world.events()).filter(|events| events.len() == 20);
    let ids = wait::until(PATIENCE, all).expect("all events").into_iter();
    let id = |event: &Value| event["payload"]["tool_use_id"].to_string();
    let ids: HashMap<String, Value> = ids.map(|one| (id(&one), one["id"].clone())).collect();
    let mut ran = 0;
    for entry in fs::read_dir(&ship.project).expect("a project").flatten() {
        let name = entry.file_name().into_string().expect("a name");
        let text = fs::read_to_string(entry.path()).expect("a file");
        // One that lost its daemon before it was given the event has written nothing down.
        let event = serde_json::from_str::<Value>(&text);
        let (Some(rest), Ok(event)) = (name.strip_prefix("ran-"), event) else {
            continue;
        };
        let hook = rest.split_once('-').expect("a hook").0;
        let id = &ids[&event["tool_use_id"].to_string()];
        let its = |row: &&Value| row["hook"] == hook && row["event_id"] == *id;
        let rows = || {
            let told = ship.world.run(&["recent", "--json", "1000"]);
            let rows: Vec<Value> = serde_json::from_str(&told).expect("JSON");
            Some(rows.iter().filter(its).count()).filter(|rows| *rows > 0)
        };
        assert_eq!(wait::until(PATIENCE, rows), Some(1), "{hook} {event}");
        ran += 1;
    }
    assert!(ran > 0);
}
