//! Registers becket in settings files (`init`) and takes it out again (`uninit`).

use std::fs;
use std::io;
use std::path::Path;

use crate::client;
use anyhow::{Context, Result};
use becket_engine::replace::{self, Snapshot};
use becket_wire::Place;
use becket_wire::process::FOR_DAEMON;
use becket_wire::rpc::environment_block;

use crate::claude::{self, Numbers};
use crate::failure::{Code, Failure};
use crate::settings::document::SettingsError;
use crate::settings::entries::{OriginalParts, register, unregister_status_line};
use crate::settings::inspection::{Inspection, inspect};
use crate::settings::record::{SettingsRecord, record_path, remove_record, undo};
use crate::settings::registration::{self, Registration, SettingsScope, StatusLine, Strict};
use crate::settings::status_line::refresh_of;
use crate::settings::text_file::{
    FileChange, prepare, retry, snapshot, take_lock, text_of, unreadable,
};
use crate::world::{World, is_inside_claude};

/// The result of `init` or `uninit` on one settings file. In a dry run it is what they would do.
#[derive(Debug)]
pub struct SettingsOutcome {
    pub scope: SettingsScope,
    pub change: FileChange,
    /// becket's part of the new file, or of the old one if becket is taken out.
    pub inspection: Inspection,
}

/// Registers becket in a settings file. With `dry_run` nothing is written.
pub fn init(
    world: &World,
    scope: SettingsScope,
    strict: Strict,
    status_line: StatusLine,
    dry_run: bool,
) -> Result<SettingsOutcome> {
    let shim = world.shim();
    if !shim.is_file() {
        let what = format!("{} is missing, so it cannot be registered", shim.display());
        let hint = "install becket again: both programs belong in one folder";
        return Err(Failure::new(Code::Failed, what).hint(hint).into());
    }
    let registration = registration_of(world, strict)?;
    let outcome = edit(world, scope, dry_run, |now| {
        registered(now, &registration, scope, status_line)
    })?;
    if !dry_run && client::is_unregistered(&world.place) {
        drop(fs::remove_file(world.place.stopped_mark()));
    }
    if !dry_run && !is_inside_claude() {
        keep_environment(&world.place).context("could not keep the environment for the daemon")?;
    }
    Ok(outcome)
}

fn registered(
    now: &CurrentSettings<'_>,
    registration: &Registration,
    scope: SettingsScope,
    status_line: StatusLine,
) -> Result<SettingsEdit, SettingsError> {
    let registration = Registration {
        status_line: now.wants_status_line(scope, status_line),
        refresh_written: now.record.and_then(|record| refresh_of(&record.written)),
        ..registration.clone()
    };
    let text = now.text.unwrap_or_default();
    let after = if registration.status_line {
        register(text, &registration)?
    } else {
        let text = unregister_status_line(text, &now.original_parts())?;
        register(&text, &registration)?
    };
    Ok(SettingsEdit {
        inspection: inspect(&after, &registration)?,
        record: Some(SettingsRecord {
            file: now.file.to_string_lossy().into_owned(),
            original: now.without_becket()?,
            written: after.clone(),
            made_folder: now.record.is_some_and(|record| record.made_folder),
            no_status_line: !registration.status_line,
        }),
        after: Some(after),
        back_up: !now.is_as_written(),
    })
}

/// Keeps the environment of this call for the daemon, which searches programs in its PATH and not in
/// that of the shim that starts the daemon.
fn keep_environment(place: &Place) -> io::Result<()> {
    let kept = FOR_DAEMON
        .iter()
        .filter_map(|name| Some(((*name).into(), std::env::var_os(name)?)));
    let block = environment_block(kept);
    let file = place.environment();
    if Snapshot::read(&file, MAX_ENVIRONMENT)?.bytes() == Some(&*block) {
        return Ok(());
    }
    replace::store(&file, &block, MAX_ENVIRONMENT)
}

const MAX_ENVIRONMENT: u64 = 1 << 20;

/// Takes becket out of a settings file. With `dry_run` nothing is written.
pub fn uninit(world: &World, scope: SettingsScope, dry_run: bool) -> Result<SettingsOutcome> {
    let registration = registration_of(world, Strict::Keep)?;
    edit(world, scope, dry_run, |now| {
        Ok(SettingsEdit {
            inspection: inspect(now.text.unwrap_or_default(), &registration)?,
            record: None,
            after: now.without_becket()?,
            back_up: !now.is_as_written(),
        })
    })
}

/// Returns the text that `uninit` would leave of a settings file. `file` is its path after all links.
pub fn without_becket(
    world: &World,
    file: &Path,
    text: &str,
) -> Result<Option<String>, SettingsError> {
    undo(text, SettingsRecord::load(&world.place, file).as_ref())
}

/// Returns the command of the status line that the user's own settings had before becket's.
pub fn status_line_before(world: &World) -> Option<String> {
    let file = SettingsScope::User.file(world).ok()?;
    record_of(world, &file)?.status_command()
}

/// Returns true if the user does not want becket's status line in these settings.
pub fn is_status_line_unwanted(world: &World, file: &Path) -> bool {
    record_of(world, file).is_some_and(|record| record.no_status_line)
}

