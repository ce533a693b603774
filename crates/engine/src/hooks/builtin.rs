//! The hooks that becket brings along: one row each in [`BUILT_INS`]. They run as
//! processes of their own (`becket builtin NAME`), so that none can hurt the daemon. What they say does
//! not begin with their name: `merge` puts that before the words of every hook.

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
mod target;
#[cfg(test)]
mod tests;
mod tool;
mod turn;

use std::path::{Path, PathBuf};
use std::time::Duration;

use becket_wire::Output;
use becket_wire::event::EventName;
use language::{Kind, LANGUAGES};
use tool::Search;

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
    pub run: Run,
}

/// One call of a built-in.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    pub hook: &'a BuiltIn,
    /// The event as Claude Code gave it.
    pub payload: &'a [u8],
    /// Where the session works, links resolved.
    pub cwd: &'a Path,
    /// The git root above it, else itself.
    pub project: &'a Path,
    /// Its own keys of the config.
    pub options: &'a toml::Table,
    /// A folder of this hook's in this session, to remember things; it may not exist yet.
    pub memory: &'a Path,
}

type Run = fn(&Call<'_>) -> Output;

/// A hook that checks the files that were just written.
const fn of_edits(
    name: &'static str,
    description: &'static str,
    seconds: u64,
    run: Run,
) -> BuiltIn {
    BuiltIn {
        name,
        description,
        on: &[EventName::PostToolUse],
        tools: on_edit::EDITS,
        timeout: Duration::from_secs(seconds),
        starts_project_tools: true,
        keys: &["command"],
        run,
    }
}

/// A hook that checks the whole project before a turn ends.
const fn of_project(name: &'static str, description: &'static str, run: Run) -> BuiltIn {
    BuiltIn {
        on: &[EventName::Stop],
        tools: "",
        ..of_edits(name, description, 300, run)
    }
}

/// Every built-in, in the order in which lists show them.
pub const BUILT_INS: &[BuiltIn] = &[
    of_edits(
        "typecheck-changed",
        "Check the types of the files that were just changed",
        60,
        |call| on_edit::run(call, Kind::Typecheck),
    ),
    of_edits(
        "lint-changed",
        "Lint the files that were just changed",
        60,
        |call| on_edit::run(call, Kind::Lint),
    ),
    of_edits(
        "test-changed",
        "Run the tests that belong to the files that were just changed",
        120,
        |call| on_edit::run(call, Kind::Test),
    ),
    of_project(
        "typecheck-project",
        "Check the types of the whole project before Claude stops",
        |call| on_stop::run(call, Kind::Typecheck),
    ),
    of_project(
        "lint-project",
        "Lint the whole project before Claude stops",
        |call| on_stop::run(call, Kind::Lint),
    ),
    of_project(
        "test-project",
        "Run all tests of the project before Claude stops",
        |call| on_stop::run(call, Kind::Test),
    ),
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

/// Returns the hooks on edits that have something to do in a project: a tool of its languages, found
/// in it or in these folders, or TypeScript.
pub fn fitting(project: &Path, path: &[PathBuf]) -> Vec<&'static BuiltIn> {
    let search = Search { project, path };
    let fitting = BUILT_INS.iter().filter(|hook| fits(hook, &search));
    fitting.collect()
}

fn fits(hook: &BuiltIn, search: &Search<'_>) -> bool {
    let kind = match hook.name {
        "typecheck-changed" => Kind::Typecheck,
        "lint-changed" => Kind::Lint,
        "test-changed" => Kind::Test,
        "check-any-changed" => return search.project.join("tsconfig.json").is_file(),
        _ => return false,
    };
    LANGUAGES.iter().any(|language| {
        let found = search.find(language, kind, search.project, |it| it.changed.is_some());
        matches!(found, Some(Ok(_)))
    })
}

/// A hook's own keys, as `becket builtin --options` is given them.
pub fn options_from_json(text: &str) -> Result<toml::Table, serde_json::Error> {
    serde_json::from_str(text)
}
