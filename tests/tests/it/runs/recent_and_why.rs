//! `becket hooks recent`, `stats`, `why` and `events --follow`, with a daemon and without.

use std::fs;
use std::path::PathBuf;
use std::process::Child;

use becket_tests::wait::{self, PATIENCE};
use becket_tests::world::{call, finish, start};
use serde_json::{Value, json};

use super::{OTHER, RunWorld, SESSION, outcomes, text};

fn told_of_once(world: &RunWorld, no_daemon: bool) {
    let ask = |args: &[&str]| {
        let mut verb = world.verb(args);
        if no_daemon {
            verb.env("BECKET_NO_DAEMON", "1");
        }
        let output = verb.output().expect("becket runs");
        assert!(output.status.success(), "{args:?}: {output:?}");
        serde_json::from_slice::<Value>(&output.stdout).expect("JSON")
    };
    let recent = ask(&["hooks", "recent", "--json"]);
    let expected = [("breaks", "failed"), ("refuses", "ok")];
    let expected = expected.map(|(hook, outcome)| (hook.to_owned(), outcome.to_owned()));
    assert_eq!(outcomes(&recent), expected);
    assert_eq!(recent[0]["tool"], "Write");
    assert_eq!(recent[0]["session_id"], SESSION);
    let stats = ask(&["hooks", "stats", "--json"]);
    assert_eq!(
        (&stats[0]["hook"], &stats[0]["failed"]),
        (&json!("breaks"), &json!(1))
    );
    assert_eq!(
        (&stats[1]["runs"], &stats[1]["success_pct"]),
        (&json!(1), &json!(100.0))
    );
    let why = ask(&["why", "--json"]);
    assert_eq!(why["decision"]["answer"], "block");
    assert_eq!(why["decision"]["by"], "refuses");
    assert_eq!(why["decision"]["reason"], "refuses: not so");
    assert_eq!(outcomes(&why["runs"]), expected);
    assert_eq!(why["skipped"][0]["hook"], "rests");
    let reason = why["skipped"][0]["reason"].as_str().expect("a reason");
    assert!(reason.starts_with("off in config"), "{reason}");
    assert_eq!(why["event_id"], recent[0]["event_id"]);
}

#[test]
fn runs_are_listed_with_and_without_the_daemon() {
    let world = RunWorld::new();
    let called = world.writes(SESSION);
    assert!(called.stdout.contains("not so"), "{called:?}");
    told_of_once(&world, false);
    world.kill_daemon();
    told_of_once(&world, true);
}

#[test]
fn standalone_runs_are_read_from_the_spool_without_writing() {
    let world = RunWorld::new();
    let shim = world.standalone_shim("PostToolUse");
    let called = call(shim, world.event(SESSION).as_bytes());
    assert!(called.stdout.contains("not so"), "{called:?}");
    told_of_once(&world, true);
    assert!(!world.path("becket.db").exists(), "a database was written");
    let mut why = world.verb(&["why"]);
    why.env("BECKET_NO_DAEMON", "1");
    let told = text(&why.output().expect("becket runs").stdout);
    assert!(told.contains("alone (BECKET_NO_DAEMON is set)"), "{told}");
    // The next daemon takes it in and shows the same.
    world.start_daemon();
    told_of_once(&world, false);
    assert!(world.path("becket.db").exists());
}

#[test]
fn a_session_and_a_hook_can_be_chosen() {
    let world = RunWorld::new();
    world.writes(SESSION);
    world.writes(OTHER);
    assert_eq!(
        world
            .json(&["hooks", "recent", "--json"])
            .as_array()
            .map(Vec::len),
        Some(4)
    );
    let one = world.json(&["hooks", "recent", "--json", "--session", "7785"]);
    assert_eq!(one.as_array().map(Vec::len), Some(2));
    let one = world.json(&["hooks", "recent", "--json", "--hook", "breaks"]);
    let failed = ("breaks".to_owned(), "failed".to_owned());
    assert_eq!(outcomes(&one), [failed.clone(), failed]);
    let one = world.json(&["hooks", "recent", "1", "--json", "--hook", "breaks"]);
    assert_eq!(outcomes(&one).len(), 1);
    assert_eq!(one[0]["session_id"], OTHER, "the newest");
    let stats = world.json(&["hooks", "stats", "--json", "--session", SESSION]);
    assert_eq!(stats[0]["runs"], 1);
    let stats = world.json(&[
        "hooks",
        "stats",
        "--json",
        "--since",
        "2001-01-01T00:00:00Z",
    ]);
    assert_eq!(stats[0]["runs"], 2);
    let stats = world.json(&[
        "hooks",
        "stats",
        "--json",
        "--since",
        "2199-01-01T00:00:00Z",
    ]);
    assert_eq!(stats, json!([]));
    let why = world.json(&["why", "--json", "--session", SESSION]);
    assert_eq!(why["session_id"], SESSION);
    let mut inside = world.verb(&["why", "--json"]);
    inside.env("CLAUDE_CODE_SESSION_ID", SESSION);
    let why: Value =
        serde_json::from_slice(&inside.output().expect("becket runs").stdout).expect("JSON");
    assert_eq!(why["session_id"], SESSION, "inside Claude Code: its own");
    let unknown = world.output(&["hooks", "recent", "--session", "ffff"]);
    assert_eq!(unknown.status.code(), Some(3));
    let unknown = world.output(&["why", "0199a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b"]);
    assert_eq!(unknown.status.code(), Some(3));
    assert!(text(&unknown.stderr).contains("hint: becket events"));
}

