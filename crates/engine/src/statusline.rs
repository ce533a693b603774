//! The status line: reads the JSON that Claude Code gives to it, and prints the line.

#[cfg(test)]
mod tests;

use anstyle::{AnsiColor, Style};
use becket_wire::Output;
use becket_wire::place::fnv1a;
use becket_wire::rpc::{Envelope, WRONG};
use becket_wire::session::Figures;
use becket_wire::text::is_hidden;
use serde_json::Value;
use thiserror::Error;
use unicode_width::UnicodeWidthStr;

use crate::config::{Snapshot, StatusLine, most_similar};

/// The content of a status line. Unknown and unimportant values are empty.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StatusLineContent {
    pub project: Option<String>,
    pub figures: Figures,
    /// The effort that the session works on.
    pub effort: Option<String>,
    /// The number of other sessions that need the user.
    pub waiting: usize,
    /// The hooks that are switched off in this session.
    pub off: Vec<String>,
    /// The problems, the worst first.
    pub wrong: Vec<String>,
}

impl StatusLineContent {
    /// Makes the content from the input, or from the reason why it could not be read.
    pub fn of(read: Result<StatusLineInput, InputError>) -> Self {
        match read {
            Ok(reading) => Self {
                project: reading.project,
                figures: reading.figures,
                ..Self::default()
            },
            Err(why) => Self {
                wrong: vec![why.to_string()],
                ..Self::default()
            },
        }
    }
}

/// The width of a terminal that is not known.
const COLUMNS: usize = 80;
/// The number of columns at the edge of the terminal that a status line cannot use: Claude Code cuts it there.
const MARGIN: usize = 4;

/// Answers a status line, with the problems of its envelope and of the config.
pub fn answer(mut line: StatusLineContent, envelope: &Envelope, config: &Snapshot) -> Output {
    line.wrong
        .extend(envelope.variable(WRONG).map(str::to_owned));
    match config.errors().count() {
        0 => {}
        1 => line.wrong.push("config: 1 error".to_owned()),
        errors => line.wrong.push(format!("config: {errors} errors")),
    }
    if config
        .project
        .as_ref()
        .is_some_and(|it| it.message().is_some())
    {
        line.wrong.push("not trusted".to_owned());
    }
    let colour = envelope.variable("NO_COLOR").is_none_or(str::is_empty);
    let columns = columns(envelope.variable("COLUMNS"));
    let mut printed = render(&line, &config.config.statusline, columns, colour);
    if !printed.is_empty() {
        printed.push('\n');
    }
    Output {
        stdout: printed.into_bytes(),
        ..Output::default()
    }
}

/// Returns the width of the line, from the `COLUMNS` that Claude Code sets.
fn columns(variable: Option<&str>) -> usize {
    let columns = variable.and_then(|text| text.trim().parse().ok());
    let columns = columns.filter(|columns| *columns > 0).unwrap_or(COLUMNS);
    columns.saturating_sub(MARGIN).max(1)
}

/// The greatest width of a text that does not come from becket.
const MAX_COLUMNS: usize = 40;

/// A part of a line, in the order of importance: the first variants are dropped first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    Duration,
    Lines,
    Bar,
    Cost,
    Model,
    Off,
    Waiting,
    Effort,
    Context,
    Project,
    Wrong,
}

/// The parts with their names in a template.
const PARTS: [(&str, Part); 11] = [
    ("project", Part::Project),
    ("effort", Part::Effort),
    ("model", Part::Model),
    ("bar", Part::Bar),
    ("context", Part::Context),
    ("cost", Part::Cost),
    ("lines", Part::Lines),
    ("duration", Part::Duration),
    ("waiting", Part::Waiting),
    ("off", Part::Off),
    ("wrong", Part::Wrong),
];

impl Part {
    /// Returns the text of the part; empty if there is nothing to show.
    pub fn text(self, line: &StatusLineContent, bar_width: usize) -> String {
        let figures = &line.figures;
        let shown = match self {
            Self::Project => line.project.as_deref().map(brief),
            Self::Effort => line.effort.as_deref().map(brief),
            Self::Model => {
                let name = figures.model_name.as_deref();
                name.or(figures.model_id.as_deref()).map(brief)
            }
            Self::Bar => figures.context_pct.map(|used| bar(used, bar_width)),
            Self::Context => figures.context_pct.map(|used| format!("{used:.0}%")),
            Self::Cost => figures.cost_usd.and_then(cost),
            Self::Lines => lines(figures),
            Self::Duration => figures.duration_ms.map(duration),
            Self::Waiting => (line.waiting > 0).then(|| format!("{} waiting", line.waiting)),
            Self::Off => list("off: ", &line.off),
            Self::Wrong => wrong(&line.wrong),
        };
        shown.unwrap_or_default()
    }

