//! `becket`, the program that people type.

mod adopt;
mod args;
mod claude;
mod client;
mod commands;
mod coverage;
mod demo;
mod doctor;
mod event_line;
mod failure;
mod hook_runs;
mod hook_trial;
mod launch;
mod log;
mod previous_status_line;
mod question;
mod session;
mod settings;
mod signals;
mod standalone;
mod switch;
mod tmux;
mod tui;
mod ui;
mod unhooked_processes;
mod verb;
mod work;
mod world;

use std::process::ExitCode;

fn main() -> ExitCode {
    signals::expect_closed_pipes();
    signals::survive_file_size_limit();
    if let Some(exit) = verb::hook::run_if_called() {
        return exit;
    }
    if let Some(exit) = verb::completions::complete_if_called() {
        return exit;
    }
    match args::Args::read() {
        Ok(args) => args.run().unwrap_or_else(|error| failure::report(&error)),
        Err(error) => {
            let words: Vec<String> = std::env::args().skip(1).collect();
            if let Some(failure) = args::explain(&error, &words) {
                return failure::report(&failure.into());
            }
            // Help and version are no failures: clap prints them on stdout.
            let is_failure = error.use_stderr();
            drop(error.print());
            if is_failure {
                ExitCode::from(2)
            } else {
                ExitCode::SUCCESS
            }
        }
    }
}
