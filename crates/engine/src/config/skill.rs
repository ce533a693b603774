//! Makes skills from `[skills.*]` of all layers: each key from the highest layer, over becket's own skill of
//! that name.

use std::collections::BTreeMap;
use std::sync::Arc;

use toml::de::{DeTable, DeValue};

use super::guard::{filled, key, one_of};
use super::hook::{TableKey, any_text, is_name};
use super::layer::{RawTable, Reader};
use super::merge::{Origin, Setting};
use super::problem::{Problem, most_similar};
use super::value::{Form, Value};
use crate::effort::skill::{RuleAnswer, Skill, SkillRule, Skills, built_in};
use crate::matcher::Matcher;

/// The table of a skill's rules.
const RULES: &str = "rules";
const EXPECTED_RULES: &str = "expected tables [skills.NAME.rules.RULE]";

const ANSWERS: [(&str, RuleAnswer); 4] = [
    ("deny", RuleAnswer::Deny),
    ("ask", RuleAnswer::Ask),
    ("warn", RuleAnswer::Warn),
    ("once", RuleAnswer::Once),
];

const CALLS: Form = Form::Number {
    min: 0,
    max: 10_000,
};

pub const SKILL_KEYS: &[TableKey] = &[
    key(
        "description",
        Form::Text(any_text),
        "What an effort of this skill is for",
    ),
    key(
        "phases",
        Form::Words(phase),
        "The phases in order; an effort begins in the first one",
    ),
    key(
        "preload",
        Form::Words(filled),
        "Files of the project that the model is given when a context window opens",
    ),
    key(
        "directives",
        Form::Words(filled),
        "Names of files that the model is given when it first touches a folder below them, besides `.directives/*.md`",
    ),
    key(
        "remind",
        CALLS,
        "Calls without a log entry until a reminder; 0 is never; without it, `effort.remind`",
    ),
    key(
        "deny",
        CALLS,
        "Calls without a log entry from which on calls are denied; 0 is never; without it, `effort.deny`",
    ),
    key("log", Form::Text(any_text), "What a log entry should say"),
    key(
        "instructions",
        Form::Text(any_text),
        "What the model is told when a context window opens",
    ),
];

/// The keys of `[skills.NAME.rules.RULE]`.
pub const SKILL_RULE_KEYS: &[TableKey] = &[
    key(
        "tool",
        Form::Text(|_, text| Matcher::parse(text).map(drop)),
        "The matcher of Claude Code: names of tools, or a regular expression; without it, every tool",
    ),
    key("phase", Form::Words(phase), "Phases in which it holds"),
    key(
        "heartbeat",
        CALLS,
        "It holds from so many calls without a log entry on",
    ),
    key(
        "context",
        Form::Number { min: 0, max: 100 },
        "It holds from this percentage of the context on; never for a subagent",
    ),
    key(
        "calls",
        CALLS,
        "It holds from so many calls since the phase began on",
    ),
    key(
        "answer",
        Form::Text(|_, text| one_of(&ANSWERS, text).map(drop)),
        "`deny`, `ask` (you are asked), `once` (a second try passes) or `warn` (the model is told); without it, `warn`",
    ),
    key("say", Form::Text(any_text), "What the model is told"),
];

fn phase(text: &str) -> Result<(), String> {
    if is_name(text) {
        Ok(())
    } else {
        Err(format!("expected a phase like \"build\", found {text:?}"))
    }
}

/// The skills of a config, and all their keys that a file sets.
#[derive(Debug, Default)]
pub struct ReadSkills {
    pub skills: Skills,
    pub settings: BTreeMap<String, Setting>,
    pub problems: Vec<Problem>,
}