#[test]
fn without_a_run_the_verbs_give_a_hint() {
    let world = RunWorld::new();
    for verb in ["stats", "recent"] {
        let output = world.output(&["hooks", verb]);
        assert!(output.status.success());
        assert!(
            text(&output.stdout).starts_with("No hook has run yet."),
            "{output:?}"
        );
        assert_eq!(world.json(&["hooks", verb, "--json"]), json!([]));
    }
    assert_eq!(world.output(&["why"]).status.code(), Some(3));
    assert!(world.daemon_pid().is_none(), "a daemon was started");
}

/// A process that follows the log.
struct Follower {
    seen: PathBuf,
    becket: Child,
}

impl Follower {
    fn begins(world: &RunWorld, name: &str) -> Self {
        let seen = world.project.join(name);
        let mut follow = world.verb(&["events", "--follow", "--json"]);
        follow.stdout(fs::File::create(&seen).expect("a file"));
        let becket = follow.spawn().expect("becket runs");
        let follower = Self { seen, becket };
        follower.sees_another(world);
        follower
    }

    fn lines_of(&self, session: &str) -> Vec<String> {
        let seen = fs::read_to_string(&self.seen).unwrap_or_default();
        let lines = seen.lines().filter(|line| line.contains(session));
        lines.map(str::to_owned).collect()
    }

    /// Waits until it has seen a new event of the other session. By then it has seen all earlier ones.
    fn sees_another(&self, world: &RunWorld) {
        let stop = json!({"hook_event_name": "Stop", "session_id": OTHER, "cwd": world.project});
        let before = self.lines_of(OTHER).len();
        let more = || {
            world.send("Stop", stop.to_string());
            (self.lines_of(OTHER).len() > before).then_some(())
        };
        wait::until(PATIENCE, more).expect("a follower sees others meanwhile");
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        drop(self.becket.kill());
        drop(self.becket.wait());
    }
}

/// Two processes follow the log while a hook runs: one started before the event, one after.
#[test]
fn a_follower_sees_each_event_once_with_its_decision() {
    let world = RunWorld::new();
    let slow = "[hooks.slow]\non = \"PostToolUse\"\n\
        run = \"touch began; while ! test -e go; do sleep 0.05; done; echo no >&2; exit 2\"\n";
    fs::write(world.path("config.toml"), slow).expect("a config");
    world.start_daemon();
    let from_before = Follower::begins(&world, "from-before");
    let mut shim = start(world.shim("PostToolUse"));
    let began = std::time::Instant::now();
    let event = world.event(SESSION);
    std::io::Write::write_all(&mut shim.stdin.take().expect("stdin"), event.as_bytes())
        .expect("an event");
    let ran = || world.project.join("began").exists().then_some(());
    wait::until(PATIENCE, ran).expect("the hook runs");
    // The event is in the log, undecided, and a new follower waits for its decision.
    let log = world.json(&["events", "--json", "--session", SESSION]);
    assert_eq!(
        (&log["decision"], &log["took_us"]),
        (&Value::Null, &Value::Null)
    );
    let followers = [from_before, Follower::begins(&world, "from-then")];
    let early = followers.each_ref().map(|follower| {
        follower.sees_another(&world);
        follower.lines_of(SESSION)
    });
    fs::write(world.project.join("go"), "").expect("a file");
    let called = finish(shim, began, PATIENCE);
    assert!(called.stdout.contains("no"), "{called:?}");
    // Checked only now: a failed test must not leave a hook that waits for ever.
    assert!(early.iter().all(Vec::is_empty), "undecided: {early:?}");
    for follower in &followers {
        let seen = || (!follower.lines_of(SESSION).is_empty()).then_some(());
        wait::until(PATIENCE, seen).expect("it is followed");
        follower.sees_another(&world);
        let lines = follower.lines_of(SESSION);
        assert_eq!(lines.len(), 1, "{lines:?}");
        let row: Value = serde_json::from_str(&lines[0]).expect("JSON");
        assert_eq!(row["decision"]["answer"], "block");
    }
}

