//! The slash commands `/hook:disable`, `/hook:enable` and `/hook:status`. `becket disable`, `enable` and
//! `hooks` do the same and print the same.

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
use super::switch::{self, HookState, Switches, state};
use crate::guard::rule::Rule;

/// The verb of a slash command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlashVerb {
    Disable,
    Enable,
    Status,
}

impl SlashVerb {
    pub const ALL: [Self; 3] = [Self::Disable, Self::Enable, Self::Status];

    pub fn word(self) -> &'static str {
        match self {
            Self::Disable => "disable",
            Self::Enable => "enable",
            Self::Status => "status",
        }
    }
}

/// A slash command of becket's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlashCommand {
    pub verb: SlashVerb,
    /// The text after the verb; empty if there is none.
    pub argument: String,
}

/// The argument that means all hooks.
pub const ALL: &str = "--all";

/// The prefix that Claude Code puts before the commands of the plugin.
const PLUGIN: &str = "becket:";

/// Returns the slash command of an event. It has to be the whole prompt, on one line, and typed by a user or
/// sent by their program: a prompt that a machine made up switches nothing.
pub fn parse(head: &Head<'_>, envelope: &Envelope) -> Option<SlashCommand> {
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
    let verb = SlashVerb::ALL
        .into_iter()
        .find(|verb| verb.word() == word)?;
    let argument = argument.to_owned();
    Some(SlashCommand { verb, argument })
}

/// Returns true for the first event of a prompt. Claude Code up to 2.1.260 sends the expansion, runs what the
/// command file names, and only then sends the prompt: by then the switch would be set already. Those versions
/// do not tell if a user attends.
fn comes_first(head: &Head<'_>, envelope: &Envelope) -> bool {
    match head.event.as_deref().map(EventName::from) {
        Some(EventName::UserPromptSubmit) => true,
        Some(EventName::UserPromptExpansion) => !envelope.knows_attended(),
        _ => false,
    }
}

/// The session, project and config that a slash command works on.
#[derive(Debug, Clone, Copy)]
pub struct SlashContext<'a> {
    pub place: &'a Place,
    pub session: &'a str,
    pub cwd: &'a Path,
    /// The type of the subagent that calls, if it is one.
    pub agent_type: Option<&'a str>,
    /// The hooks of this project's config, in its order.
    pub hooks: &'a [Arc<Hook>],
    /// The guards of this project's config, which no session switches.
    pub guards: &'a [Arc<Rule>],
}

/// The result of a slash command, as text for the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlashReply {
    /// The text without the last line end.
    pub lines: String,
    /// 0: done, or nothing to do. 1: it failed. 2: the name is ambiguous. 3: no hook has the name.
    pub exit: u8,
}

impl SlashReply {
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

/// Runs a slash command. It may wait for a lock, and writes a file.
pub fn act(verb: SlashVerb, argument: &str, context: &SlashContext<'_>) -> SlashReply {
    if argument == ALL && verb != SlashVerb::Status && !context.hooks.is_empty() {
        let hooks = context.hooks.iter();
        return join_replies(hooks.map(|hook| switch_hook(verb, hook, context)));
    }
    let words = distinct(name::words(argument), context);
    if let [] | [_] = words[..] {
        return act_on_name(verb, words.first().unwrap_or(&""), context);
    }
    // Words of which none is a name are read as one name.
    if !words.iter().any(|word| is_known(word, context)) {
        return act_on_name(verb, argument.trim(), context);
    }
    let (clear, unclear): (Vec<&str>, Vec<&str>) =
        words.iter().partition(|word| is_clear(verb, word, context));
    // Either all of them are clear, or nothing is done.
    let meant = if unclear.is_empty() { &clear } else { &unclear };
    let reply = join_replies(meant.iter().map(|word| act_on_name(verb, word, context)));
    reply.and((!unclear.is_empty()).then(|| NOTHING_CHANGED.to_owned()))
}

fn join_replies(replies: impl Iterator<Item = SlashReply>) -> SlashReply {
    let replies: Vec<SlashReply> = replies.collect();
    let lines: Vec<&str> = replies.iter().map(|reply| &*reply.lines).collect();
    let exit = replies.iter().map(|reply| reply.exit).max().unwrap_or(0);
    SlashReply::new(lines.join("\n"), exit)
}

/// Drops words that mean a hook which an earlier word means already.
fn distinct<'w>(words: Vec<&'w str>, context: &SlashContext<'_>) -> Vec<&'w str> {
    let mut taken = HashSet::new();
    words
        .into_iter()
        .filter(|word| match name::find(word, names_of(context)) {
            Match::One(name) => taken.insert(name),
            _ => true,
        })
        .collect()
}

/// Returns true if a word can mean a hook, configured or built in, or a guard.
fn is_known(word: &str, context: &SlashContext<'_>) -> bool {
    let hooks = names_of(context).chain(BUILT_INS.iter().map(|hook| hook.name));
    !matches!(name::find(word, hooks), Match::None { .. }) || guard(word, context).is_some()
}

fn guard<'a>(typed: &str, context: &SlashContext<'a>) -> Option<&'a str> {
    let mut ids = context.guards.iter().map(|guard| &*guard.id);
    ids.find(|id| id.eq_ignore_ascii_case(typed))
}

