//! Formats one session with all details, for `becket show`: its activity and place, its turns, the
//! files that it changed, the sessions before and after it.

use std::path::Path;

use becket_daemon::store::SessionFacts;
use becket_wire::Actor;
use becket_wire::rpc::{AnswerWord, EventRow};
use becket_wire::session::{Display, MAIN, SessionRow};
use serde::Serialize;
use unicode_width::UnicodeWidthStr;

use crate::event_line;
use crate::session::agent_tree::branches;
use crate::session::history::{RecordedDecision, Timeline, TouchedFile, Turn};
use crate::session::table::{context_style, glyph, state_style};
use crate::session::words;
use crate::ui::style::{BAD, BOLD, DIM, Look, WARN, style};
use crate::ui::table::{Cell, Column, bare, grid};
use crate::ui::text;
use crate::ui::time::{self, clock, timestamp};

/// The number of lines that are shown of the last prompt, which may be a whole document.
const PROMPT_LINES: usize = 20;
const PROMPT_CHARS: usize = 20_000;
/// The width of a line of the prompt. Longer lines are hard to read.
const READABLE: usize = 100;

/// The names and values below a heading.
#[derive(Debug, Default)]
struct Section {
    fields: Vec<(&'static str, String)>,
}

impl Section {
    fn add(&mut self, name: &'static str, value: impl Into<String>) {
        self.fields.push((name, value.into()));
    }

    /// Adds a foreign text on one line.
    fn foreign(&mut self, name: &'static str, value: Option<&str>) {
        self.maybe(name, value.map(text::one_line));
    }

    /// Adds a number, unless it is 0.
    fn count(&mut self, name: &'static str, number: u32) {
        self.maybe(name, (number > 0).then(|| number.to_string()));
    }

