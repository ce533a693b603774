//! Why an event came out as it did, as `becket why` tells it: the event, each hook that ran, those
//! that did not, and the one decision.

use becket_daemon::store::FoundRun;
use becket_wire::hook_run::RunOutcome;
use becket_wire::rpc::{DecisionRow, EventRow, Source};
use serde::Serialize;

use crate::ui::style::{BAD, BOLD, DIM, Look, WARN};
use crate::ui::table::{Cell, Column, grid};
use crate::ui::text::{one_line, wrap};
use crate::ui::time::{self, clock, moment};
use crate::{line, run};

/// Longer lines are hard to read, and so are longer reasons.
const READABLE: usize = 100;
const REASON_CHARS: usize = 2000;
/// Claude Code waits no longer for any event: milliseconds.
const LONGEST: i64 = 600_000;

/// Everything that is known of how one event came out.
#[derive(Debug)]
pub struct Why {
    pub event: EventRow,
    /// Why it did not come by the daemon.
    pub detour: Option<String>,
    /// In the order in which they began.
    pub runs: Vec<FoundRun>,
    pub skipped: Vec<Skipped>,
    /// The code by which the denied call can be allowed once.
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

pub fn full(why: &Why, look: &Look) -> String {
    let event = &why.event;
    let name = [event.event.as_deref(), event.tool.as_deref()];
    let name: Vec<&str> = name.into_iter().flatten().collect();
    let mut out = format!(
        "{BOLD}{}{BOLD:#}  {}\n",
        one_line(&name.join(" ")),
        said(why)
    );
    let fields = fields(why, look);
    let width = fields.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    for (name, value) in fields {
        out += &format!("  {DIM}{name:width$}{DIM:#}  {value}\n");
    }
    out += &reason(event, width, look);
    if let Some(code) = &why.allow_once {
        out += &format!(
            "  {DIM}{:width$}{DIM:#}  becket guard allow-once {code}\n",
            "allow"
        );
    }
    let inside = Look {
        width: look.width.saturating_sub(2),
        ..look.clone()
    };
    if why.runs.is_empty() {
        let none = match is_open(why, look) {
            true => "No run of a hook is known yet",
            false => "No hook ran",
        };
        out += &format!("\n{BOLD}{none}{BOLD:#}\n");
    } else {
        let rows: Vec<_> = why.runs.iter().map(|one| run(one, look)).collect();
        out += &format!("\n{BOLD}{}{BOLD:#}\n", title(&why.runs));
        out += &indent(&grid(RUNS, &rows, &inside));
    }
    if !why.skipped.is_empty() {
        let row = |one: &Skipped| [Cell::new(&one.hook, BOLD), Cell::plain(&one.reason)];
        let rows: Vec<_> = why.skipped.iter().map(row).collect();
        out += &format!("\n{BOLD}Hooks that did not run{BOLD:#} {DIM}(by today's config){DIM:#}\n");
        out += &indent(&grid(SKIPPED, &rows, &inside));
    }
    out
}

/// One that could not be started is listed among the others, and has not run.
fn title(runs: &[FoundRun]) -> &'static str {
    let unstarted = |found: &FoundRun| found.run.outcome == RunOutcome::NotStarted;
    if runs.iter().any(goes_on) {
        return "Hooks that run, or ran";
    }
    match (runs.iter().all(unstarted), runs.iter().any(unstarted)) {
        (true, _) => "Hooks that could not be started",
        (_, true) => "Hooks that ran, or could not be started",
        _ => "Hooks that ran",
    }
}

fn goes_on(found: &FoundRun) -> bool {
    found.until.is_some()
}

fn indent(text: &str) -> String {
    text.lines().map(|line| format!("  {line}\n")).collect()
}

/// What was answered, and on whose account.
fn said(why: &Why) -> String {
    let event = &why.event;
    match &event.decision {
        Some(decision) => {
            let decided = one_line(&line::decided(decision));
            format!("{WARN}{decided}{WARN:#}")
        }
        None if event.took_us.is_none() && why.runs.iter().any(goes_on) => {
            format!("{DIM}not answered yet{DIM:#}")
        }
        None if event.took_us.is_none() => format!("{DIM}not answered{DIM:#}"),
        None => format!("{DIM}no opinion{DIM:#}"),
    }
}

/// Why it was refused may take a few lines.
fn reason(event: &EventRow, width: usize, look: &Look) -> String {
    let decision = event.decision.as_ref();
    let Some(reason) = decision.and_then(|decision| decision.reason.as_deref()) else {
        return String::new();
    };
    let reason: String = reason.chars().take(REASON_CHARS).collect();
    let room = look.width.min(READABLE).saturating_sub(width + 4).max(20);
    let names = std::iter::once("reason").chain(std::iter::repeat(""));
    let lines = names.zip(wrap(&reason, room));
    lines
        .map(|(name, line)| format!("  {DIM}{name:width$}{DIM:#}  {line}\n"))
        .collect()
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
    let about = line::about(event).chars().take(room).collect::<String>();
    add("about", Some(about).filter(|about| !about.is_empty()));
    let fault = event.fault.as_deref();
    add(
        "fault",
        fault.map(|fault| format!("{BAD}{}{BAD:#}", one_line(fault))),
    );
    add("judged", Some(judged(why, look)));
    fields
}

/// By whom, and how long that took, or why there was no answer.
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

/// Whether it may still be answered: nothing says that it will not be.
fn is_open(why: &Why, look: &Look) -> bool {
    why.event.took_us.is_none() && look.now_ms() - why.event.at < LONGEST
}

/// Why there is no answer, as far as becket knows it.
fn unanswered(why: &Why, look: &Look) -> String {
    if ended_so(why, &RunOutcome::Orphaned) {
        return "becket was killed, and the answers of its hooks were lost".to_owned();
    }
    running(why, look).unwrap_or_else(|| not_to_come(why, look).to_owned())
}

/// Which hooks run, and how long they may.
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
        // A bare frame, as a shim leaves it.
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

/// The words of [`becket_wire::NoAnswer`], for a person.
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

fn run(found: &FoundRun, look: &Look) -> [Cell; RUNS.len()] {
    let run = &found.run;
    let failed = run.has_failed();
    [
        Cell::new(&run.hook, if failed { BAD.bold() } else { BOLD }),
        Cell::new(time::took(run.took_us), run::pace(run.took_us)),
        Cell::new(run::outcome(run), run::ended(run)),
        Cell::new(run.decision.as_deref().unwrap_or_default(), WARN),
        Cell::new(
            run::note(found, look.now_ms()),
            if failed { BAD } else { DIM },
        ),
    ]
}

/// The same for scripts.
#[derive(Debug, Serialize)]
pub struct Json<'a> {
    event_id: String,
    at: String,
    session_id: Option<&'a str>,
    agent_id: Option<&'a str>,
    event: Option<&'a str>,
    tool: Option<&'a str>,
    decision: Option<DecisionRow>,
    /// What the session's effort said.
    effort: Option<&'a serde_json::Value>,
    took_us: Option<i64>,
    source: Source,
    detour: Option<&'a str>,
    fault: Option<&'a str>,
    runs: Vec<run::Run<'a>>,
    skipped: &'a [Skipped],
    allow_once: Option<&'a str>,
}

impl<'a> From<&'a Why> for Json<'a> {
    fn from(why: &'a Why) -> Self {
        let event = &why.event;
        Self {
            event_id: event.id.to_string(),
            at: moment(event.at),
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
            runs: why.runs.iter().map(run::Run::from).collect(),
            skipped: &why.skipped,
            allow_once: why.allow_once.as_deref(),
        }
    }
}
