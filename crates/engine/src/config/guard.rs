//! Makes rules from `[guards.*]` of all layers: each key from the highest layer, over the default pack. A
//! project adds rules and tightens the user's; it relaxes none.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use memchr::memmem::Finder;
use toml::de::{DeTable, DeValue};

use super::hook::{TableKey, any_text};
use super::layer::{Level, RawKey, RawTable, Reader, Source, parse_layer};
use super::merge::{Origin, Setting};
use super::problem::{Position, Problem, most_similar};
use super::value::{Form, Value};
use crate::guard::act::{Access, Fed};
use crate::guard::check::Check;
use crate::guard::glob::{Paths, Words};
use crate::guard::rule::{Acts, Command, Flag, Rule, Say, Touches};
use crate::guard::zone::Zone;
use crate::matcher::Matcher;

/// The default pack, in the same keys.
const PACK: &str = include_str!("../guard/pack.toml");

/// The key for a condition that is code. Only the pack has it.
const CHECK: &str = "check";

const ACCESS: [(&str, Access); 4] = [
    ("read", Access::Read),
    ("write", Access::Write),
    ("delete", Access::Delete),
    ("list", Access::List),
];

const FED: [(&str, Fed); 4] = [
    ("nothing", Fed::Nothing),
    ("text", Fed::Text),
    ("network", Fed::Network),
    ("opaque", Fed::Opaque),
];

const FAIL: [(&str, bool); 2] = [("open", false), ("closed", true)];

pub(super) const fn key(name: &'static str, form: Form, about: &'static str) -> TableKey {
    TableKey { name, form, about }
}

pub const GUARD_KEYS: &[TableKey] = &[
    key(
        "enabled",
        Form::Bool,
        "`false` in your own config switches the guard off, in every session",
    ),
    key(
        "answer",
        Form::Text(|_, text| one_of(&Say::NAMES, text).map(drop)),
        "`deny`, `ask` (you are asked), `once` (a second try passes) or `warn` (the model is told); without it, `deny`",
    ),
    key(
        "reason",
        Form::Text(any_text),
        "Why, for the model and the log; `{path}` stands for the path",
    ),
    key(
        "instead",
        Form::Text(any_text),
        "A safer way, which the model is told",
    ),
    key(
        "fail",
        Form::Text(|_, text| one_of(&FAIL, text).map(drop)),
        "`closed` denies where the guard cannot be judged; without it, `open`",
    ),
    key(
        "tools",
        Form::Text(|_, text| Matcher::parse(text).map(drop)),
        "The matcher of Claude Code: names of tools, or a regular expression; `Bash` means every tool that runs shell commands; without it, every tool",
    ),
    key(
        "command",
        Form::Words(|text| Command::parse(text.trim_start_matches('!')).map(drop)),
        "The program that a command starts, with the operands it begins with: `git push`; `!` excludes",
    ),
    key(
        "args",
        Form::Words(filled),
        "Globs: one of the arguments matches; `!` excludes",
    ),
    key(
        "env",
        Form::Words(filled),
        "Globs over the variables that are set for it, `RAILS_ENV=test`: one matches; `!` excludes. `-u NAME` is one that is taken out, `-i` stands for all of them (`env -i`)",
    ),
    key(
        "flags",
        Form::Words(|text| Flag::parse(text).map(drop)),
        "Flags that are all given, each by its names with bars between them; `!` is one that is not given",
    ),
    key(
        "fed",
        Form::Words(|text| one_of(&FED, text).map(drop)),
        "What the program reads: `network`, `text`, `opaque` (cannot be known) or `nothing`",
    ),
    key(
        "elevated",
        Form::Bool,
        "Whether it runs through sudo or the like",
    ),
    key(
        "opaque",
        Form::Bool,
        "Whether a part of it cannot be known before it runs",
    ),
    key(
        "paths",
        Form::Words(|glob| Paths::parse(&[glob.to_owned()]).map(drop)),
        "Globs of what the call touches: a name at any depth, `~/…`, `/…`, else relative to the project; `!` takes away again",
    ),
    key(
        "access",
        Form::Words(|text| one_of(&ACCESS, text).map(drop)),
        "How it is touched: `read`, `write`, `delete`, `list`; without it, in any way",
    ),
    key(
        "zones",
        Form::Words(|text| one_of(&Zone::NAMES, text).map(drop)),
        "Where it lies: `vital`, `git`, `device`, `system`, `home`, `project`, `build`, `temp`, `remote`, `unknown`, `elsewhere`",
    ),
    key(
        "recursive",
        Form::Bool,
        "Whether all below it is touched too",
    ),
    key(
        "patterns",
        Form::Words(filled),
        "Texts; the guard matches if the command as written contains one of them",
    ),
    key(
        "prompt",
        Form::Words(filled),
        "Texts; the guard matches if the prompt contains one of them. Such a guard judges prompts, not calls",
    ),
    key(
        "mode",
        Form::Words(filled),
        "Permission modes in which it counts: `default`, `auto`, `bypassPermissions`, …",
    ),
    key(
        "agents",
        Form::Words(filled),
        "Types of agents for which it counts; `main` is the main agent",
    ),
];

