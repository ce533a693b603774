//! Named hooks, from the shim through the daemon and back: their input, the use of their output, and that
//! none of them blocks a session.

mod daemon_end;
mod duplicates;
mod misbehaving;
mod order;
mod standalone;
mod stop;
mod switches;

use std::fs;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::Command;

use becket_tests::wait::{self, PATIENCE};
use becket_tests::world::{Called, World, call, write_program};
use serde_json::{Value, json};

const SESSION: &str = "0e9a1c2e-5f3a-4f0e-9a5b-1c2d3e4f5a6b";

/// A world with a project and hooks in the user's config.
struct HookWorld {
    world: World,
    project: PathBuf,
}

impl Deref for HookWorld {
    type Target = World;

    fn deref(&self) -> &World {
        &self.world
    }
}

impl HookWorld {
    /// Creates the world. `PROJECT` in the config is the project's folder.
    fn new(config: &str) -> Self {
        let world = World::new();
        let project = world.home.join("project");
        fs::create_dir_all(&project).expect("a project");
        fs::create_dir_all(&world.becket_home).expect("a becket home");
        let config = config.replace("PROJECT", &project.display().to_string());
        fs::write(world.path("config.toml"), config).expect("a config");
        Self { world, project }
    }

    /// Writes a program in sh into the project.
    fn script(&self, name: &str, body: &str) -> PathBuf {
        script(&self.project.join(name), body)
    }

    fn event(&self, name: &str, fields: &Value) -> String {
        let mut event = json!({
            "session_id": SESSION, "hook_event_name": name, "cwd": self.project,
            "transcript_path": "/nowhere.jsonl",
        });
        for (name, value) in fields.as_object().into_iter().flatten() {
            event[name] = value.clone();
        }
        event.to_string()
    }

    fn bash(&self, id: &str) -> String {
        let input = json!({"command": "echo hello"});
        self.event(
            "PreToolUse",
            &json!({"tool_name": "Bash", "tool_input": input, "tool_use_id": id}),
        )
    }

    /// Sends a Bash call as a PreToolUse event.
    fn calls(&self, id: &str) -> Called {
        call(self.shim("PreToolUse"), self.bash(id).as_bytes())
    }

    /// Returns the ended runs.
    fn recent(&self) -> Vec<Value> {
        let told = self.world.run(&["hooks", "recent", "--json"]);
        let runs: Vec<Value> = serde_json::from_str(&told).expect("JSON");
        let is_over = |run: &Value| run["outcome"] != "running";
        runs.into_iter().filter(is_over).collect()
    }

    /// Returns the statistics of the only hook that ran.
    fn stats(&self) -> Value {
        let told = self.world.run(&["hooks", "stats", "--json"]);
        let hooks: Vec<Value> = serde_json::from_str(&told).expect("JSON");
        assert_eq!(hooks.len(), 1, "{hooks:#?}");
        hooks.into_iter().next().unwrap_or_default()
    }

    /// Waits for a file of the project, and returns its content.
    fn wait_file(&self, name: &str) -> String {
        wait_file(&self.project.join(name))
    }
}

fn script(path: &Path, body: &str) -> PathBuf {
    write_program(path, body);
    path.to_path_buf()
}

#[track_caller]
fn wait_file(path: &Path) -> String {
    let read = || {
        fs::read_to_string(path)
            .ok()
            .filter(|text| text.ends_with('\n'))
    };
    wait::until(PATIENCE, read).unwrap_or_else(|| panic!("{} never came", path.display()))
}

fn answer(called: &Called) -> Value {
    serde_json::from_str(&called.stdout).unwrap_or_else(|why| panic!("no JSON ({why}): {called:?}"))
}

const DENIES: &str = r#"
[hooks.no-bash]
on = "PreToolUse"
tools = "Bash"
run = """echo '{"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": "not today"}}'"""
"#;

#[test]
fn a_hook_of_the_users_own_denies_a_call() {
    let world = HookWorld::new(DENIES);
    for shim in [World::shim, World::standalone_shim] {
        let called = call(shim(&world, "PreToolUse"), world.bash("t1").as_bytes());
        let said = &answer(&called)["hookSpecificOutput"];
        assert_eq!(said["permissionDecision"], "deny", "{called:?}");
        assert_eq!(said["permissionDecisionReason"], "no-bash: not today");
        assert_eq!(called.code, Some(0));
    }
    let events = world.events();
    assert_eq!(events.len(), 2);
    for event in &events {
        assert_eq!(event["decision"]["answer"], "deny");
        assert_eq!(event["decision"]["by"], "no-bash");
        assert!(event["took_us"].as_i64() > Some(0), "{event}");
    }
    let runs = world.recent();
    assert_eq!(runs.len(), 2, "{runs:?}");
    for run in &runs {
        assert_eq!(run["hook"], "no-bash");
        assert_eq!(run["outcome"], "ok");
        assert_eq!(run["decision"], "deny");
        assert_eq!(run["session_id"], SESSION);
    }
}