    pub fn style(self, line: &StatusLineContent) -> Style {
        let plain = Style::new();
        match self {
            Self::Project => plain.bold(),
            Self::Bar | Self::Context => match line.figures.context_pct.unwrap_or_default() {
                ..60.0 => AnsiColor::Green.on_default(),
                ..80.0 => AnsiColor::Yellow.on_default(),
                _ => AnsiColor::Red.on_default(),
            },
            Self::Effort => AnsiColor::Cyan.on_default(),
            Self::Waiting => AnsiColor::Yellow.on_default().bold(),
            Self::Wrong => AnsiColor::Red.on_default(),
            Self::Lines | Self::Duration | Self::Off => plain.dimmed(),
            Self::Model | Self::Cost => plain,
        }
    }
}

/// Removes the characters that must not reach a terminal.
pub fn clean(text: &str) -> String {
    text.chars().filter(|c| !is_hidden(*c)).collect()
}

/// Cuts a text to a width.
pub fn cut(text: &str, width: usize) -> String {
    use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};
    if text.width() <= width {
        return text.to_owned();
    }
    let mut room = width.saturating_sub(1);
    let mut kept = String::new();
    for c in text.chars() {
        let width = c.width().unwrap_or(0);
        if width > room {
            break;
        }
        room -= width;
        kept.push(c);
    }
    if width > 0 {
        kept.push('…');
    }
    kept
}

fn brief(text: &str) -> String {
    cut(clean(text).trim(), MAX_COLUMNS)
}

fn list(before: &str, names: &[String]) -> Option<String> {
    let names: Vec<String> = names.iter().map(|name| brief(name)).collect();
    (!names.is_empty()).then(|| format!("{before}{}", cut(&names.join(", "), MAX_COLUMNS)))
}

/// Formats the worst problem, and the number of the others.
fn wrong(troubles: &[String]) -> Option<String> {
    let (worst, more) = troubles.split_first()?;
    let worst = cut(clean(worst).trim(), MAX_COLUMNS + MAX_COLUMNS / 2);
    Some(match more.len() {
        0 => format!("⚠ {worst}"),
        more => format!("⚠ {worst} (+{more})"),
    })
}

fn bar(used: f64, width: usize) -> String {
    let full = ((used / 100.0).clamp(0.0, 1.0) * width as f64).round() as usize;
    format!("{}{}", "█".repeat(full), "░".repeat(width - full))
}

fn cost(dollars: f64) -> Option<String> {
    (dollars >= 0.005).then(|| format!("${dollars:.2}"))
}

fn lines(figures: &Figures) -> Option<String> {
    let added = figures.lines_added.unwrap_or(0);
    let removed = figures.lines_removed.unwrap_or(0);
    (added > 0 || removed > 0).then(|| format!("+{added} -{removed}"))
}

fn duration(ms: u64) -> String {
    match (ms / 1000, ms / 60_000) {
        (seconds @ ..60, _) => format!("{seconds}s"),
        (_, minutes @ ..60) => format!("{minutes}m"),
        (_, minutes) => format!("{}h{:02}m", minutes / 60, minutes % 60),
    }
}

/// The longest JSON that is read. Claude Code's has some two thousand bytes.
pub const MAX_PAYLOAD: usize = 256 << 10;

/// The input of a status line.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StatusLineInput {
    pub session_id: Option<String>,
    /// The name of the project's folder.
    pub project: Option<String>,
    pub transcript_path: Option<String>,
    pub cwd: Option<String>,
    pub figures: Figures,
}

/// The reason why the input could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum InputError {
    #[error("status line: nothing came")]
    Empty,
    #[error("status line: {0} bytes came, too many")]
    TooLong(usize),
    #[error("status line: the input is not JSON")]
    NotJson,
}

