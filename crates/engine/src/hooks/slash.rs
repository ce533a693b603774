//! `/hook:disable`, `/hook:enable`, `/hook:status` as a person types them in Claude Code, and what
//! they do. `becket disable`, `enable` and `hooks` do the same and print the same.

use std::collections::HashSet;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use becket_wire::answer::{Answer, Change, Opinion};
use becket_wire::event::EventName;
use becket_wire::rpc::Envelope;
use becket_wire::text::is_hidden;
use becket_wire::{Head, Place};

use super::Hook;
use super::builtin::BUILT_INS;
use super::name::{self, Match};
use super::switch::{self, State, SwitchError, Switched, Switches, state};
use crate::config::Origin;
use crate::guard::rule::Rule;

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

/// What stands for all hooks.
pub const ALL: &str = "--all";

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

/// Whether this is the first event of a prompt. Claude Code up to 2.1.260 sends the expansion, runs
/// what the command file names, and then sends the prompt: by then the switch would be set already.
/// Those versions do not say whether a user attends.
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
    /// Its guards, which no session switches.
    pub guards: &'a [Arc<Rule>],
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
    if argument == ALL && verb != Verb::Status && !scene.hooks.is_empty() {
        return joined(scene.hooks.iter().map(|hook| one(verb, hook, scene)));
    }
    let words = distinct(name::words(argument), scene);
    if let [] | [_] = words[..] {
        return act_on(verb, words.first().unwrap_or(&""), scene);
    }
    // Words of which none is a name are one name, or a sentence.
    if !words.iter().any(|word| is_known(word, scene)) {
        return act_on(verb, argument.trim(), scene);
    }
    let (clear, unclear): (Vec<&str>, Vec<&str>) =
        words.iter().partition(|word| is_clear(verb, word, scene));
    // Either all of them are clear, or nothing is done.
    let meant = if unclear.is_empty() { &clear } else { &unclear };
    let acted = joined(meant.iter().map(|word| act_on(verb, word, scene)));
    acted.and((!unclear.is_empty()).then(|| NOTHING_CHANGED.to_owned()))
}

fn joined(acted: impl Iterator<Item = Acted>) -> Acted {
    let acted: Vec<Acted> = acted.collect();
    let lines: Vec<&str> = acted.iter().map(|it| &*it.lines).collect();
    let exit = acted.iter().map(|it| it.exit).max().unwrap_or(0);
    Acted::new(lines.join("\n"), exit)
}

/// Leaves out words that mean a hook which an earlier one means already.
fn distinct<'w>(words: Vec<&'w str>, scene: &Scene<'_>) -> Vec<&'w str> {
    let mut taken = HashSet::new();
    let is_new = |word: &&str| match name::find(word, names_of(scene)) {
        Match::One(name) => taken.insert(name),
        _ => true,
    };
    words.into_iter().filter(is_new).collect()
}

/// Returns true if a word may mean a hook, configured or built in, or a guard.
fn is_known(word: &str, scene: &Scene<'_>) -> bool {
    let hooks = names_of(scene).chain(BUILT_INS.iter().map(|hook| hook.name));
    !matches!(name::find(word, hooks), Match::None { .. }) || guard(word, scene).is_some()
}

fn guard<'a>(typed: &str, scene: &Scene<'a>) -> Option<&'a str> {
    let mut ids = scene.guards.iter().map(|guard| &*guard.id);
    ids.find(|id| id.eq_ignore_ascii_case(typed))
}

/// Returns true if a word names one hook, or several that are only listed.
fn is_clear(verb: Verb, word: &str, scene: &Scene<'_>) -> bool {
    match name::find(word, names_of(scene)) {
        Match::One(_) => true,
        Match::Several(_) => verb == Verb::Status,
        Match::None { .. } => false,
    }
}

fn names_of<'a>(scene: &Scene<'a>) -> impl Iterator<Item = &'a str> + use<'a> {
    scene.hooks.iter().map(|hook| hook.name.as_str())
}

