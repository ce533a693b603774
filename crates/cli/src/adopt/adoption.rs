//! Moves hooks: first into the config, then out of the settings. Each file is replaced as a whole, and
//! both are restored if another program writes one of them in between.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use becket_engine::replace::{Attempt, Snapshot};
use becket_wire::event::EventName;

use crate::adopt::candidate::HookCandidate;
use crate::adopt::config_table::{HookTable, append};
use crate::adopt::record::{AdoptionRecord, ConfigRecord, WithoutBecket};
use crate::adopt::search::{ForeignHooks, config_of};
use crate::failure::{Code, Failure};
use crate::settings::{
    self, FileChange, ForeignEntry, Registration, SettingsScope, Strict, newline, remove_record,
    unreadable,
};
use crate::world::World;

/// The hooks that were moved out of one settings file, or would be in a dry run.
#[derive(Debug)]
pub struct Adoption {
    pub scope: SettingsScope,
    pub names: Vec<String>,
    /// The names of the hooks that the config had already, with the same values.
    pub already_there: Vec<String>,
    pub settings: FileChange,
    pub config: Option<FileChange>,
}

impl Adoption {
    pub fn changes(&self) -> impl Iterator<Item = &FileChange> {
        self.config.iter().chain([&self.settings])
    }

    fn changed(&self) -> bool {
        self.changes().any(FileChange::changed)
    }
}

/// The hooks that are to be moved out of one settings file.
#[derive(Debug)]
pub(super) struct AdoptionPlan<'a> {
    scope: SettingsScope,
    file: PathBuf,
    hooks: Vec<&'a HookCandidate>,
    /// True if the file registers becket.
    registers: bool,
}

/// Moves hooks into the config. With `dry_run` nothing is written.
pub fn adopt(
    world: &World,
    found: &ForeignHooks,
    hooks: &[&HookCandidate],
    dry_run: bool,
) -> Result<Vec<Adoption>> {
    let _lock = settings::take_lock(world, dry_run)?;
    let mut registration = settings::registration_of(world, Strict::Keep)?;
    registration.synchronous.extend(answered_late_events(hooks));
    let plans = plans(found, hooks);
    // An error in any file is found before the first file is written.
    let mut adoptions = Vec::new();
    for plan in &plans {
        adoptions.push(prepare(world, plan, &registration)?.into_adoption(plan));
    }
    if !dry_run {
        adoptions.clear();
        for plan in &plans {
            let adoption = settings::retry(&plan.file, || {
                prepare(world, plan, &registration)?.commit(world, plan)
            });
            adoptions.push(adoption.with_context(|| {
                if adoptions.iter().any(Adoption::changed) {
                    "some hooks were moved already; `becket hooks adopt --undo` takes them back"
                } else {
                    "no hook was moved"
                }
            })?);
        }
    }
    adoptions.retain(Adoption::changed);
    Ok(adoptions)
}

/// Returns the events that Claude Code does not wait for and on which one of these hooks answers.
fn answered_late_events(hooks: &[&HookCandidate]) -> Vec<String> {
    let answering = hooks.iter().filter(|hook| !hook.is_async);
    let mut events: Vec<String> = answering.flat_map(|hook| hook.on.clone()).collect();
    events.retain(|event| EventName::from(&**event).comes_late());
    events
}

pub(super) fn plans<'a>(
    found: &ForeignHooks,
    hooks: &[&'a HookCandidate],
) -> Vec<AdoptionPlan<'a>> {
    let mut plans = Vec::new();
    for file in &found.files {
        let hooks = hooks.iter().filter(|hook| hook.scope == file.scope);
        let plan = AdoptionPlan {
            scope: file.scope,
            file: file.path.clone(),
            hooks: hooks.copied().collect(),
            registers: file.inspection.any(),
        };
        if plan.scope != SettingsScope::Managed && (plan.registers || !plan.hooks.is_empty()) {
            plans.push(plan);
        }
    }
    // Files that only register becket come last: doctor finds a hook that is not registered yet.
    plans.sort_by_key(|plan| plan.hooks.is_empty());
    plans
}

/// A settings file and a config file as they are and as they should be.
#[derive(Debug)]
pub(super) struct PreparedAdoption {
    snapshot: Snapshot,
    change: FileChange,
    entries: Vec<ForeignEntry>,
    config: Option<PreparedConfig>,
}

#[derive(Debug)]
struct PreparedConfig {
    snapshot: Snapshot,
    change: FileChange,
    /// The path before links are followed.
    asked: PathBuf,
    tables: Vec<HookTable>,
}

pub(super) fn prepare(
    world: &World,
    plan: &AdoptionPlan<'_>,
    registration: &Registration,
) -> Result<PreparedAdoption> {
    let snapshot = settings::snapshot(&plan.file)?;
    let before = settings::text_of(&snapshot)?.unwrap_or_default();
    let (after, entries) = settings_after(plan, &before, registration)?;
    let moves = !plan.hooks.is_empty();
    let config = moves.then(|| prepare_config(world, plan)).transpose()?;
    let change = FileChange::new(&snapshot, Some(before), Some(after));
    if change.changed() {
        settings::check_writable(&snapshot)?;
    }
    Ok(PreparedAdoption {
        change,
        snapshot,
        entries,
        config,
    })
}

