//! One layer of the config: the values of a file, the environment or the command line, checked against the
//! table of keys.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use becket_wire::event::EventName;
use serde::Deserialize;
use toml::de::{DeTable, DeValue, ValueDeserializer};
use toml::{Spanned, Value};

use super::hook::{LONGEST_NAME, is_name};
use super::key::{Key, TABLE_SECTIONS, join, nearest};
use super::problem::{ConfigError, Lines, Position, Problem, Severity, most_similar};
use super::value::words;
use crate::hooks::builtin::BuiltIn;
use crate::matcher::Matcher;
use crate::process::Program;

/// The most tables that one file may have, and the most problems that are reported. A stranger's file is read
/// too, to list its hooks.
const MOST_TABLES: usize = 256;
const MOST_PROBLEMS: usize = 100;
/// The longest unknown name for which a similar known one is searched.
const LONGEST_UNKNOWN: usize = 100;

/// The level of a layer. A higher one wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    BuiltIn,
    System,
    User,
    Project,
    Local,
    Environment,
    CommandLine,
    Managed,
}

impl Level {
    pub fn name(self) -> &'static str {
        match self {
            Self::BuiltIn => "built-in",
            Self::System => "system",
            Self::User => "user",
            Self::Project => "project",
            Self::Local => "local",
            Self::Environment => "environment",
            Self::CommandLine => "command line",
            Self::Managed => "managed",
        }
    }

    /// Returns true if the layer may come from a stranger: it can tighten, never relax.
    pub fn is_foreign(self) -> bool {
        matches!(self, Self::Project | Self::Local | Self::Environment)
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A file of the config, and its level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    pub level: Level,
    pub file: PathBuf,
}

/// The content of one layer.
#[derive(Debug, Clone, PartialEq)]
pub struct Layer {
    pub level: Level,
    pub file: Option<PathBuf>,
    /// True if this is the last good copy of a file that does not parse any more.
    pub last_good: bool,
    pub entries: Vec<Entry>,
    pub tables: Vec<RawTable>,
    pub warnings: Vec<Problem>,
}

/// One value of a layer.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    pub path: String,
    pub value: Value,
    /// The line of the file.
    pub line: Option<usize>,
    pub variable: Option<String>,
}

/// A table of a section that becket keeps as written.
#[derive(Debug, Clone, PartialEq)]
pub struct RawTable {
    /// `hooks`, `guards` or `skills`.
    pub section: &'static str,
    pub name: String,
    pub table: toml::Table,
    pub level: Level,
    /// The file; none on the command line, which has no lines either.
    pub file: Option<PathBuf>,
    /// The position of its name.
    pub at: Position,
    /// Its known keys, in the order of the file.
    pub keys: Vec<RawKey>,
    /// True if this is from the last good copy of a file that does not parse any more.
    pub last_good: bool,
    /// The fault of a guard that denies because of it.
    pub broken: Option<String>,
}

/// One key of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct RawKey {
    pub name: String,
    pub value: Value,
    /// The position of its value.
    pub at: Position,
}

impl RawTable {
    /// Adds the place to a problem.
    pub(super) fn locate(&self, problem: Problem, at: &Position) -> Problem {
        match &self.file {
            Some(file) => problem.in_file(file).at_position(at.clone()),
            None => problem.in_place(self.level.name()),
        }
    }
}

impl Layer {
    pub(super) fn new(level: Level, file: Option<&Path>) -> Self {
        Self {
            level,
            file: file.map(Path::to_path_buf),
            last_good: false,
            entries: Vec::new(),
            tables: Vec::new(),
            warnings: Vec::new(),
        }
    }
}