#[test]
fn an_event_without_a_matching_hook_gets_an_empty_answer() {
    let world = HookWorld::new(DENIES);
    let event = world.event(
        "PreToolUse",
        &json!({"tool_name": "Read", "tool_use_id": "t"}),
    );
    assert!(world.send("PreToolUse", event).is_silent());
    let event = world.event("Stop", &json!({"stop_hook_active": false}));
    assert!(world.send("Stop", event).is_silent());
    assert!(world.recent().is_empty());
}

#[test]
fn a_hook_gets_the_event_and_the_environment_of_its_shim() {
    let world = HookWorld::new(
        r#"
[hooks.look]
on = "PreToolUse"
run = ["PROJECT/look", "an argument"]
"#,
    );
    world.script(
        "look",
        r#"cat > "got-$MARK"; { pwd; echo "$1"; echo "$BECKET_HOOK"; echo "$CI"; echo "$SECRET_WIND"; } > "env-$MARK""#,
    );
    for (mark, shim) in [
        ("daemon", World::shim as fn(&World, &str) -> Command),
        ("alone", World::standalone_shim),
    ] {
        let mut shim = shim(&world, "PreToolUse");
        shim.env("MARK", mark).env("SECRET_WIND", "west wind");
        let payload = format!(" {}\n", world.bash(mark));
        assert!(call(shim, payload.as_bytes()).is_silent());
        let got = fs::read_to_string(world.project.join(format!("got-{mark}"))).expect("stdin");
        assert_eq!(got, payload, "byte for byte");
        let env = world.wait_file(&format!("env-{mark}"));
        let project = world.project.canonicalize().expect("a folder");
        let project = project.display();
        assert_eq!(
            env,
            format!("{project}\nan argument\nlook\ntrue\nwest wind\n")
        );
    }
    world.run(&["daemon", "stop"]);
    for file in ["becket.db", "becket.db-wal", "log/daemon.log"] {
        let bytes = fs::read(world.path(file)).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        assert!(!text.contains("west wind"), "{file} has the environment");
    }
}

#[test]
fn a_disabled_hook_is_off_in_its_own_session_only() {
    let world = HookWorld::new(DENIES);
    let disable = ["disable", "no-bash", "--session", SESSION];
    let mut command = world.becket(disable);
    let done = command
        .current_dir(&world.project)
        .output()
        .expect("becket");
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    assert_eq!(said, "🔒 Disabled no-bash for this session\n", "{done:?}");
    assert!(world.calls("t1").is_silent());
    assert!(
        call(
            world.standalone_shim("PreToolUse"),
            world.bash("t2").as_bytes()
        )
        .is_silent()
    );
    let other = world
        .bash("t3")
        .replace(SESSION, "11111111-2222-4333-8444-555555555555");
    let called = call(world.shim("PreToolUse"), other.as_bytes());
    assert!(called.stdout.contains("not today"), "{called:?}");
    fs::remove_file(world.path(&format!("sessions/{SESSION}.json"))).expect("a file");
    assert!(world.calls("t4").stdout.contains("not today"));
}

#[test]
fn a_change_of_the_config_takes_effect_with_the_next_event() {
    let world = HookWorld::new("");
    assert!(world.calls("t1").is_silent());
    fs::write(world.path("config.toml"), DENIES).expect("a config");
    assert!(world.calls("t2").stdout.contains("not today"));
    let off = format!("{DENIES}enabled = false\n");
    fs::write(world.path("config.toml"), off).expect("a config");
    assert!(world.calls("t3").is_silent());
}

#[test]
fn an_async_hook_answers_nothing_and_is_recorded() {
    let world = HookWorld::new(
        r#"
[hooks.slow]
on = "PreToolUse"
async = true
run = """while [ ! -e go ]; do sleep 0.05; done; echo '{"decision": "block", "reason": "too late"}'; echo done > done"""
"#,
    );
    assert!(world.calls("t1").is_silent());
    assert!(!world.project.join("done").exists());
    fs::write(world.project.join("go"), "").expect("a file");
    world.wait_file("done");
    let run = wait::until(PATIENCE, || world.recent().first().cloned()).expect("a run");
    assert_eq!(run["hook"], "slow");
    assert_eq!(run["outcome"], "ok");
}
