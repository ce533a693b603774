//! Compares a settings file with the one that `init` would write.

use jsonc_parser::ast::{Object, Value};

use crate::settings::document::{Document, PlacedEntry, SettingsError, flag, last, split_mark};
use crate::settings::entries::{is_equal, is_strict};
use crate::settings::registration::{RegisteredEvent, Registration, Strict};
use crate::settings::status_line::{self, StatusLineState};

/// The part of a settings file that concerns becket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inspection {
    /// One entry for each event that should be registered, in that order.
    pub entries: Vec<EventEntry>,
    /// True if all hooks are off, becket's too.
    pub disable_all_hooks: bool,
    /// True in managed settings after which only managed hooks run, so that becket's do not.
    pub managed_hooks_only: bool,
    /// True if a missing or crashing shim blocks the tool call.
    pub strict: bool,
    /// True if becket's plugin is enabled.
    pub plugin: bool,
    pub status_line: StatusLineState,
}

/// becket's entry for one event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventEntry {
    pub event: &'static str,
    pub state: EntryState,
    /// The command that Claude Code runs.
    pub command: Option<EntryCommand>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryState {
    /// The entry is as `init` would write it.
    Found,
    Missing,
    /// The entry is there, but `init` would change it.
    Different,
}

/// A program and its arguments, which no shell reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryCommand {
    pub program: String,
    pub args: Vec<String>,
}

impl Inspection {
    /// Returns the number of events whose entry is in this state.
    pub fn count(&self, state: EntryState) -> usize {
        let entries = self.entries.iter();
        entries.filter(|entry| entry.state == state).count()
    }

    /// Returns true if the file has an entry of becket's.
    pub fn any(&self) -> bool {
        self.count(EntryState::Missing) < self.entries.len()
    }
}

/// Compares a settings file with the one that `init` would write. `Strict::Keep` accepts both.
pub fn inspect(text: &str, registration: &Registration) -> Result<Inspection, SettingsError> {
    let document = Document::parse(split_mark(text).1)?;
    let root = document.root()?;
    let mut entries = document.becket_entries();
    entries.retain(|entry| entry.is_in_force);
    let strict = is_strict(&document, registration.strict);
    let events = registration.events();
    let events = events.map(|event| inspect_event(event, &entries, registration, strict));
    Ok(Inspection {
        entries: events.collect(),
        disable_all_hooks: root.is_some_and(|root| flag(root, "disableAllHooks")),
        managed_hooks_only: root.is_some_and(|root| flag(root, "allowManagedHooksOnly")),
        strict: is_strict(&document, Strict::Keep),
        plugin: root.is_some_and(has_plugin),
        status_line: status_line::inspect(&document, registration),
    })
}

fn inspect_event(
    registered: RegisteredEvent,
    entries: &[PlacedEntry<'_, '_>],
    registration: &Registration,
    strict: bool,
) -> EventEntry {
    let mut present = entries.iter().filter(|it| it.event == registered.event);
    let first = present.next();
    let is_right = first.is_some_and(|first| {
        let mut wanted = registration.entries(registered, strict).into_iter();
        !first.is_restricted() && wanted.any(|wanted| is_equal(first, &wanted))
    });
    let state = if first.is_none() {
        EntryState::Missing
    } else if is_right && present.next().is_none() {
        EntryState::Found
    } else {
        EntryState::Different
    };
    EventEntry {
        event: registered.event,
        state,
        command: first.and_then(command),
    }
}

/// Returns true if `enabledPlugins` of these settings switches on becket's, from whatever marketplace.
fn has_plugin(root: &Object<'_>) -> bool {
    let Some(Value::Object(plugins)) = last(root, "enabledPlugins").map(|plugins| &plugins.value)
    else {
        return false;
    };
    let mut names = plugins.properties.iter().map(|plugin| plugin.name.as_str());
    names.any(|name| name.starts_with("becket@") && flag(plugins, name))
}

fn command(entry: &PlacedEntry<'_, '_>) -> Option<EntryCommand> {
    let args = entry.args().unwrap_or_default();
    Some(EntryCommand {
        program: entry.string("command")?.to_owned(),
        args: args.into_iter().map(str::to_owned).collect(),
    })
}