/// Reads a config file.
pub fn parse_layer(source: &Source, text: &str) -> Result<Layer, ConfigError> {
    let (root, errors) = DeTable::parse_recoverable(text);
    let mut reader = Reader {
        source,
        lines: Lines::of(text),
        layer: Layer::new(source.level, Some(&source.file)),
        errors: Vec::new(),
        table_errors: Vec::new(),
    };
    for error in errors {
        reader.syntax(&error);
    }
    // The content of a broken file is misleading, so only its syntax errors are reported.
    if reader.errors.is_empty() {
        reader.table("", root.get_ref());
    }
    let Reader {
        mut layer,
        errors,
        table_errors,
        ..
    } = reader;
    layer.entries.sort_by_key(|entry| entry.line);
    layer.tables.sort_by_key(|table| table.at.line);
    if errors.is_empty() && table_errors.is_empty() {
        return Ok(layer);
    }
    let mut problems = layer.warnings.clone();
    let rest = errors.is_empty().then(|| Box::new(layer));
    problems.extend(errors.into_iter().chain(table_errors));
    problems.sort_by_key(|problem| problem.at.as_ref().map(|at| (at.line, at.column)));
    Err(ConfigError { problems, rest })
}

struct Reader<'a> {
    source: &'a Source,
    lines: Lines<'a>,
    layer: Layer,
    errors: Vec<Problem>,
    /// The errors in hooks, guards and skills. Each leaves out its own table only.
    table_errors: Vec<Problem>,
}

