//! The keys that becket knows, with one row and one field of `Config` each. StatusLineInput, merging, showing, the
//! environment and the schema all use this table.

use std::time::Duration;

use super::value::{Form, Value};
use super::{Config, Level};
use crate::mask;
use crate::notice::{NoticeChannel, NoticeFilter, QuietHours};
use crate::process::Program;
use crate::statusline::Template;

type Tightens = fn(in_force: &Value, new: &Value) -> bool;

/// One key.
#[derive(Debug)]
pub struct Key {
    /// The full name. A last part `*` stands for any name.
    pub path: &'static str,
    pub form: Form,
    /// The default, as it would be written; a key with `*` has none.
    pub default: Option<&'static str>,
    pub about: &'static str,
    /// True if a project may set it.
    pub project: bool,
    /// Returns true if a new value is stricter than the one in force; none if no value is. A value from a
    /// project or from the environment counts only then, because it may be a stranger's.
    pub tightens: Option<Tightens>,
    set: fn(&mut Config, &str, &Value),
}

/// Sections whose tables are kept as written. The modules `hook`, `guard` and `skill` read their keys.
pub const RAW: [&str; 3] = ["hooks", "guards", "skills"];

fn number(value: &Value) -> u32 {
    match value {
        Value::Number(number) => u32::try_from(*number).unwrap_or(u32::MAX),
        _ => 0,
    }
}

fn span(value: &Value) -> Option<Duration> {
    match value {
        Value::Span(span) => *span,
        _ => None,
    }
}

fn flag(value: &Value) -> bool {
    value.as_bool().unwrap_or_default()
}

fn text(value: &Value) -> &str {
    match value {
        Value::Text(text) => text,
        _ => "",
    }
}

