//! What an approval pins: every file in `.becket/` that counts, and every file of the project that
//! a `run` names, each by its content.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{Display, Write};
use std::fs::{self, Metadata};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use becket_wire::Place;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use thiserror::Error;

use super::words::{NamedPath, places};
use crate::config::{LONGEST_FILE, Level, Source, Value, parse_layer};
use crate::process::Program;
use crate::stamp::{Seen, is_absence, is_settled, open_regular};

/// Bounds: no user could look through more.
const MOST_FILES: usize = 2000;
const MOST_BYTES: u64 = 64 << 20;
const DEEPEST: usize = 16;

pub(super) const FOLDER: &str = ".becket";
/// Documents, which do not count.
const DOCUMENTS: &str = ".becket/prd";
/// The files that name programs.
const CONFIGS: [&str; 2] = [".becket/config.toml", ".becket/local.toml"];

/// What is pinned: for each path in the project, what was there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Pins(BTreeMap<String, String>);

/// Why a project cannot be trusted as it is.
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

/// One difference between what was approved and what is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub path: String,
    pub how: How,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    New,
    Changed,
    Gone,
}

impl Pins {
    /// One hash for all of it, the same on every machine.
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

    /// Whether a file was pinned with that content.
    pub fn has(&self, path: &str, hash: &str) -> bool {
        self.0.get(path).is_some_and(|pin| pin.ends_with(hash))
    }

    pub fn names(&self, path: &str) -> bool {
        self.0.contains_key(path)
    }

    /// What is different now, by path.
    pub fn changes_since(&self, before: &Self) -> Vec<Change> {
        let change = |path: &String, how| Change {
            path: path.clone(),
            how,
        };
        let gone = before.0.keys().filter(|path| !self.0.contains_key(*path));
        let mut changes: Vec<Change> = gone.map(|path| change(path, How::Gone)).collect();
        for (path, pin) in &self.0 {
            match before.0.get(path) {
                None => changes.push(change(path, How::New)),
                Some(old) if old != pin => changes.push(change(path, How::Changed)),
                Some(_) => {}
            }
        }
        changes.sort_by(|one, other| one.path.cmp(&other.path));
        changes
    }
}

/// What would be pinned of a project as it is now. In the user's home, `.becket/` is becket's own
/// home and no project's.
pub fn pins_of(project: &Path, place: &Place) -> Result<Pins, Refusal> {
    let folder = project.join(FOLDER).canonicalize().ok();
    let own = folder.is_none() || folder != place.home().canonicalize().ok();
    collect(project, own).map(|looked| looked.pins)
}

/// The text of a pinned file, if it is still what was pinned.
pub fn pinned_text(project: &Path, name: &str, pins: &Pins) -> Option<String> {
    let mut bytes = Vec::new();
    let file = open_regular(&project.join(name)).ok()?;
    file.take(MOST_BYTES).read_to_end(&mut bytes).ok()?;
    let is_pinned = pins.has(name, &hash_of(&bytes));
    is_pinned.then(|| String::from_utf8_lossy(&bytes).into_owned())
}

/// What was looked at, so that a later look costs one stat each.
#[derive(Debug, Default)]
pub(super) struct Looked {
    pub(super) pins: Pins,
    looks: Vec<Look>,
    settled: bool,
}

#[derive(Debug)]
struct Look {
    path: PathBuf,
    itself: Seen,
    /// Of a link: what it leads to.
    target: Option<Seen>,
}

impl Looked {
    /// Pins that no look has shown.
    pub(super) fn only(pins: Pins) -> Self {
        Self {
            pins,
            ..Self::default()
        }
    }

    /// Whether nothing of it has changed since.
    pub(super) fn still_holds(&self) -> bool {
        let same = |look: &Look| {
            let target = look.target.as_ref();
            Seen::of(&fs::symlink_metadata(&look.path)) == look.itself
                && target.is_none_or(|target| Seen::of(&fs::metadata(&look.path)) == *target)
        };
        self.settled && self.looks.iter().all(same)
    }
}

/// Looks through a project. `own` is whether its `.becket/` is one: in the user's home it is not.
pub(super) fn collect(project: &Path, own: bool) -> Result<Looked, Refusal> {
    let real = project.canonicalize();
    let project = real.map_err(|error| unreadable(&project.to_string_lossy(), &error))?;
    let mut walk = Walk {
        project: &project,
        looked: Looked {
            settled: true,
            ..Looked::default()
        },
        bytes: 0,
        programs: Vec::new(),
    };
    if own {
        walk.take(FOLDER, Some(0))?;
        walk.named()?;
    }
    Ok(walk.looked)
}

