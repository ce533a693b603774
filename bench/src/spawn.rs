//! `spawn`: one event through the real shim and the real daemon, commit included, beside other
//! programs that Claude Code might start for it.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::args::Order;
use crate::busy::{Load, Spinners};
use crate::event::{Call, Payloads, SESSION};
use crate::nothing;
use crate::report::{Bar, Report, Table, number};
use crate::samples::{Figures, Samples};
use crate::world::{Daemon, Programs, World};

const ROUNDS: usize = 3000;
/// Rivals that take a hundred times as long take part in every so-manieth round.
const SLOW: usize = 20;
const WARM_UP: usize = 100;
/// becket where the session works on an effort.
const IN_EFFORT: &str = "becket, effort";
/// becket with an event of 2 KB.
const OF_EDIT: &str = "becket, 2 KB";

/// A program that takes part.
struct Rival {
    name: String,
    program: PathBuf,
    args: Vec<String>,
    every: usize,
}

impl Rival {
    fn new(name: &str, program: impl Into<PathBuf>, args: Vec<String>, every: usize) -> Self {
        Self {
            name: name.to_owned(),
            program: program.into(),
            args,
            every,
        }
    }

    fn is_becket(&self) -> bool {
        self.name.starts_with("becket")
    }

    /// One call, as Claude Code makes it: the event on stdin, stdout read to its end.
    fn call(&self, world: &World, payload: &[u8]) -> Result<std::time::Duration> {
        let mut command: Command = world.command(&self.program);
        command
            .args(&self.args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let begin = Instant::now();
        let mut child = command
            .spawn()
            .with_context(|| format!("could not start {}", self.program.display()))?;
        if let Some(mut stdin) = child.stdin.take() {
            // Those who do not read their input may be gone already.
            drop(stdin.write_all(payload));
        }
        let mut output = Vec::new();
        if let Some(mut stdout) = child.stdout.take() {
            stdout.read_to_end(&mut output)?;
        }
        let status = child.wait()?;
        let took = begin.elapsed();
        if !status.success() || (self.is_becket() && !output.is_empty()) {
            bail!("{} ended with {status} and said {output:?}", self.name);
        }
        Ok(took)
    }
}

/// The figures of all rivals in one run under one load.
struct Run {
    load: Load,
    figures: Vec<(String, Figures)>,
}

impl Run {
    fn of(&self, name: &str) -> Option<Figures> {
        let found = self.figures.iter().find(|(rival, _)| rival == name);
        found.map(|(_, figures)| *figures)
    }

