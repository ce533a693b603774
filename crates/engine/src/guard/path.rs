//! Which paths a tool call touches.

use std::path::Path;
use std::time::Instant;

use serde_json::Value;

use super::act::{Access, Call, Touch};
use super::command;

/// What a tool call would do; follows symlinks until `by`. May block on the file system.
pub fn call(tool: &str, input: &Value, cwd: &Path, home: &Path, _by: Instant) -> Call {
    let text = |key: &str| input.get(key).and_then(Value::as_str);
    if let ("Bash", Some(command)) = (tool, text("command")) {
        let read = command::read(command, cwd, home);
        return Call {
            acts: read.acts,
            touches: read.touches,
            unread: read.unread,
        };
    }
    let access = match tool {
        "Read" => Access::Read,
        "Edit" | "MultiEdit" | "Write" | "NotebookEdit" => Access::Write,
        _ => return Call::default(),
    };
    let touches = ["file_path", "notebook_path"]
        .into_iter()
        .filter_map(text)
        .map(|path| Touch {
            path: cwd.join(path).to_string_lossy().into_owned(),
            real: None,
            access,
            recursive: false,
            opaque: false,
            act: None,
        })
        .collect();
    Call {
        touches,
        ..Call::default()
    }
}
