//! Makes hooks from `[hooks.*]` of all layers: each key from the highest layer, over the defaults of a built-in
//! of that name.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use becket_wire::event::EventName;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};
use toml::{Table, Value};

use super::guard::{FAIL, one_of};
use super::key::read_table;
use super::layer::{Level, RawKey, RawTable};
use super::merge::{Origin, Setting, by_name};
use super::problem::{Position, Problem, most_similar};
use super::value::{Words, events_schema, program, program_schema, time, time_schema, time_text};
use crate::hooks::builtin::{BUILT_INS, BuiltIn};
use crate::hooks::{Action, Hook};
use crate::matcher::{Matcher, Paths};
use crate::process::{ENDING, Program};
use crate::trust::{Approved, names_project_file};

/// The time before Claude Code's timeout at which a hook must end, so that becket can end it and answer.
const SPARE: Duration = Duration::from_secs(2);

/// The keys that name a program.
const NAMING: [&str; 2] = ["run", "command"];

// The keys of `[hooks.NAME]`, as they are written.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(deny_unknown_fields)]
pub(super) struct HookTable {
    /// `false` switches the hook off, in every session
    enabled: Option<bool>,
    /// One line for lists; without it, the command
    description: Option<String>,
    /// The event, or a list of events, that the hook runs on
    #[schemars(schema_with = "events_schema")]
    on: Words,
    /// The matcher of Claude Code: names of tools, or a regular expression; without it, everything
    tools: Option<String>,
    /// Globs of the files that it runs for; `!` excludes
    paths: Words,
    /// The command: a list runs as it is, a text runs in sh; not for a built-in
    #[serde(deserialize_with = "program")]
    #[schemars(schema_with = "program_schema")]
    run: Option<Program>,
    /// The longest time that it may take; without it, as long as Claude Code waits
    #[serde(deserialize_with = "timeout")]
    #[schemars(schema_with = "time_schema::<1>")]
    timeout: Option<Duration>,
    /// Types of subagents in which it does not run
    skip_agents: Words,
    /// It changes the input of the tool: such hooks run first, one after the other
    rewrites: bool,
    /// Claude does not wait for it, and its answer is ignored
    r#async: bool,
    /// `closed` denies a tool call that the hook could not judge: it was not started, failed or timed out
    fail: Option<String>,
}

/// Reads a timeout; `never` is the longest one.
fn timeout<'de, D: Deserializer<'de>>(given: D) -> Result<Option<Duration>, D::Error> {
    Ok(Some(time::<1, D>(given)?.unwrap_or(Duration::MAX)))
}

/// Checks keys of a hook.
pub(super) fn check(table: Table) -> Result<(), String> {
    let table: HookTable = read_table(table)?;
    if table.on.0.iter().any(|event| event.trim().is_empty()) {
        return Err("expected the name of an event, found nothing".to_owned());
    }
    Matcher::parse(table.tools.as_deref().unwrap_or_default())?;
    Paths::parse(&table.paths.0)?;
    one_of(&FAIL, table.fail.as_deref().unwrap_or("open")).map(drop)
}

/// The hooks of a config, and all their keys with their origins.
#[derive(Debug, Default)]
pub struct ReadHooks {
    pub hooks: Vec<Arc<Hook>>,
    pub settings: BTreeMap<String, Setting>,
    pub problems: Vec<Problem>,
}

/// The project of the hooks.
#[derive(Debug, Clone, Copy, Default)]
pub struct HookProject<'a> {
    /// The folder of the project; none if `.becket` in it is becket's own home, which belongs to the user.
    pub folder: Option<&'a Path>,
    pub approved: Option<&'a Arc<Approved>>,
    /// True if the project was approved and has changed since.
    pub changed: bool,
}

/// Reads the hooks of all layers in force, lowest first, then those of an untrusted project, which are listed
/// and change none of the others.
pub fn read(
    in_force: &[RawTable],
    untrusted: &[RawTable],
    hook_project: &HookProject<'_>,
) -> ReadHooks {
    let mut named = ReadHooks::default();
    for (tables, in_force) in [(in_force, true), (untrusted, false)] {
        let listed: BTreeSet<String> = named.hooks.iter().map(|hook| hook.name.clone()).collect();
        let others = tables.iter().filter(|it| !listed.contains(&it.name));
        for (name, same) in by_name(others) {
            named.take(name, same, in_force, hook_project);
        }
    }
    named
}

/// Returns the longest time that all hooks together may take on an event, including ending them by force. An
/// event that usually comes late is registered so that Claude Code waits, if a hook has to answer it.
pub(crate) fn longest_total_time(event: &EventName) -> Duration {
    let waits = if event.comes_late() {
        EventName::PreToolUse.waits()
    } else {
        event.waits()
    };
    waits.saturating_sub(SPARE)
}

/// Returns the longest time that one hook may run on an event before it is asked to end. If Claude Code waits
/// for it, there is still time to end it by force and to answer.
pub(crate) fn longest_time(event: &EventName, is_async: bool) -> Duration {
    let ending = if is_async { Duration::ZERO } else { ENDING };
    longest_total_time(event).saturating_sub(ending)
}

