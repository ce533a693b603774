//! Misbehaving hooks: each ends within its bound, is named, and the session goes on.

use std::fs;
use std::io::Write;
use std::time::Duration;

use becket_tests::wait::{self, PATIENCE};
use becket_tests::world::{call, is_alive, start};

use super::duplicates::start_call;
use super::{HookWorld, answer};

/// Far more than any of the hooks may take, and less than Claude Code waits.
const BOUND: Duration = Duration::from_secs(90);

/// The memory of a daemon that keeps only a little of the output of hooks, in kB.
const LITTLE: u64 = 90_000;

struct MisbehavingHook {
    name: &'static str,
    run: &'static str,
    outcome: &'static str,
}

const BAD: [MisbehavingHook; 11] = [
    MisbehavingHook {
        name: "hangs",
        run: "\"exec sleep 1000\"",
        outcome: "timed out",
    },
    MisbehavingHook {
        name: "forks-and-hangs",
        run: "\"sleep 1000 & sleep 1000 & echo $! > child; wait\"",
        outcome: "timed out",
    },
    MisbehavingHook {
        name: "leaves-one-behind",
        // Longer than the bound of any waiting process.
        run: "\"(trap '' TERM; exec sleep 60) & exit 0\"",
        outcome: "ok",
    },
    MisbehavingHook {
        name: "prints-100-mb",
        run: "\"head -c 100000000 /dev/zero | tr '\\\\0' x\"",
        outcome: "ok",
    },
    MisbehavingHook {
        name: "half-a-json",
        run: "\"printf '{\\\"decision\\\": \\\"blo'\"",
        outcome: "invalid",
    },
    MisbehavingHook {
        name: "closes-stdout",
        run: "\"exec >&-; exit 0\"",
        outcome: "ok",
    },
    MisbehavingHook {
        name: "ignores-term",
        run: "\"trap '' TERM; echo $$ > child; while :; do sleep 1; done\"",
        outcome: "timed out",
    },
    MisbehavingHook {
        name: "exits-137",
        run: "\"exit 137\"",
        outcome: "failed",
    },
    MisbehavingHook {
        name: "not-executable",
        run: "[\"PROJECT/not-executable\"]",
        outcome: "not started",
    },
    MisbehavingHook {
        name: "missing",
        run: "[\"PROJECT/nowhere\"]",
        outcome: "not started",
    },
    MisbehavingHook {
        name: "needs-a-tty",
        run: "\"(read answer < /dev/tty) || exit 1\"",
        outcome: "failed",
    },
];

#[test]
fn a_misbehaving_hook_ends_within_its_bound_and_is_named() {
    for bad in &BAD {
        // Hooks that end by themselves have time for that on a loaded machine too.
        let timeout = if bad.outcome == "timed out" { 1 } else { 10 };
        let config = format!(
            "[hooks.{}]\non = \"PreToolUse\"\ntimeout = \"{timeout}s\"\nrun = {}\n\n[hooks.good]\non = \"PreToolUse\"\nrun = '''echo '{{\"systemMessage\": \"all is well\"}}' '''\n",
            bad.name, bad.run
        );
        let world = HookWorld::new(&config);
        fs::write(world.project.join("not-executable"), "echo no\n").expect("a file");
        let called = world.calls("t1");
        assert!(called.took < BOUND, "{}: {called:?}", bad.name);
        assert_eq!(called.code, Some(0), "{}: {called:?}", bad.name);
        let said = answer(&called);
        assert_eq!(said["systemMessage"], "good: all is well", "{}", bad.name);
        assert_eq!(
            said.as_object().map(serde_json::Map::len),
            Some(1),
            "{}: {said}",
            bad.name
        );
        let runs = world.recent();
        let run = runs.iter().find(|run| run["hook"] == bad.name);
        let run = run.unwrap_or_else(|| panic!("{} is not in {runs:?}", bad.name));
        assert_eq!(run["outcome"], bad.outcome, "{}: {run}", bad.name);
        let why = world.run(&["why"]);
        assert!(why.contains(bad.name), "{}: {why}", bad.name);
        assert!(world.calls("t2").code == Some(0), "the session goes on");
        if let Ok(child) = fs::read_to_string(world.project.join("child")) {
            wait_gone(child.trim().parse().expect("a pid"));
        }
        let memory = memory(world.daemon_pid().expect("a daemon"));
        assert!(memory < LITTLE, "{}: {memory} kB", bad.name);
    }
}