/// Returns the settings without the hooks, and the entries that were taken out.
fn settings_after(
    plan: &AdoptionPlan<'_>,
    before: &str,
    registration: &Registration,
) -> Result<(String, Vec<ForeignEntry>)> {
    let broken = |error| unreadable(&plan.file, &error);
    let present = settings::foreign(before).map_err(broken)?;
    let mut entries: Vec<ForeignEntry> = Vec::new();
    for hook in &plan.hooks {
        for entry in &hook.entries {
            if !present.contains(entry) {
                return Err(changed_meanwhile(&plan.file, &hook.name));
            }
            entries.push(entry.clone());
        }
    }
    // `--undo` puts them back in the order of the file.
    entries.sort_by_key(|entry| present.iter().position(|one| one == entry));
    let mut after = settings::take_out(before, &entries).map_err(broken)?;
    if plan.registers {
        after = settings::make_synchronous(&after, registration).map_err(broken)?;
    }
    Ok((after, entries))
}

fn changed_meanwhile(file: &Path, name: &str) -> anyhow::Error {
    let file = file.display();
    let what = format!("{file} changed meanwhile: {name} is a different hook now");
    let hint = "look again with `becket hooks adopt`";
    Failure::new(Code::Failed, what).hint(hint).into()
}

fn prepare_config(world: &World, plan: &AdoptionPlan<'_>) -> Result<PreparedConfig> {
    let asked = config_of(world, plan.scope);
    let snapshot = settings::snapshot(&asked)?;
    let before = settings::text_of(&snapshot)?;
    let text = before.as_deref().unwrap_or_default();
    let from = match plan.scope {
        SettingsScope::Project => ".claude/settings.json".to_owned(),
        SettingsScope::Local => ".claude/settings.local.json".to_owned(),
        SettingsScope::User | SettingsScope::Managed => plan.file.to_string_lossy().into_owned(),
    };
    let newline = newline(text);
    let new = plan.hooks.iter().filter(|hook| !hook.is_written);
    let tables = new.map(|hook| HookTable::of(hook, &from, newline));
    let tables: Vec<HookTable> = tables.collect();
    let after = append(text, &tables).map_err(|error| {
        let what = format!("{}:{error}; nothing was changed", asked.display());
        let hint = "`becket config check` says more; fix it first";
        Failure::new(Code::Failed, what).hint(hint)
    })?;
    let change = FileChange::new(&snapshot, before, Some(after));
    if change.changed() {
        settings::check_writable(&snapshot)?;
    }
    Ok(PreparedConfig {
        change,
        snapshot,
        asked,
        tables,
    })
}

impl PreparedAdoption {
    fn into_adoption(self, plan: &AdoptionPlan<'_>) -> Adoption {
        let written = plan.hooks.iter().filter(|hook| hook.is_written);
        Adoption {
            scope: plan.scope,
            names: plan.hooks.iter().map(|hook| hook.name.clone()).collect(),
            already_there: written.map(|hook| hook.name.clone()).collect(),
            settings: self.change,
            config: self.config.map(|config| config.change),
        }
    }

    fn record(&self, world: &World) -> AdoptionRecord {
        let file = self.snapshot.path();
        let before = self.change.before.clone().unwrap_or_default();
        let written = self.change.after.clone().unwrap_or_default();
        let without_us = |text| settings::without_becket(world, file, text).ok();
        AdoptionRecord {
            file: file.to_string_lossy().into_owned(),
            without_us: without_us(&before)
                .zip(without_us(&written))
                .map(|(before, written)| WithoutBecket { before, written }),
            before,
            written,
            entries: self.entries.clone(),
            config: self.config.as_ref().map(|config| ConfigRecord {
                file: config.asked.clone(),
                before: config.change.before.clone(),
                written: config.change.after.clone().unwrap_or_default(),
                tables: config.tables.clone(),
                made_folder: !config.snapshot.folder().is_dir(),
            }),
        }
    }

    /// Writes both files. Returns `None` if another program wrote one of them in between: then nothing
    /// changed.
    pub(super) fn commit(
        mut self,
        world: &World,
        plan: &AdoptionPlan<'_>,
    ) -> Result<Option<Adoption>> {
        let config = self.config.as_ref();
        if !self.change.changed() && config.is_none_or(|config| !config.change.changed()) {
            return Ok(Some(self.into_adoption(plan)));
        }
        // The record comes first: without the change it does no harm, but a change needs its record.
        let record = self.record(world);
        let path = record.save(&world.place, self.snapshot.path())?;
        if let Some(config) = &mut self.config {
            let is_written = config.change.write(&config.snapshot, plan.scope, false);
            if !matches!(is_written, Ok(true)) {
                remove_record(&path)?;
                return is_written.map(|_| None);
            }
        }
        let is_written = self.change.write(&self.snapshot, plan.scope, true);
        if !matches!(is_written, Ok(true)) {
            // The record stays if the config could not be restored: `--undo` needs it then.
            if record.config.as_ref().is_none_or(restore) {
                remove_record(&path)?;
            }
            return is_written.map(|_| None);
        }
        Ok(Some(self.into_adoption(plan)))
    }
}

/// Restores the config as it was, unless another program has written it since. Returns true if it is
/// as it was.
fn restore(config: &ConfigRecord) -> bool {
    let Ok(now) = settings::snapshot(&config.file) else {
        return false;
    };
    if now.bytes() != Some(config.written.as_bytes()) {
        return false;
    }
    let before = config.before.as_deref().map(str::as_bytes);
    if !matches!(now.replace_or_remove(before, 0o600), Ok(Attempt::Done)) {
        return false;
    }
    if config.made_folder {
        // The folder stays if anything is in it.
        drop(fs::remove_dir(now.folder()));
    }
    true
}
