//! Takes the hooks of other programs out of the text of a settings file, and puts them back.

use jsonc_parser::ast::{Object, Value};
use jsonc_parser::common::Ranged;
use serde::{Deserialize, Serialize};

use crate::settings::document::{
    Document, PlacedEntry, SettingsError, last, plain, plain_object, split_mark,
};
use crate::settings::entries::{OriginalParts, append_group, remove_group, with_root};
use crate::settings::splice::Container;

/// An entry that is not becket's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ForeignEntry {
    pub event: String,
    /// The matcher of its group, as a value.
    pub matcher: Option<serde_json::Value>,
    pub value: serde_json::Value,
    /// The text of the entry in the file.
    pub text: String,
}

impl ForeignEntry {
    fn of(document: &Document<'_>, placed: &PlacedEntry<'_, '_>) -> Self {
        Self {
            event: placed.event.to_owned(),
            matcher: matcher(placed.group),
            value: plain_object(placed.entry),
            text: document.text[placed.entry.start()..placed.entry.end()].to_owned(),
        }
    }

    /// Returns true if `placed` is the same entry, in any layout. Two equal entries are one for
    /// Claude Code.
    fn is(&self, placed: &PlacedEntry<'_, '_>) -> bool {
        self.event == placed.event
            && self.matcher == matcher(placed.group)
            && self.value == plain_object(placed.entry)
    }

    fn group(&self) -> String {
        let matcher = self.matcher.as_ref();
        let matcher = matcher.map(|matcher| format!("\"matcher\": {matcher}, "));
        let matcher = matcher.unwrap_or_default();
        format!("{{{matcher}\"hooks\": [{}]}}", self.text)
    }
}

fn matcher(group: &Object<'_>) -> Option<serde_json::Value> {
    last(group, "matcher").map(|matcher| plain(&matcher.value))
}

/// Returns every entry that Claude Code reads and that is not becket's, in the order of the file.
pub fn foreign(text: &str) -> Result<Vec<ForeignEntry>, SettingsError> {
    let document = Document::parse(split_mark(text).1)?;
    document.root()?;
    let placed = document.foreign_entries();
    let entries = placed.iter().map(|one| ForeignEntry::of(&document, one));
    Ok(entries.collect())
}

/// Returns the settings without these entries. A group, an event or `hooks` itself goes too if it
/// held nothing else, not even a comment.
pub fn take_out(text: &str, entries: &[ForeignEntry]) -> Result<String, SettingsError> {
    let (mark, body) = split_mark(text);
    let mut body = body.to_owned();
    while let Some(edited) = take_out_first(&Document::parse(&body)?, entries) {
        body = edited;
    }
    Ok(format!("{mark}{body}"))
}

fn take_out_first(document: &Document<'_>, entries: &[ForeignEntry]) -> Option<String> {
    let all = document.foreign_entries();
    let placed = all
        .iter()
        .find(|placed| entries.iter().any(|entry| entry.is(placed)))?;
    let group_goes = placed.list.elements.len() == 1
        && is_plain_group(placed.group)
        && !document.has_comment(placed.group, placed.entry);
    let splices = if group_goes {
        remove_group(document, placed, &OriginalParts::default())
    } else {
        Container::from(placed.list).remove(document, placed.entry)
    };
    Some(splices.apply(document.text))
}

/// Returns true if a group has only a list of hooks and, perhaps, a matcher.
fn is_plain_group(group: &Object<'_>) -> bool {
    let mut names: Vec<_> = group.properties.iter().map(|p| p.name.as_str()).collect();
    names.sort_unstable();
    matches!(names[..], ["hooks"] | ["hooks", "matcher"])
}

/// Returns the settings with these entries, each in a group with the same matcher, else at the end.
/// An entry that is there already is not added.
pub fn put_back(text: &str, entries: &[ForeignEntry]) -> Result<String, SettingsError> {
    let (mark, body) = split_mark(text);
    let mut body = with_root(body)?;
    for entry in entries {
        body = put_one_back(&Document::parse(&body)?, entry)?;
    }
    Ok(format!("{mark}{body}"))
}

fn put_one_back(document: &Document<'_>, entry: &ForeignEntry) -> Result<String, SettingsError> {
    let text = document.text;
    let mut placed = document.foreign_entries().into_iter();
    if placed.any(|placed| entry.is(&placed)) {
        return Ok(text.to_owned());
    }
    let groups = document.groups(&entry.event)?;
    let becket = document.becket_entries();
    let list = groups.and_then(|groups| {
        let mut groups = groups.elements.iter().filter_map(Value::as_object);
        let group = groups.find(|group| {
            matcher(group) == entry.matcher
                && is_plain_group(group)
                && becket.iter().all(|one| one.group.range != group.range)
        })?;
        last(group, "hooks")?.value.as_array()
    });
    let Some(list) = list else {
        return append_group(document, &entry.event, entry.group());
    };
    let splices = Container::from(list).append(document, entry.text.clone());
    Ok(splices.apply(text))
}
