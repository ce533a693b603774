//! The pins of an approval: the content of every file in `.becket/` that counts, and of every file of the
//! project that a `run` names.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{Display, Write};
use std::fs::{self, Metadata};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use becket_wire::Place;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use thiserror::Error;
use toml::Value;

use super::named_files::{NamedPath, places};
use crate::config::{LONGEST_FILE, Level, Source, parse_layer};
use crate::process::Program;
use crate::stamp::{FileStamp, is_absence, is_settled, read_bytes};

/// The bounds of a project that can be pinned: no user could look through more.
const MOST_FILES: usize = 2000;
const MOST_BYTES: u64 = 64 << 20;
const DEEPEST: usize = 16;

pub(super) const FOLDER: &str = ".becket";
/// The folder of documents, which do not count.
const DOCUMENTS: &str = ".becket/prd";
/// The files that name programs.
const CONFIGS: [&str; 2] = [".becket/config.toml", ".becket/local.toml"];

/// The pinned paths of a project, each with the hash of its content.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Pins(BTreeMap<String, String>);

/// The reason for which a project cannot be trusted.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Refusal {
    #[error("{path} leads out of the project")]
    LeadsOut { path: String },
    #[error("could not read {path}: {why}")]
    Unreadable { path: String, why: String },
    #[error(
        "{path}: more than {MOST_FILES} files, 64 MiB or {DEEPEST} nested folders cannot be pinned"
    )]
    TooMuch { path: String },
}

/// One difference between the approved files and the present ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PinChange {
    pub path: String,
    pub kind: PinChangeKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PinChangeKind {
    New,
    Changed,
    Gone,
}

impl Pins {
    /// Returns one hash of all pins, the same on every machine.
    pub fn hash(&self) -> String {
        let mut all = String::new();
        for (path, pin) in &self.0 {
            writeln!(all, "{}:{path} {}:{pin}", path.len(), pin.len()).ok();
        }
        hash_of(all.as_bytes())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Returns true if a file was pinned with this content.
    pub fn has(&self, path: &str, hash: &str) -> bool {
        self.0.get(path).is_some_and(|pin| pin.ends_with(hash))
    }

    /// Returns true if a path is pinned.
    pub fn names(&self, path: &str) -> bool {
        self.0.contains_key(path)
    }

    /// Returns the differences to an earlier state, by path.
    pub fn changes_since(&self, before: &Self) -> Vec<PinChange> {
        let paths: BTreeSet<&String> = before.0.keys().chain(self.0.keys()).collect();
        let changes = paths.into_iter().filter_map(|path| {
            let kind = match (before.0.get(path), self.0.get(path)) {
                (None, _) => PinChangeKind::New,
                (_, None) => PinChangeKind::Gone,
                (old, new) if old != new => PinChangeKind::Changed,
                _ => return None,
            };
            let path = path.clone();
            Some(PinChange { path, kind })
        });
        changes.collect()
    }
}

/// Returns the pins of a project as it is now. In the user's home, `.becket/` is becket's own home and belongs
/// to no project.
pub fn pins_of(project: &Path, place: &Place) -> Result<Pins, Refusal> {
    let folder = project.join(FOLDER).canonicalize().ok();
    let own = folder.is_none() || folder != place.home().canonicalize().ok();
    collect(project, own).map(|collected| collected.pins)
}

/// Returns the text of a pinned file if it is unchanged.
pub fn pinned_text(project: &Path, name: &str, pins: &Pins) -> Option<String> {
    let bytes = read_bytes(&project.join(name), MOST_BYTES).ok()?;
    let is_pinned = pins.has(name, &hash_of(&bytes));
    is_pinned.then(|| String::from_utf8_lossy(&bytes).into_owned())
}

/// The pins of a project, and the file stamps that were seen: a later check costs one stat a file.
#[derive(Debug, Default)]
pub(super) struct CollectedPins {
    pub(super) pins: Pins,
    stamps: Vec<PathStamp>,
    settled: bool,
}

#[derive(Debug)]
struct PathStamp {
    path: PathBuf,
    stamp: FileStamp,
    /// The stamp of the target, if the path is a link.
    target: Option<FileStamp>,
}

impl PathStamp {
    fn is_current(&self) -> bool {
        let target = self.target.as_ref();
        FileStamp::of(&fs::symlink_metadata(&self.path)) == self.stamp
            && target.is_none_or(|target| FileStamp::of(&fs::metadata(&self.path)) == *target)
    }
}

impl CollectedPins {
    /// Makes pins without stamps, so that the next check reads the files.
    pub(super) fn only(pins: Pins) -> Self {
        Self {
            pins,
            ..Self::default()
        }
    }

