//! Makes skills from `[skills.*]` of all layers: each key from the highest layer, over becket's own skill of
//! that name.

use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use super::guard::{filled, one_of};
use super::hook::is_name;
use super::key::read_table;
use super::layer::RawTable;
use super::merge::Setting;
use super::problem::Problem;
use super::value::Words;
use crate::effort::skill::{Skill, Skills, built_in};
use crate::matcher::Matcher;

// The keys of `[skills.NAME]`, as they are written.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(deny_unknown_fields)]
pub(super) struct SkillTable {
    /// The purpose of an effort of this skill
    description: Option<String>,
    /// The phases in order; an effort begins in the first one
    phases: Option<Words>,
    /// Files of the project that the model is given when a context window opens
    preload: Option<Words>,
    /// Names of files that the model is given when it first touches a folder below them, besides `.directives/*.md`
    directives: Option<Words>,
    /// Calls without a log entry until a reminder; 0 is never; without it, `effort.remind`
    #[schemars(range(max = 10_000))]
    remind: Option<u32>,
    /// Calls without a log entry from which on calls are denied; 0 is never; without it, `effort.deny`
    #[schemars(range(max = 10_000))]
    deny: Option<u32>,
    /// The content that a log entry should have
    log: Option<String>,
    /// The text that the model is given when a context window opens
    instructions: Option<String>,
    rules: BTreeMap<String, SkillRuleTable>,
}

// The keys of `[skills.NAME.rules.RULE]`.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(deny_unknown_fields)]
struct SkillRuleTable {
    /// The matcher of Claude Code: names of tools, or a regular expression; without it, every tool
    tool: Option<String>,
    /// Phases in which it holds
    phase: Option<Words>,
    /// It holds from so many calls without a log entry on
    #[schemars(range(max = 10_000))]
    heartbeat: Option<u32>,
    /// It holds from this percentage of the context on; never for a subagent
    #[schemars(range(max = 100))]
    context: Option<u32>,
    /// It holds from so many calls since the phase began on
    #[schemars(range(max = 10_000))]
    calls: Option<u32>,
    /// `deny`, `ask` (you are asked), `once` (a second try passes) or `warn` (the model is told); without it, `warn`
    answer: Option<String>,
    /// The text that the model is given
    say: Option<String>,
}

/// Checks keys of a skill.
pub(super) fn check(table: Table) -> Result<(), String> {
    let table: SkillTable = read_table(table)?;
    let mut phases: Vec<&Words> = table.phases.iter().collect();
    for rule in table.rules.values() {
        Matcher::parse(rule.tool.as_deref().unwrap_or_default())?;
        phases.extend(&rule.phase);
        if let Some(answer) = &rule.answer {
            one_of(
                &["deny", "ask", "warn", "once"].map(|name| (name, ())),
                answer,
            )?;
        }
    }
    for phase in phases.into_iter().flat_map(|words| &words.0) {
        if !is_name(phase) {
            return Err(format!("expected a phase like \"build\", found {phase:?}"));
        }
    }
    let files = [table.preload, table.directives].into_iter().flatten();
    files
        .flat_map(|words| words.0)
        .try_for_each(|file| filled(&file))
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
        if let Ok(changed) = over(skill, &table.table) {
            *skill = Arc::new(changed);
        }
        read.settings.extend(table.settings());
    }
    for table in tables {
        let skill = read.skills.get(&table.name);
        let rules = skill.into_iter().flat_map(|skill| &skill.rules);
        for (name, _) in rules.filter(|(_, rule)| rule.say.is_empty()) {
            let path = format!("rules.{name}.");
            if let Some(key) = table.keys.iter().find(|key| key.name.starts_with(&path)) {
                let message = format!("skills.{}.rules.{name} has no `say`", table.name);
                let problem = table.locate(Problem::warning("", message), &key.at);
                let hint = "the model is told nothing by it".to_owned();
                read.problems.push(problem.hint(Some(hint)));
            }
        }
    }
    read
}

/// Returns a skill with the keys of a table in place of its own.
fn over(skill: &Skill, table: &Table) -> Result<Skill, String> {
    // This way a text becomes a list of one, and what is not known is left out.
    let written: SkillTable = read_table(table.clone())?;
    let table =
        |table: Result<Table, _>| table.map_err(|error: toml::ser::Error| error.to_string());
    let mut whole = table(Table::try_from(skill))?;
    overlay(&mut whole, table(Table::try_from(written))?);
    read_table(whole)
}

fn overlay(below: &mut Table, above: Table) {
    for (name, value) in above {
        match (below.get_mut(&name), value) {
            (Some(Value::Table(below)), Value::Table(above)) => overlay(below, above),
            (_, value) => drop(below.insert(name, value)),
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
            (
                &["build".to_owned()][..],
                Some(40.0),
                crate::effort::skill::RuleAnswer::Once
            )
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
            "/user.toml:3:1: unknown key skills.bad.phazes (did you mean phases?)",
            "/user.toml:4:18: skills.bad.rules.x.answer: expected \"deny\" or \"ask\" or \"warn\" or \"once\", found \"maybe\"",
            "/user.toml:5:11: skills.bad.rules.y: expected a table [skills.bad.rules.y]",
        ];
        assert_eq!(texts(&error.problems), expected);
        let rest = error.rest.unwrap();
        assert_eq!(rest.tables.len(), 1);
        let told =
            "/user.toml:8:16: skills.good.rules.z has no `say` (the model is told nothing by it)";
        assert_eq!(texts(&read(&rest.tables).problems), [told]);
    }
}
