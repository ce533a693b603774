//! The switch: which hooks are off in one session, kept in one JSON file a session. A person may
//! read, edit or delete it; nobody cleans up behind their back.

mod file;

use std::fmt;
use std::path::PathBuf;

use becket_wire::Place;
use becket_wire::id::parse_uuid;

pub use file::{Read, SwitchError, Switched, copy, disable, enable, set_aside};

use super::Hook;
use crate::config::Origin;

/// The switches of one session that are off.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Switches {
    disabled: Vec<String>,
}

impl Switches {
    pub fn new(disabled: Vec<String>) -> Self {
        Self { disabled }
    }

    pub fn is_off(&self, hook: &str) -> bool {
        self.disabled.iter().any(|name| name == hook)
    }

    /// The names, as the file has them.
    pub fn disabled(&self) -> &[String] {
        &self.disabled
    }
}

/// Where a session's switches stand. None if its id is no UUID: such a session has none.
pub fn path(place: &Place, session: &str) -> Option<PathBuf> {
    parse_uuid(session)?;
    // On a file system that does not tell cases apart, nor do we.
    let name = format!("{}.json", session.to_ascii_lowercase());
    Some(place.sessions().join(name))
}

/// Whether a hook runs in a session, and why not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    Enabled,
    /// For good, by the config.
    OffInConfig(Origin),
    /// Nobody said that this project counts.
    NotTrusted,
    DisabledForSession,
    SkippedForAgent,
}

impl State {
    /// The word for scripts.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Enabled => "enabled",
            Self::OffInConfig(_) => "off",
            Self::NotTrusted => "not_trusted",
            Self::DisabledForSession => "disabled",
            Self::SkippedForAgent => "skipped",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Enabled => f.write_str("enabled"),
            Self::OffInConfig(origin) => write!(f, "off in config, {origin}"),
            Self::NotTrusted => f.write_str("not trusted"),
            Self::DisabledForSession => f.write_str("disabled for this session"),
            Self::SkippedForAgent => f.write_str("skipped for this subagent"),
        }
    }
}

/// Config off > not trusted > session > subagent > on. What the machine's owner manages, no session
/// switches off.
pub fn state(hook: &Hook, switches: &Switches, agent_type: Option<&str>) -> State {
    let skips = |agent: &str| hook.skip_agents.iter().any(|skipped| skipped == agent);
    match &hook.off {
        Some(origin) => State::OffInConfig(origin.clone()),
        None if hook.untrusted => State::NotTrusted,
        None if !hook.managed && switches.is_off(&hook.name) => State::DisabledForSession,
        None if agent_type.is_some_and(skips) => State::SkippedForAgent,
        None => State::Enabled,
    }
}

#[cfg(test)]
mod tests;
