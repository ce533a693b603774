//! `test-changed`: the tests that belong to what was just written.

use std::time::Duration;

use becket_wire::event::EventName;

use super::language::Kind;
use super::{BuiltIn, on_edit};

pub const HOOK: BuiltIn = BuiltIn {
    name: "test-changed",
    description: "Run the tests that belong to the files that were just changed",
    on: &[EventName::PostToolUse],
    tools: on_edit::EDITS,
    timeout: Duration::from_secs(120),
    starts_project_tools: true,
    keys: &["command"],
    run: |call| on_edit::run(call, Kind::Test),
};
