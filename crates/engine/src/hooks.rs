//! Named hooks: what each is, which events it wants, and whether it runs in this session.

pub mod builtin;
pub mod carry;
pub mod kept;
pub mod name;
pub mod slash;
pub mod switch;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use becket_wire::event::EventName;

use crate::config::{Origin, longest_on};
use crate::matcher::{Matcher, Paths};
use crate::run::Program;
use crate::trust::{
    Approved, is_found_inside, is_led_astray, is_of_the_project, starts_unapproved,
};
use builtin::{BuiltIn, own_command};

/// A named hook, as the layers of the config together say it.
#[derive(Debug, Clone)]
pub struct Hook {
    pub name: String,
    /// One line; of a hook of the user's own that says none, its command.
    pub description: String,
    pub on: Vec<EventName>,
    /// What Claude Code would call the matcher.
    pub tools: Matcher,
    /// The files that it wants to hear of; all, if empty.
    pub paths: Paths,
    /// Types of subagents in which it does not run.
    pub skip_agents: Vec<String>,
    pub action: Action,
    /// Cut to fit what Claude Code waits.
    pub timeout: Duration,
    /// It changes the input of the tool: such hooks run one after the other, before all others.
    pub rewrites: bool,
    /// Nobody waits for it, and what it says counts for nothing.
    pub is_async: bool,
    /// Where it is named first.
    pub declared: Origin,
    /// Where the config switches it off.
    pub off: Option<Origin>,
    /// It stands in a project that nobody trusts, or starts such a project's tools or files: it is
    /// listed, and never run.
    pub untrusted: bool,
    /// The managed file defines or switches it: nobody else can.
    pub managed: bool,
    /// The project whose `.becket/` says what it runs.
    pub root: Option<PathBuf>,
    /// That project as it was approved.
    pub approved: Option<Arc<Approved>>,
    /// The project that it would run in, where the person does not trust that.
    pub strange: Option<PathBuf>,
}

impl Hook {
    /// How long it may run on that event until it is asked to end: Claude Code does not wait equally
    /// long for all.
    pub fn timeout_on(&self, event: &EventName) -> Duration {
        self.timeout.min(longest_on(event, self.is_async))
    }

    /// Whether in that folder a word of its program names another file than the one that was
    /// approved. Such a hook must not run there.
    pub fn is_led_astray(&self, cwd: &Path) -> bool {
        match (&self.root, &self.action) {
            (Some(root), Action::Run(program)) => is_led_astray(program, root, cwd),
            _ => false,
        }
    }

    /// Whether what it would start has changed since its project was looked at. Such a hook must not
    /// run: between that look and its start may lie the run of another hook.
    pub fn has_changed(&self) -> bool {
        let approved = self.approved.as_ref();
        approved.is_some_and(|approved| !approved.still_holds())
    }

    /// Whether with that `PATH` a bare word of its program starts a file of the project that was
    /// not approved, as where `node_modules/.bin` is on it. Such a hook must not run so.
    pub fn resolves_inside(&self, cwd: &Path, path: &OsStr) -> bool {
        let Some(root) = &self.root else {
            return false;
        };
        match &self.action {
            Action::Run(program) => starts_unapproved(program, root, cwd, path),
            // Its command runs at the root.
            Action::BuiltIn(_, options) => own_command(options)
                .is_ok_and(|it| it.is_some_and(|it| starts_unapproved(&it, root, root, path))),
        }
    }

    /// Whether it would start a file of a project that the person does not trust: one that a word
    /// of its program names, or that the `PATH` leads to. Such a hook must not run there.
    pub fn starts_a_strangers(&self, cwd: &Path, path: &OsStr) -> bool {
        match (&self.strange, &self.action) {
            (Some(project), Action::Run(program)) => {
                is_of_the_project(program, &[project, cwd])
                    || is_found_inside(program, project, cwd, path)
            }
            _ => false,
        }
    }
}

/// What a hook does.
#[derive(Debug, Clone)]
pub enum Action {
    Run(Program),
    /// One of ours, with its own keys as written.
    BuiltIn(&'static BuiltIn, toml::Table),
}
