//! `becket replay`: a recorded session played again, or run through one hook. The stored state does not
//! change.

use std::fs;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use becket_tests::skip::skip;
use becket_tests::terminal::Terminal;
use becket_tests::wait::{self, PATIENCE};
use becket_tests::world::{Called, World, call};
use serde_json::{Value, json};

const SESSION: &str = "77850d98-4378-4282-9d8f-d2b7113deb20";
const OTHER: &str = "77850d98-0000-4282-9d8f-d2b7113deb20";

const HOOKS: &str = r#"
    [hooks.no-psql]
    on = "PreToolUse"
    tools = "Bash"
    run = "echo ran >> ran; if grep -q psql; then echo 'not in production' >&2; exit 2; fi"

    [hooks.breaks]
    on = "Stop"
    run = "exit 7"
"#;

/// A world with one recorded session: seven events, two of them with Bash. The hooks are added to its
/// config after that.
struct ReplayWorld {
    world: World,
    project: PathBuf,
}

impl Deref for ReplayWorld {
    type Target = World;

    fn deref(&self) -> &World {
        &self.world
    }
}

impl ReplayWorld {
    fn new() -> Self {
        let world = World::new();
        let project = world.home.join("shop");
        fs::create_dir_all(project.join(".git")).expect("a project");
        let world = Self { world, project };
        let bash = |command: &str| json!({"tool_name": "Bash", "tool_input": {"command": command}});
        let read = json!({"tool_name": "Read", "tool_input": {"file_path": "a.rs"}});
        world.record("SessionStart", &json!({"source": "startup"}));
        world.record(
            "UserPromptSubmit",
            &json!({"prompt": "Make the checkout idempotent"}),
        );
        world.record("PreToolUse", &bash("ls"));
        world.record("PreToolUse", &read);
        world.record("PreToolUse", &bash("psql shop"));
        world.record("Stop", &json!({}));
        world.record("SessionEnd", &json!({"reason": "other"}));
        fs::write(world.path("config.toml"), HOOKS).expect("a config");
        world
    }

    fn record(&self, event: &str, fields: &Value) {
        let mut fields = fields.clone();
        fields["cwd"] = json!(self.project);
        let called = self.world.tell(SESSION, event, &fields);
        assert_eq!(called.code, Some(0), "{called:?}");
    }

    /// Runs `becket replay` with its own temporary folder.
    fn replay(&self, args: &[&str]) -> Called {
        let mut command = self
            .world
            .becket(["replay"].into_iter().chain(args.iter().copied()));
        command.env("TMPDIR", self.temp());
        call(command, b"")
    }

    fn temp(&self) -> PathBuf {
        let temp = self.world.root().join("temp");
        fs::create_dir_all(&temp).expect("a folder");
        temp
    }

    /// Returns the stored state that a replay must not change.
    fn state(&self) -> [String; 4] {
        let run = |args: &[&str]| self.world.run(args);
        let sessions = run(&["sessions", "--all", "--json"]);
        let mut sessions: Vec<Value> = serde_json::from_str(&sessions).expect("JSON");
        // Other users of this machine may run Claude Code without becket.
        sessions.retain(|row| row["hooked"] == true);
        [
            json!(sessions).to_string(),
            run(&["events", "--json", "--duplicates"]),
            run(&["hooks", "recent", "--json"]),
            files(&self.world.path("sessions")),
        ]
    }

    #[track_caller]
    fn refuses(&self, args: &[&str], code: i32, said: &str) {
        let called = self.replay(args);
        assert_eq!(called.code, Some(code), "{args:?}: {called:?}");
        assert!(called.stderr.contains(said), "{args:?}: {}", called.stderr);
    }
}

fn files(folder: &Path) -> String {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .map(|entry| entry.path().display().to_string())
        .collect();
    names.sort();
    names.join("\n")
}

#[test]
fn a_session_is_played_as_lines_and_stored_state_is_unchanged() {
    let world = ReplayWorld::new();
    let before = world.state();
    // Without a terminal the output is that of --plain.
    for args in [
        &[SESSION, "--plain", "--speed", "10000"][..],
        &["7785", "--speed", "10000"],
    ] {
        let called = world.replay(args);
        assert_eq!(
            (called.code, called.stderr.as_str()),
            (Some(0), ""),
            "{called:?}"
        );
        let lines: Vec<&str> = called.stdout.lines().collect();
        let events = [
            "SessionStart",
            "UserPromptSubmit",
            "PreToolUse",
            "PreToolUse",
            "PreToolUse",
            "Stop",
            "SessionEnd",
            "7 events replayed.",
        ];
        assert_eq!(lines.len(), events.len(), "{lines:#?}");
        for (line, event) in lines.iter().zip(events) {
            assert!(line.contains(event), "{event}: {lines:#?}");
        }
    }
    assert_eq!(world.state(), before);
    assert!(!world.project.join("ran").exists(), "no hook runs");
    assert_eq!(files(&world.temp()), "", "the temporary home is gone");
    assert_eq!(world.daemons().len(), 1, "and so is its daemon");
}

