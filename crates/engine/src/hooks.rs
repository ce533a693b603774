//! Named hooks: what each is, which events it wants, and whether it runs in this session.

pub mod builtin;
pub mod name;
pub mod output;
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
    /// Claude does not wait for it, and its answer is ignored.
    pub is_async: bool,
    /// A tool call that it could not judge is denied (`fail = "closed"`).
    pub fails_closed: bool,
    /// Where it is named first.
    pub declared: Origin,
    /// Where the config switches it off.
    pub off: Option<Origin>,
    /// It stands in a project that is not trusted, or starts such a project's tools or files: it is
    /// listed, and never run.
    pub untrusted: bool,
    /// It is untrusted because the project changed since it was approved: its runs are recorded as not
    /// started.
    pub changed: bool,
    /// The managed file defines or switches it: no other file and no session can.
    pub managed: bool,
    /// The approved project whose `.becket/` says what it runs.
    pub approved: Option<Arc<Approved>>,
    /// The project that it would run in, if that is not trusted.
    pub untrusted_project: Option<PathBuf>,
}

impl Hook {
    /// How long it may run on that event until it is asked to end: Claude Code does not wait equally
    /// long for all.
    pub fn timeout_on(&self, event: &EventName) -> Duration {
        self.timeout.min(longest_time(event, self.is_async))
    }
}

/// What a hook does.
#[derive(Debug, Clone)]
pub enum Action {
    Run(Program),
    /// One of ours, with its own keys as written.
    BuiltIn(&'static BuiltIn, toml::Table),
}

#[cfg(test)]
impl Hook {
    /// A hook of the user's that runs this line of shell on the events that tests use.
    pub(crate) fn of_test(name: &str, run: &str) -> Self {
        Self {
            name: name.to_owned(),
            description: String::new(),
            on: vec![EventName::PreToolUse, EventName::SessionEnd],
            tools: Matcher::default(),
            paths: Paths::default(),
            skip_agents: Vec::new(),
            action: Action::Run(Program::Shell(run.to_owned())),
            timeout: Duration::from_secs(60),
            rewrites: false,
            is_async: false,
            fails_closed: false,
            declared: Origin {
                level: crate::config::Level::User,
                file: Some("/home/user/.becket/config.toml".into()),
                line: Some(3),
                variable: None,
                last_good: false,
            },
            off: None,
            untrusted: false,
            changed: false,
            managed: false,
            approved: None,
            untrusted_project: None,
        }
    }
}
