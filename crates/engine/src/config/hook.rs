//! Makes hooks from `[hooks.*]` of all layers: each key from the highest layer, over the defaults of a built-in
//! of that name.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use becket_wire::event::EventName;
use toml::de::{DeTable, DeValue};

use super::layer::{Level, RawKey, RawTable, Reader};
use super::merge::{Origin, Setting};
use super::problem::{Position, Problem, most_similar};
use super::value::{Form, Value};
use crate::hooks::builtin::{BUILT_INS, BuiltIn};
use crate::hooks::{Action, Hook};
use crate::matcher::{Matcher, Paths};
use crate::process::{ENDING, Program};
use crate::trust::{Approved, names_project_file};

/// The time before Claude Code's timeout at which a hook must end, so that becket can end it and answer.
const SPARE: Duration = Duration::from_secs(2);

/// The keys that name a program.
const NAMING: [&str; 2] = ["run", "command"];

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
        let mut by_name: BTreeMap<&str, Vec<&RawTable>> = BTreeMap::new();
        let mut names: Vec<&str> = Vec::new();
        for table in tables.iter().filter(|it| !listed.contains(&it.name)) {
            let same = by_name.entry(&table.name).or_default();
            if same.is_empty() {
                names.push(&table.name);
            }
            same.push(table);
        }
        for name in names {
            let tables = by_name.remove(name).unwrap_or_default();
            named.take(name, tables, in_force, hook_project);
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
}

