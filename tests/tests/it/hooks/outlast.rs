//! A daemon that ends, by a newer build or by its person, takes no hook's answer away.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};

use becket_tests::wait::{self, PATIENCE};
use becket_tests::world::is_alive;
use becket_wire::Notice;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::doubles::{LONG, WAITS_AND_DENIES, asks, begins};
use super::{DENIES, Ship};
use crate::chaos::takeover::{serving, start_as};

const BEHIND: &str = r#"
[hooks.behind]
on = "Stop"
async = true
timeout = "60s"
run = "echo run >> behind; while [ ! -e go ]; do sleep 0.05; done"
"#;

fn wait_gone(pid: u32) {
    let gone = || (!is_alive(pid)).then_some(());
    wait::until(PATIENCE, gone).expect("the daemon is gone");
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

/// The call that was denied, as the log has it.
fn denied_once(ship: &Ship) {
    assert_eq!(recorded(ship, "slow-no")["decision"], "deny");
    let log = ship.world.events();
    let mut calls = log.iter().filter(|event| event["event"] == "PreToolUse");
    let call = calls.next().expect("the call");
    assert!(calls.next().is_none(), "{log:#?}");
    assert_eq!(call["decision"]["answer"], "deny", "{call:#}");
    assert_eq!(call["decision"]["by"], "slow-no", "{call:#}");
    assert!(call["took_us"].is_i64(), "{call:#}");
    assert_eq!(ship.wait_file("runs"), "run\n", "it ran once");
}

#[test]
fn a_newer_build_serves_while_the_older_one_waits_for_its_hooks() {
    let ship = Ship::new(&format!("{WAITS_AND_DENIES}{BEHIND}"));
    let old = ship.world.start_daemon();
    let child = begins(ship.shim("PreToolUse"), &ship.bash("t1"));
    ship.wait_file("runs");
    let stop = ship.event("Stop", &json!({"stop_hook_active": false}));
    assert!(ship.world.send("Stop", stop).is_silent());
    ship.wait_file("behind");
    let notice = start_as(&ship.world, "9.0.1");
    let serves = serving(&ship.world);
    let other = ship.event("SessionStart", &json!({"source": "startup"}));
    let served = ship.world.send("SessionStart", other);
    let waits = is_alive(old);
    let recent = ship.world.output(&["recent", "--json"]);
    fs::write(ship.project.join("go"), "").expect("a file");
    let output = child.wait_with_output().expect("an end");
    // Not before: a test that fails leaves no hook behind that waits for ever.
    assert_eq!(notice, Notice::Ready);
    assert_eq!(serves.as_deref(), Some("9.0.1"));
    assert!(waits, "the old one is gone, and its hooks with it");
    let recent: Vec<Value> = serde_json::from_slice(&recent.stdout).expect("JSON");
    let runs = recent.iter().filter(|run| run["until"].is_string());
    let mut running: Vec<_> = runs.map(|run| run["hook"].as_str()).collect();
    running.sort_unstable();
    assert_eq!(running, [Some("behind"), Some("slow-no")], "{recent:#?}");
    assert!(served.is_silent(), "{served:?}");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("\"deny\""), "{output:?}");
    wait_gone(old);
    denied_once(&ship);
    assert_eq!(recorded(&ship, "behind")["outcome"], "ok");
    let log = ship.world.events();
    assert!(log.iter().all(|it| it["source"] == "daemon"), "{log:#?}");
    let ending = ship.world.path("run/ending");
    assert_eq!(fs::read_dir(ending).expect("a folder").count(), 0);
}

