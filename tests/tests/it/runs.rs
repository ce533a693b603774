//! Runs of hooks as the verbs show them, and hooks run by `try` and `profile`.

mod recent_and_why;
mod running;
mod try_and_profile;

use std::fs;
use std::ops::Deref;
use std::path::PathBuf;
use std::process::{Command, Output};

use becket_tests::world::{Called, World, call};
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

struct RunWorld {
    world: World,
    project: PathBuf,
}

impl Deref for RunWorld {
    type Target = World;

    fn deref(&self) -> &World {
        &self.world
    }
}

impl RunWorld {
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

    /// Returns a verb, called in the project.
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

/// Returns the hook and outcome of each run, sorted.
fn outcomes(runs: &Value) -> Vec<(String, String)> {
    let word = |run: &Value, field: &str| run[field].as_str().expect("a word").to_owned();
    let runs = runs.as_array().expect("a list").iter();
    let mut found: Vec<_> = runs
        .map(|run| (word(run, "hook"), word(run, "outcome")))
        .collect();
    found.sort();
    found
}
