//! Formats a trial: the output of the hook, the answer that becket reads, the output for Claude Code;
//! and the table of many trials.

use std::fmt::Write;

use anstyle::Style;
use becket_wire::Output;
use becket_wire::answer::Answer;
use becket_wire::hook_run::RunOutcome;
use serde::Serialize;
use unicode_width::UnicodeWidthStr;

use super::TrialResult;
use crate::hook_runs::{self, TOO_LONG, TOO_SLOW, Times, tokens};
use crate::hook_trial::{Sample, SampleSource};
use crate::ui::style::{BAD, BOLD, DIM, GOOD, Look, WARN};
use crate::ui::table::{Cell, Column, grid};
use crate::ui::text::{count, fold, is_inert, one_line, wrap};
use crate::ui::time::{self, clock};

/// The number of lines that are shown of a hook's output.
const LINES: usize = 40;
/// The width of a line of words. Longer lines are hard to read.
const READABLE: usize = 100;
/// The width of the name of a field.
const NAME: usize = 10;

/// Formats one trial.
pub fn one(tried: &TrialResult, sample: &Sample, standing: Option<&str>, look: &Look) -> String {
    let row = &tried.row;
    let ended = hook_runs::ended(row);
    let took = hook_runs::pace(row.took_us);
    let (hook, event) = (one_line(&row.hook), one_line(&sample.name()));
    let origin = one_line(&origin(&sample.from, look));
    let fits = hook.width() + event.width() + origin.width() + 6 <= look.width;
    let between = if fits { "" } else { "\n" };
    let mut out = format!("{BOLD}{hook}{BOLD:#} on {event}{between}  {DIM}{origin}{DIM:#}\n");
    let mut add = |name, value: &str, style| out += &field(name, value, style, look);
    add("outcome", &hook_runs::outcome(row), ended);
    add("took", &time::took(row.took_us), took);
    if let Some(note) = &row.note {
        add("why", note, BAD);
    }
    if let Ok(answer) = &tried.answer {
        let (read, style) = read_as(answer);
        add("read as", &read, style);
        let said = tried.chars_for_claude();
        if said > 0 {
            let characters = count(said as usize, "character", "characters");
            let tokens = count(tokens(said) as usize, "token", "tokens");
            let long = format!("{characters}, about {tokens}");
            add("for Claude", &long, hook_runs::length(said));
        }
    }
    if let Some(standing) = standing {
        let standing = format!("in its session it would not run: {standing}");
        add("note", &standing, WARN);
    }
    out += &part("It printed", &tried.ran.stdout, look);
    out += &part("It printed on stderr", &tried.ran.stderr, look);
    if tried.ran.dropped > 0 {
        let _ = writeln!(out, "  {DIM}{} bytes more{DIM:#}", tried.ran.dropped);
    }
    out + &claude_gets(&tried.output(sample), look)
}

/// Formats a name and a value, in as many lines as the value takes.
fn field(name: &str, value: &str, style: Style, look: &Look) -> String {
    let room = match look.width {
        usize::MAX => usize::MAX,
        width => width.min(READABLE).saturating_sub(NAME + 4).max(20),
    };
    hook_runs::labelled(name, NAME, &wrap(&one_line(value), room), style)
}

fn origin(from: &SampleSource, look: &Look) -> String {
    match from {
        SampleSource::Log { id, at, masked } => {
            let at = clock(*at, &look.now);
            if *masked == 0 {
                return format!("event {id}, {at}");
            }
            let secrets = count(*masked as usize, "secret masked", "secrets masked");
            format!("event {id}, {at}, with {secrets}")
        }
        SampleSource::File(path) => path.display().to_string(),
        SampleSource::BuiltIn => "a sample event of becket's".to_owned(),
    }
}

fn read_as(answer: &Answer) -> (String, Style) {
    match answer.decision() {
        None => ("no opinion".to_owned(), Style::new()),
        Some((word, None)) => (word.to_owned(), WARN),
        Some((word, Some(reason))) => (format!("{word}: {reason}"), WARN),
    }
}

