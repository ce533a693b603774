//! Which files of a project its hooks start: those that the words of their programs name, and those
//! that say what a known program starts.

mod runner;
mod words;

use std::collections::BTreeSet;
use std::env::split_paths;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use super::pin::{DOCUMENTS, FOLDER, Pins, plain};
use crate::config::{LONGEST_FILE, Level, Source, Value, parse_layer};
use crate::run::Program;
use runner::runners;
use words::PROJECT;
pub(crate) use words::Words;
pub(super) use words::is_for_a_line;

/// So many folders may a program go into. One that names more could hide where it goes.
pub(super) const MOST_FOLDERS: usize = 64;
/// No file system has a longer name for a file.
const LONGEST_NAME: usize = 255;

/// What a hook starts of a project, as far as its words tell.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Starts {
    /// The files of it that are pinned.
    pub pinned: Vec<String>,
    /// Its programs that start what other files say.
    pub runners: Vec<&'static str>,
    /// What stands in it for words that nobody knows before it runs: `$(…)`.
    pub unknown: Vec<&'static str>,
}

impl Starts {
    /// What these programs start, if those pins are approved.
    pub fn of(programs: &[Program], project: &Path, pins: &Pins) -> Self {
        let project = project.canonicalize().unwrap_or(project.to_path_buf());
        let mut files = BTreeSet::new();
        let (mut called, mut unknown) = (BTreeSet::new(), BTreeSet::new());
        for program in programs {
            let words = Words::of(program, &project);
            let places = places_of(&words, &project).unwrap_or_default();
            files.extend(places.iter().filter_map(|place| plain(&project, place)));
            let open = runners(&words.all).into_iter();
            called.extend(open.filter(|(it, _)| it.is_open).map(|(_, name)| name));
            unknown.extend(words.unknown);
        }
        files.retain(|name| pins.names(name));
        Self {
            pinned: files.into_iter().collect(),
            runners: called.into_iter().collect(),
            unknown: unknown.into_iter().collect(),
        }
    }
}

