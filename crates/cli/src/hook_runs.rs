//! Formats runs of named hooks for people and scripts: tables, statistics, JSON.

pub mod explanation;
pub mod query;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use anstyle::Style;
use becket_daemon::store::LoggedRun;
use becket_wire::hook_run::{RunOutcome, RunRow};
use serde::{Serialize, Serializer};

use crate::ui::style::{BAD, BOLD, DIM, GOOD, Look, WARN};
use crate::ui::table::{Cell, Column, grid};
use crate::ui::text::{count, short_id};
use crate::ui::time::{self, span, timestamp};

/// The time from which a hook delays the session, in microseconds.
pub const TOO_SLOW: i64 = 5_000_000;
/// The number of characters from which Claude Code puts an output into a file and shows the model only
/// a part of it.
pub const TOO_LONG: u64 = 10_000;
/// The approximate number of characters in a token.
const PER_TOKEN: u64 = 4;

/// Estimates the number of tokens of a text.
pub fn tokens(characters: u64) -> u64 {
    characters.div_ceil(PER_TOKEN)
}

/// The statistics of one hook.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HookStats {
    pub hook: String,
    pub runs: usize,
    pub failed: usize,
    /// The number of runs that were ended because Claude Code waited no longer: neither done nor failed.
    pub cancelled: usize,
    /// The number of calls that the hook denied.
    pub denied: usize,
    /// The number of prompts, results and stops that the hook blocked.
    pub blocked: usize,
    /// The percentage of runs that succeeded, or None if all of them were cancelled.
    pub success_pct: Option<f64>,
    pub mean_us: i64,
    pub p95_us: i64,
    pub max_us: i64,
    #[serde(serialize_with = "as_timestamp")]
    pub last_at: i64,
    pub last_outcome: RunOutcome,
}

fn as_timestamp<S: Serializer>(at: &i64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&timestamp(*at))
}

/// Computes the statistics of each hook, sorted by name.
pub fn stats<'r>(runs: impl Iterator<Item = &'r RunRow>) -> Vec<HookStats> {
    let mut hooks: BTreeMap<&str, Vec<&RunRow>> = BTreeMap::new();
    for run in runs {
        hooks.entry(&run.hook).or_default().push(run);
    }
    hooks.into_iter().filter_map(of_one).collect()
}

fn of_one((hook, runs): (&str, Vec<&RunRow>)) -> Option<HookStats> {
    let last = runs.iter().max_by_key(|run| run.at)?;
    let times = Times::new(runs.iter().map(|run| run.took_us).collect());
    let said = |words: &[&str]| {
        let said = runs.iter().filter_map(|run| run.decision.as_deref());
        said.filter(|word| words.contains(word)).count()
    };
    let failed = runs.iter().filter(|run| run.has_failed()).count();
    let cancelled = runs.iter().filter(|run| run.was_cancelled()).count();
    let finished = runs.len() - cancelled;
    let succeeded = (finished - failed) as f64 / finished as f64;
    Some(HookStats {
        hook: hook.to_owned(),
        runs: runs.len(),
        failed,
        cancelled,
        denied: said(&["deny", "decline"]),
        blocked: said(&["block", "stop"]),
        success_pct: (finished > 0).then_some((succeeded * 1000.0).round() / 10.0),
        mean_us: times.mean(),
        p95_us: times.at(95),
        max_us: times.at(100),
        last_at: last.at,
        last_outcome: last.outcome.clone(),
    })
}

/// The sorted times of several runs, in microseconds.
#[derive(Debug, Clone)]
pub struct Times(Vec<i64>);

impl Times {
    pub fn new(mut times: Vec<i64>) -> Self {
        times.sort_unstable();
        Self(times)
    }

    pub fn mean(&self) -> i64 {
        let sum: i128 = self.0.iter().copied().map(i128::from).sum();
        let count = self.0.len().max(1) as i128;
        i64::try_from(sum / count).unwrap_or(i64::MAX)
    }

