//! The tables of `becket stats` and `becket recent`.

use anstyle::Style;
use becket_daemon::store::FoundRun;
use becket_wire::run::FINE;

use super::cost::Stats;
use crate::run::words;
use crate::ui::style::{BAD, BOLD, DIM, Look, WARN};
use crate::ui::table::{Cell, Column, grid};
use crate::ui::text::count;
use crate::ui::time::{self, span};

const STATS: [Column; 8] = [
    Column::left("HOOK", 0).cut_to(12),
    Column::right("RUNS", 0),
    Column::right("OK", 2),
    Column::right("CANCELLED", 6),
    Column::right("MEAN", 3),
    Column::right("P95", 1),
    Column::right("LAST", 4),
    Column::left("OUTCOME", 5),
];

/// What each hook did and cost, then all of them together.
pub fn stats(hooks: &[Stats], look: &Look) -> String {
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
        total += &format!(", {failed} failed: becket recent shows them");
    }
    let total = crate::ui::text::fit(&total, look.width, look.glyphs);
    grid(STATS, &rows, look) + &format!("{DIM}{total}{DIM:#}\n")
}

fn stats_row(hook: &Stats, look: &Look) -> [Cell; STATS.len()] {
    let ok = match hook.failed {
        0 => Style::new(),
        failed if failed * 2 > hook.runs - hook.cancelled => BAD,
        _ => WARN,
    };
    let ago = look.now_ms().saturating_sub(hook.last_at);
    let last = match FINE.contains(&&*hook.last_outcome) {
        true => DIM,
        false => BAD,
    };
    [
        Cell::new(&hook.hook, BOLD),
        Cell::plain(hook.runs.to_string()),
        Cell::new(percent(hook), ok),
        Cell::new(some(hook.cancelled), DIM),
        Cell::new(time::took(hook.mean_us), words::pace(hook.mean_us)),
        Cell::new(time::took(hook.p95_us), words::pace(hook.p95_us)),
        Cell::new(format!("{} ago", span(ago)), DIM),
        Cell::new(&hook.last_outcome, last),
    ]
}

/// All of them is said only where it is so.
fn percent(hook: &Stats) -> String {
    let Some(percent) = hook.success_pct() else {
        return "-".to_owned();
    };
    let shown = if hook.failed > 0 {
        percent.min(99.9)
    } else {
        percent
    };
    if shown.fract() == 0.0 {
        format!("{shown:.0}%")
    } else {
        format!("{shown:.1}%")
    }
}

/// A count that is seldom anything.
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

/// Runs in the order given; failed ones stand out.
pub fn recent(runs: &[FoundRun], look: &Look) -> String {
    let rows: Vec<_> = runs.iter().map(|run| recent_row(run, look)).collect();
    grid(RECENT, &rows, look)
}

fn recent_row(found: &FoundRun, look: &Look) -> [Cell; RECENT.len()] {
    let run = &found.run;
    let failed = run.has_failed();
    let name = if failed { BAD.bold() } else { BOLD };
    let note = if failed { BAD } else { DIM };
    let ago = span(look.now_ms().saturating_sub(run.at));
    [
        Cell::new(format!("{ago} ago"), DIM),
        Cell::new(&run.hook, name),
        Cell::plain(words::event(run, found.tool.as_deref())),
        Cell::new(words::short(run.session_id.as_deref()), DIM),
        Cell::new(time::took(run.took_us), words::pace(run.took_us)),
        Cell::new(words::outcome(run), words::ended(run)),
        Cell::new(run.decision.as_deref().unwrap_or_default(), WARN),
        Cell::new(words::note(found, look.now_ms()), note),
    ]
}
