//! `/hook:disable`, `/hook:enable`, `/hook:status` as a person types them in Claude Code, and what
//! they do. `becket disable` and its fellows do the same and say the same.

mod words;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use becket_wire::answer::{Answer, Change, Opinion};
use becket_wire::envelope::Envelope;
use becket_wire::event::EventName;
use becket_wire::{Head, Place};

use super::Hook;
use super::name::{self, Match};
use super::switch::{self, State, SwitchError, Switched, Switches};

/// What the switch is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    Disable,
    Enable,
    Status,
}

impl Verb {
    pub const ALL: [Self; 3] = [Self::Disable, Self::Enable, Self::Status];

    pub fn word(self) -> &'static str {
        match self {
            Self::Disable => "disable",
            Self::Enable => "enable",
            Self::Status => "status",
        }
    }
}

/// A slash command of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slash {
    pub verb: Verb,
    /// What stands after it; empty if nothing does.
    pub argument: String,
}

/// What Claude Code puts before the commands of the plugin.
const PLUGIN: &str = "becket:";

/// The slash command that an event brings. It is the whole prompt, on one line, and a person's or
/// their program's: what a machine made up switches nothing.
pub fn parse(head: &Head<'_>, envelope: &Envelope) -> Option<Slash> {
    let is_typed = matches!(head.source.as_deref(), None | Some("user" | "sdk"));
    if !comes_first(head, envelope) || !is_typed || head.agent_id.is_some() {
        return None;
    }
    let prompt = head.prompt.as_deref()?.trim();
    if prompt.contains(['\n', '\r']) {
        return None;
    }
    let command = prompt.strip_prefix('/')?;
    let command = command.strip_prefix(PLUGIN).unwrap_or(command);
    let command = command.strip_prefix("hook:")?;
    let (word, argument) = match command.split_once(char::is_whitespace) {
        Some((word, argument)) => (word, argument.trim()),
        None => (command, ""),
    };
    let verb = Verb::ALL.into_iter().find(|verb| verb.word() == word)?;
    let argument = argument.to_owned();
    Some(Slash { verb, argument })
}

/// Whether this is the first that is heard of a prompt, or may be. Claude Code 2.1.260 and those
/// before it tell of the expansion, then run what stands in the command file, and then tell of the
/// prompt: whoever waits for that finds the switch set already. They do not say who attends.
fn comes_first(head: &Head<'_>, envelope: &Envelope) -> bool {
    match head.event.as_deref().map(EventName::from) {
        Some(EventName::UserPromptSubmit) => true,
        Some(EventName::UserPromptExpansion) => !envelope.knows_attended(),
        _ => false,
    }
}

/// Where a switch is set.
#[derive(Debug, Clone, Copy)]
pub struct Scene<'a> {
    pub place: &'a Place,
    pub session: &'a str,
    pub cwd: &'a Path,
    /// The type of the subagent that asks, if it is one.
    pub agent_type: Option<&'a str>,
    /// Those that the config of this project names, in its order.
    pub hooks: &'a [Arc<Hook>],
}

/// What was done, in words for the person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acted {
    /// Without the last line's end.
    pub lines: String,
    /// 0 done or already so, 1 it failed, 2 ambiguous, 3 no match.
    pub exit: u8,
}

impl Acted {
    fn new(lines: impl Into<String>, exit: u8) -> Self {
        let lines = lines.into();
        Self { lines, exit }
    }

    fn and(mut self, line: Option<String>) -> Self {
        if let Some(line) = line {
            self.lines = format!("{}\n{line}", self.lines);
        }
        self
    }
}