pub const KEYS: &[Key] = &[
    Key {
        path: "store.keep_days",
        form: Form::Number {
            min: 0,
            max: 36_500,
        },
        default: Some("90"),
        about: "Prompts and tool data are deleted after this many days; the list of events stays",
        project: false,
        tightens: None,
        set: |config, _, value| config.store.keep_days = number(value),
    },
    Key {
        path: "store.keep_bytes",
        form: Form::Bytes,
        default: Some("4GiB"),
        about: "The oldest prompts and tool data are deleted when all of them take more than this",
        project: false,
        tightens: None,
        set: |config, _, value| {
            if let Value::Bytes(bytes) = value {
                config.store.keep_bytes = *bytes;
            }
        },
    },
    Key {
        path: "daemon.idle",
        form: Form::Span {
            min: Duration::from_secs(1),
        },
        default: Some("12h"),
        about: "The daemon ends after this long without work; the next event starts it again",
        project: false,
        tightens: None,
        set: |config, _, value| config.daemon.idle = span(value),
    },
    Key {
        path: "mask.enabled",
        form: Form::Bool,
        default: Some("true"),
        about: "Secrets are masked before anything is stored",
        project: false,
        tightens: Some(|in_force, new| {
            (in_force, new) == (&Value::Bool(false), &Value::Bool(true))
        }),
        set: |config, _, value| config.mask.enabled = flag(value),
    },
    Key {
        path: "mask.patterns.*",
        form: Form::Text(|name, pattern| {
            let checked = mask::check_pattern(name, pattern);
            checked.map(drop).map_err(|error| error.to_string())
        }),
        default: None,
        about: "A regex for secrets of your own; with a group, only the first group is masked",
        project: false,
        tightens: None,
        set: |config, name, value| {
            let pattern = text(value).to_owned();
            config.mask.patterns.insert(name.to_owned(), pattern);
        },
    },
    Key {
        path: "statusline.template",
        form: Form::Text(|_, text| {
            let template = Template::parse(text);
            template.map(drop).map_err(|error| error.to_string())
        }),
        default: Some(
            "{project} · {effort} · {model} · {bar} {context} · {cost} · {waiting} · {off} · {wrong}",
        ),
        about: "What the status line shows; the text before an empty part is left out",
        project: false,
        tightens: None,
        set: |config, _, value| {
            config.statusline.template = Template::parse(text(value)).unwrap_or_default();
        },
    },
    Key {
        path: "statusline.bar_width",
        form: Form::Number { min: 1, max: 60 },
        default: Some("10"),
        about: "How many columns the status line's bar has",
        project: false,
        tightens: None,
        set: |config, _, value| {
            config.statusline.bar_width = usize::try_from(number(value)).unwrap_or(10);
        },
    },
    Key {
        path: "statusline.refresh",
        form: Form::Span {
            min: Duration::from_secs(1),
        },
        default: Some("2s"),
        about: "How often Claude Code draws the status line again by itself; `becket up` registers it",
        project: false,
        tightens: None,
        set: |config, _, value| config.statusline.refresh = span(value),
    },
    Key {
        path: "launch.context",
        form: Form::Bool,
        default: Some("true"),
        about: "A session that `becket run` started is told its id and start with each prompt",
        project: false,
        tightens: None,
        set: |config, _, value| config.launch.context = flag(value),
    },
    Key {
        path: "effort.remind",
        form: Form::Number {
            min: 0,
            max: 10_000,
        },
        default: Some("3"),
        about: "An agent at work on an effort is reminded after so many calls without a log entry; 0 is never",
        project: false,
        tightens: None,
        set: |config, _, value| config.effort.remind = number(value),
    },
    Key {
        path: "effort.deny",
        form: Form::Number {
            min: 0,
            max: 10_000,
        },
        default: Some("10"),
        about: "From so many calls without a log entry on, calls are denied; 0 is never",
        project: false,
        tightens: None,
        set: |config, _, value| config.effort.deny = number(value),
    },
    Key {
        path: "effort.overflow",
        form: Form::Number { min: 0, max: 100 },
        default: Some("91"),
        about: "At this percentage of the context the work is handed over to a fresh window; 0 is never",
        project: false,
        tightens: None,
        set: |config, _, value| config.effort.overflow = number(value),
    },
    Key {
        path: "effort.warn_before",
        form: Form::Number { min: 0, max: 100 },
        default: Some("10"),
        about: "So many points before `effort.overflow` the agent is warned",
        project: false,
        tightens: None,
        set: |config, _, value| config.effort.warn_before = number(value),
    },
    Key {
        path: "notice.on",
        form: Form::Text(|_, text| text.parse::<NoticeFilter>().map(drop)),
        default: Some("off"),
        about: "What you are notified of: `off`, `attention`, `done` (long work and failures), or `all`",
        project: true,
        tightens: Some(
            |in_force, new| match (text(in_force).parse(), text(new).parse()) {
                (Ok(in_force), Ok(new)) => NoticeFilter::is_less_than(new, in_force),
                _ => false,
            },
        ),
        set: |config, _, value| {
            config.notice.on = text(value).parse().unwrap_or_default();
        },
    },
    Key {
        path: "notice.how",
        form: Form::Text(|_, text| text.parse::<NoticeChannel>().map(drop)),
        default: Some("bell"),
        about: "How the terminal notifies you: `bell`, `osc9`, `osc777`; or always by `command`",
        project: false,
        tightens: None,
        set: |config, _, value| {
            config.notice.how = text(value).parse().unwrap_or_default();
        },
    },
    Key {
        path: "notice.command",
        form: Form::Program,
        default: Some(""),
        about: "The command that the daemon runs when it cannot reach the terminal; a list runs as it is, a text in sh",
        project: false,
        tightens: None,
        set: |config, _, value| {
            config.notice.command = match value {
                Value::List(words) => Some(Program::List(words.clone())),
                Value::Text(line) if !line.trim().is_empty() => Some(Program::Shell(line.clone())),
                _ => None,
            };
        },
    },
    Key {
        path: "notice.after",
        form: Form::Span {
            min: Duration::ZERO,
        },
        default: Some("1m"),
        about: "You are notified of finished work if your last prompt is older than this",
        project: false,
        tightens: None,
        set: |config, _, value| config.notice.after = span(value),
    },
    Key {
        path: "notice.quiet",
        form: Form::Text(|_, text| QuietHours::read(text).map(drop)),
        default: Some("never"),
        about: "Hours without notices, by local time: `22:00-07:00`",
        project: false,
        tightens: None,
        set: |config, _, value| {
            config.notice.quiet = QuietHours::read(text(value)).unwrap_or_default();
        },
    },
    Key {
        path: "notice.projects.*",
        form: Form::Text(|_, text| text.parse::<NoticeFilter>().map(drop)),
        default: None,
        about: "Replaces `notice.on` for a project, by its folder or its name",
        project: false,
        tightens: None,
        set: |config, name, value| {
            let on = text(value).parse().unwrap_or_default();
            config.notice.projects.insert(name.to_owned(), on);
        },
    },
];

