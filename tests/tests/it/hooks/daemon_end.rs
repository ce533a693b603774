//! Hooks that run while their daemon ends: the answer still comes, or an error after the daemon's time. The
//! next daemon ends the hooks of a killed one.

use std::fs;
use std::process::{Command, Stdio};

use becket_tests::wait::{self, PATIENCE};
use becket_tests::world::{World, call, is_alive};
use becket_wire::StartReport;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::duplicates::{LONG, WAITS_AND_DENIES, send_call_from, start_call};
use super::standalone::{end, parent_of};
use super::{DENIES, HookWorld};
use crate::chaos::takeover::{serving, start_as};

/// A hook that ignores SIGTERM, and so does its child.
const STUBBORN: &str = r#"
[hooks.stubborn]
on = "PreToolUse"
timeout = "2s"
run = """trap '' TERM; sh -c 'echo $$ > child; while :; do sleep 1000; done' & echo $$ > begun; while :; do sleep 1000; done"""
"#;

/// A hook that ends when the file `go` exists.
const PATIENT: &str = r#"
[hooks.patient]
on = "PreToolUse"
timeout = "60s"
run = "trap 'echo asked > asked' TERM; echo $$ > begun; while [ ! -e go ]; do sleep 0.05; done"
"#;

impl HookWorld {
    /// Returns the process whose pid a hook recorded.
    fn process(&self, name: &str) -> u32 {
        self.wait_file(name).trim().parse().expect("a pid")
    }

    fn go(&self) {
        fs::write(self.project.join("go"), "").expect("a file");
    }

    fn running(&self) -> Vec<Value> {
        let told = self.world.run(&["hooks", "recent", "--json"]);
        let runs: Vec<Value> = serde_json::from_str(&told).expect("JSON");
        let runs = runs.into_iter();
        runs.filter(|run| run["outcome"] == "running").collect()
    }

    fn run_files(&self) -> usize {
        let files = fs::read_dir(self.world.path("run/running"));
        files.map_or(0, Iterator::count)
    }

    /// Waits until a started hook is listed.
    pub(super) fn wait_listed(&self) {
        let listed = || (!self.running().is_empty()).then_some(());
        wait::until(PATIENCE, listed).expect("it is listed");
    }
}

