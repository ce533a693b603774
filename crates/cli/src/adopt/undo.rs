//! Gives adopted hooks back: the settings first, then the config, so that a hook that is given back
//! may run twice for a moment, and is never lost.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use becket_engine::replace::{self, Attempt, Snapshot};

use super::apply::Change;
use super::table::{cut, names};
use crate::adopt::apply::{self, Record};
use crate::settings::{self, Backup, Scope, put_back, unreadable, unwritable};
use crate::world::World;

const MAX_ATTEMPTS: usize = 20;
const MAX_CONFIG: u64 = 1 << 20;

/// What was given back to one settings file.
#[derive(Debug)]
pub struct Undone {
    pub scope: Scope,
    pub settings: Change,
    /// The settings were not changed since: they are what they were, to the last byte.
    pub exact: bool,
    /// How many entries were put back.
    pub entries: usize,
    pub config: Option<Change>,
    /// Tables that were changed since: they stay.
    pub left: Vec<String>,
}

/// Takes back every adoption from the settings files that concern a session started here.
pub fn undo(world: &World, dry_run: bool) -> Result<Vec<Undone>> {
    let lock = if dry_run {
        None
    } else {
        Some(settings::take_lock(world)?)
    };
    let mut undone = Vec::new();
    // The other way round: the one that made a folder finds it empty.
    for file in settings::files(world).into_iter().rev() {
        let path = replace::resolve(&file.path).unwrap_or_else(|_| file.path.clone());
        let records = apply::all(&world.place, &path);
        if file.scope == Scope::Managed || records.is_empty() {
            continue;
        }
        undone.push(give_back(file.scope, &file.path, &records, dry_run)?);
        if !dry_run {
            for (path, _) in &records {
                apply::forget(path)?;
            }
        }
    }
    drop(lock);
    Ok(undone)
}

fn give_back(
    scope: Scope,
    file: &Path,
    records: &[(PathBuf, Record)],
    dry_run: bool,
) -> Result<Undone> {
    for _ in 0..MAX_ATTEMPTS {
        let snapshot = settings::snapshot(file)?;
        let before = settings::text_of(&snapshot)?;
        let (after, exact) = settings_before(before.as_deref(), records)
            .map_err(|error| unreadable(file, &error))?;
        let mut change = Change {
            file: snapshot.path().to_path_buf(),
            before,
            after,
            backup: None,
        };
        // What cannot be done to the config is found before the settings are written.
        let config = plan_config(records)?;
        if !dry_run && write(&snapshot, &mut change, exact, scope.modes())? == Attempt::Conflict {
            continue;
        }
        let config = match config {
            Some(planned) if dry_run => Some(planned),
            Some(_) => Some(write_config(records, scope.modes())?),
            None => None,
        };
        let (config, left) =
            config.map_or((None, Vec::new()), |(config, left)| (Some(config), left));
        let entries = records.iter().map(|(_, record)| record.entries.len());
        return Ok(Undone {
            scope,
            settings: change,
            exact,
            entries: entries.sum(),
            config,
            left,
        });
    }
    Err(settings::keeps_changing(file))
}

/// The settings as they were, newest adoption first; and whether they are unchanged since.
fn settings_before(
    text: Option<&str>,
    records: &[(PathBuf, Record)],
) -> Result<(Option<String>, bool), settings::SettingsError> {
    let mut text = text.map(str::to_owned);
    let mut exact = true;
    for (_, record) in records.iter().rev() {
        if text.as_ref() == Some(&record.written) {
            text = Some(record.before.clone());
        } else if let Some(without_us) = &record.without_us
            && text == without_us.written
        {
            text.clone_from(&without_us.before);
        } else if text.as_ref() != Some(&record.before) {
            exact = false;
            if !record.entries.is_empty() {
                text = Some(put_back(&text.unwrap_or_default(), &record.entries)?);
            }
        }
    }
    Ok((text, exact))
}

