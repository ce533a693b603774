//! Which projects the person trusts, and as what: `trust.json` in becket's home.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use becket_wire::Place;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::pin::Pins;
use crate::replace::{self, Attempt, Snapshot};

/// Nobody trusts so much.
const LARGEST: u64 = 64 << 20;
const LOCK_WAIT: Duration = Duration::from_secs(10);
const ATTEMPTS: usize = 20;

/// Every approval, by the key of its project.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Book {
    pub projects: BTreeMap<String, Approval>,
}

/// One approval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approval {
    /// Where it was given.
    pub project: String,
    /// When: milliseconds since 1970.
    pub at: i64,
    pub hash: String,
    pub pins: Pins,
}

#[derive(Debug, Error)]
pub enum BookError {
    #[error("could not read {}: {why}", .file.display())]
    Unreadable { file: PathBuf, why: io::Error },
    #[error("{} is damaged: {why}", .file.display())]
    Damaged { file: PathBuf, why: String },
    #[error("another becket holds {}", .file.display())]
    Held { file: PathBuf },
    #[error("could not write {}: {why}", .file.display())]
    Unwritable { file: PathBuf, why: io::Error },
}

impl Book {
    /// Reads the book; an absent one is empty.
    pub fn read(place: &Place) -> Result<Self, BookError> {
        let file = place.trust();
        match Snapshot::read(&file, LARGEST) {
            Ok(snapshot) => Self::of(&file, snapshot.bytes()),
            Err(why) => Err(BookError::Unreadable { file, why }),
        }
    }

    fn of(file: &Path, bytes: Option<&[u8]>) -> Result<Self, BookError> {
        let Some(bytes) = bytes else {
            return Ok(Self::default());
        };
        serde_json::from_slice(bytes).map_err(|why| BookError::Damaged {
            file: file.to_path_buf(),
            why: why.to_string(),
        })
    }
}

/// Changes the book, under its lock. A damaged one is set aside, and counts as empty; says where.
pub fn change(place: &Place, edit: impl Fn(&mut Book)) -> Result<Option<PathBuf>, BookError> {
    let file = place.trust();
    let unwritable = |why| BookError::Unwritable {
        file: file.clone(),
        why,
    };
    let lock = place.run().join("trust.lock");
    let held = replace::make_folder(&place.run(), 0o700)
        .and_then(|_| replace::lock(&lock, LOCK_WAIT))
        .map_err(|why| match why.kind() {
            ErrorKind::TimedOut => BookError::Held { file: lock.clone() },
            _ => unwritable(why),
        })?;
    let mut aside = None;
    for _ in 0..ATTEMPTS {
        let read = Snapshot::read(&file, LARGEST);
        let known = read.and_then(|before| {
            let book = Book::of(&file, before.bytes()).map_err(io::Error::other)?;
            Ok((before, book))
        });
        let Ok((before, mut book)) = known else {
            aside = Some(move_away(&file).map_err(unwritable)?);
            continue;
        };
        edit(&mut book);
        let text = serde_json::to_string_pretty(&book).map_err(|why| unwritable(why.into()))?;
        let text = format!("{text}\n");
        if before.replace(text.as_bytes(), 0o600).map_err(unwritable)? == Attempt::Done {
            drop(held);
            return Ok(aside);
        }
    }
    Err(unwritable(io::Error::other(
        "somebody else keeps writing it",
    )))
}

/// A damaged book goes out of the way: the link, where it is one, and never what it leads to.
fn move_away(file: &Path) -> io::Result<PathBuf> {
    let suffix = jiff::Zoned::now().strftime(".damaged-%Y%m%d-%H%M%S-%f");
    let mut name = file.as_os_str().to_owned();
    name.push(suffix.to_string());
    let aside = PathBuf::from(name);
    fs::rename(file, &aside)?;
    Ok(aside)
}
