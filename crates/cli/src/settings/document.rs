//! A settings file as a tree and as tokens, each with its place in the text, so that an edit can
//! leave every other byte alone. (jsonc-parser's `cst` edits for us, but lays out white space and
//! drops comments as it likes when it removes: no exact way back.)

use std::fmt;

use jsonc_parser::ast::{Array, Object, ObjectProp, Value};
use jsonc_parser::common::Ranged;
use jsonc_parser::tokens::Token as Scanned;
use jsonc_parser::{CollectOptions, CommentCollectionStrategy, ParseOptions, parse_to_ast};

use super::registration::is_ours;

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