pub(super) fn filled(text: &str) -> Result<(), String> {
    if text.trim_start_matches('!').is_empty() {
        return Err("expected a text, found nothing".to_owned());
    }
    Ok(())
}

pub(super) fn one_of<T: Copy>(names: &[(&str, T)], text: &str) -> Result<T, String> {
    let found = names.iter().find(|(name, _)| *name == text);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<String> = names.iter().map(|(name, _)| format!("{name:?}")).collect();
        format!("expected {}, found {text:?}", names.join(" or "))
    })
}

fn all_of<T: Copy>(names: &[(&str, T)], texts: &[String]) -> Result<Vec<T>, String> {
    texts.iter().map(|text| one_of(names, text)).collect()
}

/// The guards of a config, and all their keys that a file sets.
#[derive(Debug, Default)]
pub struct Guards {
    /// The rules of the user and the project, then the default pack.
    pub rules: Vec<Arc<Rule>>,
    pub settings: BTreeMap<String, Setting>,
    pub problems: Vec<Problem>,
    /// The tables of a project that would relax a guard of the user. They do not count.
    pub refused: Vec<RawTable>,
}

/// The default pack, without any config.
static RULES: LazyLock<Vec<(RawTable, Arc<Rule>)>> = LazyLock::new(|| {
    let source = Source {
        level: Level::BuiltIn,
        file: PathBuf::from("pack.toml"),
    };
    let Ok(layer) = parse_layer(&source, PACK) else {
        return Vec::new();
    };
    let tables = layer.tables.into_iter();
    tables
        .filter_map(|table| {
            let rule = rule(&table.name, &[&table]).ok()?;
            Some((table, Arc::new(rule)))
        })
        .collect()
});

/// Reads the guards of all layers in force, lowest first.
pub fn read(tables: &[RawTable]) -> Guards {
    let mut guards = Guards::default();
    let mut names: Vec<&str> = Vec::new();
    for table in tables {
        if !names.contains(&&*table.name) {
            names.push(&table.name);
        }
    }
    for name in &names {
        let same = tables.iter().filter(|table| table.name == *name);
        guards.take(name, same.collect());
    }
    let pack = RULES
        .iter()
        .filter(|(table, _)| !names.contains(&&*table.name));
    guards.rules.extend(pack.map(|(_, rule)| Arc::clone(rule)));
    guards
}

impl Guards {
    fn take(&mut self, name: &str, mut tables: Vec<&RawTable>) {
        tables.sort_by_key(|table| table.level);
        let pack = RULES
            .iter()
            .map(|(table, _)| table)
            .find(|it| it.name == name);
        let (foreign, mut own): (Vec<&RawTable>, Vec<&RawTable>) = tables
            .into_iter()
            .partition(|table| table.level.is_foreign());
        // If the managed file has the guard, no other file counts for it.
        if let Some(managed) = own.iter().position(|it| it.level == Level::Managed) {
            own = own.split_off(managed);
        }
        own.splice(0..0, pack);
        if own.is_empty() {
            if let Some(made) = self.make(name, &foreign) {
                self.warn_unknown_guard(&made, &foreign);
                self.rules.push(Arc::new(made));
            }
            return;
        }
        let Some(mut rule) = self.make(name, &own) else {
            self.refused.extend(foreign.into_iter().cloned());
            return;
        };
        if pack.is_none() && foreign.is_empty() {
            self.warn_unknown_guard(&rule, &own);
        }
        for table in foreign {
            if !self.tighten(&mut rule, table) {
                self.refused.push(table.clone());
                let level = table.level;
                let message = format!(
                    "guards.{name} is yours or becket's: the {level} may add or tighten guards, never relax them"
                );
                let problem = table.locate(Problem::warning("", message), &table.at);
                let hint = "give the guard another name".to_owned();
                self.problems.push(problem.hint(Some(hint)));
            }
        }
        self.rules.push(Arc::new(rule));
    }

