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

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};

pub use cache::ConfigCache;
pub use hook::is_name as is_hook_name;
pub(crate) use hook::{longest_time, longest_total_time};
pub use key::{KEYS, Key};
pub use layer::{Layer, Level, RawKey, RawTable, Source, parse_layer};
pub use load::{ConfigFiles, FileReport, FileStatus, Loader, Snapshot};
pub use merge::{Effective, Origin, Setting, merge};
pub use overrides::{misspelt, parse_pairs, parse_variables};
pub(crate) use problem::most_similar;
pub use problem::{ConfigError, Position, Problem, Severity};
pub use schema::schema;

use crate::effort::skill::EffortLimits;
use crate::mask;
use crate::notice::{NoticeChannel, NoticeFilter, NoticeSettings, QuietHours};
use crate::process::Program;
use crate::statusline::Template;
use value::{bytes, bytes_schema, parsed, program, program_schema, time, time_schema};

/// The longest config file. A longer one is refused.
pub(crate) const LONGEST_FILE: u64 = 1 << 20;

/// The configuration in force. The comments of the keys are the descriptions in the schema and in the docs;
/// `defaults.toml` has their defaults.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    pub store: Store,
    pub daemon: Daemon,
    pub mask: Mask,
    pub statusline: StatusLine,
    #[serde(deserialize_with = "NoticeSection::deserialize")]
    #[schemars(with = "NoticeSection")]
    pub notice: NoticeSettings,
    pub launch: Launch,
    pub answer: AnswerSection,
    #[serde(deserialize_with = "EffortSection::deserialize")]
    #[schemars(with = "EffortSection")]
    pub effort: EffortLimits,
    /// `[hooks.*]` of every layer, as written, lowest layer first.
    #[serde(skip)]
    pub hooks: Vec<RawTable>,
    /// `[guards.*]`, likewise.
    #[serde(skip)]
    pub guards: Vec<RawTable>,
    /// `[skills.*]`, likewise.
    #[serde(skip)]
    pub skills: Vec<RawTable>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Store {
    /// Prompts and tool data are deleted after this many days; the list of events stays
    #[schemars(range(max = 36_500))]
    pub keep_days: u32,
    /// The oldest prompts and tool data are deleted when all of them take more than this
    #[serde(deserialize_with = "bytes")]
    #[schemars(schema_with = "bytes_schema")]
    pub keep_bytes: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Daemon {
    /// The daemon ends after this long without work; the next event starts it again
    #[serde(deserialize_with = "time::<1000, _>")]
    #[schemars(schema_with = "time_schema::<1000>")]
    pub idle: Option<Duration>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Mask {
    /// Secrets are masked before anything is stored
    pub enabled: bool,
    // The user's own patterns, by name.
    #[serde(deserialize_with = "mask_patterns")]
    #[schemars(with = "BTreeMap<String, MaskPattern>")]
    pub patterns: BTreeMap<String, String>,
}

/// A regex for secrets of your own; with a group, only the first group is masked
#[derive(JsonSchema)]
struct MaskPattern(#[expect(dead_code, reason = "only its schema is used")] String);

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Launch {
    /// A session that `becket run` started is told its id and start with each prompt
    pub context: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AnswerSection {
    /// A permission request waits for an answer through becket as long as its dialog is open
    pub enabled: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct StatusLine {
    /// The parts of the status line; the text before an empty part is left out
    #[serde(deserialize_with = "template")]
    #[schemars(with = "String")]
    pub template: Template,
    /// The number of columns of the status line's bar
    #[schemars(range(min = 1, max = 60))]
    pub bar_width: usize,
    /// The interval at which Claude Code draws the status line again by itself; `becket up` registers it
    #[serde(deserialize_with = "time::<1000, _>")]
    #[schemars(schema_with = "time_schema::<1000>")]
    pub refresh: Option<Duration>,
}

#[derive(Default, Deserialize, JsonSchema)]
#[serde(remote = "EffortLimits", default, deny_unknown_fields)]
struct EffortSection {
    /// After this many calls without a log entry, an agent that works on an effort is reminded; 0: never
    #[schemars(range(max = 10_000))]
    remind: u32,
    /// After this many calls without a log entry, becket denies calls; 0: never
    #[schemars(range(max = 10_000))]
    deny: u32,
    /// At this percentage of the context, the work is handed over to a fresh window; 0: never
    #[schemars(range(max = 100))]
    overflow: u32,
    /// The agent is warned this many percentage points before `effort.overflow`
    #[schemars(range(max = 100))]
    warn_before: u32,
}

#[derive(Default, Deserialize, JsonSchema)]
#[serde(remote = "NoticeSettings", default, deny_unknown_fields)]
struct NoticeSection {
    /// The events that you are notified of: `off`, `attention`, `done` (long work and failures), or `all`
    #[serde(deserialize_with = "notice_filter")]
    #[schemars(with = "String")]
    on: NoticeFilter,
    /// The signal of the terminal: `bell`, `osc9`, `osc777`; or `command`, to run that always
    #[serde(deserialize_with = "notice_channel")]
    #[schemars(with = "String")]
    how: NoticeChannel,
    /// The command that the daemon runs when it cannot reach the terminal; a list runs as it is, a text in sh
    #[serde(deserialize_with = "program")]
    #[schemars(schema_with = "program_schema")]
    command: Option<Program>,
    /// You are notified of finished work if your last prompt is older than this
    #[serde(deserialize_with = "time::<0, _>")]
    #[schemars(schema_with = "time_schema::<0>")]
    after: Option<Duration>,
    /// Hours without notices, by local time: `22:00-07:00`
    #[serde(deserialize_with = "quiet_hours")]
    #[schemars(with = "String")]
    quiet: Option<QuietHours>,
    #[serde(deserialize_with = "notice_filters")]
    #[schemars(with = "BTreeMap<String, ProjectFilter>")]
    projects: BTreeMap<String, NoticeFilter>,
}

/// Replaces `notice.on` for a project, by its folder or its name
#[derive(JsonSchema)]
struct ProjectFilter(#[expect(dead_code, reason = "only its schema is used")] String);

fn template<'de, D: Deserializer<'de>>(given: D) -> Result<Template, D::Error> {
    parsed(given, Template::parse)
}

fn notice_filter<'de, D: Deserializer<'de>>(given: D) -> Result<NoticeFilter, D::Error> {
    parsed(given, str::parse)
}

fn notice_channel<'de, D: Deserializer<'de>>(given: D) -> Result<NoticeChannel, D::Error> {
    parsed(given, str::parse)
}

fn quiet_hours<'de, D: Deserializer<'de>>(given: D) -> Result<Option<QuietHours>, D::Error> {
    parsed(given, QuietHours::read)
}

fn notice_filters<'de, D>(given: D) -> Result<BTreeMap<String, NoticeFilter>, D::Error>
where
    D: Deserializer<'de>,
{
    let texts = BTreeMap::<String, String>::deserialize(given)?.into_iter();
    let filters = texts.map(|(project, text)| Ok((project, text.parse()?)));
    filters
        .collect::<Result<_, String>>()
        .map_err(serde::de::Error::custom)
}

fn mask_patterns<'de, D>(given: D) -> Result<BTreeMap<String, String>, D::Error>
where
    D: Deserializer<'de>,
{
    let patterns = BTreeMap::<String, String>::deserialize(given)?;
    for (name, pattern) in &patterns {
        mask::check_pattern(name, pattern).map_err(serde::de::Error::custom)?;
    }
    Ok(patterns)
}

#[cfg(test)]
mod tests;
