//! A settings file as a tree and as tokens, each with its place in the text, so that an edit can
//! leave every other byte alone. (jsonc-parser's `cst` edits for us, but lays out white space and
//! drops comments as it likes when it removes: no exact way back.)

use std::fmt;
use std::ops::Range;

use jsonc_parser::ast::{Array, Object, ObjectProp, Value};
use jsonc_parser::common::Ranged;
use jsonc_parser::tokens::Token as Scanned;
use jsonc_parser::{CollectOptions, CommentCollectionStrategy, ParseOptions, parse_to_ast};

use crate::settings::registration::is_ours;

/// Why a settings file cannot be edited, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingsError {
    pub line: usize,
    pub column: usize,
    pub what: String,
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.what)
    }
}

impl std::error::Error for SettingsError {}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Comma,
    LineComment,
    BlockComment,
    /// A brace or bracket that closes.
    Close,
    /// A brace or bracket that opens.
    Open,
    Other,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token {
    pub kind: Kind,
    pub start: usize,
    pub end: usize,
}

impl Token {
    pub fn is_comment(self) -> bool {
        matches!(self.kind, Kind::LineComment | Kind::BlockComment)
    }
}

#[derive(Debug)]
pub struct Document<'a> {
    pub text: &'a str,
    pub tokens: Vec<Token>,
    value: Option<Value<'a>>,
}

/// JSON with comments and trailing commas; nothing looser.
const JSONC: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_trailing_commas: true,
    allow_loose_object_property_names: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

impl<'a> Document<'a> {
    pub fn parse(text: &'a str) -> Result<Self, SettingsError> {
        let collect = CollectOptions {
            comments: CommentCollectionStrategy::AsTokens,
            tokens: true,
        };
        let parsed = parse_to_ast(text, &collect, &JSONC).map_err(|error| SettingsError {
            line: error.line_display(),
            column: error.column_display(),
            what: lower_first(&error.kind().to_string()),
        })?;
        let tokens = parsed.tokens.unwrap_or_default();
        let tokens = tokens
            .iter()
            .map(|token| Token {
                kind: kind(&token.token),
                start: token.range.start,
                end: token.range.end,
            })
            .collect();
        Ok(Self {
            text,
            tokens,
            value: parsed.value,
        })
    }

