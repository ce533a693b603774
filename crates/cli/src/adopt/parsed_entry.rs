//! Translates one entry of a settings file into becket's terms, or says why becket cannot run it.

use std::time::Duration;

use becket_engine::matcher::Matcher;
use becket_engine::process::Program;
use becket_wire::event::EventName;
use serde_json::{Map, Value};

use crate::settings::ForeignEntry;

/// An entry in becket's terms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParsedEntry {
    pub event: String,
    /// The matcher. `None` matches everything.
    pub tools: Option<String>,
    pub program: Program,
    /// The time limit. `None` is as long as Claude Code waits.
    pub timeout: Option<Duration>,
    pub is_async: bool,
    /// The differences after the adoption.
    pub notes: Vec<&'static str>,
}

/// The time by which a hook has to end before Claude Code gives up on becket. A longer time limit is
/// the same as none.
const SPARE: Duration = Duration::from_secs(2);

const KNOWN_FIELDS: [&str; 11] = [
    "type",
    "command",
    "args",
    "timeout",
    "async",
    "asyncRewake",
    "shell",
    "if",
    "once",
    "onFailure",
    "statusMessage",
];

impl ParsedEntry {
    /// Parses an entry. The error is the reason why becket cannot run it.
    pub fn parse(entry: &ForeignEntry) -> Result<Self, String> {
        let fields = entry.value.as_object().ok_or("it is not an object")?;
        let event = EventName::from(&*entry.event);
        check_fields(fields)?;
        let command = text(fields, "command")?.unwrap_or_default();
        if command.trim().is_empty() {
            return Err("it has no command".to_owned());
        }
        let mut notes = Vec::new();
        if fields.contains_key("once") {
            notes.push("`once` means nothing in settings, and is dropped");
        }
        if fields.contains_key("statusMessage") {
            notes.push("its `statusMessage` is dropped");
        }
        let is_async = flag(fields, "async")?;
        if is_async {
            notes.push("asynchronous: what it prints does not reach Claude");
        }
        Ok(Self {
            tools: tools(entry, &event)?,
            program: program(fields, command)?,
            timeout: timeout(fields, &event)?,
            is_async,
            notes,
            event: entry.event.clone(),
        })
    }
}

/// Returns an error if a field asks for more than becket does.
fn check_fields(fields: &Map<String, Value>) -> Result<(), String> {
    match text(fields, "type")? {
        Some("command") => {}
        Some(kind @ ("http" | "mcp_tool" | "prompt" | "agent")) => {
            return Err(format!("type {kind}: becket runs commands only"));
        }
        _ => return Err("it has no type that Claude Code knows".to_owned()),
    }
    if let Some(name) = fields.keys().find(|name| !KNOWN_FIELDS.contains(&&***name)) {
        return Err(format!("becket does not know its field `{name}`"));
    }
    if fields.contains_key("if") {
        return Err("`if` has no counterpart".to_owned());
    }
    if flag(fields, "asyncRewake")? {
        return Err("`asyncRewake` has no counterpart".to_owned());
    }
    match text(fields, "onFailure")? {
        None | Some("continue") => Ok(()),
        Some(_) => Err("`onFailure` has no counterpart".to_owned()),
    }
}

fn tools(entry: &ForeignEntry, event: &EventName) -> Result<Option<String>, String> {
    let tools = match &entry.matcher {
        None => return Ok(None),
        Some(Value::String(tools)) => tools,
        Some(_) => return Err("its matcher is not a string".to_owned()),
    };
    // Claude Code reads no matcher on such an event.
    if !event.has_matcher() || matches!(&**tools, "" | "*") {
        return Ok(None);
    }
    Matcher::parse(tools).map_err(|why| format!("its matcher: {why}"))?;
    Ok(Some(tools.clone()))
}

/// Returns true if a matcher is a list of names and not a regular expression.
fn is_name_list(tools: &str) -> bool {
    let mut characters = tools.chars();
    characters.all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '|' | ',' | ' '))
}

