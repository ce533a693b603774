//! The built-in hooks, one row each in [`BUILT_INS`]. They run as processes of their own (`becket builtin NAME`),
//! so that none can hurt the daemon. Their texts do not begin with their name: `merge` puts it before the texts of
//! every hook.

mod arguments;
mod capture;
mod changed;
mod check;
mod check_any_changed;
mod check_comment_replacement;
mod check_todos;
mod check_unused_parameters;
mod create_checkpoint;
mod edit;
pub mod language;
mod memory;
mod on_edit;
mod on_stop;
mod report;
mod self_review;
mod source;
#[cfg(test)]
mod tests;
mod tool;
mod turn;

use std::path::Path;
use std::time::Duration;

use becket_wire::Output;
use becket_wire::event::EventName;
use language::{CheckKind, LANGUAGES};
use tool::ToolSearch;

/// A built-in hook. All are off until the config names them.
#[derive(Debug)]
pub struct BuiltIn {
    pub name: &'static str,
    /// A description of one line, as lists show it.
    pub description: &'static str,
    pub on: &'static [EventName],
    /// The matcher of Claude Code; empty matches everything.
    pub tools: &'static str,
    pub timeout: Duration,
    /// True if it starts programs of the project, so that the project has to be trusted.
    pub starts_project_tools: bool,
    /// The keys that it takes besides those of every hook.
    pub keys: &'static [&'static str],
    pub run: Run,
}

/// One invocation of a built-in.
#[derive(Debug, Clone, Copy)]
pub struct BuiltinCall<'a> {
    pub hook: &'a BuiltIn,
    /// The event as Claude Code sent it.
    pub payload: &'a [u8],
    /// The folder in which the session works, links resolved.
    pub cwd: &'a Path,
    /// The git root above `cwd`, or else `cwd`.
    pub project: &'a Path,
    /// The keys of this built-in in the config.
    pub options: &'a toml::Table,
    /// The folder in which this hook stores data about the session; it may not exist yet.
    pub memory: &'a Path,
}

type Run = fn(&BuiltinCall<'_>) -> Output;

/// The defaults of a hook that looks at the edits of source files.
const ON_EDIT: BuiltIn = BuiltIn {
    name: "",
    description: "",
    on: &[EventName::PostToolUse],
    tools: "Write|Edit|MultiEdit",
    timeout: Duration::from_secs(10),
    starts_project_tools: false,
    keys: &[],
    run: |_| Output::silence(),
};

/// The defaults of a hook at the end of a turn.
const ON_STOP: BuiltIn = BuiltIn {
    on: &[EventName::Stop],
    tools: "",
    ..ON_EDIT
};

/// The defaults of a hook that checks the files that were just written.
const CHECK_FILES: BuiltIn = BuiltIn {
    tools: on_edit::EDITS,
    timeout: Duration::from_secs(60),
    starts_project_tools: true,
    keys: &["command"],
    ..ON_EDIT
};

/// The defaults of a hook that checks the whole project before a turn ends.
const CHECK_PROJECT: BuiltIn = BuiltIn {
    on: &[EventName::Stop],
    tools: "",
    timeout: Duration::from_secs(300),
    ..CHECK_FILES
};

/// All built-ins, in the order in which lists show them.
pub const BUILT_INS: &[BuiltIn] = &[
    BuiltIn {
        name: "typecheck-changed",
        description: "Check the types of the files that were just changed",
        run: |call| on_edit::run(call, CheckKind::Typecheck),
        ..CHECK_FILES
    },
    BuiltIn {
        name: "lint-changed",
        description: "Lint the files that were just changed",
        run: |call| on_edit::run(call, CheckKind::Lint),
        ..CHECK_FILES
    },
    BuiltIn {
        name: "test-changed",
        description: "Run the tests that belong to the files that were just changed",
        timeout: Duration::from_secs(120),
        run: |call| on_edit::run(call, CheckKind::Test),
        ..CHECK_FILES
    },
    BuiltIn {
        name: "typecheck-project",
        description: "Check the types of the whole project before Claude stops",
        run: |call| on_stop::run(call, CheckKind::Typecheck),
        ..CHECK_PROJECT
    },
    BuiltIn {
        name: "lint-project",
        description: "Lint the whole project before Claude stops",
        run: |call| on_stop::run(call, CheckKind::Lint),
        ..CHECK_PROJECT
    },
    BuiltIn {
        name: "test-project",
        description: "Run all tests of the project before Claude stops",
        run: |call| on_stop::run(call, CheckKind::Test),
        ..CHECK_PROJECT
    },
    check_todos::HOOK,
    check_any_changed::HOOK,
    check_comment_replacement::HOOK,
    check_unused_parameters::HOOK,
    self_review::HOOK,
    create_checkpoint::HOOK,
];

impl BuiltIn {
    pub fn find(name: &str) -> Option<&'static Self> {
        BUILT_INS.iter().find(|hook| hook.name == name)
    }
}

/// Returns the hooks on edits that have work to do in a project: a tool for its languages, found in it or on PATH, or
/// TypeScript.
pub fn fitting(project: &Path) -> Vec<&'static BuiltIn> {
    let search = ToolSearch::new(project);
    let fitting = BUILT_INS.iter().filter(|hook| fits(hook, &search));
    fitting.collect()
}

fn fits(hook: &BuiltIn, search: &ToolSearch<'_>) -> bool {
    let kind = match hook.name {
        "typecheck-changed" => CheckKind::Typecheck,
        "lint-changed" => CheckKind::Lint,
        "test-changed" => CheckKind::Test,
        "check-any-changed" => return search.project.join("tsconfig.json").is_file(),
        _ => return false,
    };
    LANGUAGES.iter().any(|language| {
        let found = search.find(language, kind, search.project, |it| it.changed.is_some());
        matches!(found, Some(Ok(_)))
    })
}

/// Parses the keys of a hook, as `becket builtin --options` gets them.
pub fn options_from_json(text: &str) -> Result<toml::Table, serde_json::Error> {
    serde_json::from_str(text)
}
