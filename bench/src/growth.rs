//! `growth`: what one event, and a look at the log, cost with few and with many events stored. Each
//! size has a world of its own; they are measured in turn.

use std::process::Stdio;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde_json::json;

use crate::args::Order;
use crate::client::Client;
use crate::event::{Frames, now_ms};
use crate::fill::{Filled, fill};
use crate::report::{Bar, Report, Table, number};
use crate::samples::{Figures, Samples};
use crate::world::{Daemon, Programs, World};

const ROUNDS: usize = 2000;
/// A look at the log starts a process, so it takes part in every so-manieth round.
const LOOK: usize = 20;
const WARM_UP: usize = 100;

struct Size {
    stored: usize,
    frames: Frames,
    client: Client,
    event: Samples,
    look: Samples,
    // The world goes last: the daemon ends before its folder does.
    daemon: Daemon,
    world: World,
}

impl Size {
    fn fill(programs: &Programs, stored: usize) -> Result<Self> {
        let Filled {
            frames,
            daemon,
            world,
        } = fill(programs, stored)?;
        Ok(Self {
            stored,
            frames,
            client: daemon.client()?,
            event: Samples::default(),
            look: Samples::default(),
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

    fn look(&mut self, warm: bool) -> Result<()> {
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
            self.look.push(took);
        }
        Ok(())
    }

    fn figures(&self) -> Option<(Figures, Figures)> {
        Some((self.event.figures()?, self.look.figures()?))
    }
}

pub fn run(order: &Order) -> Result<Report> {
    let programs = Programs::find(order)?;
    let mut sizes = order
        .stored
        .iter()
        .map(|&stored| Size::fill(&programs, stored))
        .collect::<Result<Vec<_>>>()?;
    for size in &mut sizes {
        // The daemon hangs up on those who are silent for long, as the first were while the last
        // was filled.
        size.client = size.daemon.client()?;
    }
    let rounds = order.rounds.unwrap_or(ROUNDS) * order.runs;
    for round in 0..WARM_UP + rounds {
        for turn in 0..sizes.len() {
            let at = (round + turn) % sizes.len();
            sizes[at].send(round >= WARM_UP)?;
            if round % LOOK == 0 {
                sizes[at].look(round >= WARM_UP)?;
            }
        }
    }
    let mut report = Report::new(order);
    tell(&sizes, &mut report);
    Ok(report)
}

fn tell(sizes: &[Size], report: &mut Report) {
    let Some((first_event, first_look)) = sizes.first().and_then(Size::figures) else {
        return;
    };
    let mut rows = Vec::new();
    let mut figures = Vec::new();
    for size in sizes {
        let Some((event, look)) = size.figures() else {
            continue;
        };
        let memory = size.daemon.memory();
        rows.push(vec![
            number(size.stored as f64),
            number(event.median),
            number(event.median / first_event.median),
            number(event.p99),
            number(look.median),
            number(look.median / first_look.median),
            number(look.p99),
            memory.map_or_else(String::new, |memory| format!("{:.1}", memory.now)),
        ]);
        figures.push(json!({
            "stored": size.stored, "event_median_us": event.median, "event_p99_us": event.p99,
            "events": event.count, "look_median_us": look.median, "look_p99_us": look.p99,
            "looks": look.count, "daemon_mib": memory.map(|memory| memory.now),
        }));
        if size.stored > sizes[0].stored {
            let what = format!(
                "one event at {} × one at {}",
                number(size.stored as f64),
                number(sizes[0].stored as f64)
            );
            let ratio = event.median / first_event.median;
            report.bars.push(Bar::at_most(what, ratio, 1.2, None));
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