    /// becket beside `/bin/true`: the ratio of the medians, and of the p99.
    fn ratios(&self) -> Option<(f64, f64)> {
        let (becket, truth) = (self.of("becket")?, self.of("/bin/true")?);
        Some((becket.median / truth.median, becket.p99 / truth.p99))
    }
}

pub fn run(order: &Order) -> Result<Report> {
    let world = World::new(&Programs::find(order)?)?;
    let mut report = Report::new(order);
    let mut rivals = rivals(&world, order, &mut report.notes)?;
    let rounds = order.rounds.unwrap_or(ROUNDS);
    let daemon = world.daemon()?;
    let mut payloads = Payloads::new(Call::Bash)?;
    let mut edits = Payloads::new(Call::Edit)?;
    let at_work = World::new(&Programs::find(order)?)?;
    let _daemon_at_work = start_effort(&at_work, payloads.next_payload())?;
    rivals.insert(
        1,
        Rival::new(IN_EFFORT, &at_work.hook, at_work.hook_args(), 1),
    );
    rivals.insert(1, Rival::new(OF_EDIT, &world.hook, world.hook_args(), 1));
    let mut runs = Vec::new();
    for _ in 0..order.runs {
        for &load in &order.loads {
            let spinners = Spinners::start(load)?;
            let figures = measure(&world, &rivals, rounds, [&mut payloads, &mut edits])?;
            drop(spinners);
            runs.push(Run { load, figures });
        }
    }
    note_the_roads(&daemon, &mut report)?;
    tell(order, &runs, &mut report);
    Ok(report)
}

/// A world whose session works on an effort that says nothing.
fn start_effort(world: &World, event: &[u8]) -> Result<Daemon> {
    let config = "[effort]\nremind = 0\ndeny = 0\n";
    std::fs::create_dir_all(world.place.home())?;
    std::fs::write(world.place.config(), config)?;
    let daemon = world.daemon()?;
    let hook = Rival::new(IN_EFFORT, &world.hook, world.hook_args(), 1);
    hook.call(world, event)?;
    let task = world.project().join("task").to_string_lossy().into_owned();
    for verb in [
        ["task", "new", &task].as_slice(),
        &["effort", "start", "implement", "--task", "1"],
    ] {
        let mut becket = world.command(&world.becket);
        becket.env("CLAUDE_CODE_SESSION_ID", SESSION).args(verb);
        let done = becket.stdin(Stdio::null()).output()?;
        if !done.status.success() {
            bail!("{verb:?}: {}", String::from_utf8_lossy(&done.stderr));
        }
    }
    Ok(daemon)
}

fn rivals(world: &World, order: &Order, notes: &mut Vec<String>) -> Result<Vec<Rival>> {
    let null = world.root().join("nothing");
    nothing::build(&null)?;
    let mut rivals = vec![
        Rival::new("becket", &world.hook, world.hook_args(), 1),
        Rival::new("/bin/true", "/bin/true", Vec::new(), 1),
        Rival::new("null", null, Vec::new(), 1),
    ];
    let scripts = [
        ("bash+jq", "bash", "tool=$(jq -r .tool_name)\n"),
        (
            "python",
            "python3",
            "import json, sys\njson.load(sys.stdin)\n",
        ),
        (
            "node",
            "node",
            "JSON.parse(require('fs').readFileSync(0, 'utf8'))\n",
        ),
    ];
    for (name, program, script) in scripts {
        let needed = if name == "bash+jq" { "jq" } else { program };
        let (Some(program), Some(_)) = (find(program), find(needed)) else {
            notes.push(format!("SKIPPED: {name} ({needed} is not installed)"));
            continue;
        };
        let file = world.root().join(format!("{needed}-hook"));
        std::fs::write(&file, script)?;
        let args = vec![file.to_string_lossy().into_owned()];
        rivals.push(Rival::new(name, program, args, SLOW));
    }
    if let Some(wanted) = &order.rivals {
        let is_wanted = |name: &str| wanted.iter().any(|want| want == name);
        rivals.retain(|rival| {
            matches!(&*rival.name, "becket" | "/bin/true") || is_wanted(&rival.name)
        });
    }
    for line in &order.also {
        let mut words = line.split_ascii_whitespace().map(str::to_owned);
        let program = words.next().context("--also names no program")?;
        rivals.push(Rival::new(line, program, words.collect(), 1));
    }
    Ok(rivals)
}

/// A program of the system's own: version managers put slow scripts before them on the path.
fn find(program: &str) -> Option<PathBuf> {
    ["/usr/local/bin", "/usr/bin", "/bin"]
        .into_iter()
        .map(|folder| Path::new(folder).join(program))
        .find(|path| path.exists())
}

/// So many calls are open at the most; nobody's session has a thousand.
const CALLS: usize = 8;

fn measure(
    world: &World,
    rivals: &[Rival],
    rounds: usize,
    [payloads, edits]: [&mut Payloads; 2],
) -> Result<Vec<(String, Figures)>> {
    let mut samples = vec![Samples::default(); rivals.len()];
    let warm_up = WARM_UP.min(rounds);
    for round in 0..warm_up + rounds {
        let warm = round >= warm_up;
        for turn in 0..rivals.len() {
            let at = (round + turn) % rivals.len();
            let rival = &rivals[at];
            if round % rival.every != 0 {
                continue;
            }
            let payload = match &*rival.name {
                OF_EDIT => edits.next_payload(),
                _ => payloads.next_payload(),
            };
            let took = rival.call(world, payload)?;
            if warm {
                samples[at].push(took);
            }
            if rival.is_becket() && round % CALLS == 0 {
                rival.call(world, &Payloads::end())?;
            }
        }
    }
    let figures = rivals
        .iter()
        .zip(&samples)
        .filter_map(|(rival, samples)| Some((rival.name.clone(), samples.figures()?)));
    Ok(figures.collect())
}

/// Says how many of the events did not go through the daemon: those cost something else.
fn note_the_roads(daemon: &Daemon, report: &mut Report) -> Result<()> {
    let status = daemon.client()?.status()?;
    let counts = status.counts;
    report.notes.push(format!(
        "{} events are in the database, {} of them by way of the spool; {} were answered Busy, {} were late",
        status.events, counts.taken_in, counts.busy, counts.late
    ));
    Ok(())
}

fn tell(order: &Order, runs: &[Run], report: &mut Report) {
    for &load in &order.loads {
        let of_load: Vec<&Run> = runs.iter().filter(|run| run.load == load).collect();
        let ratio = |run: &Run| run.ratios().map_or(f64::INFINITY, |(median, _)| median);
        let best = of_load
            .iter()
            .copied()
            .min_by(|a, b| ratio(a).total_cmp(&ratio(b)));
        if let Some(best) = best {
            report.tables.push(table(best, of_load.len()));
            bars(best, report);
        }
        if of_load.len() > 1 {
            report.tables.push(every_run(load, &of_load));
        }
    }
    report.figures = Value::Array(runs.iter().map(in_json).collect());
}

fn table(run: &Run, runs: usize) -> Table {
    let truth = run.of("/bin/true");
    let rows = run.figures.iter().map(|(name, figures)| {
        let beside = |ours: f64, theirs: Option<f64>| {
            theirs.map_or_else(String::new, |theirs| number(ours / theirs))
        };
        vec![
            name.clone(),
            number(figures.median),
            beside(figures.median, truth.map(|truth| truth.median)),
            number(figures.p99),
            beside(figures.p99, truth.map(|truth| truth.p99)),
            figures.count.to_string(),
        ]
    });
    let best = if runs > 1 {
        format!(" (the best of {runs} runs)")
    } else {
        String::new()
    };
    Table {
        title: format!("{}{best}", run.load.name()),
        columns: vec![
            "program",
            "median µs",
            "× true",
            "p99 µs",
            "× true",
            "calls",
        ],
        rows: rows.collect(),
    }
}

fn every_run(load: Load, runs: &[&Run]) -> Table {
    let rows = runs.iter().enumerate().filter_map(|(at, run)| {
        let (median, p99) = run.ratios()?;
        Some(vec![(at + 1).to_string(), number(median), number(p99)])
    });
    Table {
        title: format!("{}: becket beside /bin/true, every run", load.name()),
        columns: vec!["run", "median × true", "p99 × true"],
        rows: rows.collect(),
    }
}

fn bars(best: &Run, report: &mut Report) {
    let Some((median, p99)) = best.ratios() else {
        return;
    };
    match best.load {
        Load::Idle => {
            report.bars.extend([
                Bar::at_most("idle: median × true", median, 1.0, None),
                Bar::at_most("idle: p99 × true", p99, 1.5, None),
            ]);
            if let (Some(edit), Some(truth)) = (best.of(OF_EDIT), best.of("/bin/true")) {
                let ratio = edit.median / truth.median;
                report
                    .bars
                    .push(Bar::at_most("idle, 2 KB: median × true", ratio, 1.0, None));
            }
            if let (Some(with), Some(without)) = (best.of(IN_EFFORT), best.of("becket")) {
                let ratio = with.median / without.median;
                let what = "idle: median with an effort × without";
                report.bars.push(Bar::at_most(what, ratio, 1.1, None));
            }
        }
        Load::OneCore => report.bars.push(Bar::at_most(
            "one core busy: median × true",
            median,
            1.2,
            None,
        )),
        Load::All => {}
    }
}

fn in_json(run: &Run) -> Value {
    let figures = run.figures.iter().map(|(name, figures)| {
        json!({
            "program": name, "median_us": figures.median, "p99_us": figures.p99,
            "calls": figures.count,
        })
    });
    json!({"load": run.load.name(), "programs": figures.collect::<Vec<_>>()})
}
