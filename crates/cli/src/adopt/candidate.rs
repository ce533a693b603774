//! Entries become candidates for named hooks. The same command is one hook where it can be, and never
//! runs twice where Claude Code ran it once.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use becket_engine::hooks::builtin::BuiltIn;
use becket_engine::process::Program;
use becket_engine::trust::names_project_file;

use crate::adopt::parsed_entry::{ParsedEntry, union};
use crate::settings::{ForeignEntry, SettingsScope};

/// A hook as it would be in becket's config, and the entries that it comes from.
#[derive(Debug, Clone)]
pub struct HookCandidate {
    pub name: String,
    pub scope: SettingsScope,
    pub on: Vec<String>,
    pub tools: Option<String>,
    pub program: Program,
    pub timeout: Option<Duration>,
    pub is_async: bool,
    pub notes: Vec<&'static str>,
    pub entries: Vec<ForeignEntry>,
    /// The reason why the hook stays where it is.
    pub obstacle: Option<Obstacle>,
    /// True if the config has the same hook already: an adoption broke off between two files.
    pub is_written: bool,
    /// The built-in hook of the name that the command names.
    pub built_in: Option<&'static BuiltIn>,
    /// True if the built-in hook takes the place of the command.
    pub takes_built_in: bool,
}

/// The reason why a hook cannot be adopted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Obstacle {
    /// becket could never run the hook as Claude Code does.
    Unsupported(String),
    /// The hook would not run: becket is not registered for its events.
    Unregistered(String),
}

impl Obstacle {
    pub fn text(&self) -> &str {
        match self {
            Self::Unsupported(text) | Self::Unregistered(text) => text,
        }
    }
}

/// One entry of a settings file and its translation.
#[derive(Debug, Clone)]
pub struct ScopedEntry {
    pub scope: SettingsScope,
    pub entry: ForeignEntry,
    /// The error is the reason why becket cannot run the entry.
    pub parsed: Result<ParsedEntry, String>,
}

impl HookCandidate {
    fn of(parsed: ParsedEntry, scope: SettingsScope, entries: Vec<ForeignEntry>) -> Self {
        Self {
            name: String::new(),
            scope,
            on: vec![parsed.event],
            tools: parsed.tools,
            program: parsed.program,
            timeout: parsed.timeout,
            is_async: parsed.is_async,
            notes: parsed.notes,
            entries,
            obstacle: None,
            is_written: false,
            built_in: None,
            takes_built_in: false,
        }
    }

    /// Returns true if the hook can never be adopted.
    pub fn is_unsupported(&self) -> bool {
        matches!(self.obstacle, Some(Obstacle::Unsupported(_)))
    }

    /// Takes becket's built-in hook in place of the command. `is_written` is true if the config names
    /// it already.
    pub fn take_built_in(&mut self, built_in: &'static BuiltIn, is_written: bool) {
        self.name = built_in.name.to_owned();
        self.on = built_in.on.iter().map(ToString::to_string).collect();
        self.is_async = false;
        self.is_written = is_written;
        self.takes_built_in = true;
    }

    /// Returns the reason why the hook runs only in trusted projects, if it does.
    pub fn trust_note(&self, project: &Path) -> Option<&'static str> {
        match self.scope {
            SettingsScope::User if self.takes_built_in => {
                self.built_in
                    .filter(|built_in| built_in.starts_project_tools)?;
                Some("starts the project's own tools, so it runs only where you trust the project")
            }
            SettingsScope::User if names_project_file(&self.program, project) => Some(
                "starts a file of the session's project, so it runs only where you trust the project",
            ),
            SettingsScope::User => None,
            SettingsScope::Project | SettingsScope::Local | SettingsScope::Managed => {
                Some("is this project's, and does not run until `becket trust`")
            }
        }
    }

    /// Returns true if both would be the same hook, each in its file.
    pub fn is_like(&self, other: &Self) -> bool {
        self.program == other.program
            && (&self.tools, self.timeout, self.is_async)
                == (&other.tools, other.timeout, other.is_async)
            && BTreeSet::from_iter(&self.on) == BTreeSet::from_iter(&other.on)
    }
}

/// Returns the hooks that these entries make, without names yet, in the order of the files.
pub fn candidates(entries: &[ScopedEntry]) -> Vec<HookCandidate> {
    let mut hooks: Vec<HookCandidate> = Vec::new();
    for (parsed, scope, entries) in merge_events(entries) {
        let same = hooks.iter_mut().find(|hook| {
            (hook.scope, &hook.program) == (scope, &parsed.program)
                && (&hook.tools, hook.timeout, hook.is_async)
                    == (&parsed.tools, parsed.timeout, parsed.is_async)
        });
        let Some(hook) = same else {
            hooks.push(HookCandidate::of(parsed, scope, entries));
            continue;
        };
        hook.on.push(parsed.event);
        hook.entries.extend(entries);
        add_notes(&mut hook.notes, &parsed.notes);
    }
    for nth in 0..hooks.len() {
        if runs_twice(&hooks[nth], &hooks, entries) {
            let reason = "the same command is registered twice, with different options: Claude Code runs it once, becket would run it twice";
            hooks[nth].obstacle = Some(Obstacle::Unsupported(reason.to_owned()));
        }
    }
    hooks
}

/// Merges the entries of the same command and event of a file: Claude Code runs such a command once.
fn merge_events(entries: &[ScopedEntry]) -> Vec<(ParsedEntry, SettingsScope, Vec<ForeignEntry>)> {
    let mut events: Vec<(ParsedEntry, SettingsScope, Vec<ForeignEntry>)> = Vec::new();
    for one in entries {
        let Ok(parsed) = &one.parsed else { continue };
        let known = events.iter_mut().find(|(known, scope, _)| {
            (*scope, &known.event, &known.program) == (one.scope, &parsed.event, &parsed.program)
        });
        let Some((known, _, entries)) = known else {
            events.push((parsed.clone(), one.scope, vec![one.entry.clone()]));
            continue;
        };
        known.tools = union(known.tools.as_deref(), parsed.tools.as_deref());
        let timeouts = known.timeout.zip(parsed.timeout);
        known.timeout = timeouts.map(|(one, other)| one.max(other));
        known.is_async &= parsed.is_async;
        add_notes(&mut known.notes, &parsed.notes);
        entries.push(one.entry.clone());
    }
    events
}

fn add_notes(notes: &mut Vec<&'static str>, more: &[&'static str]) {
    for note in more {
        if !notes.contains(note) {
            notes.push(note);
        }
    }
}

/// Returns true if the command is also in an entry that stays, or would become another hook too.
fn runs_twice(hook: &HookCandidate, hooks: &[HookCandidate], entries: &[ScopedEntry]) -> bool {
    let commands: Vec<_> = hook.entries.iter().map(command_of).collect();
    let stays = entries.iter().any(|one| {
        one.parsed.is_err()
            && hook.on.contains(&one.entry.event)
            && commands.contains(&command_of(&one.entry))
    });
    stays
        || hooks.iter().any(|other| {
            other.scope != hook.scope
                && other.program == hook.program
                && other.on.iter().any(|event| hook.on.contains(event))
                && !other.is_like(hook)
        })
}

/// Returns the fields by which Claude Code tells commands apart.
fn command_of(entry: &ForeignEntry) -> (Option<&str>, Option<&serde_json::Value>) {
    (entry.value["command"].as_str(), entry.value.get("args"))
}
