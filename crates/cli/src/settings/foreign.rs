//! Other people's entries: which there are, how they are taken out, and how they are put back.

use jsonc_parser::ast::{Object, Value};
use jsonc_parser::common::Ranged;
use serde::{Deserialize, Serialize};

use super::document::{Document, Placed, SettingsError, last, plain, plain_object, split_mark};
use super::member::{Container, newline, step};
use super::register::with_root;
use super::splice::Splices;
use super::unregister::{Kept, remove_group};

/// An entry of somebody else's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Foreign {
    pub event: String,
    /// The matcher of its group, as a value.
    pub matcher: Option<serde_json::Value>,
    pub value: serde_json::Value,
    /// The entry as it is written.
    pub text: String,
}

impl Foreign {
    fn of(document: &Document<'_>, placed: &Placed<'_, '_>) -> Self {
        Self {
            event: placed.event.to_owned(),
            matcher: matcher(placed.group),
            value: plain_object(placed.entry),
            text: document.text[placed.entry.start()..placed.entry.end()].to_owned(),
        }
    }

    /// It is that entry, however it is laid out. Two of the same kind are one for Claude Code.
    fn is(&self, placed: &Placed<'_, '_>) -> bool {
        self.event == placed.event
            && self.matcher == matcher(placed.group)
            && self.value == plain_object(placed.entry)
    }

    fn list(&self) -> String {
        let matcher = self.matcher.as_ref();
        let matcher = matcher.map(|matcher| format!("\"matcher\": {matcher}, "));
        let matcher = matcher.unwrap_or_default();
        format!("{{{matcher}\"hooks\": [{}]}}", self.text)
    }

    fn property(&self) -> String {
        let event = serde_json::Value::from(&*self.event);
        format!("{event}: [{}]", self.list())
    }
}

fn matcher(group: &Object<'_>) -> Option<serde_json::Value> {
    last(group, "matcher").map(|matcher| plain(&matcher.value))
}

/// Every entry of somebody else's that Claude Code sees, in the order of the file.
pub fn foreign(text: &str) -> Result<Vec<Foreign>, SettingsError> {
    let document = Document::parse(split_mark(text).1)?;
    document.root()?;
    let theirs = document.theirs();
    let entries = theirs.iter().map(|placed| Foreign::of(&document, placed));
    Ok(entries.collect())
}

/// The settings without these entries. A group, an event or `hooks` itself goes too if it held
/// nothing else, not even a comment.
pub fn take_out(text: &str, entries: &[Foreign]) -> Result<String, SettingsError> {
    let (mark, body) = split_mark(text);
    let mut body = body.to_owned();
    while let Some(edited) = take_one(&Document::parse(&body)?, entries) {
        body = edited;
    }
    Ok(format!("{mark}{body}"))
}

fn take_one(document: &Document<'_>, entries: &[Foreign]) -> Option<String> {
    let theirs = document.theirs();
    let is_meant = |placed: &&Placed<'_, '_>| entries.iter().any(|entry| entry.is(placed));
    let placed = theirs.iter().find(is_meant)?;
    let group_goes = placed.list.elements.len() == 1
        && is_plain_group(placed.group)
        && !document.has_comment(placed.group, placed.entry);
    let splices = if group_goes {
        remove_group(document, placed, &Kept::default())
    } else {
        Container::from(placed.list).remove(document, placed.entry)
    };
    Some(splices.apply(document.text))
}

/// Nothing but a matcher and a list.
fn is_plain_group(group: &Object<'_>) -> bool {
    let mut names: Vec<_> = group.properties.iter().map(|p| p.name.as_str()).collect();
    names.sort_unstable();
    matches!(names[..], ["hooks"] | ["hooks", "matcher"])
}

/// The settings with these entries again, each where its like stands, else at the end. One that is
/// there is not put in twice.
pub fn put_back(text: &str, entries: &[Foreign]) -> Result<String, SettingsError> {
    let (mark, body) = split_mark(text);
    let mut body = with_root(body)?;
    for entry in entries {
        body = put_one(&Document::parse(&body)?, entry)?;
    }
    Ok(format!("{mark}{body}"))
}

fn put_one(document: &Document<'_>, entry: &Foreign) -> Result<String, SettingsError> {
    let text = document.text;
    if document.theirs().iter().any(|placed| entry.is(placed)) {
        return Ok(text.to_owned());
    }
    let groups = document.groups(&entry.event)?;
    let ours = document.ours();
    let is_ours = |group: &&Object<'_>| ours.iter().any(|one| one.group.range == group.range);
    let like = groups.and_then(|groups| {
        let mut groups = groups.elements.iter().filter_map(Value::as_object);
        let group = groups.find(|group| {
            matcher(group) == entry.matcher && is_plain_group(group) && !is_ours(group)
        })?;
        last(group, "hooks")?.value.as_array()
    });
    let splices = match (like, groups, document.hooks()?, document.root()?) {
        (Some(list), ..) => Container::from(list).append(document, |_| entry.text.clone()),
        (_, Some(groups), ..) => Container::from(groups).append(document, |_| entry.list()),
        (_, _, Some(hooks), _) => Container::from(hooks).append(document, |_| entry.property()),
        (_, _, None, Some(root)) => Container::from(root).append(document, |indent| {
            let before = format!("{}{indent}", newline(text));
            let property = entry.property();
            format!(
                "\"hooks\": {{{before}{}{property}{before}}}",
                step(document)
            )
        }),
        (_, _, None, None) => Splices::default(),
    };
    Ok(splices.apply(text))
}