/// Does what was asked. It may wait for a lock, and writes a file.
pub fn act(verb: Verb, argument: &str, scene: &Scene<'_>) -> Acted {
    let names = scene.hooks.iter().map(|hook| hook.name.as_str());
    match name::find(argument, names) {
        _ if argument.is_empty() => with_switches(scene, |switches| {
            let hooks: Vec<&Hook> = scene.hooks.iter().map(AsRef::as_ref).collect();
            let listed = match verb {
                Verb::Status => words::status(&hooks, switches, scene.agent_type),
                _ => words::usage(verb, &hooks, switches, scene.agent_type),
            };
            Acted::new(listed, 0)
        }),
        Match::One(name) => {
            let Some(hook) = scene.hooks.iter().find(|hook| hook.name == name) else {
                return Acted::new(words::nothing_configured(), 3);
            };
            one(verb, hook, scene)
        }
        Match::Several(names) if verb == Verb::Status => with_switches(scene, |switches| {
            let meant = scene.hooks.iter().map(AsRef::as_ref);
            let meant: Vec<&Hook> = meant
                .filter(|hook| names.contains(&hook.name.as_str()))
                .collect();
            Acted::new(words::status(&meant, switches, scene.agent_type), 0)
        }),
        Match::Several(names) => Acted::new(words::several(verb, argument, &names), 2),
        Match::None { nearest } => with_switches(scene, |switches| {
            let hooks: Vec<&Hook> = scene.hooks.iter().map(AsRef::as_ref).collect();
            let list = words::list(&hooks, switches, scene.agent_type);
            Acted::new(words::no_match(verb, argument, nearest, &list), 3)
        }),
    }
}

/// Whoever reads the file for a person sets it aside if it is damaged, and says so.
fn with_switches(scene: &Scene<'_>, tell: impl Fn(&Switches) -> Acted) -> Acted {
    let aside = switch::set_aside(scene.place, scene.session);
    let read = Switches::read(scene.place, scene.session);
    let trouble = match aside {
        Ok(aside) => aside.as_deref().map(words::set_aside),
        Err(error) => Some(words::trouble(&error)),
    };
    tell(&read.switches).and(trouble)
}

fn one(verb: Verb, hook: &Hook, scene: &Scene<'_>) -> Acted {
    if verb == Verb::Status {
        return with_switches(scene, |switches| {
            Acted::new(words::status(&[hook], switches, scene.agent_type), 0)
        });
    }
    if let Some(origin) = &hook.off {
        return Acted::new(words::off_in_config(&hook.name, origin), 0);
    }
    if hook.managed {
        return Acted::new(words::managed(&hook.name, &hook.declared), 0);
    }
    let Scene {
        place,
        session,
        cwd,
        ..
    } = *scene;
    let switched = match verb {
        Verb::Enable => switch::enable(place, session, &hook.name, cwd),
        _ => switch::disable(place, session, &hook.name, cwd),
    };
    match switched {
        Ok(switched) => tell(verb, hook, &switched),
        Err(error) => Acted::new(failed(verb, &hook.name, &error), 1),
    }
}

fn tell(verb: Verb, hook: &Hook, switched: &Switched) -> Acted {
    let line = match (verb, switched.changed) {
        (Verb::Enable, true) => words::enabled(&hook.name),
        (Verb::Enable, false) => words::not_disabled(&hook.name),
        (_, true) => words::disabled(&hook.name),
        (_, false) => words::already_disabled(&hook.name),
    };
    let untrusted = hook.untrusted.then(words::not_trusted);
    let aside: Option<&PathBuf> = switched.set_aside.as_ref();
    Acted::new(line, 0)
        .and(untrusted)
        .and(aside.map(|file| words::set_aside(file)))
}

fn failed(verb: Verb, hook: &str, error: &SwitchError) -> String {
    format!("❌ Could not {} {hook}: {error}", verb.word())
}

/// The hooks with whether each runs, as lists show them.
pub fn states<'a>(
    hooks: &'a [Arc<Hook>],
    switches: &Switches,
    agent_type: Option<&str>,
) -> Vec<(&'a Hook, State)> {
    let with_state = |hook: &'a Arc<Hook>| {
        let state = switch::state(hook, switches, agent_type);
        (hook.as_ref(), state)
    };
    hooks.iter().map(with_state).collect()
}

/// How it is answered at the event that brought it, so that no model is asked. Of what Claude Code offers, a
/// block without the original prompt shows the lines as they are, each on a line of its own, and
/// leaves nothing of it in the context. (`continue: false` puts "Operation stopped by hook:" before
/// the first; with a `systemMessage` the prompt goes on to the model.)
pub fn answer(event: EventName, lines: &str) -> Answer {
    let mut answer = Answer::silent(event);
    let reason = lines.to_owned();
    let given = answer
        .give(Opinion::Block { reason })
        .and_then(|()| answer.change(Change::SuppressPrompt(true)));
    debug_assert_eq!(given, Ok(()));
    answer
}

#[cfg(test)]
mod tests;
