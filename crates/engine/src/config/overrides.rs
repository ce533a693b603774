//! The layers that are no file: what the environment says, and what the command line says.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::LazyLock;

use becket_wire::text::is_hidden;
use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeValue, ValueDeserializer};

use super::hook::{TableKey, nearest_key};
use super::key::{KEYS, Key, nearest};
use super::layer::{Entry, Layer, Level, RawTable, Source, parse_layer};
use super::problem::{Problem, Severity};
use super::value::{Form, Value};
use crate::hooks::builtin::BuiltIn;

/// How every variable of becket's begins.
const PREFIX: &str = "BECKET_";
/// Variables of becket's that set no key: what it is told, and what it tells those that it starts.
const OTHERS: [&str; 10] = [
    "HOME",
    "NO_DAEMON",
    "BESIDE",
    "HOOK",
    "LAUNCH",
    "NOTICE_TITLE",
    "NOTICE_TEXT",
    "NOTICE_KIND",
    "NOTICE_SESSION",
    "NOTICE_PROJECT",
];
/// The key that decides whether secrets are masked.
const MASKS: &str = "mask.enabled";
/// No more of a variable's value is shown: a foreign project may set it.
const MAX_SAID: usize = 200;

/// The variables that set a key.
static VARIABLES: LazyLock<BTreeMap<String, &'static Key>> = LazyLock::new(|| {
    let named = KEYS.iter().filter_map(|key| Some((key.variable()?, key)));
    named.collect()
});

/// Of each variable that sets nothing and is nearly one that does: which one may be meant.
pub fn misspelt<'a>(variables: impl IntoIterator<Item = &'a str>) -> Vec<Problem> {
    let nearly = variables.into_iter().filter_map(|variable| {
        let name = variable.strip_prefix(PREFIX)?;
        let other = VARIABLES.contains_key(variable) || OTHERS.contains(&name);
        if other || name.len() > MAX_SAID {
            return None;
        }
        let name = name.to_uppercase();
        let likeness = |known: &str| strsim::normalized_damerau_levenshtein(&name, known);
        let known = VARIABLES.keys();
        let known = known.map(|known| (likeness(&known[PREFIX.len()..]), known));
        let alike = known.filter(|(likeness, _)| *likeness > 0.7);
        let (_, known) = alike.max_by(|one, other| one.0.total_cmp(&other.0))?;
        let problem = Problem::warning(plainly(variable), "unknown variable");
        Some(problem.hint(Some(format!("did you mean {known}?"))))
    });
    nearly.collect()
}

/// Reads what the environment says: for each key the variable `BECKET_SECTION_KEY`. One that is
/// wrong is told and does not count, unless it is about masking: then secrets are masked.
pub fn parse_variables<'a>(
    variables: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> (Layer, Vec<Problem>) {
    let mut layer = Layer::new(Level::Environment, None);
    let mut errors = Vec::new();
    for (variable, text) in variables {
        let Some(key) = VARIABLES.get(variable) else {
            continue;
        };
        let value = match key.form.read_text(key.path, text) {
            Ok(value) => Some(value),
            Err(why) => {
                errors.push(Problem::error(variable, plainly(&why)));
                // Masking is the safe reading of a value that cannot be read.
                (key.path == MASKS).then_some(Value::Bool(true))
            }
        };
        layer.entries.extend(value.map(|value| Entry {
            path: key.path.to_owned(),
            value,
            line: None,
            variable: Some(variable.to_owned()),
        }));
    }
    (layer, errors)
}

/// One short line without anything that a terminal would obey.
fn plainly(text: &str) -> String {
    let cut = text.chars().count() > MAX_SAID;
    let plain = text.chars().take(MAX_SAID);
    let plain = plain.map(|c| if is_hidden(c) { ' ' } else { c });
    plain.chain(cut.then_some('…')).collect()
}

/// Reads what the command line says: pairs of key and value. A hook's keys are among them, each as
/// `hooks.NAME.KEY`.
pub fn parse_pairs<'a>(
    pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> (Layer, Vec<Problem>) {
    let mut layer = Layer::new(Level::CommandLine, None);
    let mut errors = Vec::new();
    let mut hooks = toml::Table::new();
    for (path, text) in pairs {
        let taken = match path.split_once('.') {
            Some(("hooks", of_a_hook)) => take_hook(&mut hooks, of_a_hook, text),
            Some(("guards" | "skills", _)) => {
                let hint = "set it in a config file: `becket config path` lists them";
                let problem = wrong(format!("{path} cannot be set here"));
                Err(Box::new(problem.hint(Some(hint.to_owned()))))
            }
            _ => take(&mut layer, path, text),
        };
        errors.extend(taken.err().map(|problem| *problem));
    }
    if !hooks.is_empty() {
        errors.extend(read_hooks(&mut layer, hooks));
    }
    (layer, errors)
}

fn wrong(message: String) -> Problem {
    Problem::error(Level::CommandLine.name(), message)
}

