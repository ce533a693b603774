//! The keys that becket knows, from the schema of the config's structs. The reader, the environment, the
//! command line and the docs all use this list.

use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::Value as Json;
use toml::de::ValueDeserializer;
use toml::{Table, Value};

use super::schema::base_schema;
use super::value::{MOST_WORDS, PROGRAM, unexpected};
use super::{Config, Level, guard, hook, skill};
use crate::notice::NoticeFilter;

/// One key.
#[derive(Debug)]
pub struct Key {
    /// The full name. A part `*` stands for any name.
    pub path: String,
    /// The default, as it would be written; a key with `*` has none.
    pub default: Option<Value>,
    schema: Json,
}

/// Sections whose tables are kept as written. The modules `hook`, `guard` and `skill` read their keys.
pub const TABLE_SECTIONS: [&str; 3] = ["hooks", "guards", "skills"];

pub static KEYS: LazyLock<Vec<Key>> = LazyLock::new(|| {
    let mut keys = Vec::new();
    collect(&base_schema(), "", &mut keys);
    keys
});

/// Collects every key below a part of the schema.
fn collect(schema: &Json, path: &str, keys: &mut Vec<Key>) {
    let named = schema["properties"].as_object().into_iter().flatten();
    let named = named.map(|(name, part)| (&**name, part));
    let others = schema.get("additionalProperties");
    let others = others.filter(|part| part.is_object());
    for (name, part) in named.chain(others.map(|part| ("*", part))) {
        let path = join(path, name);
        if part["type"] == "object" {
            collect(part, &path, keys);
        } else {
            let default = part.get("default");
            keys.push(Key {
                path,
                default: default.and_then(|value| Value::deserialize(value).ok()),
                schema: part.clone(),
            });
        }
    }
}

/// Puts a name behind the name of its section; the file itself has none.
pub(super) fn join(section: &str, name: &str) -> String {
    if section.is_empty() {
        name.to_owned()
    } else {
        format!("{section}.{name}")
    }
}

impl Key {
    /// Returns the description of the key, a sentence.
    pub fn about(&self) -> &str {
        self.schema["description"].as_str().unwrap_or_default()
    }

