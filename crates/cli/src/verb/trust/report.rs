//! What a project would do if it counted, as a person and as scripts read it.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;

use becket_engine::config::{Level, Origin, Problem, Setting, Snapshot};
use becket_engine::hooks::builtin::BuiltIn;
use becket_engine::hooks::{Action, Hook};
use becket_engine::run::Program;
use becket_engine::trust::{Change, How, Pins, Starts, Trust, is_of_the_project};
use becket_wire::event::EventName;
use serde_json::{Value as Json, json};

use crate::ui::style::{BAD, BOLD, DIM, GOOD, WARN};
use crate::ui::text::is_inert;

pub(super) struct Report {
    pub(super) before: Trust,
    pub(super) folder: PathBuf,
    pub(super) key: String,
    pub(super) pins: Pins,
    /// Since the last approval; none if there was none.
    pub(super) changes: Option<Vec<Change>>,
    /// What would hold.
    pub(super) then: Arc<Snapshot>,
}

const UNASKED: &str = "you are not asked again when that changes";

/// A stranger's words: a terminal shows them, and does not obey them.
pub(super) fn inert(text: &str) -> String {
    text.chars().filter(|c| is_inert(*c)).collect()
}

fn is_theirs(level: Level) -> bool {
    matches!(level, Level::Project | Level::Local)
}

impl Report {
    /// Hooks that the project's own files name, or give another program.
    fn hooks(&self) -> impl Iterator<Item = &Arc<Hook>> {
        let theirs = |hook: &Hook| is_theirs(hook.declared.level) || hook.root.is_some();
        let hooks = self.then.hooks.iter();
        hooks.filter(move |hook| theirs(hook) && !hook.untrusted)
    }

    /// Values of the project's that change something else: of hooks that others name, and of keys.
    fn values(&self) -> BTreeMap<&String, &Setting> {
        let own = |key: &str| {
            self.hooks()
                .any(|hook| key.starts_with(&format!("hooks.{}.", hook.name)))
        };
        let settings = self.then.settings.iter();
        settings
            .filter(|(key, setting)| is_theirs(setting.origin.level) && !own(key))
            .collect()
    }

    fn guards(&self) -> Vec<String> {
        let guards = self.then.config.guards.iter();
        let theirs = guards.filter(|guard| is_theirs(guard.level));
        theirs.map(|guard| guard.name.clone()).collect()
    }

    /// The person's own hooks that may start the project's tools and files then.
    fn tools(&self) -> Vec<&str> {
        let starts = |hook: &&Arc<Hook>| match &hook.action {
            Action::BuiltIn(built_in, _) => built_in.starts_project_tools,
            Action::Run(program) => is_of_the_project(program, &[&self.folder]),
        };
        let own = |hook: &&Arc<Hook>| !is_theirs(hook.declared.level) && hook.root.is_none();
        let hooks = self.then.hooks.iter().filter(starts);
        hooks
            .filter(own)
            .filter(|hook| hook.off.is_none())
            .map(|hook| &*hook.name)
            .collect()
    }

    fn problems(&self) -> impl Iterator<Item = &Problem> {
        let folder = self.folder.join(".becket");
        let theirs =
            move |it: &&Problem| it.file.as_ref().is_some_and(|it| it.starts_with(&folder));
        self.then.problems.iter().filter(theirs)
    }

    /// What a hook runs, with paths as they stand in the project.
    fn runs(&self, hook: &Hook) -> String {
        let text = match &hook.action {
            Action::Run(program) => program.to_string(),
            Action::BuiltIn(built_in, own) if own.is_empty() => {
                format!("built-in {}", built_in.name)
            }
            Action::BuiltIn(built_in, own) => format!("built-in {}: {own}", built_in.name),
        };
        let text = text.replace(&format!("{}/", self.folder.display()), "");
        inert(&text.trim().replace('\n', " ; "))
    }

    fn starts(&self, hook: &Hook) -> Starts {
        let programs = match &hook.action {
            Action::Run(program) => vec![program.clone()],
            Action::BuiltIn(_, own) => own.values().filter_map(program_of).collect(),
        };
        Starts::of(&programs, &self.folder, &self.pins)
    }

    fn origin(&self, origin: &Origin) -> String {
        let text = origin.to_string();
        let folder = format!("{}/", self.folder.display());
        inert(text.strip_prefix(&folder).unwrap_or(&text))
    }

    pub(super) fn text(&self) -> String {
        let mut out = String::new();
        let project = inert(&self.folder.display().to_string());
        writeln!(out, "project  {BOLD}{project}{BOLD:#}").ok();
        writeln!(out, "hash     {}", self.pins.hash()).ok();
        if self.pins.is_empty() {
            writeln!(
                out,
                "\nThere is no .becket/ here: trust lets built-in hooks start this project's tools."
            )
            .ok();
        }
        self.tell_of_hooks(&mut out);
        let values = self.values();
        if !values.is_empty() {
            writeln!(out, "\nvalues that it sets").ok();
        }
        for (key, setting) in values {
            let value = inert(&setting.value.to_string());
            let origin = self.origin(&setting.origin);
            writeln!(out, "  {} = {value}  {DIM}{origin}{DIM:#}", inert(key)).ok();
        }
        let guards = self.guards();
        if !guards.is_empty() {
            writeln!(
                out,
                "\nguards that it adds\n  {}",
                inert(&guards.join(", "))
            )
            .ok();
        }
        let tools = self.tools();
        if !tools.is_empty() {
            let tools = tools.join(", ");
            writeln!(
                out,
                "\nyour hooks that start this project's tools or files\n  {tools}\n    what they start is not pinned: {UNASKED}"
            )
            .ok();
        }
        self.tell_of_files(&mut out);
        for problem in self.problems() {
            writeln!(out, "{WARN}note:{WARN:#} {}", inert(&problem.to_string())).ok();
        }
        out
    }