#[test]
fn a_session_runs_through_one_hook_and_stored_state_is_unchanged() {
    let world = ReplayWorld::new();
    let before = world.state();
    let called = world.replay(&[SESSION, "--hook", "no-psql", "--json"]);
    assert_eq!(called.code, Some(0), "{called:?}");
    let report: Value = serde_json::from_str(&called.stdout).expect("JSON");
    let counts = ["events", "unwanted", "left_out"].map(|field| report[field].clone());
    assert_eq!(counts, [7, 5, 0].map(Value::from), "{report}");
    let runs = report["runs"].as_array().expect("a list");
    let decisions: Vec<&Value> = runs.iter().map(|run| &run["decision"]).collect();
    assert_eq!(decisions, [&Value::Null, &json!("deny")], "{report}");
    let ran = fs::read_to_string(world.project.join("ran")).expect("it really ran");
    assert_eq!(ran.lines().count(), 2, "only on what it wants");

    let called = world.replay(&[SESSION, "--hook", "psql"]);
    let lines: Vec<&str> = called.stdout.lines().collect();
    let told = |line: &str, words: &[&str]| words.iter().all(|word| line.contains(word));
    assert!(
        lines.len() == 4
            && told(lines[0], &["PreToolUse Bash", "ok", "s"])
            && told(lines[1], &["PreToolUse Bash", "deny", "not in production"])
            && told(lines[2], &["no-psql: 2 runs, 2 ok, 1 deny, median"])
            && told(lines[3], &["7 events, 5 not wanted"]),
        "{lines:#?}"
    );
    // A failed hook gives this exit code.
    let failed = world.replay(&[SESSION, "--hook", "breaks"]);
    assert_eq!(failed.code, Some(1), "{failed:?}");
    assert!(failed.stdout.contains("failed (7)"), "{failed:?}");
    assert_eq!(world.state(), before);
}

#[test]
fn a_hook_of_an_untrusted_project_is_not_run() {
    let world = ReplayWorld::new();
    let folder = world.project.join(".becket");
    fs::create_dir(&folder).expect("a folder");
    let strange = "[hooks.strange]\non = \"Stop\"\nrun = \"touch pwned\"\n";
    fs::write(folder.join("config.toml"), strange).expect("a config");
    world.refuses(&[SESSION, "--hook", "strange"], 1, "hint: becket trust");
    assert!(!world.project.join("pwned").exists());
}

#[test]
fn errors_are_reported_with_hints() {
    let world = ReplayWorld::new();
    world.tell(OTHER, "Stop", &json!({}));
    world.refuses(&["unknown"], 3, "hint: becket sessions --all");
    world.refuses(&["77850d98"], 2, OTHER);
    world.refuses(&[], 2, "Which session?");
    world.refuses(&[SESSION, "--hook", "no-sql"], 3, "did you mean no-psql");
    for speed in ["0", "-1", "NaN", "fast"] {
        let speed = format!("--speed={speed}");
        world.refuses(&[SESSION, &speed], 2, "not a number from 0.1 to 10000");
    }
    world.refuses(&[SESSION, "--json"], 2, "--hook");

    let none = "[store]\nkeep_days = 0\n";
    fs::write(world.path("config.toml"), none).expect("a config");
    let gone = wait::until(PATIENCE, || {
        let events = world.events();
        let kept = events.iter().any(|row| !row["payload"].is_null());
        (!kept).then_some(())
    });
    gone.expect("the payloads go");
    world.refuses(&[SESSION], 1, "hint: store.keep_days");
}

#[test]
fn the_live_view_shows_the_session_as_it_was() {
    let world = ReplayWorld::new();
    let before = world.state();
    let temp = world.temp();
    let mut replay = world.becket(["replay", SESSION, "--speed", "100"]);
    let view = match Terminal::of(replay.env("TMPDIR", &temp), (120, 32)) {
        Ok(view) => view,
        Err(why) => return skip("the_live_view_shows_the_session_as_it_was", &why),
    };
    view.wait_for("the session's last turn", |screen| {
        let words = ["Make the checkout idempotent", "shop", "psql shop", "Stop"];
        words.iter().all(|word| screen.contains(word))
    });
    let played = world.run(&["--home", &files(&temp), "events", "--json"]);
    let from_replay = |line: &str| line.contains(r#""source":"replay""#);
    assert!(played.lines().all(from_replay), "{played}");
    view.press("q");
    assert_eq!(view.wait_end(), 0);
    assert_eq!(world.state(), before);
}