    fn maybe(&mut self, name: &'static str, value: Option<impl Into<String>>) {
        if let Some(value) = value {
            self.add(name, value);
        }
    }
}

/// Formats a session, the text `past` about its history, and its last events.
pub fn details(row: &SessionRow, past: &str, events: &[EventRow], look: &Look) -> String {
    let state = state_style(row);
    let mut out = format!(
        "{state}{} {}{state:#}  {BOLD}{}{BOLD:#}\n",
        glyph(row, look.glyphs),
        words::state(row),
        headline(row),
    );
    let sections = [
        ("What it does", doing(row, look)),
        ("Where", place(row, look)),
        ("Context and cost", figures(row)),
    ];
    // One margin for all sections.
    let names = sections.iter().flat_map(|(_, section)| &section.fields);
    let width = names.map(|(name, _)| name.len()).max().unwrap_or(0);
    for (title, section) in &sections {
        if section.fields.is_empty() {
            continue;
        }
        out += &heading(title);
        for (name, value) in &section.fields {
            out += &format!("  {DIM}{name:width$}{DIM:#}  {value}\n");
        }
    }
    out += &agents(row, look);
    out += &prompt(row, look);
    out += past;
    if !events.is_empty() {
        out += &heading("Last events");
        for event in events {
            let room = look.width.saturating_sub(2);
            out += &format!("  {}\n", event_line::person(event, &look.now, room));
        }
    }
    out
}

pub fn heading(title: &str) -> String {
    format!("\n{BOLD}{title}{BOLD:#}\n")
}

fn headline(row: &SessionRow) -> String {
    let about = match &row.title {
        Some(title) => text::one_line(title),
        None => String::new(),
    };
    if about.is_empty() {
        text::one_line(&row.session_id)
    } else {
        about
    }
}

fn doing(row: &SessionRow, look: &Look) -> Section {
    let mut section = Section::default();
    if row.ended_at.is_none() {
        section.add("state", words::sentence(row));
        section.maybe("since", when(words::since(row), look));
    }
    // The main agent's own status, where a subagent's is more urgent.
    if row.waiting_for.as_deref().is_some_and(|id| id != MAIN) {
        let detail = row.status.detail().or(row.status.reason());
        let detail = detail.map(|detail| format!(": {}", text::one_line(detail)));
        let status = Display::of(&row.status, false).label();
        section.add(
            "main agent",
            format!("{status}{}", detail.unwrap_or_default()),
        );
    }
    section.maybe(
        "error",
        row.error
            .as_deref()
            .map(|why| format!("{BAD}{}{BAD:#}", text::one_line(why))),
    );
    section.maybe("interrupted", row.interrupted.then_some("by you"));
    section.count("background", row.background_tasks);
    section.count("failed tools", row.failed_tools);
    if row.inferred {
        section.add(
            "inferred",
            "from its files and its process, not from an event",
        );
    }
    if row.stale {
        section.add("stale", "no event for 8 hours");
    }
    let effort = row.effort.as_ref();
    let title = effort.and_then(|effort| effort.title.as_deref());
    section.maybe(
        "effort",
        effort.map(|effort| text::one_line(&effort.line())),
    );
    section.maybe("about", title.map(text::one_line));
    for trouble in &row.troubles {
        let trouble = text::one_line(trouble);
        section.add("trouble", format!("{WARN}{trouble}{WARN:#}"));
    }
    section
}

fn place(row: &SessionRow, look: &Look) -> Section {
    let mut section = Section::default();
    if !row.session_id.is_empty() {
        section.add("session", text::one_line(&row.session_id));
    }
    section.foreign("goes on from", row.prev_session_id.as_deref());
    section.foreign("project", row.project.as_deref());
    if row.cwd != row.project {
        section.foreign("folder", row.cwd.as_deref());
    }
    if let Some(pid) = row.pid {
        let note = if !row.alive {
            ", gone"
        } else if !row.hooked {
            ", without becket's hooks"
        } else {
            ""
        };
        section.add("process", format!("{pid}{note}"));
    }
    if let Some(pane) = &row.tmux_pane {
        let socket = row.tmux_socket.as_deref().map(text::one_line);
        let socket = socket.map(|socket| format!(" ({socket})"));
        let pane = text::one_line(pane);
        section.add("tmux", format!("{pane}{}", socket.unwrap_or_default()));
    }
    section.maybe("begun", when(row.started_at, look));
    section.maybe("last heard", when(row.last_activity, look));
    if let Some(at) = row.ended_at.and_then(|at| when(at, look)) {
        let why = row.end_reason.as_deref().map(text::one_line);
        let why = why.map(|why| format!(": {why}"));
        section.add("ended", format!("{at}{}", why.unwrap_or_default()));
    }
    section.foreign("mode", row.permission_mode.as_deref());
    if row.hooked && !row.attended {
        section.add("attended", "no");
    }
    section.foreign("transcript", row.transcript_path.as_deref());
    section
}

/// Formats a time as local time and age, or None if it is not known.
fn when(ms: i64, look: &Look) -> Option<String> {
    let ago = time::span(look.now_ms().saturating_sub(ms));
    // Without milliseconds.
    let at = clock(ms, &look.now);
    (ms != 0).then(|| format!("{at}, {ago} ago"))
}

fn figures(row: &SessionRow) -> Section {
    let mut section = Section::default();
    let figures = &row.figures;
    let short = words::model(row);
    let id = row.model.as_deref().or(figures.model_id.as_deref());
    let id = id.map(text::one_line).filter(|id| *id != short);
    let id = id.map(|id| format!(" ({id})")).unwrap_or_default();
    if !short.is_empty() {
        section.add("model", format!("{short}{id}"));
    }
    let context = figures.context_pct.map(|percent| {
        let style = context_style(percent);
        format!("{style}{percent:.0}%{style:#}")
    });
    let size = match (figures.context_tokens, figures.context_size) {
        (Some(used), Some(size)) => {
            Some(format!("{} of {}", text::tokens(used), text::tokens(size)))
        }
        (Some(used), None) => Some(text::tokens(used)),
        _ => None,
    };
    let size = size.map(|size| format!("{size} tokens"));
    let both: Vec<String> = context.into_iter().chain(size).collect();
    if !both.is_empty() {
        section.add("context", both.join(", "));
    }
    section.maybe("cost", figures.cost_usd.map(text::dollars));
    if let (Some(added), Some(removed)) = (figures.lines_added, figures.lines_removed) {
        section.add("lines", format!("+{added} -{removed}"));
    }
    if let Some(all) = figures.duration_ms {
        let model = figures.api_duration_ms.map(span);
        let model = model.map(|time| format!(", {time} of it for the model"));
        section.add(
            "time",
            format!("{}{}", span(all), model.unwrap_or_default()),
        );
    }
    if figures.from_transcript && !section.fields.is_empty() {
        section.add("from", "the transcript; there is no status line");
    }
    section
}

fn span(ms: u64) -> String {
    time::span(i64::try_from(ms).unwrap_or(i64::MAX))
}

/// Formats the live agents as a tree, and the number of ended ones.
fn agents(row: &SessionRow, look: &Look) -> String {
    if row.agents.is_empty() {
        return String::new();
    }
    let mut out = heading("Agents");
    let live = branches(&row.agents, look.glyphs);
    let names: Vec<String> = live
        .iter()
        .map(|branch| format!("{}{}", branch.lead, words::agent_name(branch.agent)))
        .collect();
    let widest = names.iter().map(|name| name.width()).max().unwrap_or(0);
    for (branch, name) in live.iter().zip(&names) {
        let agent = branch.agent;
        let display = agent.display();
        let mark = look.glyphs.display(display);
        let style = style(display);
        let pad = " ".repeat(widest - name.width());
        let since = match agent.status_since {
            0 => String::new(),
            at => format!(", {}", time::span(look.now_ms().saturating_sub(at))),
        };
        let doing = words::agent_doing(agent);
        let id = text::one_line(&agent.agent_id);
        out += &format!("  {style}{mark}{style:#} {name}{pad}  {doing}{since}  {DIM}{id}{DIM:#}\n");
    }
    let ended = row.agents.len() - live.len();
    if ended > 0 {
        out += &format!("  {DIM}{ended} ended{DIM:#}\n");
    }
    out
}

fn prompt(row: &SessionRow, look: &Look) -> String {
    let Some(prompt) = &row.last_prompt else {
        return String::new();
    };
    let mut out = heading("Last prompt");
    let bounded: String = prompt.trim().chars().take(PROMPT_CHARS).collect();
    let lines = text::wrap(&bounded, look.width.min(READABLE) - 2);
    for line in lines.iter().take(PROMPT_LINES) {
        out += format!("  {line}").trim_end();
        out.push('\n');
    }
    if lines.len() > PROMPT_LINES {
        let more = lines.len() - PROMPT_LINES;
        let more = text::count(more, "more line", "more lines");
        out += &format!("  {DIM}{} {more}{DIM:#}\n", look.glyphs.cut());
    }
    out
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
    let rows: Vec<_> = past.turns[hidden..]
        .iter()
        .map(|turn| turn_row(turn, look))
        .collect();
    let mut out = heading("Turns");
    if hidden > 0 {
        let earlier = text::count(hidden, "earlier turn", "earlier turns");
        out += &format!("  {DIM}{earlier}: --turns all shows them{DIM:#}\n");
    }
    out + &text::indent(&grid(TURNS, &rows, &look.inside()))
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
        Cell::plain(time::span(turn.ended - turn.began)),
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
    let tools = turn.tools.iter().map(|(name, calls)| match calls {
        1 => name.clone(),
        _ => format!("{name} {calls}"),
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
    let by = answered.by.as_ref().map(Actor::in_words);
    let by = by.map(|by| format!(" by {by}")).unwrap_or_default();
    let on = answered.tool.as_deref().unwrap_or(&answered.event);
    format!("{}{by} on {on}", answered.answer)
}

/// Formats the files that tools wrote, the most edited first.
pub fn files(past: &Timeline, project: Option<&str>, look: &Look) -> String {
    if past.files.is_empty() {
        return String::new();
    }
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
    heading("Files")
        + &text::indent(&bare(columns, &rows, &look.inside()))
        + &more(files.len(), look)
}

/// Formats the sessions that this one continues, and those that continue it.
pub fn chain(before: &[&SessionFacts], after: &[&SessionFacts], look: &Look) -> String {
    if before.is_empty() && after.is_empty() {
        return String::new();
    }
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
    heading("Before and after") + &text::indent(&bare(columns, &rows, &look.inside()))
}

/// Formats the number of entries that are not listed.
fn more(all: usize, look: &Look) -> String {
    match all.saturating_sub(LISTED) {
        0 => String::new(),
        more => format!("  {DIM}{} {more} more{DIM:#}\n", look.glyphs.cut()),
    }
}

/// The history of a session as JSON, in the order of the documentation.
#[derive(Debug, Serialize)]
pub struct JsonTimeline<'a> {
    next_session_ids: Vec<&'a str>,
    turns: Vec<JsonTurn<'a>>,
    files: Vec<JsonFile<'a>>,
}

#[derive(Debug, Serialize)]
struct JsonTurn<'a> {
    turn: usize,
    began_at: String,
    took_ms: i64,
    prompt: Option<&'a str>,
    tools: Vec<JsonTool<'a>>,
    failed: u32,
    denied: u32,
    decisions: Vec<JsonAnswer<'a>>,
    cost_usd: Option<f64>,
    input_tokens: u64,
    output_tokens: u64,
}

#[derive(Debug, Serialize)]
struct JsonTool<'a> {
    tool: &'a str,
    calls: u32,
}

