//! Moves hooks: the config first, then the settings, each replaced as a whole, and both as they were
//! if another program was faster.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use becket_engine::replace::{self, Attempt, Snapshot};
use becket_wire::Place;
use becket_wire::event::EventName;
use becket_wire::place::fnv1a;
use serde::{Deserialize, Serialize};

use crate::adopt::found::{Found, config_of};
use crate::adopt::named::Named;
use crate::adopt::table::{Block, append, block, newline};
use crate::failure::{Code, Failure};
use crate::settings::{self, Backup, Foreign, Registration, Scope, Strict, unreadable, unwritable};
use crate::world::World;

const MAX_ATTEMPTS: usize = 20;
/// No config file is larger than this.
const MAX_CONFIG: u64 = 1 << 20;

/// What was done to two files, or would be.
#[derive(Debug)]
pub struct Moved {
    pub scope: Scope,
    pub names: Vec<String>,
    /// Those of them that the config had already, in the same words.
    pub there: Vec<String>,
    pub settings: Change,
    pub config: Option<Change>,
}

/// One file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub file: PathBuf,
    /// None: there was no file.
    pub before: Option<String>,
    /// None: there is none any more.
    pub after: Option<String>,
    pub backup: Option<PathBuf>,
}

impl Change {
    pub fn changed(&self) -> bool {
        self.before != self.after
    }
}

/// What is to be done to the files of one scope.
#[derive(Debug)]
pub(super) struct Plan<'a> {
    scope: Scope,
    file: PathBuf,
    hooks: Vec<&'a Named>,
    /// The file registers becket.
    registers: bool,
}

/// Moves hooks into the config. With `dry_run` nothing is written.
pub fn adopt(world: &World, found: &Found, hooks: &[&Named], dry_run: bool) -> Result<Vec<Moved>> {
    let lock = if dry_run {
        None
    } else {
        Some(settings::take_lock(world)?)
    };
    let mut registration = settings::registration_of(world, Strict::Keep)?;
    registration.synchronous.extend(late(hooks));
    let plans: Vec<Plan<'_>> = plans(found, hooks);
    // What cannot be done is found before anything is done.
    let mut ready = Vec::new();
    for plan in &plans {
        let prepared = prepare(world, plan, &registration)?;
        prepared.check_writable()?;
        ready.push(prepared.moved(plan));
    }
    if dry_run {
        ready.retain(Moved::changed);
        return Ok(ready);
    }
    let mut moved: Vec<Moved> = Vec::new();
    for plan in &plans {
        let one = carry(world, plan, &registration).with_context(|| match moved.len() {
            0 => "no hook was moved".to_owned(),
            _ => "some hooks were moved already; `becket adopt --undo` takes them back".to_owned(),
        })?;
        moved.extend(one.changed().then_some(one));
    }
    drop(lock);
    Ok(moved)
}

impl Moved {
    pub fn changes(&self) -> impl Iterator<Item = &Change> {
        self.config.iter().chain([&self.settings])
    }

    fn changed(&self) -> bool {
        self.settings.changed() || self.config.as_ref().is_some_and(Change::changed)
    }
}

/// The events that Claude Code does not wait for, on which one of these answers.
fn late(hooks: &[&Named]) -> Vec<String> {
    let answers = hooks.iter().filter(|hook| !hook.is_async);
    let events = answers.flat_map(|hook| hook.on.iter().cloned());
    events
        .filter(|event| EventName::from(&**event).comes_late())
        .collect()
}

pub(super) fn plans<'a>(found: &Found, hooks: &[&'a Named]) -> Vec<Plan<'a>> {
    let files = found
        .files
        .iter()
        .filter(|file| file.scope != Scope::Managed);
    let plan = files.map(|file| Plan {
        scope: file.scope,
        file: file.path.clone(),
        hooks: hooks
            .iter()
            .filter(|hook| hook.scope == file.scope)
            .copied()
            .collect(),
        registers: file.inspection.any(),
    });
    let mut plans: Vec<_> = plan
        .filter(|plan| plan.registers || !plan.hooks.is_empty())
        .collect();
    // Where becket is registered comes last: a hook that is not heard yet is found by doctor.
    plans.sort_by_key(|plan| plan.hooks.is_empty());
    plans
}