fn claude_gets(output: &Output, look: &Look) -> String {
    if output.is_silent() {
        return format!("\n{BOLD}Claude Code would get nothing{BOLD:#}\n");
    }
    let exit = match output.exit {
        0 => String::new(),
        exit => format!(", with exit code {exit}"),
    };
    let text = [&output.stdout[..], &output.stderr].concat();
    part(&format!("Claude Code would get{exit}"), &text, look)
}

/// Formats foreign text line by line, without hidden characters.
fn part(title: &str, text: &[u8], look: &Look) -> String {
    let text = String::from_utf8_lossy(text);
    if text.trim().is_empty() {
        return String::new();
    }
    let mut out = format!("\n{BOLD}{title}{BOLD:#}\n");
    let lines: Vec<String> = text
        .lines()
        .flat_map(|line| {
            let line = line.replace('\t', "    ");
            let line: String = line.chars().filter(|c| is_inert(*c)).collect();
            fold(&line, look.width.saturating_sub(2))
        })
        .collect();
    for line in lines.iter().take(LINES) {
        // Writing into a String does not fail.
        let _ = writeln!(out, "  {line}");
    }
    let more = lines.len().saturating_sub(LINES);
    if more > 0 {
        let _ = writeln!(out, "  {DIM}{} more{DIM:#}", count(more, "line", "lines"));
    }
    out
}

/// One trial as JSON.
#[derive(Debug, Serialize)]
pub struct Json<'a> {
    hook: &'a str,
    event: &'a str,
    tool: Option<String>,
    event_id: Option<String>,
    would_run: bool,
    standing: Option<&'a str>,
    took_us: i64,
    exit: Option<i32>,
    outcome: &'a str,
    note: Option<&'a str>,
    decision: Option<&'a str>,
    reason: Option<String>,
    characters: u64,
    tokens: u64,
    stdout: String,
    stderr: String,
    dropped: u64,
    claude: Gets,
}

#[derive(Debug, Serialize)]
struct Gets {
    stdout: String,
    stderr: String,
    exit: u8,
}

