//! Hooks without a daemon: no event and no run is lost.

use std::fs;
use std::process::Command;

use becket_tests::wait::{self, PATIENCE};
use becket_tests::world::{call, is_alive};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::duplicates::start_call;
use super::{HookWorld, SESSION};

/// A hook that counts its runs and denies.
const COUNTS: &str = r#"
[hooks.counts]
on = "PreToolUse"
run = """echo run >> runs; echo '{"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": "no"}}'"""

[hooks.behind]
on = "PreToolUse"
async = true
run = "echo run >> behind"
"#;

const WAITS: &str = r#"
[hooks.waits]
on = "PreToolUse"
run = "echo $$ > begun; while [ ! -e go ]; do sleep 0.05; done"
"#;

const BEHIND: &str = r#"
[hooks.behind]
on = "PreToolUse"
async = true
run = "echo $$ > begun; while [ ! -e go ]; do sleep 0.05; done; exit 3"
"#;

impl HookWorld {
    /// Returns the shim of a registration, without a daemon.
    fn alone_from(&self, from: &str) -> Command {
        let mut shim = self.world.command(self.world.programs.join("becket-hook"));
        shim.args(["--event", "PreToolUse", "--from", from, "--home"])
            .arg(&self.world.becket_home)
            .env("BECKET_NO_DAEMON", "1");
        shim
    }

