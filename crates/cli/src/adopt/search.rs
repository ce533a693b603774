//! Finds the hooks in the settings files that concern a session started here.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;
use becket_engine::hooks::builtin::BUILT_INS;
use becket_engine::replace;

use crate::adopt::candidate::{HookCandidate, Obstacle, ScopedEntry, candidates};
use crate::adopt::config_table::{self, is_equal};
use crate::adopt::naming::name_all;
use crate::adopt::parsed_entry::ParsedEntry;
use crate::settings::{
    self, EntryState, ForeignEntry, Inspection, SettingsFile, SettingsScope, Strict, inspect,
    unreadable,
};
use crate::world::{World, project_of};

/// The hooks of all settings files that are not becket's.
#[derive(Debug, Default)]
pub struct ForeignHooks {
    pub hooks: Vec<HookCandidate>,
    pub unsupported: Vec<UnsupportedEntry>,
    pub files: Vec<InspectedFile>,
    /// The project of the working folder.
    pub project: PathBuf,
}

/// An entry that becket could never run.
#[derive(Debug)]
pub struct UnsupportedEntry {
    pub scope: SettingsScope,
    pub entry: ForeignEntry,
    pub reason: String,
}

/// A settings file that exists, and becket's part of it.
#[derive(Debug)]
pub struct InspectedFile {
    pub scope: SettingsScope,
    pub path: PathBuf,
    pub inspection: Inspection,
}

impl ForeignHooks {
    pub fn file(&self, scope: SettingsScope) -> Option<&Path> {
        let file = self.files.iter().find(|file| file.scope == scope);
        file.map(|file| &*file.path)
    }

    pub fn is_empty(&self) -> bool {
        self.hooks.is_empty() && self.unsupported.is_empty()
    }

    /// Takes becket's built-in hooks in place of the hooks of these names, where it has one.
    pub fn take_built_ins(&mut self, world: &World, names: &mut BTreeSet<String>) {
        let mut written: BTreeSet<(SettingsScope, &str)> = BTreeSet::new();
        for hook in &mut self.hooks {
            let Some(built_in) = hook.built_in.filter(|_| names.remove(&hook.name)) else {
                continue;
            };
            let text = fs::read_to_string(config_of(world, hook.scope)).unwrap_or_default();
            let is_new = written.insert((hook.scope, built_in.name));
            let is_written = !is_new || config_table::names_hook(&text, built_in.name);
            hook.take_built_in(built_in, is_written);
            names.insert(hook.name.clone());
        }
    }

    /// Returns the names of the built-in hooks that could take the place of others.
    pub fn built_ins<'a>(&self, among: impl Iterator<Item = &'a HookCandidate>) -> String {
        let built_ins = among.filter_map(|hook| hook.built_in);
        let names: BTreeSet<&str> = built_ins.map(|built_in| built_in.name).collect();
        Vec::from_iter(names).join(", ")
    }

    /// Returns the events that becket receives for hooks of that scope.
    fn received_events(&self, scope: SettingsScope) -> BTreeSet<&str> {
        let files = self.files.iter().filter(|file| match scope {
            SettingsScope::Project | SettingsScope::Local => file.scope != SettingsScope::Managed,
            SettingsScope::User | SettingsScope::Managed => file.scope == SettingsScope::User,
        });
        let entries = files.flat_map(|file| &file.inspection.entries);
        let found = entries.filter(|entry| entry.state == EntryState::Found);
        found.map(|entry| entry.event).collect()
    }

    /// Returns an obstacle if becket does not receive an event of a hook, which would then never run.
    fn unregistered_event(&self, hook: &HookCandidate) -> Option<Obstacle> {
        let received = self.received_events(hook.scope);
        let event = hook.on.iter().find(|event| !received.contains(&***event))?;
        let place = match hook.scope {
            SettingsScope::User | SettingsScope::Managed => "your own settings",
            SettingsScope::Project | SettingsScope::Local => "the settings of this folder",
        };
        let text = format!("becket is not registered for {event} in {place}");
        Some(Obstacle::Unregistered(text))
    }
}