fn write(
    snapshot: &Snapshot,
    change: &mut Change,
    exact: bool,
    (folder_mode, mode): (u32, u32),
) -> Result<Attempt> {
    let failed = |error| unwritable(snapshot.path(), &error);
    let Some(after) = change.after.as_ref().filter(|_| change.changed()) else {
        return Ok(Attempt::Done);
    };
    if snapshot.is_read_only() {
        return Err(failed(ErrorKind::PermissionDenied.into()));
    }
    replace::make_folder(snapshot.folder(), folder_mode).map_err(failed)?;
    let backup = match exact {
        true => None,
        false => Backup::make(snapshot).map_err(failed)?,
    };
    let attempt = snapshot.replace(after.as_bytes(), mode);
    if matches!(attempt, Ok(Attempt::Done)) {
        change.backup = backup.map(Backup::keep);
    } else {
        backup.into_iter().for_each(Backup::take_back);
    }
    attempt.map_err(failed)
}

type Planned = (Change, Vec<String>);

/// The config without the tables that stand there as they were written, and the names of those that
/// do not.
fn plan_config(records: &[(PathBuf, Record)]) -> Result<Option<Planned>> {
    let Some((_, file)) = newest(records) else {
        return Ok(None);
    };
    let failed = || format!("could not read {}", file.display());
    let snapshot = Snapshot::read(file, MAX_CONFIG).with_context(failed)?;
    let (change, left) = planned(&snapshot, records)?;
    if change.changed() && snapshot.is_read_only() {
        return Err(unwritable(file, &ErrorKind::PermissionDenied.into()));
    }
    Ok(Some((change, left)))
}

fn newest(records: &[(PathBuf, Record)]) -> Option<(&apply::Config, &Path)> {
    let configs = records.iter().rev().map(|(_, record)| &record.config);
    configs
        .flatten()
        .map(|config| (config, &*config.file))
        .next()
}

fn planned(snapshot: &Snapshot, records: &[(PathBuf, Record)]) -> Result<Planned> {
    let file = snapshot.path();
    let text = snapshot.bytes().map(str::from_utf8).transpose();
    let before = text.with_context(|| format!("could not read {}", file.display()))?;
    let mut text = before.map(str::to_owned);
    let mut left = Vec::new();
    for config in records
        .iter()
        .rev()
        .filter_map(|(_, record)| record.config.as_ref())
    {
        if text.as_ref() == Some(&config.written) {
            text.clone_from(&config.before);
            continue;
        }
        for block in config.blocks.iter().rev() {
            let Some(now) = &text else { continue };
            match cut(now, block) {
                Some(rest) => text = Some(rest),
                None if names(now, &block.name) => left.push(block.name.clone()),
                None => {}
            }
        }
        let is_bare = text.as_ref().is_some_and(|text| text.trim().is_empty());
        if config.before.is_none() && is_bare {
            text = None;
        }
    }
    let change = Change {
        file: file.to_path_buf(),
        before: before.map(str::to_owned),
        after: text,
        backup: None,
    };
    Ok((change, left))
}

fn write_config(records: &[(PathBuf, Record)], (_, mode): (u32, u32)) -> Result<Planned> {
    let (_, file) = newest(records).context("no config was written")?;
    let failed = |error| unwritable(file, &error);
    for _ in 0..MAX_ATTEMPTS {
        let snapshot = Snapshot::read(file, MAX_CONFIG).map_err(failed)?;
        let (change, left) = planned(&snapshot, records)?;
        if !change.changed() {
            return Ok((change, left));
        }
        if snapshot.is_read_only() {
            return Err(failed(ErrorKind::PermissionDenied.into()));
        }
        let attempt = match &change.after {
            Some(after) => snapshot.replace(after.as_bytes(), mode),
            None => snapshot.remove(),
        };
        if attempt.map_err(failed)? == Attempt::Conflict {
            continue;
        }
        let configs = records
            .iter()
            .filter_map(|(_, record)| record.config.as_ref());
        if change.after.is_none() && configs.into_iter().any(|config| config.made_folder) {
            // It stays if anything is in it.
            drop(fs::remove_dir(snapshot.folder()));
        }
        return Ok((change, left));
    }
    Err(settings::keeps_changing(file))
}
