//! Puts becket's entries into the text of a settings file and takes them out of it.

use std::collections::BTreeSet;

use jsonc_parser::ast::{Object, ObjectProp};

use crate::settings::document::{
    Document, PlacedEntry, SettingsError, named, plain_object, split_mark,
};
use crate::settings::registration::{RegisteredEvent, Registration, STRICT_EVENT, Strict};
use crate::settings::splice::{Container, Splices, indent_step, newline};
use crate::settings::status_line;

/// Returns the settings with every event registered. Missing entries are added and wrong ones are
/// replaced in place. A right entry stays as it is, with its layout.
pub fn register(text: &str, registration: &Registration) -> Result<String, SettingsError> {
    let (mark, body) = split_mark(text);
    let mut body = with_root(body)?;
    let strict = is_strict(&Document::parse(&body)?, registration.strict);
    while let Some(edited) = remove_stray(&Document::parse(&body)?, registration) {
        body = edited;
    }
    for registered in registration.events() {
        body = add_event(&body, registered, registration, strict)?;
    }
    if registration.status_line {
        body = status_line::put(&body, registration)?;
    }
    Ok(format!("{mark}{body}"))
}

/// Returns the settings with those events registered synchronously on which a hook answers, and
/// changes nothing else.
pub fn make_synchronous(text: &str, registration: &Registration) -> Result<String, SettingsError> {
    let (mark, body) = split_mark(text);
    let strict = is_strict(&Document::parse(body)?, registration.strict);
    let mut body = body.to_owned();
    for registered in registration.events() {
        if registration.synchronous.contains(registered.event) {
            body = add_event(&body, registered, registration, strict)?;
        }
    }
    Ok(format!("{mark}{body}"))
}

/// Returns the settings with a top-level object, which an empty file does not have.
pub fn with_root(body: &str) -> Result<String, SettingsError> {
    let document = Document::parse(body)?;
    if document.root()?.is_some() {
        return Ok(body.to_owned());
    }
    let newline = newline(body);
    let is_whole = body.is_empty() || body.ends_with('\n');
    let gap = if is_whole { "" } else { newline };
    Ok(format!("{body}{gap}{{}}{newline}"))
}

/// Returns true if `PreToolUse` is to block when the shim fails.
pub fn is_strict(document: &Document<'_>, wanted: Strict) -> bool {
    match wanted {
        Strict::On => true,
        Strict::Off => false,
        Strict::Keep => document.becket_entries().iter().any(|entry| {
            entry.is_in_force
                && entry.event == STRICT_EVENT
                && entry.string("onFailure") == Some("block")
        }),
    }
}

/// Takes out one entry of becket's that is on an event that is not registered, behind a matcher, or
/// there a second time.
fn remove_stray(document: &Document<'_>, registration: &Registration) -> Option<String> {
    let mut events = BTreeSet::new();
    let entries = document.becket_entries();
    let stray = entries.iter().find(|entry| {
        entry.is_in_force
            && (registration.events().all(|one| one.event != entry.event)
                || entry.is_restricted()
                || !events.insert(entry.event))
    })?;
    let splices = remove_entry(document, stray, &OriginalParts::default());
    Some(splices.apply(document.text))
}

