//! `becket replay`: a recorded session once more, in the live view or through one hook.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use becket_wire::hook_run::RunRow;
use becket_wire::rpc::{EventQuery, EventRow};
use becket_wire::session::SessionRow;
use serde::Serialize;
use serde_json::Value;

use crate::demo::{Player, ScriptedEvent, ScriptedPayload, Stage};
use crate::failure::{Code, Failure};
use crate::hook_runs::{self, Times};
use crate::hook_trial::{Sample, TrialResult, TrialSetup, report};
use crate::session::source::SessionSource;
use crate::tui;
use crate::ui::style::{BOLD, DIM, Look};
use crate::ui::text::{count, fit, one_line};
use crate::ui::time::{self, clock};
use crate::verb::demo::speed;
use crate::world::{World, the_session};

/// Play a recorded session again, or run its events through a hook
#[derive(Debug, clap::Args)]
pub struct ReplayArgs {
    /// The session: the first characters of its id, or its title (inside Claude Code: its own)
    #[arg(value_name = "ID")]
    session: Option<String>,
    /// Play N times as fast as it happened
    #[arg(long, value_name = "N", default_value_t = 4.0, value_parser = speed)]
    speed: f64,
    /// Print the events as lines instead of opening the live view
    #[arg(long)]
    plain: bool,
    /// Run the events through this hook instead: its name, or a part that only it has
    #[arg(long, value_name = "NAME", conflicts_with_all = ["speed", "plain"])]
    hook: Option<String>,
    /// Print JSON
    #[arg(long, requires = "hook")]
    json: bool,
}

