//! Which hooks an event concerns: Claude Code's matcher language, and paths. Pure.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};

use becket_wire::event::EventName;
use becket_wire::{Head, json};
use globset::{GlobBuilder, GlobMatcher};
use regex::bytes::{Regex, RegexBuilder};
use serde_json::value::RawValue;

use crate::hooks::Hook;

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

/// Tools of Claude Code whose names people write into matchers. There are others.
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
            true => Err(format!(
                "\"{text}\" matches nothing (for everything, write \"*\")"
            )),
            false => Ok(Self(Rule::Words(words))),
        }
    }

    /// Returns a word that matches no tool because of its letters, and the tool that it must mean:
    /// `bash` is never `Bash`.
    pub fn miswritten(text: &str) -> Option<(String, &'static str)> {
        let tool = |matches: &dyn Fn(&str) -> bool| TOOLS.iter().copied().find(|it| matches(it));
        match Self::parse(text).ok()?.0 {
            Rule::All => None,
            Rule::Words(words) => words.into_iter().find_map(|word| {
                let tool = tool(&|tool| tool.eq_ignore_ascii_case(&word))?;
                (tool != word).then_some((word, tool))
            }),
            Rule::Pattern(pattern) => {
                let small = Self::parse(&text.to_lowercase()).ok()?;
                let is_one = tool(&|tool| pattern.is_match(tool.as_bytes())).is_some();
                let meant = tool(&|tool| small.matches(&tool.to_lowercase()));
                Some((text.to_owned(), meant.filter(|_| !is_one)?))
            }
        }
    }

    /// Whether it takes everything.
    pub fn is_all(&self) -> bool {
        matches!(self.0, Rule::All)
    }

    pub fn matches(&self, value: &str) -> bool {
        let is_one = |name: &str| match &self.0 {
            Rule::All => true,
            Rule::Words(words) => words.iter().any(|word| word == name),
            Rule::Pattern(pattern) => pattern.is_match(name.as_bytes()),
        };
        let is_renamed = |(old, new): &(&str, &str)| *new == value && is_one(old);
        is_one(value) || RENAMED.iter().any(is_renamed)
    }
}

fn pattern(text: &str) -> Result<Regex, String> {
    let not_usable =
        |why: &str| format!("\"{text}\" is not a regular expression that becket can read: {why}");
    let mut groups = text.match_indices("(?").map(|(at, _)| &text[at + 2..]);
    if groups.any(|rest| !rest.starts_with([':', '<', '=', '!'])) {
        return Err(not_usable("flags like (?i) are not supported"));
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

/// Globs over the files that an event is about; `!` takes away again. None means any event.
///
/// They are relative to the project. One without a `/` but at its end matches at any depth; a folder
/// stands for all that is in it; the last that matches wins. Where all begin with `!`, everything
/// else is taken. A file outside of the project is none of theirs.
#[derive(Debug, Clone, Default)]
pub struct Paths(Vec<PathRule>);

#[derive(Debug, Clone)]
struct PathRule {
    itself: GlobMatcher,
    below: GlobMatcher,
    /// `dir/` means what is in it, not a file of that name.
    only_below: bool,
    takes: bool,
}

impl Paths {
    pub fn parse(globs: &[String]) -> Result<Self, String> {
        globs
            .iter()
            .map(|glob| rule(glob))
            .collect::<Result<_, _>>()
            .map(Self)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the file is one of them. Symlinks are not followed; `..` is taken as it reads.
    pub fn matches(&self, file: &Path, project: &Path) -> bool {
        let (file, project) = (plain(file), plain(project));
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
    let build = |pattern: &str| {
        let built = GlobBuilder::new(pattern).literal_separator(true).build();
        let built = built.map_err(|error| format!("the path \"{glob}\": {}", error.kind()));
        built.map(|glob| glob.compile_matcher())
    };
    Ok(PathRule {
        itself: build(&pattern)?,
        below: build(&format!("{pattern}/**"))?,
        only_below,
        takes,
    })
}

/// Without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(plain.pop()),
            part => plain.push(part),
        }
    }
    plain
}

/// Where the input of a tool names a file.
const FILES: [&str; 3] = ["file_path", "notebook_path", "path"];

type Object = HashMap<String, Box<RawValue>>;

/// One event, as matchers see it. What has to be read for them is read once, for any number of
/// hooks.
#[derive(Debug)]
pub struct Subject<'a> {
    event: &'a EventName,
    head: &'a Head<'a>,
    payload: &'a [u8],
    word: OnceCell<Option<Cow<'a, str>>>,
    files: OnceCell<Vec<PathBuf>>,
    calls: OnceCell<Vec<Call>>,
}

