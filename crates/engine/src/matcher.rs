//! Matches events with hooks: Claude Code's matcher language, and paths. Pure.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

use becket_wire::event::EventName;
use becket_wire::{Head, json};
use globset::{GlobBuilder, GlobMatcher};
use regex::bytes::{Regex, RegexBuilder};
use serde_json::value::RawValue;

use crate::hooks::Hook;

/// A matcher as Claude Code reads it: a list of plain words, or else a regular expression. Empty or `*` matches
/// everything.
#[derive(Debug, Clone, Default)]
pub struct Matcher(Rule);

#[derive(Debug, Clone, Default)]
enum Rule {
    #[default]
    All,
    Words(Vec<String>),
    Pattern(Regex),
}

/// Tools that Claude Code has renamed, with the new name. A matcher with the old name matches too.
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

/// Tools of Claude Code that users name in matchers. There are others.
const TOOLS: &[&str] = &[
    "Agent",
    "AskUserQuestion",
    "Bash",
    "Edit",
    "EnterPlanMode",
    "ExitPlanMode",
    "Glob",
    "Grep",
    "LSP",
    "Monitor",
    "MultiEdit",
    "NotebookEdit",
    "Read",
    "SendMessage",
    "Skill",
    "Task",
    "TaskCreate",
    "TaskOutput",
    "TaskStop",
    "TaskUpdate",
    "TodoWrite",
    "ToolSearch",
    "WebFetch",
    "WebSearch",
    "Write",
];

impl Matcher {
    /// Reads a matcher. A regular expression that only JavaScript knows (look-around, for example) or that only
    /// becket knows (`(?i)`) is an error.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() || text == "*" {
            return Ok(Self(Rule::All));
        }
        if !text.chars().all(is_plain) {
            return pattern(text).map(|pattern| Self(Rule::Pattern(pattern)));
        }
        let words = text.split(['|', ',']).map(str::trim);
        let words: Vec<String> = (words.filter(|word| !word.is_empty()))
            .map(str::to_owned)
            .collect();
        if words.is_empty() {
            return Err(format!(
                "\"{text}\" matches nothing (for everything, write \"*\")"
            ));
        }
        Ok(Self(Rule::Words(words)))
    }

    /// Returns a word that matches no tool because of its upper or lower case, and the tool that it must mean:
    /// `bash` never matches `Bash`.
    pub fn miswritten(text: &str) -> Option<(String, &'static str)> {
        match Self::parse(text).ok()?.0 {
            Rule::All => None,
            Rule::Words(words) => words.into_iter().find_map(|word| {
                let mut tools = TOOLS.iter().copied();
                let tool = tools.find(|tool| tool.eq_ignore_ascii_case(&word))?;
                (tool != word).then_some((word, tool))
            }),
            Rule::Pattern(pattern) => {
                let small = Self::parse(&text.to_lowercase()).ok()?;
                if TOOLS.iter().any(|tool| pattern.is_match(tool.as_bytes())) {
                    return None;
                }
                let mut tools = TOOLS.iter().copied();
                let meant = tools.find(|tool| small.matches(&tool.to_lowercase()))?;
                Some((text.to_owned(), meant))
            }
        }
    }

    /// Returns true if it matches everything.
    pub fn is_all(&self) -> bool {
        matches!(self.0, Rule::All)
    }

    /// Returns true if it matches a value, or the old name of a renamed tool.
    pub fn matches(&self, value: &str) -> bool {
        let mut renamed = RENAMED.iter().filter(|(_, new)| *new == value);
        self.matches_name(value) || renamed.any(|(old, _)| self.matches_name(old))
    }

    fn matches_name(&self, name: &str) -> bool {
        match &self.0 {
            Rule::All => true,
            Rule::Words(words) => words.iter().any(|word| word == name),
            Rule::Pattern(pattern) => pattern.is_match(name.as_bytes()),
        }
    }
}
fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_|, -".contains(c)
}

fn pattern(text: &str) -> Result<Regex, String> {
    let mut groups = text.match_indices("(?").map(|(at, _)| &text[at + 2..]);
    if groups.any(|rest| !rest.starts_with([':', '<', '=', '!'])) {
        return Err(not_usable(text, "flags like (?i) are not supported"));
    }
    // As in JavaScript `\d` and `\w` are ASCII. A class with other letters in it needs Unicode.
    let ascii = RegexBuilder::new(text).unicode(false).build();
    let regex = ascii.or_else(|_| RegexBuilder::new(text).build());
    regex.map_err(|error| {
        let whole = error.to_string();
        let why = whole.lines().last().unwrap_or_default();
        not_usable(text, why.trim_start_matches("error: "))
    })
}

