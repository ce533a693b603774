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
pub(crate) use hook::{longest_time, longest_total_time};
pub use key::{KEYS, Key};
pub use layer::{Layer, Level, RawKey, RawTable, Source, parse_layer};
pub use load::{ConfigFiles, FileReport, FileStatus, Loader, Snapshot};
pub use merge::{Effective, Origin, Setting, merge};
pub use overrides::{misspelt, parse_pairs, parse_variables};
pub(crate) use problem::most_similar;
pub use problem::{ConfigError, Position, Problem, Severity};
pub use schema::schema;
pub use skill::{SKILL_KEYS, SKILL_RULE_KEYS};
pub use value::{Form, Value};

use crate::effort::skill::EffortLimits;
use crate::notice::NoticeSettings;
use crate::statusline::Template;

/// The longest config file. A longer one is refused.
pub(crate) const LONGEST_FILE: u64 = 1 << 20;

/// The configuration in force. The table of keys has its defaults.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Config {
    pub store: Store,
    pub daemon: Daemon,
    pub mask: Mask,
    pub statusline: StatusLine,
    pub notice: NoticeSettings,
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
    /// The age from which payloads are dropped.
    pub keep_days: u32,
    /// The size of all payloads above which the oldest are dropped.
    pub keep_bytes: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Daemon {
    /// The time without work after which the daemon ends; `None` is never.
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
    /// True if the model gets the session's id with each prompt.
    pub context: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StatusLine {
    pub template: Template,
    /// The width of the bar in columns.
    pub bar_width: usize,
    /// The interval at which Claude Code draws it again; `None` is only after an event.
    pub refresh: Option<Duration>,
}

#[cfg(test)]
mod tests;