struct Walk<'a> {
    project: &'a Path,
    looked: Looked,
    bytes: u64,
    /// The programs that its files name.
    programs: Vec<Program>,
}

impl Walk<'_> {
    /// Pins what stands under that name. In `.becket/` everything counts, and `depth` says how deep
    /// it lies; elsewhere only files do, and one may lead out of the project, as `.venv/bin/python`.
    fn take(&mut self, name: &str, depth: Option<usize>) -> Result<(), Refusal> {
        let path = self.project.join(name);
        let Some(itself) = self.look(&path, name)? else {
            return Ok(());
        };
        let link = match itself.is_symlink() {
            true => {
                let target = fs::read_link(&path).map_err(|error| unreadable(name, &error))?;
                format!("link:{} ", target.display())
            }
            false => String::new(),
        };
        let is_outside = |real: PathBuf| !real.starts_with(self.project);
        if depth.is_some() && path.canonicalize().is_ok_and(is_outside) {
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

    /// Pins the files that programs of the project name.
    fn named(&mut self) -> Result<(), Refusal> {
        let mut known = BTreeSet::new();
        for program in std::mem::take(&mut self.programs) {
            for NamedPath { path, .. } in places(&program, self.project, self.project) {
                let inside = |path: &Path| Some(path.strip_prefix(self.project).ok()?.to_owned());
                // The project may be reached by another name.
                let name = inside(&path).or_else(|| inside(&path.canonicalize().ok()?));
                let name = name.and_then(|name| name.into_os_string().into_string().ok());
                let new = |name: &String| !name.is_empty() && !self.looked.pins.names(name);
                if let Some(name) = name.filter(new)
                    && known.insert(name.clone())
                {
                    self.take(&name, None)?;
                }
            }
        }
        Ok(())
    }

    /// Notes how a path is found; None if nothing is there.
    fn look(&mut self, path: &Path, name: &str) -> Result<Option<Metadata>, Refusal> {
        if self.looked.looks.len() >= MOST_FILES {
            return Err(too_much(name));
        }
        let itself = fs::symlink_metadata(path);
        let is_link = itself.as_ref().is_ok_and(Metadata::is_symlink);
        let target = is_link.then(|| fs::metadata(path));
        let settled = |metadata: &io::Result<Metadata>| metadata.as_ref().map_or(true, is_settled);
        self.looked.settled &= settled(&itself) && target.as_ref().is_none_or(settled);
        self.looked.looks.push(Look {
            path: path.to_path_buf(),
            itself: Seen::of(&itself),
            target: target.as_ref().map(Seen::of),
        });
        match itself {
            Ok(metadata) => Ok(Some(metadata)),
            Err(error) if is_absence(&error) => Ok(None),
            Err(error) => Err(unreadable(name, &error)),
        }
    }

    fn read(&mut self, name: &str, path: &Path) -> Result<Vec<u8>, Refusal> {
        let left = MOST_BYTES - self.bytes;
        let mut bytes = Vec::new();
        let read = open_regular(path).and_then(|file| file.take(left + 1).read_to_end(&mut bytes));
        read.map_err(|error| unreadable(name, &error))?;
        if bytes.len() as u64 > left {
            return Err(too_much(name));
        }
        self.bytes += bytes.len() as u64;
        Ok(bytes)
    }

    fn pin(&mut self, name: &str, pin: String) {
        self.looked.pins.0.insert(name.to_owned(), pin);
    }
}

/// Every program that this config file of a project names.
fn programs_in(file: &Path, text: &str) -> Vec<Program> {
    // Nothing of a longer one is in force.
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
        // What a built-in is told to run instead of its own tool counts too.
        let plain = ["on", "description", "tools", "paths", "skip_agents"];
        match &key.value {
            _ if plain.contains(&&*key.name) => {}
            Value::Text(line) => programs.push(Program::Shell(line.clone())),
            Value::List(list) => programs.push(Program::List(list.clone())),
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

/// The hash of a content, in letters.
pub(crate) fn hash_of(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .fold(String::new(), |mut text, byte| {
            write!(text, "{byte:02x}").ok();
            text
        })
}
