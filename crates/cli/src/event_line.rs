//! Prints an event as one line: for a person, as JSON, or the payload alone.

use std::io::{self, IsTerminal, Write};

use becket_wire::rpc::{DecisionRow, EventRow, Source};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::ui::style::{BAD, BOLD, DIM, WARN};
use crate::ui::text::{self, is_inert};
use crate::ui::time::{clock, timestamp};

/// The most characters of a name.
const NAME: usize = 64;
/// The most characters of the text that an event is about.
const ABOUT: usize = 200;
/// The number of characters of an event's id that a line shows: its millisecond. Two events rarely share it, and a
/// verb that gets such an id lists both.
const SHORT_ID: usize = "0199a1b2-c3d4".len();
/// The width of the column for event and tool.
const EVENT_AND_TOOL: usize = 20;
/// The least width of a line.
const NARROWEST: usize = 40;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineFormat {
    Person,
    Json,
    Raw,
}

/// Prints events in one format.
pub struct EventPrinter {
    format: LineFormat,
    out: Box<dyn Write>,
    now: jiff::Zoned,
    width: usize,
    /// True if an event was printed.
    any: bool,
    /// True if the query asked for a part of the log only.
    pub has_filter: bool,
}

impl EventPrinter {
    pub fn new(format: LineFormat) -> Self {
        let out: Box<dyn Write> = match format {
            LineFormat::Person => Box::new(anstream::AutoStream::auto(io::stdout())),
            LineFormat::Json | LineFormat::Raw => Box::new(io::BufWriter::new(io::stdout())),
        };
        Self {
            format,
            out,
            now: becket_engine::local_time::now(),
            width: width(),
            any: false,
            has_filter: false,
        }
    }

    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    pub fn print(&mut self, row: &EventRow) -> io::Result<()> {
        self.any = true;
        match self.format {
            LineFormat::Json => {
                let line = text::json(&json(row))?;
                writeln!(self.out, "{line}")
            }
            LineFormat::Raw => {
                self.out
                    .write_all(row.payload.as_deref().unwrap_or_default())?;
                self.out.write_all(b"\n")
            }
            LineFormat::Person => {
                let line = person(row, &self.now, self.width);
                writeln!(self.out, "{line}")
            }
        }
    }

    pub fn end(&mut self) -> io::Result<()> {
        if !self.any && self.format == LineFormat::Person {
            let nothing = if self.has_filter {
                "No event matches."
            } else {
                "No events yet. Start Claude Code, and its events appear here."
            };
            writeln!(self.out, "{nothing}")?;
        }
        self.out.flush()
    }
}

/// Returns the width of the terminal; a pipe has no limit. COLUMNS counts only if the terminal does not report its
/// width: an exported value may be that of another window.
pub fn width() -> usize {
    if !io::stdout().is_terminal() {
        return usize::MAX;
    }
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok();
    columns(
        size.map(|size| size.ws_col.into()),
        std::env::var("COLUMNS").ok().as_deref(),
    )
}

fn columns(terminal: Option<usize>, variable: Option<&str>) -> usize {
    let variable = variable.and_then(|columns| columns.parse().ok());
    let known = terminal.filter(|columns| *columns > 0).or(variable);
    known.unwrap_or(80).max(NARROWEST)
}

/// An event as JSON, with the fields in the order of the documentation.
#[derive(Serialize)]
struct EventJson<'a> {
    seq: i64,
    id: String,
    at: String,
    session_id: Option<&'a str>,
    agent_id: Option<&'a str>,
    event: Option<&'a str>,
    tool: Option<&'a str>,
    decision: Option<DecisionRow>,
    took_us: Option<i64>,
    source: Source,
    masked: i64,
    payload: Option<Box<RawValue>>,
    /// The payload if it is text and not JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    raw: Option<&'a str>,
    /// The payload in hex digits if it is not text.
    #[serde(skip_serializing_if = "Option::is_none")]
    raw_hex: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fault: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    duplicate_of: Option<i64>,
}

