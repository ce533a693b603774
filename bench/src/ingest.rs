//! `ingest`: measures durable events a second, and the time of an answer, for 1, 10 and 100 connections,
//! compared with a server that stores nothing.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, bail};
use serde_json::json;

use crate::args::BenchOptions;
use crate::client::{Crowd, CrowdResult, Until};
use crate::echo::Echo;
use crate::event::Frames;
use crate::report::{Bar, Report, Table, number};
use crate::samples::{Samples, median};
use crate::world::{Programs, World};

/// The number of measurements of each case, which take turns.
const ROUNDS: usize = 5;
const SLICE: Duration = Duration::from_secs(1);
const WARM_UP: Duration = Duration::from_millis(200);

/// One server with one number of connections.
#[derive(Default)]
struct IngestCase {
    server: &'static str,
    connections: usize,
    rates: Vec<f64>,
    replies: Samples,
    answered: usize,
    refused: usize,
}

impl IngestCase {
    fn measure(&mut self, socket: &Path, frames: &mut Frames) -> Result<()> {
        let mut crowd = Crowd::connect(socket, self.connections)?;
        let warm = crowd.send(frames, Until::Time(WARM_UP))?;
        let result = crowd.send(frames, Until::Time(SLICE))?;
        self.rates.push(result.rate());
        self.replies.extend(&result.replies);
        for CrowdResult {
            answered, refused, ..
        } in [&warm, &result]
        {
            self.answered += answered;
            self.refused += refused;
        }
        Ok(())
    }

    fn rate(&self) -> f64 {
        let mut rates = self.rates.clone();
        rates.sort_by(f64::total_cmp);
        median(&rates).unwrap_or(0.0)
    }
}

pub fn run(options: &BenchOptions) -> Result<Report> {
    let world = World::new(&Programs::find(options)?)?;
    let daemon = world.daemon()?;
    let echo_socket = world.root().join("echo");
    let _echo = Echo::start(&echo_socket)?;
    let mut frames = Frames::new(&world.place)?;
    let mut cases: Vec<IngestCase> = options
        .connections
        .iter()
        .flat_map(|&connections| ["becket", "echo"].map(|server| (server, connections)))
        .map(|(server, connections)| IngestCase {
            server,
            connections,
            ..IngestCase::default()
        })
        .collect();
    let before = daemon.memory();
    for round in 0..options.rounds.unwrap_or(ROUNDS) * options.runs {
        for turn in 0..cases.len() {
            let at = (round + turn) % cases.len();
            let socket = match cases[at].server {
                "becket" => world.socket(),
                _ => echo_socket.clone(),
            };
            cases[at].measure(&socket, &mut frames)?;
        }
    }
    let after = daemon.memory();
    let status = daemon.client()?.status()?;
    let answered: usize = cases
        .iter()
        .filter(|case| case.server == "becket")
        .map(|case| case.answered)
        .sum();
    if status.events != answered as u64 {
        bail!(
            "{answered} events were answered, but {} are in the database",
            status.events
        );
    }
    let mut report = Report::new(options);
    report.notes.push(format!(
        "every one of the {answered} answered events is in the database; the client runs on the same cores"
    ));
    report.tables.push(table(&cases));
    if let (Some(before), Some(after)) = (before, after) {
        report.tables.push(Table {
            title: "Memory of the daemon".to_owned(),
            columns: vec!["", "MiB"],
            rows: [
                ("before", before.now),
                ("after", after.now),
                ("peak", after.peak),
            ]
            .map(|(when, mib)| vec![when.to_owned(), format!("{mib:.1}")])
            .to_vec(),
        });
        report.bars.push(Bar::at_most(
            "the daemon's peak memory, MB",
            after.peak * 1.048_576,
            40.0,
            None,
        ));
    }
    bars(&cases, &mut report);
    report.figures = json!({
        "cases": cases.iter().map(case_json).collect::<Vec<_>>(),
        "memory_mib": {
            "before": before.map(|memory| memory.now),
            "after": after.map(|memory| memory.now),
            "peak": after.map(|memory| memory.peak),
        },
    });
    Ok(report)
}

fn bars(cases: &[IngestCase], report: &mut Report) {
    let crowd = cases
        .iter()
        .find(|case| case.server == "becket" && case.connections == 100);
    let Some((case, figures)) = crowd.and_then(|case| Some((case, case.replies.figures()?))) else {
        return;
    };
    report.bars.extend([
        Bar::at_least(
            "100 connections: events a second",
            case.rate(),
            20_000.0,
            None,
        ),
        Bar::at_most("100 connections: p99, µs", figures.p99, 20_000.0, None),
    ]);
}

fn table(cases: &[IngestCase]) -> Table {
    let rows = cases.iter().filter_map(|case| {
        let figures = case.replies.figures()?;
        let floor = cases
            .iter()
            .find(|other| other.server == "echo" && other.connections == case.connections)?;
        Some(vec![
            format!("{} × {}", case.server, case.connections),
            number(case.rate()),
            number(case.rate() / floor.rate()),
            number(figures.median),
            number(figures.p99),
            number(case.answered as f64),
            number(case.refused as f64),
        ])
    });
    Table {
        title: "Events of 2 KB, each answered after its commit".to_owned(),
        columns: vec![
            "server × connections",
            "events/s",
            "× echo",
            "median µs",
            "p99 µs",
            "answered",
            "refused",
        ],
        rows: rows.collect(),
    }
}

fn case_json(case: &IngestCase) -> serde_json::Value {
    let figures = case.replies.figures();
    json!({
        "server": case.server, "connections": case.connections, "events_per_second": case.rate(),
        "rates": case.rates, "median_us": figures.map(|figures| figures.median),
        "p99_us": figures.map(|figures| figures.p99), "answered": case.answered,
        "refused": case.refused,
    })
}
