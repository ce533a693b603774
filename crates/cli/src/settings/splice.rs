//! Inserts and removes members of the objects and arrays of a settings file, and keeps its layout.

use std::ops::Range;

use jsonc_parser::ast::{Array, Object};
use jsonc_parser::common::Ranged;
use jsonc_parser::tokens::Token;

use crate::settings::document::{Document, is_comment, range_of};

/// The ranges of an object or an array and of its members.
#[derive(Debug)]
pub struct Container {
    start: usize,
    end: usize,
    is_array: bool,
    members: Vec<Range<usize>>,
}

impl From<&Object<'_>> for Container {
    fn from(object: &Object<'_>) -> Self {
        Self::new(object, &object.properties, false)
    }
}

impl From<&Array<'_>> for Container {
    fn from(array: &Array<'_>) -> Self {
        Self::new(array, &array.elements, true)
    }
}

impl Container {
    fn new(node: &impl Ranged, members: &[impl Ranged], is_array: bool) -> Self {
        Self {
            start: node.start(),
            end: node.end(),
            is_array,
            members: members.iter().map(range_of).collect(),
        }
    }

    fn inside(&self) -> Range<usize> {
        self.start + 1..self.end - 1
    }

    /// Appends a member.
    pub fn append(&self, document: &Document<'_>, member: String) -> Splices {
        let indent = self.member_indent(document);
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
        let comma = document.comma_after(last.end);
        match &comma {
            Some(_) => member.push(','),
            None => splices.insert(last.end, ","),
        }
        // A comment behind the last member on its line stays with that member.
        let mut at = comma.map_or(last.end, |comma| comma.end);
        while let Some(next) = document.token_after(at)
            && is_comment(next)
            && !has_newline(&document.text[at..next.start()])
        {
            at = next.end();
        }
        splices.insert(at, format!("{before}{member}"));
        splices
    }

    /// Inserts the first member of an empty container.
    fn fill(&self, document: &Document<'_>, before: &str, member: &str) -> Splices {
        let mut splices = Splices::default();
        let text = document.text;
        let closing = if self.stays_on_its_line(document) {
            String::new()
        } else {
            format!("{}{}", newline(text), line_indent(text, self.start))
        };
        let token = document.token_before(self.end - 1);
        match token.filter(|token| is_comment(token)) {
            Some(comment) if has_newline(&text[comment.end()..self.end]) => {
                splices.insert(comment.end(), format!("{before}{member}"));
            }
            Some(comment) => splices.insert(comment.end(), format!("{before}{member}{closing}")),
            None if self.is_array => splices.replace(self.inside(), member),
            None => splices.replace(self.inside(), format!("{before}{member}{closing}")),
        }
        splices
    }

    /// Removes a member.
    pub fn remove(&self, document: &Document<'_>, member: &impl Ranged) -> Splices {
        let member = range_of(member);
        let mut splices = Splices::default();
        let comma = document.comma_after(member.end);
        let is_alone = self.members.len() == 1;
        if is_alone && !self.has_comment_around(document, &member) {
            splices.delete(self.inside());
            return splices;
        }
        let next = document.token_after(member.end).map(range_of);
        let cut = match &comma {
            Some(comma) if next.as_ref() == Some(comma) => member.start..comma.end,
            _ => member.clone(),
        };
        // The member's own comma goes too. If the last member has none, the comma before it goes.
        let comma = match comma {
            None if !is_alone => document.code_before(member.start),
            comma => comma,
        };
        if let Some(comma) = comma.filter(|comma| comma.end != cut.end) {
            splices.delete(comma);
        }
        splices.delete(self.with_gap(document, &cut));
        splices
    }

    /// Extends a range that is cut out by the white space before or after it.
    fn with_gap(&self, document: &Document<'_>, cut: &Range<usize>) -> Range<usize> {
        let (Some(previous), Some(next)) = (
            document.token_before(cut.start),
            document.token_after(cut.end),
        ) else {
            return cut.clone();
        };
        let text = document.text;
        let breaks_before = has_newline(&text[previous.end()..cut.start]);
        let breaks_after = has_newline(&text[cut.end..next.start()]);
        if keeps_gap_before(&previous.token, &next.token, breaks_before, breaks_after) {
            return cut.start..next.start();
        }
        // Blanks before the end of the line would become part of a line comment.
        let blanks = match previous.token {
            Token::CommentLine(_) => text[cut.end..].find(['\n', '\r']).unwrap_or_default(),
            _ => 0,
        };
        previous.end()..cut.end + blanks
    }