    /// Returns a percentile: the nearest time that was measured.
    pub fn at(&self, percent: usize) -> i64 {
        let rank = (self.0.len() * percent).div_ceil(100);
        let nth = rank.saturating_sub(1);
        self.0.get(nth).copied().unwrap_or(0)
    }
}

/// Returns the style of a run time.
pub fn pace(us: i64) -> Style {
    if us > TOO_SLOW { WARN } else { Style::new() }
}

/// Returns the style of an output length.
pub fn length(characters: u64) -> Style {
    if characters > TOO_LONG {
        WARN
    } else {
        Style::new()
    }
}

/// Returns the style of a run's outcome.
pub fn ended(run: &RunRow) -> Style {
    match run.outcome {
        _ if run.has_failed() => BAD,
        RunOutcome::Ok => GOOD,
        RunOutcome::Running => BOLD,
        _ => DIM,
    }
}

/// Returns the styles of the hook's name and of the note of a run.
pub fn name_and_note(run: &RunRow) -> (Style, Style) {
    if run.has_failed() {
        (BAD.bold(), BAD)
    } else {
        (BOLD, DIM)
    }
}

/// Formats the reason of a failure, or the deadline of a running hook.
pub fn note(found: &LoggedRun, now_ms: i64) -> String {
    match found.until {
        Some(until) if until > now_ms => {
            format!("its time is up in {}", span(until - now_ms))
        }
        Some(_) => "its time is up: it is being ended".to_owned(),
        None => found.run.note.clone().unwrap_or_default(),
    }
}

/// Formats a name, `width` cells wide, and a value in as many lines as it takes.
pub fn labelled(name: &str, width: usize, value: &[String], style: Style) -> String {
    let names = std::iter::once(name).chain(std::iter::repeat(""));
    let lines = names.zip(value);
    lines
        .map(|(name, line)| format!("  {DIM}{name:width$}{DIM:#}  {style}{line}{style:#}\n"))
        .collect()
}

/// Formats the outcome of a run, with the exit code of a failed one.
pub fn outcome(run: &RunRow) -> String {
    match run.exit {
        Some(exit) if run.has_failed() => format!("{} ({exit})", run.outcome),
        _ => run.outcome.to_string(),
    }
}

/// Formats the name of an event and its tool.
pub fn event(name: Option<&str>, tool: Option<&str>) -> String {
    let words = [name, tool].into_iter().flatten();
    words.collect::<Vec<_>>().join(" ")
}

/// Shortens the id of a session.
pub fn short(id: Option<&str>) -> String {
    id.map_or("-", short_id).to_owned()
}

#[derive(Debug, Serialize)]
pub struct JsonRun<'a> {
    at: String,
    hook: &'a str,
    event_id: String,
    event: &'a str,
    tool: Option<&'a str>,
    session_id: Option<&'a str>,
    agent_id: Option<&'a str>,
    took_us: i64,
    until: Option<String>,
    exit: Option<i32>,
    outcome: &'a str,
    decision: Option<&'a str>,
    said: u64,
    note: Option<&'a str>,
}

impl<'a> From<&'a LoggedRun> for JsonRun<'a> {
    fn from(found: &'a LoggedRun) -> Self {
        let run = &found.run;
        Self {
            at: timestamp(run.at),
            hook: &run.hook,
            event_id: run.event_id.to_string(),
            event: &run.event,
            tool: found.tool.as_deref(),
            session_id: run.session_id.as_deref(),
            agent_id: run.agent_id.as_deref(),
            took_us: run.took_us,
            until: found.until.map(timestamp),
            exit: run.exit,
            outcome: run.outcome.as_str(),
            decision: run.decision.as_deref(),
            said: run.said,
            note: run.note.as_deref(),
        }
    }
}

const STATS: [Column; 10] = [
    Column::left("HOOK", 0).cut_to(12),
    Column::right("RUNS", 0),
    Column::right("OK", 2),
    Column::right("DENIED", 3),
    Column::right("BLOCKED", 3),
    Column::right("CANCELLED", 6),
    Column::right("MEAN", 3),
    Column::right("P95", 1),
    Column::right("LAST", 4),
    Column::left("OUTCOME", 5),
];