/// Returns true if a word names one hook, or several that are only listed.
fn is_clear(verb: SlashVerb, word: &str, context: &SlashContext<'_>) -> bool {
    match name::find(word, names_of(context)) {
        Match::One(_) => true,
        Match::Several(_) => verb == SlashVerb::Status,
        Match::None { .. } => false,
    }
}

fn names_of<'a>(context: &SlashContext<'a>) -> impl Iterator<Item = &'a str> + use<'a> {
    context.hooks.iter().map(|hook| hook.name.as_str())
}

fn act_on_name(verb: SlashVerb, argument: &str, context: &SlashContext<'_>) -> SlashReply {
    let is_status = verb == SlashVerb::Status;
    let found = name::find(argument, names_of(context));
    let meant = match &found {
        Match::One(name) => vec![*name],
        Match::Several(names) if !is_status => {
            return SlashReply::new(several(verb, argument, names), 2);
        }
        Match::Several(names) => names.clone(),
        Match::None { .. } => {
            if let Some(guard) = guard(argument, context) {
                return SlashReply::new(is_guard(guard), 3);
            }
            names_of(context).collect()
        }
    };
    let hooks = context.hooks.iter();
    let hooks = hooks.filter(|hook| meant.contains(&&*hook.name));
    if matches!(found, Match::One(_)) && !is_status {
        return join_replies(hooks.map(|hook| switch_hook(verb, hook, context)));
    }
    // A damaged file is set aside, and the message says so.
    let aside = switch::set_aside(context.place, context.session);
    let trouble = match aside {
        Ok(aside) => aside.as_deref().map(set_aside),
        Err(error) => Some(format!(
            "⚠️  The switches of this session count as empty: {error}"
        )),
    };
    let read = Switches::read(context.place, context.session);
    let states = states(hooks, &read.switches, context.agent_type);
    let (lines, exit) = match found {
        Match::None { nearest } if !argument.is_empty() => {
            (no_match(verb, argument, nearest, &states), 3)
        }
        _ if is_status => (status(&states), 0),
        _ => (usage(verb, &states), 0),
    };
    SlashReply::new(lines, exit).and(trouble)
}

/// Switches a hook on or off.
fn switch_hook(verb: SlashVerb, hook: &Hook, context: &SlashContext<'_>) -> SlashReply {
    let name = &hook.name;
    if let Some(origin) = &hook.off {
        let origin = one_line(&origin.to_string());
        let line =
            format!("⚠️  Hook '{name}' is off in the configuration, for every session: {origin}");
        return SlashReply::new(line, 0);
    }
    if hook.managed {
        let origin = one_line(&hook.declared.to_string());
        let line = format!(
            "⚠️  Hook '{name}' is managed on this machine, and no session switches it: {origin}"
        );
        return SlashReply::new(line, 0);
    }
    let SlashContext {
        place,
        session,
        cwd,
        ..
    } = *context;
    let switched = match verb {
        SlashVerb::Enable => switch::enable(place, session, name, cwd),
        _ => switch::disable(place, session, name, cwd),
    };
    let switched = match switched {
        Ok(switched) => switched,
        Err(error) => {
            let line = format!("❌ Could not {} {name}: {error}", verb.word());
            return SlashReply::new(line, 1);
        }
    };
    let line = match (verb, switched.changed) {
        (SlashVerb::Enable, true) => format!("✅ Re-enabled {name} for this session"),
        (SlashVerb::Enable, false) => {
            format!("ℹ️  Hook '{name}' is not currently disabled for this session")
        }
        (_, true) => format!("🔒 Disabled {name} for this session"),
        (_, false) => format!("⚠️  Hook '{name}' is already disabled for this session"),
    };
    let untrusted = "⚠️  It does not run anyway: this project is not trusted (becket trust)";
    SlashReply::new(line, 0)
        .and(hook.untrusted.then(|| untrusted.to_owned()))
        .and(switched.set_aside.as_deref().map(set_aside))
}

/// Returns the hooks with their states, as lists show them.
pub fn states<'a>(
    hooks: impl IntoIterator<Item = &'a Arc<Hook>>,
    switches: &Switches,
    agent_type: Option<&str>,
) -> Vec<ListedHook<'a>> {
    let hooks = hooks.into_iter();
    hooks
        .map(|hook| (hook.as_ref(), state(hook, switches, agent_type)))
        .collect()
}

/// Returns the answer to the event of a slash command. It is a block without the original prompt: of what
/// Claude Code offers, only this shows the lines as they are and leaves nothing in the context, and no model is
/// asked. (`continue: false` puts "Operation stopped by hook:" before the first line; with a `systemMessage`
/// the prompt goes on to the model.)
pub fn answer(event: EventName, lines: &str) -> Answer {
    let mut answer = Answer::silent(event);
    let reason = lines.to_owned();
    let given = answer
        .give(Opinion::Block { reason })
        .and_then(|()| answer.change(Change::SuppressPrompt(true)));
    debug_assert_eq!(given, Ok(()));
    answer
}