    /// The settings, or nothing if the file is empty.
    pub fn root(&self) -> Result<Option<&Object<'a>>, SettingsError> {
        match &self.value {
            None => Ok(None),
            Some(Value::Object(object)) => Ok(Some(object)),
            Some(other) => Err(self.wrong(other, "the settings are not an object")),
        }
    }

    /// The `hooks` that count. Of keys that stand there twice, the last one does.
    pub fn hooks(&self) -> Result<Option<&Object<'a>>, SettingsError> {
        let Some(property) = self.root()?.and_then(|root| last(root, "hooks")) else {
            return Ok(None);
        };
        match &property.value {
            Value::Object(object) => Ok(Some(object)),
            other => Err(self.wrong(other, "\"hooks\" is not an object")),
        }
    }

    /// The matcher groups of one event that count.
    pub fn groups(&self, event: &str) -> Result<Option<&Array<'a>>, SettingsError> {
        let Some(property) = self.hooks()?.and_then(|hooks| last(hooks, event)) else {
            return Ok(None);
        };
        match &property.value {
            Value::Array(array) => Ok(Some(array)),
            other => Err(self.wrong(other, &format!("\"hooks.{event}\" is not an array"))),
        }
    }

    /// Every entry of ours, also where a later key of the same name hides it.
    pub fn ours(&self) -> Vec<Placed<'_, 'a>> {
        let mut entries = self.entries();
        entries.retain(|placed| calls_becket(placed.entry));
        entries
    }

    /// Every entry of somebody else's that Claude Code sees.
    pub fn theirs(&self) -> Vec<Placed<'_, 'a>> {
        let mut entries = self.entries();
        let is_seen = |placed: &Placed<'_, '_>| {
            let list = last(placed.group, "hooks").and_then(|hooks| hooks.value.as_array());
            placed.counts && list.is_some_and(|list| list.range == placed.list.range)
        };
        entries.retain(|placed| is_seen(placed) && !calls_becket(placed.entry));
        entries
    }

    fn entries(&self) -> Vec<Placed<'_, 'a>> {
        let Some(Value::Object(root)) = &self.value else {
            return Vec::new();
        };
        let mut found = Vec::new();
        for hooks in named(root, "hooks") {
            let Value::Object(events) = &hooks.value else {
                continue;
            };
            for event in &events.properties {
                let name = event.name.as_str();
                let counts = is_last(root, hooks) && is_last(events, event);
                for (group, list, entry) in entries_of(event) {
                    found.push(Placed {
                        event: name,
                        counts,
                        root,
                        hooks,
                        events,
                        property: event,
                        group,
                        list,
                        entry,
                    });
                }
            }
        }
        found
    }

    pub fn token_before(&self, at: usize) -> Option<Token> {
        let index = self.tokens.partition_point(|token| token.end <= at);
        self.tokens[..index].last().copied()
    }

    pub fn token_after(&self, at: usize) -> Option<Token> {
        let index = self.tokens.partition_point(|token| token.start < at);
        self.tokens.get(index).copied()
    }

    /// The next token that is no comment.
    pub fn sign_after(&self, at: usize) -> Option<Token> {
        let index = self.tokens.partition_point(|token| token.start < at);
        self.tokens[index..]
            .iter()
            .find(|token| !token.is_comment())
            .copied()
    }

    /// The last token before that is no comment.
    pub fn sign_before(&self, at: usize) -> Option<Token> {
        let index = self.tokens.partition_point(|token| token.end <= at);
        self.tokens[..index]
            .iter()
            .rfind(|token| !token.is_comment())
            .copied()
    }

    /// Whether somebody's comment stands in `outer`, but not in `inner`.
    pub fn has_comment(&self, outer: &impl Ranged, inner: &impl Ranged) -> bool {
        self.tokens.iter().any(|token| {
            let within = |place: &jsonc_parser::common::Range| {
                place.start <= token.start && token.end <= place.end
            };
            token.is_comment() && within(&outer.range()) && !within(&inner.range())
        })
    }

    fn wrong(&self, value: &Value<'_>, what: &str) -> SettingsError {
        let before = &self.text[..value.start()];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        SettingsError {
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            what: what.to_owned(),
        }
    }
}

/// An entry and everything around it.
#[derive(Debug, Clone, Copy)]
pub struct Placed<'d, 'a> {
    pub event: &'d str,
    /// Claude Code sees it: no later key of the same name hides it.
    pub counts: bool,
    pub root: &'d Object<'a>,
    pub hooks: &'d ObjectProp<'a>,
    pub events: &'d Object<'a>,
    pub property: &'d ObjectProp<'a>,
    pub group: &'d Object<'a>,
    pub list: &'d Array<'a>,
    pub entry: &'d Object<'a>,
}

impl Placed<'_, '_> {
    /// The group's matcher keeps some calls from us.
    pub fn restricted(&self) -> bool {
        last(self.group, "matcher").is_some_and(|matcher| {
            !matches!(&matcher.value, Value::StringLit(text) if matches!(&*text.value, "" | "*"))
        })
    }

    pub fn string(&self, key: &str) -> Option<&str> {
        string(self.entry, key)
    }

    pub fn args(&self) -> Option<Vec<&str>> {
        strings(self.entry, "args")
    }
}

type Found<'d, 'a> = (&'d Object<'a>, &'d Array<'a>, &'d Object<'a>);

fn entries_of<'d, 'a>(event: &'d ObjectProp<'a>) -> Vec<Found<'d, 'a>> {
    let groups = event
        .value
        .as_array()
        .map_or(&[][..], |array| &array.elements);
    let mut found = Vec::new();
    for group in groups.iter().filter_map(Value::as_object) {
        for list in named(group, "hooks").filter_map(|hooks| hooks.value.as_array()) {
            let entries = list.elements.iter().filter_map(Value::as_object);
            found.extend(entries.map(|entry| (group, list, entry)));
        }
    }
    found
}

fn calls_becket(entry: &Object<'_>) -> bool {
    let is_command = string(entry, "type") == Some("command");
    let args = strings(entry, "args");
    // Arguments that are no list of strings are nothing that becket ever wrote.
    let understood = args.is_some() || last(entry, "args").is_none();
    is_command
        && understood
        && string(entry, "command").is_some_and(|command| is_ours(command, args.as_deref()))
}