/// Formats the statistics of each hook, then their totals.
pub fn stats_table(hooks: &[HookStats], look: &Look) -> String {
    let rows: Vec<_> = hooks.iter().map(|hook| stats_row(hook, look)).collect();
    let runs = hooks.iter().map(|hook| hook.runs).sum();
    let failed: usize = hooks.iter().map(|hook| hook.failed).sum();
    let mut total = format!(
        "{} of {}",
        count(runs, "run", "runs"),
        count(hooks.len(), "hook", "hooks")
    );
    let cancelled: usize = hooks.iter().map(|hook| hook.cancelled).sum();
    if cancelled > 0 {
        total += &format!(", {cancelled} cancelled");
    }
    if failed > 0 {
        total += &format!(", {failed} failed: becket hooks recent shows them");
    }
    let total = crate::ui::text::fit(&total, look.width, look.glyphs);
    grid(STATS, &rows, look) + &format!("{DIM}{total}{DIM:#}\n")
}

fn stats_row(hook: &HookStats, look: &Look) -> [Cell; STATS.len()] {
    let ok = match hook.failed {
        0 => Style::new(),
        failed if failed * 2 > hook.runs - hook.cancelled => BAD,
        _ => WARN,
    };
    let ago = look.now_ms().saturating_sub(hook.last_at);
    let last = if hook.last_outcome.is_failure() {
        BAD
    } else {
        DIM
    };
    [
        Cell::new(&hook.hook, BOLD),
        Cell::plain(hook.runs.to_string()),
        Cell::new(percent(hook), ok),
        Cell::new(some(hook.denied), WARN),
        Cell::new(some(hook.blocked), WARN),
        Cell::new(some(hook.cancelled), DIM),
        Cell::new(time::took(hook.mean_us), pace(hook.mean_us)),
        Cell::new(time::took(hook.p95_us), pace(hook.p95_us)),
        Cell::new(format!("{} ago", span(ago)), DIM),
        Cell::new(hook.last_outcome.as_str(), last),
    ]
}

/// Formats the success rate. It rounds to 100% only if no run failed.
fn percent(hook: &HookStats) -> String {
    let Some(percent) = hook.success_pct else {
        return "-".to_owned();
    };
    let most = if hook.failed > 0 { 99.9 } else { 100.0 };
    let shown = percent.min(most);
    if shown.fract() == 0.0 {
        format!("{shown:.0}%")
    } else {
        format!("{shown:.1}%")
    }
}

/// Formats a count, and 0 as an empty cell.
fn some(count: usize) -> String {
    match count {
        0 => String::new(),
        _ => count.to_string(),
    }
}

const RECENT: [Column; 8] = [
    Column::right("WHEN", 3),
    Column::left("HOOK", 0).cut_to(12),
    Column::left("EVENT", 4).cut_to(11),
    Column::left("SESSION", 5),
    Column::right("TIME", 0),
    Column::left("OUTCOME", 0),
    Column::left("DECISION", 1),
    Column::left("NOTE", 2).cut_to(16),
];

/// Formats runs in the given order, with failed ones in colour.
pub fn recent_table(runs: &[LoggedRun], look: &Look) -> String {
    let rows: Vec<_> = runs.iter().map(|run| recent_row(run, look)).collect();
    grid(RECENT, &rows, look)
}

fn recent_row(found: &LoggedRun, look: &Look) -> [Cell; RECENT.len()] {
    let run = &found.run;
    let (name, noted) = name_and_note(run);
    let ago = span(look.now_ms().saturating_sub(run.at));
    [
        Cell::new(format!("{ago} ago"), DIM),
        Cell::new(&run.hook, name),
        Cell::plain(event(Some(&run.event), found.tool.as_deref())),
        Cell::new(short(run.session_id.as_deref()), DIM),
        Cell::new(time::took(run.took_us), pace(run.took_us)),
        Cell::new(outcome(run), ended(run)),
        Cell::new(run.decision.as_deref().unwrap_or_default(), WARN),
        Cell::new(note(found, look.now_ms()), noted),
    ]
}