    /// Finds the key with this name.
    pub fn find(path: &str) -> Option<&'static Self> {
        let exact = KEYS.iter().find(|key| key.path == path);
        exact.or_else(|| {
            KEYS.iter().find(|key| {
                let parent = key.path.strip_suffix('*');
                let name = parent.and_then(|parent| path.strip_prefix(parent));
                name.is_some_and(|name| !name.is_empty())
            })
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

    /// Returns the names that a table can have, without those that stand for any name.
    pub(super) fn names_in(section: &str) -> impl Iterator<Item = &'static str> {
        let keys = KEYS
            .iter()
            .filter_map(move |key| key.path.strip_prefix(section)?.strip_prefix('.'));
        keys.filter(|name| !name.contains('.'))
    }

    /// Returns the variable that sets the key: `BECKET_MASK_ENABLED`. A key with `*` has none.
    pub fn variable(&self) -> Option<String> {
        let named = !self.path.contains('*');
        named.then(|| format!("BECKET_{}", self.path.replace('.', "_").to_uppercase()))
    }

    /// Returns true if a file of that level may set the key.
    pub fn is_open_to(&self, level: Level) -> bool {
        self.path == "notice.on" || !matches!(level, Level::Project | Level::Local)
    }

    /// Returns true if a new value is stricter than the one in force; none if no value is. A value from a
    /// project or from the environment counts only then, because it may be a stranger's.
    pub(super) fn tightens(&self, in_force: Option<&Value>, new: &Value) -> Option<bool> {
        let in_force = in_force?;
        match &*self.path {
            "mask.enabled" => {
                Some(in_force.as_bool() == Some(false) && new.as_bool() == Some(true))
            }
            "notice.on" => {
                let filter = |value: &Value| value.as_str()?.parse::<NoticeFilter>().ok();
                let filters = filter(new).zip(filter(in_force));
                Some(filters.is_some_and(|(new, in_force)| new.is_less_than(in_force)))
            }
            _ => None,
        }
    }

    /// Returns the last part of a key's name. The part that stands for `*` may contain dots.
    pub(super) fn name_in<'a>(&self, path: &'a str) -> &'a str {
        let parent = self.path.rfind('.').map_or(0, |dot| dot + 1);
        path.get(parent..).unwrap_or(path)
    }

    /// Checks a value of this key. `name` is the last part of the key.
    pub(super) fn check(&self, name: &str, value: &Value) -> Result<(), String> {
        if !self.takes(value) {
            return Err(unexpected(&self.expected(), value));
        }
        let mut parts: Vec<&str> = self.path.split('.').collect();
        let section = parts[0];
        if TABLE_SECTIONS.contains(&section) {
            parts.drain(..2);
        }
        let mut table = Table::new();
        put(&mut table, &parts, name, value.clone());
        match section {
            "hooks" => hook::check(table),
            "guards" => guard::check(table),
            "skills" => skill::check(table),
            _ => read_table::<Config>(table).map(drop),
        }
    }

    /// Puts a value into the table of a whole config.
    pub(super) fn put(&self, config: &mut Table, path: &str, value: Value) {
        let parts: Vec<&str> = self.path.split('.').collect();
        put(config, &parts, self.name_in(path), value);
    }

    /// Returns true if a value has the form of the key.
    fn takes(&self, value: &Value) -> bool {
        match value {
            Value::Boolean(_) => self.has_type("boolean"),
            Value::Integer(number) => {
                self.has_type("integer")
                    && self.limit("minimum").is_none_or(|min| *number >= min)
                    && self.limit("maximum").is_none_or(|max| *number <= max)
            }
            Value::String(_) => self.has_type("string"),
            Value::Array(values) => {
                self.has_type("array")
                    && (self.is_program() || values.len() <= MOST_WORDS)
                    && values.iter().all(Value::is_str)
            }
            _ => false,
        }
    }

    pub(super) fn has_type(&self, name: &str) -> bool {
        match &self.schema["type"] {
            Json::Array(names) => names.iter().any(|it| it == name),
            only => only == name,
        }
    }

    fn limit(&self, name: &str) -> Option<i64> {
        self.schema[name].as_i64()
    }

    /// Returns the form of the key's values, for an error.
    fn expected(&self) -> String {
        match (self.schema["title"].as_str(), self.limit("maximum")) {
            (Some(title), _) => title.to_owned(),
            (None, Some(max)) => {
                let min = self.limit("minimum").unwrap_or(0);
                format!("a number from {min} to {max}")
            }
            _ if self.has_type("boolean") => "true or false".to_owned(),
            _ => "a text".to_owned(),
        }
    }

    /// Returns true if the value is a program of the user.
    pub(super) fn is_program(&self) -> bool {
        self.schema["title"] == PROGRAM
    }

    /// Returns a value of the environment or the command line: a text, unless the key takes another form and the
    /// text has it.
    pub(super) fn value_of(&self, text: &str) -> Value {
        let bit = ["0", "1"].iter().position(|bit| *bit == text);
        match bit.filter(|_| self.has_type("boolean")) {
            Some(bit) => Value::Boolean(bit == 1),
            None => parse_value(text)
                .filter(|value| !value.is_str() && self.takes(value))
                .unwrap_or_else(|| text.into()),
        }
    }
}

/// Reads a value of TOML.
pub(super) fn parse_value(text: &str) -> Option<Value> {
    Value::deserialize(ValueDeserializer::parse(text).ok()?).ok()
}

/// Puts a value into nested tables. `name` stands for the parts `*`.
fn put(table: &mut Table, parts: &[&str], name: &str, value: Value) {
    let part = |part: &&str| if *part == "*" { name } else { part }.to_owned();
    match parts {
        [] => {}
        [last] => drop(table.insert(part(last), value)),
        [first, rest @ ..] => {
            let inner = table
                .entry(part(first))
                .or_insert_with(|| Table::new().into());
            if let Value::Table(inner) = inner {
                put(inner, rest, name, value);
            }
        }
    }
}

/// Reads a struct from a table.
pub(super) fn read_table<'de, T: Deserialize<'de>>(table: Table) -> Result<T, String> {
    T::deserialize(Value::Table(table)).map_err(|error| error.message().to_owned())
}

/// Returns the known name that is most similar to an unknown one.
pub fn nearest(path: &str) -> Option<&'static str> {
    let keys = KEYS.iter().map(|key| &*key.path);
    let sections = KEYS
        .iter()
        .filter_map(|key| key.path.rsplit_once('.').map(|(section, _)| section))
        .chain(TABLE_SECTIONS)
        .filter(|_| !path.contains('.'));
    keys.chain(sections)
        .filter(|known| !known.contains('*'))
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

    #[test]
    fn every_default_is_sound() {
        let mut defaults = 0;
        for key in KEYS.iter() {
            if let Some(default) = &key.default {
                assert_eq!(key.check("", default), Ok(()), "{}", key.path);
                let text = default.to_string();
                let text = default.as_str().unwrap_or(&text);
                assert_eq!(key.value_of(text), *default, "{}", key.path);
                defaults += 1;
            }
            assert!(Key::find(&key.path).is_some_and(|found| found.path == key.path));
        }
        assert_eq!(defaults, 18);
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
