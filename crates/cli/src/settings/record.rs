//! What `init` remembers of a settings file, so that `uninit` can give back the very bytes.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use becket_wire::Place;
use becket_wire::place::fnv1a;
use serde::{Deserialize, Serialize};

use super::document::SettingsError;
use super::register::value;
use super::unregister::{Kept, unregister};
use becket_engine::replace::{self, Attempt, Snapshot};

/// A record holds two settings files.
const MAX_RECORD: u64 = 64 << 20;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    pub file: String,
    /// The text without us; none if there was no file.
    pub original: Option<String>,
    /// The text that `init` wrote.
    pub written: String,
    /// The file's folder is ours too.
    pub made_folder: bool,
    /// The person wants no status line of ours.
    #[serde(default)]
    pub no_status_line: bool,
}

impl Record {
    /// What was remembered of a file. A damaged record is as good as none: `uninit` can do without.
    pub fn load(place: &Place, file: &Path) -> Option<Self> {
        let record = fs::read(path(place, file)).ok()?;
        let record: Self = serde_json::from_slice(&record).ok()?;
        (record.file == file.to_string_lossy()).then_some(record)
    }

    /// Stores it. Only who holds the settings lock does, so nobody can outrun it for long.
    pub fn save(&self, place: &Place, file: &Path) -> Result<()> {
        let path = path(place, file);
        let failed = || format!("could not write {}", path.display());
        replace::make_folder(&folder(place), 0o700).with_context(failed)?;
        let bytes = serde_json::to_vec(self)?;
        loop {
            let old = Snapshot::read(&path, MAX_RECORD).with_context(failed)?;
            if old.replace(&bytes, 0o600).with_context(failed)? == Attempt::Done {
                return Ok(());
            }
        }
    }

    /// The command of the status line that was there before ours.
    pub fn status_command(&self) -> Option<String> {
        Kept::of(self.original.as_deref()?).status_command()
    }

    pub fn forget(place: &Place, file: &Path) -> Result<()> {
        let path = path(place, file);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(error).with_context(|| format!("could not remove {}", path.display()))
            }
            _ => Ok(()),
        }
    }
}

fn folder(place: &Place) -> PathBuf {
    place.home().join("backup")
}

fn path(place: &Place, file: &Path) -> PathBuf {
    let name = fnv1a(file.as_os_str().as_bytes());
    folder(place).join(format!("settings-{name:016x}.json"))
}

/// A settings file's text without us; none if there should be no file.
pub fn undo(text: &str, record: Option<&Record>) -> Result<Option<String>, SettingsError> {
    let Some(record) = record else {
        return unregister(text, &Kept::default()).map(Some);
    };
    if text == record.written {
        return Ok(record.original.clone());
    }
    let kept = record.original.as_deref().map(Kept::of).unwrap_or_default();
    let rest = unregister(text, &kept)?;
    let is_empty = rest != text && is_bare(&rest)?;
    Ok((record.original.is_some() || !is_empty).then_some(rest))
}

/// Nothing in it but an empty object, not even a comment.
fn is_bare(text: &str) -> Result<bool, SettingsError> {
    let nothing = value(text)?.is_none_or(|value| value == serde_json::json!({}));
    Ok(nothing && !text.contains('/'))
}
