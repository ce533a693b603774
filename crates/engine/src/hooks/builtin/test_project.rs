//! `test-project`: all tests of the project, before a turn ends.

use std::time::Duration;

use becket_wire::event::EventName;

use super::language::Kind;
use super::{BuiltIn, on_stop};

pub const HOOK: BuiltIn = BuiltIn {
    name: "test-project",
    description: "Run all tests of the project before Claude stops",
    on: &[EventName::Stop],
    tools: "",
    timeout: Duration::from_secs(300),
    starts_project_tools: true,
    keys: &["command"],
    run: |call| on_stop::run(call, Kind::Test),
};
