//! What an agent does, asks or failed of, in words for a person: made of the masked payload, on one
//! line, and no longer than what is kept.

use std::collections::HashMap;

use becket_wire::json;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{COMPACTING, Moment, THINKING};

/// How much of a command, a path or a question is kept, in characters.
const MAX_WORDS: usize = 160;

/// A tool, the field of its input that says most, and what using it is called.
const DEEDS: [(&str, &str, &str, &str); 13] = [
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

/// One tool call in words.
#[derive(Debug)]
pub(super) struct Deed {
    wanted: &'static str,
    ongoing: &'static str,
    what: String,
}

impl Deed {
    /// None for a tool whose input is not known.
    pub(super) fn of(moment: &Moment<'_>) -> Option<Self> {
        let deed = DEEDS.iter().find(|deed| deed.0 == moment.tool())?;
        let what: String = json::lenient(field(moment, deed.1)?.get()).ok()?;
        // A path below the session's folder is known by the rest of it.
        let cwd = moment.head.cwd.as_deref().filter(|cwd| cwd.len() > 1);
        let below = cwd.and_then(|cwd| what.strip_prefix(cwd)?.strip_prefix('/'));
        let what = one_line(below.unwrap_or(&what));
        (!what.is_empty()).then_some(Self {
            wanted: deed.2,
            ongoing: deed.3,
            what,
        })
    }

    pub(super) fn ongoing(&self) -> String {
        format!("{}: {}", self.ongoing, self.what)
    }
}

fn field<'a>(moment: &Moment<'a>, name: &str) -> Option<&'a RawValue> {
    let input: HashMap<String, &RawValue> = serde_json::from_str(moment.head.tool_input?).ok()?;
    input.get(name).copied()
}

/// What an event asks the person, as far as it says it.
pub(super) fn question(moment: &Moment<'_>) -> Option<String> {
    #[derive(Deserialize)]
    struct Asked {
        question: String,
    }
    if let Some(server) = moment.server() {
        let message = one_line(moment.head.message.as_deref()?);
        return (!message.is_empty()).then(|| format!("{server} asks: {message}"));
    }
    if moment.tool() == "AskUserQuestion" {
        let asked: Vec<Asked> = serde_json::from_str(field(moment, "questions")?.get()).ok()?;
        let text = one_line(&asked.first()?.question);
        return (!text.is_empty()).then_some(text);
    }
    Deed::of(moment).map(|deed| format!("wants to {}: {}", deed.wanted, deed.what))
}

/// What an agent works at: a tool's or an agent's name stays, becket's own words are no names.
pub(super) fn detail(detail: &str) -> String {
    match detail {
        THINKING | COMPACTING => detail.to_lowercase(),
        name => name.to_owned(),
    }
}

/// Why a turn failed, by what Claude Code said of it, else by its word for the error.
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

/// The message of the API's own answer, where that is quoted.
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
