//! One `[hooks.NAME]` of one file: its name and its keys, each checked where it stands.

use std::ops::Range;

use becket_wire::event::EventName;
use toml::de::{DeTable, DeValue};

use super::key::{HookKey, likest, nearest};
use crate::config::layer::{RawKey, RawTable, Reader};
use crate::config::value::Value;
use crate::hooks::builtin::BuiltIn;
use crate::run::Program;

/// No name is longer.
const LONGEST_NAME: usize = 64;

/// Where a `~` counts.
const EXPANDED: &str =
    "`~` is your home only in a text, which sh reads: write the whole path, or a text";

/// Whether a hook may be called so: it becomes a part of paths, of commands and of lists.
pub fn is_name(name: &str) -> bool {
    let plain = |c: char| matches!(c, 'a'..='z' | '0'..='9' | '-' | '_' | '.');
    let starts = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    starts && name.len() <= LONGEST_NAME && name.chars().all(plain)
}

impl Reader<'_> {
    /// Takes a hook's table; one with something wrong in it is left out.
    pub(in crate::config) fn hook(&mut self, mut table: RawTable, keys: &DeTable<'_>) {
        let errors = self.hook_errors.len();
        if !is_name(&table.name) {
            let message = format!("{:?} cannot be the name of a hook", table.name);
            let hint = format!("a-z, 0-9, - _ and . only, at most {LONGEST_NAME} of them");
            let problem = self.problem(message, 0..0).at_position(table.at.clone());
            self.hook_errors.push(problem.hint(Some(hint)));
        }
        let built_in = BuiltIn::find(&table.name);
        for (key, given) in keys {
            let name: &str = key.get_ref();
            let path = format!("hooks.{}.{name}", table.name);
            let own = built_in.is_some_and(|hook| hook.keys.contains(&name));
            let value = match HookKey::find(name) {
                _ if own => Ok(as_written(given.get_ref())),
                Some(HookKey { name: "run", .. }) if built_in.is_some() => {
                    Err("this hook is a built-in; use `command`".to_owned())
                }
                Some(known) => known.form.read(&path, given.get_ref()),
                None => {
                    let message = format!("{path} is no key that becket knows");
                    self.warn_unknown(message, name, key.span(), |name| nearest(name, built_in));
                    continue;
                }
            };
            match value {
                Err(why) => {
                    let problem = self.problem(format!("{path}: {why}"), given.span());
                    self.hook_errors.push(problem);
                }
                Ok(value) => {
                    if let Some(word) = unexpanded(name, &value) {
                        let message = format!("{path}: nothing expands {word:?} in a list");
                        let problem = self.problem(message, given.span());
                        self.hook_errors
                            .push(problem.hint(Some(EXPANDED.to_owned())));
                        continue;
                    }
                    if name == "on" {
                        self.events(&path, &value, given.span());
                    }
                    table.keys.push(RawKey {
                        name: name.to_owned(),
                        value,
                        at: self.position(given.span()),
                    });
                }
            }
        }
        if self.hook_errors.len() == errors {
            table.keys.sort_by_key(|key| (key.at.line, key.at.column));
            self.layer.tables.push(table);
        }
    }

    /// Claude Code adds events every few weeks: one that is not known is no error.
    fn events(&mut self, path: &str, value: &Value, at: Range<usize>) {
        for name in value.words() {
            let event = EventName::from(&*name);
            if matches!(event, EventName::Other(_)) {
                let known = EventName::ALL.iter().map(EventName::as_str);
                let message = format!("{path}: {name} is no event that becket knows");
                self.warn_unknown(message, &name, at.clone(), |name| likest(name, known));
            } else if !event.is_registered() {
                let message =
                    format!("{path}: becket is not registered for {name}, so nothing runs on it");
                self.warn(message, None, at.clone());
            }
        }
    }
}

/// The word of a program that nobody would take for what it says.
fn unexpanded(key: &str, value: &Value) -> Option<String> {
    match (key, value) {
        ("run" | "command", Value::List(words)) => {
            let program = Program::List(words.clone());
            program.unexpanded().map(str::to_owned)
        }
        _ => None,
    }
}

/// A value of a built-in's own key, as far as it can be shown in a line.
fn as_written(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::Boolean(value) => Value::Bool(*value),
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Integer(number) => match number.as_str().parse() {
            Ok(number) => Value::Number(number),
            Err(_) => Value::Text(number.as_str().to_owned()),
        },
        DeValue::Array(words) => {
            let text = |word: &toml::Spanned<DeValue<'_>>| match word.get_ref() {
                DeValue::String(text) => Some(text.to_string()),
                _ => None,
            };
            let texts: Option<Vec<String>> = words.iter().map(text).collect();
            texts.map_or(Value::Text("[…]".to_owned()), Value::List)
        }
        DeValue::Float(number) => Value::Text(number.as_str().to_owned()),
        DeValue::Datetime(moment) => Value::Text(moment.to_string()),
        DeValue::Table(_) => Value::Text("{…}".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use crate::config::{Level, Source, parse_layer};

    /// What is wrong with a file of the user's, and the hooks that it has all the same.
    fn read(text: &str) -> (Vec<String>, Vec<String>) {
        let source = Source {
            level: Level::User,
            file: PathBuf::from("/user.toml"),
        };
        let (layer, problems) = match parse_layer(&source, text) {
            Ok(layer) => (layer, Vec::new()),
            Err(error) => (*error.rest.unwrap(), error.problems),
        };
        let names = layer.tables.into_iter().map(|table| table.name);
        let told = problems.iter().map(ToString::to_string);
        (told.collect(), names.collect())
    }

    #[test]
    fn a_home_that_nobody_expands_is_told_and_the_hook_left_out() {
        let other = "[hooks.y]\non = \"Stop\"\nrun = \"y\"\n";
        let run = |run: &str| read(&format!("{other}[hooks.x]\non = \"Stop\"\nrun = {run}\n"));
        let (told, names) = run(r#"["~/hooks/x"]"#);
        insta::assert_snapshot!(told.join("\n"), @r#"/user.toml:6:7: hooks.x.run: nothing expands "~/hooks/x" in a list (`~` is your home only in a text, which sh reads: write the whole path, or a text)"#);
        assert_eq!(names, ["y"]);
        for odd in [r#"["sh", "~/x"]"#, r#"["ls", "~"]"#] {
            assert_eq!(run(odd).0.len(), 1, "{odd}");
        }
        for fine in [
            r#""~/hooks/x""#,
            r#"["sh", "-c", "~/hooks/x"]"#,
            r#"["bash", "-ec", "-u", "~/hooks/x"]"#,
            r#"["grep", "~x", "a~/b"]"#,
        ] {
            let (told, names) = run(fine);
            assert_eq!((told.len(), names.len()), (0, 2), "{fine}: {told:?}");
        }
        let own = read("[hooks.lint-changed]\ncommand = [\"~/lint\"]\n");
        assert_eq!((own.0.len(), own.1.len()), (1, 0), "{own:?}");
    }
}