/// Returns a matcher for everything that one of two matchers takes.
pub fn union(one: Option<&str>, other: Option<&str>) -> Option<String> {
    let (one, other) = (one?, other?);
    if one == other {
        return Some(one.to_owned());
    }
    if is_name_list(one) && is_name_list(other) {
        let mut all = tool_names(one);
        for name in tool_names(other) {
            if !all.contains(&name) {
                all.push(name);
            }
        }
        return Some(all.join("|"));
    }
    Some(format!("{}|{}", expression(one), expression(other)))
}

fn tool_names(tools: &str) -> Vec<&str> {
    let names = tools.split(['|', ',']).map(str::trim);
    names.filter(|name| !name.is_empty()).collect()
}

/// Returns a matcher as a regular expression that can be part of another one.
fn expression(tools: &str) -> String {
    if is_name_list(tools) {
        format!("^(?:{})$", tool_names(tools).join("|"))
    } else {
        format!("(?:{tools})")
    }
}

fn program(fields: &Map<String, Value>, command: &str) -> Result<Program, String> {
    let shell = text(fields, "shell")?;
    let Some(args) = fields.get("args") else {
        let words = ["bash", "-c", command].map(str::to_owned);
        return match shell {
            None => Ok(Program::Shell(command.to_owned())),
            Some("bash") => Ok(Program::List(words.into())),
            Some(shell) => Err(format!("becket does not run the shell `{shell}`")),
        };
    };
    let args = args.as_array().map(|args| args.iter().map(Value::as_str));
    let args: Option<Vec<&str>> = args.and_then(Iterator::collect);
    let args = args.ok_or("its `args` are not a list of strings")?;
    let words = std::iter::once(command).chain(args).map(str::to_owned);
    let program = Program::List(words.collect());
    match program.unexpanded() {
        Some(word) => Err(format!("`{word}` in its `args` is not expanded")),
        None => Ok(program),
    }
}

fn timeout(fields: &Map<String, Value>, event: &EventName) -> Result<Option<Duration>, String> {
    let Some(timeout) = fields.get("timeout") else {
        return Ok(None);
    };
    let seconds = timeout.as_f64().filter(|seconds| *seconds > 0.0);
    let seconds = seconds.ok_or("its `timeout` is not a number of seconds")?;
    let waits = match event {
        EventName::UserPromptSubmit => 60,
        EventName::SessionEnd => 10,
        _ => 600,
    };
    let longest = Duration::from_secs(waits) - SPARE;
    let time = Duration::from_secs_f64(seconds.min(longest.as_secs_f64()));
    // The config counts in milliseconds.
    let time = Duration::from_millis(u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
    Ok((time < longest).then(|| time.max(Duration::from_millis(1))))
}

fn text<'a>(fields: &'a Map<String, Value>, key: &str) -> Result<Option<&'a str>, String> {
    match fields.get(key) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(format!("its `{key}` is not a string")),
    }
}

