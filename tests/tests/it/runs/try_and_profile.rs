//! `becket hooks try` and `becket hooks profile`: hooks run, no session is answered, nothing is recorded.

use std::fs;

use serde_json::{Value, json};

use super::{RunWorld, SESSION, text};

#[test]
fn a_hook_is_tried_on_a_file_and_on_a_recorded_event() {
    let world = RunWorld::new();
    let file = world.project.join("event.json");
    fs::write(&file, world.event(SESSION)).expect("an event");
    let tried = world.json(&["hooks", "try", "refuses", "--event", "event.json", "--json"]);
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
    world.writes(SESSION);
    let id = world.json(&["why", "--json"])["event_id"].clone();
    let id = id.as_str().expect("an id");
    let tried = world.json(&["hooks", "try", "refuses", "--event", id, "--json"]);
    assert_eq!(tried["event_id"], id);
    // Without an event, the newest matching one is used.
    assert_eq!(
        world.json(&["hooks", "try", "refu", "--json"])["event_id"],
        id
    );
    assert_eq!(
        world
            .json(&["hooks", "recent", "--json"])
            .as_array()
            .map(Vec::len),
        Some(2)
    );
    // A failed hook gives this exit code.
    let failed = world.output(&["hooks", "try", "breaks"]);
    assert_eq!(failed.status.code(), Some(1));
    let told = text(&failed.stdout);
    assert!(
        told.contains("failed (7)") && told.contains("oops"),
        "{told}"
    );
    assert!(told.contains("Claude Code would get nothing"), "{told}");
}

#[test]
fn a_hook_that_is_off_is_tried_with_a_notice() {
    let world = RunWorld::new();
    let tried = world.json(&["hooks", "try", "rests", "--json"]);
    assert_eq!(
        (&tried["outcome"], &tried["would_run"]),
        (&json!("ok"), &json!(false))
    );
    let standing = tried["standing"].as_str().expect("a reason");
    assert!(standing.starts_with("off in config"), "{standing}");
    assert!(
        world.project.join("rested").exists(),
        "it really ran, in the project"
    );
    let mut off = world.verb(&["disable", "refuses", "--session", SESSION]);
    assert!(off.output().expect("becket runs").status.success());
    fs::write(world.project.join("e"), world.event(SESSION)).expect("an event");
    let tried = world.json(&["hooks", "try", "refuses", "--event", "e", "--json"]);
    assert_eq!(tried["standing"], "disabled for this session");
    assert_eq!(tried["decision"], "block");
    let told = text(
        &world
            .output(&["hooks", "try", "refuses", "--event", "e"])
            .stdout,
    );
    assert!(
        told.contains("in its session it would not run: disabled"),
        "{told}"
    );
}

#[test]
fn an_unknown_or_untrusted_hook_is_not_tried() {
    let world = RunWorld::new();
    let refused = |args: &[&str], code: i32, said: &str| {
        let output = world.output(args);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {output:?}");
        let stderr = text(&output.stderr);
        assert!(stderr.contains(said), "{args:?}: {stderr}");
    };
    refused(&["hooks", "try", "refusse"], 3, "did you mean refuses");
    refused(&["hooks", "profile", "xyz"], 3, "becket hooks lists them");
    refused(&["hooks", "try", "re"], 2, "one of: refuses, breaks, rests");
    refused(
        &["hooks", "try", "breaks", "--event", "nothing.json"],
        3,
        "nothing.json",
    );
    refused(
        &["hooks", "try", "breaks", "--event", "/dev/zero"],
        1,
        "longer than any event (32 MiB)",
    );
    let id = "0199a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b";
    refused(
        &["hooks", "try", "breaks", "--event", id],
        3,
        "no event has an id",
    );
    fs::write(world.project.join("bad.json"), "{}").expect("a file");
    refused(
        &["hooks", "try", "breaks", "--event", "bad.json"],
        1,
        "no hook_event_name",
    );
    fs::create_dir_all(world.project.join(".becket")).expect("a folder");
    let strange = "[hooks.strange]\non = \"Stop\"\nrun = \"touch pwned\"\n";
    fs::write(world.project.join(".becket/config.toml"), strange).expect("a config");
    refused(&["hooks", "try", "strange"], 1, "becket trust");
    refused(&["hooks", "profile", "strange"], 1, "becket trust");
    let all = world.json(&["hooks", "profile", "-n", "1", "--json"]);
    let strange = all
        .as_array()
        .expect("a list")
        .iter()
        .find(|it| it["hook"] == "strange");
    assert_eq!(strange.expect("it is listed")["runs"], 0);
    assert!(!world.project.join("pwned").exists());
}

#[test]
fn try_runs_the_approved_program() {
    let world = RunWorld::new();
    let foreign = world.home.join("foreign");
    for (folder, word) in [(&world.project, "good"), (&foreign, "evil")] {
        fs::create_dir_all(folder.join(".becket")).expect("a folder");
        fs::write(folder.join("x.sh"), format!("echo {word}\n")).expect("a script");
    }
    let config = "[hooks.by-name]\non = \"Stop\"\nrun = 'sh \"$CLAUDE_PROJECT_DIR\"/x.sh'\n\
        [hooks.by-path]\non = \"Stop\"\nrun = 'sh ./x.sh'\n";
    fs::write(world.project.join(".becket/config.toml"), config).expect("a config");
    let trusted = world.output(&["trust", "--yes"]);
    assert!(trusted.status.success(), "{trusted:?}");
    let event = json!({"hook_event_name": "Stop", "session_id": SESSION, "cwd": foreign});
    fs::write(world.project.join("e"), event.to_string()).expect("an event");
    let tried = |hook: &str| {
        let mut command = world.verb(&["hooks", "try", hook, "--event", "e"]);
        let command = command.env("CLAUDE_PROJECT_DIR", &foreign);
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
    assert!(why.contains("another file than the one that was"), "{why}");
}

#[test]
fn hooks_are_measured_and_nothing_is_recorded() {
    let world = RunWorld::new();
    let long = "[hooks.long]\non = \"UserPromptSubmit\"\n\
        run = \"echo run >> ran; head -c 12000 /dev/zero | tr '\\\\0' x\"\n\
        [hooks.picky]\non = \"PostToolUse\"\npaths = [\"src/**/*.zig\"]\nrun = \"true\"\n";
    fs::write(world.path("config.toml"), long).expect("a config");
    let all = world.json(&["hooks", "profile", "-n", "4", "--json"]);
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
    let ran = fs::read_to_string(world.project.join("ran")).expect("it ran");
    assert_eq!(ran.lines().count(), 4);
    assert_eq!(
        (&all[1]["runs"], &all[1]["outcome"]),
        (&json!(0), &Value::Null)
    );
    let told = text(&world.output(&["hooks", "profile", "long"]).stdout);
    assert!(
        told.contains("longer than 10000 characters: long"),
        "{told}"
    );
    assert!(!world.path("becket.db").exists());
    assert_eq!(world.json(&["hooks", "recent", "--json"]), json!([]));
}
