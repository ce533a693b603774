//! The slash commands as files of Claude Code's: put there by `init`, taken back by `uninit`. A file
//! says itself whether it is still what we wrote, so nothing has to be remembered of it.

mod file;
#[cfg(test)]
mod tests;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use becket_engine::replace::{self, Attempt, Snapshot};

use crate::settings::{self, Scope};
use crate::world::{World, project_of};
use file::{Call, Written, end};

const LARGEST: u64 = 1 << 20;
const ATTEMPTS: usize = 20;

/// One file of ours, and what was done about it, or would be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    pub path: PathBuf,
    pub before: Option<String>,
    /// None: the file is gone.
    pub after: Option<String>,
    /// A person had it before us or changed it since: it stays as it is.
    pub left_alone: bool,
}

impl Command {
    pub fn changed(&self) -> bool {
        self.before != self.after
    }
}

/// Writes the files. With `dry_run` it only says what it would do.
pub fn install(world: &World, scope: Scope, dry_run: bool) -> Result<Vec<Command>> {
    let folder = folder(world, scope)?;
    let earlier = written(&folder);
    let first = earlier.first();
    let call = Call::of(world, scope);
    let end = first.map_or_else(end, |file| file.end.clone());
    let made = first.map_or_else(|| missing(&folder), |file| file.made);
    let mut commands = Vec::new();
    for (name, template) in file::TEMPLATES {
        let path = folder.join(name);
        let wanted = Written {
            end: end.clone(),
            made,
        };
        let plan = |before: Option<&str>| match before {
            Some(text) if Written::read(text).is_none() => None,
            _ => Some(Some(wanted.render(template, &call))),
        };
        commands.push(edit(&path, scope, dry_run, plan)?);
    }
    Ok(commands)
}

/// Takes back what `install` wrote and nobody has changed.
pub fn take_back(world: &World, scope: Scope, dry_run: bool) -> Result<Vec<Command>> {
    let folder = folder(world, scope)?;
    if is_needed(world, scope) {
        return Ok(Vec::new());
    }
    let made = written(&folder).iter().map(|file| file.made).max();
    let mut commands = Vec::new();
    for (name, _) in file::TEMPLATES {
        let path = folder.join(name);
        let plan = |before: Option<&str>| match before {
            Some(text) if Written::read(text).is_some() => Some(None),
            _ => None,
        };
        commands.push(edit(&path, scope, dry_run, plan)?);
    }
    if !dry_run {
        for folder in folder.ancestors().take(made.unwrap_or(0)) {
            // It stays if anything is in it.
            if fs::remove_dir(folder).is_err() {
                break;
            }
        }
    }
    commands.retain(|command| command.before.is_some());
    Ok(commands)
}

fn folder(world: &World, scope: Scope) -> Result<PathBuf> {
    let settings = match scope {
        // Claude Code has no commands for one person in one project.
        Scope::Local => project_of(&world.cwd).join(".claude"),
        _ => {
            let file = scope.file(world)?;
            file.parent().unwrap_or(Path::new("/")).to_path_buf()
        }
    };
    Ok(settings.join("commands").join("hook"))
}

/// The project's and the person's own settings for it share one folder of commands.
fn is_needed(world: &World, scope: Scope) -> bool {
    let other = match scope {
        Scope::Project => Scope::Local,
        Scope::Local => Scope::Project,
        _ => return false,
    };
    let text = other.file(world).and_then(|file| settings::read(&file));
    text.is_ok_and(|text| text.is_some_and(|text| text.contains("becket-hook")))
}

/// What our files in this folder say of themselves.
fn written(folder: &Path) -> Vec<Written> {
    let read = |name: &str| {
        let text = fs::read_to_string(folder.join(name)).ok()?;
        Written::read(&text)
    };
    let names = file::TEMPLATES.iter();
    names.filter_map(|(name, _)| read(name)).collect()
}

/// How many folders will have to be made, the innermost first.
fn missing(folder: &Path) -> usize {
    folder
        .ancestors()
        .take(3)
        .take_while(|folder| !folder.exists())
        .count()
}

/// Makes a file what `plan` says, as often as it takes. None: it is not ours to change.
fn edit(
    path: &Path,
    scope: Scope,
    dry_run: bool,
    plan: impl Fn(Option<&str>) -> Option<Option<String>>,
) -> Result<Command> {
    let failed = || format!("could not write {}", path.display());
    for _ in 0..ATTEMPTS {
        let snapshot = Snapshot::read(path, LARGEST).with_context(failed)?;
        let bytes = snapshot.bytes();
        let before = bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        let planned = plan(before.as_deref());
        let command = Command {
            path: path.to_path_buf(),
            left_alone: planned.is_none() && before.is_some(),
            after: planned.unwrap_or_else(|| before.clone()),
            before,
        };
        if dry_run || !command.changed() {
            return Ok(command);
        }
        let (folder_mode, mode) = scope.modes();
        replace::make_folder(snapshot.folder(), folder_mode).with_context(failed)?;
        let attempt = match &command.after {
            Some(after) => snapshot.replace(after.as_bytes(), mode),
            None => snapshot.remove(),
        };
        if attempt.with_context(failed)? == Attempt::Done {
            return Ok(command);
        }
    }
    anyhow::bail!("{} keeps changing", path.display())
}
