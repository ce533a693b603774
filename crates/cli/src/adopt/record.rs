//! What an adoption remembers of the files that it changed, so that `--undo` can give back the very
//! bytes.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use becket_engine::replace::{self, Attempt, Snapshot};
use becket_wire::Place;
use becket_wire::place::fnv1a;
use serde::{Deserialize, Serialize};

use super::table::Block;
use crate::settings::Foreign;

/// A record holds six files.
const MAX_RECORD: u64 = 128 << 20;

/// One settings file, and the config that its hooks went into.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The settings file, links followed.
    pub file: String,
    pub before: String,
    pub written: String,
    /// Both as `uninit` would leave them, for whoever calls that first.
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