/// Reads the skills of all layers in force.
pub fn read(tables: &[RawTable]) -> ReadSkills {
    let mut read = ReadSkills {
        skills: built_in().clone(),
        ..ReadSkills::default()
    };
    let mut tables: Vec<&RawTable> = tables.iter().collect();
    tables.sort_by_key(|table| table.level);
    for table in &tables {
        let skill = read.skills.entry(table.name.clone()).or_default();
        let skill = Arc::make_mut(skill);
        for key in &table.keys {
            put(skill, &key.name, &key.value);
            let setting = Setting {
                value: key.value.clone(),
                origin: Origin::of(table, key.at.line),
            };
            let path = format!("skills.{}.{}", table.name, key.name);
            read.settings.insert(path, setting);
        }
    }
    for table in tables {
        let skill = read.skills.get(&table.name);
        let rules = skill.into_iter().flat_map(|skill| &skill.rules);
        for (name, _) in rules.filter(|(_, rule)| rule.say.is_empty()) {
            let path = format!("{RULES}.{name}.");
            if let Some(key) = table.keys.iter().find(|key| key.name.starts_with(&path)) {
                let message = format!("skills.{}.{RULES}.{name} has no `say`", table.name);
                let problem = table.locate(Problem::warning("", message), &key.at);
                let hint = "the model is told nothing by it".to_owned();
                read.problems.push(problem.hint(Some(hint)));
            }
        }
    }
    read
}

fn put(skill: &mut Skill, key: &str, value: &Value) {
    let text = || value.words().join("\n");
    if let Some((name, key)) = key
        .strip_prefix("rules.")
        .and_then(|rule| rule.rsplit_once('.'))
    {
        let rule = skill.rules.entry(name.to_owned()).or_default();
        return put_rule(rule, key, value);
    }
    match key {
        "description" => skill.description = text(),
        "phases" => skill.phases = value.words(),
        "preload" => skill.preload = value.words(),
        "directives" => skill.directives = value.words(),
        "remind" => skill.remind = number(value),
        "deny" => skill.deny = number(value),
        "log" => skill.log = text(),
        "instructions" => skill.instructions = text(),
        _ => {}
    }
}

fn put_rule(rule: &mut SkillRule, key: &str, value: &Value) {
    let text = || value.words().join("\n");
    match key {
        "tool" => rule.tool = text(),
        "phase" => rule.phase = value.words(),
        "heartbeat" => rule.heartbeat = number(value),
        "context" => rule.context = number(value).map(f64::from),
        "calls" => rule.calls = number(value),
        "answer" => rule.answer = one_of(&ANSWERS, &text()).unwrap_or_default(),
        "say" => rule.say = text(),
        _ => {}
    }
}

fn number(value: &Value) -> Option<u32> {
    match value {
        Value::Number(number) => u32::try_from(*number).ok(),
        _ => None,
    }
}

