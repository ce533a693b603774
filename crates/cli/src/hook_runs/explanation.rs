//! Explains the result of an event, for `becket why`: the event, the hooks that ran, those that did
//! not, and the decision.

use anstyle::Style;
use becket_daemon::store::LoggedRun;
use becket_wire::hook_run::RunOutcome;
use becket_wire::rpc::{DecisionRow, EventRow, Source};
use serde::Serialize;

use crate::ui::style::{BAD, BOLD, DIM, Look, WARN};
use crate::ui::table::{Cell, Column, grid};
use crate::ui::text::{indent, one_line, wrap};
use crate::ui::time::{self, clock, timestamp};
use crate::{event_line, hook_runs};

/// The width of a line of a reason. Longer lines are hard to read.
const READABLE: usize = 100;
const REASON_CHARS: usize = 2000;
/// The longest time that Claude Code waits for an event, in milliseconds.
const LONGEST: i64 = 600_000;

/// The event and everything that is known about its result.
#[derive(Debug)]
pub struct Why {
    pub event: EventRow,
    /// The reason why the event did not go through the daemon.
    pub detour: Option<String>,
    /// The hook runs in the order of their start.
    pub runs: Vec<LoggedRun>,
    pub skipped: Vec<Skipped>,
    /// The code that allows the denied call once.
    pub allow_once: Option<String>,
}

/// A hook that wanted the event and did not run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Skipped {
    pub hook: String,
    pub reason: String,
}

const RUNS: [Column; 5] = [
    Column::left("HOOK", 0).cut_to(12),
    Column::right("TIME", 0),
    Column::left("OUTCOME", 0),
    Column::left("DECISION", 0),
    Column::left("NOTE", 1).wrapped(24),
];

const SKIPPED: [Column; 2] = [
    Column::left("HOOK", 0).cut_to(12),
    Column::left("WHY NOT", 1).wrapped(24),
];

pub fn explain(why: &Why, look: &Look) -> String {
    let event = &why.event;
    let name = hook_runs::event(event.event.as_deref(), event.tool.as_deref());
    let name = one_line(&name);
    let mut out = format!("{BOLD}{name}{BOLD:#}  {}\n", said(why));
    let fields = fields(why, look);
    let width = fields.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    for (name, value) in fields {
        out += &format!("  {DIM}{name:width$}{DIM:#}  {value}\n");
    }
    out += &reason(event, width, look);
    if let Some(code) = &why.allow_once {
        let name = "allow";
        out += &format!("  {DIM}{name:width$}{DIM:#}  becket allow {code}\n");
    }
    let inside = look.inside();
    out += &format!("\n{BOLD}{}{BOLD:#}\n", title(why, look));
    if !why.runs.is_empty() {
        let rows: Vec<_> = why.runs.iter().map(|one| run(one, look)).collect();
        out += &indent(&grid(RUNS, &rows, &inside));
    }
    if !why.skipped.is_empty() {
        let skipped = why.skipped.iter();
        let rows = skipped.map(|hook| [Cell::new(&hook.hook, BOLD), Cell::plain(&hook.reason)]);
        let rows: Vec<_> = rows.collect();
        out += &format!("\n{BOLD}Hooks that did not run{BOLD:#} {DIM}(by today's config){DIM:#}\n");
        out += &indent(&grid(SKIPPED, &rows, &inside));
    }
    out
}

/// Returns the title of the table of runs. A hook that could not be started is in the table too.
fn title(why: &Why, look: &Look) -> &'static str {
    let runs = &why.runs;
    let outcomes = runs.iter().map(|found| &found.run.outcome);
    let unstarted = outcomes
        .filter(|outcome| **outcome == RunOutcome::NotStarted)
        .count();
    if runs.is_empty() && is_open(why, look) {
        "No run of a hook is known yet"
    } else if runs.is_empty() {
        "No hook ran"
    } else if runs.iter().any(goes_on) {
        "Hooks that run, or ran"
    } else if unstarted == 0 {
        "Hooks that ran"
    } else if unstarted == runs.len() {
        "Hooks that could not be started"
    } else {
        "Hooks that ran, or could not be started"
    }
}

