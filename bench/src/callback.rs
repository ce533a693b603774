//! `callback`: what one SDK callback adds to a tool call inside the real Claude Code: becket-sdk beside
//! Anthropic's Python SDK. Each SDK drives the same program, with a PreToolUse callback that has no
//! opinion, and without one.

mod python;
pub mod spy;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use becket_sdk::{Answer, Any, Builder, PreToolUse};
use becket_tests::claude::{Claude, Home};
use becket_tests::model::Model;
use serde_json::json;

use crate::args::Order;
use crate::inside::{PROMPT, SESSION, WARM_UP, calls_of_session, measure};
use crate::report::{Bar, Report, Table, number};
use crate::samples::{Figures, Samples};
use python::Python;

/// Calls of each contender that count.
const CALLS: usize = 480;
const BOUND: Duration = Duration::from_secs(180);

/// In the order of the table.
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
    let program = PathBuf::from(&claude.command()[0]);
    let mut samples = [const { (Samples::new(), Samples::new()) }; CONTENDERS.len()];
    let sessions = (order.rounds.unwrap_or(CALLS) * order.runs).div_ceil(SESSION);
    for round in 0..sessions {
        for turn in 0..CONTENDERS.len() {
            let at = (round + turn) % CONTENDERS.len();
            session(&program, &python, at, &mut samples[at])?;
        }
    }
    tell(&samples, &mut report)?;
    let (version, sdk) = (&claude.version, python::VERSION);
    report
        .notes
        .push(format!("Claude Code {version}, claude-agent-sdk {sdk}"));
    Ok(report)
}

/// One session: the time of each call, and of each callback.
fn session(
    claude: &Path,
    python: &Python,
    at: usize,
    (calls, waits): &mut (Samples, Samples),
) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let model = Model::script().on(PROMPT, calls_of_session(folder.path())?);
    let model = model.start();
    let home = Home::new(&model.url());
    let spied = spy::program(folder.path(), claude)?;
    let (_, sdk, callback) = CONTENDERS[at];
    match sdk {
        Sdk::Python => {
            let mut running = python.start(&spied, &home, callback)?;
            measure(&model, calls);
            running.finish()?;
        }
        Sdk::Becket => std::thread::scope(|scope| {
            let driving = scope.spawn(|| drive(builder(&spied, &home, callback)));
            measure(&model, calls);
            driving.join().expect("the driver does not panic")
        })?,
    }
    spy::read(folder.path(), WARM_UP, waits)
}

fn builder(program: &Path, home: &Home, callback: bool) -> Builder {
    let builder = becket_sdk::Claude::builder()
        .program(program)
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

fn tell(samples: &[(Samples, Samples); CONTENDERS.len()], report: &mut Report) -> Result<()> {
    let calls: Vec<Figures> = samples
        .iter()
        .filter_map(|(calls, _)| calls.figures())
        .collect();
    let waits = samples.each_ref().map(|(_, waits)| waits.figures());
    let (Some(ours), Some(theirs)) = (waits[1], waits[3]) else {
        bail!("no callback was seen on Claude Code's pipes");
    };
    let rows = CONTENDERS.iter().zip(&calls).zip(&waits);
    let rows = rows.map(|(((name, ..), call), wait)| {
        let of_wait = |figure: fn(&Figures) -> f64| wait.as_ref().map(figure).map(number);
        vec![
            (*name).to_owned(),
            number(call.median),
            of_wait(|wait| wait.median).unwrap_or_default(),
            of_wait(|wait| wait.p99).unwrap_or_default(),
            call.count.to_string(),
        ]
    });
    report.tables.push(Table {
        title: "One tool call inside Claude Code (a Read), driven by an SDK".to_owned(),
        columns: vec!["driven by", "call µs", "callback µs", "p99 µs", "calls"],
        rows: rows.collect(),
    });
    let ratio = ours.median / theirs.median;
    if let [bare, with, their_bare, their_with] = calls[..] {
        let added = with.median - bare.median;
        let theirs = their_with.median - their_bare.median;
        let (added, theirs) = (number(added), number(theirs));
        report.notes.push(format!(
            "a callback adds {added} µs to the whole call, and {theirs} µs with the Python SDK"
        ));
    }
    let what = "a callback of becket-sdk × one of the Python SDK";
    report.bars.push(Bar::at_most(what, ratio, 1.0, None));
    let (ours, theirs) = (ours.median, theirs.median);
    report.figures = json!({"becket_sdk_us": ours, "python_sdk_us": theirs, "ratio": ratio});
    Ok(())
}