fn flag(fields: &Map<String, Value>, key: &str) -> Result<bool, String> {
    match fields.get(key) {
        None => Ok(false),
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(_) => Err(format!("its `{key}` is neither true nor false")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(event: &str, matcher: Option<Value>, value: Value) -> Result<ParsedEntry, String> {
        ParsedEntry::parse(&ForeignEntry {
            event: event.to_owned(),
            matcher,
            text: value.to_string(),
            value,
        })
    }

    fn plain(event: &str, more: &Value) -> Result<ParsedEntry, String> {
        let mut value = json!({"type": "command", "command": "x"});
        for (key, field) in more.as_object().into_iter().flatten() {
            value[key] = field.clone();
        }
        read(event, None, value)
    }

    #[test]
    fn an_unsupported_field_is_named() {
        let why = |more: Value| plain("Stop", &more).unwrap_err();
        insta::assert_snapshot!(
            [
                json!({"type": "http"}),
                json!({"type": "prompt"}),
                json!({"type": "new"}),
                json!({"type": 1}),
                json!({"command": " "}),
                json!({"command": 7}),
                json!({"if": "Bash(git *)"}),
                json!({"asyncRewake": true}),
                json!({"onFailure": "block"}),
                json!({"shell": "powershell"}),
                json!({"args": "x"}),
                json!({"args": ["x", 1]}),
                json!({"timeout": "30"}),
                json!({"timeout": 0}),
                json!({"async": "yes"}),
                json!({"model": "x"}),
            ]
            .map(why)
            .join("\n"),
            @"
        type http: becket runs commands only
        type prompt: becket runs commands only
        it has no type that Claude Code knows
        its `type` is not a string
        it has no command
        its `command` is not a string
        `if` has no counterpart
        `asyncRewake` has no counterpart
        `onFailure` has no counterpart
        becket does not run the shell `powershell`
        its `args` are not a list of strings
        its `args` are not a list of strings
        its `timeout` is not a number of seconds
        its `timeout` is not a number of seconds
        its `async` is neither true nor false
        becket does not know its field `model`
        "
        );
        let matched = |matcher: Value| {
            read(
                "PreToolUse",
                Some(matcher),
                json!({"type": "command", "command": "x"}),
            )
        };
        assert!(matched(json!(["Bash"])).is_err());
        assert!(matched(json!("^(?!Bash)")).is_err());
        assert!(matched(json!(r"(a)\1")).is_err());
        assert_eq!(
            matched(json!("Bash|mcp__.*")).unwrap().tools.unwrap(),
            "Bash|mcp__.*"
        );
    }

    #[test]
    fn a_meaningless_field_is_dropped_with_a_note() {
        let more =
            json!({"once": true, "statusMessage": "…", "async": true, "onFailure": "continue"});
        let parsed = plain("Stop", &more).unwrap();
        assert!(parsed.is_async);
        assert_eq!(parsed.notes.len(), 3);
        let matcher = Some(json!("Bash"));
        let value = json!({"type": "command", "command": "x"});
        let parsed = read("Stop", matcher, value).unwrap();
        assert_eq!(parsed.tools, None, "Claude Code reads no matcher on Stop");
    }

    #[test]
    fn programs_and_timeouts_are_those_of_claude_code() {
        let list = |words: &[&str]| Program::List(words.iter().map(ToString::to_string).collect());
        let program = |more: Value| plain("Stop", &more).unwrap().program;
        assert_eq!(program(json!({})), Program::Shell("x".to_owned()));
        assert_eq!(program(json!({"args": ["a b"]})), list(&["x", "a b"]));
        assert_eq!(program(json!({"args": []})), list(&["x"]));
        assert_eq!(
            program(json!({"shell": "bash"})),
            list(&["bash", "-c", "x"])
        );
        let home = plain("Stop", &json!({"args": ["~/x"]})).unwrap_err();
        assert_eq!(home, "`~/x` in its `args` is not expanded");
        let time = |event: &str, more: Value| {
            let timeout = plain(event, &more).unwrap().timeout;
            timeout.map(|timeout| timeout.as_millis())
        };
        assert_eq!(time("Stop", json!({})), None);
        assert_eq!(time("Stop", json!({"timeout": 597})), Some(597_000));
        assert_eq!(time("Stop", json!({"timeout": 600})), None);
        assert_eq!(time("UserPromptSubmit", json!({"timeout": 58})), None);
        assert_eq!(time("SessionEnd", json!({"timeout": 0.5})), Some(500));
        assert_eq!(time("Stop", json!({"timeout": 1e300})), None);
        assert_eq!(time("Stop", json!({"timeout": 1e-300})), Some(1));
    }

    #[test]
    fn the_union_of_two_matchers_takes_what_one_of_them_takes() {
        let both = |one: Option<&str>, other: Option<&str>| union(one, other);
        assert_eq!(both(None, Some("Bash")), None);
        assert_eq!(
            both(Some("Bash|Read"), Some("Read, Edit")).unwrap(),
            "Bash|Read|Edit"
        );
        assert_eq!(
            both(Some("Bash"), Some("mcp__.*")).unwrap(),
            "^(?:Bash)$|(?:mcp__.*)"
        );
    }
}