impl<'a> MergedHook<'a> {
    /// Merges the tables of one hook. If the managed file defines it, no other table counts.
    fn of(
        mut tables: Vec<&'a RawTable>,
        built_in: Option<&'static BuiltIn>,
        problems: &mut Vec<Problem>,
    ) -> Option<Self> {
        tables.sort_by_key(|table| table.level);
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
        let mut keys = BTreeMap::new();
        for table in tables {
            for key in &table.keys {
                keys.insert(&*key.name, (table, key));
            }
        }
        Some(Self {
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
            paths: Paths::parse(&self.words("paths")).unwrap_or_default(),
            skip_agents: self.words("skip_agents"),
            rewrites: self.is_set("rewrites"),
            is_async: self.is_set("async"),
            fails_closed: self.value("fail") == Some(&Value::Text("closed".to_owned())),
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

    fn value(&self, key: &str) -> Option<&'a Value> {
        self.keys.get(key).map(|(_, key)| &key.value)
    }

    fn words(&self, key: &str) -> Vec<String> {
        self.value(key).map(Value::words).unwrap_or_default()
    }

    fn is_set(&self, key: &str) -> bool {
        self.value(key) == Some(&Value::Bool(true))
    }

    fn off(&self) -> Option<Origin> {
        let (table, key) = self.keys.get("enabled")?;
        (key.value == Value::Bool(false)).then(|| Origin::of(table, key.at.line))
    }

    fn action(&self, name: &str) -> Result<Action, Box<Problem>> {
        if let Some(built_in) = self.built_in {
            let mut own = toml::Table::new();
            for key in built_in.keys {
                if let Some(value) = self
                    .keys
                    .get(key)
                    .and_then(|(table, _)| table.table.get(*key))
                {
                    own.insert((*key).to_owned(), value.clone());
                }
            }
            return Ok(Action::BuiltIn(built_in, own));
        }
        match self.value("run") {
            Some(Value::List(words)) => Ok(Action::Run(Program::List(words.clone()))),
            Some(Value::Text(line)) if !line.trim().is_empty() => {
                Ok(Action::Run(Program::Shell(line.clone())))
            }
            _ => {
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
        for word in self.words("on") {
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
        let text = match (self.value("tools"), self.built_in) {
            (Some(Value::Text(text)), _) => text,
            (_, Some(built_in)) => built_in.tools,
            _ => "",
        };
        Matcher::parse(text).unwrap_or_default()
    }

    fn description(&self, action: &Action) -> String {
        let said = match (self.value("description"), action) {
            (Some(Value::Text(text)), _) => text.clone(),
            (_, Action::BuiltIn(built_in, _)) => built_in.description.to_owned(),
            (_, Action::Run(program)) => program.to_string(),
        };
        said.lines().next().unwrap_or_default().trim().to_owned()
    }

    /// Returns the timeout, at most the longest one that its events allow, and a warning if an event cuts it.
    fn timeout(&self, name: &str, on: &[EventName]) -> (Duration, Option<Problem>) {
        let is_async = self.is_set("async");
        let longest_time = |event: &EventName| longest_time(event, is_async);
        let most = on.iter().map(longest_time).max().unwrap_or_default();
        let Some((table, key)) = self.keys.get("timeout") else {
            let own = self.built_in.map_or(most, |built_in| built_in.timeout);
            return (own.min(most), None);
        };
        let said = match &key.value {
            Value::Span(said) => said.unwrap_or(Duration::MAX),
            _ => most,
        };
        let least = on.iter().min_by_key(|event| longest_time(event));
        let cut = least.filter(|event| longest_time(event) < said).map(|event| {
            let room = Value::Span(Some(longest_time(event)));
            let waits = Value::Span(Some(event.waits()));
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
            let on = built_in.on.iter().map(|event| event.as_str().to_owned());
            put("on", Value::List(on.collect()), Origin::BUILT_IN);
            put(
                "tools",
                Value::Text(built_in.tools.to_owned()),
                Origin::BUILT_IN,
            );
            put(
                "timeout",
                Value::Span(Some(built_in.timeout)),
                Origin::BUILT_IN,
            );
        }
        put("enabled", Value::Bool(true), self.first.origin());
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

/// One key of the tables of a section.
#[derive(Debug)]
pub struct TableKey {
    pub name: &'static str,
    pub form: Form,
    pub about: &'static str,
}

pub const HOOK_KEYS: &[TableKey] = &[
    TableKey {
        name: "enabled",
        form: Form::Bool,
        about: "`false` switches the hook off, in every session",
    },
    TableKey {
        name: "description",
        form: Form::Text(any_text),
        about: "One line for lists; without it, the command",
    },
    TableKey {
        name: "on",
        form: Form::Words(|event| match event.trim() {
            "" => Err("expected the name of an event, found nothing".to_owned()),
            _ => Ok(()),
        }),
        about: "The event, or a list of events, that the hook runs on",
    },
    TableKey {
        name: "tools",
        form: Form::Text(|_, text| Matcher::parse(text).map(drop)),
        about: "The matcher of Claude Code: names of tools, or a regular expression; without it, everything",
    },
    TableKey {
        name: "paths",
        form: Form::Words(|glob| Paths::parse(&[glob.to_owned()]).map(drop)),
        about: "Globs of the files that it runs for; `!` excludes",
    },
    TableKey {
        name: "run",
        form: Form::Program,
        about: "The command: a list runs as it is, a text runs in sh; not for a built-in",
    },
    TableKey {
        name: "timeout",
        form: Form::Span {
            min: Duration::from_millis(1),
        },
        about: "How long it may take; without it, as long as Claude Code waits",
    },
    TableKey {
        name: "skip_agents",
        form: Form::Words(|_| Ok(())),
        about: "Types of subagents in which it does not run",
    },
    TableKey {
        name: "rewrites",
        form: Form::Bool,
        about: "It changes the input of the tool: such hooks run first, one after the other",
    },
    TableKey {
        name: "async",
        form: Form::Bool,
        about: "Claude does not wait for it, and its answer is ignored",
    },
    TableKey {
        name: "fail",
        form: Form::Text(|_, text| match text {
            "open" | "closed" => Ok(()),
            _ => Err(format!("expected \"open\" or \"closed\", found {text:?}")),
        }),
        about: "`closed` denies a tool call that the hook could not judge: it was not started, failed or timed out",
    },
];

pub(super) fn any_text(_: &str, _: &str) -> Result<(), String> {
    Ok(())
}

impl TableKey {
    /// Finds the key of a hook.
    pub fn find(name: &str) -> Option<&'static Self> {
        HOOK_KEYS.iter().find(|key| key.name == name)
    }
}

/// Returns the known key that is most similar to an unknown one.
pub(super) fn nearest_key(name: &str, built_in: Option<&'static BuiltIn>) -> Option<&'static str> {
    let own = built_in.map_or(&[][..], |hook| hook.keys);
    let known = HOOK_KEYS.iter().map(|key| key.name);
    most_similar(name, known.chain(own.iter().copied()))
}

/// The longest name.
const LONGEST_NAME: usize = 64;

/// The hint for a `~` in a list.
const EXPANDED: &str = "write the whole path, or a text, which sh runs";

/// Returns true if `name` is a valid name for a hook, which becomes a part of paths, of commands and of lists.
pub fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.len() <= LONGEST_NAME
        && (name.chars()).all(|c| matches!(c, 'a'..='z' | '0'..='9' | '-' | '_' | '.'))
}

impl Reader<'_> {
    /// Takes a hook's table. A faulty one is left out.
    pub(super) fn hook(&mut self, mut table: RawTable, keys: &DeTable<'_>) {
        let errors = self.table_errors.len();
        self.check_name(&table);
        let built_in = BuiltIn::find(&table.name);
        for (key, given) in keys {
            let name: &str = key.get_ref();
            let path = format!("hooks.{}.{name}", table.name);
            let own = built_in.is_some_and(|hook| hook.keys.contains(&name));
            let value = match TableKey::find(name) {
                _ if own => Ok(as_written(given.get_ref())),
                Some(TableKey { name: "run", .. }) if built_in.is_some() => {
                    Err("this hook is a built-in; use `command`".to_owned())
                }
                Some(known) => known.form.read(&path, given.get_ref()),
                None => {
                    let message = format!("unknown key {path}");
                    self.warn_unknown(message, name, key.span(), |name| {
                        nearest_key(name, built_in)
                    });
                    continue;
                }
            };
            if let Ok(value) = &value {
                if let Some(word) = unexpanded(name, value) {
                    let message = format!("{path}: {word:?} is not expanded in a list");
                    let problem = self.problem(message, given.span());
                    self.table_errors
                        .push(problem.hint(Some(EXPANDED.to_owned())));
                    continue;
                }
                if name == "on" {
                    self.events(&path, value, given.span());
                }
            }
            self.take_key(&mut table, name, value, given.span());
        }
        self.check_tools(&table);
        if self.table_errors.len() == errors {
            table.keys.sort_by_key(|key| (key.at.line, key.at.column));
            self.layer.tables.push(table);
        }
    }

    /// Reports a name that is invalid for a hook or a guard.
    pub(super) fn check_name(&mut self, table: &RawTable) {
        if !is_name(&table.name) {
            let what = table.section.trim_end_matches('s');
            let message = format!("{:?} cannot be the name of a {what}", table.name);
            let hint = format!("a-z, 0-9, - _ and . only, at most {LONGEST_NAME} of them");
            let problem = self.problem(message, 0..0).at_position(table.at.clone());
            self.table_errors.push(problem.hint(Some(hint)));
        }
    }

    /// Takes one key of a table, or its error.
    pub(super) fn take_key(
        &mut self,
        table: &mut RawTable,
        name: &str,
        value: Result<Value, String>,
        at: Range<usize>,
    ) {
        match value {
            Ok(value) => table.keys.push(RawKey {
                name: name.to_owned(),
                value,
                at: self.position(at),
            }),
            Err(why) => {
                let path = format!("{}.{}.{name}", table.section, table.name);
                let problem = self.problem(format!("{path}: {why}"), at);
                self.table_errors.push(problem);
            }
        }
    }

    /// Warns of unknown events. They are no error, because Claude Code adds events every few weeks.
    fn events(&mut self, path: &str, value: &Value, at: Range<usize>) {
        for name in value.words() {
            let event = EventName::from(&*name);
            if matches!(event, EventName::Other(_)) {
                let known = EventName::ALL.iter().map(EventName::as_str);
                let message = format!("{path}: unknown event {name}");
                self.warn_unknown(message, &name, at.clone(), |name| most_similar(name, known));
            } else if !event.is_registered() {
                let message =
                    format!("{path}: becket is not registered for {name}, so nothing runs on it");
                self.warn(message, None, at.clone());
            }
        }
    }
}

/// Finds a word of a program that looks like a path in the home and is none: only a shell expands `~`.
fn unexpanded(key: &str, value: &Value) -> Option<String> {
    match (key, value) {
        ("run" | "command", Value::List(words)) => {
            let program = Program::List(words.clone());
            program.unexpanded().map(str::to_owned)
        }
        _ => None,
    }
}

/// Returns the value of a built-in's own key, as far as one line can show it.
fn as_written(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::Boolean(value) => Value::Bool(*value),
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Integer(number) => match number.as_str().parse() {
            Ok(number) => Value::Number(number),
            Err(_) => Value::Text(number.as_str().to_owned()),
        },
        DeValue::Array(words) => {
            let texts: Option<Vec<String>> = words
                .iter()
                .map(|word| word.get_ref().as_str().map(str::to_owned))
                .collect();
            texts.map_or(Value::Text("[…]".to_owned()), Value::List)
        }
        DeValue::Float(number) => Value::Text(number.as_str().to_owned()),
        DeValue::Datetime(moment) => Value::Text(moment.to_string()),
        DeValue::Table(_) => Value::Text("{…}".to_owned()),
    }
}

#[cfg(test)]
mod tests;
