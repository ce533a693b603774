//! `growth`: measures one event, and `becket events`, with few and with many events stored. Each size has a
//! world of its own. The sizes are measured in turn.

use std::process::Stdio;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde_json::json;

use crate::args::BenchOptions;
use crate::client::Client;
use crate::event::{Frames, now_ms};
use crate::filled_world::FilledWorld;
use crate::report::{Bar, Report, Table, number};
use crate::samples::{Figures, Samples};
use crate::world::{Daemon, Programs, World};

const ROUNDS: usize = 2000;
/// `becket events` starts a process, so it runs in one of this many rounds.
const LIST_EVERY: usize = 20;
const WARM_UP: usize = 100;

/// A world with a number of stored events, and its times.
struct StoreSize {
    stored: usize,
    frames: Frames,
    client: Client,
    event: Samples,
    list: Samples,
    // The daemon is dropped before the world, because it ends before its folder is deleted.
    daemon: Daemon,
    world: World,
}

impl StoreSize {
    fn fill(programs: &Programs, stored: usize) -> Result<Self> {
        let FilledWorld {
            frames,
            daemon,
            world,
        } = FilledWorld::new(programs, stored)?;
        Ok(Self {
            stored,
            frames,
            client: daemon.client()?,
            event: Samples::default(),
            list: Samples::default(),
            daemon,
            world,
        })
    }

    fn send(&mut self, warm: bool) -> Result<()> {
        let frame = self.frames.next_frame(now_ms());
        let begin = Instant::now();
        self.client.event(frame)?;
        if warm {
            self.event.push(begin.elapsed());
        }
        Ok(())
    }

    fn list(&mut self, warm: bool) -> Result<()> {
        let begin = Instant::now();
        let output = self
            .world
            .command(&self.world.becket)
            .args(["events", "--limit", "50"])
            .stdin(Stdio::null())
            .output()
            .context("could not start becket")?;
        let took = begin.elapsed();
        let lines = output.stdout.split(|&byte| byte == b'\n').count() - 1;
        if !output.status.success() || lines < 50 {
            bail!(
                "becket events ended with {} after {lines} lines: {}",
                output.status,
                String::from_utf8_lossy(&output.stderr)
            );
        }
        if warm {
            self.list.push(took);
        }
        Ok(())
    }

    fn figures(&self) -> Option<(Figures, Figures)> {
        Some((self.event.figures()?, self.list.figures()?))
    }
}

pub fn run(options: &BenchOptions) -> Result<Report> {
    let programs = Programs::find(options)?;
    let mut sizes = options
        .stored
        .iter()
        .map(|&stored| StoreSize::fill(&programs, stored))
        .collect::<Result<Vec<_>>>()?;
    for size in &mut sizes {
        // The daemon closes connections that are silent for long, as the first ones were while the last
        // world was filled.
        size.client = size.daemon.client()?;
    }
    let rounds = options.rounds.unwrap_or(ROUNDS) * options.runs;
    for round in 0..WARM_UP + rounds {
        for turn in 0..sizes.len() {
            let at = (round + turn) % sizes.len();
            sizes[at].send(round >= WARM_UP)?;
            if round % LIST_EVERY == 0 {
                sizes[at].list(round >= WARM_UP)?;
            }
        }
    }
    let mut report = Report::new(options);
    fill_report(&sizes, &mut report);
    Ok(report)
}

fn fill_report(sizes: &[StoreSize], report: &mut Report) {
    let Some((first_event, first_list)) = sizes.first().and_then(StoreSize::figures) else {
        return;
    };
    let mut rows = Vec::new();
    let mut figures = Vec::new();
    for size in sizes {
        let Some((event, list)) = size.figures() else {
            continue;
        };
        let memory = size.daemon.memory();
        rows.push(vec![
            number(size.stored as f64),
            number(event.median),
            number(event.median / first_event.median),
            number(event.p99),
            number(list.median),
            number(list.median / first_list.median),
            number(list.p99),
            memory.map_or_else(String::new, |memory| format!("{:.1}", memory.now)),
        ]);
        figures.push(json!({
            "stored": size.stored, "event_median_us": event.median, "event_p99_us": event.p99,
            "events": event.count, "look_median_us": list.median, "look_p99_us": list.p99,
            "looks": list.count, "daemon_mib": memory.map(|memory| memory.now),
        }));
        if size.stored > sizes[0].stored {
            let name = format!(
                "one event at {} × one at {}",
                number(size.stored as f64),
                number(sizes[0].stored as f64)
            );
            let ratio = event.median / first_event.median;
            report.bars.push(Bar::at_most(name, ratio, 1.2, None));
        }
    }
    report.tables.push(Table {
        title: "One event through the socket, and `becket events --limit 50`".to_owned(),
        columns: vec![
            "stored",
            "event µs",
            "×",
            "p99 µs",
            "look µs",
            "×",
            "p99 µs",
            "daemon MiB",
        ],
        rows,
    });
    report.figures = json!(figures);
}
