//! Makes rules from `[guards.*]` of all layers: each key from the highest layer, over the default pack. A
//! project adds rules and tightens the user's; it relaxes none.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use memchr::memmem::Finder;
use schemars::JsonSchema;
use serde::Deserialize;
use toml::{Table, Value};

use super::key::read_table;
use super::layer::{Level, RawKey, RawTable, Source, parse_layer};
use super::merge::{Origin, Setting, by_name};
use super::problem::{Position, Problem, most_similar};
use super::value::Words;
use crate::guard::act::{Access, Fed};
use crate::guard::check::Check;
use crate::guard::glob::{self, Paths};
use crate::guard::rule::{Acts, Command, Flag, Rule, Say, Touches};
use crate::guard::zone::Zone;
use crate::matcher::Matcher;

/// The default pack, in the same keys.
const PACK: &str = include_str!("../guard/pack.toml");

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

pub(super) const FAIL: [(&str, bool); 2] = [("open", false), ("closed", true)];

// The keys of `[guards.NAME]`, as they are written.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(deny_unknown_fields)]
pub(super) struct GuardTable {
    /// `false` in your own config switches the guard off, in every session
    enabled: Option<bool>,
    /// `deny`, `ask` (you are asked), `once` (a second try passes) or `warn` (the model is told); without it, `deny`
    answer: Option<String>,
    /// Why, for the model and the log; `{path}` stands for the path
    reason: Option<String>,
    /// A safer way, which the model is told
    instead: Option<String>,
    /// `closed` denies where the guard cannot be judged; without it, `open`
    fail: Option<String>,
    /// The matcher of Claude Code: names of tools, or a regular expression; `Bash` means every tool that runs shell commands; without it, every tool
    tools: Option<String>,
    /// The program that a command starts, with the operands it begins with: `git push`; `!` excludes
    command: Words,
    /// Globs: one of the arguments matches; `!` excludes
    args: Words,
    /// Globs over the variables that are set for it, `RAILS_ENV=test`: one matches; `!` excludes. `-u NAME` is one that is taken out, `-i` stands for all of them (`env -i`)
    env: Words,
    /// Flags that are all given, each by its names with bars between them; `!` is one that is not given
    flags: Words,
    /// The input of the program: `network`, `text`, `opaque` (cannot be known) or `nothing`
    fed: Words,
    /// `true` if it runs through sudo or the like
    elevated: Option<bool>,
    /// `true` if a part of it cannot be known before it runs
    opaque: Option<bool>,
    /// Globs of what the call touches: a name at any depth, `~/…`, `/…`, else relative to the project; `!` takes away again
    paths: Words,
    /// The access to it: `read`, `write`, `delete`, `list`; without it, any
    access: Words,
    /// Where it lies: `vital`, `git`, `device`, `system`, `home`, `project`, `build`, `temp`, `remote`, `unknown`, `elsewhere`
    zones: Words,
    /// `true` if all below it is touched too
    recursive: Option<bool>,
    /// Texts; the guard matches if the command as written contains one of them
    patterns: Words,
    /// Texts; the guard matches if the prompt contains one of them. Such a guard judges prompts, not calls
    prompt: Words,
    /// Permission modes in which it counts: `default`, `auto`, `bypassPermissions`, …
    mode: Words,
    /// Types of agents for which it counts; `main` is the main agent
    agents: Words,
    /// A condition that is code. Only the pack has it.
    #[schemars(skip)]
    check: Option<String>,
}

/// Checks keys of a guard.
pub(super) fn check(table: Table) -> Result<(), String> {
    let table: GuardTable = read_table(table)?;
    for words in [
        &table.args,
        &table.env,
        &table.patterns,
        &table.prompt,
        &table.mode,
        &table.agents,
    ] {
        words.0.iter().try_for_each(|word| filled(word))?;
    }
    table.rule("").map(drop)
}

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

fn all_of<T: Copy>(names: &[(&str, T)], texts: &Words) -> Result<Vec<T>, String> {
    texts.0.iter().map(|text| one_of(names, text)).collect()
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
    for (name, same) in by_name(tables) {
        guards.take(name, same);
    }
    let pack = RULES
        .iter()
        .filter(|(pack, _)| tables.iter().all(|table| table.name != pack.name));
    guards.rules.extend(pack.map(|(_, rule)| Arc::clone(rule)));
    guards
}