    /// Returns true if no file has changed since.
    pub(super) fn still_holds(&self) -> bool {
        self.settled && self.stamps.iter().all(PathStamp::is_current)
    }
}

/// Pins a project. `own` is false in the user's home, where `.becket/` is becket's home and not the project's.
pub(super) fn collect(project: &Path, own: bool) -> Result<CollectedPins, Refusal> {
    let real = project.canonicalize();
    let project = real.map_err(|error| unreadable(&project.to_string_lossy(), &error))?;
    let mut walk = Walk {
        project: &project,
        collected: CollectedPins {
            settled: true,
            ..CollectedPins::default()
        },
        bytes: 0,
        programs: Vec::new(),
    };
    if own {
        walk.take(FOLDER, Some(0))?;
        walk.named_files()?;
    }
    Ok(walk.collected)
}

/// The search through a project.
struct Walk<'a> {
    project: &'a Path,
    collected: CollectedPins,
    bytes: u64,
    /// The programs that the project's config files name.
    programs: Vec<Program>,
}

impl Walk<'_> {
    /// Pins a path. In `.becket/` everything counts, and `depth` is its depth there; elsewhere only files do,
    /// and a link may lead out of the project, like `.venv/bin/python`.
    fn take(&mut self, name: &str, depth: Option<usize>) -> Result<(), Refusal> {
        let path = self.project.join(name);
        let Some(itself) = self.look(&path, name)? else {
            return Ok(());
        };
        let mut link = String::new();
        if itself.is_symlink() {
            let target = fs::read_link(&path).map_err(|error| unreadable(name, &error))?;
            link = format!("link:{} ", target.display());
        }
        if depth.is_some()
            && let Ok(real) = path.canonicalize()
            && !real.starts_with(self.project)
        {
            return Err(Refusal::LeadsOut {
                path: name.to_owned(),
            });
        }
        match (fs::metadata(&path), depth) {
            (Ok(metadata), _) if metadata.is_file() => {
                let bytes = self.read(name, &path)?;
                if CONFIGS.contains(&name) {
                    let text = String::from_utf8_lossy(&bytes);
                    self.programs.extend(programs_in(&path, &text));
                }
                self.pin(name, format!("{link}sha256:{}", hash_of(&bytes)));
            }
            (_, None) => {}
            (Ok(metadata), Some(depth)) if metadata.is_dir() => {
                if !link.is_empty() {
                    self.pin(name, format!("{link}folder"));
                }
                self.folder(name, &path, depth)?;
            }
            (Ok(_), _) => return Err(unreadable(name, &"it is neither a file nor a folder")),
            (Err(error), _) if is_absence(&error) => self.pin(name, format!("{link}absent")),
            (Err(error), _) => return Err(unreadable(name, &error)),
        }
        Ok(())
    }

    fn folder(&mut self, name: &str, path: &Path, depth: usize) -> Result<(), Refusal> {
        if depth >= DEEPEST {
            return Err(too_much(name));
        }
        let entries = fs::read_dir(path).map_err(|error| unreadable(name, &error))?;
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|error| unreadable(name, &error))?;
            let last = entry.file_name();
            let utf8 = last.to_str();
            let last = utf8.ok_or_else(|| unreadable(name, &"a name in it is not UTF-8"))?;
            names.push(format!("{name}/{last}"));
        }
        names.sort();
        names.retain(|name| name != DOCUMENTS);
        names
            .iter()
            .try_for_each(|name| self.take(name, Some(depth + 1)))
    }

    /// Pins the files that the project's programs name.
    fn named_files(&mut self) -> Result<(), Refusal> {
        let mut known = BTreeSet::new();
        for program in std::mem::take(&mut self.programs) {
            for NamedPath { path, .. } in places(&program, self.project, self.project) {
                // The project may be reached by another name.
                let name = self
                    .name_inside(&path)
                    .or_else(|| self.name_inside(&path.canonicalize().ok()?));
                if let Some(name) = name
                    && !name.is_empty()
                    && !self.collected.pins.names(&name)
                    && known.insert(name.clone())
                {
                    self.take(&name, None)?;
                }
            }
        }
        Ok(())
    }

    /// Returns the name of a path inside the project.
    fn name_inside(&self, path: &Path) -> Option<String> {
        let name = path.strip_prefix(self.project).ok()?;
        name.to_str().map(str::to_owned)
    }

    /// Notes the stamp of a path. Returns none if there is nothing at it.
    fn look(&mut self, path: &Path, name: &str) -> Result<Option<Metadata>, Refusal> {
        if self.collected.stamps.len() >= MOST_FILES {
            return Err(too_much(name));
        }
        let itself = fs::symlink_metadata(path);
        let is_link = itself.as_ref().is_ok_and(Metadata::is_symlink);
        let target = is_link.then(|| fs::metadata(path));
        self.collected.settled &= is_reliable(&itself) && target.as_ref().is_none_or(is_reliable);
        self.collected.stamps.push(PathStamp {
            path: path.to_path_buf(),
            stamp: FileStamp::of(&itself),
            target: target.as_ref().map(FileStamp::of),
        });
        match itself {
            Ok(metadata) => Ok(Some(metadata)),
            Err(error) if is_absence(&error) => Ok(None),
            Err(error) => Err(unreadable(name, &error)),
        }
    }

    fn read(&mut self, name: &str, path: &Path) -> Result<Vec<u8>, Refusal> {
        let read = read_bytes(path, MOST_BYTES - self.bytes);
        let bytes = read.map_err(|error| match error.kind() {
            ErrorKind::FileTooLarge => too_much(name),
            _ => unreadable(name, &error),
        })?;
        self.bytes += bytes.len() as u64;
        Ok(bytes)
    }

    fn pin(&mut self, name: &str, pin: String) {
        self.collected.pins.0.insert(name.to_owned(), pin);
    }
}

