//! `callback`: what one SDK callback adds to a tool call inside the real Claude Code: becket-sdk beside
//! Anthropic's Python SDK. Each SDK drives the same program, with a PreToolUse callback that has no
//! opinion, and without one.

mod python;

use std::time::Duration;

use anyhow::{Context, Result};
use becket_sdk::{Answer, Any, Builder, PreToolUse};
use becket_tests::claude::{Claude, Home};
use becket_tests::model::Model;
use serde_json::json;

use crate::args::Order;
use crate::inside::{PROMPT, SESSION, calls_of_session, measure};
use crate::report::{Bar, Report, Table, number};
use crate::samples::{Figures, Samples};
use python::Python;

/// Calls of each contender that count.
const CALLS: usize = 480;
const BOUND: Duration = Duration::from_secs(180);

/// In the order of the table. What a callback adds is counted from the line before.
const CONTENDERS: [(&str, Sdk, bool); 4] = [
    ("becket-sdk, no callback", Sdk::Becket, false),
    ("becket-sdk, one callback", Sdk::Becket, true),
    ("Python SDK, no callback", Sdk::Python, false),
    ("Python SDK, one callback", Sdk::Python, true),
];

#[derive(Debug, Clone, Copy)]
enum Sdk {
    Becket,
    Python,
}

pub fn run(order: &Order) -> Result<Report> {
    let mut report = Report::new(order);
    let claude = match Claude::get(&Claude::wanted()) {
        Ok(claude) => claude,
        Err(why) => {
            report.notes.push(format!("SKIPPED: {why}"));
            return Ok(report);
        }
    };
    let python = match Python::install() {
        Ok(python) => python,
        Err(why) => {
            report
                .notes
                .push(format!("SKIPPED: no Python SDK: {why:#}"));
            return Ok(report);
        }
    };
    let mut samples = [const { Samples::new() }; CONTENDERS.len()];
    let sessions = (order.rounds.unwrap_or(CALLS) * order.runs).div_ceil(SESSION);
    for round in 0..sessions {
        for turn in 0..CONTENDERS.len() {
            let at = (round + turn) % CONTENDERS.len();
            session(&claude, &python, at, &mut samples[at])?;
        }
    }
    tell(&samples, &mut report);
    let (version, sdk) = (&claude.version, python::VERSION);
    report
        .notes
        .push(format!("Claude Code {version}, claude-agent-sdk {sdk}"));
    Ok(report)
}

fn session(claude: &Claude, python: &Python, at: usize, samples: &mut Samples) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let model = Model::script()
        .on(PROMPT, calls_of_session(folder.path())?)
        .start();
    let home = Home::new(&model.url());
    let (_, sdk, callback) = CONTENDERS[at];
    match sdk {
        Sdk::Python => {
            let mut running = python.start(claude, &home, callback)?;
            measure(&model, samples);
            running.finish()
        }
        Sdk::Becket => std::thread::scope(|scope| {
            let driving = scope.spawn(|| drive(builder(claude, &home, callback)));
            measure(&model, samples);
            driving.join().expect("the driver does not panic")
        }),
    }
}

fn builder(claude: &Claude, home: &Home, callback: bool) -> Builder {
    let builder = becket_sdk::Claude::builder()
        .program(&claude.command()[0])
        .env_clear()
        .cwd(home.project())
        .permission_mode("bypassPermissions");
    let env = home.env().iter();
    let builder = env.fold(builder, |builder, (name, value)| builder.env(name, value));
    match callback {
        true => builder.on(PreToolUse, Any, |_, _| async { Ok(Answer::none()) }),
        false => builder,
    }
}

fn drive(builder: Builder) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let query = async { tokio::time::timeout(BOUND, builder.query(PROMPT)).await };
    let result = runtime.block_on(query).context("it took too long")??;
    anyhow::ensure!(!result.is_error(), "the turn failed: {result:?}");
    Ok(())
}

fn tell(samples: &[Samples; CONTENDERS.len()], report: &mut Report) {
    let figures: Vec<Figures> = samples.iter().filter_map(Samples::figures).collect();
    let [rust, rust_with, python, python_with] = figures[..] else {
        return;
    };
    let ours = rust_with.median - rust.median;
    let theirs = python_with.median - python.median;
    let added = ["".to_owned(), number(ours), "".to_owned(), number(theirs)];
    let rows = CONTENDERS.iter().zip(&figures).zip(added);
    let rows = rows.map(|(((name, ..), figures), added)| {
        let count = figures.count.to_string();
        vec![
            (*name).to_owned(),
            number(figures.median),
            added,
            number(figures.p99),
            count,
        ]
    });
    report.tables.push(Table {
        title: "One tool call inside Claude Code (a Read), driven by an SDK".to_owned(),
        columns: vec!["driven by", "median µs", "added µs", "p99 µs", "calls"],
        rows: rows.collect(),
    });
    let ratio = ours / theirs;
    let what = "what a callback of becket-sdk adds × what one of the Python SDK adds";
    report.bars.push(Bar::at_most(what, ratio, 1.0, None));
    report.figures = json!({"becket_sdk_us": ours, "python_sdk_us": theirs, "ratio": ratio});
}
