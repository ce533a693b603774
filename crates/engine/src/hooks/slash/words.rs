//! What the switch says: the lines of the seed, word for word, and in their voice what it lacks.

use std::fmt::Write;
use std::path::Path;

use super::Verb;
use crate::config::Origin;
use crate::hooks::Hook;
use crate::hooks::switch::{State, SwitchError, Switches, state};

/// Names are padded to so many columns, longer ones to the longest.
const NAME: usize = 20;
/// So much of what was typed is said again.
const TYPED: usize = 80;

pub fn disabled(hook: &str) -> String {
    format!("🔒 Disabled {hook} for this session")
}

pub fn enabled(hook: &str) -> String {
    format!("✅ Re-enabled {hook} for this session")
}

pub fn already_disabled(hook: &str) -> String {
    format!("⚠️  Hook '{hook}' is already disabled for this session")
}

pub fn not_disabled(hook: &str) -> String {
    format!("ℹ️  Hook '{hook}' is not currently disabled for this session")
}

pub fn off_in_config(hook: &str, origin: &Origin) -> String {
    format!("⚠️  Hook '{hook}' is off in the configuration, for every session: {origin}")
}

pub fn managed(hook: &str, origin: &Origin) -> String {
    format!("⚠️  Hook '{hook}' is managed on this machine, and no session switches it: {origin}")
}

pub fn not_trusted() -> String {
    "⚠️  It does not run anyway: this project is not trusted (becket trust)".to_owned()
}

pub fn set_aside(file: &Path) -> String {
    let file = file.display();
    format!("⚠️  The switches of this session were damaged and count as empty: set aside as {file}")
}

pub fn trouble(error: &SwitchError) -> String {
    format!("⚠️  The switches of this session count as empty: {error}")
}

pub fn nothing_configured() -> String {
    "No hooks are configured for this project".to_owned()
}

pub fn several(verb: Verb, typed: &str, names: &[&str]) -> String {
    let mut text = format!("🤔 Multiple hooks match '{}':\n", said(typed));
    for name in names {
        // Writing into a String does not fail.
        let _ = writeln!(text, "  - {name}");
    }
    text + &format!("Be more specific: /hook:{} [exact-name]", verb.word())
}

pub fn no_match(verb: Verb, typed: &str, nearest: Option<&str>, list: &str) -> String {
    let typed = said(typed);
    let mut text = format!("❌ No hook found matching '{typed}'\n");
    if let Some(nearest) = nearest {
        let _ = writeln!(text, "Did you mean '{nearest}'?");
    }
    if list.is_empty() {
        return text + &nothing_configured();
    }
    let verb = verb.word();
    text + &format!(
        "Available hooks for this project:\n{list}Try: /hook:{verb} [exact-name-from-above]"
    )
}

pub fn usage(verb: Verb, hooks: &[&Hook], switches: &Switches, agent: Option<&str>) -> String {
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
pub fn status(hooks: &[&Hook], switches: &Switches, agent: Option<&str>) -> String {
    if hooks.is_empty() {
        return nothing_configured();
    }
    let list = lines(hooks, |hook| Some(state(hook, switches, agent)));
    let list = list.trim_end();
    format!("Hooks for this project, in this session:\n{list}")
}

/// Each hook on a line, with its state if it does not run.
pub fn list(hooks: &[&Hook], switches: &Switches, agent: Option<&str>) -> String {
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

/// A description may be a stranger's: nothing in it moves the cursor or turns the writing round.
fn one_line(text: &str) -> String {
    let turns = |c: char| matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let inert = text.replace(|c: char| c.is_control() || turns(c), " ");
    inert.trim().to_owned()
}
