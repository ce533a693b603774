//! What stands in the settings files that concern a session started here.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;
use becket_engine::hooks::builtin::BUILT_INS;
use becket_engine::replace;

use super::named::{Named, Read, Why, hooks, name_all};
use super::table::{self, says};
use super::wish::Wish;
use crate::settings::{
    self, Foreign, Inspection, Scope, SettingsFile, State, Strict, inspect, unreadable,
};
use crate::world::{World, project_of};

/// The foreign hooks of all settings files.
#[derive(Debug, Default)]
pub struct Found {
    /// Those that could be named.
    pub hooks: Vec<Named>,
    /// Those that becket could never run, and why.
    pub others: Vec<(Scope, Foreign, String)>,
    pub files: Vec<File>,
    /// The project that it was asked in.
    pub here: PathBuf,
}

/// A settings file that is there.
#[derive(Debug)]
pub struct File {
    pub scope: Scope,
    pub path: PathBuf,
    /// What it says about becket.
    pub inspection: Inspection,
}

impl Found {
    pub fn file(&self, scope: Scope) -> Option<&Path> {
        let file = self.files.iter().find(|file| file.scope == scope);
        file.map(|file| &*file.path)
    }

    pub fn is_empty(&self) -> bool {
        self.hooks.is_empty() && self.others.is_empty()
    }

    /// The events of which becket hears for hooks of that scope.
    fn heard(&self, scope: Scope) -> BTreeSet<&str> {
        let counts = |file: &&File| match scope {
            Scope::Project | Scope::Local => file.scope != Scope::Managed,
            Scope::User | Scope::Managed => file.scope == Scope::User,
        };
        let entries = self.files.iter().filter(counts);
        let entries = entries.flat_map(|file| &file.inspection.entries);
        let found = entries.filter(|entry| entry.state == State::Found);
        found.map(|entry| entry.event).collect()
    }
}

/// The config file into which hooks of that scope go.
pub fn config_of(world: &World, scope: Scope) -> PathBuf {
    let project = project_of(&world.cwd).join(".becket");
    match scope {
        Scope::User | Scope::Managed => world.place.config(),
        Scope::Project => project.join("config.toml"),
        Scope::Local => project.join("local.toml"),
    }
}

/// Reads every settings file. One that cannot be read is an error: what stands in it might be what
/// stands in another.
pub fn look(world: &World) -> Result<Found> {
    let registration = settings::registration_of(world, Strict::Keep)?;
    let mut found = Found {
        here: project_of(&world.cwd).to_path_buf(),
        ..Found::default()
    };
    let mut read = Vec::new();
    let mut seen = BTreeSet::new();
    for SettingsFile { scope, path } in settings::files(world) {
        // Two names of one file.
        if !seen.insert(replace::resolve(&path).unwrap_or_else(|_| path.clone())) {
            continue;
        }
        let text = match settings::read(&path) {
            Ok(Some(text)) => text,
            Ok(None) => continue,
            Err(_) if scope == Scope::Managed => continue,
            Err(error) => return Err(error),
        };
        let broken = |error| unreadable(&path, &error);
        let inspection = inspect(&text, &registration).map_err(broken)?;
        let entries = settings::foreign(&text).map_err(broken)?;
        read.extend(entries.into_iter().map(|entry| Read {
            scope,
            wish: wish(world, scope, &entry),
            entry,
        }));
        found.files.push(File {
            scope,
            path,
            inspection,
        });
    }
    found.hooks = name(world, hooks(&read));
    for nth in 0..found.hooks.len() {
        found.hooks[nth].why = why(&found, &found.hooks[nth]);
    }
    let others = read.into_iter().filter_map(|read| {
        let why = read.wish.err()?;
        Some((read.scope, read.entry, why))
    });
    found.others = others.collect();
    Ok(found)
}

fn wish(world: &World, scope: Scope, entry: &Foreign) -> Result<Wish, String> {
    if scope == Scope::Managed {
        return Err("managed settings are not yours to change".to_owned());
    }
    let config = config_of(world, scope);
    let home = replace::resolve(&world.place.config()).ok();
    let home = home.as_deref().and_then(Path::parent);
    let folder = replace::resolve(&config).ok();
    if scope != Scope::User && folder.as_deref().and_then(Path::parent) == home {
        return Err("this folder is becket's home, and no project of its own".to_owned());
    }
    if entry.event == "WorktreeCreate" {
        return Err("a hook on WorktreeCreate replaces git: becket keeps away".to_owned());
    }
    let registered = |event: &str| settings::REGISTERED.iter().any(|one| one.event == event);
    if !registered(&entry.event) {
        return Err(format!("becket does not register {}", entry.event));
    }
    Wish::read(entry)
}

/// Gives names: none that a config has, and none of a built-in.
fn name(world: &World, mut hooks: Vec<Named>) -> Vec<Named> {
    let scopes = [Scope::User, Scope::Project, Scope::Local];
    let written = scopes.map(|scope| {
        let text = fs::read_to_string(config_of(world, scope)).unwrap_or_default();
        (scope, table::hooks(&text))
    });
    let named = settings::named_hooks(world);
    let configured = named.iter().map(|hook| hook.name.clone());
    let there = written.iter().flat_map(|(_, hooks)| hooks.keys().cloned());
    let built_in = BUILT_INS.iter().map(|hook| hook.name.to_owned());
    let taken = configured.chain(there).chain(built_in).collect();
    name_all(&mut hooks, &taken, |hook| {
        let (_, there) = written.iter().find(|(scope, _)| *scope == hook.scope)?;
        let same = |table: &toml::Value| table.as_table().is_some_and(|table| says(table, hook));
        let (name, _) = there.iter().find(|(_, table)| same(table))?;
        Some(name.clone())
    });
    hooks
}

/// A hook whose events do not reach becket would silently not run.
fn why(found: &Found, hook: &Named) -> Option<Why> {
    if hook.why.is_some() {
        return hook.why.clone();
    }
    let heard = found.heard(hook.scope);
    let event = hook.on.iter().find(|event| !heard.contains(&***event))?;
    let place = match hook.scope {
        Scope::User | Scope::Managed => "your own settings",
        Scope::Project | Scope::Local => "any settings that are read here",
    };
    let text = format!("becket is not registered for {event} in {place}");
    Some(Why::Unregistered(text))
}
