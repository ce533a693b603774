//! `spawn`: measures one event through the real shim and the real daemon, commit included, compared with
//! other programs that Claude Code might start for it.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::args::BenchOptions;
use crate::cpu_load::{Load, Spinners};
use crate::event::{PayloadKind, Payloads, SESSION};
use crate::null_program;
use crate::report::{Bar, Report, Table, number};
use crate::samples::{Figures, Samples};
use crate::world::{Daemon, Programs, World};

const ROUNDS: usize = 3000;
/// Rivals that take a hundred times as long run in one of this many rounds.
const SLOW_EVERY: usize = 20;
const WARM_UP: usize = 100;
/// The name of becket in a session that works on an effort.
const IN_EFFORT: &str = "becket, effort";
/// The name of becket with an event of 2 KB.
const LARGE_EVENT: &str = "becket, 2 KB";

/// A program that is measured.
struct Rival {
    name: String,
    program: PathBuf,
    args: Vec<String>,
    /// The program runs in one of this many rounds.
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

    /// Calls the program like Claude Code: writes the event to stdin and reads stdout to its end.
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
            // A program that does not read its input may have ended already.
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
struct LoadRun {
    load: Load,
    figures: Vec<(String, Figures)>,
}

impl LoadRun {
    fn figures_of(&self, name: &str) -> Option<Figures> {
        let rival = self.figures.iter().find(|(rival, _)| rival == name);
        rival.map(|(_, figures)| *figures)
    }

    /// Returns the ratios of becket to `/bin/true`: of the medians, and of the p99.
    fn ratios(&self) -> Option<(f64, f64)> {
        let (becket, truth) = (self.figures_of("becket")?, self.figures_of("/bin/true")?);
        Some((becket.median / truth.median, becket.p99 / truth.p99))
    }

