//! What hooks did and cost, as it is shown; and hooks tried where nobody is answered.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output};

use becket_tests::wait::{self, PATIENCE};
use becket_tests::world::{Called, World, call, finish, start};
use serde_json::{Value, json};

const SESSION: &str = "77850d98-4378-4282-9d8f-d2b7113deb20";
const OTHER: &str = "11111111-2222-4333-8444-555555555555";

/// Three hooks: one refuses, one fails, one is off.
const HOOKS: &str = r#"
    [hooks.refuses]
    on = "PostToolUse"
    run = "echo 'not so' >&2; exit 2"

    [hooks.breaks]
    on = "PostToolUse"
    run = "echo oops >&2; exit 7"

    [hooks.rests]
    on = ["PostToolUse", "Stop"]
    run = "echo rested >> rested; echo '{\"systemMessage\":\"hi\"}'"
    enabled = false
"#;

struct Yard {
    world: World,
    project: PathBuf,
}

impl Yard {
    fn new() -> Self {
        let world = World::new();
        let project = world.home.join("project");
        fs::create_dir_all(project.join(".git")).expect("a project");
        fs::create_dir_all(&world.becket_home).expect("a becket home");
        fs::write(world.path("config.toml"), HOOKS).expect("a config");
        Self { world, project }
    }

    fn event(&self, session: &str) -> String {
        let event = json!({
            "hook_event_name": "PostToolUse", "session_id": session, "cwd": self.project,
            "tool_name": "Write", "tool_input": {"file_path": self.project.join("a.rs")},
        });
        event.to_string()
    }

    fn writes(&self, session: &str) -> Called {
        call(
            self.world.shim("PostToolUse"),
            self.event(session).as_bytes(),
        )
    }

    /// A verb, called in the project.
    fn verb(&self, args: &[&str]) -> Command {
        let mut command = self.world.becket(args);
        command.current_dir(&self.project);
        command
    }

    fn output(&self, args: &[&str]) -> Output {
        self.verb(args).output().expect("becket runs")
    }