type ListedHook<'a> = (&'a Hook, HookState);

/// The width of the column of names; longer names widen it.
const NAME_WIDTH: usize = 20;
/// The number of typed characters that a message repeats.
const LONGEST_TYPED: usize = 80;

fn is_guard(id: &str) -> String {
    format!(
        "⚠️  '{id}' is a guard: no session switches it. To let one call pass: becket allow CODE (becket hooks recent shows the code). To switch it off: [guards.{id}] with enabled = false in your config.toml"
    )
}

fn set_aside(file: &Path) -> String {
    let file = one_line(&file.to_string_lossy());
    format!("⚠️  The switches of this session were damaged and count as empty: set aside as {file}")
}

/// A note about the hooks that becket does not run.
const IN_SETTINGS: &str = "`becket hooks adopt` moves hooks from Claude Code's settings files to \
    becket, so that you can switch them.";

/// Returns the answer if no config names a hook.
pub fn nothing_configured() -> String {
    format!("No hooks are configured for this project. {IN_SETTINGS}")
}

const NOTHING_CHANGED: &str = "Nothing was changed.";

/// Returns a note about the built-in hooks that a name may mean if no configured hook has it.
fn built_in(typed: &str) -> Option<String> {
    let names = match name::find(typed, BUILT_INS.iter().map(|hook| hook.name)) {
        Match::One(name) => vec![name],
        Match::Several(names) => names,
        Match::None { .. } => return None,
    };
    let (is, they) = match &names[..] {
        [_] => ("is built in and off, so it does", "it"),
        _ => ("are built in and off, so they do", "one"),
    };
    Some(format!(
        "{} {is} not run. To switch {they} on, in a terminal: becket hooks on {}",
        names.join(" and "),
        names[0]
    ))
}

fn several(verb: SlashVerb, typed: &str, names: &[&str]) -> String {
    let mut text = format!("🤔 Multiple hooks match '{}':\n", shortened(typed));
    for name in names {
        // Writing into a String does not fail.
        let _ = writeln!(text, "  - {name}");
    }
    text + &format!("Be more specific: /hook:{} [exact-name]", verb.word())
}

fn no_match(
    verb: SlashVerb,
    typed: &str,
    nearest: Option<&str>,
    states: &[ListedHook<'_>],
) -> String {
    let typed = shortened(typed);
    let mut text = format!("❌ No hook found matching '{typed}'\n");
    let built_in = built_in(&typed);
    match (&built_in, nearest) {
        (Some(built_in), _) => text += &format!("{built_in}\n"),
        (None, Some(nearest)) => text += &format!("Did you mean '{nearest}'?\n"),
        (None, None) => {}
    }
    if states.is_empty() {
        return text + &nothing_configured();
    }
    let list = list(states, false);
    let verb = verb.word();
    text += &format!(
        "Available hooks for this project:\n{list}Try: /hook:{verb} [exact-name-from-above]"
    );
    // A name near to a configured hook is a typing error.
    if built_in.is_some() || nearest.is_none() {
        text += &format!("\n{IN_SETTINGS}");
    }
    text
}

fn usage(verb: SlashVerb, states: &[ListedHook<'_>]) -> String {
    let usage = format!("Usage: /hook:{} [hook-name-or-partial]", verb.word());
    if states.is_empty() {
        return format!("{}\n{usage}", nothing_configured());
    }
    let list = list(states, false);
    format!("Available hooks for this project:\n{list}{usage}")
}

fn status(states: &[ListedHook<'_>]) -> String {
    if states.is_empty() {
        return nothing_configured();
    }
    let list = list(states, true);
    format!(
        "Hooks for this project, in this session:\n{}",
        list.trim_end()
    )
}

/// Lists each hook on a line, with its state if it does not run or `with_enabled`.
fn list(states: &[ListedHook<'_>], with_enabled: bool) -> String {
    let names = states.iter().map(|(hook, _)| hook.name.chars().count());
    let width = names.max().unwrap_or(0).max(NAME_WIDTH);
    let mut text = String::new();
    for (hook, state) in states {
        let description = one_line(&hook.description);
        let _ = write!(text, "  {:width$} - {description}", hook.name);
        if with_enabled || *state != HookState::Enabled {
            let _ = write!(text, " ({state})");
        }
        text.push('\n');
    }
    text
}

/// Shortens typed text to repeat it in a message.
fn shortened(typed: &str) -> String {
    let typed = one_line(typed);
    match typed.char_indices().nth(LONGEST_TYPED) {
        Some((end, _)) => format!("{}…", &typed[..end]),
        None => typed,
    }
}

/// Replaces characters that a terminal would obey or not show. A description may come from a foreign project,
/// and a path may have any character.
fn one_line(text: &str) -> String {
    text.replace(is_hidden, " ").trim().to_owned()
}

#[cfg(test)]
mod tests;