fn wait_gone(pid: u32) {
    let gone = || (!is_alive(pid)).then_some(());
    wait::until(PATIENCE, gone).unwrap_or_else(|| panic!("{pid} still runs"));
}

/// Returns the peak memory of a process, in kB.
fn memory(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak = peak.and_then(|peak| peak.split_whitespace().next());
    peak.and_then(|peak| peak.parse().ok()).expect("a number")
}

#[test]
fn a_hook_runs_once_if_the_daemon_dies_meanwhile() {
    let world = HookWorld::new(
        "[hooks.long]\non = \"PreToolUse\"\nrun = \"echo $$ >> begun; exec sleep 30\"\n",
    );
    world.start_daemon();
    let child = start_call(world.shim("PreToolUse"), &world.bash("t1"));
    let pid = world.wait_file("begun");
    world.kill_daemon();
    let output = child.wait_with_output().expect("an end");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(output.stdout.is_empty(), "{output:?}");
    // The process of a killed daemon would end at its deadline; the test ends it now.
    let left: i32 = pid.trim().parse().expect("a pid");
    let _ = rustix::process::Pid::from_raw(left)
        .map(|pid| rustix::process::kill_process(pid, rustix::process::Signal::KILL));
    let events = world.events();
    assert_eq!(events.len(), 1);
    assert_eq!(events[0]["source"], "alone");
    assert!(events[0]["took_us"].is_i64(), "{}", events[0]);
    assert_eq!(world.wait_file("begun"), pid, "it ran once");
    wait_gone(left.unsigned_abs());
}

#[test]
fn stuck_hooks_delay_no_other_session_and_their_own_for_a_bounded_time() {
    let world = HookWorld::new(
        "[hooks.stuck]\non = \"PreToolUse\"\ntimeout = \"60s\"\n\
         run = \"grep -q t-stuck || exit 0; echo >> stuck; exec sleep 1000\"\n",
    );
    let stuck = |n: u32| world.bash(&format!("t-stuck-{n}"));
    let mut shims: Vec<_> = (0..16)
        .map(|n| {
            let mut shim = start(world.shim("PreToolUse"));
            let mut stdin = shim.stdin.take().expect("a stdin");
            stdin.write_all(stuck(n).as_bytes()).expect("an event");
            shim
        })
        .collect();
    let all = || fs::read_to_string(world.project.join("stuck")).is_ok_and(|it| it.len() == 16);
    assert!(wait::until(PATIENCE, || all().then_some(())).is_some());
    let other = world.bash("t1").replace(super::SESSION, "another");
    let called = call(world.shim("PreToolUse"), other.as_bytes());
    assert!(
        called.is_silent() && called.took < Duration::from_secs(4),
        "{called:?}"
    );
    let called = world.calls("t2");
    assert!(
        called.is_silent() && called.took < Duration::from_secs(30),
        "{called:?}"
    );
    let runs = world.recent();
    let outcomes: Vec<_> = runs.iter().map(|run| run["outcome"].as_str()).collect();
    assert!(outcomes.contains(&Some("not started")), "{runs:#?}");
    for shim in &mut shims {
        shim.kill().expect("a shim");
        shim.wait().expect("its end");
    }
}

#[test]
fn doctor_warns_of_a_hook_that_fails_every_time() {
    let world = HookWorld::new(
        "[hooks.fails]\non = \"PreToolUse\"\nrun = \"echo tsc is not installed >&2; exit 7\"\n\
         [hooks.once]\non = \"PreToolUse\"\nrun = \"mkdir PROJECT/there\"\n",
    );
    let hooks = || {
        let (_, told) = world.doctor();
        let checks = told["checks"].as_array().expect("checks").clone();
        let hooks = checks.into_iter().filter(|check| check["name"] == "hooks");
        hooks.collect::<Vec<_>>()
    };
    for number in 0..3 {
        world.calls(&format!("t{number}"));
    }
    let warned = hooks();
    assert_eq!(warned.len(), 1, "once has worked once: {warned:?}");
    assert_eq!(warned[0]["state"], "warning");
    let what = warned[0]["what"].as_str().expect("a text");
    let begins = "fails failed in all of its last 3 runs: ";
    assert!(what.starts_with(begins), "{what}");
    assert!(what.contains("tsc is not installed"), "{what}");
}
