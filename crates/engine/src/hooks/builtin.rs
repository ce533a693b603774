//! The hooks that becket brings along: one row each here, one file each in `builtin/`. They run as
//! processes of their own (`becket builtin NAME`), so that none can hurt the daemon.

use std::path::Path;
use std::time::Duration;

use becket_wire::Output;
use becket_wire::event::EventName;

/// A built-in hook. All are off until the config names them.
#[derive(Debug)]
pub struct BuiltIn {
    pub name: &'static str,
    /// One line, as lists show it.
    pub description: &'static str,
    pub on: &'static [EventName],
    /// The matcher of Claude Code; empty is all.
    pub tools: &'static str,
    pub timeout: Duration,
    /// It starts programs of the project, so the project has to be trusted.
    pub starts_project_tools: bool,
    /// The keys that it takes besides those of every hook.
    pub keys: &'static [&'static str],
    pub run: fn(&Call<'_>) -> Output,
}

/// One call of a built-in.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    pub hook: &'a BuiltIn,
    /// The event as Claude Code gave it.
    pub payload: &'a [u8],
    /// Where the session works.
    pub cwd: &'a Path,
    /// The git root above it, else itself.
    pub project: &'a Path,
    /// Its own keys of the config.
    pub options: &'a toml::Table,
    /// A folder of this hook's in this session, to remember things; it may not exist yet.
    pub memory: &'a Path,
}

/// Every built-in, in the order in which lists show them.
#[cfg(not(test))]
pub const BUILT_INS: &[BuiltIn] = &[];

/// Stand-ins, until the real ones are here.
#[cfg(test)]
pub const BUILT_INS: &[BuiltIn] = &[
    BuiltIn {
        name: "typecheck-changed",
        description: "Type checking of changed files",
        on: &[EventName::PostToolUse],
        tools: "Write|Edit",
        timeout: Duration::from_secs(30),
        starts_project_tools: true,
        keys: &["command"],
        run: |_| Output::default(),
    },
    BuiltIn {
        name: "create-checkpoint",
        description: "A snapshot of the work tree",
        on: &[EventName::Stop],
        tools: "",
        timeout: Duration::from_secs(30),
        starts_project_tools: false,
        keys: &["keep"],
        run: |_| Output::default(),
    },
];

impl BuiltIn {
    pub fn find(name: &str) -> Option<&'static Self> {
        BUILT_INS.iter().find(|hook| hook.name == name)
    }
}
