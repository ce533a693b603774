//! The stored approvals: `trust.json` in becket's home, by the key of each project.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use becket_wire::Place;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::pin::Pins;
use crate::git::common_folder;
use crate::local_time;
use crate::replace::{self, Attempt, Snapshot};

const LARGEST_STORE: u64 = 64 << 20;
const LOCK_WAIT: Duration = Duration::from_secs(10);

/// Every approval, by the key of its project.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrustStore {
    pub projects: BTreeMap<String, Approval>,
}

/// The user's approval of one project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approval {
    /// The folder for which it was given.
    pub project: String,
    /// The time of the approval in milliseconds since 1970.
    pub at: i64,
    pub hash: String,
    pub pins: Pins,
}

#[derive(Debug, Error)]
pub enum TrustStoreError {
    #[error("could not read {}: {why}", .file.display())]
    Unreadable { file: PathBuf, why: io::Error },
    #[error("{} is damaged: {why}", .file.display())]
    Damaged { file: PathBuf, why: String },
    #[error("another becket holds {}", .file.display())]
    Held { file: PathBuf },
    #[error("could not write {}: {why}", .file.display())]
    Unwritable { file: PathBuf, why: io::Error },
}

impl TrustStore {
    /// Reads the store. Without a file it is empty.
    pub fn read(place: &Place) -> Result<Self, TrustStoreError> {
        let file = place.trust();
        match Snapshot::read(&file, LARGEST_STORE) {
            Ok(snapshot) => Self::of(&file, snapshot.bytes()),
            Err(why) => Err(TrustStoreError::Unreadable { file, why }),
        }
    }

    fn of(file: &Path, bytes: Option<&[u8]>) -> Result<Self, TrustStoreError> {
        let Some(bytes) = bytes else {
            return Ok(Self::default());
        };
        serde_json::from_slice(bytes).map_err(|why| TrustStoreError::Damaged {
            file: file.to_path_buf(),
            why: why.to_string(),
        })
    }
}

/// Changes the store, under its lock. A damaged one is set aside and counts as empty; returns its new path.
pub fn change(
    place: &Place,
    edit: impl Fn(&mut TrustStore),
) -> Result<Option<PathBuf>, TrustStoreError> {
    let file = place.trust();
    let unwritable = |why| TrustStoreError::Unwritable {
        file: file.clone(),
        why,
    };
    let lock = place.run().join("trust.lock");
    let held = replace::lock(&lock, LOCK_WAIT).map_err(|why| match why.kind() {
        ErrorKind::TimedOut => TrustStoreError::Held { file: lock.clone() },
        _ => unwritable(why),
    })?;
    let mut aside = None;
    let written = replace::retry(|| {
        let read = Snapshot::read(&file, LARGEST_STORE);
        let known = read.and_then(|before| {
            let store = TrustStore::of(&file, before.bytes()).map_err(io::Error::other)?;
            Ok((before, store))
        });
        let Ok((before, mut store)) = known else {
            aside = Some(move_away(&file).map_err(unwritable)?);
            return Ok(None);
        };
        edit(&mut store);
        let text = serde_json::to_string_pretty(&store).map_err(|why| unwritable(why.into()))?;
        let text = format!("{text}\n");
        let attempt = before.replace(text.as_bytes(), 0o600);
        let is_done = attempt.map_err(unwritable)? == Attempt::Done;
        Ok(is_done.then_some(()))
    })?;
    drop(held);
    let keeps_changing = || unwritable(io::Error::other("another process keeps writing it"));
    written.map(|()| aside).ok_or_else(keeps_changing)
}

/// Renames a damaged store. If the path is a link, the link is renamed.
fn move_away(file: &Path) -> io::Result<PathBuf> {
    let suffix = local_time::now().strftime(".damaged-%Y%m%d-%H%M%S-%f");
    let mut name = file.as_os_str().to_owned();
    name.push(suffix.to_string());
    let aside = PathBuf::from(name);
    fs::rename(file, &aside)?;
    Ok(aside)
}

/// Returns the key of a project: its git common folder, so that all worktrees share one; without git the folder
/// itself. Returns none if the folder is gone, or its name is not UTF-8.
pub fn key_of(project: &Path) -> Option<String> {
    let project = project.canonicalize().ok()?;
    let key = common_folder(&project).unwrap_or(project);
    key.into_os_string().into_string().ok()
}
