//! `callback`: measures the time that one SDK callback adds to a tool call inside the real Claude Code:
//! becket-sdk compared with Anthropic's Python SDK, each in a process of its own.
//!
//! Sessions differ by more than the cost of a callback. So twenty callbacks are registered, and the time that
//! they add is divided by twenty. The difference is taken within a session: its calls take turns between two
//! tools, of which one has the callbacks. Half of the sessions register them for the one tool and half for
//! the other, so the tools' own cost cancels out.

mod python;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use becket_sdk::{Answer, PreToolUse};
use becket_tests::claude::{Claude, Home};
use becket_tests::model::{Model, Turn, say, tool};
use serde_json::json;

use crate::args::BenchOptions;
use crate::report::{Bar, Report, Table, number};
use crate::samples::{Samples, median};
use crate::tool_calls::{PROMPT, each_call};
use python::Python;

/// The number of callbacks on each call of the tool that has them. `driver.py` has the same number.
const CALLBACKS: usize = 20;
/// The number of sessions of each SDK for each tool.
const SESSIONS: usize = 8;
/// The number of measured calls of each tool in one session.
const CALLS: usize = 30;
/// The number of calls at the start of a session that do not count: they load data for the later ones.
const WARM_UP: usize = 10;
const TOOLS: [&str; 2] = ["Read", "Write"];
const BOUND: Duration = Duration::from_secs(180);

/// The SDKs, in the order of the table.
const SDKS: [&str; 2] = ["becket-sdk", "Python SDK"];

/// The medians of one session in microseconds: with callbacks, and without.
struct SessionMedians {
    with: f64,
    without: f64,
}

/// A process that drives a session with an SDK.
struct Driver(Child);

pub fn run(options: &BenchOptions) -> Result<Report> {
    let mut report = Report::new(options);
    let claude = match Claude::get(&Claude::wanted()) {
        Ok(claude) => claude,
        Err(error) => {
            report.notes.push(format!("SKIPPED: {error}"));
            return Ok(report);
        }
    };
    let python = match Python::install() {
        Ok(python) => python,
        Err(error) => {
            let note = format!("SKIPPED: no Python SDK: {error:#}");
            report.notes.push(note);
            return Ok(report);
        }
    };
    let program = PathBuf::from(&claude.command()[0]);
    // By SDK, then by the tool that has the callbacks.
    let mut sessions: [[Vec<SessionMedians>; 2]; 2] = Default::default();
    for round in 0..options.rounds.unwrap_or(SESSIONS) * options.runs {
        for turn in 0..4 {
            let (sdk, tool) = ((round + turn) % 2, turn / 2);
            sessions[sdk][tool].push(session(&program, &python, sdk, tool)?);
        }
    }
    fill_report(&sessions, &mut report)?;
    let (version, sdk) = (&claude.version, python::VERSION);
    let note = format!("Claude Code {version}, claude-agent-sdk {sdk}");
    report.notes.push(note);
    Ok(report)
}

fn session(claude: &Path, python: &Python, sdk: usize, watched: usize) -> Result<SessionMedians> {
    let folder = tempfile::tempdir()?;
    let model = Model::script().on(PROMPT, turns(folder.path())?).start();
    let home = Home::new(&model.url());
    let mut command = match SDKS[sdk] {
        "Python SDK" => python.driver(),
        _ => {
            let mut command = Command::new(std::env::current_exe()?);
            command.arg("sdk-driver");
            command
        }
    };
    let project: &Path = &home.project();
    command.arg(claude).arg(project).arg(PROMPT);
    command
        .arg(TOOLS[watched])
        .env_clear()
        .envs(home.env().iter().cloned());
    command.current_dir(project).stdin(Stdio::null());
    let mut driver = Driver(command.spawn().context("could not start the driver")?);
    let mut samples = [const { Samples::new() }; 2];
    each_call(&model, WARM_UP + 2 * CALLS, |call, took| {
        if call >= WARM_UP {
            samples[call % 2].push(took);
        }
    });
    let status = driver.0.wait()?;
    ensure!(status.success(), "{} ended with {status}", SDKS[sdk]);
    let medians = samples.map(|samples| samples.figures().expect("calls").median);
    Ok(SessionMedians {
        with: medians[watched],
        without: medians[1 - watched],
    })
}

fn turns(folder: &Path) -> Result<Vec<Turn>> {
    let file = folder.join("read-me");
    std::fs::write(&file, "a line\n")?;
    let calls = (0..WARM_UP + 2 * CALLS).map(|call| match call % 2 {
        0 => tool(TOOLS[0], json!({"file_path": file})),
        _ => tool(
            TOOLS[1],
            json!({"file_path": folder.join("written"), "content": "a line\n"}),
        ),
    });
    Ok(calls.chain([say("done")]).collect())
}

impl Drop for Driver {
    fn drop(&mut self) {
        // A driver that has ended was reaped already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Drives a session with becket-sdk, like `driver.py` with the Python SDK. The arguments are PROGRAM FOLDER
/// PROMPT TOOL.
pub fn drive(args: &[String]) -> Result<ExitCode> {
    let [program, folder, prompt, tool] = args else {
        bail!("sdk-driver needs a program, a folder, a prompt and a tool");
    };
    let builder = becket_sdk::Claude::builder()
        .program(program)
        .cwd(folder)
        .permission_mode("bypassPermissions");
    let builder = (0..CALLBACKS).fold(builder, |builder, _| {
        builder.on(PreToolUse, tool.as_str(), |_, _| async {
            Ok(Answer::none())
        })
    });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let query = async { tokio::time::timeout(BOUND, builder.query(prompt)).await };
    let result = runtime.block_on(query).context("it took too long")??;
    ensure!(!result.is_error(), "the turn failed: {result:?}");
    Ok(ExitCode::SUCCESS)
}

fn fill_report(sessions: &[[Vec<SessionMedians>; 2]; 2], report: &mut Report) -> Result<()> {
    let added = sessions.each_ref().map(|by_tool| {
        let [one, other] = by_tool
            .each_ref()
            .map(|sessions| median_of(sessions, |session| session.with - session.without));
        Some((one? + other?) / 2.0 / CALLBACKS as f64)
    });
    let [Some(ours), Some(theirs)] = added else {
        bail!("no session ran");
    };
    let rows = SDKS.iter().zip(sessions).zip([ours, theirs]);
    let rows = rows.map(|((name, by_tool), added)| {
        let calls = by_tool.each_ref().map(|sessions| {
            median_of(sessions, |session| session.with).map_or_else(String::new, number)
        });
        let [read, write] = calls;
        let count = by_tool.iter().map(Vec::len).sum::<usize>();
        vec![
            (*name).to_owned(),
            number(added),
            read,
            write,
            count.to_string(),
        ]
    });
    report.tables.push(Table {
        title: "One callback on a tool call inside Claude Code".to_owned(),
        columns: vec![
            "driven by",
            "one adds µs",
            "Read with 20 µs",
            "Write with 20 µs",
            "sessions",
        ],
        rows: rows.collect(),
    });
    let ratio = ours / theirs;
    let name = "what a callback of becket-sdk adds × what one of the Python SDK adds";
    report.bars.push(Bar::at_most(name, ratio, 1.0, None));
    report.figures = json!({"becket_sdk_us": ours, "python_sdk_us": theirs, "ratio": ratio});
    Ok(())
}

fn median_of(sessions: &[SessionMedians], figure: impl Fn(&SessionMedians) -> f64) -> Option<f64> {
    let mut figures: Vec<f64> = sessions.iter().map(figure).collect();
    figures.sort_by(f64::total_cmp);
    median(&figures)
}