/// One call of a batch.
#[derive(Debug)]
struct Call {
    tool: String,
    files: Vec<PathBuf>,
}

impl<'a> Subject<'a> {
    pub fn new(event: &'a EventName, head: &'a Head<'a>, payload: &'a [u8]) -> Self {
        Self {
            event,
            head,
            payload,
            word: OnceCell::new(),
            files: OnceCell::new(),
            calls: OnceCell::new(),
        }
    }

    /// See `matcher::concerns`.
    pub fn concerns(&self, hook: &Hook, project: &Path) -> bool {
        if !hook.on.contains(self.event) {
            return false;
        }
        if hook.tools.is_all() && hook.paths.is_empty() {
            return true;
        }
        let any_file = |files: &[PathBuf]| {
            let matches = |file: &PathBuf| hook.paths.matches(file, project);
            hook.paths.is_empty() || files.iter().any(matches)
        };
        // Claude Code compares nothing here. That one of the calls matches is more help to a hook
        // that checks what was changed.
        if *self.event == EventName::PostToolBatch {
            let mut calls = self.calls().iter();
            return calls.any(|call| hook.tools.matches(&call.tool) && any_file(&call.files));
        }
        let no_matcher = hook.tools.is_all() || !self.event.has_matcher();
        let matches = || self.word().is_some_and(|word| hook.tools.matches(word));
        (no_matcher || matches()) && (hook.paths.is_empty() || any_file(self.files()))
    }

    /// The files that the event is about, absolute as far as the event's cwd is: of a tool call
    /// those that its input names, of FileChanged and the like theirs, of a batch all.
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

    fn word(&self) -> Option<&str> {
        let word = self.word.get_or_init(|| {
            let field = self.event.matcher_field()?;
            let head = self.head;
            let known = match field {
                "tool_name" => &head.tool,
                "source" => &head.source,
                "reason" => &head.reason,
                "notification_type" => &head.notification_type,
                "trigger" => &head.trigger,
                "error" => &head.error,
                "agent_type" => &head.agent_type,
                "mcp_server_name" => &head.mcp_server_name,
                "to_model" => &head.to_model,
                _ => {
                    return self
                        .top()
                        .get(field)
                        .and_then(|value| text(value))
                        .map(Cow::Owned);
                }
            };
            known.as_deref().map(Cow::Borrowed)
        });
        let word = word.as_deref()?;
        match self.event {
            EventName::FileChanged => Path::new(word).file_name()?.to_str(),
            _ => Some(word),
        }
    }

    fn calls(&self) -> &[Call] {
        self.calls.get_or_init(|| {
            let top = self.top();
            let calls = top.get("tool_calls").map(|calls| calls.get());
            let calls: Vec<&RawValue> = calls
                .and_then(|calls| serde_json::from_str(calls).ok())
                .unwrap_or_default();
            calls
                .into_iter()
                .filter_map(|call| self.call(call))
                .collect()
        })
    }

    fn call(&self, call: &RawValue) -> Option<Call> {
        let call = object(call.get())?;
        let input = call.get("tool_input").and_then(|input| object(input.get()));
        Some(Call {
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

fn object(json: &str) -> Option<Object> {
    json::lenient(json).ok()
}

fn text(json: &RawValue) -> Option<String> {
    json::lenient(json.get()).ok()
}
