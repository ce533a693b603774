//! Reads and changes text files that other programs may write, keeps backups beside them for people,
//! and prints the difference. becket itself reads its records, never a backup.

use std::fmt::Write;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use anyhow::{Context, Result};
use becket_engine::local_time;
use becket_engine::replace::{self, Attempt, Snapshot};
use serde_json::json;
use similar::TextDiff;

use crate::failure::{Code, Failure};
use crate::settings::document::SettingsError;
use crate::settings::registration::SettingsScope;
use crate::world::World;

const MAX_SETTINGS: u64 = 16 << 20;
const LOCK_WAIT: Duration = Duration::from_secs(10);

/// The text of a file before and after a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    /// The path of the file after all links.
    pub file: PathBuf,
    /// `None` if there was no file.
    pub before: Option<String>,
    /// `None` if the file is removed.
    pub after: Option<String>,
    /// The copy of the old file.
    pub backup: Option<PathBuf>,
}

impl FileChange {
    /// Returns a change of the file that `snapshot` read.
    pub fn new(snapshot: &Snapshot, before: Option<String>, after: Option<String>) -> Self {
        Self {
            file: snapshot.path().to_path_buf(),
            before,
            after,
            backup: None,
        }
    }

    pub fn changed(&self) -> bool {
        self.before != self.after
    }

    /// Returns a unified diff. A missing file is named /dev/null.
    pub fn diff(&self) -> String {
        let file = self.file.to_string_lossy();
        let (before, after) = (self.before.as_deref(), self.after.as_deref());
        let names = [before, after].map(|text| text.map_or("/dev/null", |_| &file));
        let texts = TextDiff::from_lines(before.unwrap_or_default(), after.unwrap_or_default());
        let mut diff = texts.unified_diff();
        diff.header(names[0], names[1]).to_string()
    }

    /// Prints a unified diff, if the text changes.
    pub fn print_diff(&self) {
        if self.changed() {
            anstream::print!("{}", coloured(&self.diff()));
        }
    }

    /// Returns the change for scripts, with the diff in a dry run.
    pub fn report(&self, dry_run: bool) -> serde_json::Value {
        let mut report = json!({
            "file": self.file.to_string_lossy(),
            "changed": self.changed(),
            "backup": self.backup,
        });
        if dry_run {
            report["diff"] = json!(self.diff());
        }
        report
    }

    /// Writes the new text over the file that `snapshot` read, and keeps a copy of the old file with
    /// `back_up`. Returns false if another program wrote the file in between: then nothing changed.
    pub fn write(
        &mut self,
        snapshot: &Snapshot,
        scope: SettingsScope,
        back_up: bool,
    ) -> Result<bool> {
        if !self.changed() {
            return Ok(true);
        }
        prepare(snapshot, scope)?;
        let failed = |error| unwritable(snapshot.path(), &error);
        let now = local_time::now().strftime("%Y%m%d-%H%M%S");
        let suffix = format!("{BACKUP_MARK}{now}");
        let backup = back_up.then(|| snapshot.copy_beside(&suffix)).transpose();
        let backup = backup.map_err(failed)?.flatten();
        let after = self.after.as_deref().map(str::as_bytes);
        let attempt = snapshot.replace_or_remove(after, scope.modes().1);
        let is_done = matches!(attempt, Ok(Attempt::Done));
        match backup {
            Some(backup) if is_done => {
                remove_old_backups(snapshot.path(), &backup);
                self.backup = Some(backup);
            }
            Some(backup) => drop(fs::remove_file(backup)),
            None => {}
        }
        attempt.map_err(failed)?;
        Ok(is_done)
    }
}

/// Makes the folder of a file that is to be written. Returns true if it was missing.
pub fn prepare(snapshot: &Snapshot, scope: SettingsScope) -> Result<bool> {
    check_writable(snapshot)?;
    replace::make_folder(snapshot.folder(), scope.modes().0)
        .map_err(|error| unwritable(snapshot.path(), &error))
}

/// Returns an error if no user may write the file.
pub fn check_writable(snapshot: &Snapshot) -> Result<()> {
    if snapshot.is_read_only() {
        let error = ErrorKind::PermissionDenied.into();
        return Err(unwritable(snapshot.path(), &error));
    }
    Ok(())
}

/// Calls `attempt` until it returns a value. It returns `None` if another program wrote the file
/// first.
pub fn retry<T>(file: &Path, attempt: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    replace::retry(attempt)?.ok_or_else(|| {
        let what = format!("{} keeps changing", file.display());
        let hint = "close the program that writes it, and try again";
        Failure::new(Code::Failed, what).hint(hint).into()
    })
}

