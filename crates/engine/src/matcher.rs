//! Which hooks an event concerns: Claude Code's matcher language, and paths. Pure.

mod paths;
mod subject;

use std::path::Path;

use becket_wire::Head;
use becket_wire::event::EventName;
use regex::bytes::{Regex, RegexBuilder};

use crate::hooks::Hook;
pub use paths::Paths;
pub use subject::Subject;

/// A matcher as Claude Code reads it: a list of plain words, else a regular expression; empty or
/// `*` is everything.
#[derive(Debug, Clone, Default)]
pub struct Matcher(Rule);

#[derive(Debug, Clone, Default)]
enum Rule {
    #[default]
    All,
    Words(Vec<String>),
    Pattern(Regex),
}

/// Tools that Claude Code has renamed. It lets the old name match too.
const RENAMED: &[(&str, &str)] = &[
    ("Task", "Agent"),
    ("KillShell", "TaskStop"),
    ("KillBash", "TaskStop"),
    ("ListPeers", "ListAgents"),
    ("Brief", "SendUserMessage"),
    ("ListMcpResources", "ListMcpResourcesTool"),
    ("ReadMcpResource", "ReadMcpResourceTool"),
    ("ReadMcpResourceDir", "ReadMcpResourceDirTool"),
];

impl Matcher {
    /// Reads a matcher. What JavaScript would take and becket cannot (look-around, say), and what it
    /// would not take (`(?i)`), is an error.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() || text == "*" {
            return Ok(Self(Rule::All));
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || "_|, -".contains(c);
        if !text.chars().all(plain) {
            return pattern(text).map(|pattern| Self(Rule::Pattern(pattern)));
        }
        let words = text.split(['|', ',']).map(str::trim);
        let words: Vec<String> = (words.filter(|word| !word.is_empty()))
            .map(str::to_owned)
            .collect();
        match words.is_empty() {
            true => Err(format!("\"{text}\" names nothing (for all, write \"*\")")),
            false => Ok(Self(Rule::Words(words))),
        }
    }

    /// Whether it takes everything.
    pub fn is_all(&self) -> bool {
        matches!(self.0, Rule::All)
    }

    pub fn matches(&self, value: &str) -> bool {
        let renamed = RENAMED.iter().filter(|(_, new)| *new == value);
        let mut names = std::iter::once(value).chain(renamed.map(|(old, _)| *old));
        match &self.0 {
            Rule::All => true,
            Rule::Words(words) => names.any(|name| words.iter().any(|word| word == name)),
            Rule::Pattern(pattern) => names.any(|name| pattern.is_match(name.as_bytes())),
        }
    }
}

fn pattern(text: &str) -> Result<Regex, String> {
    let not_usable = |why: &str| format!("\"{text}\" is no regular expression for becket: {why}");
    let mut groups = text.match_indices("(?").map(|(at, _)| &text[at + 2..]);
    if groups.any(|rest| !rest.starts_with([':', '<', '=', '!'])) {
        return Err(not_usable("flags like (?i) are not taken"));
    }
    // As in JavaScript `\d` and `\w` are ASCII. A class with other letters in it needs Unicode.
    let build = |unicode| RegexBuilder::new(text).unicode(unicode).build();
    build(false).or_else(|_| build(true)).map_err(|error| {
        let whole = error.to_string();
        let why = whole.lines().last().unwrap_or_default();
        not_usable(why.trim_start_matches("error: "))
    })
}

/// Whether the hook wants to hear of this event: it is one of those that it names, its `tools` match
/// what Claude Code would compare, and its `paths` a file that the event is about. With `paths`, a
/// hook hears of no event that names no file. Whether it is switched on is another question.
pub fn concerns(
    hook: &Hook,
    event: &EventName,
    head: &Head<'_>,
    payload: &[u8],
    project: &Path,
) -> bool {
    Subject::new(event, head, payload).concerns(hook, project)
}

#[cfg(test)]
mod tests;