/// Reads the JSON that Claude Code gives to its status line.
pub fn figures(payload: &[u8]) -> Result<StatusLineInput, InputError> {
    if payload.len() > MAX_PAYLOAD {
        return Err(InputError::TooLong(payload.len()));
    }
    if payload.trim_ascii().is_empty() {
        return Err(InputError::Empty);
    }
    let Ok(said @ Value::Object(_)) = serde_json::from_slice(payload) else {
        return Err(InputError::NotJson);
    };
    let text = |path| text(&said, path);
    let folder = text("/workspace/project_dir")
        .or_else(|| text("/workspace/current_dir"))
        .or_else(|| text("/cwd"));
    let context_tokens = context_tokens(&said);
    let context_size = count(&said, "/context_window/context_window_size");
    let used = amount(&said, "/context_window/used_percentage").or_else(|| {
        let size = context_size.filter(|size| *size > 0)?;
        Some(context_tokens? as f64 * 100.0 / size as f64)
    });
    Ok(StatusLineInput {
        session_id: text("/session_id"),
        project: folder.as_deref().and_then(name),
        transcript_path: text("/transcript_path"),
        cwd: text("/workspace/current_dir").or_else(|| text("/cwd")),
        figures: Figures {
            context_pct: used,
            context_tokens,
            context_size,
            cost_usd: amount(&said, "/cost/total_cost_usd"),
            lines_added: count(&said, "/cost/total_lines_added"),
            lines_removed: count(&said, "/cost/total_lines_removed"),
            duration_ms: count(&said, "/cost/total_duration_ms"),
            api_duration_ms: count(&said, "/cost/total_api_duration_ms"),
            model_id: text("/model/id"),
            model_name: text("/model/display_name"),
            from_transcript: false,
        },
    })
}

/// Returns a number for a status line's input that changes with it. The session's duration alone does not
/// count, because each refresh changes it.
pub fn fingerprint(payload: &[u8], columns: Option<&str>) -> u64 {
    let mut input = serde_json::from_slice(payload).unwrap_or(Value::Null);
    if let Some(cost) = input.get_mut("cost").and_then(Value::as_object_mut) {
        cost.remove("total_duration_ms");
    }
    fnv1a(format!("{input} {columns:?}").as_bytes())
}

/// Joins the user's own status line and becket's below it.
pub fn beneath(own: &str, ours: &[u8]) -> Vec<u8> {
    let end = if own.is_empty() { "" } else { "\n" };
    [own.as_bytes(), end.as_bytes(), ours].concat()
}

/// Returns the tokens in the context of the last request. The totals beside it have counted other things in
/// other versions.
fn context_tokens(said: &Value) -> Option<u64> {
    let usage = said.pointer("/context_window/current_usage")?;
    let parts = [
        "/input_tokens",
        "/cache_creation_input_tokens",
        "/cache_read_input_tokens",
    ];
    let known = parts.iter().filter_map(|part| count(usage, part));
    known.reduce(u64::saturating_add)
}

fn text(said: &Value, path: &str) -> Option<String> {
    let text = said.pointer(path)?.as_str()?;
    (!text.is_empty()).then(|| text.to_owned())
}

/// Reads a figure that is neither negative nor absurdly large.
fn amount(said: &Value, path: &str) -> Option<f64> {
    let amount = said.pointer(path)?.as_f64()?;
    (0.0..=1e9).contains(&amount).then_some(amount)
}

fn count(said: &Value, path: &str) -> Option<u64> {
    let number = said.pointer(path)?;
    // Some whole numbers come with a fraction.
    number
        .as_u64()
        .or_else(|| amount(said, path).map(|amount| amount as u64))
}

/// Returns the last part of a path.
fn name(folder: &str) -> Option<String> {
    let last = folder.trim_end_matches('/').rsplit('/').next()?;
    Some(if last.is_empty() { folder } else { last }.to_owned())
}

/// A part with text.
struct ShownPart {
    /// The place of the part in the template.
    at: usize,
    part: Part,
    text: String,
}

