//! The layers that are not files: the environment and the command line.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::LazyLock;

use becket_wire::text::is_hidden;
use toml::{Table, Value};

use super::key::{KEYS, Key, nearest, parse_value};
use super::layer::{Entry, Layer, Level, RawTable, Source, parse_layer};
use super::problem::{Problem, Severity, most_similar, similar};
use crate::hooks::builtin::BuiltIn;

/// The prefix of becket's variables.
const PREFIX: &str = "BECKET_";
/// Variables of becket that set no key: those that it reads, and those that it sets for its children.
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
/// The key that switches masking.
const MASKS: &str = "mask.enabled";
/// The longest part of a variable's value that is shown: a foreign project may set it.
const MAX_SAID: usize = 200;

/// The variables that set a key.
static VARIABLES: LazyLock<BTreeMap<String, &'static Key>> = LazyLock::new(|| {
    let named = KEYS.iter().filter_map(|key| Some((key.variable()?, key)));
    named.collect()
});

/// Warns of each variable that sets nothing and is similar to one that does.
pub fn misspelt<'a>(variables: impl IntoIterator<Item = &'a str>) -> Vec<Problem> {
    let nearly = variables.into_iter().filter_map(|variable| {
        let name = variable.strip_prefix(PREFIX)?;
        let other = VARIABLES.contains_key(variable) || OTHERS.contains(&name);
        if other || name.len() > MAX_SAID {
            return None;
        }
        let name = name.to_uppercase();
        let known = VARIABLES.keys().map(|known| &known[PREFIX.len()..]);
        let known = similar(&name, known, 0.7)?;
        let problem = Problem::warning(clean(variable), "unknown variable");
        Some(problem.hint(Some(format!("did you mean {PREFIX}{known}?"))))
    });
    nearly.collect()
}

/// Reads the variables `BECKET_SECTION_KEY`. A faulty one is reported and does not count, unless it is about
/// masking: then secrets are masked.
pub fn parse_variables<'a>(
    variables: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> (Layer, Vec<Problem>) {
    let mut layer = Layer::new(Level::Environment, None);
    let mut errors = Vec::new();
    for (variable, text) in variables {
        let Some(key) = VARIABLES.get(variable) else {
            continue;
        };
        let mut value = key.value_of(text);
        if let Err(why) = key.check(&key.path, &value) {
            errors.push(Problem::error(variable, clean(&why)));
            if key.path != MASKS {
                continue;
            }
            // Masking is the safe reading of a value that cannot be read.
            value = Value::Boolean(true);
        }
        layer.entries.push(Entry {
            path: key.path.clone(),
            value,
            line: None,
            variable: Some(variable.to_owned()),
        });
    }
    (layer, errors)
}

/// Makes one short line without characters that a terminal obeys.
fn clean(text: &str) -> String {
    let cut = text.chars().count() > MAX_SAID;
    let plain = text.chars().take(MAX_SAID);
    let plain = plain.map(|c| if is_hidden(c) { ' ' } else { c });
    plain.chain(cut.then_some('…')).collect()
}

/// Reads the pairs of key and value of the command line. A hook's keys are among them, each as
/// `hooks.NAME.KEY`.
pub fn parse_pairs<'a>(
    pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> (Layer, Vec<Problem>) {
    let mut layer = Layer::new(Level::CommandLine, None);
    let mut errors = Vec::new();
    let mut hooks = Table::new();
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

/// Makes the problem of a section in place of a key.
fn section(path: &str) -> Problem {
    let hint = match path {
        "hooks" => "hooks.NAME.enabled=false".to_owned(),
        _ => "`becket config` lists the keys".to_owned(),
    };
    wrong(format!("{path} is a section: it is set key by key")).hint(Some(hint))
}

/// Reads the text of a key. An incomplete list is refused, because a shell would run it as a program called `[`.
fn value_of(key: &Key, path: &str, text: &str) -> Result<Value, Box<Problem>> {
    let value = key.value_of(text);
    let line = text.trim();
    let is_test = (line.starts_with("[ ") || line.starts_with("[[ ")) && line.contains(" ]");
    let is_half = line.starts_with('[') && !is_test && value.is_str();
    if !key.is_program() || !is_half {
        return Ok(value);
    }
    let hint = r#"["a program", "and its arguments"], quoted for your shell"#;
    let problem = wrong(format!("{path}: {line} is not a complete list"));
    Err(Box::new(problem.hint(Some(hint.to_owned()))))
}

fn take(layer: &mut Layer, path: &str, text: &str) -> Result<(), Box<Problem>> {
    let key = Key::find(path).ok_or_else(|| match nearest(path) {
        Some(near) if near == path => Box::new(section(path)),
        near => Box::new(unknown(path, near)),
    })?;
    let value = value_of(key, path, text)?;
    key.check(key.name_in(path), &value)
        .map_err(|why| Box::new(wrong(format!("{path}: {why}"))))?;
    layer.entries.push(Entry {
        path: path.to_owned(),
        value,
        line: None,
        variable: None,
    });
    Ok(())
}

/// Puts one key of a hook into its table, as in a file.
fn take_hook(hooks: &mut Table, path: &str, text: &str) -> Result<(), Box<Problem>> {
    // A hook's name may have dots in it, a key has none.
    let Some((name, key)) = path.rsplit_once('.') else {
        let hint = format!("hooks.{path}.enabled=false");
        let problem = wrong(format!("hooks.{path}: a hook is set key by key"));
        return Err(Box::new(problem.hint(Some(hint))));
    };
    let own = BuiltIn::find(name).map_or(&[][..], |hook| hook.keys);
    let value = match Key::find(&format!("hooks.*.{key}")) {
        _ if own.contains(&key) => parse_value(text).unwrap_or_else(|| text.into()),
        Some(known) => value_of(known, &format!("hooks.{path}"), text)?,
        None => {
            let known = Key::names_in("hooks.*").chain(own.iter().copied());
            let near = most_similar(key, known).map(|near| format!("hooks.{name}.{near}"));
            let problem = unknown(&format!("hooks.{path}"), near.as_deref());
            return Err(Box::new(problem));
        }
    };
    let hook = hooks.entry(name).or_insert_with(|| Table::new().into());
    if let Value::Table(hook) = hook {
        hook.insert(key.to_owned(), value);
    }
    Ok(())
}

/// Reads hooks in the same way as those of a file, but without a file.
fn read_hooks(layer: &mut Layer, hooks: Table) -> Vec<Problem> {
    let text = Table::from_iter([("hooks".to_owned(), Value::Table(hooks))]).to_string();
    let source = Source {
        level: Level::CommandLine,
        file: PathBuf::new(),
    };
    match parse_layer(&source, &text) {
        Ok(read) => {
            let warnings = read.warnings.into_iter().map(without_file);
            layer.warnings.extend(warnings);
            layer
                .tables
                .extend(read.tables.into_iter().map(|table| RawTable {
                    file: None,
                    ..table
                }));
            Vec::new()
        }
        Err(mut error) => {
            (error.problems).retain(|problem| problem.severity == Severity::Error);
            error.problems.into_iter().map(without_file).collect()
        }
    }
}

fn without_file(problem: Problem) -> Problem {
    problem.in_place(Level::CommandLine.name())
}