/// Makes paths of pinned files in a list absolute, so that the session's folder does not matter.
fn anchor(program: &mut Program, approved: &Approved) {
    let Program::List(words) = program else {
        return;
    };
    for word in words {
        let path = word.strip_prefix("./").unwrap_or(word);
        // A word without a slash may be anything: a program on the PATH, or no file at all.
        if word.contains('/') && approved.pins().names(path) {
            *word = approved.project().join(path).to_string_lossy().into_owned();
        }
    }
}

impl ReadHooks {
    fn take(
        &mut self,
        name: &str,
        tables: Vec<&RawTable>,
        in_force: bool,
        hook_project: &HookProject<'_>,
    ) {
        let built_in = BuiltIn::find(name);
        let Some(merged) = MergedHook::of(tables, built_in, &mut self.problems) else {
            return;
        };
        match merged.hook(name, in_force, hook_project) {
            Ok((hook, warning)) => {
                self.problems.extend(warning);
                if in_force {
                    self.settings.extend(merged.settings(name));
                }
                self.hooks.push(Arc::new(hook));
            }
            // A table that is not in force causes no problem, nor does a hook that is off.
            Err(problem) if in_force && merged.off().is_none() => self.problems.push(*problem),
            Err(_) => {}
        }
    }
}

/// One hook, merged from all its tables.
struct MergedHook<'a> {
    built_in: Option<&'static BuiltIn>,
    /// The table that names it first.
    first: &'a RawTable,
    managed: bool,
    keys: BTreeMap<&'a str, (&'a RawTable, &'a RawKey)>,
    table: HookTable,
}

impl<'a> MergedHook<'a> {
    /// Merges the tables of one hook. If the managed file defines it, no other table counts.
    fn of(
        mut tables: Vec<&'a RawTable>,
        built_in: Option<&'static BuiltIn>,
        problems: &mut Vec<Problem>,
    ) -> Option<Self> {
        let managed = tables.iter().find(|table| table.level == Level::Managed);
        let managed = managed.copied();
        if let Some(managed) = managed
            .filter(|table| built_in.is_some() || table.keys.iter().any(|key| key.name == "run"))
        {
            let others = tables.iter().filter(|table| table.level != Level::Managed);
            problems.extend(others.map(|other| {
                let by = Origin {
                    line: None,
                    ..managed.origin()
                };
                let what = format!(
                    "hooks.{} is set by {by}, and nothing else can change it",
                    other.name
                );
                warning(other, &other.at, what)
            }));
            tables = vec![managed];
        }
        let first = *tables.first()?;
        let mut keys: BTreeMap<&str, (&RawTable, &RawKey)> = BTreeMap::new();
        for table in tables {
            for key in &table.keys {
                keys.insert(&*key.name, (table, key));
            }
        }
        let values = keys.iter();
        let values = values.map(|(name, (_, key))| ((*name).to_owned(), key.value.clone()));
        let table = read_table(values.collect());
        let table =
            table.map_err(|what| problems.push(first.locate(Problem::error("", what), &first.at)));
        Some(Self {
            table: table.ok()?,
            built_in,
            first,
            managed: managed.is_some(),
            keys,
        })
    }

    fn hook(
        &self,
        name: &str,
        in_force: bool,
        hook_project: &HookProject<'_>,
    ) -> Result<(Hook, Option<Problem>), Box<Problem>> {
        let mut action = self.action(name)?;
        let description = self.description(&action);
        let approved = hook_project
            .approved
            .filter(|_| self.runs_program_of_project());
        if let (Some(approved), Action::Run(program)) = (approved, &mut action) {
            anchor(program, approved);
        }
        let on = self.events(name)?;
        let (timeout, warning) = self.timeout(name, &on);
        let is_trusted = hook_project.approved.is_some();
        let project = hook_project.folder.filter(|_| !is_trusted);
        let needs_trust = || match &action {
            Action::BuiltIn(built_in, _) => built_in.starts_project_tools,
            Action::Run(program) => project.is_some_and(|it| names_project_file(program, it)),
        };
        let untrusted = !in_force || (!is_trusted && needs_trust());
        let hook = Hook {
            name: name.to_owned(),
            description,
            tools: self.tools(),
            paths: Paths::parse(&self.table.paths.0).unwrap_or_default(),
            skip_agents: self.table.skip_agents.0.clone(),
            rewrites: self.table.rewrites,
            is_async: self.table.r#async,
            fails_closed: self.table.fail.as_deref() == Some("closed"),
            declared: self.first.origin(),
            off: self.off(),
            untrusted,
            changed: untrusted && hook_project.changed,
            managed: self.managed,
            approved: approved.cloned(),
            untrusted_project: project.map(Path::to_path_buf),
            action,
            on,
            timeout,
        };
        Ok((hook, warning))
    }

    fn runs_program_of_project(&self) -> bool {
        NAMING.iter().any(|key| {
            let set = self.keys.get(key);
            set.is_some_and(|(table, _)| table.level.is_foreign())
        })
    }

