//! The past of one session, as `becket show` tells it: its turns, the files it touched, the sessions
//! before and after it.

use std::path::Path;

use becket_daemon::store::SessionFacts;
use becket_wire::account;
use serde::Serialize;

use super::full::heading;
use super::turns::{Answered, Past, TouchedFile, Turn};
use crate::ui::style::{DIM, Look, WARN};
use crate::ui::table::{Cell, Column, bare, grid};
use crate::ui::text;
use crate::ui::time::{self, clock, moment};

/// So many files, and sessions before or after it, are listed.
const LISTED: usize = 10;

const TURNS: [Column; 8] = [
    Column::right("TURN", 0),
    Column::left("AT", 3),
    Column::left("PROMPT", 0).cut_to(20),
    Column::left("TOOLS", 2).cut_to(12),
    Column::right("TOOK", 1),
    Column::right("COST", 0),
    Column::right("TOKENS", 5),
    Column::left("ANSWERS", 4).wrapped(24),
];

/// The newest so many turns.
pub fn turns(past: &Past, most: usize, look: &Look) -> String {
    if past.turns.is_empty() {
        return String::new();
    }
    let hidden = past.turns.len().saturating_sub(most);
    let rows: Vec<_> = past.turns[hidden..]
        .iter()
        .map(|turn| row(turn, look))
        .collect();
    let mut out = heading("Turns");
    if hidden > 0 {
        let earlier = text::count(hidden, "earlier turn", "earlier turns");
        out += &format!("  {DIM}{earlier}: --turns all shows them{DIM:#}\n");
    }
    out + &indented(&grid(TURNS, &rows, &inside(look)))
}

fn row(turn: &Turn, look: &Look) -> [Cell; TURNS.len()] {
    // Whole seconds say enough.
    let at = clock(turn.began / 1000 * 1000, &look.now).replace(".000", "");
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
    let one = |(name, calls): &(String, u32)| match calls {
        1 => name.clone(),
        _ => format!("{name} {calls}"),
    };
    turn.tools.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// What was refused, failed and answered; alike answers once.
fn notes(turn: &Turn) -> String {
    let mut notes = Vec::new();
    let mut many = |count: u32, what: &str| {
        if count > 0 {
            notes.push(format!("{count} {what}"));
        }
    };
    many(turn.denied, "denied");
    many(turn.failed, "failed");
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

fn answer(answered: &Answered) -> String {
    let by = answered.by.as_deref().map(account::in_words);
    let by = by.map(|by| format!(" by {by}")).unwrap_or_default();
    let on = answered.tool.as_deref().unwrap_or(&answered.event);
    format!("{}{by} on {on}", answered.answer)
}

/// The files that tools wrote, the most edited first.
pub fn files(past: &Past, project: Option<&str>, look: &Look) -> String {
    if past.files.is_empty() {
        return String::new();
    }
    let mut files: Vec<&TouchedFile> = past.files.iter().collect();
    files.sort_by(|a, b| b.edits.cmp(&a.edits).then_with(|| a.path.cmp(&b.path)));
    let short = |path: &str| {
        let inside = project.and_then(|project| Path::new(path).strip_prefix(project).ok());
        inside.map_or_else(|| path.to_owned(), |path| path.display().to_string())
    };
    let row = |file: &&TouchedFile| {
        let edits = text::count(file.edits as usize, "edit", "edits");
        [Cell::plain(short(&file.path)), Cell::new(edits, DIM)]
    };
    let rows: Vec<_> = files.iter().take(LISTED).map(row).collect();
    let columns = [Column::left("", 0).cut_to(20), Column::left("", 1)];
    heading("Files") + &indented(&bare(columns, &rows, &inside(look))) + &more(files.len(), look)
}

/// The sessions that it goes on from, and those that go on from it.
pub fn chain(before: &[&SessionFacts], after: &[&SessionFacts], look: &Look) -> String {
    if before.is_empty() && after.is_empty() {
        return String::new();
    }
    let row = |word: &str, facts: &&SessionFacts| {
        let at = clock(facts.started_at / 1000 * 1000, &look.now).replace(".000", "");
        let about = facts.title.as_deref().or(facts.last_prompt.as_deref());
        [
            Cell::new(word, DIM),
            Cell::plain(&facts.session_id),
            Cell::new(at, DIM),
            Cell::plain(about.unwrap_or_default()),
        ]
    };
    let skipped = before.len().saturating_sub(LISTED);
    let before = before[skipped..].iter().map(|facts| row("before", facts));
    let shown = after.iter().take(LISTED).map(|facts| row("after", facts));
    let rows: Vec<_> = before.chain(shown).collect();
    let columns = [
        Column::left("", 0),
        Column::left("", 0),
        Column::left("", 2),
        Column::left("", 1).cut_to(12),
    ];
    heading("Before and after") + &indented(&bare(columns, &rows, &inside(look)))
}

/// How many are not listed.
fn more(all: usize, look: &Look) -> String {
    match all.saturating_sub(LISTED) {
        0 => String::new(),
        more => format!("  {DIM}{} {more} more{DIM:#}\n", look.glyphs.cut()),
    }
}

/// The room beneath a heading.
fn inside(look: &Look) -> Look {
    Look {
        width: look.width.saturating_sub(2),
        ..look.clone()
    }
}

fn indented(lines: &str) -> String {
    lines.lines().map(|line| format!("  {line}\n")).collect()
}

/// The same for scripts, in the order of the documentation.
#[derive(Debug, Serialize)]
pub struct JsonPast<'a> {
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
    answer: &'a str,
    by: Option<&'a str>,
    reason: Option<&'a str>,
}

#[derive(Debug, Serialize)]
struct JsonFile<'a> {
    path: &'a str,
    edits: u32,
    last_at: String,
}

/// The newest so many turns, and everything else.
pub fn json<'a>(past: &'a Past, after: &[&'a SessionFacts], most: usize) -> JsonPast<'a> {
    let hidden = past.turns.len().saturating_sub(most);
    let file = |file: &'a TouchedFile| JsonFile {
        path: &file.path,
        edits: file.edits,
        last_at: moment(file.last_at),
    };
    JsonPast {
        next_session_ids: after.iter().map(|facts| &*facts.session_id).collect(),
        turns: past.turns[hidden..].iter().map(json_turn).collect(),
        files: past.files.iter().map(file).collect(),
    }
}

fn json_turn(turn: &Turn) -> JsonTurn<'_> {
    JsonTurn {
        turn: turn.number,
        began_at: moment(turn.began),
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
                at: moment(said.at),
                event: &said.event,
                tool: said.tool.as_deref(),
                answer: &said.answer,
                by: said.by.as_deref(),
                reason: said.reason.as_deref(),
            })
            .collect(),
        cost_usd: turn.cost_usd,
        input_tokens: turn.input_tokens,
        output_tokens: turn.output_tokens,
    }
}