fn record_of(world: &World, file: &Path) -> Option<SettingsRecord> {
    SettingsRecord::load(&world.place, &replace::resolve(file).ok()?)
}

/// Returns the registration that `init` writes here.
pub fn registration_of(world: &World, strict: Strict) -> Result<Registration> {
    registration_for(world, strict, claude::version())
}

/// Returns the registration for a certain version of Claude Code.
pub fn registration_for(
    world: &World,
    strict: Strict,
    claude: Option<Numbers>,
) -> Result<Registration> {
    let config = world.loader(None).current();
    let refresh = config.config.statusline.refresh;
    Ok(Registration {
        program: utf8(&world.shim())?,
        home: utf8(world.place.home())?,
        strict,
        status_line: true,
        refresh: refresh.map(|refresh| refresh.as_secs()),
        refresh_written: None,
        claude,
        synchronous: registration::synchronous_events(world),
    })
}

fn utf8(path: &Path) -> Result<String> {
    path.to_str().map(str::to_owned).ok_or_else(|| {
        let what = format!(
            "{} is not UTF-8, which settings.json must be",
            path.display()
        );
        let hint = "install becket in a folder with a UTF-8 name, and keep its home in one";
        Failure::new(Code::Failed, what).hint(hint).into()
    })
}

/// A settings file and its record.
#[derive(Debug)]
pub struct CurrentSettings<'a> {
    pub file: &'a Path,
    pub text: Option<&'a str>,
    pub record: Option<&'a SettingsRecord>,
}

impl CurrentSettings<'_> {
    /// Returns true if becket's status line goes into this file. Only the user's own settings get it:
    /// in a project it would hide theirs.
    fn wants_status_line(&self, scope: SettingsScope, wanted: StatusLine) -> bool {
        match wanted {
            _ if scope != SettingsScope::User => false,
            StatusLine::On => true,
            StatusLine::Off => false,
            StatusLine::Keep => !self.record.is_some_and(|record| record.no_status_line),
        }
    }

    fn original_parts(&self) -> OriginalParts {
        let original = self.record.and_then(|record| record.original.as_deref());
        original.map(OriginalParts::of).unwrap_or_default()
    }

    fn without_becket(&self) -> Result<Option<String>, SettingsError> {
        match self.text {
            Some(text) => undo(text, self.record),
            None => Ok(None),
        }
    }

    /// Returns true if the file is what `init` wrote, to the last byte, so that it needs no backup.
    fn is_as_written(&self) -> bool {
        let written = self.record.map(|record| record.written.as_str());
        written.is_some() && written == self.text
    }
}

/// An edit of a settings file and of its record.
#[derive(Debug)]
pub struct SettingsEdit {
    pub after: Option<String>,
    /// The new record. `None` removes the old one.
    pub record: Option<SettingsRecord>,
    pub back_up: bool,
    pub inspection: Inspection,
}

/// Edits a settings file, and starts again if another program writes the file in between.
pub fn edit(
    world: &World,
    scope: SettingsScope,
    dry_run: bool,
    plan: impl Fn(&CurrentSettings<'_>) -> Result<SettingsEdit, SettingsError>,
) -> Result<SettingsOutcome> {
    let asked = scope.file(world)?;
    let lock = if dry_run {
        None
    } else {
        Some(take_lock(world)?)
    };
    let outcome = retry(&asked, || {
        let snapshot = snapshot(&asked)?;
        let before = text_of(&snapshot)?;
        let old = SettingsRecord::load(&world.place, snapshot.path());
        let now = CurrentSettings {
            file: snapshot.path(),
            text: before.as_deref(),
            record: old.as_ref(),
        };
        let edit = plan(&now).map_err(|error| unreadable(&asked, &error))?;
        let mut change = FileChange {
            file: snapshot.path().to_path_buf(),
            before,
            after: edit.after.clone(),
            backup: None,
        };
        if !dry_run && !write(world, scope, &snapshot, &mut change, &edit, old.as_ref())? {
            return Ok(None);
        }
        Ok(Some(SettingsOutcome {
            scope,
            change,
            inspection: edit.inspection,
        }))
    });
    drop(lock);
    outcome
}

/// Writes an edit. Returns false if another program wrote the file in between.
fn write(
    world: &World,
    scope: SettingsScope,
    snapshot: &Snapshot,
    change: &mut FileChange,
    edit: &SettingsEdit,
    old: Option<&SettingsRecord>,
) -> Result<bool> {
    let file = snapshot.path();
    if change.changed() {
        let made_folder = prepare(snapshot, scope)?;
        // The record comes first: without the change it does no harm, but a change needs its record.
        if let Some(mut record) = edit.record.clone() {
            record.made_folder |= made_folder;
            record.save(&world.place, file)?;
        }
        if !change.write(snapshot, scope, edit.back_up)? {
            return Ok(false);
        }
    }
    if let (Some(record), Some(old)) = (&edit.record, old)
        && record.no_status_line != old.no_status_line
    {
        record.save(&world.place, file)?;
    }
    if edit.record.is_none() {
        if change.after.is_none() && old.is_some_and(|record| record.made_folder) {
            // The folder stays if anything is in it.
            drop(fs::remove_dir(snapshot.folder()));
        }
        remove_record(&record_path(&world.place, file))?;
    }
    Ok(true)
}
