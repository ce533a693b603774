//! Puts our entries into a settings file, and mends those that are there already.

use std::collections::BTreeSet;

use jsonc_parser::ast::Value;
use jsonc_parser::common::Ranged;

use super::document::{Document, Placed, SettingsError, plain, plain_object, split_mark};
use super::member::{Container, newline, step};
use super::registration::{Registered, Registration, STRICT_EVENT, Strict};
use super::splice::Splices;
use super::status_line;
use super::unregister::{Kept, remove_entry};

/// The settings with every event registered: missing entries added, wrong ones replaced where they
/// stand. What is right stays as it is, down to its layout.
pub fn register(text: &str, registration: &Registration) -> Result<String, SettingsError> {
    let (mark, body) = split_mark(text);
    let mut body = with_root(body)?;
    let strict = is_strict(&Document::parse(&body)?, registration.strict);
    while let Some(edited) = remove_stray(&Document::parse(&body)?, registration) {
        body = edited;
    }
    body = add_hooks(&body, registration, strict)?;
    for registered in registration.events() {
        body = add_event(&body, registered, registration, strict)?;
    }
    if registration.status_line {
        body = status_line::put(&body, registration)?;
    }
    Ok(format!("{mark}{body}"))
}

/// The settings with those events registered synchronously on which a hook answers; nothing else
/// is mended.
pub fn make_synchronous(text: &str, registration: &Registration) -> Result<String, SettingsError> {
    let (mark, body) = split_mark(text);
    let strict = is_strict(&Document::parse(body)?, registration.strict);
    let wanted = |one: &Registered| registration.synchronous.contains(one.event);
    let mut body = body.to_owned();
    for registered in registration.events().filter(wanted) {
        body = add_event(&body, registered, registration, strict)?;
    }
    Ok(format!("{mark}{body}"))
}

/// An empty file counts as an object with nothing in it.
pub fn with_root(body: &str) -> Result<String, SettingsError> {
    let document = Document::parse(body)?;
    if document.root()?.is_some() {
        return Ok(body.to_owned());
    }
    let newline = newline(body);
    let gap = if body.is_empty() || body.ends_with('\n') {
        ""
    } else {
        newline
    };
    Ok(format!("{body}{gap}{{}}{newline}"))
}

/// Whether `PreToolUse` is to block when the shim fails.
pub fn is_strict(document: &Document<'_>, wanted: Strict) -> bool {
    let blocks = |ours: &Placed<'_, '_>| {
        ours.counts && ours.event == STRICT_EVENT && ours.string("onFailure") == Some("block")
    };
    match wanted {
        Strict::On => true,
        Strict::Off => false,
        Strict::Keep => document.ours().iter().any(blocks),
    }
}

/// Takes out one entry of ours that must not be where it is: on an event that is not registered,
/// behind a matcher, or a second time.
fn remove_stray(document: &Document<'_>, registration: &Registration) -> Option<String> {
    let mut seen = BTreeSet::new();
    let is_stray = |ours: &Placed<'_, '_>| {
        ours.counts
            && (registration.events().all(|one| one.event != ours.event)
                || ours.restricted()
                || !seen.insert(ours.event.to_owned()))
    };
    let stray = document.ours().into_iter().find(is_stray)?;
    Some(remove_entry(document, &stray, &Kept::default()).apply(document.text))
}

/// Where there are no hooks at all, all of ours are added in one piece.
fn add_hooks(
    body: &str,
    registration: &Registration,
    strict: bool,
) -> Result<String, SettingsError> {
    let document = Document::parse(body)?;
    let (Some(root), None) = (document.root()?, document.hooks()?) else {
        return Ok(body.to_owned());
    };
    let write = |indent: &str| {
        let before = format!("{}{indent}", newline(body));
        let deeper = format!("{before}{}", step(&document));
        let events: Vec<String> = registration
            .events()
            .map(|registered| format!("{deeper}{}", event(registered, registration, strict)))
            .collect();
        format!("\"hooks\": {{{}{before}}}", events.join(","))
    };
    Ok(Container::from(root).append(&document, write).apply(body))
}

fn add_event(
    body: &str,
    registered: Registered,
    registration: &Registration,
    strict: bool,
) -> Result<String, SettingsError> {
    let document = Document::parse(body)?;
    let groups = document.groups(registered.event)?;
    let right = registration.entries(registered, strict);
    let ours = document.ours();
    let standing = ours
        .iter()
        .find(|ours| ours.counts && ours.event == registered.event);
    let splices =
        match (standing, groups, document.hooks()?) {
            (Some(ours), _, _) if right.iter().any(|entry| says(ours, entry)) => Splices::default(),
            (Some(ours), _, _) => {
                let mut splices = Splices::default();
                let entry = registration.entry(registered, strict);
                splices.replace(ours.entry.start()..ours.entry.end(), entry);
                splices
            }
            (None, Some(groups), _) => Container::from(groups)
                .append(&document, |_| registration.group(registered, strict)),
            (None, None, Some(hooks)) => Container::from(hooks)
                .append(&document, |_| event(registered, registration, strict)),
            (None, None, None) => Splices::default(),
        };
    Ok(splices.apply(body))
}

fn event(registered: Registered, registration: &Registration, strict: bool) -> String {
    let group = registration.group(registered, strict);
    format!("\"{}\": [{group}]", registered.event)
}

/// Whether an entry says just this, however it is laid out.
pub fn says(ours: &Placed<'_, '_>, entry: &str) -> bool {
    let names: BTreeSet<_> = ours
        .entry
        .properties
        .iter()
        .map(|p| p.name.as_str())
        .collect();
    let doubled = names.len() != ours.entry.properties.len();
    let wanted = serde_json::from_str::<serde_json::Value>(entry).ok();
    !doubled && wanted == Some(plain_object(ours.entry))
}

/// The value of a settings file, for comparing.
pub fn value(text: &str) -> Result<Option<serde_json::Value>, SettingsError> {
    let document = Document::parse(split_mark(text).1)?;
    let root = document.root()?;
    Ok(root.map(|root| plain(&Value::Object(root.clone()))))
}
