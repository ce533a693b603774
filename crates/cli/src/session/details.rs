//! Formats one session with all details, for `becket show`: its activity and place, its turns, the
//! files that it changed, the sessions before and after it.

use std::path::Path;

use becket_daemon::store::SessionFacts;
use becket_wire::rpc::EventRow;
use becket_wire::session::{Display, MAIN, SessionRow};
use serde::Serialize;

use crate::event_line;
use crate::session::branches;
use crate::session::history::{RecordedDecision, Timeline, TouchedFile, Turn};
use crate::session::table::{context_style, glyph, state_style};
use crate::session::words;
use crate::ui::style::{BAD, BOLD, DIM, Look, WARN, style};
use crate::ui::table::{Cell, Column, bare, grid};
use crate::ui::text;
use crate::ui::time::{self, clock};

/// The number of lines that are shown of the last prompt, which may be a whole document.
const PROMPT_LINES: usize = 20;
const PROMPT_CHARS: usize = 20_000;
/// The width of a line of the prompt. Longer lines are hard to read.
const READABLE: usize = 100;

/// A name and its value. A field without a value is not shown.
type Field = (&'static str, Option<String>);

/// Formats a session, the text `past` about its history, and its last events.
pub fn details(row: &SessionRow, past: &str, events: &[EventRow], look: &Look) -> String {
    let state = state_style(row);
    let title = row.title.as_deref().map(text::one_line);
    let title = title.filter(|title| !title.is_empty());
    let mut out = format!(
        "{state}{} {}{state:#}  {BOLD}{}{BOLD:#}\n",
        glyph(row, look.glyphs),
        words::state(row),
        title.unwrap_or_else(|| text::one_line(&row.session_id)),
    );
    let sections = [
        ("What it does", doing(row, look)),
        ("Where", place(row, look)),
        ("Context and cost", figures(row)),
    ];
    // One margin for all sections.
    let fields = sections.iter().flat_map(|(_, fields)| fields);
    let shown = fields.filter(|(_, value)| value.is_some());
    let width = shown.map(|(name, _)| name.len()).max().unwrap_or(0);
    for (title, fields) in sections {
        let lines = fields
            .into_iter()
            .filter_map(|(name, value)| Some(format!("{DIM}{name:width$}{DIM:#}  {}\n", value?)));
        out += &section(title, &lines.collect::<String>());
    }
    let room = look.inside().width;
    let events = events
        .iter()
        .map(|event| event_line::person(event, &look.now, room) + "\n");
    out += &section("Agents", &agents(row, look));
    out += &section("Last prompt", &prompt(row, look));
    out += past;
    out + &section("Last events", &events.collect::<String>())
}

/// Formats lines below a heading, or nothing without lines.
fn section(title: &str, lines: &str) -> String {
    if lines.is_empty() {
        return String::new();
    }
    format!("\n{BOLD}{title}{BOLD:#}\n{}", text::indent(lines))
}

fn doing(row: &SessionRow, look: &Look) -> Vec<Field> {
    let is_live = row.ended_at.is_none();
    let error = row.error.as_deref().map(text::one_line);
    let effort = row.effort.as_ref();
    let title = effort.and_then(|effort| effort.title.as_deref());
    let mut fields = vec![
        ("state", is_live.then(|| words::sentence(row))),
        ("since", when(words::since(row), look).filter(|_| is_live)),
        ("main agent", main_agent(row)),
        ("error", error.map(|why| format!("{BAD}{why}{BAD:#}"))),
        ("interrupted", note(row.interrupted, "by you")),
        ("background", number(row.background_tasks)),
        ("failed tools", number(row.failed_tools)),
        (
            "inferred",
            note(
                row.inferred,
                "from its files and its process, not from an event",
            ),
        ),
        ("stale", note(row.stale, "no event for 8 hours")),
        (
            "effort",
            effort.map(|effort| text::one_line(&effort.line())),
        ),
        ("about", title.map(text::one_line)),
    ];
    fields.extend(row.troubles.iter().map(|trouble| {
        let trouble = text::one_line(trouble);
        ("trouble", Some(format!("{WARN}{trouble}{WARN:#}")))
    }));
    fields
}

fn note(holds: bool, text: &str) -> Option<String> {
    holds.then(|| text.to_owned())
}

/// Formats a number, unless it is 0.
fn number(number: u32) -> Option<String> {
    (number > 0).then(|| number.to_string())
}

/// Formats the main agent's own status, where a subagent's is more urgent.
fn main_agent(row: &SessionRow) -> Option<String> {
    row.waiting_for.as_deref().filter(|id| *id != MAIN)?;
    let status = Display::of(&row.status, false).label();
    let detail = row.status.detail().or(row.status.reason());
    Some(match detail {
        Some(detail) => format!("{status}: {}", text::one_line(detail)),
        None => status.to_owned(),
    })
}

fn place(row: &SessionRow, look: &Look) -> Vec<Field> {
    let folder = row.cwd.as_deref().filter(|_| row.cwd != row.project);
    let process = row.pid.map(|pid| match row {
        row if !row.alive => format!("{pid}, gone"),
        row if !row.hooked => format!("{pid}, without becket's hooks"),
        _ => pid.to_string(),
    });
    let pane = row.tmux_pane.as_deref().map(text::one_line);
    let pane = pane.map(|pane| match &row.tmux_socket {
        Some(socket) => format!("{pane} ({})", text::one_line(socket)),
        None => pane,
    });
    let ended = row.ended_at.and_then(|at| when(at, look));
    let ended = ended.map(|at| match &row.end_reason {
        Some(why) => format!("{at}: {}", text::one_line(why)),
        None => at,
    });
    vec![
        ("session", foreign(Some(&row.session_id))),
        ("goes on from", foreign(row.prev_session_id.as_deref())),
        ("project", foreign(row.project.as_deref())),
        ("folder", foreign(folder)),
        ("process", process),
        ("tmux", pane),
        ("started", when(row.started_at, look)),
        ("last event", when(row.last_activity, look)),
        ("ended", ended),
        ("mode", foreign(row.permission_mode.as_deref())),
        ("attended", note(row.hooked && !row.attended, "no")),
        ("transcript", foreign(row.transcript_path.as_deref())),
    ]
}

/// Puts a foreign text on one line, unless it is empty.
fn foreign(text: Option<&str>) -> Option<String> {
    text.filter(|text| !text.is_empty()).map(text::one_line)
}

/// Formats a time as local time and age, or None if it is not known.
fn when(ms: i64, look: &Look) -> Option<String> {
    // Without milliseconds.
    let at = clock(ms, &look.now);
    Some(format!("{at}, {} ago", look.since(ms)?))
}

fn figures(row: &SessionRow) -> Vec<Field> {
    let figures = &row.figures;
    let model = Some(words::model(row)).filter(|model| !model.is_empty());
    let model = model.map(|short| {
        let id = row.model.as_deref().or(figures.model_id.as_deref());
        match id.map(text::one_line).filter(|id| *id != short) {
            Some(id) => format!("{short} ({id})"),
            None => short,
        }
    });
    let context = figures.context_pct.map(|percent| {
        let style = context_style(percent);
        format!("{style}{percent:.0}%{style:#}")
    });
    let size = figures.context_tokens.map(|used| {
        let of = figures.context_size.map(text::tokens);
        let of = of.map(|size| format!(" of {size}")).unwrap_or_default();
        format!("{}{of} tokens", text::tokens(used))
    });
    let both: Vec<String> = context.into_iter().chain(size).collect();
    let lines = figures.lines_added.zip(figures.lines_removed);
    let api = figures.api_duration_ms.map(span);
    let api = api.map(|time| format!(", {time} of it for the model"));
    let time = figures.duration_ms.map(span);
    let time = time.map(|all| all + &api.unwrap_or_default());
    let mut fields = vec![
        ("model", model),
        (
            "context",
            Some(both.join(", ")).filter(|_| !both.is_empty()),
        ),
        ("cost", figures.cost_usd.map(text::dollars)),
        (
            "lines",
            lines.map(|(added, removed)| format!("+{added} -{removed}")),
        ),
        ("time", time),
    ];
    if figures.from_transcript && fields.iter().any(|(_, value)| value.is_some()) {
        let from = "the transcript; there is no status line";
        fields.push(("from", Some(from.to_owned())));
    }
    fields
}

fn span(ms: u64) -> String {
    time::span(i64::try_from(ms).unwrap_or(i64::MAX))
}

/// Formats the live agents as a tree, and the number of ended ones.
fn agents(row: &SessionRow, look: &Look) -> String {
    let mut out = String::new();
    let live = branches(&row.agents, look.glyphs);
    let names: Vec<String> = live
        .iter()
        .map(|branch| format!("{}{}", branch.lead, words::agent_name(branch.agent)))
        .collect();
    let widest = names.iter().map(|name| text::width(name)).max();
    for (branch, name) in live.iter().zip(&names) {
        let agent = branch.agent;
        let display = agent.display();
        let mark = look.glyphs.display(display);
        let style = style(display);
        let pad = " ".repeat(widest.unwrap_or(0) - text::width(name));
        let since = look.since(agent.status_since);
        let since = since.map(|since| format!(", {since}")).unwrap_or_default();
        let doing = words::agent_doing(agent);
        let id = text::one_line(&agent.agent_id);
        out += &format!("{style}{mark}{style:#} {name}{pad}  {doing}{since}  {DIM}{id}{DIM:#}\n");
    }
    let ended = row.agents.len() - live.len();
    if ended > 0 {
        out += &format!("{DIM}{ended} ended{DIM:#}\n");
    }
    out
}

fn prompt(row: &SessionRow, look: &Look) -> String {
    let prompt = row.last_prompt.as_deref().unwrap_or_default();
    let bounded: String = prompt.trim().chars().take(PROMPT_CHARS).collect();
    let mut lines = text::wrap(&bounded, look.width.min(READABLE) - 2);
    if lines.len() > PROMPT_LINES {
        let more = lines.split_off(PROMPT_LINES).len();
        let more = text::count(more, "more line", "more lines");
        lines.push(format!("{DIM}{} {more}{DIM:#}", look.glyphs.cut()));
    }
    lines.join("\n")
}

/// The number of files, and of sessions before or after this one, that are listed.
const LISTED: usize = 10;

const TURNS: [Column; 8] = [
    Column::right("TURN", 0),
    Column::left("AT", 3),
    Column::left("PROMPT", 0).cut_to(20),
    Column::left("TOOLS", 2).cut_to(12),
    Column::right("TOOK", 1),
    Column::right("COST", 0),
    Column::right("TOKENS", 5),
    Column::left("NOTES", 4).wrapped(24),
];

/// Formats the newest `most` turns.
pub fn turns_table(past: &Timeline, most: usize, look: &Look) -> String {
    if past.turns.is_empty() {
        return String::new();
    }
    let hidden = past.turns.len().saturating_sub(most);
    let rows = past.turns[hidden..].iter().map(|turn| turn_row(turn, look));
    let mut out = String::new();
    if hidden > 0 {
        let earlier = text::count(hidden, "earlier turn", "earlier turns");
        out = format!("{DIM}{earlier}: --turns all shows them{DIM:#}\n");
    }
    out += &grid(TURNS, &rows.collect::<Vec<_>>(), &look.inside());
    section("Turns", &out)
}

fn turn_row(turn: &Turn, look: &Look) -> [Cell; TURNS.len()] {
    // Without milliseconds.
    let at = clock(turn.began, &look.now);
    let prompt = match &turn.prompt {
        Some(prompt) => Cell::plain(prompt),
        None => Cell::new("(not kept)", DIM),
    };
    let tokens = turn.input_tokens + turn.output_tokens;
    [
        Cell::plain(turn.number.to_string()),
        Cell::new(at, DIM),
        prompt,
        Cell::plain(tools(turn)),
        Cell::plain(time::span(turn.took_ms)),
        Cell::plain(turn.cost_usd.map(text::dollars).unwrap_or_default()),
        Cell::plain(if tokens > 0 {
            text::tokens(tokens)
        } else {
            String::new()
        }),
        Cell::new(notes(turn), WARN),
    ]
}

fn tools(turn: &Turn) -> String {
    let tools = turn.tools.iter().map(|known| match known.calls {
        1 => known.tool.clone(),
        calls => format!("{} {calls}", known.tool),
    });
    tools.collect::<Vec<_>>().join(", ")
}

/// Formats the denied and failed calls and the decisions. Equal decisions are counted.
fn notes(turn: &Turn) -> String {
    let mut notes = Vec::new();
    for (count, what) in [(turn.denied, "denied"), (turn.failed, "failed")] {
        if count > 0 {
            notes.push(format!("{count} {what}"));
        }
    }
    let mut alike: Vec<(String, u32)> = Vec::new();
    for said in turn.decisions.iter().map(answer) {
        match alike.iter_mut().find(|(known, _)| *known == said) {
            Some((_, times)) => *times += 1,
            None => alike.push((said, 1)),
        }
    }
    notes.extend(alike.into_iter().map(|(said, times)| match times {
        1 => said,
        _ => format!("{said} ({times} times)"),
    }));
    notes.join("; ")
}

fn answer(answered: &RecordedDecision) -> String {
    let on = answered.tool.as_deref().unwrap_or(&answered.event);
    format!("{} on {on}", event_line::decision(&answered.decision))
}

/// Formats the files that tools wrote, the most edited first.
pub fn files(past: &Timeline, project: Option<&str>, look: &Look) -> String {
    let mut files: Vec<&TouchedFile> = past.files.iter().collect();
    files.sort_by(|a, b| b.edits.cmp(&a.edits).then_with(|| a.path.cmp(&b.path)));
    let rows = files.iter().take(LISTED).map(|file| {
        let path = Path::new(&file.path);
        let inside = project.and_then(|project| path.strip_prefix(project).ok());
        let path = inside.unwrap_or(path).display().to_string();
        let edits = text::count(file.edits as usize, "edit", "edits");
        [Cell::plain(path), Cell::new(edits, DIM)]
    });
    let rows: Vec<_> = rows.collect();
    let columns = [Column::left("", 0).cut_to(20), Column::left("", 1)];
    let mut out = bare(columns, &rows, &look.inside());
    if let Some(more @ 1..) = files.len().checked_sub(LISTED) {
        out += &format!("{DIM}{} {more} more{DIM:#}\n", look.glyphs.cut());
    }
    section("Files", &out)
}

/// Formats the sessions that this one continues, and those that continue it.
pub fn chain(before: &[&SessionFacts], after: &[&SessionFacts], look: &Look) -> String {
    let skipped = before.len().saturating_sub(LISTED);
    let before = before[skipped..].iter().map(|facts| ("before", facts));
    let after = after.iter().take(LISTED);
    let rows = before.chain(after.map(|facts| ("after", facts)));
    let rows = rows.map(|(word, facts)| {
        let at = clock(facts.started_at, &look.now);
        let about = facts.title.as_deref().or(facts.last_prompt.as_deref());
        [
            Cell::new(word, DIM),
            Cell::plain(&facts.session_id),
            Cell::new(at, DIM),
            Cell::plain(about.unwrap_or_default()),
        ]
    });
    let rows: Vec<_> = rows.collect();
    let columns = [
        Column::left("", 0),
        Column::left("", 0),
        Column::left("", 2),
        Column::left("", 1).cut_to(12),
    ];
    section("Before and after", &bare(columns, &rows, &look.inside()))
}

/// The history of a session as JSON, in the order of the documentation.
#[derive(Debug, Serialize)]
pub struct JsonTimeline<'a> {
    next_session_ids: Vec<&'a str>,
    turns: &'a [Turn],
    files: &'a [TouchedFile],
}

/// Makes the JSON of the newest `most` turns, all files, and the next sessions.
pub fn json_timeline<'a>(
    past: &'a Timeline,
    after: &[&'a SessionFacts],
    most: usize,
) -> JsonTimeline<'a> {
    JsonTimeline {
        next_session_ids: after.iter().map(|facts| &*facts.session_id).collect(),
        turns: &past.turns[past.turns.len().saturating_sub(most)..],
        files: &past.files,
    }
}