/// Two files as they are and as they should be.
#[derive(Debug)]
pub(super) struct Prepared {
    settings: Snapshot,
    before: String,
    after: String,
    entries: Vec<Foreign>,
    config: Option<Target>,
}

#[derive(Debug)]
struct Target {
    asked: PathBuf,
    snapshot: Snapshot,
    before: Option<String>,
    after: String,
    blocks: Vec<Block>,
    modes: (u32, u32),
}

pub(super) fn prepare(
    world: &World,
    plan: &Plan<'_>,
    registration: &Registration,
) -> Result<Prepared> {
    let snapshot = settings::snapshot(&plan.file)?;
    let before = settings::text_of(&snapshot)?.unwrap_or_default();
    let broken = |error| unreadable(&plan.file, &error);
    let standing = settings::foreign(&before).map_err(broken)?;
    let mut entries: Vec<Foreign> = Vec::new();
    for hook in &plan.hooks {
        for entry in &hook.entries {
            if !standing.contains(entry) {
                return Err(changed_meanwhile(&plan.file, &hook.name));
            }
            entries.push(entry.clone());
        }
    }
    // In the order of the file, so that they come back in it.
    entries.sort_by_key(|entry| standing.iter().position(|one| one == entry));
    let mut after = settings::take_out(&before, &entries).map_err(broken)?;
    if plan.registers {
        after = settings::make_synchronous(&after, registration).map_err(broken)?;
    }
    let config = match plan.hooks.is_empty() {
        true => None,
        false => Some(target(world, plan)?),
    };
    Ok(Prepared {
        settings: snapshot,
        before,
        after,
        entries,
        config,
    })
}

fn changed_meanwhile(file: &Path, name: &str) -> anyhow::Error {
    let what = format!(
        "{} changed meanwhile: {name} is a different hook now",
        file.display()
    );
    let hint = "look again with `becket adopt`";
    Failure::new(Code::Failed, what).hint(hint).into()
}

fn target(world: &World, plan: &Plan<'_>) -> Result<Target> {
    let asked = config_of(world, plan.scope);
    let snapshot = Snapshot::read(&asked, MAX_CONFIG)
        .with_context(|| format!("could not read {}", asked.display()))?;
    let bytes = snapshot.bytes().unwrap_or_default();
    let text = str::from_utf8(bytes).map_err(|_| broken_config(&asked, "not UTF-8"))?;
    let from = match plan.scope {
        Scope::Project => ".claude/settings.json".to_owned(),
        Scope::Local => ".claude/settings.local.json".to_owned(),
        Scope::User | Scope::Managed => plan.file.to_string_lossy().into_owned(),
    };
    let newline = newline(text);
    let new = plan.hooks.iter().filter(|hook| !hook.is_written);
    let blocks: Vec<Block> = new.map(|hook| block(hook, &from, newline)).collect();
    let after = append(text, &blocks).map_err(|why| broken_config(&asked, &why))?;
    Ok(Target {
        before: snapshot.bytes().is_some().then(|| text.to_owned()),
        after,
        blocks,
        modes: plan.scope.modes(),
        asked,
        snapshot,
    })
}

fn broken_config(file: &Path, why: &str) -> anyhow::Error {
    let what = format!("{}:{why}; nothing was changed", file.display());
    let hint = "`becket config check` says more; mend it first";
    Failure::new(Code::Failed, what).hint(hint).into()
}

impl Prepared {
    fn check_writable(&self) -> Result<()> {
        let mut files = vec![(&self.settings, self.before != self.after)];
        let config = self.config.as_ref();
        files.extend(config.map(|config| (&config.snapshot, !config.blocks.is_empty())));
        for (snapshot, changes) in files {
            if changes && snapshot.is_read_only() {
                let error = ErrorKind::PermissionDenied.into();
                return Err(unwritable(snapshot.path(), &error));
            }
        }
        Ok(())
    }

