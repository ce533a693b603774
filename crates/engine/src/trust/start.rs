//! Which files of a project its hooks start: the words of their programs, as far as they can be
//! told apart without a shell.

use std::borrow::Cow;
use std::env::split_paths;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use super::pin::{DOCUMENTS, FOLDER};
use crate::config::{LONGEST_FILE, Level, Source, Value, parse_layer};
use crate::run::Program;

/// How many values a word may have: `--set=key=value`.
const MOST_VALUES: usize = 4;
/// How many options one word may have before a file's name: `-nf`.
const MOST_LETTERS: usize = 3;
/// No file has a longer name.
const LONGEST: usize = 4096;
/// How Claude Code's own hooks name the project.
const PROJECT: [&str; 2] = ["${CLAUDE_PROJECT_DIR}", "$CLAUDE_PROJECT_DIR"];

/// The words of every program that this config file of a project names.
pub(super) fn words_in(project: &Path, file: &Path, text: &str) -> Vec<String> {
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
    let mut words = Vec::new();
    for key in hooks.flat_map(|table| &table.keys) {
        // What a built-in is told to run instead of its own tool counts too.
        let plain = ["on", "description", "tools", "paths", "skip_agents"];
        match &key.value {
            _ if plain.contains(&&*key.name) => {}
            Value::Text(line) => words.extend(words_of(&Program::Shell(line.clone()), project)),
            Value::List(list) => words.extend(words_of(&Program::List(list.clone()), project)),
            _ => {}
        }
    }
    words.sort();
    words.dedup();
    words
}

/// The words of a program that may name files, seen from that project.
pub(crate) fn words_of(program: &Program, project: &Path) -> Vec<String> {
    let mut cut = Cut {
        project: project.to_string_lossy(),
        words: Vec::new(),
    };
    match program {
        Program::List(list) => list.iter().for_each(|word| cut.take(word)),
        Program::Shell(line) => cut.split(line),
    }
    cut.words
}

struct Cut<'a> {
    project: Cow<'a, str>,
    words: Vec<String>,
}

impl Cut<'_> {
    fn take(&mut self, word: &str) {
        let mut word = word.to_owned();
        for variable in PROJECT {
            word = word.replace(variable, &self.project);
        }
        // A line for another shell: `sh -c "…"`.
        if word.contains(char::is_whitespace) {
            self.split(&word);
        }
        let mut rest = &*word;
        self.name(rest);
        for _ in 0..MOST_VALUES {
            let Some((_, value)) = rest.split_once('=') else {
                break;
            };
            self.name(value);
            rest = value;
        }
    }

    /// Takes a word, or of an option what follows its letters: `-fscripts/x.awk`.
    fn name(&mut self, word: &str) {
        let Some(option) = word.strip_prefix('-') else {
            return self.push(word);
        };
        let letters = option.bytes().take(MOST_LETTERS);
        let letters = letters.take_while(u8::is_ascii_alphabetic).count();
        for at in 1..=letters {
            self.push(&option[at..]);
        }
    }

    fn push(&mut self, word: &str) {
        let file = !word.is_empty() && word.len() <= LONGEST && !word.starts_with('-');
        if file && !word.contains('\0') {
            self.words.push(word.to_owned());
        }
    }

    /// Cuts a line where a shell would.
    fn split(&mut self, line: &str) {
        let (mut word, mut quote) = (String::new(), None);
        let mut words = Vec::new();
        for c in line.chars() {
            match (quote, c) {
                (Some(open), c) if c == open => quote = None,
                (Some(_), c) => word.push(c),
                (None, '"' | '\'') => quote = Some(c),
                (None, '\\') => {}
                (None, ';' | '|' | '&' | '(' | ')' | '<' | '>' | '`') => {
                    words.push(std::mem::take(&mut word));
                }
                (None, c) if c.is_whitespace() => words.push(std::mem::take(&mut word)),
                (None, c) => word.push(c),
            }
        }
        words.push(word);
        for word in words {
            // A word as long as the line has nothing left to be cut.
            match word.len() < line.len() {
                true => self.take(&word),
                false if word.contains(char::is_whitespace) => self.words.push(word),
                false => self.take(&word),
            }
        }
    }
}

/// The file that a word names in the project, if it is one that could be there.
pub(super) fn file_of(project: &Path, word: &str) -> Option<PathBuf> {
    let path = project.join(word);
    if path.starts_with(project) {
        return Some(path);
    }
    // The project may be reached by another name.
    let real = path.canonicalize().ok()?;
    real.starts_with(project).then_some(real)
}

/// Whether one of the program's bare words is found on the `PATH` in the project, as a file that
/// was not approved. In a list that is the program; in a line for a shell it may be every word.
pub(crate) fn starts_unapproved(program: &Program, root: &Path, cwd: &Path, path: &OsStr) -> bool {
    let Ok(root) = root.canonicalize() else {
        return false;
    };
    let words = match program {
        Program::List(list) => {
            let is_line = |word: &&String| word.contains(char::is_whitespace);
            let lines = list.iter().skip(1).filter(is_line);
            let lines = lines.map(|line| Program::Shell(line.clone()));
            let words = lines.flat_map(|line| words_of(&line, &root));
            list.first().cloned().into_iter().chain(words).collect()
        }
        Program::Shell(_) => words_of(program, &root),
    };
    let real = |word: String| root.join(word).canonicalize().ok();
    let approved: Vec<PathBuf> = words_of(program, &root)
        .into_iter()
        .filter_map(real)
        .collect();
    let own = |place: &Path| {
        place.starts_with(root.join(FOLDER)) && !place.starts_with(root.join(DOCUMENTS))
    };
    let strange = |word: &String| {
        let Some(place) = found_on(path, cwd, word) else {
            return false;
        };
        let Ok(real) = place.canonicalize() else {
            return false;
        };
        let inside = place.starts_with(&root) || real.starts_with(&root);
        inside && !approved.contains(&real) && !own(&place)
    };
    words.iter().any(strange)
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