/// Returns true if the same stamp later means the same content.
fn is_reliable(metadata: &io::Result<Metadata>) -> bool {
    metadata.as_ref().map_or(true, is_settled)
}

/// Returns every program that a config file of a project names.
fn programs_in(file: &Path, text: &str) -> Vec<Program> {
    // A longer config file has no effect.
    if text.len() as u64 > LONGEST_FILE {
        return Vec::new();
    }
    let source = Source {
        level: Level::Project,
        file: file.to_path_buf(),
    };
    let layer = match parse_layer(&source, text) {
        Ok(layer) => layer,
        Err(error) => match error.rest {
            Some(rest) => *rest,
            None => return Vec::new(),
        },
    };
    let hooks = layer.tables.iter().filter(|table| table.section == "hooks");
    let mut programs = Vec::new();
    for key in hooks.flat_map(|table| &table.keys) {
        // A program that a built-in runs in place of its own tool counts too.
        let plain = ["on", "description", "tools", "paths", "skip_agents"];
        match &key.value {
            _ if plain.contains(&&*key.name) => {}
            Value::String(line) => programs.push(Program::Shell(line.clone())),
            Value::Array(list) => {
                let words = list.iter().filter_map(Value::as_str).map(str::to_owned);
                programs.push(Program::List(words.collect()));
            }
            _ => {}
        }
    }
    programs
}

fn unreadable(path: &str, why: &dyn Display) -> Refusal {
    Refusal::Unreadable {
        path: path.to_owned(),
        why: why.to_string(),
    }
}

fn too_much(path: &str) -> Refusal {
    Refusal::TooMuch {
        path: path.to_owned(),
    }
}

/// Returns the SHA-256 of a content in hexadecimal.
pub(crate) fn hash_of(bytes: &[u8]) -> String {
    let hash = Sha256::digest(bytes);
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}
