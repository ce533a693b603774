//! How a trial is told: what the hook printed, how becket reads it, what Claude Code would get; and
//! the table of many trials.

use std::fmt::Write;

use anstyle::Style;
use becket_wire::Output;
use becket_wire::answer::Answer;
use becket_wire::hook_run::RunOutcome;
use serde::Serialize;
use unicode_width::UnicodeWidthStr;

use super::Tried;
use crate::run::{self, TOO_LONG, TOO_SLOW, Times, tokens};
use crate::trial::{From, Sample};
use crate::ui::style::{BAD, BOLD, DIM, Look, WARN};
use crate::ui::table::{Cell, Column, grid};
use crate::ui::text::{count, fold, is_inert, one_line, wrap};
use crate::ui::time::{self, clock};

/// So many lines of what a hook printed are shown.
const LINES: usize = 40;
/// Longer lines of words are hard to read.
const READABLE: usize = 100;
/// Where a field's value begins.
const VALUE: usize = 14;

/// One trial, for a person.
pub fn one(tried: &Tried, sample: &Sample, standing: Option<&str>, look: &Look) -> String {
    let row = &tried.row;
    let ended = run::ended(row);
    let took = run::pace(row.took_us);
    let (hook, event) = (one_line(&row.hook), one_line(&sample.name()));
    let origin = one_line(&origin(&sample.from, look));
    let fits = hook.width() + event.width() + origin.width() + 6 <= look.width;
    let between = if fits { "" } else { "\n" };
    let mut out = format!("{BOLD}{hook}{BOLD:#} on {event}{between}  {DIM}{origin}{DIM:#}\n");
    let mut add = |name, value: &str, style| out += &field(name, value, style, look);
    add("outcome", &run::outcome(row), ended);
    add("took", &time::took(row.took_us), took);
    if let Some(note) = &row.note {
        add("why", note, BAD);
    }
    if let Ok(answer) = &tried.answer {
        let (read, style) = read_as(answer);
        add("read as", &read, style);
        let said = tried.for_claude();
        if said > 0 {
            let long = format!(
                "{}, about {}",
                many(said, "character", "characters"),
                many(tokens(said), "token", "tokens")
            );
            add("for Claude", &long, run::length(said));
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

/// A name and what is so, in as many lines as it takes.
fn field(name: &str, value: &str, style: Style, look: &Look) -> String {
    let room = match look.width {
        usize::MAX => usize::MAX,
        width => width.min(READABLE).saturating_sub(VALUE).max(20),
    };
    let names = std::iter::once(name).chain(std::iter::repeat(""));
    let lines = names.zip(wrap(&one_line(value), room));
    lines
        .map(|(name, line)| format!("  {DIM}{name:10}{DIM:#}  {style}{line}{style:#}\n"))
        .collect()
}

fn many(number: u64, one: &str, several: &str) -> String {
    count(usize::try_from(number).unwrap_or(usize::MAX), one, several)
}

fn origin(from: &From, look: &Look) -> String {
    match from {
        From::Log { id, at, masked: 0 } => format!("event {id}, {}", clock(*at, &look.now)),
        From::Log { id, at, masked } => format!(
            "event {id}, {}, with {}",
            clock(*at, &look.now),
            count(
                usize::try_from(*masked).unwrap_or(0),
                "secret masked",
                "secrets masked"
            )
        ),
        From::File(path) => path.display().to_string(),
        From::BuiltIn => "a sample event of becket's".to_owned(),
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

/// Foreign text, line by line, without what a terminal would obey.
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

/// One trial, for scripts.
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

pub fn json<'a>(tried: &'a Tried, sample: &'a Sample, standing: Option<&'a str>) -> Json<'a> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let row = &tried.row;
    let output = tried.output(sample);
    let answer = tried.answer.as_ref().ok();
    let reason = answer
        .and_then(Answer::decision)
        .and_then(|(_, reason)| reason);
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
        reason: reason.map(str::to_owned),
        characters: tried.for_claude(),
        tokens: tokens(tried.for_claude()),
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

/// What several trials of one hook came to.
#[derive(Debug, Clone, Serialize)]
pub struct Profile {
    pub hook: String,
    pub event: Option<String>,
    pub tool: Option<String>,
    pub event_id: Option<String>,
    pub runs: usize,
    pub median_us: i64,
    pub p95_us: i64,
    /// The most that one of them said to Claude, and what that takes in its window.
    pub characters: u64,
    pub tokens: u64,
    pub too_slow: bool,
    pub too_long: bool,
    pub outcome: Option<RunOutcome>,
    /// Why the last one failed, or why there was none.
    pub note: Option<String>,
}

impl Profile {
    pub fn new(hook: &str, sample: &Sample, trials: &[Tried]) -> Self {
        let times = Times::new(trials.iter().map(|tried| tried.row.took_us).collect());
        let said = trials.iter().map(Tried::for_claude).max().unwrap_or(0);
        // A failure is what a person wants to know of.
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

    /// A hook that was not run, and why.
    pub fn none(hook: &str, note: String) -> Self {
        Self {
            hook: hook.to_owned(),
            event: None,
            tool: None,
            event_id: None,
            runs: 0,
            median_us: 0,
            p95_us: 0,
            characters: 0,
            tokens: 0,
            too_slow: false,
            too_long: false,
            outcome: None,
            note: Some(note),
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

/// Many trials; what is too slow or too long stands out, and is said below.
pub fn profile(profiles: &[Profile], look: &Look) -> String {
    let rows: Vec<_> = profiles.iter().map(profile_row).collect();
    let mut out = grid(PROFILE, &rows, look);
    let names = |is_so: fn(&Profile) -> bool| -> Vec<&str> {
        let named = profiles.iter().filter(|profile| is_so(profile));
        named.map(|profile| &*profile.hook).collect()
    };
    for (names, what) in [
        (
            names(|it| it.too_slow),
            format!("slower than {}", time::took(TOO_SLOW)),
        ),
        (
            names(|it| it.too_long),
            format!("longer than {TOO_LONG} characters"),
        ),
    ] {
        if !names.is_empty() {
            let _ = writeln!(out, "{WARN}{what}: {}{WARN:#}", one_line(&names.join(", ")));
        }
    }
    out
}

fn profile_row(profile: &Profile) -> [Cell; PROFILE.len()] {
    let ran = profile.runs > 0;
    let if_ran = |text: String| if ran { text } else { String::new() };
    let outcome = profile
        .outcome
        .as_ref()
        .map_or("not run", RunOutcome::as_str);
    let failed = ran && (profile.outcome.as_ref()).is_none_or(RunOutcome::is_failure);
    let style = match (ran, failed) {
        (false, _) => DIM,
        (_, true) => BAD,
        _ => crate::ui::style::GOOD,
    };
    let length = run::length(profile.characters);
    let event: Vec<&str> = [&profile.event, &profile.tool]
        .into_iter()
        .filter_map(|word| word.as_deref())
        .collect();
    [
        Cell::new(&profile.hook, BOLD),
        Cell::plain(event.join(" ")),
        Cell::plain(if_ran(profile.runs.to_string())),
        Cell::new(
            if_ran(time::took(profile.median_us)),
            run::pace(profile.median_us),
        ),
        Cell::new(
            if_ran(time::took(profile.p95_us)),
            run::pace(profile.p95_us),
        ),
        Cell::new(if_ran(profile.characters.to_string()), length),
        Cell::new(if_ran(profile.tokens.to_string()), length),
        Cell::new(outcome, style),
        Cell::new(
            profile.note.as_deref().unwrap_or_default(),
            if failed { BAD } else { DIM },
        ),
    ]
}
