//! Named hooks: their definition, the events that they run on, and their switches.

pub mod builtin;
pub mod name;
pub mod plan;
pub mod slash;
pub mod switch;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use becket_wire::event::EventName;

use crate::config::{Origin, longest_time};
use crate::matcher::{Matcher, Paths};
use crate::process::Program;
use crate::trust::Approved;
use builtin::BuiltIn;

/// A named hook, merged from all layers of the config.
#[derive(Debug, Clone)]
pub struct Hook {
    pub name: String,
    /// One line; without one, the command of a user's own hook.
    pub description: String,
    pub on: Vec<EventName>,
    /// The pattern that Claude Code calls the matcher.
    pub tools: Matcher,
    /// The files whose events it runs on; all, if empty.
    pub paths: Paths,
    /// The types of subagents in which it does not run.
    pub skip_agents: Vec<String>,
    pub action: Action,
    /// The time limit, cut to the time that Claude Code waits.
    pub timeout: Duration,
    /// True if it changes the input of the tool: such hooks run one after the other, before all others.
    pub rewrites: bool,
    /// True if Claude does not wait for it. Its answer is ignored.
    pub is_async: bool,
    /// True if a tool call that it could not judge is denied (`fail = "closed"`).
    pub fails_closed: bool,
    /// The place in the config that first names it.
    pub declared: Origin,
    /// The place in the config that switches it off.
    pub off: Option<Origin>,
    /// True if it is part of a project that is not trusted, or starts such a project's tools or files: it is listed,
    /// and never run.
    pub untrusted: bool,
    /// True if it is untrusted because the project changed since it was approved: its runs are recorded as not
    /// started.
    pub changed: bool,
    /// True if the managed file defines or switches it: no other file and no session can.
    pub managed: bool,
    /// The approved project whose `.becket/` names its program.
    pub approved: Option<Arc<Approved>>,
    /// The project that it would run in, if that is not trusted.
    pub untrusted_project: Option<PathBuf>,
}

impl Hook {
    /// Returns the time limit on an event: Claude Code does not wait equally long for all events.
    pub fn timeout_on(&self, event: &EventName) -> Duration {
        self.timeout.min(longest_time(event, self.is_async))
    }
}

/// The action of a hook.
#[derive(Debug, Clone)]
pub enum Action {
    Run(Program),
    /// A built-in hook, with its own keys as written in the config.
    BuiltIn(&'static BuiltIn, toml::Table),
}