fn unknown(path: &str, near: Option<&str>) -> Problem {
    let hint = match near {
        Some(known) => format!("did you mean {known}?"),
        None => "`becket config` lists the keys".to_owned(),
    };
    wrong(format!("unknown key {path}")).hint(Some(hint))
}

/// A section in place of a key.
fn section(path: &str) -> Problem {
    let hint = match path {
        "hooks" => "hooks.NAME.enabled=false".to_owned(),
        _ => "`becket config` lists the keys".to_owned(),
    };
    wrong(format!("{path} is a section: it is set key by key")).hint(Some(hint))
}

/// A list that was begun would be run by a shell as a program called `[`.
fn whole(path: &str, form: Form, text: &str) -> Result<(), Box<Problem>> {
    let text = text.trim();
    let is_test = (text.starts_with("[ ") || text.starts_with("[[ ")) && text.contains(" ]");
    let is_half = text.starts_with('[') && !is_test && DeValue::parse(text).is_err();
    if !matches!(form, Form::Program) || !is_half {
        return Ok(());
    }
    let hint = r#"["a program", "and its arguments"], quoted for your shell"#;
    let problem = wrong(format!("{path}: {text} is not a complete list"));
    Err(Box::new(problem.hint(Some(hint.to_owned()))))
}

fn take(layer: &mut Layer, path: &str, text: &str) -> Result<(), Box<Problem>> {
    let key = Key::find(path).ok_or_else(|| match nearest(path) {
        Some(near) if near == path => Box::new(section(path)),
        near => Box::new(unknown(path, near)),
    })?;
    whole(path, key.form, text)?;
    let name = key.name_in(path);
    let list = DeValue::parse(text).ok().map(Spanned::into_inner);
    let value = match (&key.form, list) {
        (Form::Program, Some(list @ DeValue::Array(_))) => key.form.read(name, &list),
        _ => key.form.read_text(name, text),
    };
    layer.entries.push(Entry {
        path: path.to_owned(),
        value: value.map_err(|why| Box::new(wrong(format!("{path}: {why}"))))?,
        line: None,
        variable: None,
    });
    Ok(())
}

/// Puts one key of a hook where a file would have it.
fn take_hook(hooks: &mut toml::Table, path: &str, text: &str) -> Result<(), Box<Problem>> {
    // A hook's name may have dots in it, a key has none.
    let Some((name, key)) = path.rsplit_once('.') else {
        let hint = format!("hooks.{path}.enabled=false");
        let problem = wrong(format!("hooks.{path}: a hook is set key by key"));
        return Err(Box::new(problem.hint(Some(hint))));
    };
    let built_in = BuiltIn::find(name);
    let own = built_in.is_some_and(|hook| hook.keys.contains(&key));
    let known = TableKey::find(key).filter(|_| !own);
    if known.is_none() && !own {
        let near = nearest_key(key, built_in).map(|near| format!("hooks.{name}.{near}"));
        let problem = unknown(&format!("hooks.{path}"), near.as_deref());
        return Err(Box::new(problem));
    }
    if let Some(known) = known {
        whole(&format!("hooks.{path}"), known.form, text)?;
    }
    let hook = hooks
        .entry(name)
        .or_insert_with(|| toml::Value::Table(toml::Table::new()));
    if let Some(hook) = hook.as_table_mut() {
        hook.insert(key.to_owned(), as_written(known.map(|key| key.form), text));
    }
    Ok(())
}

/// As a file would have it: a text, unless the key takes something else and this is it. The own keys
/// of a built-in have no form, and take anything.
fn as_written(form: Option<Form>, text: &str) -> toml::Value {
    let value = ValueDeserializer::parse(text).ok();
    let value = value.and_then(|value| toml::Value::deserialize(value).ok());
    let fits = |value: &toml::Value| match form {
        Some(Form::Bool) => value.is_bool(),
        Some(Form::Words(_) | Form::Program) => value.is_array(),
        Some(_) => false,
        None => true,
    };
    let text = || toml::Value::String(text.to_owned());
    value.filter(fits).unwrap_or_else(text)
}

/// Reads hooks as a file's are read, so that the same holds for them; only that there is no file.
fn read_hooks(layer: &mut Layer, hooks: toml::Table) -> Vec<Problem> {
    let hooks = toml::Value::Table(hooks);
    let text = toml::Table::from_iter([("hooks".to_owned(), hooks)]).to_string();
    let source = Source {
        level: Level::CommandLine,
        file: PathBuf::new(),
    };
    let here = |problem: Problem| problem.in_place(Level::CommandLine.name());
    match parse_layer(&source, &text) {
        Ok(read) => {
            layer.warnings.extend(read.warnings.into_iter().map(here));
            layer
                .tables
                .extend(read.tables.into_iter().map(|table| RawTable {
                    file: None,
                    ..table
                }));
            Vec::new()
        }
        Err(error) => {
            let is_error = |problem: &Problem| problem.severity == Severity::Error;
            let errors = error.problems.into_iter().filter(is_error);
            errors.map(here).collect()
        }
    }
}
