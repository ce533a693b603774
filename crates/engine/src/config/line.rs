//! Where in a text something stands, found without counting its lines each time.

use std::ops::Range;

use super::problem::Position;

/// How far apart the marks in a long line are.
const STEP: usize = 1024;
/// No more of a line is shown.
const LONGEST: usize = 1000;

/// A text with an index of its lines.
pub(super) struct Lines<'a> {
    text: &'a str,
    /// Where each line starts.
    starts: Vec<usize>,
    marks: Vec<Mark>,
}

/// A place whose line and column are known: the start of every line, and some in long ones.
#[derive(Clone, Copy)]
struct Mark {
    at: usize,
    line: usize,
    column: usize,
}

impl<'a> Lines<'a> {
    pub(super) fn of(text: &'a str) -> Self {
        let mut starts = vec![0];
        let mut last = Mark {
            at: 0,
            line: 1,
            column: 1,
        };
        let mut marks = vec![last];
        let mut column = 1;
        for (at, c) in text.char_indices() {
            if at - last.at >= STEP {
                last = Mark { at, column, ..last };
                marks.push(last);
            }
            column += 1;
            if c == '\n' {
                (column, last) = (
                    1,
                    Mark {
                        at: at + 1,
                        line: last.line + 1,
                        column: 1,
                    },
                );
                starts.push(last.at);
                marks.push(last);
            }
        }
        Self {
            text,
            starts,
            marks,
        }
    }

    /// The line, counted from one.
    pub(super) fn line(&self, at: usize) -> usize {
        self.starts.partition_point(|start| *start <= at)
    }

    pub(super) fn position(&self, span: Range<usize>) -> Position {
        let start = self.boundary(span.start);
        let line = self.line(start);
        let line_start = self.starts[line - 1];
        let next = self.starts.get(line);
        let line_end = next.map_or(self.text.len(), |next| next - 1);
        let shown = self.boundary(line_end.min(line_start + LONGEST));
        let end = self.boundary(span.end).clamp(start, shown.max(start));
        let mark = self.marks[self.marks.partition_point(|mark| mark.at <= start) - 1];
        let text = &self.text[line_start..shown];
        Position {
            line,
            column: mark.column + self.text[mark.at..start].chars().count(),
            text: text.trim_end_matches('\r').to_owned(),
            width: self.text[start..end].chars().count().max(1),
        }
    }

    fn boundary(&self, at: usize) -> usize {
        let at = at.min(self.text.len());
        (0..=at)
            .rev()
            .find(|at| self.text.is_char_boundary(*at))
            .unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn counted(text: &str, at: usize) -> (usize, usize) {
        let before = &text[..at];
        let start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let lines = before.matches('\n').count();
        (lines + 1, before[start..].chars().count() + 1)
    }

    #[test]
    fn a_long_line_is_not_shown_whole() {
        let text = format!("a = \"{}\"\nb = 1", "é".repeat(5000));
        let lines = Lines::of(&text);
        let position = lines.position(0..text.len());
        assert!(position.text.len() <= LONGEST, "{}", position.text.len());
        assert!(position.width <= LONGEST, "{}", position.width);
        let far = lines.position(9000..9002);
        assert_eq!((far.line, far.column, far.width), (1, 4503, 1));
        let last = lines.position(text.len() - 1..text.len());
        assert_eq!((last.line, last.column, &*last.text), (2, 5, "b = 1"));
    }

    proptest! {
        #[test]
        fn the_index_says_what_counting_says(text in "[aé\n]{0,40}", times in 1..200usize) {
            let text = text.repeat(times);
            let lines = Lines::of(&text);
            for (at, _) in text.char_indices().step_by(7) {
                let position = lines.position(at..at + 1);
                prop_assert_eq!((position.line, position.column), counted(&text, at));
                prop_assert_eq!(lines.line(at), position.line);
            }
        }
    }
}