fn not_usable(text: &str, why: &str) -> String {
    format!("\"{text}\" is not a regular expression that becket can read: {why}")
}

/// Returns true if a hook matches an event: it names the event, its `tools` match the word that Claude Code would
/// compare, and its `paths` match a file of the event. With `paths`, a hook never matches an event without a file.
/// The switches of the hook are not checked.
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

/// Globs for the files of an event; `!` excludes. An empty list matches every event.
///
/// Globs are relative to the project. One with a `/` only at its end, or none, matches at any depth. A folder
/// means all files in it. The last glob that matches decides. If all begin with `!`, every other file matches. A
/// file outside of the project never matches.
#[derive(Debug, Clone, Default)]
pub struct Paths(Vec<PathRule>);

#[derive(Debug, Clone)]
struct PathRule {
    itself: GlobMatcher,
    below: GlobMatcher,
    /// True for `dir/`, which means the files in it, and not a file of that name.
    only_below: bool,
    takes: bool,
}

impl Paths {
    pub fn parse(globs: &[String]) -> Result<Self, String> {
        let rules: Result<_, _> = globs.iter().map(|glob| rule(glob)).collect();
        rules.map(Self)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if a file matches. Symlinks are not followed; `..` is resolved in the text.
    pub fn matches(&self, file: &Path, project: &Path) -> bool {
        let (file, project) = (normalized(file), normalized(project));
        let Ok(file) = file.strip_prefix(&project) else {
            return false;
        };
        match self.0.iter().rev().find(|rule| rule.matches(file)) {
            Some(rule) => rule.takes,
            None => self.0.iter().all(|rule| !rule.takes),
        }
    }
}

impl PathRule {
    fn matches(&self, file: &Path) -> bool {
        !self.only_below && self.itself.is_match(file) || self.below.is_match(file)
    }
}

fn rule(glob: &str) -> Result<PathRule, String> {
    let (takes, pattern) = match glob.strip_prefix('!') {
        Some(rest) => (false, rest),
        None => (true, glob),
    };
    let only_below = pattern.ends_with('/');
    let pattern = pattern.trim_end_matches('/');
    let rooted = pattern.strip_prefix("./").or(pattern.strip_prefix('/'));
    let pattern = match rooted {
        Some(rest) => rest.to_owned(),
        None if pattern.contains('/') => pattern.to_owned(),
        None => format!("**/{pattern}"),
    };
    if pattern.is_empty() || pattern == "**/" {
        return Err(format!("the path \"{glob}\" names nothing"));
    }
    Ok(PathRule {
        itself: compile(glob, &pattern)?,
        below: compile(glob, &format!("{pattern}/**"))?,
        only_below,
        takes,
    })
}

fn compile(glob: &str, pattern: &str) -> Result<GlobMatcher, String> {
    let built = GlobBuilder::new(pattern).literal_separator(true).build();
    let built = built.map_err(|error| format!("the path \"{glob}\": {}", error.kind()))?;
    Ok(built.compile_matcher())
}

/// Resolves `.` and `..` in the text of a path.
pub(crate) fn normalized(path: &Path) -> PathBuf {
    let mut normalized = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(normalized.pop()),
            part => normalized.push(part),
        }
    }
    normalized
}

/// The fields of a tool input that name a file.
const FILES: [&str; 3] = ["file_path", "notebook_path", "path"];

type Object = HashMap<String, Box<RawValue>>;

/// An event, as matchers see it. Each part is read once, for any number of hooks.
#[derive(Debug)]
pub struct Subject<'a> {
    event: &'a EventName,
    head: &'a Head<'a>,
    payload: &'a [u8],
    files: OnceCell<Vec<PathBuf>>,
    calls: OnceCell<Vec<BatchCall>>,
}

/// One call of a batch.
#[derive(Debug)]
struct BatchCall {
    tool: String,
    files: Vec<PathBuf>,
}

impl<'a> Subject<'a> {
    pub fn new(event: &'a EventName, head: &'a Head<'a>, payload: &'a [u8]) -> Self {
        Self {
            event,
            head,
            payload,
            files: OnceCell::new(),
            calls: OnceCell::new(),
        }
    }

