//! Problems of the config, and their positions.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::Serialize;
use thiserror::Error;

use super::layer::Layer;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The layer is not in force as written.
    Error,
    /// One line has no effect.
    Warning,
}

/// One problem.
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

/// A position in a file, counted from one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Position {
    pub line: usize,
    pub column: usize,
    /// The text of the line, or the beginning of a long one.
    pub text: String,
    /// The number of characters to mark.
    pub width: usize,
}

/// The problems of a layer that cannot be in force, including warnings.
#[derive(Debug, Clone, PartialEq, Error)]
#[error("{}", .problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
pub struct ConfigError {
    pub problems: Vec<Problem>,
    /// The layer without the faulty hooks, guards and skills, if nothing else is wrong.
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

    /// Sets a place that has no file and no lines.
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

    /// Returns the line with a mark under the position; none if there is no line, or the position is beyond the
    /// shown part.
    pub fn picture(&self) -> Option<String> {
        let Position {
            line,
            column,
            text,
            width,
        } = self.at.as_ref()?;
        // The position is beyond the shown part of a long line.
        if column - 1 > text.chars().count() {
            return None;
        }
        let number = line.to_string();
        let margin = " ".repeat(number.len());
        // Tabs stay tabs, so that the mark is below its text.
        let indent: String = text
            .chars()
            .take(column - 1)
            .map(|character| if character == '\t' { '\t' } else { ' ' })
            .collect();
        let mark = "^".repeat(*width);
        Some(format!("{number} | {text}\n{margin} | {indent}{mark}"))
    }
}

/// Writes one line: the place, the problem, and the hint.
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

/// The longest part of a line that is shown, in bytes.
const MAX_SHOWN: usize = 1000;

/// A text with an index of its lines.
pub(super) struct Lines<'a> {
    text: &'a str,
    /// The start of each line.
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    pub(super) fn of(text: &'a str) -> Self {
        let after = text.match_indices('\n').map(|(at, _)| at + 1);
        let starts = std::iter::once(0).chain(after).collect();
        Self { text, starts }
    }

    /// Returns the number of the line, counted from one.
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

/// Returns the most similar of the known names, for a hint, if one is similar enough.
pub(crate) fn most_similar<'a>(
    name: &str,
    known: impl Iterator<Item = &'a str>,
) -> Option<&'a str> {
    similar(name, known, 0.5)
}

pub(super) fn similar<'a>(
    name: &str,
    known: impl Iterator<Item = &'a str>,
    least: f64,
) -> Option<&'a str> {
    known
        .map(|known| (strsim::normalized_damerau_levenshtein(name, known), known))
        .filter(|(likeness, _)| *likeness > least)
        .max_by(|one, other| one.0.total_cmp(&other.0))
        .map(|(_, known)| known)
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
