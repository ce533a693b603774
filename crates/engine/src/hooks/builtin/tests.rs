//! Helpers for the tests of built-ins.

use std::path::Path;

use becket_wire::Output;
use serde_json::{Value, json};

use super::{BuiltIn, BuiltinCall};

/// Runs a built-in without stored data, in a project that does not exist.
pub fn ran(hook: &BuiltIn, payload: &[u8]) -> Output {
    let memory = tempfile::tempdir().expect("a folder");
    let memory = memory.path().join(hook.name);
    let project = Path::new("/p");
    ran_in(hook, payload, project, &memory, &toml::Table::new())
}

pub fn ran_in(
    hook: &BuiltIn,
    payload: &[u8],
    project: &Path,
    memory: &Path,
    options: &toml::Table,
) -> Output {
    (hook.run)(&BuiltinCall {
        hook,
        payload,
        cwd: project,
        project,
        options,
        memory,
    })
}

/// Returns the reason of a block.
pub fn blocked(output: &Output) -> Option<String> {
    assert_eq!(output.exit, 0, "{output:?}");
    if output.is_silent() {
        return None;
    }
    let said: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(said["decision"], "block");
    Some(said["reason"].as_str().expect("a reason").to_owned())
}

pub fn reason(hook: &BuiltIn, payload: &[u8]) -> Option<String> {
    blocked(&ran(hook, payload))
}

pub fn silent(hook: &BuiltIn, payload: &[u8]) -> bool {
    ran(hook, payload).is_silent()
}

/// A PostToolUse as Claude Code sends it.
pub fn posted(tool: &str, input: &Value, original: Option<&str>) -> Vec<u8> {
    let response = match (tool, original) {
        ("Write", None) => json!({"type": "create", "originalFile": null}),
        (_, None) => json!({}),
        (_, Some(text)) => json!({"type": "update", "originalFile": text}),
    };
    json!({
        "hook_event_name": "PostToolUse", "session_id": "s", "tool_name": tool,
        "tool_input": input, "tool_response": response,
    })
    .to_string()
    .into_bytes()
}

/// An edit of a part of a file, with the whole file in the response.
pub fn edit(path: &str, original: &str, old: &str, new: &str) -> Vec<u8> {
    assert!(original.contains(old), "{old} is not in {original}");
    let input = json!({"file_path": path, "old_string": old, "new_string": new});
    posted("Edit", &input, Some(original))
}

pub fn write(path: &str, original: Option<&str>, content: &str) -> Vec<u8> {
    posted(
        "Write",
        &json!({"file_path": path, "content": content}),
        original,
    )
}

/// Makes a Stop as Claude Code sends it, with these fields added or replaced.
pub fn stop(fields: &Value) -> Vec<u8> {
    let mut event = json!({
        "hook_event_name": "Stop", "session_id": "85d6d150-187f-464e-b9d0-1f5d4639bdac",
        "stop_hook_active": false, "last_assistant_message": "Done.", "background_tasks": [],
    });
    for (name, value) in fields.as_object().into_iter().flatten() {
        event[name] = value.clone();
    }
    event.to_string().into_bytes()
}
