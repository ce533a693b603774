//! Keeps the text that a settings file had before `init`, so that `uninit` can restore it byte for
//! byte.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use becket_engine::replace::{self, Snapshot};
use becket_wire::Place;
use becket_wire::place::fnv1a;
use serde::{Deserialize, Serialize};

use crate::settings::document::SettingsError;
use crate::settings::entries::{OriginalParts, unregister, value};

/// The size limit of a record, which holds two settings files.
const MAX_RECORD: u64 = 64 << 20;

/// The record of one settings file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettingsRecord {
    pub file: String,
    /// The text without becket, or `None` if there was no file.
    pub original: Option<String>,
    /// The text that `init` wrote.
    pub written: String,
    /// True if `init` made the file's folder.
    pub made_folder: bool,
    /// True if the user does not want becket's status line.
    #[serde(default)]
    pub no_status_line: bool,
}

impl SettingsRecord {
    /// Loads the record of a file. A damaged record counts as none: `uninit` works without it.
    pub fn load(place: &Place, file: &Path) -> Option<Self> {
        let record = Snapshot::read(&record_path(place, file), MAX_RECORD).ok()?;
        let record: Self = serde_json::from_slice(record.bytes()?).ok()?;
        (record.file == file.to_string_lossy()).then_some(record)
    }

    /// Stores the record. The caller holds the settings lock.
    pub fn save(&self, place: &Place, file: &Path) -> Result<()> {
        let path = record_path(place, file);
        replace::store(&path, &serde_json::to_vec(self)?, MAX_RECORD)
            .with_context(|| format!("could not write {}", path.display()))
    }

    /// Returns the command of the status line that was there before becket's.
    pub fn status_command(&self) -> Option<String> {
        OriginalParts::of(self.original.as_deref()?).status_command()
    }
}

/// Returns true if there is a record of any settings file, so that becket is registered there.
pub fn is_any_registered(place: &Place) -> bool {
    let entries = fs::read_dir(record_folder(place)).into_iter().flatten();
    let mut names = entries.flatten().map(|entry| entry.file_name());
    names.any(|name| name.to_string_lossy().starts_with("settings-"))
}

/// Returns the folder of the records of `init` and `adopt`.
pub fn record_folder(place: &Place) -> PathBuf {
    place.home().join("backup")
}

/// Returns the file that keeps the record of a settings file.
pub fn record_path(place: &Place, file: &Path) -> PathBuf {
    let name = fnv1a(file.as_os_str().as_bytes());
    record_folder(place).join(format!("settings-{name:016x}.json"))
}

/// Removes a record, which need not exist.
pub fn remove_record(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("could not remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

/// Returns the text of a settings file without becket, or `None` if the file goes.
pub fn undo(text: &str, record: Option<&SettingsRecord>) -> Result<Option<String>, SettingsError> {
    let Some(record) = record else {
        return unregister(text, &OriginalParts::default()).map(Some);
    };
    if text == record.written {
        return Ok(record.original.clone());
    }
    let original = record.original.as_deref();
    let rest = unregister(text, &original.map(OriginalParts::of).unwrap_or_default())?;
    let is_empty = rest != text && is_bare(&rest)?;
    Ok((original.is_some() || !is_empty).then_some(rest))
}

/// Returns true if a file holds at most an empty object, and no comment.
fn is_bare(text: &str) -> Result<bool, SettingsError> {
    let is_empty = value(text)?.is_none_or(|value| value == serde_json::json!({}));
    Ok(is_empty && !text.contains('/'))
}