    fn moved(&self, plan: &Plan<'_>) -> Moved {
        let names = |hooks: &mut dyn Iterator<Item = &&Named>| -> Vec<String> {
            hooks.map(|hook| hook.name.clone()).collect()
        };
        Moved {
            scope: plan.scope,
            names: names(&mut plan.hooks.iter()),
            there: names(&mut plan.hooks.iter().filter(|hook| hook.is_written)),
            settings: Change {
                file: self.settings.path().to_path_buf(),
                before: Some(self.before.clone()),
                after: Some(self.after.clone()),
                backup: None,
            },
            config: self.config.as_ref().map(|config| Change {
                file: config.snapshot.path().to_path_buf(),
                before: config.before.clone(),
                after: Some(config.after.clone()),
                backup: None,
            }),
        }
    }

    fn record(&self, world: &World) -> Record {
        let file = self.settings.path();
        let without_us = |text| settings::without_us(world, file, text).ok();
        Record {
            file: file.to_string_lossy().into_owned(),
            before: self.before.clone(),
            written: self.after.clone(),
            without_us: without_us(&self.before)
                .zip(without_us(&self.after))
                .map(|(before, written)| WithoutUs { before, written }),
            entries: self.entries.clone(),
            config: self.config.as_ref().map(|config| Config {
                file: config.asked.clone(),
                before: config.before.clone(),
                written: config.after.clone(),
                blocks: config.blocks.clone(),
                made_folder: !config.snapshot.folder().is_dir(),
            }),
        }
    }

    /// Carries it out. None: another program was faster, and nothing was done.
    pub(super) fn commit(&self, world: &World, mode: u32) -> Result<Option<Option<PathBuf>>> {
        if self.before == self.after && self.config.as_ref().is_none_or(|it| it.blocks.is_empty()) {
            return Ok(Some(None));
        }
        // The record first: a record of what was not done does no harm, the other way round would.
        let record = self.record(world);
        let path = record.save(&world.place, self.settings.path())?;
        if let Some(config) = &self.config {
            let failed = |error| unwritable(config.snapshot.path(), &error);
            match config.write() {
                Ok(Attempt::Done) => {}
                other => {
                    forget(&path)?;
                    other.map_err(failed)?;
                    return Ok(None);
                }
            }
        }
        let failed = |error| unwritable(self.settings.path(), &error);
        match self.write_settings(mode) {
            Ok((Attempt::Done, backup)) => Ok(Some(backup)),
            other => {
                // As long as the way back is open, the record goes with it.
                let back = record.config.as_ref().map_or(Ok(()), roll_back);
                if back.is_ok() {
                    forget(&path)?;
                }
                other.map_err(failed)?;
                Ok(None)
            }
        }
    }

    fn write_settings(&self, mode: u32) -> io::Result<(Attempt, Option<PathBuf>)> {
        let backup = Backup::make(&self.settings)?;
        let attempt = self.settings.replace(self.after.as_bytes(), mode);
        if matches!(attempt, Ok(Attempt::Done)) {
            return Ok((Attempt::Done, backup.map(Backup::keep)));
        }
        backup.into_iter().for_each(Backup::take_back);
        attempt.map(|attempt| (attempt, None))
    }
}

impl Target {
    fn write(&self) -> io::Result<Attempt> {
        if self.blocks.is_empty() {
            return Ok(Attempt::Done);
        }
        let (folder_mode, mode) = self.modes;
        replace::make_folder(self.snapshot.folder(), folder_mode)?;
        self.snapshot.replace(self.after.as_bytes(), mode)
    }
}