#[test]
fn whoever_stops_the_daemon_takes_no_denial_away() {
    let ship = Ship::new(WAITS_AND_DENIES);
    let old = ship.world.start_daemon();
    let child = begins(ship.shim("PreToolUse"), &ship.bash("t1"));
    ship.wait_file("runs");
    let said = ship.world.run(&["daemon", "stop"]);
    let status = ship.world.output(&["daemon", "status"]);
    let why = ship.world.output(&["why"]).stdout;
    fs::write(ship.project.join("go"), "").expect("a file");
    let output = child.wait_with_output().expect("an end");
    assert!(said.starts_with("The daemon has ended.\n"), "{said}");
    assert!(said.contains("until it has answered: slow-no"), "{said}");
    assert_eq!(status.status.code(), Some(4), "none serves: {status:?}");
    let why = String::from_utf8_lossy(&why).into_owned();
    let said = "by the daemon; slow-no runs still, until ";
    assert!(why.contains(said), "{why}");
    let answer = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(answer.contains("\"deny\""), "{output:?}");
    wait_gone(old);
    // Without a daemon it is read where it lies; the next one takes it in.
    assert_eq!(recorded(&ship, "slow-no")["decision"], "deny");
    ship.world.start_daemon();
    denied_once(&ship);
}

#[test]
fn told_twice_it_ends_its_hooks_and_whoever_waits_hears_of_it() {
    let ship = Ship::new(LONG);
    let old = ship.world.start_daemon();
    let first = asks(&ship, "settings");
    ship.wait_file("begun");
    let double = asks(&ship, "plugin");
    let both = || (ship.world.events().len() == 2).then_some(());
    wait::until(PATIENCE, both).expect("both events");
    ship.world.run(&["daemon", "stop"]);
    assert!(is_alive(old), "it did not wait for its hook");
    let pid = i32::try_from(old).ok().and_then(Pid::from_raw);
    kill_process(pid.expect("a pid"), Signal::TERM).expect("a signal");
    ship.wait_file("ended");
    for child in [first, double] {
        let output = child.wait_with_output().expect("an end");
        // An error: passed over, or with `becket init --strict` as good as a denial. Never silence.
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(output.stdout.is_empty(), "{output:?}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let expected = "becket: the daemon ended before this had answered: long\n";
        assert_eq!(said, expected);
    }
    wait_gone(old);
    assert_eq!(recorded(&ship, "long")["outcome"], "cut off");
    assert_eq!(ship.stats()["failed"], 1);
    // A person who saw the error asks why, and is told of that event.
    let why = ship.world.run(&["why"]);
    let said = "by the daemon; it ended before its hooks did, and Claude Code got an error";
    assert!(why.contains(said), "{why}");
    assert!(why.contains("PreToolUse Bash  not answered\n"), "{why}");
}

#[test]
fn a_denial_beside_a_hook_that_was_cut_off_is_answered_and_kept() {
    let ship = Ship::new(&format!("{LONG}{DENIES}"));
    let old = ship.world.start_daemon();
    let child = begins(ship.shim("PreToolUse"), &ship.bash("t1"));
    ship.wait_file("begun");
    let denied = || {
        let recent = ship.recent();
        recent.into_iter().find(|run| run["decision"] == "deny")
    };
    let denied = wait::until(PATIENCE, denied);
    ship.world.run(&["daemon", "stop"]);
    let pid = i32::try_from(old).ok().and_then(Pid::from_raw);
    kill_process(pid.expect("a pid"), Signal::TERM).expect("a signal");
    let output = child.wait_with_output().expect("an end");
    denied.expect("one of them has ended");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("\"deny\""), "{output:?}");
    wait_gone(old);
    assert_eq!(recorded(&ship, "long")["outcome"], "cut off");
    let log = ship.world.events();
    assert_eq!(log[0]["decision"]["answer"], "deny", "{log:#?}");
    assert!(log[0]["took_us"].is_i64(), "{log:#?}");
}

#[test]
fn a_home_that_was_thrown_away_does_not_come_back_by_an_answer() {
    let ship = Ship::new(WAITS_AND_DENIES);
    let old = ship.world.start_daemon();
    let child = begins(ship.shim("PreToolUse"), &ship.bash("t1"));
    ship.wait_file("runs");
    ship.world.run(&["daemon", "stop"]);
    fs::remove_dir_all(&ship.world.becket_home).expect("becket's home");
    fs::write(ship.project.join("go"), "").expect("a file");
    let output = child.wait_with_output().expect("an end");
    let answer = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(answer.contains("\"deny\""), "{output:?}");
    wait_gone(old);
    assert!(!ship.world.becket_home.exists());
}

