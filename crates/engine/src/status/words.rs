//! Words for the activity, question or failure of an agent, made from the masked payload: one line, no longer
//! than what is kept.

use std::collections::HashMap;

use becket_wire::json;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{COMPACTING, SessionEvent, THINKING};

/// The longest command, path or question, in characters.
const MAX_WORDS: usize = 160;

/// The tools, with the field of their input that tells most, and the verb for their use.
const TOOLS: [(&str, &str, &str, &str); 13] = [
    ("Bash", "command", "run", "running"),
    ("Monitor", "command", "run", "running"),
    ("Edit", "file_path", "edit", "editing"),
    ("MultiEdit", "file_path", "edit", "editing"),
    ("NotebookEdit", "notebook_path", "edit", "editing"),
    ("Write", "file_path", "write", "writing"),
    ("Read", "file_path", "read", "reading"),
    ("Grep", "pattern", "search for", "searching for"),
    ("Glob", "pattern", "find", "finding"),
    ("WebFetch", "url", "fetch", "fetching"),
    ("WebSearch", "query", "search for", "searching for"),
    ("Agent", "description", "start an agent", "agent"),
    ("Task", "description", "start an agent", "agent"),
];

/// Returns the words for a call that goes on.
pub(super) fn ongoing(event: &SessionEvent<'_>) -> Option<String> {
    let (_, field, _, ongoing) = TOOLS.iter().find(|tool| tool.0 == event.tool())?;
    Some(format!("{ongoing}: {}", subject(event, field)?))
}

/// Returns the subject of a call, from this field of its input.
fn subject(event: &SessionEvent<'_>, name: &str) -> Option<String> {
    let text: String = json::lenient(field(event, name)?.get()).ok()?;
    // A path in the session's folder is shown relative to it.
    let cwd = event.head.cwd.as_deref().filter(|cwd| cwd.len() > 1);
    let below = cwd.and_then(|cwd| text.strip_prefix(cwd)?.strip_prefix('/'));
    Some(one_line(below.unwrap_or(&text))).filter(|subject| !subject.is_empty())
}

fn field<'a>(event: &SessionEvent<'a>, name: &str) -> Option<&'a RawValue> {
    let input: HashMap<String, &RawValue> = serde_json::from_str(event.head.tool_input?).ok()?;
    input.get(name).copied()
}

/// Returns the question of an event to the user, if the payload has it.
pub(super) fn question(event: &SessionEvent<'_>) -> Option<String> {
    #[derive(Deserialize)]
    struct AskedQuestion {
        question: String,
    }
    if let Some(server) = event.server() {
        let message = one_line(event.head.message.as_deref()?);
        return (!message.is_empty()).then(|| format!("{server} asks: {message}"));
    }
    if event.tool() == "AskUserQuestion" {
        let asked: Vec<AskedQuestion> =
            serde_json::from_str(field(event, "questions")?.get()).ok()?;
        let text = one_line(&asked.first()?.question);
        return (!text.is_empty()).then_some(text);
    }
    let (_, field, wanted, _) = TOOLS.iter().find(|tool| tool.0 == event.tool())?;
    Some(format!("wants to {wanted}: {}", subject(event, field)?))
}

/// Returns the words for the detail of a working agent: the name of a tool or an agent stays, becket's own
/// words are in lower case.
pub(super) fn detail(detail: &str) -> String {
    match detail {
        THINKING | COMPACTING => detail.to_lowercase(),
        name => name.to_owned(),
    }
}

/// Returns the reason why a turn failed: Claude Code's message, else its word for the error.
pub(super) fn failure(error: &str, said: Option<&str>) -> String {
    let said = said.and_then(|said| said.lines().find(|line| !line.trim().is_empty()));
    let why = match said {
        Some(said) => one_line(&message_in(said).unwrap_or_else(|| said.to_owned())),
        None => error.replace('_', " "),
    };
    let why = match why.get(..10) {
        Some(start) if start.eq_ignore_ascii_case("API error:") => why[10..].trim(),
        _ => &why,
    };
    match why {
        "" | "unknown" => "API error".to_owned(),
        why => format!("API error: {why}"),
    }
}

/// Finds the message of the API's own answer, if it is quoted.
fn message_in(said: &str) -> Option<String> {
    let quoted: serde_json::Value = serde_json::from_str(&said[said.find('{')?..]).ok()?;
    Some(quoted["error"]["message"].as_str()?.to_owned())
}

pub(super) fn one_line(text: &str) -> String {
    let text = &text[..text.floor_char_boundary(8 * MAX_WORDS)];
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = words.join(" ");
    match line.char_indices().nth(MAX_WORDS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}