fn goes_on(found: &LoggedRun) -> bool {
    found.until.is_some()
}

/// Formats the answer and its author.
fn said(why: &Why) -> String {
    let event = &why.event;
    match &event.decision {
        Some(decision) => {
            let decided = one_line(&event_line::decision(decision));
            format!("{WARN}{decided}{WARN:#}")
        }
        None if event.took_us.is_none() && why.runs.iter().any(goes_on) => {
            format!("{DIM}not answered yet{DIM:#}")
        }
        None if event.took_us.is_none() => format!("{DIM}not answered{DIM:#}"),
        None => format!("{DIM}no opinion{DIM:#}"),
    }
}

/// Formats the reason of a refusal, which may take a few lines.
fn reason(event: &EventRow, width: usize, look: &Look) -> String {
    let decision = event.decision.as_ref();
    let Some(reason) = decision.and_then(|decision| decision.reason.as_deref()) else {
        return String::new();
    };
    let reason: String = reason.chars().take(REASON_CHARS).collect();
    let room = look.width.min(READABLE).saturating_sub(width + 4).max(20);
    hook_runs::labelled("reason", width, &wrap(&reason, room), Style::new())
}

fn fields(why: &Why, look: &Look) -> Vec<(&'static str, String)> {
    let event = &why.event;
    let mut fields = vec![
        ("event", event.id.to_string()),
        ("at", clock(event.at, &look.now)),
    ];
    let mut add = |name, value: Option<String>| fields.extend(value.map(|value| (name, value)));
    add("session", event.session_id.as_deref().map(one_line));
    add("agent", event.agent_id.as_deref().map(one_line));
    let room = look.width.saturating_sub(11);
    let about: String = event_line::about(event).chars().take(room).collect();
    add("about", Some(about).filter(|about| !about.is_empty()));
    let fault = event.fault.as_deref().map(one_line);
    add("fault", fault.map(|fault| format!("{BAD}{fault}{BAD:#}")));
    add("judged", Some(judged(why, look)));
    fields
}

/// Formats who judged the event and in what time, or the reason why there is no answer.
fn judged(why: &Why, look: &Look) -> String {
    let detour = why.detour.as_deref().map(one_line).unwrap_or_default();
    let judged = match why.event.source {
        Source::Daemon => "by the daemon".to_owned(),
        Source::Replay => "in a replay".to_owned(),
        Source::Alone if detour.is_empty() => "standalone".to_owned(),
        Source::Alone => format!("standalone ({})", missed(&detour)),
    };
    match why.event.took_us {
        Some(took) if ended_so(why, &RunOutcome::Orphaned) => format!(
            "{judged}, in {}; becket was killed before, and the answers of its hooks were lost",
            time::took(took)
        ),
        Some(took) => format!("{judged}, in {}", time::took(took)),
        None => format!("{judged}; {}", unanswered(why, look)),
    }
}

fn ended_so(why: &Why, outcome: &RunOutcome) -> bool {
    why.runs.iter().any(|found| found.run.outcome == *outcome)
}

/// Returns true if the event may still be answered.
fn is_open(why: &Why, look: &Look) -> bool {
    why.event.took_us.is_none() && look.now_ms() - why.event.at < LONGEST
}

/// Formats the reason why there is no answer.
fn unanswered(why: &Why, look: &Look) -> String {
    if ended_so(why, &RunOutcome::Orphaned) {
        return "becket was killed, and the answers of its hooks were lost".to_owned();
    }
    running(why, look).unwrap_or_else(|| not_to_come(why, look).to_owned())
}