    fn median_ratio(&self) -> f64 {
        self.ratios().map_or(f64::INFINITY, |(median, _)| median)
    }
}

pub fn run(options: &BenchOptions) -> Result<Report> {
    let world = World::new(&Programs::find(options)?)?;
    let mut report = Report::new(options);
    let mut rivals = rivals(&world, options, &mut report.notes)?;
    let rounds = options.rounds.unwrap_or(ROUNDS);
    let daemon = world.daemon()?;
    let mut payloads = Payloads::new(PayloadKind::Bash)?;
    let mut edits = Payloads::new(PayloadKind::Edit)?;
    let effort_world = World::new(&Programs::find(options)?)?;
    let _effort_daemon = start_effort(&effort_world, payloads.next_payload())?;
    rivals.insert(
        1,
        Rival::new(IN_EFFORT, &effort_world.hook, effort_world.hook_args(), 1),
    );
    rivals.insert(
        1,
        Rival::new(LARGE_EVENT, &world.hook, world.hook_args(), 1),
    );
    let mut runs = Vec::new();
    for _ in 0..options.runs {
        for &load in &options.loads {
            let spinners = Spinners::start(load)?;
            let figures = measure(&world, &rivals, rounds, [&mut payloads, &mut edits])?;
            drop(spinners);
            runs.push(LoadRun { load, figures });
        }
    }
    note_paths(&daemon, &mut report)?;
    fill_report(options, &runs, &mut report);
    Ok(report)
}

/// Starts a daemon whose session works on an effort that answers no event.
fn start_effort(world: &World, event: &[u8]) -> Result<Daemon> {
    let config = "[effort]\nremind = 0\ndeny = 0\n";
    std::fs::create_dir_all(world.place.home())?;
    std::fs::write(world.place.config(), config)?;
    let daemon = world.daemon()?;
    let hook = Rival::new(IN_EFFORT, &world.hook, world.hook_args(), 1);
    hook.call(world, event)?;
    let task = world.project().join("task").to_string_lossy().into_owned();
    for verb in [
        ["effort", "task", "new", &task].as_slice(),
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

fn rivals(world: &World, options: &BenchOptions, notes: &mut Vec<String>) -> Result<Vec<Rival>> {
    let null = world.root().join("nothing");
    null_program::build(&null)?;
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
        rivals.push(Rival::new(name, program, args, SLOW_EVERY));
    }
    if let Some(wanted) = &options.rivals {
        rivals.retain(|rival| {
            matches!(&*rival.name, "becket" | "/bin/true") || wanted.contains(&rival.name)
        });
    }
    for line in &options.also {
        let mut words = line.split_ascii_whitespace().map(str::to_owned);
        let program = words.next().context("--also names no program")?;
        rivals.push(Rival::new(line, program, words.collect(), 1));
    }
    Ok(rivals)
}

/// Finds a program of the system. Version managers put slow scripts before these on the PATH.
fn find(program: &str) -> Option<PathBuf> {
    ["/usr/local/bin", "/usr/bin", "/bin"]
        .into_iter()
        .map(|folder| Path::new(folder).join(program))
        .find(|path| path.exists())
}

/// The maximum number of open calls, because real sessions have only a few.
const OPEN_CALLS: usize = 8;

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
                LARGE_EVENT => edits.next_payload(),
                _ => payloads.next_payload(),
            };
            let took = rival.call(world, payload)?;
            if warm {
                samples[at].push(took);
            }
            if rival.is_becket() && round % OPEN_CALLS == 0 {
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

/// Notes how many of the events did not go through the daemon, because their cost differs.
fn note_paths(daemon: &Daemon, report: &mut Report) -> Result<()> {
    let status = daemon.client()?.status()?;
    let counts = status.counts;
    report.notes.push(format!(
        "{} events are in the database, {} of them by way of the spool; {} were answered Busy, {} were late",
        status.events, counts.taken_in, counts.busy, counts.late
    ));
    Ok(())
}

fn fill_report(options: &BenchOptions, runs: &[LoadRun], report: &mut Report) {
    for &load in &options.loads {
        let of_load: Vec<&LoadRun> = runs.iter().filter(|run| run.load == load).collect();
        let best = of_load
            .iter()
            .copied()
            .min_by(|a, b| a.median_ratio().total_cmp(&b.median_ratio()));
        if let Some(best) = best {
            report.tables.push(table(best, of_load.len()));
            bars(best, report);
        }
        if of_load.len() > 1 {
            report.tables.push(every_run(load, &of_load));
        }
    }
    report.figures = Value::Array(runs.iter().map(run_json).collect());
}

fn table(run: &LoadRun, runs: usize) -> Table {
    let truth = run.figures_of("/bin/true");
    let rows = run.figures.iter().map(|(name, figures)| {
        vec![
            name.clone(),
            number(figures.median),
            ratio_text(figures.median, truth.map(|truth| truth.median)),
            number(figures.p99),
            ratio_text(figures.p99, truth.map(|truth| truth.p99)),
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

fn ratio_text(ours: f64, theirs: Option<f64>) -> String {
    theirs.map_or_else(String::new, |theirs| number(ours / theirs))
}

fn every_run(load: Load, runs: &[&LoadRun]) -> Table {
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

fn bars(best: &LoadRun, report: &mut Report) {
    let Some((median, p99)) = best.ratios() else {
        return;
    };
    match best.load {
        Load::Idle => {
            report.bars.extend([
                Bar::at_most("idle: median × true", median, 1.0, None),
                Bar::at_most("idle: p99 × true", p99, 1.5, None),
            ]);
            if let (Some(edit), Some(truth)) =
                (best.figures_of(LARGE_EVENT), best.figures_of("/bin/true"))
            {
                let ratio = edit.median / truth.median;
                report
                    .bars
                    .push(Bar::at_most("idle, 2 KB: median × true", ratio, 1.0, None));
            }
            if let (Some(with), Some(without)) =
                (best.figures_of(IN_EFFORT), best.figures_of("becket"))
            {
                let ratio = with.median / without.median;
                let name = "idle: median with an effort × without";
                report.bars.push(Bar::at_most(name, ratio, 1.1, None));
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

fn run_json(run: &LoadRun) -> Value {
    let figures = run.figures.iter().map(|(name, figures)| {
        json!({
            "program": name, "median_us": figures.median, "p99_us": figures.p99,
            "calls": figures.count,
        })
    });
    json!({"load": run.load.name(), "programs": figures.collect::<Vec<_>>()})
}
