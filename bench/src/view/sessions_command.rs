//! Measures `becket sessions` with few and with many events stored, in turn.

use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::args::BenchOptions;
use crate::filled_world::FilledWorld;
use crate::report::{Bar, Report, Table, number};
use crate::samples::Samples;
use crate::synthetic_sessions::SyntheticSessions;
use crate::world::Programs;

const ROUNDS: usize = 200;
const WARM_UP: usize = 5;
const LIVE: usize = 8;
/// The time limit for the end of the filled sessions. Their process does not exist, which the daemon
/// notices within seconds.
const TIMEOUT: Duration = Duration::from_secs(60);

const PROGRAMS: [(&str, &[&str]); 4] = [
    ("becket sessions", &["sessions"]),
    ("becket sessions --json", &["sessions", "--json"]),
    ("becket daemon status", &["daemon", "status"]),
    ("/bin/true", &[]),
];

/// A world with a number of stored events, and the times of the programs in it.
pub struct StoreSize {
    stored: usize,
    filled: FilledWorld,
    times: [Samples; PROGRAMS.len()],
}

impl StoreSize {
    fn new(programs: &Programs, stored: usize) -> Result<Self> {
        let filled = FilledWorld::new(programs, stored)?;
        let mut client = filled.daemon.client()?;
        let begin = Instant::now();
        while client.sessions()? > 0 {
            if begin.elapsed() > TIMEOUT {
                bail!("the filled sessions do not end");
            }
            std::thread::park_timeout(Duration::from_millis(100));
        }
        SyntheticSessions::begin(&filled.world, &mut client, LIVE)?;
        Ok(Self {
            stored,
            filled,
            times: [const { Samples::new() }; PROGRAMS.len()],
        })
    }

    fn measure(&mut self, at: usize, warm: bool) -> Result<()> {
        let (name, args) = PROGRAMS[at];
        let world = &self.filled.world;
        let mut command = if name.starts_with("becket") {
            world.command(&world.becket)
        } else {
            world.command(name)
        };
        command.args(args).stdin(Stdio::null());
        let begin = Instant::now();
        let output = command
            .output()
            .with_context(|| format!("could not start {name}"))?;
        let took = begin.elapsed();
        let shown = String::from_utf8_lossy(&output.stdout);
        let all = (0..LIVE).all(|one| shown.contains(&format!("Part {one} of")));
        if !output.status.success() || (name.contains("sessions") && !all) {
            let stderr = String::from_utf8_lossy(&output.stderr);
            bail!("{name} ended with {}: {shown}{stderr}", output.status);
        }
        if warm {
            self.times[at].push(took);
        }
        Ok(())
    }
}

pub fn run(programs: &Programs, options: &BenchOptions) -> Result<Vec<StoreSize>> {
    let mut sizes = options
        .stored
        .iter()
        .map(|&stored| StoreSize::new(programs, stored))
        .collect::<Result<Vec<_>>>()?;
    for round in 0..WARM_UP + ROUNDS * options.runs {
        for turn in 0..PROGRAMS.len() {
            for size in &mut sizes {
                size.measure((round + turn) % PROGRAMS.len(), round >= WARM_UP)?;
            }
        }
    }
    Ok(sizes)
}

pub fn fill_report(sizes: &[StoreSize], report: &mut Report) -> Value {
    let mut rows = Vec::new();
    let mut figures = Vec::new();
    for size in sizes {
        let Some(floor) = size.times[PROGRAMS.len() - 1].figures() else {
            continue;
        };
        for ((name, _), times) in PROGRAMS.iter().zip(&size.times) {
            let Some(figure) = times.figures() else {
                continue;
            };
            rows.push(vec![
                (*name).to_owned(),
                number(size.stored as f64),
                number(figure.median),
                number(figure.median / floor.median),
                number(figure.p99),
            ]);
            figures.push(json!({
                "program": name, "stored": size.stored, "median_us": figure.median,
                "p99_us": figure.p99, "calls": figure.count,
            }));
            if name.contains("sessions") && size.stored >= 1_000_000 {
                let bar_name = format!("{name} at {}, ms", number(size.stored as f64));
                let bar = Bar::at_most(bar_name, figure.median / 1000.0, 30.0, None);
                report.bars.push(bar);
            }
        }
    }
    report.tables.push(Table {
        title: format!("One call, with {LIVE} live sessions"),
        columns: vec!["program", "stored", "median µs", "× true", "p99 µs"],
        rows,
    });
    json!(figures)
}
