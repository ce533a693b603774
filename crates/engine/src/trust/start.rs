//! Which files of a project its hooks start: the words of their programs, as far as they can be
//! told apart without a shell.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use crate::config::{Level, Source, Value, parse_layer};
use crate::run::Program;

/// How many words of a project's programs are looked at.
const MOST_WORDS: usize = 512;
/// No file has a longer name.
const LONGEST: usize = 4096;
/// How Claude Code's own hooks name the project.
const PROJECT: [&str; 2] = ["${CLAUDE_PROJECT_DIR}", "$CLAUDE_PROJECT_DIR"];

/// The words of every program that this config file of a project names.
pub(super) fn words_in(project: &Path, file: &Path, text: &str) -> Vec<String> {
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
    words.truncate(MOST_WORDS);
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
        if let Some((_, value)) = word.split_once('=') {
            self.take(value);
        }
        let file = !word.is_empty() && word.len() <= LONGEST && !word.starts_with('-');
        if file && !word.contains('\0') {
            self.words.push(word);
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
