//! `typecheck-changed`: the types of what was just written.

use std::time::Duration;

use becket_wire::event::EventName;

use super::language::Kind;
use super::{BuiltIn, on_edit};

pub const HOOK: BuiltIn = BuiltIn {
    name: "typecheck-changed",
    description: "Check the types of the files that were just changed",
    on: &[EventName::PostToolUse],
    tools: on_edit::EDITS,
    timeout: Duration::from_secs(60),
    starts_project_tools: true,
    keys: &["command"],
    run: |call| on_edit::run(call, Kind::Typecheck),
};
