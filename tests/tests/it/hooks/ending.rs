//! Hooks that run while their daemon ends: the answer still comes, or an error after the daemon's
//! time. What a killed daemon left behind is ended by the next one.

use std::fs;
use std::process::{Command, Stdio};

use becket_tests::wait::{self, PATIENCE};
use becket_tests::world::{call, is_alive};
use becket_wire::StartReport;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::alone::{end, parent_of};
use super::doubles::{LONG, WAITS_AND_DENIES, asks, begins};
use super::{DENIES, Ship};
use crate::chaos::takeover::{serving, start_as};

/// Does not end when asked to, nor does its child.
const STUBBORN: &str = r#"
[hooks.stubborn]
on = "PreToolUse"
timeout = "2s"
run = """trap '' TERM; sh -c 'echo $$ > child; while :; do sleep 1000; done' & echo $$ > begun; while :; do sleep 1000; done"""
"#;

/// Ends when the file `go` is there.
const PATIENT: &str = r#"
[hooks.patient]
on = "PreToolUse"
timeout = "60s"
run = "trap 'echo asked > asked' TERM; echo $$ > begun; while [ ! -e go ]; do sleep 0.05; done"
"#;

impl Ship {
    /// The process whose number a hook wrote down.
    fn process(&self, name: &str) -> u32 {
        self.wait_file(name).trim().parse().expect("a pid")
    }

    fn go(&self) {
        fs::write(self.project.join("go"), "").expect("a file");
    }

    fn running(&self) -> Vec<Value> {
        let told = self.world.run(&["recent", "--json"]);
        let runs: Vec<Value> = serde_json::from_str(&told).expect("JSON");
        let runs = runs.into_iter();
        runs.filter(|run| run["outcome"] == "running").collect()
    }

    fn run_files(&self) -> usize {
        let files = fs::read_dir(self.world.path("run/running"));
        files.map_or(0, Iterator::count)
    }

    /// Waits until a hook that has begun is listed.
    pub(super) fn wait_listed(&self) {
        let listed = || (!self.running().is_empty()).then_some(());
        wait::until(PATIENCE, listed).expect("it is listed");
    }
}

/// The one run of a hook, once it is recorded.
fn recorded(ship: &Ship, hook: &str) -> Value {
    let found = || {
        let runs = ship.recent();
        let of_hook = runs.into_iter().filter(|run| run["hook"] == hook);
        let found: Vec<Value> = of_hook.collect();
        assert!(found.len() < 2, "{found:#?}");
        found.into_iter().next()
    };
    wait::until(PATIENCE, found).expect("a run")
}

fn wait_gone(pid: u32) {
    let gone = || (!is_alive(pid)).then_some(());
    wait::until(PATIENCE, gone).unwrap_or_else(|| panic!("{pid} still runs"));
}

#[test]
fn what_a_killed_process_left_behind_ends_in_its_time() {
    let runners: [fn(&Ship, &str) -> Command; 2] = [Ship::shim, Ship::alone];
    for (runner, by_daemon) in runners.into_iter().zip([true, false]) {
        let ship = Ship::new(STUBBORN);
        if by_daemon {
            ship.world.start_daemon();
        }
        let mut child = begins(runner(&ship, "PreToolUse"), &ship.bash("t1"));
        let hook = [ship.process("begun"), ship.process("child")];
        ship.wait_listed();
        match by_daemon {
            true => ship.world.kill_daemon(),
            false => end(&parent_of(&hook[0].to_string())),
        }
        child.wait().expect("an end");
        ship.world.start_daemon();
        assert_eq!(ship.running()[0]["hook"], "stubborn");
        hook.into_iter().for_each(wait_gone);
        let run = recorded(&ship, "stubborn");
        assert_eq!(run["outcome"], "orphaned", "{run}");
        assert_eq!(run["note"], "becket was killed; the hook's time was up");
        assert_eq!(run["session_id"], super::SESSION);
        assert!(run["took_us"].as_i64() >= Some(2_000_000), "{run}");
        let events = ship.world.events();
        assert_eq!(events.len(), 1, "{events:?}");
        assert_eq!(run["event_id"], events[0]["id"]);
        let why = ship.world.run(&["why"]);
        assert!(why.contains("orphaned"), "{why}");
        assert_eq!(ship.run_files(), 0);
    }
}