    /// Warns of tables that only switch off a guard that no other table defines.
    fn warn_unknown_guard(&mut self, rule: &Rule, tables: &[&RawTable]) {
        if rule.off.is_none() || judges(rule) {
            return;
        }
        self.problems.extend(tables.last().map(|table| {
            let name = &rule.id;
            let message = format!("guards.{name} switches off a guard that does not exist");
            let known = RULES.iter().map(|(table, _)| &*table.name);
            let hint = match most_similar(name, known) {
                Some(known) => format!("did you mean {known}?"),
                None => "`becket guard list` shows the guards".to_owned(),
            };
            let problem = Problem::warning("", message).hint(Some(hint));
            table.locate(problem, &table.at)
        }));
    }

    fn make(&mut self, name: &str, tables: &[&RawTable]) -> Option<Rule> {
        for table in tables.iter().filter(|it| it.level != Level::BuiltIn) {
            self.note(table, &table.keys);
        }
        match rule(name, tables) {
            Ok(rule) => Some(rule),
            Err(why) => {
                let last = tables.last()?;
                let problem = Problem::error("", format!("guards.{name} {why}"));
                self.problems.push(last.locate(problem, &last.at));
                None
            }
        }
    }

    /// Tightens a guard by a project's table, which may only set a stricter answer and a closed failure.
    /// Returns false if the table would do more.
    fn tighten(&mut self, rule: &mut Rule, table: &RawTable) -> bool {
        let mut stricter = rule.clone();
        for key in &table.keys {
            match (&*key.name, &key.value) {
                ("answer", Value::Text(text)) => match one_of(&Say::NAMES, text) {
                    Ok(say) if say >= rule.say => stricter.say = say,
                    _ => return false,
                },
                ("fail", Value::Text(text)) if text == "closed" => stricter.closed = true,
                ("enabled", Value::Bool(true)) => {}
                _ => return false,
            }
        }
        if rule.off.is_some() {
            return false;
        }
        *rule = stricter;
        self.note(table, &table.keys);
        true
    }

    fn note(&mut self, table: &RawTable, keys: &[RawKey]) {
        for key in keys {
            let setting = Setting {
                value: key.value.clone(),
                origin: Origin::of(table, key.at.line),
            };
            let path = format!("guards.{}.{}", table.name, key.name);
            self.settings.insert(path, setting);
        }
    }
}

/// Makes one rule from all its tables.
fn rule(id: &str, tables: &[&RawTable]) -> Result<Rule, String> {
    let mut keys: BTreeMap<&str, (&RawTable, &RawKey)> = BTreeMap::new();
    for table in tables {
        keys.extend(table.keys.iter().map(|key| (&*key.name, (*table, key))));
    }
    let value = |key: &str| keys.get(key).map(|(_, key)| &key.value);
    let words = |key: &str| value(key).map(Value::words).unwrap_or_default();
    let text = |key: &str| words(key).into_iter().next();
    let flag = |key: &str| value(key).and_then(Value::as_bool);
    let commands = words("command");
    let (unwanted, wanted): (Vec<&String>, Vec<&String>) =
        commands.iter().partition(|it| it.starts_with('!'));
    let off = keys
        .get("enabled")
        .filter(|_| flag("enabled") == Some(false));
    let declared = tables
        .first()
        .map_or(Origin::BUILT_IN, |table| match table.level {
            Level::BuiltIn => Origin::BUILT_IN,
            _ => table.origin(),
        });
    let rule = Rule {
        id: id.to_owned(),
        say: text("answer").map_or(Ok(Say::Deny), |it| one_of(&Say::NAMES, &it))?,
        reason: text("reason"),
        instead: text("instead"),
        closed: text("fail").map_or(Ok(false), |it| one_of(&FAIL, &it))?,
        tools: Matcher::parse(&text("tools").unwrap_or_default())?,
        modes: words("mode"),
        agents: words("agents"),
        patterns: words("patterns")
            .iter()
            .map(|text| Finder::new(text).into_owned())
            .collect(),
        prompt: words("prompt"),
        acts: Acts {
            commands: parse_commands(&wanted)?,
            unwanted_commands: parse_commands(&unwanted)?,
            args: Words::parse(&words("args")),
            env: Words::parse(&words("env")),
            flags: words("flags")
                .iter()
                .map(|it| Flag::parse(it))
                .collect::<Result<_, _>>()?,
            fed: all_of(&FED, &words("fed"))?,
            elevated: flag("elevated"),
            opaque: flag("opaque"),
        },
        touches: Touches::new(
            Paths::parse(&words("paths"))?,
            &all_of(&ACCESS, &words("access"))?,
            &all_of(&Zone::NAMES, &words("zones"))?,
            flag("recursive"),
        ),
        check: text(CHECK).map_or(Ok(None), |it| one_of(&Check::NAMES, &it).map(Some))?,
        broken: tables.iter().find_map(|table| table.broken.clone()),
        off: off.map(|(table, key)| Origin::of(table, key.at.line)),
        declared,
    };
    if judges(&rule) || rule.off.is_some() {
        return Ok(rule);
    }
    Err("has no condition: it would answer every call".to_owned())
}

