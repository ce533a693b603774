//! What a settings file says about becket, for those who only look.

use super::document::{Document, Placed, SettingsError, flag, split_mark};
use super::register::{is_strict, says};
use super::registration::{Registered, Registration, Strict};
use super::status_line::{self, Standing};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inspection {
    /// One for each event that should be registered, in that order.
    pub entries: Vec<Entry>,
    /// All hooks are off, ours too.
    pub disable_all_hooks: bool,
    /// In managed settings: only managed hooks run, so ours do not.
    pub managed_hooks_only: bool,
    /// A missing or crashing shim blocks the tool call.
    pub strict: bool,
    pub status_line: Standing,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub event: &'static str,
    pub state: State,
    /// What Claude Code runs.
    pub command: Option<CommandLine>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// As `init` would write it.
    Found,
    Missing,
    /// There, but `init` would mend it.
    Different,
}

/// A program and its arguments; no shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandLine {
    pub program: String,
    pub args: Vec<String>,
}

impl Inspection {
    pub fn count(&self, state: State) -> usize {
        self.entries
            .iter()
            .filter(|entry| entry.state == state)
            .count()
    }

    /// Whether anything of ours stands there.
    pub fn any(&self) -> bool {
        self.count(State::Missing) < self.entries.len()
    }
}

/// Compares a settings file with what `init` would write. `Strict::Keep` takes either.
pub fn inspect(text: &str, registration: &Registration) -> Result<Inspection, SettingsError> {
    let document = Document::parse(split_mark(text).1)?;
    let root = document.root()?;
    let ours = document.ours();
    let strict = is_strict(&document, registration.strict);
    let entry = |registered: Registered| {
        let mut standing = ours
            .iter()
            .filter(|ours| ours.counts && ours.event == registered.event);
        let first = standing.next();
        let wanted = registration.entries(registered, strict);
        let right = |ours: &Placed<'_, '_>| {
            !ours.restricted() && wanted.iter().any(|wanted| says(ours, wanted))
        };
        let state = match first {
            None => State::Missing,
            Some(first) if right(first) && standing.next().is_none() => State::Found,
            Some(_) => State::Different,
        };
        Entry {
            event: registered.event,
            state,
            command: first.and_then(command_line),
        }
    };
    Ok(Inspection {
        entries: registration.events().map(entry).collect(),
        disable_all_hooks: root.is_some_and(|root| flag(root, "disableAllHooks")),
        managed_hooks_only: root.is_some_and(|root| flag(root, "allowManagedHooksOnly")),
        strict: is_strict(&document, Strict::Keep),
        status_line: status_line::inspect(&document, registration),
    })
}

fn command_line(ours: &Placed<'_, '_>) -> Option<CommandLine> {
    let args = ours.args().unwrap_or_default();
    Some(CommandLine {
        program: ours.string("command")?.to_owned(),
        args: args.into_iter().map(str::to_owned).collect(),
    })
}