impl Reader<'_> {
    /// Takes a skill's table. A faulty one is left out.
    pub(super) fn skill(&mut self, mut table: RawTable, keys: &DeTable<'_>) {
        let errors = self.table_errors.len();
        self.check_name(&table);
        self.skill_keys(&mut table, "", SKILL_KEYS, keys);
        if self.table_errors.len() == errors {
            table.keys.sort_by_key(|key| (key.at.line, key.at.column));
            self.layer.tables.push(table);
        }
    }

    fn skill_keys(
        &mut self,
        table: &mut RawTable,
        prefix: &str,
        known: &'static [TableKey],
        keys: &DeTable<'_>,
    ) {
        for (key, given) in keys {
            let name = format!("{prefix}{}", key.get_ref());
            if name == RULES {
                self.skill_rules(table, given);
                continue;
            }
            match known.iter().find(|known| known.name == key.get_ref()) {
                Some(known) => {
                    let value = known.form.read(known.name, given.get_ref());
                    self.take_key(table, &name, value, given.span());
                }
                None => {
                    let path = format!("skills.{}.{name}", table.name);
                    let message = format!("{path} is no key that becket knows");
                    let names = known.iter().map(|key| key.name);
                    self.warn_unknown(message, key.get_ref(), key.span(), |name| {
                        most_similar(name, names)
                    });
                }
            }
        }
    }

    fn skill_rules(&mut self, table: &mut RawTable, given: &toml::Spanned<DeValue<'_>>) {
        let DeValue::Table(rules) = given.get_ref() else {
            let why = Err(EXPECTED_RULES.to_owned());
            return self.take_key(table, RULES, why, given.span());
        };
        for (rule, keys) in rules {
            let path = format!("{RULES}.{}", rule.get_ref());
            match keys.get_ref() {
                DeValue::Table(keys) if is_name(rule.get_ref()) => {
                    self.skill_keys(table, &format!("{path}."), SKILL_RULE_KEYS, keys);
                }
                DeValue::Table(_) => {
                    let why = Err("this is not a valid name for a rule".to_owned());
                    self.take_key(table, &path, why, rule.span());
                }
                _ => self.take_key(table, &path, Err(EXPECTED_RULES.to_owned()), keys.span()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::super::layer::{Level, Source, parse_layer};
    use super::*;

    fn tables(level: Level, text: &str) -> Vec<RawTable> {
        let file = PathBuf::from(format!("/{level}.toml"));
        parse_layer(&Source { level, file }, text).unwrap().tables
    }

    #[test]
    fn layers_change_a_skill_of_becket_key_by_key_and_add_others() {
        let mut all = tables(
            Level::Project,
            "[skills.implement]\npreload = [\"docs/plan.md\"]\n[skills.implement.rules.tests-first]\n\
             tool = \"Edit\"\nphase = \"build\"\ncontext = 40\nanswer = \"once\"\nsay = \"Tests first.\"\n\
             [skills.release]\nphases = [\"tag\", \"publish\"]\n",
        );
        all.extend(tables(
            Level::User,
            "[skills.implement]\ndeny = 5\npreload = []",
        ));
        let read = read(&all);
        let implement = &read.skills["implement"];
        assert_eq!(implement.phases, ["plan", "build", "verify"]);
        assert_eq!((implement.deny, implement.remind), (Some(5), None));
        assert_eq!(implement.preload, ["docs/plan.md"]);
        let rule = &implement.rules["tests-first"];
        assert_eq!(
            (&*rule.phase, rule.context, rule.answer),
            (&["build".to_owned()][..], Some(40.0), RuleAnswer::Once)
        );
        assert_eq!(read.skills["release"].phases, ["tag", "publish"]);
        assert!(read.skills.contains_key("fix"));
        let origin = &read.settings["skills.implement.rules.tests-first.say"].origin;
        assert_eq!(origin.to_string(), "/project.toml:8");
        assert_eq!(read.problems, []);
    }

    #[test]
    fn a_fault_of_a_skill_is_reported_with_its_line() {
        let text = "[skills.bad]\nphases = [\"a b\"]\nphazes = []\nrules.x.answer = \"maybe\"\nrules.y = 1\n[skills.good]\nphases = [\"a\"]\nrules.z.tool = \"Edit\"\n";
        let source = Source {
            level: Level::User,
            file: PathBuf::from("/user.toml"),
        };
        let texts = |problems: &[Problem]| -> Vec<String> {
            problems.iter().map(ToString::to_string).collect()
        };
        let error = parse_layer(&source, text).unwrap_err();
        let expected = [
            "/user.toml:2:10: skills.bad.phases: expected a phase like \"build\", found \"a b\"",
            "/user.toml:3:1: skills.bad.phazes is no key that becket knows (did you mean phases?)",
            "/user.toml:4:18: skills.bad.rules.x.answer: expected \"deny\" or \"ask\" or \"warn\" or \"once\", found \"maybe\"",
            "/user.toml:5:11: skills.bad.rules.y: expected tables [skills.NAME.rules.RULE]",
        ];
        assert_eq!(texts(&error.problems), expected);
        let rest = error.rest.unwrap();
        assert_eq!(rest.tables.len(), 1);
        let told =
            "/user.toml:8:16: skills.good.rules.z has no `say` (the model is told nothing by it)";
        assert_eq!(texts(&read(&rest.tables).problems), [told]);
    }
}