fn parse_commands(texts: &[&String]) -> Result<Vec<Command>, String> {
    let texts = texts.iter().map(|text| text.trim_start_matches('!'));
    texts.map(Command::parse).collect()
}

/// Returns true if a rule has a condition for the calls that it is about.
fn judges(rule: &Rule) -> bool {
    rule.has_condition() || !rule.tools.is_all() || rule.broken.is_some()
}

/// Finds the guards with `fail = "closed"` in a file that does not parse, by its lines.
pub(super) fn closed_in(source: &Source, text: &str) -> Vec<RawTable> {
    let mut name = "";
    let mut found = BTreeSet::new();
    for line in text.lines().map(str::trim) {
        if let Some(header) = line.strip_prefix('[') {
            let header = header.split(']').next().unwrap_or_default().trim();
            name = header
                .strip_prefix("guards.")
                .unwrap_or_default()
                .trim_matches(['"', '\'']);
        }
        let plain: String = line
            .chars()
            .filter(|c| !c.is_whitespace() && *c != '\'')
            .collect();
        if !name.is_empty() && plain.replace('"', "").starts_with("fail=closed") {
            found.insert(name);
        }
    }
    let tables = found.into_iter().map(|name| RawTable {
        section: "guards",
        name: name.to_owned(),
        table: toml::Table::new(),
        level: source.level,
        file: Some(source.file.clone()),
        line: 1,
        at: Position::default(),
        keys: Vec::new(),
        last_good: false,
        broken: Some(format!("{} does not parse", source.file.display())),
    });
    tables.collect()
}

impl Reader<'_> {
    /// Takes a guard's table. A faulty one is left out, or denies if it has `fail = "closed"`.
    pub(super) fn guard(&mut self, mut table: RawTable, keys: &DeTable<'_>) {
        let errors = self.table_errors.len();
        self.check_name(&table);
        let is_pack = table.level == Level::BuiltIn;
        for (key, given) in keys {
            let name: &str = key.get_ref();
            let known = GUARD_KEYS.iter().find(|known| known.name == name);
            let value = match (known, given.get_ref()) {
                (Some(known), value) => known.form.read(name, value),
                (None, DeValue::String(text)) if is_pack && name == CHECK => {
                    Ok(Value::Text(text.to_string()))
                }
                _ => {
                    let message =
                        format!("guards.{}.{name} is no key that becket knows", table.name);
                    let known = GUARD_KEYS.iter().map(|key| key.name);
                    self.warn_unknown(message, name, key.span(), |name| most_similar(name, known));
                    continue;
                }
            };
            self.take_key(&mut table, name, value, given.span());
        }
        self.check_tools(&table);
        if let Some(problem) = self.table_errors.get(errors) {
            let closed = table.table.get("fail").and_then(toml::Value::as_str) == Some("closed");
            if !closed {
                return;
            }
            table.broken = Some(problem.to_string());
        }
        table.keys.sort_by_key(|key| (key.at.line, key.at.column));
        self.layer.tables.push(table);
    }
}

#[cfg(test)]
mod tests;
