//! What is wrong with a config file, and where.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::layer::Layer;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// The layer is not in force as it is written.
    Error,
    /// One line of it does nothing.
    Warning,
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub severity: Severity,
    /// The file, the variable, or the command line.
    pub place: String,
    pub file: Option<PathBuf>,
    pub at: Option<Position>,
    pub message: String,
    pub hint: Option<String>,
}

/// Where in a file, counted from one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Position {
    pub line: usize,
    pub column: usize,
    /// The line as it stands there, or the beginning of a long one.
    pub text: String,
    /// How many characters are meant.
    pub width: usize,
}

/// A layer that cannot be in force: everything that is wrong with it, warnings too.
#[derive(Debug, Clone, PartialEq, Error)]
#[error("{}", .problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
pub struct ConfigError {
    pub problems: Vec<Problem>,
    /// What can be in force all the same, if nothing but hooks is wrong: the others.
    pub rest: Option<Box<Layer>>,
}

impl Problem {
    pub fn error(place: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            place: place.into(),
            file: None,
            at: None,
            message: message.into(),
            hint: None,
        }
    }

    pub fn warning(place: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Warning,
            ..Self::error(place, message)
        }
    }

    pub(super) fn in_file(mut self, file: &Path) -> Self {
        self.place = file.display().to_string();
        self.file = Some(file.to_path_buf());
        self
    }

    /// What it is about has no file, and no lines.
    pub(super) fn in_place(self, place: &str) -> Self {
        Self {
            place: place.to_owned(),
            file: None,
            at: None,
            ..self
        }
    }

    pub(super) fn at_position(mut self, at: Position) -> Self {
        self.at = Some(at);
        self
    }

    pub(super) fn hint(mut self, hint: Option<String>) -> Self {
        self.hint = hint;
        self
    }

    /// The line that is meant, with a mark under the place; nothing if it has none, or stands too
    /// far to the right.
    pub fn picture(&self) -> Option<String> {
        let Position {
            line,
            column,
            text,
            width,
        } = self.at.as_ref()?;
        // The place lies beyond what is shown of a long line.
        if column - 1 > text.chars().count() {
            return None;
        }
        let number = line.to_string();
        let margin = " ".repeat(number.len());
        // Tabs stay tabs, so that the mark stands below what it means.
        let indent: String = text
            .chars()
            .take(column - 1)
            .map(|character| if character == '\t' { '\t' } else { ' ' })
            .collect();
        let mark = "^".repeat(*width);
        Some(format!("{number} | {text}\n{margin} | {indent}{mark}"))
    }
}

/// One line: where, what, and what to do.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.place)?;
        if let Some(Position { line, column, .. }) = &self.at {
            write!(f, ":{line}:{column}")?;
        }
        write!(f, ": {}", self.message)?;
        match &self.hint {
            Some(hint) => write!(f, " ({hint})"),
            None => Ok(()),
        }
    }
}

/// No more of a line is shown.
const MAX_SHOWN: usize = 1000;

/// A text with an index of its lines.
pub(super) struct Lines<'a> {
    text: &'a str,
    /// Where each line starts.
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    pub(super) fn of(text: &'a str) -> Self {
        let after = text.match_indices('\n').map(|(at, _)| at + 1);
        let starts = std::iter::once(0).chain(after).collect();
        Self { text, starts }
    }

    /// The line, counted from one.
    pub(super) fn line(&self, at: usize) -> usize {
        self.starts.partition_point(|start| *start <= at)
    }

    pub(super) fn position(&self, span: Range<usize>) -> Position {
        let start = self.text.floor_char_boundary(span.start);
        let line = self.line(start);
        let line_start = self.starts[line - 1];
        let next = self.starts.get(line);
        let line_end = next.map_or(self.text.len(), |next| next - 1);
        let shown = (self.text).floor_char_boundary(line_end.min(line_start + MAX_SHOWN));
        let end = self.text.floor_char_boundary(span.end);
        let end = end.clamp(start, shown.max(start));
        let text = &self.text[line_start..shown];
        Position {
            line,
            column: self.text[line_start..start].chars().count() + 1,
            text: text.trim_end_matches('\r').to_owned(),
            width: self.text[start..end].chars().count().max(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_in_a_text_counts_lines_and_characters_from_one() {
        let text = "a = 1\r\n\té = \"ö\" # x\n";
        let problem = Problem::error("", "no").in_file(Path::new("/x.toml"));
        let at = text.find("\"ö\"").unwrap();
        let lines = Lines::of(text);
        let problem = problem.at_position(lines.position(at..at + 4));
        assert_eq!(problem.to_string(), "/x.toml:2:6: no");
        assert_eq!(
            problem.picture().unwrap(),
            "2 | \té = \"ö\" # x\n  | \t    ^^^"
        );
        let position = |span| {
            let Position {
                line,
                column,
                width,
                ..
            } = lines.position(span);
            (line, column, width)
        };
        assert_eq!(position(0..text.len()), (1, 1, 6));
        assert_eq!(position(text.len()..text.len()), (3, 1, 1));
        assert_eq!(position(999..1000), (3, 1, 1));
        assert_eq!(position(9..9), (2, 2, 1), "inside a character");
        let long = format!("x = \"{}\" y", "x".repeat(5000));
        let far = Lines::of(&long).position(5007..5008);
        assert_eq!(Problem::error("", "no").at_position(far).picture(), None);
    }

    #[test]
    fn a_long_line_is_not_shown_whole() {
        let text = format!("a = \"{}\"\nb = 1", "é".repeat(5000));
        let lines = Lines::of(&text);
        let position = lines.position(0..text.len());
        assert!(position.text.len() <= 1000, "{}", position.text.len());
        assert!(position.width <= 1000, "{}", position.width);
        let far = lines.position(9000..9002);
        assert_eq!((far.line, far.column, far.width), (1, 4503, 1));
        let last = lines.position(text.len() - 1..text.len());
        assert_eq!((last.line, last.column, &*last.text), (2, 5, "b = 1"));
    }
}