/// Takes our tables out of the config again, unless it was written since.
fn roll_back(config: &Config) -> io::Result<()> {
    let now = Snapshot::read(&config.file, MAX_CONFIG)?;
    if now.bytes() != Some(config.written.as_bytes()) {
        return Err(io::Error::other("another program has written it since"));
    }
    match &config.before {
        Some(before) => now.replace(before.as_bytes(), 0o600)?,
        None => now.remove()?,
    };
    if config.made_folder {
        // It stays if anything is in it.
        drop(fs::remove_dir(now.folder()));
    }
    Ok(())
}

fn carry(world: &World, plan: &Plan<'_>, registration: &Registration) -> Result<Moved> {
    for _ in 0..MAX_ATTEMPTS {
        let prepared = prepare(world, plan, registration)?;
        prepared.check_writable()?;
        if let Some(backup) = prepared.commit(world, plan.scope.modes().1)? {
            let mut moved = prepared.moved(plan);
            moved.settings.backup = backup;
            return Ok(moved);
        }
    }
    Err(settings::keeps_changing(&plan.file))
}

/// A record holds six files.
const MAX_RECORD: u64 = 128 << 20;

/// One settings file, and the config that its hooks went into.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The settings file, links followed.
    pub file: String,
    pub before: String,
    pub written: String,
    /// Both as `uninit` would leave them, for a user who calls that first.
    #[serde(default)]
    pub without_us: Option<WithoutUs>,
    /// What was taken out, in the order of the file.
    pub entries: Vec<Foreign>,
    /// None: only our own entries were changed.
    pub config: Option<Config>,
}

/// A settings file without our entries; none if there would be no file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WithoutUs {
    pub before: Option<String>,
    pub written: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// As it was asked for, links not followed.
    pub file: PathBuf,
    /// None: there was no file.
    pub before: Option<String>,
    pub written: String,
    pub blocks: Vec<Block>,
    /// The file's folder is ours too.
    pub made_folder: bool,
}

impl Record {
    /// Stores it under a name of its own. Only who holds the settings lock does.
    pub fn save(&self, place: &Place, file: &Path) -> Result<PathBuf> {
        let last = all(place, file).pop();
        let number = last.map_or(0, |(path, _)| number(&path)) + 1;
        let path = folder(place).join(format!("{}{number:04}.json", prefix(file)));
        let failed = || format!("could not write {}", path.display());
        replace::make_folder(&folder(place), 0o700).with_context(failed)?;
        let bytes = serde_json::to_vec(self)?;
        loop {
            let old = Snapshot::read(&path, MAX_RECORD).with_context(failed)?;
            if old.replace(&bytes, 0o600).with_context(failed)? == Attempt::Done {
                return Ok(path);
            }
        }
    }
}

/// What was remembered of a settings file, oldest first. A damaged record is passed over.
pub fn all(place: &Place, file: &Path) -> Vec<(PathBuf, Record)> {
    let prefix = prefix(file);
    let entries = fs::read_dir(folder(place)).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix))
        .map(|entry| entry.path())
        .collect();
    paths.sort_by_key(|path| number(path));
    let read = |path: PathBuf| {
        let record: Record = serde_json::from_slice(&fs::read(&path).ok()?).ok()?;
        (record.file == file.to_string_lossy()).then_some((path, record))
    };
    paths.into_iter().filter_map(read).collect()
}

/// Whether hooks of a settings file were adopted, and not given back.
pub fn any(place: &Place, file: &Path) -> bool {
    let file = replace::resolve(file).unwrap_or_else(|_| file.to_path_buf());
    let records = all(place, &file);
    records.iter().any(|(_, record)| !record.entries.is_empty())
}

pub fn forget(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("could not remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

fn folder(place: &Place) -> PathBuf {
    place.home().join("backup")
}

fn prefix(file: &Path) -> String {
    format!("adopt-{:016x}-", fnv1a(file.as_os_str().as_bytes()))
}

fn number(path: &Path) -> u32 {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let number = stem.rsplit('-').next().unwrap_or_default();
    number.parse().unwrap_or(0)
}
