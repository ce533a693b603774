//! Puts a member at the end of an object or array, and takes one out again. Taking out what was
//! put in gives back the very bytes, except the white space of a container that was empty before.

use std::ops::Range;

use jsonc_parser::ast::{Array, Object};
use jsonc_parser::common::Ranged;

use super::document::{Document, Kind, Token};
use super::splice::Splices;

/// An object or an array, as far as its members' places go.
#[derive(Debug)]
pub struct Container {
    start: usize,
    end: usize,
    is_array: bool,
    members: Vec<Range<usize>>,
}

impl From<&Object<'_>> for Container {
    fn from(object: &Object<'_>) -> Self {
        Self {
            start: object.start(),
            end: object.end(),
            is_array: false,
            members: object.properties.iter().map(place).collect(),
        }
    }
}

impl From<&Array<'_>> for Container {
    fn from(array: &Array<'_>) -> Self {
        Self {
            start: array.start(),
            end: array.end(),
            is_array: true,
            members: array.elements.iter().map(place).collect(),
        }
    }
}

fn place(node: &impl Ranged) -> Range<usize> {
    node.start()..node.end()
}

impl Container {
    fn inside(&self) -> Range<usize> {
        self.start + 1..self.end - 1
    }

    /// Appends a member that `write` lays out for the given indentation.
    pub fn append(&self, document: &Document<'_>, write: impl Fn(&str) -> String) -> Splices {
        let indent = self.member_indent(document);
        let member = write(&indent);
        let before = if self.stays_on_its_line(document) {
            String::from(" ")
        } else {
            format!("{}{indent}", newline(document.text))
        };
        match self.members.last() {
            Some(last) => self.append_after(document, last, &before, member),
            None => self.fill(document, &before, &member),
        }
    }

    fn append_after(
        &self,
        document: &Document<'_>,
        last: &Range<usize>,
        before: &str,
        mut member: String,
    ) -> Splices {
        let mut splices = Splices::default();
        let comma = document
            .sign_after(last.end)
            .filter(|next| next.kind == Kind::Comma);
        match comma {
            Some(_) => member.push(','),
            None => splices.insert(last.end, ","),
        }
        // What is said about the last member on its own line stays with it.
        let mut at = comma.map_or(last.end, |comma| comma.end);
        while let Some(next) = document.token_after(at)
            && next.is_comment()
            && !has_newline(&document.text[at..next.start])
        {
            at = next.end;
        }
        splices.insert(at, format!("{before}{member}"));
        splices
    }

    /// Puts the first member into an empty container.
    fn fill(&self, document: &Document<'_>, before: &str, member: &str) -> Splices {
        let mut splices = Splices::default();
        let text = document.text;
        let closing = if self.stays_on_its_line(document) {
            String::new()
        } else {
            format!("{}{}", newline(text), line_indent(text, self.start))
        };
        match document
            .token_before(self.end - 1)
            .filter(|token| token.is_comment())
        {
            Some(comment) if has_newline(&text[comment.end..self.end]) => {
                splices.insert(comment.end, format!("{before}{member}"));
            }
            Some(comment) => splices.insert(comment.end, format!("{before}{member}{closing}")),
            None if self.is_array => splices.replace(self.inside(), member),
            None => splices.replace(self.inside(), format!("{before}{member}{closing}")),
        }
        splices
    }

    /// Takes the member at `place` out.
    pub fn remove(&self, document: &Document<'_>, member: &impl Ranged) -> Splices {
        let member = place(member);
        let mut splices = Splices::default();
        let comma = document
            .sign_after(member.end)
            .filter(|next| next.kind == Kind::Comma);
        let alone = self.members.len() == 1;
        if alone && !self.has_comment_around(document, &member) {
            splices.delete(self.inside());
            return splices;
        }
        let cut = match (comma, document.token_after(member.end)) {
            (Some(comma), Some(next)) if comma == next => member.start..comma.end,
            _ => member.clone(),
        };
        // Its own comma goes with it; the last one without a comma takes the one before it.
        let comma = match comma {
            None if !alone => document.sign_before(member.start),
            comma => comma,
        };
        if let Some(comma) = comma.filter(|comma| comma.end != cut.end) {
            splices.delete(comma.start..comma.end);
        }
        splices.delete(self.with_gap(document, &cut));
        splices
    }

