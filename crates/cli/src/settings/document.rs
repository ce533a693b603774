//! Parses a settings file into a tree and tokens, each with its range in the text, so that an edit
//! can leave every other byte alone.
//!
//! The `cst` of `jsonc-parser` was tried instead. It has no ranges, returns the first of two equal
//! keys where Claude Code takes the last, puts the members of `{"a": 1}` on lines of their own, and
//! deletes the user's comments beside a member that it removes.

use std::fmt;
use std::ops::Range;

use jsonc_parser::ast::{Array, Object, ObjectProp, Value};
use jsonc_parser::common::Ranged;
use jsonc_parser::tokens::{Token, TokenAndRange};
use jsonc_parser::{CollectOptions, CommentCollectionStrategy, ParseOptions, parse_to_ast};

use crate::settings::registration::is_becket;

/// The reason why a settings file cannot be edited, and its place in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingsError {
    pub line: usize,
    pub column: usize,
    pub what: String,
}

impl SettingsError {
    /// Returns an error at the place that follows the text `before`.
    pub fn after(before: &str, what: &str) -> Self {
        let line = before.rsplit('\n').next().unwrap_or_default();
        Self {
            line: before.matches('\n').count() + 1,
            column: line.chars().count() + 1,
            what: what.to_owned(),
        }
    }
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.what)
    }
}

impl std::error::Error for SettingsError {}

/// A parsed settings file.
pub struct Document<'a> {
    pub text: &'a str,
    pub tokens: Vec<TokenAndRange<'a>>,
    value: Option<Value<'a>>,
}

/// The accepted format: JSON with comments and trailing commas, and nothing looser.
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
        Ok(Self {
            text,
            tokens: parsed.tokens.unwrap_or_default(),
            value: parsed.value,
        })
    }

    /// Returns the top-level object, or `None` if the file is empty.
    pub fn root(&self) -> Result<Option<&Object<'a>>, SettingsError> {
        match &self.value {
            None => Ok(None),
            Some(Value::Object(object)) => Ok(Some(object)),
            Some(other) => Err(self.error_at(other, "the settings are not an object")),
        }
    }

    /// Returns the `hooks` that Claude Code reads: of equal keys the last one.
    pub fn hooks(&self) -> Result<Option<&Object<'a>>, SettingsError> {
        let hooks = self.root()?.and_then(|root| last(root, "hooks"));
        match hooks.map(|hooks| &hooks.value) {
            None => Ok(None),
            Some(Value::Object(object)) => Ok(Some(object)),
            Some(other) => Err(self.error_at(other, "\"hooks\" is not an object")),
        }
    }

    /// Returns the matcher groups of an event that Claude Code reads.
    pub fn groups(&self, event: &str) -> Result<Option<&Array<'a>>, SettingsError> {
        let groups = self.hooks()?.and_then(|hooks| last(hooks, event));
        match groups.map(|groups| &groups.value) {
            None => Ok(None),
            Some(Value::Array(array)) => Ok(Some(array)),
            Some(other) => Err(self.error_at(other, &format!("\"hooks.{event}\" is not an array"))),
        }
    }

    /// Returns every entry of becket's, also those that a later key of the same name hides.
    pub fn becket_entries(&self) -> Vec<PlacedEntry<'_, 'a>> {
        let mut entries = self.entries();
        entries.retain(|placed| calls_becket(placed.entry));
        entries
    }

    /// Returns every entry that Claude Code reads and that is not becket's.
    pub fn foreign_entries(&self) -> Vec<PlacedEntry<'_, 'a>> {
        let mut entries = self.entries();
        entries.retain(|placed| {
            let list = last(placed.group, "hooks").and_then(|hooks| hooks.value.as_array());
            let is_in_force =
                placed.is_in_force && list.is_some_and(|list| list.range == placed.list.range);
            is_in_force && !calls_becket(placed.entry)
        });
        entries
    }

    fn entries(&self) -> Vec<PlacedEntry<'_, 'a>> {
        let Some(Value::Object(root)) = &self.value else {
            return Vec::new();
        };
        let mut entries = Vec::new();
        for hooks in named(root, "hooks") {
            let Value::Object(events) = &hooks.value else {
                continue;
            };
            for property in &events.properties {
                let groups = property.value.as_array();
                let groups = groups.map_or(&[][..], |groups| &groups.elements);
                for group in groups.iter().filter_map(Value::as_object) {
                    let lists = named(group, "hooks").filter_map(|hooks| hooks.value.as_array());
                    entries.extend(lists.flat_map(|list| {
                        let objects = list.elements.iter().filter_map(Value::as_object);
                        objects.map(move |entry| PlacedEntry {
                            event: property.name.as_str(),
                            is_in_force: is_last(root, hooks) && is_last(events, property),
                            root,
                            hooks,
                            events,
                            property,
                            group,
                            list,
                            entry,
                        })
                    }));
                }
            }
        }
        entries
    }

    /// Returns the last token that ends at or before `at`.
    pub fn token_before(&self, at: usize) -> Option<&TokenAndRange<'a>> {
        self.tokens_before(at).last()
    }

    /// Returns the first token that starts at or after `at`.
    pub fn token_after(&self, at: usize) -> Option<&TokenAndRange<'a>> {
        self.tokens_after(at).first()
    }

    /// Returns the first token at or after `at` that is not a comment, if it is a comma.
    pub fn comma_after(&self, at: usize) -> Option<Range<usize>> {
        let code = self.tokens_after(at).iter().find(is_code)?;
        matches!(code.token, Token::Comma).then(|| range_of(code))
    }

    /// Returns the last token at or before `at` that is not a comment.
    pub fn code_before(&self, at: usize) -> Option<Range<usize>> {
        self.tokens_before(at).iter().rfind(is_code).map(range_of)
    }

    fn tokens_before(&self, at: usize) -> &[TokenAndRange<'a>] {
        &self.tokens[..self.tokens.partition_point(|token| token.end() <= at)]
    }

    fn tokens_after(&self, at: usize) -> &[TokenAndRange<'a>] {
        &self.tokens[self.tokens.partition_point(|token| token.start() < at)..]
    }

    /// Returns true if `outer` holds a comment that is not inside `inner`.
    pub fn has_comment(&self, outer: &impl Ranged, inner: &impl Ranged) -> bool {
        let mut comments = self.tokens.iter().filter(|token| is_comment(token));
        comments.any(|comment| is_within(comment, outer) && !is_within(comment, inner))
    }

    fn error_at(&self, value: &Value<'_>, what: &str) -> SettingsError {
        SettingsError::after(&self.text[..value.start()], what)
    }
}

