//! Configuration: TOML in layers, each value with the place that set it. The rules are pure; only
//! the loader touches files.

mod cache;
mod guard;
mod hook;
mod key;
mod layer;
mod load;
mod merge;
mod overrides;
mod problem;
mod schema;
mod skill;
mod value;

use std::collections::BTreeMap;
use std::time::Duration;

pub use cache::ConfigCache;
pub use guard::GUARD_KEYS;
pub use hook::{HOOK_KEYS, TableKey, is_name as is_hook_name};
pub(crate) use hook::{longest_on, room_on};
pub use key::{KEYS, Key};
pub use layer::{Layer, Level, RawKey, RawTable, Source, parse_layer};
pub use load::{Files, Loader, Report, Snapshot, Standing};
pub use merge::{Effective, Origin, Setting, merge};
pub use overrides::{misspelt, parse_pairs, parse_variables};
pub use problem::{ConfigError, Position, Problem, Severity};
pub use schema::schema;
pub use skill::{SKILL_KEYS, SKILL_RULE_KEYS};
pub use value::{Form, Value};

use crate::effort::skill::EffortLimits;
use crate::notice::Wishes;
use crate::statusline::Template;

/// A longer config file is refused.
pub(crate) const LONGEST_FILE: u64 = 1 << 20;

/// What is in force. Its defaults stand in the table of keys.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Config {
    pub store: Store,
    pub daemon: Daemon,
    pub mask: Mask,
    pub statusline: StatusLine,
    pub notice: Wishes,
    pub launch: Launch,
    pub effort: EffortLimits,
    /// `[hooks.*]` of every layer, as written, lowest layer first.
    pub hooks: Vec<RawTable>,
    /// `[guards.*]`, likewise.
    pub guards: Vec<RawTable>,
    /// `[skills.*]`, likewise.
    pub skills: Vec<RawTable>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Store {
    /// Payloads older than this are dropped.
    pub keep_days: u32,
    /// The oldest payloads are dropped until the rest fits.
    pub keep_bytes: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Daemon {
    /// After so long without work the daemon ends itself; `None` is never.
    pub idle: Option<Duration>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mask {
    pub enabled: bool,
    /// The user's own patterns, by name.
    pub patterns: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Launch {
    /// The model learns the session's id with each prompt.
    pub context: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StatusLine {
    pub template: Template,
    /// How many columns the bar has.
    pub bar_width: usize,
    /// How often Claude Code draws it again; `None` is only when something happens.
    pub refresh: Option<Duration>,
}

#[cfg(test)]
mod tests;