#[test]
fn why_skips_slash_commands() {
    for no_daemon in [false, true] {
        let world = RunWorld::new();
        let shim = |event: &str| {
            let mut shim = world.shim(event);
            if no_daemon {
                shim.env("BECKET_NO_DAEMON", "1");
            }
            shim
        };
        let why = |args: &[&str]| -> Value {
            let mut verb = world.verb(args);
            if no_daemon {
                verb.env("BECKET_NO_DAEMON", "1");
            }
            let output = verb.output().expect("becket runs");
            serde_json::from_slice(&output.stdout).unwrap_or(Value::Null)
        };
        let prompt = json!({
            "hook_event_name": "UserPromptSubmit", "session_id": SESSION, "cwd": world.project,
            "prompt": "/hook:disable breaks",
        });
        let switch = || call(shim("UserPromptSubmit"), prompt.to_string().as_bytes());
        assert!(switch().stdout.contains("breaks"), "it is answered");
        assert_eq!(why(&["why", "--json"]), Value::Null, "no hook decided yet");
        call(shim("PostToolUse"), world.event(SESSION).as_bytes());
        assert!(switch().stdout.contains("breaks"), "it is answered");
        for args in [
            &["why", "--json"][..],
            &["why", "--json", "--session", SESSION],
        ] {
            let told = why(args);
            assert_eq!(told["decision"]["by"], "refuses", "{args:?}: {told:#}");
        }
        let log = world.verb(&[
            "events",
            "--json",
            "--event",
            "UserPromptSubmit",
            "--limit",
            "1",
        ]);
        let id = named(log, no_daemon);
        let told = why(&["why", &id, "--json"]);
        assert_eq!(told["decision"]["by"], "becket:switch", "{told:#}");
    }
}

#[test]
fn a_hook_named_like_a_part_of_becket_is_reported() {
    for name in ["config", "trust", "switch", "notice"] {
        let world = RunWorld::new();
        let hook = format!("[hooks.{name}]\non = \"PostToolUse\"\nrun = \"echo no >&2; exit 2\"\n");
        fs::write(world.path("config.toml"), hook).expect("a config");
        world.writes(SESSION);
        let told = world.json(&["why", "--json"]);
        assert_eq!(told["decision"]["by"], name, "{told:#}");
        let shim = world.standalone_shim("PostToolUse");
        call(shim, world.event(OTHER).as_bytes());
        let mut why = world.verb(&["why", "--json"]);
        let why = why.env("BECKET_NO_DAEMON", "1").output().expect("becket");
        let told: Value = serde_json::from_slice(&why.stdout).expect("JSON");
        assert_eq!(
            (&told["decision"]["by"], &told["session_id"]),
            (&json!(name), &json!(OTHER))
        );
    }
}

#[test]
fn an_event_is_named_by_any_unique_beginning_of_its_id() {
    for no_daemon in [false, true] {
        let world = RunWorld::new();
        for _ in 0..2 {
            let mut shim = world.shim("PostToolUse");
            shim.envs(no_daemon.then_some(("BECKET_NO_DAEMON", "1")));
            call(shim, world.event(SESSION).as_bytes());
        }
        let run = |args: &[&str]| {
            let mut verb = world.verb(args);
            verb.envs(no_daemon.then_some(("BECKET_NO_DAEMON", "1")));
            let done = verb.output().expect("becket runs");
            let said = String::from_utf8_lossy(&done.stdout).into_owned();
            (done.status.code(), said)
        };
        let (_, log) = run(&["events", "--limit", "1"]);
        let short = log.split("  ").nth(1).expect("an id");
        let (code, rows) = run(&["events", "--id", short, "--json"]);
        let row: Value = serde_json::from_str(&rows).expect("one event");
        let id = row["id"].as_str().expect("an id");
        assert!(code == Some(0) && id.starts_with(short), "{log}{rows}");
        let (code, told) = run(&["why", short, "--json"]);
        let told: Value = serde_json::from_str(&told).expect("JSON");
        assert_eq!((code, &told["event_id"]), (Some(0), &row["id"]), "{told:#}");
        for args in [
            &["why"][..],
            &["events", "--id"],
            &["hooks", "try", "refuses", "--event"],
        ] {
            let code = |id| run(&[args, &[id]].concat()).0;
            assert_eq!(code(&short[..4]), Some(2), "{args:?}: of both");
            assert_eq!(code("ffff"), Some(3), "{args:?}: of none");
        }
        let shown = run(&["show", &SESSION[..8]]).0;
        assert!(no_daemon || shown == Some(0), "{shown:?}");
    }
}

/// Returns the id of the only listed event.
fn named(mut log: std::process::Command, no_daemon: bool) -> String {
    if no_daemon {
        log.env("BECKET_NO_DAEMON", "1");
    }
    let listed = log.output().expect("becket runs").stdout;
    let row: Value = serde_json::from_slice(&listed).expect("one event");
    row["id"].as_str().expect("an id").to_owned()
}
