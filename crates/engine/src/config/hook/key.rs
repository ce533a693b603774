//! The keys of `[hooks.NAME]`: one row each. A built-in has keys of its own besides.

use std::time::Duration;

use crate::config::value::Form;
use crate::hooks::builtin::BuiltIn;
use crate::matcher::{Matcher, Paths};

/// One key that every hook has.
#[derive(Debug)]
pub struct HookKey {
    pub name: &'static str,
    pub form: Form,
    pub about: &'static str,
}

pub const HOOK_KEYS: &[HookKey] = &[
    HookKey {
        name: "enabled",
        form: Form::Bool,
        about: "`false` switches the hook off, in every session",
    },
    HookKey {
        name: "description",
        form: Form::Text(any),
        about: "One line for lists; without it, the command",
    },
    HookKey {
        name: "on",
        form: Form::Words(|event| match event.trim() {
            "" => Err("expected the name of an event, found nothing".to_owned()),
            _ => Ok(()),
        }),
        about: "The event, or a list of events, that the hook runs on",
    },
    HookKey {
        name: "tools",
        form: Form::Text(|_, text| Matcher::parse(text).map(drop)),
        about: "The matcher of Claude Code: names of tools, or a regular expression; without it, everything",
    },
    HookKey {
        name: "paths",
        form: Form::Words(|glob| Paths::parse(&[glob.to_owned()]).map(drop)),
        about: "Globs of the files that it wants to hear of; `!` takes away again",
    },
    HookKey {
        name: "run",
        form: Form::Program,
        about: "What is run: a list as it is, a text in sh; not for a built-in",
    },
    HookKey {
        name: "timeout",
        form: Form::Span {
            min: Duration::from_millis(1),
        },
        about: "How long it may take; without it, as long as Claude Code waits",
    },
    HookKey {
        name: "skip_agents",
        form: Form::Words(|_| Ok(())),
        about: "Types of subagents in which it does not run",
    },
    HookKey {
        name: "rewrites",
        form: Form::Bool,
        about: "It changes the input of the tool: such hooks run first, one after the other",
    },
    HookKey {
        name: "async",
        form: Form::Bool,
        about: "Claude does not wait for it, and its answer is ignored",
    },
];

fn any(_: &str, _: &str) -> Result<(), String> {
    Ok(())
}

impl HookKey {
    pub fn find(name: &str) -> Option<&'static Self> {
        HOOK_KEYS.iter().find(|key| key.name == name)
    }
}

/// The known key nearest to one that is not known.
pub(in crate::config) fn nearest(
    name: &str,
    built_in: Option<&'static BuiltIn>,
) -> Option<&'static str> {
    let own = built_in.map_or(&[][..], |hook| hook.keys);
    let known = HOOK_KEYS.iter().map(|key| key.name);
    likest(name, known.chain(own.iter().copied()))
}

/// The most alike of these names, if it is alike at all.
pub(super) fn likest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    known
        .map(|known| (strsim::normalized_damerau_levenshtein(name, known), known))
        .filter(|(likeness, _)| *likeness > 0.5)
        .max_by(|one, other| one.0.total_cmp(&other.0))
        .map(|(_, known)| known)
}