pub fn string<'d>(object: &'d Object<'_>, key: &str) -> Option<&'d str> {
    let text = last(object, key)?.value.as_string_lit()?;
    Some(&text.value)
}

fn strings<'d>(object: &'d Object<'_>, key: &str) -> Option<Vec<&'d str>> {
    let array = last(object, key)?.value.as_array()?;
    let text = |value: &'d Value<'_>| value.as_string_lit().map(|text| &*text.value);
    array.elements.iter().map(text).collect()
}

pub fn flag(object: &Object<'_>, key: &str) -> bool {
    last(object, key)
        .is_some_and(|property| matches!(&property.value, Value::BooleanLit(value) if value.value))
}

pub fn named<'d, 'a>(
    object: &'d Object<'a>,
    name: &str,
) -> impl DoubleEndedIterator<Item = &'d ObjectProp<'a>> {
    let is_it = move |property: &&ObjectProp<'a>| property.name.as_str() == name;
    object.properties.iter().filter(is_it)
}

pub fn last<'d, 'a>(object: &'d Object<'a>, name: &str) -> Option<&'d ObjectProp<'a>> {
    named(object, name).next_back()
}

fn is_last(object: &Object<'_>, property: &ObjectProp<'_>) -> bool {
    last(object, property.name.as_str()).is_some_and(|last| last.range == property.range)
}

/// The value alone, without layout; of keys that stand there twice, the last one.
pub fn plain(value: &Value<'_>) -> serde_json::Value {
    match value {
        Value::StringLit(text) => serde_json::Value::from(&*text.value),
        Value::NumberLit(number) => serde_json::from_str(number.value).unwrap_or_default(),
        Value::BooleanLit(flag) => serde_json::Value::from(flag.value),
        Value::NullKeyword(_) => serde_json::Value::Null,
        Value::Array(array) => array.elements.iter().map(plain).collect(),
        Value::Object(object) => plain_object(object),
    }
}

pub fn plain_object(object: &Object<'_>) -> serde_json::Value {
    let pair = |property: &ObjectProp<'_>| {
        let name = property.name.as_str().to_owned();
        (name, plain(&property.value))
    };
    serde_json::Value::Object(object.properties.iter().map(pair).collect())
}

fn kind(token: &Scanned<'_>) -> Kind {
    match token {
        Scanned::Comma => Kind::Comma,
        Scanned::CommentLine(_) => Kind::LineComment,
        Scanned::CommentBlock(_) => Kind::BlockComment,
        Scanned::OpenBrace | Scanned::OpenBracket => Kind::Open,
        Scanned::CloseBrace | Scanned::CloseBracket => Kind::Close,
        _ => Kind::Other,
    }
}

fn lower_first(text: &str) -> String {
    let mut characters = text.chars();
    let first = characters.next().map(|first| first.to_ascii_lowercase());
    first.into_iter().chain(characters).collect()
}

/// The byte order mark, if there is one, and the rest.
pub fn split_mark(text: &str) -> (&str, &str) {
    match text.strip_prefix('\u{feff}') {
        Some(rest) => (&text[..text.len() - rest.len()], rest),
        None => ("", text),
    }
}

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

#[derive(Debug, Default)]
pub struct Splices {
    list: Vec<(Range<usize>, String)>,
}

impl Splices {
    pub fn insert(&mut self, at: usize, text: impl Into<String>) {
        self.replace(at..at, text);
    }

    pub fn delete(&mut self, range: Range<usize>) {
        self.replace(range, "");
    }

    pub fn replace(&mut self, range: Range<usize>, text: impl Into<String>) {
        self.list.push((range, text.into()));
    }

    /// Edits must not overlap; at one place they come in the order they were asked for.
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
    fn edits_are_made_where_they_were_asked_for() {
        let mut splices = Splices::default();
        splices.delete(4..6);
        splices.insert(1, ",");
        splices.insert(1, "x");
        splices.replace(2..4, "CD");
        assert_eq!(splices.apply("abcdef"), "a,xbCD");
    }
}