    /// Runs a reading verb without a daemon.
    fn reads(&self, args: &[&str]) -> String {
        let mut becket = self.world.becket(args);
        let output = becket.env("BECKET_NO_DAEMON", "1").output();
        let output = output.expect("becket runs");
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    fn reads_events(&self) -> Vec<Value> {
        let told = self.reads(&["events", "--json", "--duplicates"]);
        let lines = told.lines();
        lines
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect()
    }

    fn reads_recent(&self) -> Vec<Value> {
        serde_json::from_str(&self.reads(&["hooks", "recent", "--json"])).expect("JSON")
    }

    fn lets_go(&self) {
        fs::write(self.project.join("go"), "").expect("a file");
    }
}

/// Returns the process that started a hook.
pub(super) fn parent_of(hook: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{}/status", hook.trim())).expect("a process");
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"));
    parent.expect("a parent").to_owned()
}

/// Ends a process that a killed one left behind.
pub(super) fn end(pid: &str) {
    let pid: i32 = pid.trim().parse().expect("a pid");
    let _ = Pid::from_raw(pid).map(|pid| kill_process(pid, Signal::KILL));
    let gone = || (!is_alive(pid.unsigned_abs())).then_some(());
    wait::until(PATIENCE, gone).expect("it is gone");
}

#[test]
fn an_event_is_not_lost_when_its_process_is_killed_over_a_hook() {
    let world = HookWorld::new(WAITS);
    let child = start_call(world.alone_from("settings"), &world.bash("t1"));
    let hook = world.wait_file("begun");
    end(&parent_of(&hook));
    end(&hook);
    let shim = child.wait_with_output().expect("an end");
    assert_eq!(shim.status.code(), Some(1), "{shim:?}");
    let told = world.reads_events();
    assert_eq!(told.len(), 1, "{told:?}");
    // The next daemon reads it once, too.
    let events = world.events();
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!(events[0]["id"], told[0]["id"]);
    assert_eq!(events[0]["source"], "alone");
    assert_eq!(events[0]["took_us"], Value::Null, "no shim was answered");
    assert_eq!(events[0]["decision"], Value::Null);
    let sessions = world.sessions();
    assert_eq!(sessions[0]["session_id"], SESSION, "{sessions:?}");
}

#[test]
fn hooks_end_with_the_shim() {
    let world = HookWorld::new(WAITS);
    for signal in [Signal::TERM, Signal::KILL] {
        let mut shim = start_call(world.alone_from("settings"), &world.bash("t1"));
        let hook: u32 = world.wait_file("begun").trim().parse().expect("a pid");
        let pid = i32::try_from(shim.id()).ok().and_then(Pid::from_raw);
        kill_process(pid.expect("a pid"), signal).expect("a signal");
        shim.wait().expect("an end");
        let gone = wait::until(PATIENCE, || (!is_alive(hook)).then_some(()));
        assert!(gone.is_some(), "the hook outlives {signal:?}");
        fs::remove_file(world.project.join("begun")).expect("a file");
    }
}

#[test]
fn an_event_taken_in_while_its_hooks_run_is_shown_once_and_completed() {
    let world = HookWorld::new(&format!("{COUNTS}{WAITS}"));
    let child = start_call(world.alone_from("settings"), &world.bash("t1"));
    world.wait_file("begun");
    let before = world.events();
    assert_eq!(before.len(), 1, "{before:?}");
    assert_eq!(before[0]["decision"], Value::Null);
    world.lets_go();
    let output = child.wait_with_output().expect("an end");
    assert!(String::from_utf8_lossy(&output.stdout).contains("\"deny\""));
    world.wait_file("behind");
    let told = || world.reads_events();
    for events in [told(), world.events(), told()] {
        assert_eq!(events.len(), 1, "{events:?}");
        assert_eq!(events[0]["decision"]["by"], "counts");
        assert!(events[0]["took_us"].is_i64());
    }
    let runs = world.recent();
    assert_eq!(runs.len(), 3, "{runs:?}");
}

#[test]
fn a_prompt_blocked_after_a_daemon_took_it_in_leaves_the_session_idle() {
    let world = HookWorld::new(
        r#"
[hooks.blocks]
on = "UserPromptSubmit"
run = "echo $$ > begun; while [ ! -e go ]; do sleep 0.05; done; echo no >&2; exit 2"
"#,
    );
    world.start_daemon();
    let event = world.event("UserPromptSubmit", &json!({"prompt": "go"}));
    let child = start_call(world.standalone_shim("UserPromptSubmit"), &event);
    world.wait_file("begun");
    let status = || world.sessions().first().map(|row| row["status"].clone());
    let is = |word: &'static str| move || status().filter(|status| *status == word);
    wait::until(PATIENCE, is("working")).expect("the prompt is taken in");
    world.lets_go();
    child.wait_with_output().expect("an end");
    wait::until(PATIENCE, is("idle")).expect("nothing follows it");
    assert_eq!(world.events()[0]["decision"]["answer"], "block");
}

#[test]
fn the_end_of_an_async_hook_is_recorded() {
    let world = HookWorld::new(BEHIND);
    let called = call(world.alone_from("settings"), world.bash("t1").as_bytes());
    assert!(called.is_silent(), "{called:?}");
    world.wait_file("begun");
    let running = || (world.reads_recent()[0]["outcome"] == "running").then_some(());
    wait::until(PATIENCE, running).expect("it is listed");
    world.lets_go();
    let ended = |runs: Vec<Value>| {
        runs.first()
            .filter(|run| run["outcome"] == "failed")
            .cloned()
    };
    let alone = wait::until(PATIENCE, || ended(world.reads_recent())).expect("its end");
    assert_eq!(
        (&alone["exit"], &alone["tool"]),
        (&json!(3), &json!("Bash"))
    );
    assert!(alone["took_us"].as_i64() > Some(0), "{alone}");
    let runs = world.recent();
    assert_eq!(runs, [alone], "the daemon tells the same");
}

#[test]
fn the_end_of_an_async_hook_is_recorded_after_a_daemon_took_in_its_start() {
    let world = HookWorld::new(BEHIND);
    call(world.alone_from("settings"), world.bash("t1").as_bytes());
    world.wait_file("begun");
    world.start_daemon();
    assert!(world.recent().is_empty(), "it runs");
    world.kill_daemon();
    world.lets_go();
    let ended = |runs: Vec<Value>| {
        runs.first()
            .filter(|run| run["outcome"] == "failed")
            .cloned()
    };
    let alone = wait::until(PATIENCE, || ended(world.reads_recent())).expect("its end");
    assert_eq!(alone["tool"], "Bash");
    world.start_daemon();
    assert_eq!(world.recent(), [alone]);
}

#[test]
fn a_killed_async_hook_is_recorded_as_orphaned() {
    let world = HookWorld::new(BEHIND);
    call(world.alone_from("settings"), world.bash("t1").as_bytes());
    let hook = world.wait_file("begun");
    world.wait_listed();
    end(&parent_of(&hook));
    end(&hook);
    world.start_daemon();
    let orphan = || {
        let mut runs = world.recent();
        assert_eq!(runs.len(), 1, "{runs:?}");
        runs.pop().filter(|run| run["outcome"] == "orphaned")
    };
    wait::until(PATIENCE, orphan).expect("the daemon tells its end");
}
