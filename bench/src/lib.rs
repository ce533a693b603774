//! The benchmarks. Each runs in a hermetic world with a daemon of its own, and compares becket with a
//! rival in the same run, interleaved, because a figure alone depends mostly on the machine. They run on
//! Linux only: they read processes and memory from `/proc`, and wait with epoll.

#![cfg(target_os = "linux")]

pub mod args;
pub mod callback;
pub mod claude;
pub mod client;
pub mod cpu_load;
pub mod echo;
pub mod event;
pub mod filled_world;
pub mod growth;
pub mod guard;
pub mod hooks;
pub mod ingest;
pub mod instructions;
pub mod launch;
pub mod null_program;
pub mod pty;
pub mod refresh;
pub mod report;
pub mod samples;
pub mod spawn;
pub mod synthetic_sessions;
pub mod tool_calls;
pub mod view;
pub mod world;

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::{Context, Result};

use args::{Bench, BenchOptions};

/// Runs the bench that the command line names. With `--check`, the exit code is 1 if a bar is missed.
pub fn run(args: impl Iterator<Item = OsString>) -> Result<ExitCode> {
    let options = BenchOptions::read(args)?;
    let report = match &options.bench {
        Bench::Help => {
            print!("{}", args::HELP);
            return Ok(ExitCode::SUCCESS);
        }
        Bench::Spin => {
            cpu_load::spin();
            return Ok(ExitCode::SUCCESS);
        }
        Bench::Echo(socket) => {
            echo::serve(socket)?;
            return Ok(ExitCode::SUCCESS);
        }
        Bench::SdkDriver(args) => return callback::drive(args),
        Bench::Spawn => spawn::run(&options)?,
        Bench::Ingest => ingest::run(&options)?,
        Bench::Growth => growth::run(&options)?,
        Bench::View => view::run(&options)?,
        Bench::Claude => claude::run(&options)?,
        Bench::Hooks => hooks::run(&options)?,
        Bench::Launch => launch::run(&options)?,
        Bench::Callback => callback::run(&options)?,
        Bench::Guard => guard::run(&options)?,
        Bench::Refresh => refresh::run(&options)?,
        Bench::Instructions => instructions::run(&options)?,
    };
    if options.markdown {
        print!("{}", report.markdown());
    } else {
        print!("{}", report.text());
    }
    if let Some(file) = &options.json {
        let json = serde_json::to_vec_pretty(&report.json())?;
        std::fs::write(file, json)
            .with_context(|| format!("could not write {}", file.display()))?;
    }
    Ok(if options.check && !report.passed() {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}
