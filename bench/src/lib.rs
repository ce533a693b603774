//! The benchmarks. Every one runs in a hermetic world with a daemon of its own, and sets becket
//! beside a rival in the same run, interleaved, because a figure alone tells of the machine only.
//! On Linux alone: they look at processes and memory by `/proc`, and wait by epoll.

#![cfg(target_os = "linux")]

pub mod args;
pub mod busy;
pub mod callback;
pub mod claude;
pub mod client;
pub mod echo;
pub mod event;
pub mod fill;
pub mod fleet;
pub mod growth;
pub mod guard;
pub mod hooks;
pub mod ingest;
pub mod inside;
pub mod instructions;
pub mod launch;
pub mod nothing;
pub mod pty;
pub mod refresh;
pub mod report;
pub mod samples;
pub mod spawn;
pub mod view;
pub mod world;

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::{Context, Result};

use args::{Bench, Order};

/// Runs what the command line says. Exit 1 with `--check` if a bar is missed.
pub fn run(args: impl Iterator<Item = OsString>) -> Result<ExitCode> {
    let order = Order::read(args)?;
    let report = match &order.bench {
        Bench::Help => {
            print!("{}", args::HELP);
            return Ok(ExitCode::SUCCESS);
        }
        Bench::Spin => {
            busy::spin();
            return Ok(ExitCode::SUCCESS);
        }
        Bench::Echo(socket) => {
            echo::serve(socket)?;
            return Ok(ExitCode::SUCCESS);
        }
        Bench::SdkDriver(args) => return callback::drive(args),
        Bench::Spawn => spawn::run(&order)?,
        Bench::Ingest => ingest::run(&order)?,
        Bench::Growth => growth::run(&order)?,
        Bench::View => view::run(&order)?,
        Bench::Claude => claude::run(&order)?,
        Bench::Hooks => hooks::run(&order)?,
        Bench::Launch => launch::run(&order)?,
        Bench::Callback => callback::run(&order)?,
        Bench::Guard => guard::run(&order)?,
        Bench::Refresh => refresh::run(&order)?,
        Bench::Instructions => instructions::run(&order)?,
    };
    if order.markdown {
        print!("{}", report.markdown());
    } else {
        print!("{}", report.text());
    }
    if let Some(file) = &order.json {
        let json = serde_json::to_vec_pretty(&report.json())?;
        std::fs::write(file, json)
            .with_context(|| format!("could not write {}", file.display()))?;
    }
    Ok(if order.check && !report.passed() {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}