impl Guards {
    fn take(&mut self, name: &str, tables: Vec<&RawTable>) {
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
            self.settings.extend(table.settings());
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
                ("answer", Value::String(text)) => match one_of(&Say::NAMES, text) {
                    Ok(say) if say >= rule.say => stricter.say = say,
                    _ => return false,
                },
                ("fail", Value::String(text)) if text == "closed" => stricter.closed = true,
                ("enabled", Value::Boolean(true)) => {}
                _ => return false,
            }
        }
        if rule.off.is_some() {
            return false;
        }
        *rule = stricter;
        self.settings.extend(table.settings());
        true
    }
}

/// Makes one rule from all its tables.
fn rule(id: &str, tables: &[&RawTable]) -> Result<Rule, String> {
    let mut keys: BTreeMap<&str, (&RawTable, &RawKey)> = BTreeMap::new();
    for table in tables {
        keys.extend(table.keys.iter().map(|key| (&*key.name, (*table, key))));
    }
    let values = keys.iter();
    let values = values.map(|(name, (_, key))| ((*name).to_owned(), key.value.clone()));
    let merged: GuardTable = read_table(values.collect())?;
    let off = keys.get("enabled");
    let off = off.filter(|_| merged.enabled == Some(false));
    let first = tables.first().map(|table| table.origin());
    let declared = first.filter(|origin| origin.level != Level::BuiltIn);
    let rule = Rule {
        broken: tables.iter().find_map(|table| table.broken.clone()),
        off: off.map(|(table, key)| Origin::of(table, key.at.line)),
        declared: declared.unwrap_or(Origin::BUILT_IN),
        ..merged.rule(id)?
    };
    if judges(&rule) || rule.off.is_some() {
        return Ok(rule);
    }
    Err("has no condition: it would answer every call".to_owned())
}

impl GuardTable {
    fn rule(self, id: &str) -> Result<Rule, String> {
        let commands = self.command.0.iter();
        let (unwanted, wanted): (Vec<&String>, Vec<&String>) =
            commands.partition(|it| it.starts_with('!'));
        let patterns = self.patterns.0.iter();
        let flags = self.flags.0.iter().map(|flag| Flag::parse(flag));
        Ok(Rule {
            id: id.to_owned(),
            say: one_of(&Say::NAMES, self.answer.as_deref().unwrap_or("deny"))?,
            reason: self.reason,
            instead: self.instead,
            closed: one_of(&FAIL, self.fail.as_deref().unwrap_or("open"))?,
            tools: Matcher::parse(&self.tools.unwrap_or_default())?,
            modes: self.mode.0,
            agents: self.agents.0,
            patterns: patterns
                .map(|text| Finder::new(text).into_owned())
                .collect(),
            prompt: self.prompt.0,
            acts: Acts {
                commands: parse_commands(&wanted)?,
                unwanted_commands: parse_commands(&unwanted)?,
                args: glob::Words::parse(&self.args.0),
                env: glob::Words::parse(&self.env.0),
                flags: flags.collect::<Result<_, _>>()?,
                fed: all_of(&FED, &self.fed)?,
                elevated: self.elevated,
                opaque: self.opaque,
            },
            touches: Touches::new(
                Paths::parse(&self.paths.0)?,
                &all_of(&ACCESS, &self.access)?,
                &all_of(&Zone::NAMES, &self.zones)?,
                self.recursive,
            ),
            check: match self.check {
                Some(name) => Some(one_of(&Check::NAMES, &name)?),
                None => None,
            },
            broken: None,
            off: None,
            declared: Origin::BUILT_IN,
        })
    }
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
        table: Table::new(),
        level: source.level,
        file: Some(source.file.clone()),
        at: Position {
            line: 1,
            ..Position::default()
        },
        keys: Vec::new(),
        last_good: false,
        broken: Some(format!("{} does not parse", source.file.display())),
    });
    tables.collect()
}

#[cfg(test)]
mod tests;
