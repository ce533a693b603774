//! Helpers for the tests of built-ins.

use std::path::Path;

use becket_wire::Output;
use serde_json::Value;

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
