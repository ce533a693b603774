//! The calls of `tests/corpus`: what guards have to stop, and what they have to let pass.

use std::fs;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

/// What the files call the home; the project and the current folder are `app` in it.
const HOME: &str = "/home/dev";

/// A tool call, and whether guards have to stop it.
#[derive(Debug, Clone)]
pub struct Call {
    pub tool: String,
    pub input: Value,
    /// It is denied, or the person is asked. Otherwise nothing happens but a warning.
    pub stop: bool,
    /// The file that it stands in.
    pub group: String,
}

#[derive(Deserialize)]
struct Group {
    calls: Vec<Written>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    command: Option<String>,
    tool: Option<String>,
    input: Option<Value>,
    expect: Expect,
    #[serde(rename = "note")]
    _note: Option<String>,
}

#[derive(Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Expect {
    Stop,
    Pass,
}

/// All calls, as they are in this home.
pub fn calls(home: &Path) -> Vec<Call> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let mut files: Vec<_> = fs::read_dir(folder)
        .expect("the corpus")
        .map(|entry| entry.expect("a file").path())
        .collect();
    files.sort();
    files.iter().flat_map(|file| read(file, home)).collect()
}

fn read(file: &Path, home: &Path) -> Vec<Call> {
    let text = fs::read_to_string(file).expect("a file of the corpus");
    let text = text.replace(HOME, &home.to_string_lossy());
    let group: Group = toml::from_str(&text).unwrap_or_else(|why| panic!("{file:?}: {why}"));
    let name = file.file_stem().unwrap_or_default().to_string_lossy();
    let calls = group.calls.into_iter().map(|written| Call {
        tool: written.tool.unwrap_or_else(|| "Bash".to_owned()),
        input: match written.command {
            Some(command) => json!({"command": command}),
            None => written.input.unwrap_or_default(),
        },
        stop: written.expect == Expect::Stop,
        group: name.clone().into_owned(),
    });
    calls.collect()
}

impl Call {
    /// The PreToolUse event of this call.
    pub fn event(&self, session: &str, home: &Path, number: usize) -> Value {
        json!({
            "session_id": session,
            "hook_event_name": "PreToolUse",
            "cwd": home.join("app"),
            "permission_mode": "default",
            "tool_name": self.tool,
            "tool_input": self.input,
            "tool_use_id": format!("toolu_{number}"),
        })
    }

    /// The call as a person reads it.
    pub fn text(&self) -> String {
        match self.input["command"].as_str() {
            Some(command) => command.replace('\n', "⏎"),
            None => format!("{} {}", self.tool, self.input),
        }
    }
}