fn act_on(verb: Verb, argument: &str, scene: &Scene<'_>) -> Acted {
    let found = name::find(argument, names_of(scene));
    if let (Match::None { .. }, Some(guard)) = (&found, guard(argument, scene)) {
        return Acted::new(is_guard(guard), 3);
    }
    match found {
        _ if argument.is_empty() => with_switches(scene, |switches| {
            let hooks: Vec<&Hook> = scene.hooks.iter().map(AsRef::as_ref).collect();
            let listed = match verb {
                Verb::Status => status(&hooks, switches, scene.agent_type),
                _ => usage(verb, &hooks, switches, scene.agent_type),
            };
            Acted::new(listed, 0)
        }),
        Match::One(name) => {
            let Some(hook) = scene.hooks.iter().find(|hook| hook.name == name) else {
                return Acted::new(nothing_configured(), 3);
            };
            one(verb, hook, scene)
        }
        Match::Several(names) if verb == Verb::Status => with_switches(scene, |switches| {
            let meant = scene.hooks.iter().map(AsRef::as_ref);
            let meant: Vec<&Hook> = meant
                .filter(|hook| names.contains(&hook.name.as_str()))
                .collect();
            Acted::new(status(&meant, switches, scene.agent_type), 0)
        }),
        Match::Several(names) => Acted::new(several(verb, argument, &names), 2),
        Match::None { nearest } => with_switches(scene, |switches| {
            let hooks: Vec<&Hook> = scene.hooks.iter().map(AsRef::as_ref).collect();
            let list = list(&hooks, switches, scene.agent_type);
            Acted::new(no_match(verb, argument, nearest, &list), 3)
        }),
    }
}

/// Reads the switches for a message to the user. A damaged file is set aside, and the message says so.
fn with_switches(scene: &Scene<'_>, tell: impl Fn(&Switches) -> Acted) -> Acted {
    let aside = switch::set_aside(scene.place, scene.session);
    let read = Switches::read(scene.place, scene.session);
    let trouble = match aside {
        Ok(aside) => aside.as_deref().map(set_aside),
        Err(error) => Some(trouble(&error)),
    };
    tell(&read.switches).and(trouble)
}

