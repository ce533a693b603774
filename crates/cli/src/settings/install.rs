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
    now: &CurrentSettings,
    registration: &Registration,
    scope: SettingsScope,
    status_line: StatusLine,
) -> Result<SettingsEdit, SettingsError> {
    let registration = Registration {
        status_line: now.wants_status_line(scope, status_line),
        refresh_written: now
            .record
            .as_ref()
            .and_then(|record| refresh_of(&record.written)),
        ..registration.clone()
    };
    let text = now.text.as_deref().unwrap_or_default();
    let after = if registration.status_line {
        register(text, &registration)?
    } else {
        let text = unregister_status_line(text, &now.original_parts())?;
        register(&text, &registration)?
    };
    Ok(SettingsEdit {
        inspection: inspect(&after, &registration)?,
        record: Some(SettingsRecord {
            file: now.snapshot.path().to_string_lossy().into_owned(),
            original: now.without_becket()?,
            written: after.clone(),
            made_folder: now.record.as_ref().is_some_and(|record| record.made_folder),
            no_status_line: !registration.status_line,
        }),
        after: Some(after),
    })
}

/// Keeps the environment of this call for the daemon, which searches programs in its PATH and not in
/// that of the shim that starts the daemon.
fn keep_environment(place: &Place) -> io::Result<()> {
    let kept = FOR_DAEMON.into_iter();
    let kept = kept.filter_map(|name| Some((name.into(), std::env::var_os(name)?)));
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
            inspection: inspect(now.text.as_deref().unwrap_or_default(), &registration)?,
            record: None,
            after: now.without_becket()?,
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
        let path = path.display();
        let what = format!("{path} is not UTF-8, which settings.json must be");
        let hint = "install becket in a folder with a UTF-8 name, and keep its home in one";
        Failure::new(Code::Failed, what).hint(hint).into()
    })
}

/// A settings file and its record.
#[derive(Debug)]
pub struct CurrentSettings {
    snapshot: Snapshot,
    pub text: Option<String>,
    record: Option<SettingsRecord>,
}

impl CurrentSettings {
    fn read(world: &World, file: &Path) -> Result<Self> {
        let snapshot = snapshot(file)?;
        Ok(Self {
            text: text_of(&snapshot)?,
            record: SettingsRecord::load(&world.place, snapshot.path()),
            snapshot,
        })
    }

    /// Returns true if becket's status line goes into this file. Only the user's own settings get it:
    /// in a project it would hide theirs.
    fn wants_status_line(&self, scope: SettingsScope, wanted: StatusLine) -> bool {
        let is_unwanted = self
            .record
            .as_ref()
            .is_some_and(|record| record.no_status_line);
        scope == SettingsScope::User
            && match wanted {
                StatusLine::On => true,
                StatusLine::Off => false,
                StatusLine::Keep => !is_unwanted,
            }
    }

    fn original_parts(&self) -> OriginalParts {
        let original = self
            .record
            .as_ref()
            .and_then(|record| record.original.as_deref());
        original.map(OriginalParts::of).unwrap_or_default()
    }

    fn without_becket(&self) -> Result<Option<String>, SettingsError> {
        match &self.text {
            Some(text) => undo(text, self.record.as_ref()),
            None => Ok(None),
        }
    }

    /// Writes an edit. A file that is what `init` wrote, to the last byte, gets no backup. Returns false
    /// if another program wrote the file in between.
    fn write(
        &self,
        world: &World,
        scope: SettingsScope,
        change: &mut FileChange,
        record: Option<SettingsRecord>,
    ) -> Result<bool> {
        let (place, file) = (&world.place, self.snapshot.path());
        let old = self.record.as_ref();
        if change.changed() {
            let made_folder = prepare(&self.snapshot, scope)?;
            // The record comes first: without the change it does no harm, but a change needs its record.
            if let Some(mut record) = record.clone() {
                record.made_folder |= made_folder;
                record.save(place, file)?;
            }
            let is_as_written = old.map(|old| &old.written) == self.text.as_ref();
            if !change.write(&self.snapshot, scope, !is_as_written)? {
                return Ok(false);
            }
        }
        let Some(record) = record else {
            if change.after.is_none() && old.is_some_and(|old| old.made_folder) {
                // The folder stays if anything is in it.
                drop(fs::remove_dir(self.snapshot.folder()));
            }
            remove_record(&record_path(place, file))?;
            return Ok(true);
        };
        if old.is_some_and(|old| record.no_status_line != old.no_status_line) {
            record.save(place, file)?;
        }
        Ok(true)
    }
}

/// An edit of a settings file and of its record.
#[derive(Debug)]
pub struct SettingsEdit {
    pub after: Option<String>,
    /// The new record. `None` removes the old one.
    pub record: Option<SettingsRecord>,
    pub inspection: Inspection,
}

/// Edits a settings file, and starts again if another program writes the file in between.
pub fn edit(
    world: &World,
    scope: SettingsScope,
    dry_run: bool,
    plan: impl Fn(&CurrentSettings) -> Result<SettingsEdit, SettingsError>,
) -> Result<SettingsOutcome> {
    let asked = scope.file(world)?;
    let _lock = take_lock(world, dry_run)?;
    retry(&asked, || {
        let now = CurrentSettings::read(world, &asked)?;
        let edit = plan(&now).map_err(|error| unreadable(&asked, &error))?;
        let mut change = FileChange::new(&now.snapshot, now.text.clone(), edit.after);
        if !dry_run && !now.write(world, scope, &mut change, edit.record)? {
            return Ok(None);
        }
        Ok(Some(SettingsOutcome {
            scope,
            change,
            inspection: edit.inspection,
        }))
    })
}
