//! Entries become named hooks: the same command is one hook where it can be, and never runs twice
//! where Claude Code ran it once.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use becket_engine::run::Program;
use becket_engine::trust::names_project_file;

use super::name;
use super::wish::{Wish, either};
use crate::settings::{Foreign, Scope};

/// A hook as it would stand in becket's config, and the entries that it comes from.
#[derive(Debug, Clone)]
pub struct Named {
    pub name: String,
    pub scope: Scope,
    pub on: Vec<String>,
    pub tools: Option<String>,
    pub program: Program,
    pub timeout: Option<Duration>,
    pub is_async: bool,
    pub notes: Vec<&'static str>,
    pub entries: Vec<Foreign>,
    /// Why it has to stay where it is.
    pub why: Option<Why>,
    /// It stands in the config already, word for word: an adoption broke off between two files.
    pub is_written: bool,
}

/// Why a hook cannot be adopted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// Becket could never run it as Claude Code does.
    Never(String),
    /// It would not run: becket is not registered for its events.
    Unregistered(String),
}

impl Why {
    pub fn text(&self) -> &str {
        match self {
            Self::Never(text) | Self::Unregistered(text) => text,
        }
    }
}

/// One entry, and what it wants.
#[derive(Debug, Clone)]
pub struct Read {
    pub scope: Scope,
    pub entry: Foreign,
    pub wish: Result<Wish, String>,
}

/// What tells hooks of one command in one file apart.
type Kind = (Option<String>, Option<Duration>, bool);

impl Named {
    fn kind(&self) -> Kind {
        (self.tools.clone(), self.timeout, self.is_async)
    }

    /// Why it would run only where somebody has said `becket trust`.
    pub fn rests(&self, here: &Path) -> Option<&'static str> {
        match self.scope {
            Scope::User if names_project_file(&self.program, here) => Some(
                "starts a file of whatever project a session works in, and will rest where you have not said `becket trust`",
            ),
            Scope::User => None,
            Scope::Project | Scope::Local | Scope::Managed => {
                Some("is this project's, and will rest until you say `becket trust`")
            }
        }
    }

    /// It would be the very same hook in another file.
    fn is_like(&self, other: &Self) -> bool {
        let events = |hook: &Self| hook.on.iter().cloned().collect::<BTreeSet<_>>();
        self.program == other.program
            && self.kind() == other.kind()
            && events(self) == events(other)
    }
}

/// The hooks that these entries make, without names yet, in the order of the files.
pub fn hooks(entries: &[Read]) -> Vec<Named> {
    let mut hooks: Vec<Named> = Vec::new();
    for (wish, scope, entries) in events(entries) {
        let is_same = |hook: &&mut Named| {
            let kind = (wish.tools.clone(), wish.timeout, wish.is_async);
            hook.scope == scope && hook.program == wish.program && hook.kind() == kind
        };
        match hooks.iter_mut().find(is_same) {
            Some(hook) => {
                hook.on.push(wish.event);
                hook.entries.extend(entries);
                let new = |note: &&'static str| !hook.notes.contains(note);
                let notes: Vec<_> = wish.notes.into_iter().filter(new).collect();
                hook.notes.extend(notes);
            }
            None => hooks.push(Named {
                name: String::new(),
                scope,
                on: vec![wish.event],
                tools: wish.tools,
                program: wish.program,
                timeout: wish.timeout,
                is_async: wish.is_async,
                notes: wish.notes,
                entries,
                why: None,
                is_written: false,
            }),
        }
    }
    let twice: Vec<bool> = hooks
        .iter()
        .map(|hook| runs_twice(hook, &hooks, entries))
        .collect();
    for (hook, _) in hooks.iter_mut().zip(twice).filter(|(_, twice)| *twice) {
        let why = "the same command stands in another place too, in another way: Claude Code runs it once, becket would run it twice";
        hook.why = Some(Why::Never(why.to_owned()));
    }
    hooks
}

/// One wish for each command and event of a file: of several registrations Claude Code runs one.
fn events(entries: &[Read]) -> Vec<(Wish, Scope, Vec<Foreign>)> {
    let mut events: Vec<(Wish, Scope, Vec<Foreign>)> = Vec::new();
    for Read { scope, entry, wish } in entries {
        let Ok(wish) = wish else { continue };
        let known = events.iter_mut().find(|(known, in_scope, _)| {
            in_scope == scope && known.event == wish.event && known.program == wish.program
        });
        let Some((known, _, entries)) = known else {
            events.push((wish.clone(), *scope, vec![entry.clone()]));
            continue;
        };
        known.tools = either(known.tools.as_deref(), wish.tools.as_deref());
        known.timeout = known
            .timeout
            .zip(wish.timeout)
            .map(|(one, other)| one.max(other));
        known.is_async &= wish.is_async;
        let new = |note: &&'static str| !known.notes.contains(note);
        let notes: Vec<_> = wish.notes.iter().copied().filter(new).collect();
        known.notes.extend(notes);
        entries.push(entry.clone());
    }
    events
}

/// Whether one of its entries has a fellow that stays, or that would become another hook.
fn runs_twice(hook: &Named, hooks: &[Named], entries: &[Read]) -> bool {
    let meets = |on: &[String]| on.iter().any(|event| hook.on.contains(event));
    let elsewhere = hooks.iter().filter(|other| {
        other.scope != hook.scope && other.program == hook.program && meets(&other.on)
    });
    let commands: Vec<_> = hook.entries.iter().map(command).collect();
    let mut staying = entries.iter().filter(|read| {
        read.wish.is_err()
            && hook.on.contains(&read.entry.event)
            && commands.contains(&command(&read.entry))
    });
    staying.next().is_some() || elsewhere.into_iter().any(|other| !other.is_like(hook))
}

/// What Claude Code takes for the same command.
fn command(entry: &Foreign) -> (Option<&str>, Option<&serde_json::Value>) {
    let field = |name: &str| entry.value.get(name);
    (
        field("command").and_then(|command| command.as_str()),
        field("args"),
    )
}

/// Gives every hook a name that nobody has; the same hook in two files has one name, so that the
/// config's layers make one of it. `written` knows the name of a hook that is there already.
pub fn name_all(
    hooks: &mut [Named],
    taken: &BTreeSet<String>,
    written: impl Fn(&Named) -> Option<String>,
) {
    let mut taken = taken.clone();
    for nth in 0..hooks.len() {
        let (named, rest) = hooks.split_at_mut(nth);
        let hook = &mut rest[0];
        let alike = named.iter().find(|other| other.is_like(hook));
        hook.name = match (written(hook), alike) {
            (Some(name), _) => {
                hook.is_written = true;
                name
            }
            (None, Some(other)) => other.name.clone(),
            (None, None) => free(hook, &taken),
        };
        taken.insert(hook.name.clone());
    }
}

fn free(hook: &Named, taken: &BTreeSet<String>) -> String {
    let event = hook.on.first().map(String::as_str).unwrap_or_default();
    let plain = name::of(&hook.program, event);
    let numbers = (2..).map(|number| format!("{plain}-{number}"));
    let names = [plain.clone(), name::with_event(&plain, event)];
    let mut names = names.into_iter().chain(numbers);
    names
        .find(|name| !taken.contains(name))
        .unwrap_or(plain.clone())
}