/// Waits for the only run of a hook.
fn recorded(world: &HookWorld, hook: &str) -> Value {
    let found = || {
        let runs = world.recent();
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
fn hooks_of_a_killed_process_end_at_their_deadline() {
    let runners: [fn(&World, &str) -> Command; 2] = [World::shim, World::standalone_shim];
    for (runner, by_daemon) in runners.into_iter().zip([true, false]) {
        let world = HookWorld::new(STUBBORN);
        if by_daemon {
            world.start_daemon();
        }
        let mut child = start_call(runner(&world, "PreToolUse"), &world.bash("t1"));
        let hook = [world.process("begun"), world.process("child")];
        world.wait_listed();
        if by_daemon {
            world.kill_daemon();
        } else {
            end(&parent_of(&hook[0].to_string()));
        }
        child.wait().expect("an end");
        world.start_daemon();
        assert_eq!(world.running()[0]["hook"], "stubborn");
        hook.into_iter().for_each(wait_gone);
        let run = recorded(&world, "stubborn");
        assert_eq!(run["outcome"], "orphaned", "{run}");
        assert_eq!(run["note"], "becket was killed; the hook's time was up");
        assert_eq!(run["session_id"], super::SESSION);
        assert!(run["took_us"].as_i64() >= Some(2_000_000), "{run}");
        let events = world.events();
        assert_eq!(events.len(), 1, "{events:?}");
        assert_eq!(run["event_id"], events[0]["id"]);
        let why = world.run(&["why"]);
        assert!(why.contains("orphaned"), "{why}");
        assert_eq!(world.run_files(), 0);
    }
}

#[test]
fn hooks_of_a_killed_daemon_run_on_within_their_time() {
    let world = HookWorld::new(PATIENT);
    world.start_daemon();
    let child = start_call(world.shim("PreToolUse"), &world.bash("t1"));
    let hook = world.process("begun");
    world.wait_listed();
    world.kill_daemon();
    child.wait_with_output().expect("an end");
    world.start_daemon();
    assert!(is_alive(hook));
    world.go();
    let run = recorded(&world, "patient");
    assert_eq!(run["outcome"], "orphaned", "{run}");
    assert_eq!(run["note"], "becket was killed; the hook ended by itself");
    assert!(!world.project.join("asked").exists(), "it had time left");
}

#[test]
fn standalone_background_hooks_end_at_their_deadline() {
    let world = HookWorld::new(
        r#"
[hooks.goes-on]
on = "PreToolUse"
run = """echo '{"async": true, "asyncTimeout": 1000}'; echo $$ > begun; exec sleep 1000"""
"#,
    );
    let called = call(
        world.standalone_shim("PreToolUse"),
        world.bash("t1").as_bytes(),
    );
    assert!(called.is_silent(), "{called:?}");
    world.start_daemon();
    wait_gone(world.process("begun"));
    let ended = || Some(recorded(&world, "goes-on")).filter(|run| run["outcome"] == "timed out");
    wait::until(PATIENCE, ended).expect("its end");
}

#[test]
fn a_stopped_daemon_still_answers_with_a_denial() {
    let world = HookWorld::new(WAITS_AND_DENIES);
    let old = world.start_daemon();
    let child = start_call(world.shim("PreToolUse"), &world.bash("t1"));
    world.wait_file("runs");
    let mut stop = world.becket(["daemon", "stop"]);
    let stop = stop.stdout(Stdio::piped()).spawn().expect("becket");
    // The ending daemon serves events without hooks, and lists running hooks.
    let start = world.event("SessionStart", &json!({"source": "startup"}));
    let served = world.send("SessionStart", start);
    let why = world.output(&["why"]).stdout;
    world.go();
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
    assert_eq!(recorded(&world, "slow-no")["decision"], "deny");
    let log = world.events();
    assert!(log.iter().all(|it| it["source"] == "daemon"), "{log:#?}");
}

#[test]
fn an_event_that_needs_hooks_goes_standalone_while_the_daemon_ends() {
    let world = HookWorld::new(&format!(
        "{PATIENT}{}",
        DENIES
            .replace("PreToolUse", "Stop")
            .replace("tools = \"Bash\"\n", "")
    ));
    let old = world.start_daemon();
    let child = start_call(world.shim("PreToolUse"), &world.bash("t1"));
    world.wait_file("begun");
    world.signal_daemon(Signal::TERM).expect("a daemon");
    let stops = || {
        let stop = world.event("Stop", &json!({"stop_hook_active": false}));
        world.send("Stop", stop);
        let mut log = world.events();
        log.pop().filter(|event| event["source"] == "alone")
    };
    let alone = wait::until(PATIENCE, stops);
    let waits = is_alive(old);
    world.go();
    let output = child.wait_with_output().expect("an end");
    assert!(alone.is_some() && waits, "{alone:?}");
    assert!(output.status.success(), "{output:?}");
    wait_gone(old);
}

#[test]
fn hooks_that_outlast_the_ending_daemon_are_cut_off_with_an_error() {
    // Stopped once, with no time left; or stopped twice.
    for drain in ["0", "30"] {
        let world = HookWorld::new(LONG);
        let mut daemon = world.becket(["daemon", "run", "--drain", drain]);
        let mut daemon = daemon.stdout(Stdio::null()).spawn().expect("a daemon");
        wait::until(PATIENCE, || serving(&world)).expect("it serves");
        let first = send_call_from(&world, "settings");
        world.wait_file("begun");
        let double = send_call_from(&world, "plugin");
        let both = || (world.events().len() == 2).then_some(());
        wait::until(PATIENCE, both).expect("both events");
        world.signal_daemon(Signal::TERM).expect("a daemon");
        if drain == "30" {
            let told = fs::read_to_string(world.path("log/daemon.log"));
            assert!(told.is_ok() && !world.project.join("ended").exists());
            let ending = || {
                let log = fs::read_to_string(world.path("log/daemon.log")).ok()?;
                log.contains("ending").then_some(())
            };
            wait::until(PATIENCE, ending).expect("it was told");
            world.signal_daemon(Signal::TERM).expect("a daemon");
        }
        world.wait_file("ended");
        for child in [first, double] {
            let output = child.wait_with_output().expect("an end");
            // Claude Code ignores the error, or treats it as a denial with `becket up --only-register --strict`. Silence
            // would let the call pass.
            assert_eq!(output.status.code(), Some(1), "{output:?}");
            assert!(output.stdout.is_empty(), "{output:?}");
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(
                said,
                "becket: the daemon ended before this had answered: long\n"
            );
        }
        daemon.wait().expect("an end");
        assert_eq!(recorded(&world, "long")["outcome"], "cut off");
        let why = world.run(&["why"]);
        let said =
            "by the daemon; the daemon ended before its hooks did, and Claude Code got an error";
        assert!(why.contains(said), "{why}");
    }
}

#[test]
fn a_newer_build_takes_over_when_the_hooks_have_ended_and_loses_nothing() {
    let world = HookWorld::new(WAITS_AND_DENIES);
    let old = world.start_daemon();
    let child = start_call(world.shim("PreToolUse"), &world.bash("t1"));
    world.wait_file("runs");
    let (notice, output, waits) = std::thread::scope(|scope| {
        let taking_over = scope.spawn(|| start_as(&world, "9.0.1"));
        let next = || (world.daemons().len() == 2).then_some(());
        let waits = wait::until(PATIENCE, next).is_some() && is_alive(old);
        let start = world.event("SessionStart", &json!({"source": "startup"}));
        let served = world.send("SessionStart", start);
        world.go();
        let output = child.wait_with_output().expect("an end");
        let notice = taking_over.join().expect("a notice");
        (notice, output, waits && served.is_silent())
    });
    assert!(waits);
    assert_eq!(notice, StartReport::Ready);
    assert_eq!(serving(&world).as_deref(), Some("9.0.1"));
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("\"deny\""), "{output:?}");
    wait_gone(old);
    assert_eq!(recorded(&world, "slow-no")["decision"], "deny");
    let log = world.events();
    assert_eq!(log.len(), 2, "{log:#?}");
    assert!(log.iter().all(|it| it["source"] == "daemon"), "{log:#?}");
    assert_eq!(world.wait_file("runs"), "run\n", "it ran once");
}