/// Every program that this config file of a project names.
pub(super) fn programs_in(file: &Path, text: &str) -> Vec<Program> {
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

/// Where the files may be that such a program starts; none if that cannot be told within bounds.
pub(super) fn places_of(words: &Words, project: &Path) -> Option<Vec<PathBuf>> {
    let folders = folders(&words.names, project, project)?;
    let mut names = words.names.clone();
    for (runner, _) in runners(&words.all) {
        names.extend(runner.files_for(&words.names));
    }
    names.sort();
    names.dedup();
    // What no file can be called is none.
    names.retain(|name| name.split('/').all(|part| part.len() <= LONGEST_NAME));
    let mut places = Vec::new();
    for name in &names {
        let all = folders.iter();
        places.extend(all.filter_map(|folder| place_of(folder, name, project)));
    }
    Some(places)
}

/// Where a word leads from a folder; none if that is another place than the project.
fn place_of(folder: &Path, word: &str, project: &Path) -> Option<PathBuf> {
    let path = folder.join(word);
    if Path::new(word).is_relative() || path.starts_with(project) {
        return Some(path);
    }
    // The project may be reached by another name.
    let real = path.canonicalize().ok()?;
    real.starts_with(project).then_some(real)
}

/// The folders that a program may be in when it starts something: the first one, and every folder
/// of the project that one of its words names, from wherever it may be: `cd x && ./y`. That is more
/// than it goes into, and never less. None if there are too many.
fn folders(words: &[String], first: &Path, project: &Path) -> Option<Vec<PathBuf>> {
    let mut folders = vec![first.to_path_buf()];
    let mut known: BTreeSet<PathBuf> = first.canonicalize().into_iter().collect();
    let mut at = 0;
    while let Some(folder) = folders.get(at).cloned() {
        at += 1;
        for word in words {
            let Some(path) = place_of(&folder, word, project) else {
                continue;
            };
            let Some(name) = plain(project, &path).filter(|_| path.is_dir()) else {
                continue;
            };
            // A shell goes back by the name (`cd link/..`), everybody else by what it leads to.
            for path in [path, project.join(name)] {
                let real = path.canonicalize();
                if path.is_dir() && real.is_ok_and(|real| known.insert(real)) {
                    folders.push(path);
                }
            }
            if folders.len() > MOST_FOLDERS {
                return None;
            }
        }
    }
    Some(folders)
}

/// Whether in that folder a word of the program names another file than from the project's root,
/// from where it was approved.
pub(crate) fn is_led_astray(program: &Program, root: &Path, cwd: &Path) -> bool {
    if cwd == root || goes_to_the_root(program) {
        return false;
    }
    let (Ok(root), Ok(cwd)) = (root.canonicalize(), cwd.canonicalize()) else {
        return false;
    };
    let project = match cwd.starts_with(&root) {
        true => &root,
        false => &cwd,
    };
    let names = Words::of(program, &root).names;
    let (here, there) = (
        folders(&names, &cwd, project),
        folders(&names, &root, &root),
    );
    let (Some(here), Some(there)) = (here, there) else {
        return true;
    };
    let files = |folders: &[PathBuf], word: &str| -> BTreeSet<PathBuf> {
        let places = folders.iter().map(|folder| folder.join(word));
        let files = places.filter(|place| place.is_file());
        files.filter_map(|file| file.canonicalize().ok()).collect()
    };
    let other = |word: &String| {
        let found = files(&here, word);
        !found.is_empty() && !found.is_subset(&files(&there, word))
    };
    names.iter().any(other)
}

/// A line that begins with `cd "$CLAUDE_PROJECT_DIR" &&` runs at the root, wherever it begins.
fn goes_to_the_root(program: &Program) -> bool {
    let Program::Shell(line) = program else {
        return false;
    };
    let Some(rest) = line.trim_start().strip_prefix("cd ") else {
        return false;
    };
    let rest = rest.trim_start();
    let quoted = rest.strip_prefix('"');
    let after = PROJECT.iter().find_map(|variable| {
        let rest = quoted.unwrap_or(rest).strip_prefix(variable)?;
        match quoted {
            Some(_) => rest.strip_prefix('"'),
            None => Some(rest),
        }
    });
    after.is_some_and(|rest| rest.trim_start().starts_with("&&"))
}

/// Whether one of the program's bare words is found on the `PATH` in the project, as a file that
/// was not approved. In a list that is the program; in a line for a shell it may be every word.
pub(crate) fn starts_unapproved(program: &Program, root: &Path, cwd: &Path, path: &OsStr) -> bool {
    let Ok(root) = root.canonicalize() else {
        return false;
    };
    let all = Words::of(program, &root);
    let words: Vec<String> = match program {
        Program::List(list) => {
            let is_line = |word: &&String| word.contains(char::is_whitespace);
            let lines = list.iter().skip(1).filter(is_line);
            let lines = lines.map(|line| Program::Shell(line.clone()));
            let words = lines.flat_map(|line| Words::of(&line, &root).names);
            list.first().cloned().into_iter().chain(words).collect()
        }
        Program::Shell(_) => all.names.clone(),
    };
    let own = |place: &Path| {
        place.starts_with(root.join(FOLDER)) && !place.starts_with(root.join(DOCUMENTS))
    };
    let strange = words.iter().filter_map(|word| {
        let place = found_on(path, cwd, word)?;
        let real = place.canonicalize().ok()?;
        let inside = place.starts_with(&root) || real.starts_with(&root);
        (inside && !own(&place)).then_some(real)
    });
    let strange: Vec<PathBuf> = strange.collect();
    if strange.is_empty() {
        return false;
    }
    let places = places_of(&all, &root).unwrap_or_default().into_iter();
    let approved: Vec<PathBuf> = places.filter_map(|it| it.canonicalize().ok()).collect();
    strange.iter().any(|real| !approved.contains(real))
}

/// Where a program of that name is, its folder resolved.
fn found_on(path: &OsStr, cwd: &Path, word: &str) -> Option<PathBuf> {
    if word.contains('/') {
        return None;
    }
    let places = split_paths(path).map(|folder| cwd.join(folder).join(word));
    let runs = |place: &PathBuf| place.is_file() && access(place, Access::EXEC_OK).is_ok();
    let place = places.into_iter().find(runs)?;
    Some(place.parent()?.canonicalize().ok()?.join(word))
}
