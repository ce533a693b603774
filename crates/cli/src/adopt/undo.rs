//! Gives adopted hooks back: first to the settings, then out of the config, so that a hook may run
//! twice for a moment and is never lost.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::adopt::config_table::{cut, names_hook};
use crate::adopt::record::{AdoptionRecord, ConfigRecord, records_of};
use crate::settings::{
    self, FileChange, SettingsScope, check_writable, put_back, remove_record, retry, unreadable,
};
use crate::world::World;

/// The hooks that were given back to one settings file, or would be in a dry run.
#[derive(Debug)]
pub struct UndoneAdoption {
    pub scope: SettingsScope,
    pub settings: FileChange,
    /// True if the settings were not changed since, so that they are restored to the last byte.
    pub exact: bool,
    /// The number of entries that were put back.
    pub entries: usize,
    pub config: Option<FileChange>,
    /// The names of the tables that were changed since and therefore stay.
    pub left: Vec<String>,
}

/// Undoes every adoption from the settings files that concern a session started here.
pub fn undo(world: &World, dry_run: bool) -> Result<Vec<UndoneAdoption>> {
    let _lock = settings::take_lock(world, dry_run)?;
    let mut undone = Vec::new();
    // In reverse order, the adoption that made a folder finds it empty.
    for file in settings::files(world).into_iter().rev() {
        let records = records_of(&world.place, &settings::real_path(&file.path));
        if file.scope == SettingsScope::Managed || records.is_empty() {
            continue;
        }
        let (paths, records): (Vec<PathBuf>, Vec<AdoptionRecord>) = records.into_iter().unzip();
        undone.push(give_back(file.scope, &file.path, &records, dry_run)?);
        if !dry_run {
            for path in paths {
                remove_record(&path)?;
            }
        }
    }
    Ok(undone)
}

fn give_back(
    scope: SettingsScope,
    file: &Path,
    records: &[AdoptionRecord],
    dry_run: bool,
) -> Result<UndoneAdoption> {
    let configs: Vec<_> = records.iter().filter_map(|it| it.config.as_ref()).collect();
    retry(file, || {
        let snapshot = settings::snapshot(file)?;
        let before = settings::text_of(&snapshot)?;
        let (after, exact) = settings_before(before.as_deref(), records)
            .map_err(|error| unreadable(file, &error))?;
        let mut change = FileChange::new(&snapshot, before, after);
        // An error in the config is found before the settings are written.
        let mut config = give_back_config(&configs, scope, true)?;
        if !dry_run {
            if !change.write(&snapshot, scope, !exact)? {
                return Ok(None);
            }
            config = give_back_config(&configs, scope, false)?;
        }
        let (config, left) = config.unzip();
        Ok(Some(UndoneAdoption {
            scope,
            settings: change,
            exact,
            entries: records.iter().map(|record| record.entries.len()).sum(),
            config,
            left: left.unwrap_or_default(),
        }))
    })
}

/// Returns the settings before the adoptions, and true if they are unchanged since.
fn settings_before(
    text: Option<&str>,
    records: &[AdoptionRecord],
) -> Result<(Option<String>, bool), settings::SettingsError> {
    let mut text = text.map(str::to_owned);
    let mut exact = true;
    for record in records.iter().rev() {
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

/// Removes the tables of the adoptions from the config. Returns the change and the names of the tables
/// that stay, or `None` if there was no config. With `dry_run` nothing is written.
fn give_back_config(
    configs: &[&ConfigRecord],
    scope: SettingsScope,
    dry_run: bool,
) -> Result<Option<(FileChange, Vec<String>)>> {
    let Some(newest) = configs.last() else {
        return Ok(None);
    };
    let file = &newest.file;
    retry(file, || {
        let snapshot = settings::snapshot(file)?;
        let before = settings::text_of(&snapshot)?;
        let (after, left) = config_before(before.clone(), configs);
        let mut change = FileChange::new(&snapshot, before, after);
        if change.changed() {
            check_writable(&snapshot)?;
        }
        if !dry_run {
            if !change.write(&snapshot, scope, false)? {
                return Ok(None);
            }
            let is_removed = change.changed() && change.after.is_none();
            if is_removed && configs.iter().any(|config| config.made_folder) {
                // The folder stays if anything is in it.
                drop(fs::remove_dir(snapshot.folder()));
            }
        }
        Ok(Some(Some((change, left))))
    })
}

/// Returns the config before the adoptions, and the names of the tables that were changed since and
/// therefore stay.
fn config_before(
    mut text: Option<String>,
    configs: &[&ConfigRecord],
) -> (Option<String>, Vec<String>) {
    let mut left = Vec::new();
    for config in configs.iter().rev() {
        if text.as_ref() == Some(&config.written) {
            text.clone_from(&config.before);
            continue;
        }
        for table in config.tables.iter().rev() {
            let Some(now) = &text else { continue };
            match cut(now, table) {
                Some(rest) => text = Some(rest),
                None if names_hook(now, &table.name) => left.push(table.name.clone()),
                None => {}
            }
        }
        let is_bare = text.as_ref().is_some_and(|text| text.trim().is_empty());
        if config.before.is_none() && is_bare {
            text = None;
        }
    }
    (text, left)
}
