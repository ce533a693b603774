//! `lint-changed`: the style of what was just written.

use std::time::Duration;

use becket_wire::event::EventName;

use super::language::Kind;
use super::{BuiltIn, on_edit};

pub const HOOK: BuiltIn = BuiltIn {
    name: "lint-changed",
    description: "Lint the files that were just changed",
    on: &[EventName::PostToolUse],
    tools: on_edit::EDITS,
    timeout: Duration::from_secs(60),
    starts_project_tools: true,
    keys: &["command"],
    run: |call| on_edit::run(call, Kind::Lint),
};