/// Whoever follows the log from the last two events on, by the events' names.
struct Follower {
    child: Child,
    rows: Receiver<String>,
}

impl Follower {
    fn start(ship: &Ship) -> Self {
        let mut child = ship
            .world
            .becket(["events", "--follow", "--json", "--limit", "2"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("becket runs");
        let lines = BufReader::new(child.stdout.take().expect("a stdout")).lines();
        let (tell, rows) = channel();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let row: Value = serde_json::from_str(&line).expect("JSON");
                let answer = row["decision"]["answer"].as_str().unwrap_or("-");
                let event = row["event"].as_str().expect("a name");
                drop(tell.send(format!("{event} {answer}")));
            }
        });
        Self { child, rows }
    }

    fn next(&self) -> Option<String> {
        self.rows.recv_timeout(PATIENCE).ok()
    }
}

/// Also when a test fails: it would start daemons for ever.
impl Drop for Follower {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[test]
fn whoever_follows_sees_what_was_held_before_the_first_that_it_saw_and_once() {
    let ship = Ship::new(WAITS_AND_DENIES);
    let old = ship.world.start_daemon();
    let send = |name: &str| {
        let event = ship.event(name, &json!({"source": "startup", "prompt": "hello"}));
        ship.world.send(name, event);
    };
    let child = begins(ship.shim("PreToolUse"), &ship.bash("t1"));
    ship.wait_file("runs");
    for name in ["SessionStart", "UserPromptSubmit", "Notification"] {
        send(name);
    }
    let follower = Follower::start(&ship);
    let mut seen = vec![follower.next(), follower.next()];
    let notice = start_as(&ship.world, "9.0.1");
    // It follows the next one, once it shows this.
    send("PreCompact");
    seen.push(follower.next());
    fs::write(ship.project.join("go"), "").expect("a file");
    let output = child.wait_with_output().expect("an end");
    seen.push(follower.next());
    wait_gone(old);
    // Whoever comes after that knows what was shown, and what nobody asked for.
    start_as(&ship.world, "9.0.2");
    send("SessionEnd");
    seen.push(follower.next());
    assert_eq!(notice, Notice::Ready);
    assert!(output.status.success(), "{output:?}");
    let seen: Vec<&str> = seen
        .iter()
        .map(|row| row.as_deref().unwrap_or("?"))
        .collect();
    let expected = [
        "UserPromptSubmit -",
        "Notification -",
        "PreCompact -",
        "PreToolUse deny",
        "SessionEnd -",
    ];
    assert_eq!(seen, expected);
}

#[test]
fn what_runs_in_the_background_for_whoever_hung_up_hides_no_event() {
    let behind = BEHIND.replace("\"Stop\"", "\"PreToolUse\"");
    let ship = Ship::new(&format!("{LONG}{behind}"));
    let old = ship.world.start_daemon();
    let mut child = begins(ship.shim("PreToolUse"), &ship.bash("t1"));
    ship.wait_file("begun");
    ship.wait_file("behind");
    child.kill().expect("a child");
    child.wait().expect("an end");
    ship.wait_file("ended");
    let cancelled = recorded(&ship, "long");
    let notice = start_as(&ship.world, "9.0.1");
    let event = ship.event("SessionEnd", &json!({"reason": "other"}));
    ship.world.send("SessionEnd", event);
    let follower = Follower::start(&ship);
    let first = follower.next();
    let waits = is_alive(old);
    fs::write(ship.project.join("go"), "").expect("a file");
    assert_eq!(cancelled["outcome"], "cancelled");
    assert_eq!(notice, Notice::Ready);
    assert!(waits, "the old one is gone, and its hook with it");
    assert_eq!(first.as_deref(), Some("PreToolUse -"));
    wait_gone(old);
}
