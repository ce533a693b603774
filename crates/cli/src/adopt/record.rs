//! Keeps both files of every adoption as they were, so that `becket hooks adopt --undo` can restore them
//! byte for byte.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use becket_engine::replace;
use becket_wire::Place;
use becket_wire::place::fnv1a;
use serde::{Deserialize, Serialize};

use crate::adopt::config_table::HookTable;
use crate::settings::{ForeignEntry, real_path, record_folder};

/// The size limit of a record, which holds six files.
const MAX_RECORD: u64 = 128 << 20;

/// The record of one settings file, and of the config into which its hooks went.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AdoptionRecord {
    /// The path of the settings file after all links.
    pub file: String,
    pub before: String,
    pub written: String,
    /// Both texts as `uninit` would leave them, for a user who calls that first.
    #[serde(default)]
    pub without_us: Option<WithoutBecket>,
    /// The entries that were taken out, in the order of the file.
    pub entries: Vec<ForeignEntry>,
    /// `None` if only becket's own entries were changed.
    pub config: Option<ConfigRecord>,
}

/// A settings file without becket's entries, before and after the adoption. `None` is no file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WithoutBecket {
    pub before: Option<String>,
    pub written: Option<String>,
}

/// The config before and after the adoption.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ConfigRecord {
    /// The path before links are followed.
    pub file: PathBuf,
    /// `None` if there was no file.
    pub before: Option<String>,
    pub written: String,
    #[serde(rename = "blocks")]
    pub tables: Vec<HookTable>,
    /// True if `adopt` made the file's folder.
    pub made_folder: bool,
}

impl AdoptionRecord {
    /// Stores the record under a new name. The caller holds the settings lock.
    pub fn save(&self, place: &Place, file: &Path) -> Result<PathBuf> {
        let last = records_of(place, file).pop();
        let number = last.map_or(0, |(path, _)| number(&path)) + 1;
        let path = record_folder(place).join(format!("{}{number:04}.json", prefix(file)));
        replace::store(&path, &serde_json::to_vec(self)?, MAX_RECORD)
            .with_context(|| format!("could not write {}", path.display()))?;
        Ok(path)
    }
}

/// Returns the records of a settings file, oldest first. A damaged record is skipped.
pub fn records_of(place: &Place, file: &Path) -> Vec<(PathBuf, AdoptionRecord)> {
    let prefix = prefix(file);
    let mut records = Vec::new();
    let entries = fs::read_dir(record_folder(place)).into_iter().flatten();
    for entry in entries.flatten() {
        if entry.file_name().to_string_lossy().starts_with(&prefix)
            && let Ok(bytes) = fs::read(entry.path())
            && let Ok(record) = serde_json::from_slice::<AdoptionRecord>(&bytes)
            && record.file == file.to_string_lossy()
        {
            records.push((entry.path(), record));
        }
    }
    records.sort_by_key(|(path, _)| number(path));
    records
}

/// Returns true if hooks of a settings file are adopted and were not given back.
pub fn is_any_adopted(place: &Place, file: &Path) -> bool {
    let records = records_of(place, &real_path(file));
    records.iter().any(|(_, record)| !record.entries.is_empty())
}

fn prefix(file: &Path) -> String {
    format!("adopt-{:016x}-", fnv1a(file.as_os_str().as_bytes()))
}

fn number(path: &Path) -> u32 {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let number = stem.rsplit('-').next().unwrap_or_default();
    number.parse().unwrap_or(0)
}