fn one(verb: Verb, hook: &Hook, scene: &Scene<'_>) -> Acted {
    if verb == Verb::Status {
        return with_switches(scene, |switches| {
            Acted::new(status(&[hook], switches, scene.agent_type), 0)
        });
    }
    if let Some(origin) = &hook.off {
        return Acted::new(off_in_config(&hook.name, origin), 0);
    }
    if hook.managed {
        return Acted::new(managed(&hook.name, &hook.declared), 0);
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
        (Verb::Enable, true) => enabled(&hook.name),
        (Verb::Enable, false) => not_disabled(&hook.name),
        (_, true) => disabled(&hook.name),
        (_, false) => already_disabled(&hook.name),
    };
    let untrusted = hook.untrusted.then(not_trusted);
    let aside = switched.set_aside.as_deref();
    Acted::new(line, 0).and(untrusted).and(aside.map(set_aside))
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
    let with_state = |hook: &'a Arc<Hook>| (hook.as_ref(), state(hook, switches, agent_type));
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

/// Names are padded to so many columns, longer ones to the longest.
const NAME: usize = 20;
/// So much of what was typed is said again.
const TYPED: usize = 80;

fn disabled(hook: &str) -> String {
    format!("🔒 Disabled {hook} for this session")
}

fn enabled(hook: &str) -> String {
    format!("✅ Re-enabled {hook} for this session")
}

fn already_disabled(hook: &str) -> String {
    format!("⚠️  Hook '{hook}' is already disabled for this session")
}

fn not_disabled(hook: &str) -> String {
    format!("ℹ️  Hook '{hook}' is not currently disabled for this session")
}

fn off_in_config(hook: &str, origin: &Origin) -> String {
    let origin = one_line(&origin.to_string());
    format!("⚠️  Hook '{hook}' is off in the configuration, for every session: {origin}")
}

fn managed(hook: &str, origin: &Origin) -> String {
    let origin = one_line(&origin.to_string());
    format!("⚠️  Hook '{hook}' is managed on this machine, and no session switches it: {origin}")
}

fn is_guard(id: &str) -> String {
    format!(
        "⚠️  '{id}' is a guard: no session switches it. To let one call pass: becket guard allow-once CODE (becket recent shows the code). To switch it off: [guards.{id}] with enabled = false in your config.toml"
    )
}

fn not_trusted() -> String {
    "⚠️  It does not run anyway: this project is not trusted (becket trust)".to_owned()
}

fn set_aside(file: &Path) -> String {
    let file = one_line(&file.to_string_lossy());
    format!("⚠️  The switches of this session were damaged and count as empty: set aside as {file}")
}

fn trouble(error: &SwitchError) -> String {
    format!("⚠️  The switches of this session count as empty: {error}")
}

/// Of the hooks that becket does not run.
const IN_SETTINGS: &str = "Hooks in Claude Code's settings files have no switch until \
    `becket adopt` moves them here.";

/// Returns the answer if no config names a hook.
pub fn nothing_configured() -> String {
    format!("No hooks are configured for this project. {IN_SETTINGS}")
}

const NOTHING_CHANGED: &str = "Nothing was changed.";

/// The built-in hooks that a name may mean where no configured hook has it.
fn built_in(typed: &str) -> Option<String> {
    let names = match name::find(typed, BUILT_INS.iter().map(|hook| hook.name)) {
        Match::One(name) => vec![name],
        Match::Several(names) => names,
        Match::None { .. } => return None,
    };
    let (is, they) = match &names[..] {
        [_] => ("is built in, but not configured, so it does", "it"),
        _ => ("are built in, but not configured, so they do", "one"),
    };
    Some(format!(
        "{} {is} not run. To switch {they} on, in a terminal: becket hooks on {}",
        names.join(" and "),
        names[0]
    ))
}

fn several(verb: Verb, typed: &str, names: &[&str]) -> String {
    let mut text = format!("🤔 Multiple hooks match '{}':\n", said(typed));
    for name in names {
        // Writing into a String does not fail.
        let _ = writeln!(text, "  - {name}");
    }
    text + &format!("Be more specific: /hook:{} [exact-name]", verb.word())
}

fn no_match(verb: Verb, typed: &str, nearest: Option<&str>, list: &str) -> String {
    let typed = said(typed);
    let mut text = format!("❌ No hook found matching '{typed}'\n");
    let built_in = built_in(&typed);
    match (&built_in, nearest) {
        (Some(built_in), _) => text += &format!("{built_in}\n"),
        (None, Some(nearest)) => text += &format!("Did you mean '{nearest}'?\n"),
        (None, None) => {}
    }
    if list.is_empty() {
        return text + &nothing_configured();
    }
    let verb = verb.word();
    text += &format!(
        "Available hooks for this project:\n{list}Try: /hook:{verb} [exact-name-from-above]"
    );
    // What is near to a configured hook is a slip of the keyboard.
    if built_in.is_some() || nearest.is_none() {
        text += &format!("\n{IN_SETTINGS}");
    }
    text
}

fn usage(verb: Verb, hooks: &[&Hook], switches: &Switches, agent: Option<&str>) -> String {
    let usage = format!("Usage: /hook:{} [hook-name-or-partial]", verb.word());
    match hooks {
        [] => format!("{}\n{usage}", nothing_configured()),
        _ => {
            let list = list(hooks, switches, agent);
            format!("Available hooks for this project:\n{list}{usage}")
        }
    }
}

/// Each hook with its state, the enabled ones too.
fn status(hooks: &[&Hook], switches: &Switches, agent: Option<&str>) -> String {
    if hooks.is_empty() {
        return nothing_configured();
    }
    let list = lines(hooks, |hook| Some(state(hook, switches, agent)));
    let list = list.trim_end();
    format!("Hooks for this project, in this session:\n{list}")
}

/// Each hook on a line, with its state if it does not run.
fn list(hooks: &[&Hook], switches: &Switches, agent: Option<&str>) -> String {
    lines(hooks, |hook| {
        Some(state(hook, switches, agent)).filter(|state| *state != State::Enabled)
    })
}

fn lines(hooks: &[&Hook], shown: impl Fn(&Hook) -> Option<State>) -> String {
    let longest = hooks.iter().map(|hook| hook.name.chars().count()).max();
    let width = longest.unwrap_or(0).max(NAME);
    let mut text = String::new();
    for hook in hooks {
        let description = one_line(&hook.description);
        let _ = write!(text, "  {:width$} - {description}", hook.name);
        if let Some(state) = shown(hook) {
            let _ = write!(text, " ({state})");
        }
        text.push('\n');
    }
    text
}

/// What was typed, as far as it is fit to be said again.
fn said(typed: &str) -> String {
    let typed = one_line(typed);
    match typed.char_indices().nth(TYPED) {
        Some((end, _)) => format!("{}…", &typed[..end]),
        None => typed,
    }
}

/// A description may come from a foreign project, and a path have any character: what a terminal would obey or
/// not show goes.
fn one_line(text: &str) -> String {
    text.replace(is_hidden, " ").trim().to_owned()
}

#[cfg(test)]
mod tests;