    fn has_comment_around(&self, document: &Document<'_>, member: &Range<usize>) -> bool {
        document.tokens.iter().any(|token| {
            let inside = self.start < token.start() && token.end() < self.end;
            is_comment(token) && inside && !member.contains(&token.start())
        })
    }

    /// Returns true if a new member goes on the same line: a list on one line stays on one line.
    fn stays_on_its_line(&self, document: &Document<'_>) -> bool {
        self.is_array && !has_newline(&document.text[self.inside()])
    }

    /// Returns the indentation of a new member: that of the last member that begins a line, else one
    /// step more than the container's line.
    pub fn member_indent(&self, document: &Document<'_>) -> String {
        let text = document.text;
        let mut members = self.members.iter();
        match members.rfind(|member| begins_line(text, member.start)) {
            Some(member) => line_indent(text, member.start).to_owned(),
            None => format!("{}{}", line_indent(text, self.start), indent_step(document)),
        }
    }
}

/// Returns true if the white space before a range that is cut out stays, and the one after it goes.
/// `before` and `after` are true if these break the line.
fn keeps_gap_before(previous: &Token<'_>, next: &Token<'_>, before: bool, after: bool) -> bool {
    match (previous, next) {
        // Text that moves behind a line comment would become part of it.
        (Token::CommentLine(_), _) if !after => true,
        (_, Token::CloseBrace | Token::CloseBracket) => false,
        _ if after => false,
        (Token::OpenBrace | Token::OpenBracket, _) => true,
        _ => before,
    }
}

fn has_newline(text: &str) -> bool {
    text.contains(['\n', '\r'])
}

/// Returns the line ending that a file uses.
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

/// Returns one step of indentation: what the first deeper line has more than the line of the root.
pub fn indent_step<'a>(document: &Document<'a>) -> &'a str {
    let text = document.text;
    let code = document.tokens.iter().filter(|token| !is_comment(token));
    let mut indents = code
        .filter(|token| begins_line(text, token.start()))
        .map(|token| line_indent(text, token.start()));
    let root = indents.next().unwrap_or_default();
    let mut steps = indents.filter_map(|indent| indent.strip_prefix(root));
    steps.find(|step| !step.is_empty()).unwrap_or("  ")
}

fn begins_line(text: &str, at: usize) -> bool {
    line_start(text, at) + line_indent(text, at).len() == at
}

/// Replacements in a text that do not overlap.
#[derive(Debug, Default)]
pub struct Splices {
    list: Vec<(Range<usize>, String)>,
}

impl Splices {
    /// Replaces the text of one node.
    pub fn one(node: &impl Ranged, text: impl Into<String>) -> Self {
        let list = vec![(range_of(node), text.into())];
        Self { list }
    }

    pub fn insert(&mut self, at: usize, text: impl Into<String>) {
        self.replace(at..at, text);
    }

    pub fn delete(&mut self, range: Range<usize>) {
        self.replace(range, "");
    }

    pub fn replace(&mut self, range: Range<usize>, text: impl Into<String>) {
        self.list.push((range, text.into()));
    }

    /// Returns the text with every replacement. Insertions at one place keep their order.
    pub fn apply(mut self, text: &str) -> String {
        self.list.sort_by_key(|(range, _)| (range.start, range.end));
        let mut result = String::with_capacity(text.len());
        let mut done = 0;
        for (range, new) in &self.list {
            result.push_str(&text[done..range.start]);
            result.push_str(new);
            done = range.end;
        }
        result.push_str(&text[done..]);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splices_keep_their_places_and_their_order() {
        let mut splices = Splices::default();
        splices.delete(4..6);
        splices.insert(1, ",");
        splices.insert(1, "x");
        splices.replace(2..4, "CD");
        assert_eq!(splices.apply("abcdef"), "a,xbCD");
    }
}