pub fn is_comment(token: &TokenAndRange<'_>) -> bool {
    matches!(token.token, Token::CommentLine(_) | Token::CommentBlock(_))
}

fn is_code(token: &&TokenAndRange<'_>) -> bool {
    !is_comment(token)
}

fn is_within(token: &TokenAndRange<'_>, node: &impl Ranged) -> bool {
    node.start() <= token.start() && token.end() <= node.end()
}

pub fn range_of(node: &impl Ranged) -> Range<usize> {
    node.start()..node.end()
}

/// A hook entry and the nodes around it.
#[derive(Debug, Clone, Copy)]
pub struct PlacedEntry<'d, 'a> {
    pub event: &'d str,
    /// True if Claude Code reads the event's groups: no later key of the same name hides them.
    pub is_in_force: bool,
    pub root: &'d Object<'a>,
    pub hooks: &'d ObjectProp<'a>,
    pub events: &'d Object<'a>,
    pub property: &'d ObjectProp<'a>,
    pub group: &'d Object<'a>,
    pub list: &'d Array<'a>,
    pub entry: &'d Object<'a>,
}

impl PlacedEntry<'_, '_> {
    /// Returns true if the group's matcher keeps some calls from the entry.
    pub fn is_restricted(&self) -> bool {
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

fn calls_becket(entry: &Object<'_>) -> bool {
    let args = strings(entry, "args");
    // becket never wrote `args` that are not a list of strings.
    if args.is_none() && last(entry, "args").is_some() {
        return false;
    }
    string(entry, "type") == Some("command")
        && string(entry, "command").is_some_and(|command| is_becket(command, args.as_deref()))
}

/// Returns the string value of a key.
pub fn string<'d>(object: &'d Object<'_>, key: &str) -> Option<&'d str> {
    let text = last(object, key)?.value.as_string_lit()?;
    Some(&text.value)
}

fn strings<'d>(object: &'d Object<'_>, key: &str) -> Option<Vec<&'d str>> {
    let values = last(object, key)?.value.as_array()?.elements.iter();
    values
        .map(|value| value.as_string_lit().map(|text| &*text.value))
        .collect()
}

/// Returns true if the value of a key is `true`.
pub fn flag(object: &Object<'_>, key: &str) -> bool {
    last(object, key)
        .is_some_and(|property| matches!(&property.value, Value::BooleanLit(value) if value.value))
}

/// Returns every property of this name.
pub fn named<'d, 'a>(
    object: &'d Object<'a>,
    name: &str,
) -> impl DoubleEndedIterator<Item = &'d ObjectProp<'a>> {
    let properties = object.properties.iter();
    properties.filter(move |property| property.name.as_str() == name)
}

/// Returns the property of this name that counts: the last one.
pub fn last<'d, 'a>(object: &'d Object<'a>, name: &str) -> Option<&'d ObjectProp<'a>> {
    named(object, name).next_back()
}

pub fn is_last(object: &Object<'_>, property: &ObjectProp<'_>) -> bool {
    last(object, property.name.as_str()).is_some_and(|last| last.range == property.range)
}

/// Converts a value to plain JSON. Of equal keys the last one counts.
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

/// Converts an object to plain JSON.
pub fn plain_object(object: &Object<'_>) -> serde_json::Value {
    let properties = object.properties.iter();
    let members = properties.map(|member| (member.name.as_str().to_owned(), plain(&member.value)));
    serde_json::Value::Object(members.collect())
}

fn lower_first(text: &str) -> String {
    let mut characters = text.chars();
    let first = characters.next().map(|first| first.to_ascii_lowercase());
    first.into_iter().chain(characters).collect()
}

/// Splits a text into its byte order mark, which may be missing, and the rest.
pub fn split_mark(text: &str) -> (&str, &str) {
    let body = text.strip_prefix('\u{feff}').unwrap_or(text);
    text.split_at(text.len() - body.len())
}