impl ReplayArgs {
    pub fn run(self, world: &World) -> Result<ExitCode> {
        let meant = the_session(self.session)?;
        let recording = Recording::read(world, &meant)?;
        if let Some(typed) = &self.hook {
            return run_hook(world, recording, typed, self.json);
        }
        if recording.left_out > 0 {
            let events = count(recording.left_out, "event is", "events are");
            anstream::eprintln!("warning: {events} left out: the payload was deleted");
        }
        let mut events = recording.events();
        let stage = Stage::build(world)?;
        let player = Player::new(&stage.world, "replay", self.speed);
        if self.plain || !tui::suits_terminal() {
            player.print(&events)?;
            println!("{} replayed.", count(events.len(), "event", "events"));
        } else {
            // The view lists no session that has ended.
            events.pop_if(|event| event.is("SessionEnd"));
            player.show(&events)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Longer pauses between two events are shortened to this, in milliseconds, before the speed
/// divides them.
const LONGEST_PAUSE: i64 = 3_000;

#[derive(Debug)]
pub struct Recording {
    pub session: SessionRow,
    /// The events that can be replayed, with their payloads parsed.
    pub events: Vec<(EventRow, Value)>,
    /// The number of events without a payload that can be played: retention dropped it, or it is not an event.
    pub left_out: usize,
}

impl Recording {
    /// Reads the session that is meant. No daemon is started for it.
    pub fn read(world: &World, meant: &str) -> Result<Self> {
        let mut source = SessionSource::open_quietly(world);
        let session = source.find(meant)?;
        let query = EventQuery {
            session: Some(session.session_id.clone()),
            ..EventQuery::default()
        };
        let rows = source.events(query)?;
        let all = rows.len();
        let events: Vec<_> = rows.into_iter().filter_map(parse).collect();
        let left_out = all - events.len();
        if events.is_empty() {
            let id = &session.session_id;
            let what = format!("session {id} cannot be replayed: no payload of its events is kept");
            let hint = "store.keep_days and store.keep_bytes set how long payloads are kept";
            return Err(Failure::new(Code::Failed, what).hint(hint).into());
        }
        Ok(Self {
            session,
            events,
            left_out,
        })
    }

    /// Returns the events to play, with their pauses. Long pauses are shortened.
    pub fn events(&self) -> Vec<ScriptedEvent> {
        let project = self.session.project.as_deref().unwrap_or_default();
        let (mut at, mut before) = (0, None);
        let events = self.events.iter().map(|(row, payload)| {
            let pause = before.map_or(0, |before| row.at - before);
            at += pause.clamp(0, LONGEST_PAUSE);
            before = Some(row.at);
            let mut payload = payload.clone();
            // The daemon would read the transcript as it is today.
            if let Some(fields) = payload.as_object_mut() {
                fields.remove("transcript_path");
            }
            ScriptedEvent {
                at,
                project: project.to_owned(),
                payload: ScriptedPayload::Event(row.event.clone().unwrap_or_default(), payload),
            }
        });
        events.collect()
    }
}

fn parse(row: EventRow) -> Option<(EventRow, Value)> {
    let payload: Value = serde_json::from_slice(row.payload.as_deref()?).ok()?;
    let is_event = payload.is_object() && row.event.is_some();
    is_event.then_some((row, payload))
}

/// Columns of the event's name and of how the run ended.
const EVENT_WIDTH: usize = 26;
const OUTCOME_WIDTH: usize = 11;

/// The whole replay, for scripts.
#[derive(Debug, Serialize)]
struct Report<'a> {
    session_id: &'a str,
    hook: &'a str,
    events: usize,
    unwanted: usize,
    left_out: usize,
    median_us: i64,
    p95_us: i64,
    runs: Vec<report::Json<'a>>,
}

/// One event that the hook was run on.
struct Trial {
    sample: Sample,
    /// Why the hook would not have run in the session.
    standing: Option<String>,
    tried: TrialResult,
}

/// Runs the events through the hook of the session's project that `typed` names.
pub fn run_hook(world: &World, recording: Recording, typed: &str, json: bool) -> Result<ExitCode> {
    let Recording {
        session,
        events,
        mut left_out,
    } = recording;
    let all = events.len() + left_out;
    let mut world = world.clone();
    // Without its folder the hooks are those of where we are.
    if let Some(project) = session.project.filter(|folder| Path::new(folder).is_dir()) {
        world.cwd = project.into();
    }
    let bench = TrialSetup::new(&world)?;
    let hook = bench.named(typed)?;
    bench.refuse_untrusted(hook)?;
    let look = Look::of_stdout();
    let (mut trials, mut unwanted) = (Vec::new(), 0);
    for (row, _) in events {
        let at = row.at;
        let Some(sample) = Sample::of(row) else {
            left_out += 1;
            continue;
        };
        if !bench.wants(hook, &sample) {
            unwanted += 1;
            continue;
        }
        let trial = Trial {
            standing: bench.obstacle(hook, &sample),
            tried: bench.try_on(hook, &sample)?,
            sample,
        };
        if !json {
            anstream::println!("{}", line(&trial, at, &look));
        }
        let cancelled = trial.tried.was_cancelled();
        trials.push(trial);
        if cancelled {
            break;
        }
    }
    let rows = || trials.iter().map(|trial| &trial.tried.row);
    let times = Times::new(rows().map(|row| row.took_us).collect());
    let report = Report {
        session_id: &session.session_id,
        hook: &hook.name,
        events: all,
        unwanted,
        left_out,
        median_us: times.at(50),
        p95_us: times.at(95),
        runs: trials.iter().map(Trial::json).collect(),
    };
    if json {
        println!("{}", crate::ui::text::json(&report)?);
    } else {
        let mut counts = tally(rows(), |row| Some(row.outcome.as_str()));
        counts.extend(tally(rows(), |row| row.decision.as_deref()));
        anstream::println!("{}", summary(&report, &counts));
    }
    let is_bad = |trial: &Trial| trial.tried.row.has_failed() || trial.tried.was_cancelled();
    Ok(ExitCode::from(u8::from(trials.iter().any(is_bad))))
}

impl Trial {
    fn json(&self) -> report::Json<'_> {
        report::json(&self.tried, &self.sample, self.standing.as_deref())
    }

    /// Returns the answer of the hook in one line.
    fn said(&self) -> String {
        let said = match &self.tried.answer {
            Err(why) => why.clone(),
            Ok(answer) => match (answer.decision(), answer.contexts().first()) {
                (Some((word, Some(reason))), _) => format!("{word}: {reason}"),
                (Some((word, None)), _) => word.to_owned(),
                (None, Some(context)) => format!("context: {context}"),
                (None, None) => String::new(),
            },
        };
        match &self.standing {
            Some(standing) => format!("{said} (would not run: {standing})"),
            None => said,
        }
    }
}

fn line(trial: &Trial, at: i64, look: &Look) -> String {
    let row = &trial.tried.row;
    let (ended, pace) = (hook_runs::ended(row), hook_runs::pace(row.took_us));
    let clock = clock(at, &look.now);
    let event = fit(&one_line(&trial.sample.name()), EVENT_WIDTH, look.glyphs);
    let outcome = hook_runs::outcome(row);
    let took = time::took(row.took_us);
    let used = clock.len() + EVENT_WIDTH + OUTCOME_WIDTH + 8 + 8;
    let said = one_line(trial.said().trim());
    let said = fit(&said, look.width.saturating_sub(used).max(20), look.glyphs);
    let line = format!(
        "{DIM}{clock}{DIM:#}  {event:EVENT_WIDTH$}  {ended}{outcome:OUTCOME_WIDTH$}{ended:#}  {pace}{took:>8}{pace:#}  {said}"
    );
    line.trim_end().to_owned()
}

fn summary(report: &Report<'_>, counts: &[String]) -> String {
    let hook = one_line(report.hook);
    let runs = count(report.runs.len(), "run", "runs");
    let mut parts = vec![format!("{BOLD}{hook}{BOLD:#}: {runs}")];
    parts.extend_from_slice(counts);
    if !report.runs.is_empty() {
        parts.push(format!("median {}", time::took(report.median_us)));
    }
    let events = count(report.events, "event", "events");
    let mut text = format!(
        "{}\n{events}, {} not wanted by the hook",
        parts.join(", "),
        report.unwanted
    );
    if report.left_out > 0 {
        text += &format!(", {} without a payload", report.left_out);
    }
    text
}

/// Counts each word: `3 ok`, `1 failed`.
fn tally<'r>(
    rows: impl Iterator<Item = &'r RunRow>,
    word: impl Fn(&'r RunRow) -> Option<&'r str>,
) -> Vec<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for word in rows.filter_map(word) {
        *counts.entry(word).or_default() += 1;
    }
    let counts = counts.into_iter();
    counts.map(|(word, n)| format!("{n} {word}")).collect()
}