impl Reader<'_> {
    fn table(&mut self, prefix: &str, table: &DeTable<'_>) {
        for (name, value) in table {
            let path = join(prefix, name.get_ref());
            let raw = TABLE_SECTIONS.into_iter().find(|section| *section == path);
            match (raw, value.get_ref()) {
                (Some(section), DeValue::Table(tables)) => self.raw(section, tables),
                (None, DeValue::Table(inner)) if Key::is_section(&path) => self.table(&path, inner),
                _ if Key::is_section(&path) => {
                    let message = format!("{path} is a section: expected a table [{path}]");
                    self.error(message, value.span());
                }
                _ => match Key::find(&path) {
                    Some(key) => self.value(key, &path, value, name.span()),
                    None => {
                        let message = format!("unknown key {path}");
                        self.warn_unknown(message, &path, name.span(), nearest);
                    }
                },
            }
        }
    }

    fn value(
        &mut self,
        key: &'static Key,
        path: &str,
        given: &Spanned<DeValue<'_>>,
        name_at: Range<usize>,
    ) {
        let value = match self.read(key, key.name_in(path), given) {
            Ok(value) => value,
            Err(why) => {
                self.error(format!("{path}: {why}"), given.span());
                return;
            }
        };
        if !key.is_open_to(self.source.level) {
            let message = format!("{path} cannot be set by a project: ignored");
            let hint = "set it in the user's config".to_owned();
            self.warn(message, Some(hint), name_at);
            return;
        }
        self.layer.entries.push(Entry {
            path: path.to_owned(),
            value,
            line: Some(self.lines.line(name_at.start)),
            variable: None,
        });
    }

    /// Reads a value, and checks it. The values of becket's own guards are checked by a test.
    fn read(&self, key: &Key, name: &str, given: &Spanned<DeValue<'_>>) -> Result<Value, String> {
        let value = plain(given)?;
        if self.source.level != Level::BuiltIn {
            key.check(name, &value)?;
        }
        Ok(value)
    }

    fn raw(&mut self, section: &'static str, tables: &DeTable<'_>) {
        let mut tables: Vec<_> = tables.iter().collect();
        tables.sort_by_key(|(name, _)| name.span().start);
        if let Some((name, _)) = tables.get(MOST_TABLES) {
            let message = format!(
                "{section}: a file may have {MOST_TABLES}; this one and all that follow are left out"
            );
            // This warning is reported, however many others there are.
            let mut problem = self.problem(message, name.span());
            problem.severity = Severity::Warning;
            self.layer.warnings.insert(0, problem);
        }
        for (name, value) in tables.into_iter().take(MOST_TABLES) {
            let DeValue::Table(keys) = value.get_ref() else {
                let message = format!(
                    "{section}.{0}: expected a table [{section}.{0}]",
                    name.get_ref()
                );
                self.error(message, value.span());
                continue;
            };
            let table = plain(value).ok().and_then(|table| table.try_into().ok());
            let table = RawTable {
                section,
                name: name.get_ref().to_string(),
                table: table.unwrap_or_default(),
                level: self.source.level,
                file: Some(self.source.file.clone()),
                at: self.lines.position(name.span()),
                keys: Vec::new(),
                last_good: false,
                broken: None,
            };
            self.raw_table(table, keys);
        }
    }

    /// Takes the table of a hook, guard or skill. A faulty one is left out, but a guard with `fail = "closed"`
    /// denies.
    fn raw_table(&mut self, mut table: RawTable, keys: &DeTable<'_>) {
        let errors = self.table_errors.len();
        if !is_name(&table.name) {
            let what = table.section.trim_end_matches('s');
            let message = format!("{:?} cannot be the name of a {what}", table.name);
            let hint = format!("a-z, 0-9, - _ and . only, at most {LONGEST_NAME} of them");
            let problem = self.problem(message, 0..0).at_position(table.at.clone());
            self.table_errors.push(problem.hint(Some(hint)));
        }
        let pattern = join(table.section, "*");
        self.keys(&mut table, "", &pattern, keys);
        self.check_tools(&table);
        if let Some(problem) = self.table_errors.get(errors) {
            let fail = table.table.get("fail").and_then(Value::as_str);
            if table.section != "guards" || fail != Some("closed") {
                return;
            }
            table.broken = Some(problem.to_string());
        }
        table.keys.sort_by_key(|key| (key.at.line, key.at.column));
        self.layer.tables.push(table);
    }

    /// Takes the keys of a table, or of a table in it. `pattern` is the name of that table in the list of keys.
    fn keys(&mut self, table: &mut RawTable, prefix: &str, pattern: &str, keys: &DeTable<'_>) {
        let built_in = BuiltIn::find(&table.name).filter(|_| table.section == "hooks");
        for (key, given) in keys {
            let name = format!("{prefix}{}", key.get_ref());
            let path = format!("{}.{}.{name}", table.section, table.name);
            let is_own = match built_in {
                Some(built_in) => built_in.keys.contains(&&*name),
                None => table.level == Level::BuiltIn && name == "check",
            };
            let value = match Key::find(&join(pattern, key.get_ref())) {
                _ if is_own => plain(given),
                Some(_) if built_in.is_some() && name == "run" => {
                    Err("this hook is a built-in; use `command`".to_owned())
                }
                Some(known) => self.read(known, &name, given),
                None => match (section_in(pattern, key.get_ref()), given.get_ref()) {
                    (Some(section), DeValue::Table(inner)) if is_name(key.get_ref()) => {
                        self.keys(table, &format!("{name}."), &section, inner);
                        continue;
                    }
                    (Some(_), DeValue::Table(_)) => Err("this is not a valid name".to_owned()),
                    (Some(_), _) => Err(format!("expected a table [{path}]")),
                    (None, _) => {
                        let own = built_in.map_or(&[][..], |hook| hook.keys);
                        let known = Key::names_in(pattern).chain(own.iter().copied());
                        let message = format!("unknown key {path}");
                        self.warn_unknown(message, key.get_ref(), key.span(), |name| {
                            most_similar(name, known)
                        });
                        continue;
                    }
                },
            };
            match value {
                Ok(value) => self.take_key(table, name, value, given.span()),
                Err(why) => {
                    let problem = self.problem(format!("{path}: {why}"), given.span());
                    self.table_errors.push(problem);
                }
            }
        }
    }

    fn take_key(&mut self, table: &mut RawTable, name: String, value: Value, at: Range<usize>) {
        let path = format!("{}.{}.{name}", table.section, table.name);
        match (table.section, &*name) {
            ("hooks", "run" | "command") if value.is_array() => {
                let program = Program::List(words(&value));
                if let Some(word) = program.unexpanded() {
                    let message = format!("{path}: {word:?} is not expanded in a list");
                    let hint = "write the whole path, or a text, which sh runs".to_owned();
                    let problem = self.problem(message, at).hint(Some(hint));
                    self.table_errors.push(problem);
                    return;
                }
            }
            ("hooks", "on") => self.events(&path, &value, &at),
            _ => {}
        }
        let at = self.lines.position(at);
        table.keys.push(RawKey { name, value, at });
    }

    /// Warns of unknown events. They are no error, because Claude Code adds events every few weeks.
    fn events(&mut self, path: &str, value: &Value, at: &Range<usize>) {
        for name in words(value) {
            let event = EventName::from(&*name);
            if matches!(event, EventName::Other(_)) {
                let known = EventName::ALL.iter().map(EventName::as_str);
                let message = format!("{path}: unknown event {name}");
                self.warn_unknown(message, &name, at.clone(), |name| most_similar(name, known));
            } else if !event.is_registered() {
                let message =
                    format!("{path}: becket is not registered for {name}, so nothing runs on it");
                self.warn(message, None, at.clone());
            }
        }
    }

    fn syntax(&mut self, error: &toml::de::Error) {
        let message = error.message().replace('\n', ", ");
        let at = error.span().unwrap_or(0..0);
        self.error(message, at);
    }

    fn error(&mut self, message: String, at: Range<usize>) {
        if self.errors.len() < MOST_PROBLEMS {
            self.errors.push(self.problem(message, at));
        }
    }

    /// Warns of an unknown name. Long names get no suggestion, because the search takes time.
    fn warn_unknown(
        &mut self,
        message: String,
        name: &str,
        at: Range<usize>,
        nearest: impl FnOnce(&str) -> Option<&'static str>,
    ) {
        let tells = self.layer.warnings.len() < MOST_PROBLEMS && name.len() <= LONGEST_UNKNOWN;
        let hint = tells.then(|| nearest(name)).flatten();
        let hint = hint.map(|known| format!("did you mean {known}?"));
        self.warn(message, hint, at);
    }

    fn warn(&mut self, message: String, hint: Option<String>, at: Range<usize>) {
        let at = self.lines.position(at);
        self.warn_at(message, hint, at);
    }

    fn warn_at(&mut self, message: String, hint: Option<String>, at: Position) {
        if self.layer.warnings.len() < MOST_PROBLEMS {
            let mut problem = self.problem(message, 0..0).at_position(at).hint(hint);
            problem.severity = Severity::Warning;
            self.layer.warnings.push(problem);
        }
    }

    /// Warns of a matcher that misspells the case of a tool's name, and so never matches.
    fn check_tools(&mut self, table: &RawTable) {
        let key = |name: &str| table.keys.iter().find(|key| key.name == name);
        let on = key("on").map(|on| words(&on.value)).unwrap_or_default();
        let concerns_tools = on.is_empty() || on.iter().any(|event| is_of_tools(event));
        let Some(tools) = key("tools").filter(|_| concerns_tools) else {
            return;
        };
        let text = words(&tools.value).join("");
        let Some((word, tool)) = Matcher::miswritten(&text) else {
            return;
        };
        let (section, name) = (table.section, &table.name);
        let message = format!("{section}.{name}.tools: \"{word}\" never matches a tool");
        let at = tools.at.clone();
        self.warn_at(message, Some(format!("did you mean {tool}?")), at);
    }

    fn problem(&self, message: String, at: Range<usize>) -> Problem {
        Problem::error("", message)
            .in_file(&self.source.file)
            .at_position(self.lines.position(at))
    }
}

/// Returns the section of that name in another one; a part `*` stands for any name.
fn section_in(section: &str, name: &str) -> Option<String> {
    let names = [name, "*"].map(|name| join(section, name));
    names.into_iter().find(|name| Key::is_section(name))
}

/// Returns a value without its position.
fn plain(given: &Spanned<DeValue<'_>>) -> Result<Value, String> {
    let value = Value::deserialize(ValueDeserializer::from(given.clone()));
    value.map_err(|error| error.message().to_owned())
}

/// Returns true if the matcher of an event is compared with the name of a tool.
fn is_of_tools(event: &str) -> bool {
    let event = EventName::from(event.trim());
    event == EventName::PostToolBatch || event.matcher_field() == Some("tool_name")
}