/// Formats the line, without its end. If there is too little room, the least important parts are dropped first,
/// and the last one is cut.
pub fn render(line: &StatusLineContent, how: &StatusLine, width: usize, colour: bool) -> String {
    let template = &how.template;
    let slots = template.slots.iter().enumerate();
    let mut shown: Vec<ShownPart> = slots
        .map(|(at, slot)| ShownPart {
            at,
            part: slot.part,
            text: slot.part.text(line, how.bar_width),
        })
        .filter(|shown| !shown.text.is_empty())
        .collect();
    if shown.is_empty() {
        return String::new();
    }
    while shown.len() > 1 && wide(&shown, template) > width {
        let least = shown.iter().map(|shown| shown.part).min();
        // If a part is there twice, the last one is dropped first.
        let at = shown.iter().rposition(|shown| Some(shown.part) == least);
        at.map(|at| shown.remove(at));
    }
    if wide(&shown, template) > width {
        // Only the most important part is left.
        let ShownPart { part, text, .. } = &shown[0];
        return styled(*part, &cut(text, width), line, colour);
    }
    let mut printed = String::new();
    for (index, ShownPart { part, text, .. }) in shown.iter().enumerate() {
        before(&shown, index, template).for_each(|text| printed.push_str(text));
        printed.push_str(&styled(*part, text, line, colour));
    }
    printed.push_str(&template.end);
    printed
}

/// Returns the text before a part: a separator, unless it is the first one, and its label. Of the separators of
/// dropped parts the widest counts, since it separates more.
fn before<'t>(
    shown: &[ShownPart],
    index: usize,
    template: &'t Template,
) -> impl Iterator<Item = &'t str> {
    let at = shown[index].at;
    let separator = index.checked_sub(1).map(|previous| {
        let slots = &template.slots[shown[previous].at + 1..=at];
        let separators = slots.iter().map(|slot| slot.separator.as_str());
        separators
            .max_by_key(|text| text.width())
            .unwrap_or_default()
    });
    let label = template.slots[at].label.as_str();
    separator.into_iter().chain([label])
}

fn wide(shown: &[ShownPart], template: &Template) -> usize {
    let mut width = template.end.width();
    for (index, part) in shown.iter().enumerate() {
        width += part.text.width();
        width += before(shown, index, template)
            .map(UnicodeWidthStr::width)
            .sum::<usize>();
    }
    width
}

fn styled(part: Part, text: &str, line: &StatusLineContent, colour: bool) -> String {
    let style = part.style(line);
    if colour {
        format!("{style}{text}{style:#}")
    } else {
        text.to_owned()
    }
}

/// A parsed template: each part with the text before it, and the text after the last one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Template {
    slots: Vec<Slot>,
    end: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Slot {
    /// The signs and blanks between the part and the one before. They are not shown at the line's beginning.
    separator: String,
    /// The text that belongs to the part.
    label: String,
    part: Part,
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TemplateError {
    #[error("a status line has no part {{{name}}}; {hint}")]
    Unknown { name: String, hint: String },
    /// A brace that is never closed, or closes nothing.
    #[error("a single brace; write {{{{ or }}}} for the sign itself")]
    Brace,
    #[error("a status line is one line of plain text")]
    Control,
}

impl Template {
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        if clean(text) != text {
            return Err(TemplateError::Control);
        }
        let mut template = Self::default();
        let mut before = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            before.push_str(&rest[..at]);
            let brace = &rest[at..];
            rest = if let Some(after) = brace.strip_prefix("{{") {
                before.push('{');
                after
            } else if let Some(after) = brace.strip_prefix("}}") {
                before.push('}');
                after
            } else {
                let inside = brace
                    .strip_prefix('{')
                    .and_then(|open| open.split_once('}'));
                let (name, after) = inside.ok_or(TemplateError::Brace)?;
                template.add(std::mem::take(&mut before), part(name)?);
                after
            };
        }
        before.push_str(rest);
        template.end = before;
        Ok(template)
    }

    fn add(&mut self, before: String, part: Part) {
        // The text before the first part belongs to it as a whole.
        let words = if self.slots.is_empty() {
            0
        } else {
            before.find(char::is_alphanumeric).unwrap_or(before.len())
        };
        let mut separator = before;
        let label = separator.split_off(words);
        self.slots.push(Slot {
            separator,
            label,
            part,
        });
    }
}

fn part(name: &str) -> Result<Part, TemplateError> {
    if let Some((_, part)) = PARTS.iter().find(|(known, _)| *known == name.trim()) {
        return Ok(*part);
    }
    let hint = match most_similar(name, PARTS.into_iter().map(|(known, _)| known)) {
        Some(nearest) => format!("did you mean {{{nearest}}}?"),
        None => format!(
            "there are {}",
            PARTS.map(|(known, _)| format!("{{{known}}}")).join(" ")
        ),
    };
    let name = name.to_owned();
    Err(TemplateError::Unknown { name, hint })
}
