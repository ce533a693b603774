//! The tool calls of `tests/corpus`, each with the expectation of the default guards.

use std::fs;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

/// The home in the corpus files. Project and current folder are `app` in it.
const HOME: &str = "/home/dev";

/// A tool call and the expected answer of the guards.
#[derive(Debug, Clone)]
pub struct CorpusCall {
    pub tool: String,
    pub input: Value,
    /// True if the guards deny the call or ask the user, false if at most a warning is expected.
    pub stop: bool,
    /// The name of the corpus file, without its extension.
    pub topic: String,
}

#[derive(Deserialize)]
struct CorpusFile {
    calls: Vec<CorpusEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CorpusEntry {
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

/// Reads all corpus calls, with `home` in place of the home in the files.
pub fn calls(home: &Path) -> Vec<CorpusCall> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let mut files: Vec<_> = fs::read_dir(folder)
        .expect("the corpus")
        .map(|entry| entry.expect("a file").path())
        .collect();
    files.sort();
    files.iter().flat_map(|file| read(file, home)).collect()
}

fn read(file: &Path, home: &Path) -> Vec<CorpusCall> {
    let text = fs::read_to_string(file).expect("a corpus file");
    let text = text.replace(HOME, &home.to_string_lossy());
    let parsed: CorpusFile =
        toml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let topic = file.file_stem().unwrap_or_default().to_string_lossy();
    let calls = parsed.calls.into_iter().map(|entry| CorpusCall {
        tool: entry.tool.unwrap_or_else(|| "Bash".to_owned()),
        input: match entry.command {
            Some(command) => json!({"command": command}),
            None => entry.input.unwrap_or_default(),
        },
        stop: entry.expect == Expect::Stop,
        topic: topic.clone().into_owned(),
    });
    calls.collect()
}

impl CorpusCall {
    /// Returns the PreToolUse event of this call.
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

    /// Formats the call as one line for a failure message.
    pub fn text(&self) -> String {
        match self.input["command"].as_str() {
            Some(command) => command.replace('\n', "⏎"),
            None => format!("{} {}", self.tool, self.input),
        }
    }
}