#[test]
fn what_has_time_left_goes_on_to_its_own_end() {
    let ship = Ship::new(PATIENT);
    ship.world.start_daemon();
    let child = begins(ship.shim("PreToolUse"), &ship.bash("t1"));
    let hook = ship.process("begun");
    ship.wait_listed();
    ship.world.kill_daemon();
    child.wait_with_output().expect("an end");
    ship.world.start_daemon();
    assert!(is_alive(hook));
    ship.go();
    let run = recorded(&ship, "patient");
    assert_eq!(run["outcome"], "orphaned", "{run}");
    assert_eq!(run["note"], "becket was killed; the hook ended by itself");
    assert!(!ship.project.join("asked").exists(), "it had time left");
}

#[test]
fn what_goes_on_in_the_background_standalone_has_its_time_too() {
    let ship = Ship::new(
        r#"
[hooks.goes-on]
on = "PreToolUse"
run = """echo '{"async": true, "asyncTimeout": 1000}'; echo $$ > begun; exec sleep 1000"""
"#,
    );
    let called = call(ship.alone("PreToolUse"), ship.bash("t1").as_bytes());
    assert!(called.is_silent(), "{called:?}");
    ship.world.start_daemon();
    wait_gone(ship.process("begun"));
    let ended = || Some(recorded(&ship, "goes-on")).filter(|run| run["outcome"] == "timed out");
    wait::until(PATIENCE, ended).expect("its end");
}

#[test]
fn a_daemon_that_is_stopped_takes_no_denial_away() {
    let ship = Ship::new(WAITS_AND_DENIES);
    let old = ship.world.start_daemon();
    let child = begins(ship.shim("PreToolUse"), &ship.bash("t1"));
    ship.wait_file("runs");
    let mut stop = ship.world.becket(["daemon", "stop"]);
    let stop = stop.stdout(Stdio::piped()).spawn().expect("becket");
    // It serves what needs no hook, and tells what runs.
    let start = ship.event("SessionStart", &json!({"source": "startup"}));
    let served = ship.world.send("SessionStart", start);
    let why = ship.world.output(&["why"]).stdout;
    ship.go();
    let output = child.wait_with_output().expect("an end");
    let stop = stop.wait_with_output().expect("an end");
    assert!(served.is_silent(), "{served:?}");
    let why = String::from_utf8_lossy(&why);
    assert!(why.contains("slow-no runs still, until "), "{why}");
    let answer = String::from_utf8_lossy(&output.stdout);
    assert!(answer.contains("\"deny\""), "{output:?}");
    let said = String::from_utf8_lossy(&stop.stdout);
    let expected =
        "The daemon waits 30 seconds at most for its hooks: slow-no.\nThe daemon has ended.\n";
    assert_eq!(said, expected);
    wait_gone(old);
    assert_eq!(recorded(&ship, "slow-no")["decision"], "deny");
    let log = ship.world.events();
    assert!(log.iter().all(|it| it["source"] == "daemon"), "{log:#?}");
}

#[test]
fn an_event_that_needs_hooks_goes_standalone_while_the_daemon_ends() {
    let ship = Ship::new(&format!(
        "{PATIENT}{}",
        DENIES
            .replace("PreToolUse", "Stop")
            .replace("tools = \"Bash\"\n", "")
    ));
    let old = ship.world.start_daemon();
    let child = begins(ship.shim("PreToolUse"), &ship.bash("t1"));
    ship.wait_file("begun");
    ship.world.signal_daemon(Signal::TERM).expect("a daemon");
    let stops = || {
        let stop = ship.event("Stop", &json!({"stop_hook_active": false}));
        ship.world.send("Stop", stop);
        let mut log = ship.world.events();
        log.pop().filter(|event| event["source"] == "alone")
    };
    let alone = wait::until(PATIENCE, stops);
    let waits = is_alive(old);
    ship.go();
    let output = child.wait_with_output().expect("an end");
    assert!(alone.is_some() && waits, "{alone:?}");
    assert!(output.status.success(), "{output:?}");
    wait_gone(old);
}