    /// Returns true if a hook matches this event: see [`concerns`].
    pub fn concerns(&self, hook: &Hook, project: &Path) -> bool {
        if !hook.on.contains(self.event) {
            return false;
        }
        if hook.tools.is_all() && hook.paths.is_empty() {
            return true;
        }
        // For a batch Claude Code compares nothing. A hook that checks changes wants each batch with a call
        // that matches.
        if *self.event == EventName::PostToolBatch {
            return self.calls().iter().any(|call| {
                hook.tools.matches(&call.tool) && names_file(hook, &call.files, project)
            });
        }
        let has_matcher = !hook.tools.is_all() && self.event.has_matcher();
        if has_matcher && !self.word().is_some_and(|word| hook.tools.matches(&word)) {
            return false;
        }
        hook.paths.is_empty() || names_file(hook, self.files(), project)
    }

    /// Returns the files of the event, absolute if the event's cwd is: the files that the input of a tool call
    /// names, the file of FileChanged and the like, and the files of all calls of a batch.
    pub fn files(&self) -> &[PathBuf] {
        self.files.get_or_init(|| match self.event {
            EventName::FileChanged | EventName::InstructionsLoaded | EventName::ConfigChange => {
                self.files_in(&self.top(), &["file_path"])
            }
            EventName::PostToolBatch => {
                let calls = self.calls().iter();
                calls.flat_map(|call| call.files.clone()).collect()
            }
            _ => {
                let input = self.head.tool_input.and_then(object);
                self.files_in(&input.unwrap_or_default(), &FILES)
            }
        })
    }

    /// Returns the word that Claude Code compares with matchers.
    fn word(&self) -> Option<Cow<'_, str>> {
        let head = self.head;
        let known = match self.event.matcher_field()? {
            "tool_name" => &head.tool,
            "source" => &head.source,
            "reason" => &head.reason,
            "notification_type" => &head.notification_type,
            "trigger" => &head.trigger,
            "error" => &head.error,
            "agent_type" => &head.agent_type,
            "mcp_server_name" => &head.mcp_server_name,
            "to_model" => &head.to_model,
            field => {
                let word = text(self.top().get(field)?)?;
                let file = Path::new(&word).file_name().and_then(OsStr::to_str);
                return match self.event {
                    EventName::FileChanged => Some(Cow::Owned(file?.to_owned())),
                    _ => Some(Cow::Owned(word)),
                };
            }
        };
        known.as_deref().map(Cow::Borrowed)
    }

    fn calls(&self) -> &[BatchCall] {
        self.calls.get_or_init(|| {
            let top = self.top();
            let calls = top.get("tool_calls").map(|calls| calls.get());
            let calls: Vec<&RawValue> = calls
                .and_then(|calls| serde_json::from_str(calls).ok())
                .unwrap_or_default();
            let calls = calls.into_iter();
            calls.filter_map(|call| self.call(call)).collect()
        })
    }

    fn call(&self, call: &RawValue) -> Option<BatchCall> {
        let call = object(call.get())?;
        let input = call.get("tool_input").and_then(|input| object(input.get()));
        Some(BatchCall {
            tool: call
                .get("tool_name")
                .and_then(|name| text(name))
                .unwrap_or_default(),
            files: self.files_in(&input.unwrap_or_default(), &FILES),
        })
    }

    fn files_in(&self, object: &Object, fields: &[&str]) -> Vec<PathBuf> {
        let cwd = Path::new(self.head.cwd.as_deref().unwrap_or_default());
        let files = fields.iter().filter_map(|field| text(object.get(*field)?));
        (files.filter(|file| !file.is_empty()))
            .map(|file| cwd.join(file))
            .collect()
    }

    fn top(&self) -> Object {
        let payload = std::str::from_utf8(self.payload).ok();
        payload.and_then(object).unwrap_or_default()
    }
}

/// Returns true if one of the files matches the hook's `paths`, or the hook has none.
fn names_file(hook: &Hook, files: &[PathBuf], project: &Path) -> bool {
    hook.paths.is_empty() || files.iter().any(|file| hook.paths.matches(file, project))
}

fn object(json: &str) -> Option<Object> {
    json::lenient(json).ok()
}

fn text(json: &RawValue) -> Option<String> {
    json::lenient(json.get()).ok()
}
