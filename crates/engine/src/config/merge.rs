//! Merges layers into one config: for each key the highest layer that may set it.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use toml::{Table, Value};

use super::Config;
use super::key::{KEYS, Key, read_table};
use super::layer::{Entry, Layer, Level, RawTable};
use super::problem::Problem;
use super::value::words;

/// The config in force, and the origins of its values.
#[derive(Debug, Clone, PartialEq)]
pub struct Effective {
    pub config: Config,
    /// Every value by its key.
    pub settings: BTreeMap<String, Setting>,
    /// The warnings about values without effect.
    pub warnings: Vec<Problem>,
}

/// One value in force, and its origin.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    pub value: Value,
    pub origin: Origin,
}

impl Setting {
    /// Returns the value as people read it: a text without quotes.
    pub fn text(&self) -> String {
        match &self.value {
            Value::String(text) => text.clone(),
            Value::Array(values) if values.iter().all(Value::is_str) => {
                format!("{:?}", words(&self.value))
            }
            other => other.to_string(),
        }
    }
}

/// The origin of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    pub level: Level,
    pub file: Option<PathBuf>,
    pub line: Option<usize>,
    pub variable: Option<String>,
    /// True if the line is that of the last good copy of a file that does not parse any more.
    pub last_good: bool,
}

impl Origin {
    pub(super) const BUILT_IN: Self = Self {
        level: Level::BuiltIn,
        file: None,
        line: None,
        variable: None,
        last_good: false,
    };

    /// Makes the origin for a line of a table that is kept as written.
    pub(super) fn of(table: &RawTable, line: usize) -> Self {
        Self {
            level: table.level,
            file: table.file.clone(),
            line: table.file.as_ref().map(|_| line),
            variable: None,
            last_good: table.last_good,
        }
    }
}

impl RawTable {
    /// Returns the origin of the table.
    pub fn origin(&self) -> Origin {
        Origin::of(self, self.at.line)
    }

    /// Returns its keys with their full names.
    pub(super) fn settings(&self) -> impl Iterator<Item = (String, Setting)> {
        self.keys.iter().map(|key| {
            let setting = Setting {
                value: key.value.clone(),
                origin: Origin::of(self, key.at.line),
            };
            let path = format!("{}.{}.{}", self.section, self.name, key.name);
            (path, setting)
        })
    }
}

/// Groups tables by name, in the order of their names' first tables. Those of a name come lowest level first.
pub(super) fn by_name<'a>(
    tables: impl IntoIterator<Item = &'a RawTable>,
) -> Vec<(&'a str, Vec<&'a RawTable>)> {
    let mut groups: Vec<(&str, Vec<&RawTable>)> = Vec::new();
    for table in tables {
        match groups.iter_mut().find(|(name, _)| *name == table.name) {
            Some((_, group)) => group.push(table),
            None => groups.push((&table.name, vec![table])),
        }
    }
    for (_, group) in &mut groups {
        group.sort_by_key(|table| table.level);
    }
    groups
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.file, &self.variable) {
            (Some(file), _) => write!(f, "{}", file.display())?,
            (None, Some(variable)) => f.write_str(variable)?,
            (None, None) => f.write_str(self.level.name())?,
        }
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if self.last_good {
            f.write_str(" (last good copy)")?;
        }
        Ok(())
    }
}

/// Merges layers in the order of their levels. They are all trusted: the caller leaves out the others.
pub fn merge<'a>(layers: impl IntoIterator<Item = &'a Layer>) -> Effective {
    let mut layers: Vec<&Layer> = layers.into_iter().collect();
    layers.sort_by_key(|layer| layer.level);
    let mut effective = Effective {
        config: Config::default(),
        settings: defaults(),
        warnings: Vec::new(),
    };
    for layer in layers {
        for entry in &layer.entries {
            effective.take(layer, entry);
        }
        for table in &layer.tables {
            effective.take_table(layer, table);
        }
    }
    let mut values = Table::new();
    for (path, setting) in &effective.settings {
        if let Some(key) = Key::find(path) {
            key.put(&mut values, path, setting.value.clone());
        }
    }
    let tables = effective.config;
    // Each value was checked alone. If a check was wrong, becket judges by its defaults.
    let config: Config = read_table(values).unwrap_or_else(|error| {
        let what = format!("the settings could not be read: {error}");
        effective.warnings.push(Problem::error("", what));
        let built_in = defaults().into_iter();
        let built_in =
            built_in.filter_map(|(path, setting)| Some((Key::find(&path)?, path, setting.value)));
        let mut values = Table::new();
        for (key, path, value) in built_in {
            key.put(&mut values, &path, value);
        }
        read_table(values).unwrap_or_default()
    });
    effective.config = Config {
        hooks: tables.hooks,
        guards: tables.guards,
        skills: tables.skills,
        ..config
    };
    effective
}

fn defaults() -> BTreeMap<String, Setting> {
    let defaults = KEYS.iter().filter_map(|key| {
        let value = key.default.clone()?;
        let origin = Origin::BUILT_IN;
        Some((key.path.clone(), Setting { value, origin }))
    });
    defaults.collect()
}

impl Effective {
    fn take_table(&mut self, layer: &Layer, table: &RawTable) {
        let table = RawTable {
            last_good: layer.last_good,
            ..table.clone()
        };
        match table.section {
            "hooks" => self.config.hooks.push(table),
            "skills" => self.config.skills.push(table),
            _ => self.config.guards.push(table),
        }
    }

    fn take(&mut self, layer: &Layer, entry: &Entry) {
        let origin = Origin {
            level: layer.level,
            file: layer.file.clone(),
            line: entry.line,
            variable: entry.variable.clone(),
            last_good: layer.last_good,
        };
        let in_force = self.settings.get(&entry.path).map(|setting| &setting.value);
        if in_force == Some(&entry.value) && layer.level.is_foreign() {
            return;
        }
        let key = Key::find(&entry.path);
        let tightens = key.and_then(|key| key.tightens(in_force, &entry.value));
        if layer.level.is_foreign() && tightens != Some(true) {
            let (path, level) = (&entry.path, layer.level);
            let problem = match tightens {
                Some(_) => {
                    format!("{path} cannot be set here: the {level} may tighten, never relax")
                }
                None => format!("{path} cannot be set by the {level}: ignored"),
            };
            let elsewhere = "set it in your config.toml, or with --set for one command";
            let hint = tightens.is_none().then(|| elsewhere.to_owned());
            self.warnings
                .push(Problem::warning(origin.to_string(), problem).hint(hint));
            return;
        }
        let value = entry.value.clone();
        self.settings
            .insert(entry.path.clone(), Setting { value, origin });
    }
}