fn add_event(
    body: &str,
    registered: RegisteredEvent,
    registration: &Registration,
    strict: bool,
) -> Result<String, SettingsError> {
    let document = Document::parse(body)?;
    let wanted = registration.entry(registered, strict);
    let entries = document.becket_entries();
    let mut present = entries.iter().filter(|entry| entry.is_in_force);
    let Some(present) = present.find(|entry| entry.event == registered.event) else {
        let group = format!(r#"{{"hooks": [{wanted}]}}"#);
        return append_group(&document, registered.event, group);
    };
    let mut right = registration.entries(registered, strict).into_iter();
    if right.any(|entry| is_equal(present, &entry)) {
        return Ok(body.to_owned());
    }
    Ok(Splices::one(present.entry, wanted).apply(body))
}

/// Returns the settings with a matcher group at the end of an event, which need not be there yet.
pub fn append_group(
    document: &Document<'_>,
    event: &str,
    group: String,
) -> Result<String, SettingsError> {
    let text = document.text;
    if let Some(groups) = document.groups(event)? {
        return Ok(Container::from(groups).append(document, group).apply(text));
    }
    let event = format!("{}: [{group}]", serde_json::Value::from(event));
    let splices = match (document.hooks()?, document.root()?) {
        (Some(hooks), _) => Container::from(hooks).append(document, event),
        (None, Some(root)) => {
            let root = Container::from(root);
            let before = format!("{}{}", newline(text), root.member_indent(document));
            let step = indent_step(document);
            let hooks = format!("\"hooks\": {{{before}{step}{event}{before}}}");
            root.append(document, hooks)
        }
        (None, None) => return Ok(text.to_owned()),
    };
    Ok(splices.apply(text))
}

/// Returns true if an entry has the same fields as `wanted`, in any layout.
pub fn is_equal(placed: &PlacedEntry<'_, '_>, wanted: &str) -> bool {
    let properties = &placed.entry.properties;
    let names: BTreeSet<_> = properties.iter().map(|p| p.name.as_str()).collect();
    let has_equal_keys = names.len() != properties.len();
    let wanted = serde_json::from_str::<serde_json::Value>(wanted).ok();
    !has_equal_keys && wanted == Some(plain_object(placed.entry))
}

/// Returns the settings as plain JSON, or `None` if the file is empty.
pub fn value(text: &str) -> Result<Option<serde_json::Value>, SettingsError> {
    let document = Document::parse(split_mark(text).1)?;
    Ok(document.root()?.map(plain_object))
}

/// The parts of the original file that come back when becket's entries go.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OriginalParts {
    /// True if the file had `hooks`, which then stay even if they are empty.
    hooks: bool,
    /// The events that the file had, which then stay even if they are empty.
    events: BTreeSet<String>,
    /// The text of the value of `statusLine`.
    status_line: Option<String>,
}

impl OriginalParts {
    /// Reads the parts from the text of the original file.
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
            status_line: status_line::foreign_text(&document).map(str::to_owned),
        }
    }

    /// Returns the command of the status line.
    pub fn status_command(&self) -> Option<String> {
        status_line::command_of(self.status_line.as_deref()?)
    }
}

/// Returns the settings without becket's entries. A container goes too if it held nothing else, not
/// even a comment, and the original file did not have it.
pub fn unregister(text: &str, original: &OriginalParts) -> Result<String, SettingsError> {
    let text = unregister_status_line(text, original)?;
    let (mark, body) = split_mark(&text);
    let mut body = body.to_owned();
    loop {
        let document = Document::parse(&body)?;
        document.root()?;
        let Some(first) = document.becket_entries().into_iter().next() else {
            return Ok(format!("{mark}{body}"));
        };
        body = remove_entry(&document, &first, original).apply(&body);
    }
}

/// Returns the settings without becket's status line.
pub fn unregister_status_line(
    text: &str,
    original: &OriginalParts,
) -> Result<String, SettingsError> {
    let (mark, body) = split_mark(text);
    let body = status_line::take_out(body, original.status_line.as_deref())?;
    Ok(format!("{mark}{body}"))
}

/// Cuts out an entry, or the outermost node around it that holds nothing else.
fn remove_entry(
    document: &Document<'_>,
    placed: &PlacedEntry<'_, '_>,
    original: &OriginalParts,
) -> Splices {
    let is_alone = placed.list.elements.len() == 1
        && placed.group.properties.len() == 1
        && !document.has_comment(placed.group, placed.entry);
    if is_alone {
        remove_group(document, placed, original)
    } else {
        Container::from(placed.list).remove(document, placed.entry)
    }
}

/// Cuts out an entry's group, or the outermost node around it that holds nothing else.
pub fn remove_group(
    document: &Document<'_>,
    placed: &PlacedEntry<'_, '_>,
    original: &OriginalParts,
) -> Splices {
    let groups = placed.property.value.as_array();
    let event_goes = groups.is_none_or(|groups| groups.elements.len() == 1)
        && !original.events.contains(placed.event)
        && is_only_one(placed.events, placed.property)
        && !document.has_comment(placed.property, placed.group);
    if let Some(groups) = groups.filter(|_| !event_goes) {
        return Container::from(groups).remove(document, placed.group);
    }
    let hooks_go = placed.events.properties.len() == 1
        && !original.hooks
        && is_only_one(placed.root, placed.hooks)
        && !document.has_comment(placed.hooks, placed.property);
    if hooks_go {
        Container::from(placed.root).remove(document, placed.hooks)
    } else {
        Container::from(placed.events).remove(document, placed.property)
    }
}

/// Returns true if no other property has the same name. Without the last one of a name, an earlier
/// one would be in force again.
fn is_only_one(object: &Object<'_>, property: &ObjectProp<'_>) -> bool {
    named(object, property.name.as_str()).count() == 1
}
