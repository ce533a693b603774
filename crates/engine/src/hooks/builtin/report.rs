//! What a tool found: read from what it printed, cut to what helps, and put into words.

mod json;
mod lines;
mod tests_failed;

use std::fmt::Write;
use std::path::{Path, PathBuf};

use super::capture::Captured;
use super::language::Format;

/// How many problems are told at once, how long each may be, and all of them together.
const MOST: usize = 10;
const LONGEST: usize = 700;
const ALL: usize = 4_000;
/// What is told of output that nobody can read.
const LAST_LINES: usize = 40;

/// One thing that a tool finds fault with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub file: Option<PathBuf>,
    /// Counted from 1; 0 if nobody knows.
    pub line: u32,
    pub column: u32,
    pub severity: Severity,
    /// Without the position. More lines than one if the tool explains itself.
    pub text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    Error,
    Warning,
    /// It explains another one.
    Note,
}

/// Reads what a tool printed. Files are as seen from `base`.
pub fn read(format: Format, said: &Captured, base: &Path) -> Vec<Problem> {
    let both = || format!("{}\n{}", said.stdout, said.stderr);
    let mut problems = match format {
        Format::Lines | Format::Cargo => lines::colons(&both()),
        Format::Parens => lines::parens(&both()),
        Format::GitHub => lines::github(&said.stdout),
        Format::EslintJson => json::eslint(&said.stdout),
        Format::PyrightJson => json::pyright(&said.stdout),
        Format::JestJson => json::jest(&said.stdout),
        Format::CargoTest => tests_failed::cargo(&said.stdout, &said.stderr),
        Format::Pytest => tests_failed::pytest(&said.stdout),
        Format::GoTest => tests_failed::go(&said.stdout, &said.stderr),
        Format::Any => lines::any(&both()),
    };
    for problem in &mut problems {
        problem.file = problem.file.take().map(|file| base.join(file));
    }
    // Several targets of one crate tell the same thing.
    let mut seen = std::collections::BTreeSet::new();
    problems.retain(|problem| {
        let place = (problem.file.clone(), problem.line, problem.column);
        seen.insert((place, problem.text.clone()))
    });
    problems
}

/// All that is known where a tool fails and nothing in it can be read: the end of what it said.
pub fn last_words(said: &Captured) -> Option<Problem> {
    let text = format!("{}\n{}", said.stdout.trim_end(), said.stderr.trim_end());
    let lines: Vec<_> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    let last = &lines[lines.len().saturating_sub(LAST_LINES)..];
    (!last.is_empty()).then(|| Problem {
        file: None,
        line: 0,
        column: 0,
        severity: Severity::Error,
        text: last.join("\n"),
    })
}

/// The problems, worst first, as a person or a model reads them.
pub fn list(problems: &[Problem], cwd: &Path) -> String {
    let mut problems: Vec<_> = problems.iter().collect();
    problems.sort_by_key(|problem| problem.severity);
    let mut text = String::new();
    let mut told = 0;
    for problem in problems.iter().take(MOST) {
        let entry = problem.entry(cwd);
        if told > 0 && text.len() + entry.len() > ALL {
            break;
        }
        text.push_str(&entry);
        told += 1;
    }
    let more = problems.len() - told;
    if more > 0 {
        let _ = writeln!(text, "and {more} more");
    }
    text
}

impl Problem {
    fn entry(&self, cwd: &Path) -> String {
        let mut entry = String::new();
        if let Some(file) = &self.file {
            let _ = write!(entry, "{}", shown(file, cwd));
            for number in [self.line, self.column] {
                if number > 0 {
                    let _ = write!(entry, ":{number}");
                }
            }
            entry.push_str(": ");
        }
        let text = cut(&self.text, if self.file.is_some() { LONGEST } else { ALL });
        entry.push_str(&text.replace('\n', "\n  "));
        entry.push('\n');
        entry
    }
}

/// A path as the session sees it.
pub fn shown(path: &Path, cwd: &Path) -> String {
    let near = path.strip_prefix(cwd).unwrap_or(path);
    near.display().to_string()
}

/// The end of a long text matters least, except where it is all there is.
fn cut(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(most);
    format!("{} …", text[..end].trim_end())
}

#[cfg(test)]
mod tests;
