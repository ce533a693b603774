//! One event, one line: for a person, as JSON, or the payload alone.

use std::io::{self, IsTerminal, Write};

use becket_wire::rpc::{DecisionRow, EventRow, Source};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::tell::{BAD, BOLD, DIM, WARN, clock, moment};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Person,
    Json,
    Raw,
}

/// Prints events, in one form.
pub struct Lines {
    form: Form,
    out: Box<dyn Write>,
    now: jiff::Zoned,
    width: usize,
    any: bool,
}

impl std::fmt::Debug for Lines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lines")
            .field("form", &self.form)
            .finish_non_exhaustive()
    }
}

impl Lines {
    pub fn new(form: Form) -> Self {
        let buffered = io::BufWriter::new(io::stdout());
        let out: Box<dyn Write> = match form {
            Form::Person => Box::new(anstream::AutoStream::auto(io::stdout())),
            Form::Json | Form::Raw => Box::new(buffered),
        };
        let width = if io::stdout().is_terminal() {
            columns()
        } else {
            usize::MAX
        };
        Self {
            form,
            out,
            now: jiff::Zoned::now(),
            width,
            any: false,
        }
    }

    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    pub fn print(&mut self, row: &EventRow) -> io::Result<()> {
        self.any = true;
        match self.form {
            Form::Json => {
                serde_json::to_writer(&mut self.out, &json(row))?;
                self.out.write_all(b"\n")
            }
            Form::Raw => {
                self.out
                    .write_all(row.payload.as_deref().unwrap_or_default())?;
                self.out.write_all(b"\n")
            }
            Form::Person => {
                let line = person(row, &self.now, self.width);
                writeln!(self.out, "{line}")
            }
        }
    }

    pub fn end(&mut self) -> io::Result<()> {
        if !self.any && self.form == Form::Person {
            writeln!(
                self.out,
                "No events yet. They come with the next thing that Claude Code does."
            )?;
        }
        self.out.flush()
    }
}

fn columns() -> usize {
    let size = rustix::termios::tcgetwinsize(io::stdout());
    size.map_or(80, |size| usize::from(size.ws_col).max(40))
}

/// The fields in the order of the documentation.
#[derive(Serialize)]
struct Json<'a> {
    seq: i64,
    id: String,
    at: String,
    session_id: Option<&'a str>,
    agent_id: Option<&'a str>,
    event: Option<&'a str>,
    tool: Option<&'a str>,
    decision: Option<&'a DecisionRow>,
    took_us: Option<i64>,
    source: Source,
    masked: i64,
    payload: Option<Box<RawValue>>,
    /// Where the payload is no JSON: as text, or as hex digits where it is no text either.
    #[serde(skip_serializing_if = "Option::is_none")]
    raw: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    raw_hex: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fault: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    duplicate_of: Option<i64>,
}

fn json(row: &EventRow) -> Json<'_> {
    let text = row.payload.as_deref().map(std::str::from_utf8);
    let payload = text.and_then(Result::ok).and_then(one_line);
    let (mut raw, mut raw_hex) = (None, None);
    match (&payload, text) {
        (None, Some(Ok(text))) => raw = Some(text),
        (None, Some(Err(_))) => {
            let bytes = row.payload.as_deref().unwrap_or_default();
            raw_hex = Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect());
        }
        _ => {}
    }
    Json {
        seq: row.seq,
        id: row.id.to_string(),
        at: moment(row.at),
        session_id: row.session_id.as_deref(),
        agent_id: row.agent_id.as_deref(),
        event: row.event.as_deref(),
        tool: row.tool.as_deref(),
        decision: row.decision.as_ref(),
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

/// JSON as it is, but on one line: inside a string no line break can stand, so what is taken out is
/// only layout. None if it is no JSON.
fn one_line(text: &str) -> Option<Box<RawValue>> {
    let line: String = text.chars().filter(|c| !matches!(c, '\n' | '\r')).collect();
    RawValue::from_string(line).ok()
}

fn person(row: &EventRow, now: &jiff::Zoned, width: usize) -> String {
    let at = clock(row.at, now);
    let session = row
        .session_id
        .as_deref()
        .map_or("-", |id| id.get(..8).unwrap_or(id));
    let event = row.event.as_deref().unwrap_or("?");
    let tool = row.tool.as_deref().unwrap_or_default();
    let mut notes = String::new();
    let mut plain = format!("{at}  {session:8}  {event:18} {tool:10} ");
    let mut note = |style: anstyle::Style, text: String| {
        plain.push_str(&text);
        plain.push(' ');
        notes.push_str(&format!("{style}{text}{style:#} "));
    };
    if let Some(agent) = &row.agent_id {
        note(DIM, format!("agent {}", agent.get(..8).unwrap_or(agent)));
    }
    if let Some(decision) = &row.decision {
        let by = decision
            .by
            .as_ref()
            .map(|by| format!(" by {by}"))
            .unwrap_or_default();
        note(WARN, format!("{}{by}", decision.answer));
    }
    if let Some(fault) = &row.fault {
        note(BAD, fault.clone());
    }
    if row.source != Source::Daemon {
        note(DIM, row.source.as_str().to_owned());
    }
    if row.masked > 0 {
        note(DIM, format!("{} masked", row.masked));
    }
    let room = width.saturating_sub(plain.chars().count());
    let about: String = about(row).chars().take(room.min(200)).collect();
    let line = format!(
        "{DIM}{at}{DIM:#}  {session:8}  {BOLD}{event:18}{BOLD:#} {tool:10} {notes}{DIM}{about}{DIM:#}"
    );
    line.trim_end().to_owned()
}

/// What the event is about, in a few words of its own.
fn about(row: &EventRow) -> String {
    let Some(payload) = &row.payload else {
        return "(payload dropped)".to_owned();
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
    // Control characters of somebody else's text must not reach the terminal.
    text.split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .chars()
        .filter(|c| !c.is_control())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layout_goes_and_content_stays() {
        let line = one_line("{\n  \"a\": \"x\\ny\",\r\n  \"n\": 1.50e3\n}").unwrap();
        assert_eq!(line.get(), r#"{  "a": "x\ny",  "n": 1.50e3}"#);
        assert!(one_line("{nope").is_none());
    }
}