    fn tell_of_hooks(&self, out: &mut String) {
        let rows: Vec<[String; 3]> = self
            .hooks()
            .map(|hook| [inert(&hook.name), events(hook), self.runs(hook)])
            .collect();
        if rows.is_empty() {
            return;
        }
        writeln!(out, "\nhooks that it runs").ok();
        let width = |column: usize| {
            let lengths = rows.iter().map(|row| row[column].chars().count());
            lengths.max().unwrap_or(0)
        };
        let (first, second) = (width(0), width(1));
        for (hook, [name, on, run]) in self.hooks().zip(&rows) {
            let origin = self.origin(&hook.declared);
            let off = match (&hook.off, is_theirs(hook.declared.level)) {
                (Some(_), _) => " (off)",
                (None, true) => "",
                (None, false) => " (in place of yours)",
            };
            writeln!(
                out,
                "  {name:first$}  {on:second$}  {run}{off}  {DIM}{origin}{DIM:#}"
            )
            .ok();
            let starts = self.starts(hook);
            let open = open(hook, &starts);
            let pinned = inert(&starts.pinned.join(", "));
            match (pinned.is_empty(), open.is_empty()) {
                (false, _) => writeln!(out, "    {DIM}pins {pinned}{DIM:#}").ok(),
                (true, true) => writeln!(
                    out,
                    "    {DIM}no file of the project was recognised in it{DIM:#}"
                )
                .ok(),
                (true, false) => None,
            };
            for line in open {
                writeln!(out, "    {WARN}{line}{WARN:#}").ok();
            }
        }
    }

    fn tell_of_files(&self, out: &mut String) {
        let Some(changes) = &self.changes else {
            if !self.pins.is_empty() {
                writeln!(
                    out,
                    "\nfiles that are pinned (what they start in turn is not)"
                )
                .ok();
            }
            for path in self.pins.paths() {
                writeln!(out, "  {}", inert(path)).ok();
            }
            return;
        };
        if !changes.is_empty() {
            writeln!(out, "\nsince you trusted it").ok();
        }
        for Change { path, how } in changes {
            let (style, mark) = match how {
                How::New => (GOOD, "new    "),
                How::Changed => (WARN, "changed"),
                How::Gone => (BAD, "gone   "),
            };
            writeln!(out, "  {style}{mark}{style:#}  {}", inert(path)).ok();
        }
    }

    pub(super) fn json(&self, trusted: bool) -> Json {
        let hooks: Vec<Json> = self
            .hooks()
            .map(|hook| {
                let starts = self.starts(hook);
                json!({
                    "name": hook.name,
                    "on": hook.on.iter().map(EventName::as_str).collect::<Vec<_>>(),
                    "run": self.runs(hook),
                    "file": hook.declared.file,
                    "line": hook.declared.line,
                    "enabled": hook.off.is_none(),
                    "pins": starts.pinned,
                    "open": open(hook, &starts),
                })
            })
            .collect();
        let values: Vec<Json> = self
            .values()
            .into_iter()
            .map(|(key, setting)| json!({ "key": key, "value": setting.value.to_string() }))
            .collect();
        let changes = self.changes.as_ref().map(|changes| {
            let change = |it: &Change| {
                let how = match it.how {
                    How::New => "new",
                    How::Changed => "changed",
                    How::Gone => "gone",
                };
                json!({ "path": it.path, "how": how })
            };
            changes.iter().map(change).collect::<Vec<_>>()
        });
        json!({
            "project": self.folder,
            "key": self.key,
            "hash": self.pins.hash(),
            "trusted": trusted,
            "before": match self.before {
                Trust::Yes => "trusted",
                Trust::Changed => "changed",
                Trust::No => "not trusted",
            },
            "hooks": hooks,
            "values": values,
            "guards": self.guards(),
            "tools": self.tools(),
            "files": self.pins.paths().collect::<Vec<_>>(),
            "changes": changes,
        })
    }
}

/// What a hook may start besides, in a line each.
fn open(hook: &Hook, starts: &Starts) -> Vec<String> {
    let mut lines = Vec::new();
    match &hook.action {
        // It runs that command in their place.
        Action::BuiltIn(_, own) if own.contains_key("command") => {}
        Action::BuiltIn(built_in, _) if runs_tools(built_in) => {
            lines.push(format!("starts the tools of the project: {UNASKED}"));
        }
        Action::BuiltIn(built_in, _) if built_in.starts_project_tools => {
            lines.push(format!(
                "runs git, which starts what this repository's settings name: {UNASKED}"
            ));
        }
        _ => {}
    }
    if !starts.runners.is_empty() {
        let names = starts.runners.join(", ");
        lines.push(format!(
            "may start what other files say ({names}): {UNASKED}"
        ));
    }
    if !starts.unknown.is_empty() {
        let unknown = starts.unknown.join(" and ");
        lines.push(format!("has {unknown} in it, which cannot be followed"));
    }
    lines
}

/// Those of the language, not git.
fn runs_tools(built_in: &BuiltIn) -> bool {
    built_in.starts_project_tools && built_in.keys.contains(&"command")
}

fn program_of(value: &toml::Value) -> Option<Program> {
    match value {
        toml::Value::String(line) => Some(Program::Shell(line.clone())),
        toml::Value::Array(list) => {
            let words = list.iter().filter_map(toml::Value::as_str);
            Some(Program::List(words.map(str::to_owned).collect()))
        }
        _ => None,
    }
}

fn events(hook: &Hook) -> String {
    let on: Vec<&str> = hook.on.iter().map(EventName::as_str).collect();
    inert(&on.join(", "))
}