/// Formats the hooks that are running, and their deadline.
fn running(why: &Why, look: &Look) -> Option<String> {
    let all: Vec<_> = why.runs.iter().filter(|found| goes_on(found)).collect();
    let until = all.iter().filter_map(|found| found.until).max()?;
    let who = match &*all {
        [one] => format!("{} runs", one_line(&one.run.hook)),
        all => format!("{} hooks run", all.len()),
    };
    let until = clock(until, &look.now);
    Some(format!("{who} still, until {until} at most"))
}

fn not_to_come(why: &Why, look: &Look) -> &'static str {
    if ended_so(why, &RunOutcome::Cancelled) {
        return "Claude Code ended or stopped waiting, and its hooks were ended";
    }
    if ended_so(why, &RunOutcome::CutOff) {
        return "the daemon ended before its hooks did, and Claude Code got an error";
    }
    match (why.event.source, is_open(why, look)) {
        // The shim spools a frame without a detour if it finds no becket.
        (Source::Alone, _) if why.detour.is_none() => {
            "the program becket was missing beside becket-hook"
        }
        (Source::Alone, true) => "its hooks run still, or becket was killed",
        (Source::Alone, false) => "becket was killed before it could answer",
        (_, true) if why.runs.is_empty() => {
            "its hooks have not begun, or Claude Code did not wait for an answer"
        }
        (_, true) => "its hooks are not done",
        (_, false) => "Claude Code did not wait for an answer",
    }
}

/// Explains a word of [`becket_wire::NoAnswer`].
fn missed(why: &str) -> String {
    match why {
        "absent" => "no daemon ran",
        "slow" => "the daemon was too slow",
        "busy" => "the daemon had too much to do",
        "refused" => "the daemon refused",
        "broken" => "the daemon went away",
        "stranger" => "the daemon was another user's",
        "unwanted" => "BECKET_NO_DAEMON is set",
        other => other,
    }
    .to_owned()
}

fn run(found: &LoggedRun, look: &Look) -> [Cell; RUNS.len()] {
    let run = &found.run;
    let (name, noted) = hook_runs::name_and_note(run);
    [
        Cell::new(&run.hook, name),
        Cell::new(time::took(run.took_us), hook_runs::pace(run.took_us)),
        Cell::new(hook_runs::outcome(run), hook_runs::ended(run)),
        Cell::new(run.decision.as_deref().unwrap_or_default(), WARN),
        Cell::new(hook_runs::note(found, look.now_ms()), noted),
    ]
}

/// The explanation as JSON.
#[derive(Debug, Serialize)]
pub struct JsonExplanation<'a> {
    event_id: String,
    at: String,
    session_id: Option<&'a str>,
    agent_id: Option<&'a str>,
    event: Option<&'a str>,
    tool: Option<&'a str>,
    decision: Option<DecisionRow>,
    /// The decision of the session's effort.
    effort: Option<&'a serde_json::Value>,
    took_us: Option<i64>,
    source: Source,
    detour: Option<&'a str>,
    fault: Option<&'a str>,
    runs: Vec<hook_runs::JsonRun<'a>>,
    skipped: &'a [Skipped],
    allow_once: Option<&'a str>,
}

impl<'a> From<&'a Why> for JsonExplanation<'a> {
    fn from(why: &'a Why) -> Self {
        let event = &why.event;
        Self {
            event_id: event.id.to_string(),
            at: timestamp(event.at),
            session_id: event.session_id.as_deref(),
            agent_id: event.agent_id.as_deref(),
            event: event.event.as_deref(),
            tool: event.tool.as_deref(),
            decision: event.decision.as_ref().map(DecisionRow::without_effort),
            effort: event.decision.as_ref().and_then(|it| it.effort.as_ref()),
            took_us: event.took_us,
            source: event.source,
            detour: why.detour.as_deref(),
            fault: event.fault.as_deref(),
            runs: why.runs.iter().map(hook_runs::JsonRun::from).collect(),
            skipped: &why.skipped,
            allow_once: why.allow_once.as_deref(),
        }
    }
}
