//! Takes our entries out of a settings file, and with them what held nothing else.

use std::collections::BTreeSet;

use jsonc_parser::ast::{Object, ObjectProp};

use super::document::{Document, Placed, SettingsError, named, split_mark};
use super::member::Container;
use super::splice::Splices;
use super::status_line;

/// What is somebody's own: containers stay, even when they are empty; a status line comes back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Kept {
    hooks: bool,
    events: BTreeSet<String>,
    /// The status line as it is written.
    status_line: Option<String>,
}

impl Kept {
    /// What stood in the settings before we came.
    pub fn of(original: &str) -> Self {
        let (_, body) = split_mark(original);
        let Ok(document) = Document::parse(body) else {
            return Self::default();
        };
        let hooks = document.hooks().ok().flatten();
        let events = hooks.map_or(&[][..], |hooks| &hooks.properties);
        let names = events.iter().map(|event| event.name.as_str());
        Self {
            hooks: hooks.is_some(),
            events: names.map(str::to_owned).collect(),
            status_line: status_line::theirs(&document).map(str::to_owned),
        }
    }

    /// The command of the status line.
    pub fn status_command(&self) -> Option<String> {
        status_line::command_of(self.status_line.as_deref()?)
    }
}

/// The settings without any entry of ours. A container goes too if it held nothing else, not even
/// a comment, and is not `kept`.
pub fn unregister(text: &str, kept: &Kept) -> Result<String, SettingsError> {
    let text = unregister_line(text, kept)?;
    let (mark, body) = split_mark(&text);
    let mut body = body.to_owned();
    while let Some(edited) = remove_one(&Document::parse(&body)?, kept)? {
        body = edited;
    }
    Ok(format!("{mark}{body}"))
}

/// The settings without our status line.
pub fn unregister_line(text: &str, kept: &Kept) -> Result<String, SettingsError> {
    let (mark, body) = split_mark(text);
    let body = status_line::take_out(body, kept.status_line.as_deref())?;
    Ok(format!("{mark}{body}"))
}

fn remove_one(document: &Document<'_>, kept: &Kept) -> Result<Option<String>, SettingsError> {
    document.root()?;
    let ours = document.ours();
    let first = ours.first();
    Ok(first.map(|ours| remove_entry(document, ours, kept).apply(document.text)))
}

/// Cuts out the entry, or the outermost thing around it that holds nothing else.
pub fn remove_entry(document: &Document<'_>, ours: &Placed<'_, '_>, kept: &Kept) -> Splices {
    let list_goes = ours.list.elements.len() == 1
        && ours.group.properties.len() == 1
        && !document.has_comment(ours.group, ours.entry);
    if !list_goes {
        return Container::from(ours.list).remove(document, ours.entry);
    }
    remove_group(document, ours, kept)
}

/// Cuts out the entry's group, or the outermost thing around it that holds nothing else.
pub fn remove_group(document: &Document<'_>, ours: &Placed<'_, '_>, kept: &Kept) -> Splices {
    let groups = ours.property.value.as_array();
    let event_goes = groups.is_none_or(|groups| groups.elements.len() == 1)
        && !kept.events.contains(ours.event)
        && is_only_one(ours.events, ours.property)
        && !document.has_comment(ours.property, ours.group);
    if let Some(groups) = groups.filter(|_| !event_goes) {
        return Container::from(groups).remove(document, ours.group);
    }
    let hooks_go = ours.events.properties.len() == 1
        && !kept.hooks
        && is_only_one(ours.root, ours.hooks)
        && !document.has_comment(ours.hooks, ours.property);
    if hooks_go {
        Container::from(ours.root).remove(document, ours.hooks)
    } else {
        Container::from(ours.events).remove(document, ours.property)
    }
}

/// Without the last key of a name, an earlier one of that name would count again.
fn is_only_one(object: &Object<'_>, property: &ObjectProp<'_>) -> bool {
    named(object, property.name.as_str()).count() == 1
}
