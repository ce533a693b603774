use std::fs;

use serde_json::{Value, json};

use super::*;
use crate::hooks::builtin::BuiltIn;

/// A project without git, and a command that fails as long as a file says WRONG. How often it ran
/// stands in `../runs`.
struct World {
    folder: tempfile::TempDir,
    options: toml::Table,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("p")).unwrap();
        let command = "command = 'echo x >> ../runs; ! grep -rn WRONG .'";
        Self {
            folder,
            options: toml::from_str(command).unwrap(),
        }
    }

    /// Writes a file that is newer than everything remembered.
    fn write(&self, text: &str) {
        let file = self.folder.path().join("p/a.rs");
        fs::write(&file, text).unwrap();
        let later = std::time::SystemTime::now() + std::time::Duration::from_secs(1);
        fs::File::options()
            .write(true)
            .open(&file)
            .unwrap()
            .set_modified(later)
            .unwrap();
    }

    /// It is older than everything now.
    fn rest(&self) {
        let file = fs::File::options()
            .write(true)
            .open(self.folder.path().join("p/a.rs"))
            .unwrap();
        file.set_modified(std::time::UNIX_EPOCH).unwrap();
    }

    fn stop(&self, fields: &Value) -> Output {
        let mut payload = json!({"hook_event_name": "Stop", "last_assistant_message": "Done."});
        payload
            .as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        let hook = BuiltIn::find("test-project").unwrap();
        let root = fs::canonicalize(self.folder.path()).unwrap();
        let project = root.join("p");
        (hook.run)(&Call {
            hook,
            payload: payload.to_string().as_bytes(),
            cwd: &project,
            project: &project,
            options: &self.options,
            memory: &root.join("memory"),
        })
    }

    fn runs(&self) -> usize {
        let runs = fs::read_to_string(self.folder.path().join("runs"));
        runs.unwrap_or_default().lines().count()
    }
}

fn blocked(output: &Output) -> String {
    let value: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    match &value["decision"] {
        Value::String(decision) if decision == "block" => {
            value["reason"].as_str().unwrap().to_owned()
        }
        _ => panic!("{output:?}"),
    }
}

#[test]
fn what_fails_blocks_once_and_only_when_something_changed() {
    let world = World::new();
    world.write("WRONG\n");
    assert_eq!(
        blocked(&world.stop(&json!({}))),
        "1 problem (its command)\n./a.rs:1:WRONG"
    );
    assert_eq!(world.runs(), 1);
    // It failed, but nothing changed: nothing more is to be said.
    world.rest();
    assert!(world.stop(&json!({})).is_silent());
    assert_eq!(world.runs(), 1);
    world.write("WRONG again\n");
    assert!(blocked(&world.stop(&json!({}))).contains("WRONG again"));
    world.write("right\n");
    assert!(world.stop(&json!({})).is_silent());
    assert_eq!(world.runs(), 3);
}

#[test]
fn nobody_is_pushed_on() {
    let world = World::new();
    world.write("WRONG\n");
    let running = json!([{"id": "a", "type": "subagent", "status": "running"}]);
    for fields in [
        json!({"stop_hook_active": true}),
        json!({"last_assistant_message": "Which table do you mean?"}),
        json!({"background_tasks": running}),
        json!({"hook_event_name": "SubagentStop", "agent_id": "a", "agent_type": "x", "stop_hook_active": true}),
    ] {
        assert!(world.stop(&fields).is_silent(), "{fields}");
    }
    assert_eq!(world.runs(), 0);
    // None of these counts as a stop: what changed is looked at by the next one.
    let done = json!([{"id": "a", "status": "completed"}]);
    blocked(&world.stop(&json!({"background_tasks": done, "stop_hook_active": false})));
    assert_eq!(world.runs(), 1);
}

#[test]
fn a_subagent_has_stops_of_its_own() {
    let world = World::new();
    world.write("WRONG\n");
    blocked(&world.stop(&json!({})));
    let subagent = json!({"hook_event_name": "SubagentStop", "agent_id": "a", "agent_type": "x"});
    blocked(&world.stop(&subagent));
    world.rest();
    assert!(world.stop(&subagent).is_silent());
}

#[test]
fn nothing_of_a_known_language_changed_so_no_tool_runs() {
    let mut world = World::new();
    world.options = toml::Table::new();
    // No Cargo.toml: no project of Rust.
    world.write("WRONG\n");
    assert!(world.stop(&json!({})).is_silent());
    // A command that is none is told, whatever changed.
    world.options = toml::from_str("command = 7").unwrap();
    assert_eq!(world.stop(&json!({})).exit, 1);
}