/// Returns the config file into which hooks of that scope go.
pub fn config_of(world: &World, scope: SettingsScope) -> PathBuf {
    let project = project_of(&world.cwd).join(".becket");
    match scope {
        SettingsScope::User | SettingsScope::Managed => world.place.config(),
        SettingsScope::Project => project.join("config.toml"),
        SettingsScope::Local => project.join("local.toml"),
    }
}

/// Finds the hooks in every settings file. One that cannot be read is an error: it might hold the
/// same hooks as another one.
pub fn find_hooks(world: &World) -> Result<ForeignHooks> {
    let registration = settings::registration_of(world, Strict::Keep)?;
    let mut found = ForeignHooks {
        project: project_of(&world.cwd).to_path_buf(),
        ..ForeignHooks::default()
    };
    let mut all = Vec::new();
    let mut paths = BTreeSet::new();
    for SettingsFile { scope, path } in settings::files(world) {
        // Two paths may name one file.
        if !paths.insert(settings::real_path(&path)) {
            continue;
        }
        let text = match settings::read(&path) {
            Ok(Some(text)) => text,
            Ok(None) => continue,
            Err(_) if scope == SettingsScope::Managed => continue,
            Err(error) => return Err(error),
        };
        let inspected = inspect(&text, &registration);
        let inspection = inspected.map_err(|error| unreadable(&path, &error))?;
        let entries = settings::foreign(&text).map_err(|error| unreadable(&path, &error))?;
        all.extend(entries.into_iter().map(|entry| ScopedEntry {
            scope,
            parsed: parse(world, scope, &entry),
            entry,
        }));
        found.files.push(InspectedFile {
            scope,
            path,
            inspection,
        });
    }
    found.hooks = candidates(&all);
    name_hooks(world, &mut found.hooks);
    for nth in 0..found.hooks.len() {
        if found.hooks[nth].obstacle.is_none() {
            found.hooks[nth].obstacle = found.unregistered_event(&found.hooks[nth]);
        }
    }
    let unsupported = all.into_iter().filter_map(|one| {
        Some(UnsupportedEntry {
            scope: one.scope,
            entry: one.entry,
            reason: one.parsed.err()?,
        })
    });
    found.unsupported = unsupported.collect();
    Ok(found)
}

fn parse(world: &World, scope: SettingsScope, entry: &ForeignEntry) -> Result<ParsedEntry, String> {
    if scope == SettingsScope::Managed {
        return Err("managed settings are not yours to change".to_owned());
    }
    if scope != SettingsScope::User
        && folder_of(&config_of(world, scope)) == folder_of(&world.place.config())
    {
        return Err("this folder is becket's home, not a project".to_owned());
    }
    if entry.event == "WorktreeCreate" {
        return Err(
            "a hook on WorktreeCreate replaces git, so becket does not take it over".to_owned(),
        );
    }
    if !settings::REGISTERED.contains(&&*entry.event) {
        return Err(format!("becket does not register {}", entry.event));
    }
    ParsedEntry::parse(entry)
}

/// Returns the folder of a file after all links.
fn folder_of(file: &Path) -> Option<PathBuf> {
    let file = replace::resolve(file).ok()?;
    file.parent().map(Path::to_path_buf)
}

/// Gives the hooks names that no config and no built-in hook has.
fn name_hooks(world: &World, hooks: &mut [HookCandidate]) {
    let scopes = [
        SettingsScope::User,
        SettingsScope::Project,
        SettingsScope::Local,
    ];
    let written = scopes.map(|scope| {
        let text = fs::read_to_string(config_of(world, scope)).unwrap_or_default();
        (scope, config_table::hooks(&text))
    });
    let configured = settings::named_hooks(world);
    let mut taken: BTreeSet<String> = BUILT_INS.iter().map(|hook| hook.name.to_owned()).collect();
    taken.extend(configured.iter().map(|hook| hook.name.clone()));
    taken.extend(written.iter().flat_map(|(_, hooks)| hooks.keys().cloned()));
    name_all(hooks, &taken, |hook| {
        let (_, tables) = written.iter().find(|(scope, _)| *scope == hook.scope)?;
        let mut tables = tables.iter();
        let (name, _) = tables.find(|(_, table)| {
            let table = table.as_table();
            table.is_some_and(|table| is_equal(table, hook))
        })?;
        Some(name.clone())
    });
}