/// Changes a text file. Returns true if `change` returned a new text.
pub fn edit_text(
    file: &Path,
    mode: u32,
    change: impl Fn(&str) -> Result<Option<String>>,
) -> Result<bool> {
    retry(file, || {
        let now = snapshot(file)?;
        let text = text_of(&now)?.unwrap_or_default();
        let Some(after) = change(&text)?.filter(|after| *after != text) else {
            return Ok(Some(false));
        };
        check_writable(&now)?;
        let attempt = now.replace(after.as_bytes(), mode);
        let attempt = attempt.map_err(|why| unwritable(file, &why))?;
        Ok((attempt == Attempt::Done).then_some(true))
    })
}

/// Takes the lock that every writer of settings files holds. A dry run needs none.
pub fn take_lock(world: &World, dry_run: bool) -> Result<Option<fs::File>> {
    if dry_run {
        return Ok(None);
    }
    let path = world.place.run().join("settings.lock");
    replace::lock(&path, LOCK_WAIT).map(Some).map_err(|error| {
        if error.kind() == ErrorKind::TimedOut {
            let what = format!("another becket holds {}", path.display());
            let hint = "wait for the other `becket up`, `down` or `hooks adopt`, or end it";
            return Failure::new(Code::TimedOut, what).hint(hint).into();
        }
        let what = format!("could not lock {}: {error}", path.display());
        let hint = "becket's home must be writable; --home names another";
        Failure::new(Code::Failed, what).hint(hint).into()
    })
}

/// Returns the text of a settings file, or `None` if there is no file.
pub fn read(file: &Path) -> Result<Option<String>> {
    text_of(&snapshot(file)?)
}

/// Returns the path of a file after all links.
pub fn real_path(file: &Path) -> PathBuf {
    replace::resolve(file).unwrap_or_else(|_| file.to_path_buf())
}

pub fn snapshot(file: &Path) -> Result<Snapshot> {
    Snapshot::read(file, MAX_SETTINGS).with_context(|| format!("could not read {}", file.display()))
}

pub fn text_of(snapshot: &Snapshot) -> Result<Option<String>> {
    let Some(bytes) = snapshot.bytes() else {
        return Ok(None);
    };
    let text = str::from_utf8(bytes).map_err(|error| {
        let before = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
        let error = SettingsError::after(&before, "not UTF-8");
        unreadable(snapshot.path(), &error)
    })?;
    Ok(Some(text.to_owned()))
}

pub fn unreadable(file: &Path, error: &SettingsError) -> anyhow::Error {
    let what = format!("{}:{error}; the file was not touched", file.display());
    let hint = "correct it there, then try again";
    Failure::new(Code::Failed, what).hint(hint).into()
}

pub fn unwritable(file: &Path, error: &io::Error) -> anyhow::Error {
    let what = format!("could not write {}: {error}", file.display());
    let mut failure = Failure::new(Code::Failed, what);
    if let ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem = error.kind() {
        failure = failure.hint("make the file and its folder writable, then try again");
    }
    failure.into()
}

/// The number of newest backups that stay. The first one stays too: it is the file before becket.
const NEWEST_BACKUPS: usize = 3;
const BACKUP_MARK: &str = ".becket-backup-";

/// Removes old backups of a file, but not the one that was just made.
fn remove_old_backups(file: &Path, made: &Path) {
    let mut backups = backups_of(file);
    backups.sort_by_key(|path| fs::metadata(path).and_then(|meta| meta.modified()).ok());
    let old = backups.len().saturating_sub(NEWEST_BACKUPS);
    for path in backups.iter().take(old).skip(1) {
        if path != made {
            drop(fs::remove_file(path));
        }
    }
}

/// Returns the backups of a file. One that the user has renamed is theirs.
fn backups_of(file: &Path) -> Vec<PathBuf> {
    let (Some(folder), Some(name)) = (file.parent(), file.file_name()) else {
        return Vec::new();
    };
    let prefix = format!("{}{BACKUP_MARK}", name.to_string_lossy());
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let date = name.to_str().and_then(|name| name.strip_prefix(&prefix));
        if date.is_some_and(|date| date.bytes().all(|c| c.is_ascii_digit() || c == b'-')) {
            paths.push(entry.path());
        }
    }
    paths
}

/// Colours a diff. `anstream` prints or strips the colours.
fn coloured(diff: &str) -> String {
    let mut result = String::with_capacity(diff.len());
    for (number, line) in diff.split_inclusive('\n').enumerate() {
        let style = line_style(line, number < 2);
        // Colours end before the line does, so that they never leak into the next one.
        let (text, end) = match line.find(['\r', '\n']) {
            Some(at) => line.split_at(at),
            None => (line, ""),
        };
        // Writing to a string cannot fail.
        let _ = write!(result, "{style}{text}{style:#}{end}");
    }
    result
}

fn line_style(line: &str, is_header: bool) -> Style {
    match line.as_bytes().first() {
        _ if is_header => Style::new().bold(),
        Some(b'+') => AnsiColor::Green.on_default(),
        Some(b'-') => AnsiColor::Red.on_default(),
        Some(b'@') => AnsiColor::Cyan.on_default(),
        _ => Style::new(),
    }
}
