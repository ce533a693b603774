//! What a daemon is started with, on its command line.

use super::*;

#[test]
fn what_a_daemon_is_started_with_holds_as_long_as_it_lives() {
    let world = world("");
    world.run(&["daemon", "start", "--set", "mask.enabled=false"]);
    send(&world, 1, "UserPromptSubmit", &[]);
    let again = ["daemon", "start", "--set", "mask.enabled=false"];
    let (code, stderr) = said(&world.output(&again));
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.contains("hint: becket daemon stop"), "{stderr}");
    world.run(&["daemon", "stop"]);
    world.start_daemon();
    send(&world, 2, "UserPromptSubmit", &[]);
    let row = |number, plain| (id(number), "daemon".to_owned(), plain);
    assert_eq!(stored(&world), [row(1, true), row(2, false)]);
}

#[test]
fn what_a_daemon_is_started_with_is_told() {
    let world = world("");
    let line = "the daemon runs with --set mask.enabled=false";
    let masking = || {
        let (_, told) = world.doctor();
        let checks = told["checks"].as_array().expect("checks").iter();
        let masking = checks.filter(|check| check["name"] == "masking");
        let what = masking.filter_map(|check| check["what"].as_str());
        what.collect::<Vec<_>>().join("\n")
    };
    world.start_daemon();
    assert!(!world.run(&["config"]).contains("the daemon runs with"));
    assert_eq!(masking(), "");
    world.run(&["daemon", "stop"]);
    let set = ["mask.enabled=false", "store.keep_days=90"];
    world.run(&["daemon", "start", "--set", set[0], "--set", set[1]]);
    let shown = world.run(&["daemon", "status"]);
    assert!(set.iter().all(|set| shown.contains(set)), "{shown}");
    let status: Value =
        serde_json::from_str(&world.run(&["daemon", "status", "--json"])).expect("JSON");
    let told = json!({"mask.enabled": "false", "store.keep_days": "90"});
    assert_eq!(status["set"], told);
    // What is what the files say anyway is no other value.
    fs::write(world.path("config.toml"), "[store]\nkeep_days = 90\n").expect("a config");
    let config = world.run(&["config"]);
    assert!(config.lines().any(|shown| shown == line), "{config}");
    assert!(
        masking().contains("--set mask.enabled=false"),
        "{}",
        masking()
    );
    fs::write(world.path("config.toml"), "[mask]\nenabled = false\n").expect("a config");
    assert!(masking().contains("config.toml:2"), "{}", masking());
}

#[test]
fn a_daemon_that_is_told_to_be_brief_ends_itself() {
    let world = world("");
    let brief = ["daemon", "run", "--set", "daemon.idle=1s"];
    let mut run: Command = world.becket(brief);
    let mut daemon = run.stdout(Stdio::null()).spawn().expect("a daemon");
    let ended = wait::until(PATIENCE, || daemon.try_wait().expect("its state"));
    if ended.is_none() {
        daemon.kill().expect("its end");
    }
    assert_eq!(ended.and_then(|ended| ended.code()), Some(0));
    world.run(&["daemon", "start", "--set", "daemon.idle=1s"]);
    let pid = world.daemon_pid();
    let gone = || pid.is_none_or(|pid| !is_alive(pid)).then_some(());
    assert!(wait::until(PATIENCE, gone).is_some(), "{pid:?} lives on");
}

#[test]
fn no_session_starts_a_daemon_with_values_of_its_own() {
    let world = world("");
    // This process is the Claude Code of a session that becket knows.
    let mut shim = world.shim("SessionStart");
    shim.env("CLAUDE_PID", std::process::id().to_string());
    let payload = json!({"session_id": id(1), "hook_event_name": "SessionStart"});
    call(shim, payload.to_string().as_bytes());
    world.run(&["events", "--json"]);
    for verb in ["start", "run"] {
        let args = ["daemon", verb, "--set", "mask.enabled=false"];
        let (code, stderr) = said(&world.output(&args));
        assert_eq!(code, Some(1), "{verb}: {stderr}");
        assert!(stderr.contains("from inside Claude Code"), "{stderr}");
    }
}