fn json(row: &EventRow) -> EventJson<'_> {
    let bytes = row.payload.as_deref();
    let text = bytes.and_then(|bytes| std::str::from_utf8(bytes).ok());
    let payload = text.and_then(one_line);
    let raw = text.filter(|_| payload.is_none());
    let raw_hex = bytes.filter(|_| text.is_none()).map(hex);
    EventJson {
        seq: row.seq,
        id: row.id.to_string(),
        at: timestamp(row.at),
        session_id: row.session_id.as_deref(),
        agent_id: row.agent_id.as_deref(),
        event: row.event.as_deref(),
        tool: row.tool.as_deref(),
        decision: row.decision.as_ref().map(DecisionRow::without_effort),
        took_us: row.took_us,
        source: row.source,
        masked: row.masked,
        payload,
        raw,
        raw_hex,
        fault: row.fault.as_deref(),
        duplicate_of: row.duplicate_of,
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns JSON unchanged, but on one line. A string in JSON holds no line break, so only layout is removed.
/// Returns none for text that is not JSON.
fn one_line(text: &str) -> Option<Box<RawValue>> {
    let line: String = text.chars().filter(|c| !matches!(c, '\n' | '\r')).collect();
    RawValue::from_string(line).ok()
}

/// Formats a decision: the answer, and the guard or hook that gave it.
pub fn decision(decision: &DecisionRow) -> String {
    match &decision.by {
        Some(by) => format!("{} by {}", decision.answer, by.in_words()),
        None => decision.answer.to_string(),
    }
}

/// Formats one event for a person.
pub fn person(row: &EventRow, now: &jiff::Zoned, width: usize) -> String {
    let at = clock(row.at, now);
    let id: String = row.id.to_string().chars().take(SHORT_ID).collect();
    let session = row
        .session_id
        .as_deref()
        .map_or("-".to_owned(), |id| visible(id, 8));
    let event = visible(row.event.as_deref().unwrap_or("?"), NAME);
    let tool = visible(row.tool.as_deref().unwrap_or_default(), NAME);
    // Event and tool share a column: 80 characters leave no room for two.
    let rest = EVENT_AND_TOOL.saturating_sub(event.chars().count() + 1);
    let mut line =
        format!("{DIM}{at}  {id}{DIM:#}  {session:8}  {BOLD}{event}{BOLD:#} {tool:rest$} ");
    for (style, note) in notes(row) {
        line += &format!("{style}{note}{style:#} ");
    }
    let plain = anstream::adapter::strip_str(&line).to_string();
    let room = width.saturating_sub(plain.chars().count());
    let about: String = about(row).chars().take(room).collect();
    if !about.is_empty() {
        line += &format!("{DIM}{about}{DIM:#}");
    }
    line.trim_end().to_owned()
}

/// Returns the notes of an event's line: agent, decision, fault, source and masking.
fn notes(row: &EventRow) -> Vec<(anstyle::Style, String)> {
    let mut notes = Vec::new();
    if let Some(agent) = &row.agent_id {
        notes.push((DIM, format!("agent {}", visible(agent, 8))));
    }
    if let Some(decision) = &row.decision {
        notes.push((WARN, self::decision(decision)));
    }
    if let Some(fault) = &row.fault {
        notes.push((BAD, fault.clone()));
    }
    match row.source {
        Source::Daemon => {}
        Source::Alone => notes.push((DIM, "standalone".to_owned())),
        Source::Replay => notes.push((DIM, "replay".to_owned())),
    }
    if row.masked > 0 {
        notes.push((DIM, format!("{} masked", row.masked)));
    }
    notes
}

/// Returns the part of an event's payload that tells best what the event is about.
pub fn about(row: &EventRow) -> String {
    let Some(payload) = &row.payload else {
        return "(payload deleted)".to_owned();
    };
    let Ok(payload) = serde_json::from_slice::<serde_json::Value>(payload) else {
        return String::new();
    };
    let input = &payload["tool_input"];
    let candidates = [
        &input["command"],
        &input["file_path"],
        &input["pattern"],
        &input["description"],
        &payload["prompt"],
        &payload["message"],
        &payload["error"],
        &payload["reason"],
        &payload["source"],
        &payload["trigger"],
        &payload["file_path"],
        &payload["new_cwd"],
        &payload["agent_type"],
        &payload["last_assistant_message"],
    ];
    let text = candidates
        .iter()
        .find_map(|value| value.as_str())
        .unwrap_or_default();
    visible(
        &text.split_whitespace().collect::<Vec<_>>().join(" "),
        ABOUT,
    )
}

/// Returns the beginning of a foreign text, without the control characters, which must not reach the terminal.
fn visible(text: &str, most: usize) -> String {
    text.chars().filter(|c| is_inert(*c)).take(most).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_knows_best_how_wide_it_is() {
        assert_eq!(columns(Some(200), Some("80")), 200);
        assert_eq!(columns(Some(0), Some("120")), 120);
        assert_eq!(columns(None, Some("wide")), 80);
        assert_eq!(columns(Some(7), None), NARROWEST);
    }

    #[test]
    fn what_others_wrote_does_not_move_the_cursor() {
        let odd = "\u{1b}[31m\u{7}é\n\u{9b}x".repeat(30);
        let row = EventRow {
            seq: 1,
            id: "0199a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b".parse().unwrap(),
            at: 0,
            session_id: Some(odd.clone()),
            agent_id: Some(odd.clone()),
            event: Some(odd.clone()),
            tool: Some(odd.clone()),
            decision: None,
            took_us: None,
            source: Source::Daemon,
            masked: 0,
            fault: None,
            duplicate_of: None,
            payload: Some(serde_json::to_vec(&serde_json::json!({"prompt": odd})).unwrap()),
        };
        let line = person(&row, &becket_engine::local_time::now(), 120);
        let plain = anstream::adapter::strip_str(&line).to_string();
        assert!(!plain.chars().any(char::is_control), "{plain:?}");
        assert!(!line.contains("\u{1b}[31m"), "{line:?}");
    }
}