    fn json(&self, args: &[&str]) -> Value {
        let output = self.output(args);
        assert!(output.status.success(), "{args:?}: {output:?}");
        serde_json::from_slice(&output.stdout).expect("JSON")
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What each run was, by the hook's name.
fn outcomes(runs: &Value) -> Vec<(String, String)> {
    let word = |run: &Value, field: &str| run[field].as_str().expect("a word").to_owned();
    let runs = runs.as_array().expect("a list").iter();
    let mut found: Vec<_> = runs
        .map(|run| (word(run, "hook"), word(run, "outcome")))
        .collect();
    found.sort();
    found
}

fn told_of_once(yard: &Yard, no_daemon: bool) {
    let ask = |args: &[&str]| {
        let mut verb = yard.verb(args);
        if no_daemon {
            verb.env("BECKET_NO_DAEMON", "1");
        }
        let output = verb.output().expect("becket runs");
        assert!(output.status.success(), "{args:?}: {output:?}");
        serde_json::from_slice::<Value>(&output.stdout).expect("JSON")
    };
    let recent = ask(&["recent", "--json"]);
    let expected = [("breaks", "failed"), ("refuses", "ok")];
    let expected = expected.map(|(hook, outcome)| (hook.to_owned(), outcome.to_owned()));
    assert_eq!(outcomes(&recent), expected);
    assert_eq!(recent[0]["tool"], "Write");
    assert_eq!(recent[0]["session_id"], SESSION);
    let stats = ask(&["stats", "--json"]);
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
fn what_ran_is_told_by_the_daemon_and_without_it() {
    let yard = Yard::new();
    let called = yard.writes(SESSION);
    assert!(called.stdout.contains("not so"), "{called:?}");
    told_of_once(&yard, false);
    yard.world.kill_daemon();
    told_of_once(&yard, true);
}

#[test]
fn what_ran_alone_is_told_from_the_spool_and_nothing_is_written() {
    let yard = Yard::new();
    let mut shim = yard.world.shim("PostToolUse");
    shim.env("BECKET_NO_DAEMON", "1");
    let called = call(shim, yard.event(SESSION).as_bytes());
    assert!(called.stdout.contains("not so"), "{called:?}");
    told_of_once(&yard, true);
    assert!(!yard.world.path("becket.db").exists(), "somebody wrote");
    let mut why = yard.verb(&["why"]);
    why.env("BECKET_NO_DAEMON", "1");
    let told = text(&why.output().expect("becket runs").stdout);
    assert!(told.contains("alone (BECKET_NO_DAEMON is set)"), "{told}");
    // The next daemon takes it in; the same is told.
    yard.world.start_daemon();
    told_of_once(&yard, false);
    assert!(yard.world.path("becket.db").exists());
}

#[test]
fn a_session_and_a_hook_can_be_chosen() {
    let yard = Yard::new();
    yard.writes(SESSION);
    yard.writes(OTHER);
    assert_eq!(
        yard.json(&["recent", "--json"]).as_array().map(Vec::len),
        Some(4)
    );
    let one = yard.json(&["recent", "--json", "--session", "7785"]);
    assert_eq!(one.as_array().map(Vec::len), Some(2));
    let one = yard.json(&["recent", "1", "--json", "--hook", "breaks"]);
    assert_eq!(outcomes(&one).len(), 1);
    assert_eq!(one[0]["session_id"], OTHER, "the newest");
    let stats = yard.json(&["stats", "--json", "--session", SESSION]);
    assert_eq!(stats[0]["runs"], 1);
    let stats = yard.json(&["stats", "--json", "--since", "2001-01-01T00:00:00Z"]);
    assert_eq!(stats[0]["runs"], 2);
    let why = yard.json(&["why", "--json", "--session", SESSION]);
    assert_eq!(why["session_id"], SESSION);
    let mut inside = yard.verb(&["why", "--json"]);
    inside.env("CLAUDE_CODE_SESSION_ID", SESSION);
    let why: Value =
        serde_json::from_slice(&inside.output().expect("becket runs").stdout).expect("JSON");
    assert_eq!(why["session_id"], SESSION, "inside Claude Code: its own");
    let unknown = yard.output(&["recent", "--session", "ffff"]);
    assert_eq!(unknown.status.code(), Some(3));
    let unknown = yard.output(&["why", "0199a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b"]);
    assert_eq!(unknown.status.code(), Some(3));
    assert!(text(&unknown.stderr).contains("hint: becket events"));
}

#[test]
fn before_any_hook_ran_it_is_said_what_to_do() {
    let yard = Yard::new();
    for verb in ["stats", "recent"] {
        let output = yard.output(&[verb]);
        assert!(output.status.success());
        assert!(
            text(&output.stdout).starts_with("No hook has run yet."),
            "{output:?}"
        );
        assert_eq!(yard.json(&[verb, "--json"]), json!([]));
    }
    assert_eq!(yard.output(&["why"]).status.code(), Some(3));
    assert!(yard.world.daemon_pid().is_none(), "nobody needed a daemon");
}

#[test]
fn who_follows_sees_an_event_once_and_decided() {
    let yard = Yard::new();
    let slow = "[hooks.slow]\non = \"PostToolUse\"\n\
        run = \"touch began; while ! test -e go; do sleep 0.05; done; echo no >&2; exit 2\"\n";
    fs::write(yard.world.path("config.toml"), slow).expect("a config");
    yard.world.start_daemon();
    let mut shim = start(yard.world.shim("PostToolUse"));
    let began = std::time::Instant::now();
    let event = yard.event(SESSION);
    std::io::Write::write_all(&mut shim.stdin.take().expect("stdin"), event.as_bytes())
        .expect("an event");
    let ran = || yard.project.join("began").exists().then_some(());
    wait::until(PATIENCE, ran).expect("the hook runs");
    // It is in the log, undecided, and a follower who comes now waits for its decision.
    let log = yard.json(&["events", "--json"]);
    assert_eq!(
        (&log["decision"], &log["took_us"]),
        (&Value::Null, &Value::Null)
    );
    let out = yard.project.join("followed");
    let mut follow = yard.verb(&["events", "--follow", "--json"]);
    follow.stdout(fs::File::create(&out).expect("a file"));
    let mut follow = follow.spawn().expect("becket runs");
    let other = json!({"hook_event_name": "Stop", "session_id": OTHER, "cwd": yard.project});
    let followed = || fs::read_to_string(&out).unwrap_or_default();
    wait::until(PATIENCE, || {
        yard.world.send("Stop", other.to_string());
        followed().contains(OTHER).then_some(())
    })
    .expect("the follower sees others meanwhile");
    assert!(!followed().contains(SESSION), "{}", followed());
    fs::write(yard.project.join("go"), "").expect("a file");
    let called = finish(shim, began, PATIENCE);
    assert!(called.stdout.contains("no"), "{called:?}");
    wait::until(PATIENCE, || followed().contains(SESSION).then_some(())).expect("it is followed");
    follow.kill().expect("it ends");
    follow.wait().expect("it ends");
    let lines = followed();
    let lines: Vec<&str> = lines
        .lines()
        .filter(|line| line.contains(SESSION))
        .collect();
    assert_eq!(lines.len(), 1, "{lines:?}");
    let row: Value = serde_json::from_str(lines[0]).expect("JSON");
    assert_eq!(row["decision"]["answer"], "block");
}

#[test]
fn a_hook_is_tried_on_a_file_and_on_a_recorded_event() {
    let yard = Yard::new();
    let file = yard.project.join("event.json");
    fs::write(&file, yard.event(SESSION)).expect("an event");
    let tried = yard.json(&["try", "refuses", "--event", "event.json", "--json"]);
    assert_eq!(
        (&tried["outcome"], &tried["decision"]),
        (&json!("ok"), &json!("block"))
    );
    assert_eq!(
        (&tried["stderr"], &tried["exit"]),
        (&json!("not so\n"), &json!(2))
    );
    assert_eq!(
        (&tried["would_run"], &tried["event_id"]),
        (&json!(true), &Value::Null)
    );
    let gets = tried["claude"]["stdout"].as_str().expect("text");
    assert!(gets.contains("refuses: not so"), "{gets}");
    yard.writes(SESSION);
    let id = yard.json(&["why", "--json"])["event_id"].clone();
    let id = id.as_str().expect("an id");
    let tried = yard.json(&["try", "refuses", "--event", id, "--json"]);
    assert_eq!(tried["event_id"], id);
    // The newest that it wants, where none is named.
    assert_eq!(yard.json(&["try", "refu", "--json"])["event_id"], id);
    assert_eq!(
        yard.json(&["recent", "--json"]).as_array().map(Vec::len),
        Some(2)
    );
    // A hook that fails ends so.
    let failed = yard.output(&["try", "breaks"]);
    assert_eq!(failed.status.code(), Some(1));
    let told = text(&failed.stdout);
    assert!(
        told.contains("failed (7)") && told.contains("oops"),
        "{told}"
    );
    assert!(told.contains("Claude Code would get nothing"), "{told}");
}

#[test]
fn a_hook_that_is_off_is_tried_and_it_is_said() {
    let yard = Yard::new();
    let tried = yard.json(&["try", "rests", "--json"]);
    assert_eq!(
        (&tried["outcome"], &tried["would_run"]),
        (&json!("ok"), &json!(false))
    );
    let standing = tried["standing"].as_str().expect("a reason");
    assert!(standing.starts_with("off in config"), "{standing}");
    assert!(
        yard.project.join("rested").exists(),
        "it really ran, in the project"
    );
    let mut off = yard.verb(&["disable", "refuses", "--session", SESSION]);
    assert!(off.output().expect("becket runs").status.success());
    fs::write(yard.project.join("e"), yard.event(SESSION)).expect("an event");
    let tried = yard.json(&["try", "refuses", "--event", "e", "--json"]);
    assert_eq!(tried["standing"], "disabled for this session");
    assert_eq!(tried["decision"], "block");
    let told = text(&yard.output(&["try", "refuses", "--event", "e"]).stdout);
    assert!(
        told.contains("in its session it would not run: disabled"),
        "{told}"
    );
}

#[test]
fn what_is_not_there_or_not_trusted_is_not_tried() {
    let yard = Yard::new();
    let refused = |args: &[&str], code: i32, said: &str| {
        let output = yard.output(args);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {output:?}");
        let stderr = text(&output.stderr);
        assert!(stderr.contains(said), "{args:?}: {stderr}");
    };
    refused(&["try", "refusse"], 3, "did you mean refuses");
    refused(&["profile", "xyz"], 3, "becket hooks lists them");
    refused(&["try", "re"], 2, "one of: refuses, breaks, rests");
    refused(
        &["try", "breaks", "--event", "nothing.json"],
        3,
        "nothing.json",
    );
    refused(
        &["try", "breaks", "--event", "/dev/zero"],
        1,
        "longer than any event (32 MiB)",
    );
    let id = "0199a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b";
    refused(&["try", "breaks", "--event", id], 3, "no event has the id");
    fs::write(yard.project.join("bad.json"), "{}").expect("a file");
    refused(
        &["try", "breaks", "--event", "bad.json"],
        1,
        "no hook_event_name",
    );
    fs::create_dir_all(yard.project.join(".becket")).expect("a folder");
    let strange = "[hooks.strange]\non = \"Stop\"\nrun = \"touch pwned\"\n";
    fs::write(yard.project.join(".becket/config.toml"), strange).expect("a config");
    refused(&["try", "strange"], 1, "becket trust");
    refused(&["profile", "strange"], 1, "becket trust");
    let all = yard.json(&["profile", "-n", "1", "--json"]);
    let strange = all
        .as_array()
        .expect("a list")
        .iter()
        .find(|it| it["hook"] == "strange");
    assert_eq!(strange.expect("it is listed")["runs"], 0);
    assert!(!yard.project.join("pwned").exists());
}

#[test]
fn what_is_tried_is_what_was_approved() {
    let yard = Yard::new();
    let foreign = yard.world.home.join("foreign");
    for (folder, word) in [(&yard.project, "good"), (&foreign, "evil")] {
        fs::create_dir_all(folder.join(".becket")).expect("a folder");
        fs::write(folder.join("x.sh"), format!("echo {word}\n")).expect("a script");
    }
    let config = "[hooks.by-name]\non = \"Stop\"\nrun = 'sh \"$CLAUDE_PROJECT_DIR\"/x.sh'\n\
        [hooks.by-path]\non = \"Stop\"\nrun = 'sh ./x.sh'\n\
        [hooks.by-word]\non = \"Stop\"\nrun = 'lint'\n";
    let lint = yard.project.join("bin/lint");
    fs::create_dir(yard.project.join("bin")).expect("a folder");
    fs::write(&lint, "#!/bin/sh\necho evil\n").expect("a script");
    fs::set_permissions(&lint, fs::Permissions::from_mode(0o755)).expect("a mode");
    fs::write(yard.project.join(".becket/config.toml"), config).expect("a config");
    let trusted = yard.output(&["trust", "--yes"]);
    assert!(trusted.status.success(), "{trusted:?}");
    let event = json!({"hook_event_name": "Stop", "session_id": SESSION, "cwd": foreign});
    fs::write(yard.project.join("e"), event.to_string()).expect("an event");
    let tried = |hook: &str| {
        let mut command = yard.verb(&["try", hook, "--event", "e"]);
        let path = format!("{}:/usr/bin:/bin", yard.project.join("bin").display());
        let command = command.env("CLAUDE_PROJECT_DIR", &foreign);
        command.env("PATH", path);
        command.output().expect("becket runs")
    };
    let by_name = text(&tried("by-name").stdout);
    assert!(
        by_name.contains("good") && !by_name.contains("evil"),
        "{by_name}"
    );
    let by_path = tried("by-path");
    assert_eq!(
        (by_path.status.code(), text(&by_path.stdout)),
        (Some(1), String::new())
    );
    let why = text(&by_path.stderr);
    assert!(why.contains("another file than the approved one"), "{why}");
    let by_word = tried("by-word");
    assert_eq!(text(&by_word.stdout), "");
    let why = text(&by_word.stderr);
    assert!(why.contains("that was not approved"), "{why}");
}

#[test]
fn hooks_are_measured_and_nothing_is_recorded() {
    let yard = Yard::new();
    let long = "[hooks.long]\non = \"UserPromptSubmit\"\n\
        run = \"echo run >> ran; head -c 12000 /dev/zero | tr '\\\\0' x\"\n\
        [hooks.picky]\non = \"PostToolUse\"\npaths = [\"src/**/*.zig\"]\nrun = \"true\"\n";
    fs::write(yard.world.path("config.toml"), long).expect("a config");
    let all = yard.json(&["profile", "-n", "4", "--json"]);
    let long = &all[0];
    assert_eq!((&long["hook"], &long["runs"]), (&json!("long"), &json!(4)));
    assert_eq!(
        (&long["event"], &long["outcome"]),
        (&json!("UserPromptSubmit"), &json!("ok"))
    );
    assert_eq!(
        (&long["characters"], &long["tokens"]),
        (&json!(12_000), &json!(3000))
    );
    assert_eq!(
        (&long["too_long"], &long["too_slow"]),
        (&json!(true), &json!(false))
    );
    assert!(
        long["median_us"].as_i64() > Some(0)
            && long["p95_us"].as_i64() >= long["median_us"].as_i64()
    );
    let ran = fs::read_to_string(yard.project.join("ran")).expect("it ran");
    assert_eq!(ran.lines().count(), 4);
    assert_eq!(
        (&all[1]["runs"], &all[1]["outcome"]),
        (&json!(0), &Value::Null)
    );
    let told = text(&yard.output(&["profile", "long"]).stdout);
    assert!(
        told.contains("longer than 10000 characters: long"),
        "{told}"
    );
    assert!(!yard.world.path("becket.db").exists());
    assert_eq!(yard.json(&["recent", "--json"]), json!([]));
}