    /// Of the white space before and after what is cut out, one goes too.
    fn with_gap(&self, document: &Document<'_>, cut: &Range<usize>) -> Range<usize> {
        let (Some(previous), Some(next)) = (
            document.token_before(cut.start),
            document.token_after(cut.end),
        ) else {
            return cut.clone();
        };
        let text = document.text;
        let breaks_before = has_newline(&text[previous.end..cut.start]);
        let breaks_after = has_newline(&text[cut.end..next.start]);
        if keeps_gap_before(previous, next, breaks_before, breaks_after) {
            return cut.start..next.start;
        }
        // A line comment would take blanks before the line's end for its own.
        let blanks = match previous.kind {
            Kind::LineComment => text[cut.end..].find(['\n', '\r']).unwrap_or_default(),
            _ => 0,
        };
        previous.end..cut.end + blanks
    }

    fn has_comment_around(&self, document: &Document<'_>, member: &Range<usize>) -> bool {
        document.tokens.iter().any(|token| {
            let inside = self.start < token.start && token.end < self.end;
            token.is_comment() && inside && !member.contains(&token.start)
        })
    }

    /// A list on one line stays on one line.
    fn stays_on_its_line(&self, document: &Document<'_>) -> bool {
        self.is_array && !has_newline(&document.text[self.inside()])
    }

    /// As the last member that begins its line, else one step deeper than the container's line.
    fn member_indent(&self, document: &Document<'_>) -> String {
        let text = document.text;
        let begins_line = |member: &&Range<usize>| begins_line(text, member.start);
        match self.members.iter().rfind(begins_line) {
            Some(member) => line_indent(text, member.start).to_owned(),
            None => format!("{}{}", line_indent(text, self.start), step(document)),
        }
    }
}

fn keeps_gap_before(previous: Token, next: Token, before: bool, after: bool) -> bool {
    match (previous.kind, next.kind) {
        // A line comment would swallow what comes after it.
        (Kind::LineComment, _) if !after => true,
        (_, Kind::Close) => false,
        _ if after => false,
        (Kind::Open, _) => true,
        _ => before,
    }
}

fn has_newline(text: &str) -> bool {
    text.contains(['\n', '\r'])
}

/// The line ending that the file uses.
pub fn newline(text: &str) -> &'static str {
    match text.find('\n') {
        Some(at) if text[..at].ends_with('\r') => "\r\n",
        _ => "\n",
    }
}

fn line_start(text: &str, at: usize) -> usize {
    text[..at]
        .rfind(['\n', '\r'])
        .map_or(0, |newline| newline + 1)
}

fn line_indent(text: &str, at: usize) -> &str {
    let line = &text[line_start(text, at)..at];
    let width = line.len() - line.trim_start_matches([' ', '\t']).len();
    &line[..width]
}

/// One step of indentation: what the first deeper line has more than the line of the root.
pub fn step<'a>(document: &Document<'a>) -> &'a str {
    let text = document.text;
    let begins_line = |token: &&Token| !token.is_comment() && begins_line(text, token.start);
    let mut indents = document.tokens.iter().filter(begins_line);
    let mut indents = indents.by_ref().map(|token| line_indent(text, token.start));
    let root = indents.next().unwrap_or_default();
    let step = |indent: &'a str| indent.strip_prefix(root).filter(|step| !step.is_empty());
    indents.find_map(step).unwrap_or("  ")
}

fn begins_line(text: &str, at: usize) -> bool {
    line_start(text, at) + line_indent(text, at).len() == at
}
