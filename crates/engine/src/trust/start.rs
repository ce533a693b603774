//! Which files of a project its hooks start: those that the words of their programs name, and those
//! that say what a known program starts.

mod runner;
mod words;

use std::collections::BTreeSet;
use std::env::split_paths;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::line::{HERE, Line, PROJECT, Word, called};
use super::pin::{DOCUMENTS, FOLDER, Pins, plain};
use crate::config::{LONGEST_FILE, Level, Source, Value, parse_layer};
use crate::program::is_executable;
use crate::run::Program;
use runner::runners;
pub(crate) use words::Words;
pub(super) use words::{names_in, with};

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
            let open = runners(&words.commands).into_iter();
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
    for (runner, _) in runners(&words.commands) {
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
pub(super) fn place_of(folder: &Path, word: &str, project: &Path) -> Option<PathBuf> {
    let path = folder.join(word);
    if Path::new(word).is_relative() || path.starts_with(project) {
        return Some(path);
    }
    // The project may be reached by another name.
    let real = path.canonicalize().ok()?;
    real.starts_with(project).then_some(real)
}

/// The folders that a program may be in when it starts something: the first one, and every folder
/// of the project that one of its words names, from wherever it may be: `cd x && ./y`. None if there
/// are too many.
pub(super) fn folders(words: &[String], first: &Path, project: &Path) -> Option<Vec<PathBuf>> {
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
    if cwd == root {
        return false;
    }
    if let Some(rest) = after_the_root(program) {
        return leaves_again(rest);
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
/// None if it does not; else what stands after that.
fn after_the_root(program: &Program) -> Option<&str> {
    let Program::Shell(line) = program else {
        return None;
    };
    let rest = line.trim_start().strip_prefix("cd ")?.trim_start();
    let quoted = rest.strip_prefix('"');
    let after = PROJECT.iter().find_map(|variable| {
        let rest = quoted.unwrap_or(rest).strip_prefix(variable)?;
        match quoted {
            Some(_) => rest.strip_prefix('"'),
            None => Some(rest),
        }
    });
    after?.trim_start().strip_prefix("&&")
}

/// Whether a line that is at the root may go on in a folder that no word of it names.
fn leaves_again(rest: &str) -> bool {
    // Of `cd x && y & z` only `y` runs in `x`.
    let lists = ["&&", ">&", "&>", "<&"].iter();
    let without = lists.fold(rest.to_owned(), |rest, list| rest.replace(list, ""));
    let line = Line::all_of(&Program::Shell(rest.to_owned()));
    without.contains('&') || line.commands.iter().any(|command| goes_unnamed(command))
}

/// `cd -`, `popd`, `cd "$x"`: a folder that nobody knows before it runs.
fn goes_unnamed(command: &[Word]) -> bool {
    let mut words = command.iter().map(|word| &*word.text);
    if words.clone().any(|word| word.contains("OLDPWD")) {
        return true;
    }
    match words.find(|word| ["cd", "chdir", "pushd", "popd"].contains(&called(word))) {
        None => false,
        Some("popd") => true,
        Some(_) => {
            let unnamed = |word: &str| {
                let word = with(&with(word, PROJECT, ""), HERE, "");
                word == "-" || word.starts_with(['~', '+']) || word.contains(['$', '`'])
            };
            let mut folders = words.filter(|word| !word.starts_with('-') || *word == "-");
            folders.clone().next().is_none() || folders.any(unnamed)
        }
    }
}

/// Whether one of the program's bare words is found on the `PATH` in the project, as a file that
/// was not approved. Every word may be a program: `timeout 9 lint`.
pub(crate) fn starts_unapproved(program: &Program, root: &Path, cwd: &Path, path: &OsStr) -> bool {
    let Ok(root) = root.canonicalize() else {
        return false;
    };
    let all = Words::of(program, &root);
    let own = |place: &Path| {
        place.starts_with(root.join(FOLDER)) && !place.starts_with(root.join(DOCUMENTS))
    };
    let strange = all.names.iter().filter_map(|word| {
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

/// Whether the `PATH` leads one of the program's bare words to a file in that project. A link from
/// elsewhere into it is the person's own.
pub(crate) fn is_found_inside(program: &Program, project: &Path, cwd: &Path, path: &OsStr) -> bool {
    let Ok(project) = project.canonicalize() else {
        return false;
    };
    let is_inside = |folder: PathBuf| {
        let folder = cwd.join(folder).canonicalize();
        folder.is_ok_and(|folder| folder.starts_with(&project))
    };
    // As a rule no folder is, and nothing has to be looked for.
    split_paths(path).any(is_inside)
        && Words::of(program, &project).names.iter().any(|word| {
            let place = found_on(path, cwd, word);
            place.is_some_and(|place| place.starts_with(&project))
        })
}

/// Where a program of that name is, its folder resolved.
fn found_on(path: &OsStr, cwd: &Path, word: &str) -> Option<PathBuf> {
    if word.contains('/') {
        return None;
    }
    let places = split_paths(path).map(|folder| cwd.join(folder).join(word));
    let place = places.into_iter().find(|place| is_executable(place))?;
    Some(place.parent()?.canonicalize().ok()?.join(word))
}