impl Key {
    /// Finds the key with this name.
    pub fn find(path: &str) -> Option<&'static Self> {
        KEYS.iter().find(|key| match key.path.strip_suffix('*') {
            Some(parent) => path
                .strip_prefix(parent)
                .is_some_and(|name| !name.is_empty()),
            None => key.path == path,
        })
    }

    /// Returns true if this is the name of a section.
    pub fn is_section(path: &str) -> bool {
        KEYS.iter().any(|key| {
            key.path
                .strip_prefix(path)
                .is_some_and(|rest| rest.starts_with('.'))
        })
    }

    /// Returns the variable that sets the key: `BECKET_MASK_ENABLED`. A key with `*` has none.
    pub fn variable(&self) -> Option<String> {
        let named = !self.path.ends_with('*');
        named.then(|| format!("BECKET_{}", self.path.replace('.', "_").to_uppercase()))
    }

    /// Returns true if a file of that level may set the key.
    pub fn is_open_to(&self, level: Level) -> bool {
        self.project || !matches!(level, Level::Project | Level::Local)
    }

    /// Returns the last part of a key's name. The part that stands for `*` may contain dots.
    pub(super) fn name_in<'a>(&self, path: &'a str) -> &'a str {
        let parent = self.path.rfind('.').map_or(0, |dot| dot + 1);
        path.get(parent..).unwrap_or(path)
    }

    pub(super) fn put(&self, config: &mut Config, path: &str, value: &Value) {
        (self.set)(config, self.name_in(path), value);
    }
}

/// Returns the known name that is most similar to an unknown one.
pub fn nearest(path: &str) -> Option<&'static str> {
    let sections = KEYS
        .iter()
        .filter_map(|key| key.path.rsplit_once('.').map(|(section, _)| section))
        .chain(RAW)
        .filter(|_| !path.contains('.'));
    let keys = KEYS
        .iter()
        .map(|key| key.path)
        .filter(|path| !path.ends_with('*'));
    keys.chain(sections)
        .map(|known| (likeness(path, known), known))
        .filter(|(likeness, _)| *likeness > 0.6)
        .max_by(|one, other| one.0.total_cmp(&other.0))
        .map(|(_, known)| known)
}

fn likeness(path: &str, known: &str) -> f64 {
    let last = known.rsplit('.').next().unwrap_or(known);
    let whole = strsim::normalized_damerau_levenshtein(path, known);
    // The user may have forgotten the section of the key.
    let alone = strsim::normalized_damerau_levenshtein(path, last);
    whole.max(alone * 0.95)
}

#[cfg(test)]
mod tests {

    use super::*;

    /// Defaults that leave a `Config` as it begins, and what does not.
    const OTHERS: [(&str, &str); 8] = [
        ("effort.remind", "1"),
        ("effort.deny", "1"),
        ("effort.overflow", "1"),
        ("effort.warn_before", "1"),
        ("notice.on", "all"),
        ("notice.how", "osc9"),
        ("notice.command", "true"),
        ("notice.quiet", "22:00-07:00"),
    ];

    #[test]
    fn every_row_is_sound() {
        for key in KEYS {
            let Some(default) = key.default else {
                assert!(key.path.ends_with(".*"), "{}", key.path);
                continue;
            };
            let value = key.form.read_text(key.path, default).expect(key.path);
            assert_eq!(value.to_string(), default);
            let other = OTHERS.iter().find(|(path, _)| *path == key.path);
            let other = other.map_or(default, |(_, other)| other);
            let value = key.form.read_text(key.path, other).expect(key.path);
            let mut config = Config::default();
            key.put(&mut config, key.path, &value);
            assert_ne!(config, Config::default(), "{} sets nothing", key.path);
            assert!(Key::find(key.path).is_some_and(|found| found.path == key.path));
        }
    }

    #[test]
    fn finds_the_nearest_name() {
        for (wrong, right) in [
            ("store.keep_day", Some("store.keep_days")),
            ("stor", Some("store")),
            ("keep_bytes", Some("store.keep_bytes")),
            ("mask.enable", Some("mask.enabled")),
            ("hook", Some("hooks")),
            ("store.x", None),
            ("colour", None),
        ] {
            assert_eq!(nearest(wrong), right, "{wrong}");
        }
    }
}