pub fn json<'a>(tried: &'a TrialResult, sample: &'a Sample, standing: Option<&'a str>) -> Json<'a> {
    let row = &tried.row;
    let output = tried.output(sample);
    let answer = tried.answer.as_ref().ok();
    let decision = answer.and_then(Answer::decision);
    Json {
        hook: &row.hook,
        event: sample.event.as_str(),
        tool: sample.tool(),
        event_id: sample.id().map(|id| id.to_string()),
        would_run: standing.is_none(),
        standing,
        took_us: row.took_us,
        exit: row.exit,
        outcome: row.outcome.as_str(),
        note: row.note.as_deref(),
        decision: row.decision.as_deref(),
        reason: decision.and_then(|(_, reason)| reason).map(str::to_owned),
        characters: tried.chars_for_claude(),
        tokens: tokens(tried.chars_for_claude()),
        stdout: text(&tried.ran.stdout),
        stderr: text(&tried.ran.stderr),
        dropped: tried.ran.dropped,
        claude: Gets {
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
            exit: output.exit,
        },
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The results of several trials of one hook.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Profile {
    pub hook: String,
    pub event: Option<String>,
    pub tool: Option<String>,
    pub event_id: Option<String>,
    pub runs: usize,
    pub median_us: i64,
    pub p95_us: i64,
    /// The largest number of characters that one trial gave to Claude.
    pub characters: u64,
    /// The approximate number of tokens of these characters.
    pub tokens: u64,
    pub too_slow: bool,
    pub too_long: bool,
    pub outcome: Option<RunOutcome>,
    /// The reason why the last trial failed, or why there was none.
    pub note: Option<String>,
}

impl Profile {
    pub fn new(hook: &str, sample: &Sample, trials: &[TrialResult]) -> Self {
        let times = Times::new(trials.iter().map(|tried| tried.row.took_us).collect());
        let said = trials.iter().map(TrialResult::chars_for_claude).max();
        let said = said.unwrap_or(0);
        // The user wants to know of a failure first.
        let telling = trials.iter().rev().find(|tried| tried.row.has_failed());
        let telling = telling.or(trials.last()).map(|tried| &tried.row);
        Self {
            hook: hook.to_owned(),
            event: Some(sample.event.as_str().to_owned()),
            tool: sample.tool(),
            event_id: sample.id().map(|id| id.to_string()),
            runs: trials.len(),
            median_us: times.at(50),
            p95_us: times.at(95),
            characters: said,
            tokens: tokens(said),
            too_slow: times.at(95) > TOO_SLOW,
            too_long: said > TOO_LONG,
            outcome: telling.map(|row| row.outcome.clone()),
            note: telling.and_then(|row| row.note.clone()),
        }
    }

    /// Makes the profile of a hook that was not run.
    pub fn none(hook: &str, note: String) -> Self {
        Self {
            hook: hook.to_owned(),
            note: Some(note),
            ..Self::default()
        }
    }
}

const PROFILE: [Column; 9] = [
    Column::left("HOOK", 0).cut_to(12),
    Column::left("EVENT", 3).cut_to(11),
    Column::right("RUNS", 4),
    Column::right("MEDIAN", 0),
    Column::right("P95", 0),
    Column::right("CHARS", 2),
    Column::right("TOKENS", 1),
    Column::left("OUTCOME", 0),
    Column::left("NOTE", 5).cut_to(16),
];

/// Formats many trials. Hooks that are too slow or too long are in colour and listed below.
pub fn profile(profiles: &[Profile], look: &Look) -> String {
    let rows: Vec<_> = profiles.iter().map(profile_row).collect();
    let mut out = grid(PROFILE, &rows, look);
    let slow = profiles.iter().filter(|profile| profile.too_slow);
    let what = format!("slower than {}", time::took(TOO_SLOW));
    out += &warning(&what, slow);
    let long = profiles.iter().filter(|profile| profile.too_long);
    let what = format!("longer than {TOO_LONG} characters");
    out + &warning(&what, long)
}

fn warning<'p>(what: &str, profiles: impl Iterator<Item = &'p Profile>) -> String {
    let names: Vec<&str> = profiles.map(|profile| &*profile.hook).collect();
    if names.is_empty() {
        return String::new();
    }
    format!("{WARN}{what}: {}{WARN:#}\n", one_line(&names.join(", ")))
}

fn profile_row(profile: &Profile) -> [Cell; PROFILE.len()] {
    let ran = profile.runs > 0;
    let if_ran = |text: String| if ran { text } else { String::new() };
    let failed = ran && profile.outcome.as_ref().is_none_or(RunOutcome::is_failure);
    let (ended, noted) = if failed {
        (BAD, BAD)
    } else if ran {
        (GOOD, DIM)
    } else {
        (DIM, DIM)
    };
    let outcome = profile.outcome.as_ref();
    let (median, p95) = (profile.median_us, profile.p95_us);
    let length = hook_runs::length(profile.characters);
    let event = hook_runs::event(profile.event.as_deref(), profile.tool.as_deref());
    [
        Cell::new(&profile.hook, BOLD),
        Cell::plain(event),
        Cell::plain(if_ran(profile.runs.to_string())),
        Cell::new(if_ran(time::took(median)), hook_runs::pace(median)),
        Cell::new(if_ran(time::took(p95)), hook_runs::pace(p95)),
        Cell::new(if_ran(profile.characters.to_string()), length),
        Cell::new(if_ran(profile.tokens.to_string()), length),
        Cell::new(outcome.map_or("not run", RunOutcome::as_str), ended),
        Cell::new(profile.note.as_deref().unwrap_or_default(), noted),
    ]
}