#[derive(Debug, Serialize)]
struct JsonAnswer<'a> {
    at: String,
    event: &'a str,
    tool: Option<&'a str>,
    answer: &'a AnswerWord,
    by: Option<&'a Actor>,
    reason: Option<&'a str>,
}

#[derive(Debug, Serialize)]
struct JsonFile<'a> {
    path: &'a str,
    edits: u32,
    last_at: String,
}

/// Makes the JSON of the newest `most` turns, all files, and the next sessions.
pub fn json_timeline<'a>(
    past: &'a Timeline,
    after: &[&'a SessionFacts],
    most: usize,
) -> JsonTimeline<'a> {
    let hidden = past.turns.len().saturating_sub(most);
    JsonTimeline {
        next_session_ids: after.iter().map(|facts| &*facts.session_id).collect(),
        turns: past.turns[hidden..].iter().map(json_turn).collect(),
        files: past
            .files
            .iter()
            .map(|file| JsonFile {
                path: &file.path,
                edits: file.edits,
                last_at: timestamp(file.last_at),
            })
            .collect(),
    }
}

fn json_turn(turn: &Turn) -> JsonTurn<'_> {
    JsonTurn {
        turn: turn.number,
        began_at: timestamp(turn.began),
        took_ms: turn.ended - turn.began,
        prompt: turn.prompt.as_deref(),
        tools: turn
            .tools
            .iter()
            .map(|(tool, calls)| JsonTool {
                tool,
                calls: *calls,
            })
            .collect(),
        failed: turn.failed,
        denied: turn.denied,
        decisions: turn
            .decisions
            .iter()
            .map(|said| JsonAnswer {
                at: timestamp(said.at),
                event: &said.event,
                tool: said.tool.as_deref(),
                answer: &said.answer,
                by: said.by.as_ref(),
                reason: said.reason.as_deref(),
            })
            .collect(),
        cost_usd: turn.cost_usd,
        input_tokens: turn.input_tokens,
        output_tokens: turn.output_tokens,
    }
}