#[test]
fn hooks_that_outlast_the_daemons_time_are_cut_off_and_claude_code_hears_of_it() {
    // Told once, with no time left; or told twice.
    for drain in ["0", "30"] {
        let ship = Ship::new(LONG);
        let mut daemon = ship.world.becket(["daemon", "run", "--drain", drain]);
        let mut daemon = daemon.stdout(Stdio::null()).spawn().expect("a daemon");
        wait::until(PATIENCE, || serving(&ship.world)).expect("it serves");
        let first = asks(&ship, "settings");
        ship.wait_file("begun");
        let double = asks(&ship, "plugin");
        let both = || (ship.world.events().len() == 2).then_some(());
        wait::until(PATIENCE, both).expect("both events");
        ship.world.signal_daemon(Signal::TERM).expect("a daemon");
        if drain == "30" {
            let told = fs::read_to_string(ship.world.path("log/daemon.log"));
            assert!(told.is_ok() && !ship.project.join("ended").exists());
            let ending = || {
                let log = fs::read_to_string(ship.world.path("log/daemon.log")).ok()?;
                log.contains("ending").then_some(())
            };
            wait::until(PATIENCE, ending).expect("it was told");
            ship.world.signal_daemon(Signal::TERM).expect("a daemon");
        }
        ship.wait_file("ended");
        for child in [first, double] {
            let output = child.wait_with_output().expect("an end");
            // An error: passed over, or with `becket init --strict` as good as a denial. Never silence.
            assert_eq!(output.status.code(), Some(1), "{output:?}");
            assert!(output.stdout.is_empty(), "{output:?}");
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(
                said,
                "becket: the daemon ended before this had answered: long\n"
            );
        }
        daemon.wait().expect("an end");
        assert_eq!(recorded(&ship, "long")["outcome"], "cut off");
        let why = ship.world.run(&["why"]);
        let said =
            "by the daemon; the daemon ended before its hooks did, and Claude Code got an error";
        assert!(why.contains(said), "{why}");
    }
}

#[test]
fn a_newer_build_takes_over_when_the_hooks_have_ended_and_loses_nothing() {
    let ship = Ship::new(WAITS_AND_DENIES);
    let old = ship.world.start_daemon();
    let child = begins(ship.shim("PreToolUse"), &ship.bash("t1"));
    ship.wait_file("runs");
    let (notice, output, waits) = std::thread::scope(|scope| {
        let taking_over = scope.spawn(|| start_as(&ship.world, "9.0.1"));
        let next = || (ship.world.daemons().len() == 2).then_some(());
        let waits = wait::until(PATIENCE, next).is_some() && is_alive(old);
        let start = ship.event("SessionStart", &json!({"source": "startup"}));
        let served = ship.world.send("SessionStart", start);
        ship.go();
        let output = child.wait_with_output().expect("an end");
        let notice = taking_over.join().expect("a notice");
        (notice, output, waits && served.is_silent())
    });
    assert!(waits);
    assert_eq!(notice, StartReport::Ready);
    assert_eq!(serving(&ship.world).as_deref(), Some("9.0.1"));
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("\"deny\""), "{output:?}");
    wait_gone(old);
    assert_eq!(recorded(&ship, "slow-no")["decision"], "deny");
    let log = ship.world.events();
    assert_eq!(log.len(), 2, "{log:#?}");
    assert!(log.iter().all(|it| it["source"] == "daemon"), "{log:#?}");
    assert_eq!(ship.wait_file("runs"), "run\n", "it ran once");
}