    fn off(&self) -> Option<Origin> {
        let (table, key) = self.keys.get("enabled")?;
        (key.value.as_bool() == Some(false)).then(|| Origin::of(table, key.at.line))
    }

    fn action(&self, name: &str) -> Result<Action, Box<Problem>> {
        if let Some(built_in) = self.built_in {
            let own = built_in.keys.iter().filter_map(|name| {
                let (_, key) = self.keys.get(name)?;
                Some(((*name).to_owned(), key.value.clone()))
            });
            return Ok(Action::BuiltIn(built_in, own.collect()));
        }
        match &self.table.run {
            Some(program) => Ok(Action::Run(program.clone())),
            None => {
                let near = most_similar(name, BUILT_INS.iter().map(|hook| hook.name));
                let hint = match near {
                    Some(near) => format!("did you mean {near}?"),
                    None => "run = [\"a program\", \"and its arguments\"]".to_owned(),
                };
                let what = format!("hooks.{name} has no `run`, and is not a built-in");
                Err(self.left_out(what, hint))
            }
        }
    }

    fn events(&self, name: &str) -> Result<Vec<EventName>, Box<Problem>> {
        let mut on: Vec<EventName> = Vec::new();
        for word in &self.table.on.0 {
            let event = EventName::from(word.trim());
            if !on.contains(&event) {
                on.push(event);
            }
        }
        match self.built_in {
            Some(built_in) if on.is_empty() => Ok(built_in.on.to_vec()),
            None if on.is_empty() => {
                let what = format!("hooks.{name} has no `on`: it would never run");
                Err(self.left_out(what, "on = \"PostToolUse\"".to_owned()))
            }
            _ => Ok(on),
        }
    }

    fn tools(&self) -> Matcher {
        let own = self.built_in.map(|built_in| built_in.tools);
        let text = self.table.tools.as_deref().or(own);
        Matcher::parse(text.unwrap_or_default()).unwrap_or_default()
    }

    fn description(&self, action: &Action) -> String {
        let said = match (&self.table.description, action) {
            (Some(text), _) => text.clone(),
            (None, Action::BuiltIn(built_in, _)) => built_in.description.to_owned(),
            (None, Action::Run(program)) => program.to_string(),
        };
        said.lines().next().unwrap_or_default().trim().to_owned()
    }

    /// Returns the timeout, at most the longest one that its events allow, and a warning if an event cuts it.
    fn timeout(&self, name: &str, on: &[EventName]) -> (Duration, Option<Problem>) {
        let is_async = self.table.r#async;
        let longest_time = |event: &EventName| longest_time(event, is_async);
        let most = on.iter().map(longest_time).max().unwrap_or_default();
        let Some((table, key)) = self.keys.get("timeout") else {
            let own = self.built_in.map_or(most, |built_in| built_in.timeout);
            return (own.min(most), None);
        };
        let said = self.table.timeout.unwrap_or(most);
        let least = on.iter().min_by_key(|event| longest_time(event));
        let cut = least.filter(|event| longest_time(event) < said).map(|event| {
            let room = time_text(longest_time(event));
            let waits = time_text(event.waits());
            warning(
                table,
                &key.at,
                format!(
                    "hooks.{name}.timeout: cut to {room} on {event}, for which Claude Code waits {waits}"
                ),
            )
        });
        (said.min(most), cut)
    }

    /// Returns every key in force, with the defaults of the built-in.
    fn settings(&self, name: &str) -> BTreeMap<String, Setting> {
        let mut settings = BTreeMap::new();
        let mut put = |key: &str, value, origin| {
            settings.insert(format!("hooks.{name}.{key}"), Setting { value, origin });
        };
        if let Some(built_in) = self.built_in {
            let on = built_in.on.iter().map(|event| event.as_str().into());
            let timeout = time_text(built_in.timeout);
            put("on", Value::Array(on.collect()), Origin::BUILT_IN);
            put("tools", built_in.tools.into(), Origin::BUILT_IN);
            put("timeout", timeout.into(), Origin::BUILT_IN);
        }
        put("enabled", Value::Boolean(true), self.first.origin());
        for (key, (table, raw)) in &self.keys {
            put(key, raw.value.clone(), Origin::of(table, raw.at.line));
        }
        settings
    }

    fn left_out(&self, what: String, hint: String) -> Box<Problem> {
        let problem = Problem::error("", what).hint(Some(hint));
        Box::new(self.first.locate(problem, &self.first.at))
    }
}

fn warning(table: &RawTable, at: &Position, message: String) -> Problem {
    table.locate(Problem::warning("", message), at)
}

/// The longest name.
pub(super) const LONGEST_NAME: usize = 64;

/// Returns true if `name` is a valid name for a hook, which becomes a part of paths, of commands and of lists.
pub fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.len() <= LONGEST_NAME
        && (name.chars()).all(|c| matches!(c, 'a'..='z' | '0'..='9' | '-' | '_' | '.'))
}

#[cfg(test)]
mod tests;
