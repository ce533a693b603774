//! becket, the program people type.

mod adopt;
mod args;
mod beside;
mod claude;
mod client;
mod commands;
mod coverage;
mod demo;
mod doctor;
mod failure;
mod hook_runs;
mod hook_trial;
mod launch;
mod leave;
mod line;
mod log;
mod session;
mod settings;
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
    failure::expect_closed_pipes();
    leave::not_for_a_file();
    if let Some(hook) = verb::hook::called() {
        return hook;
    }
    match args::Args::read() {
        Ok(args) => args.run().unwrap_or_else(|error| failure::tell(&error)),
        Err(error) => {
            // Help and version are no failures: clap prints them on stdout.
            let wrong = error.use_stderr();
            drop(error.print());
            if wrong {
                ExitCode::from(2)
            } else {
                ExitCode::SUCCESS
            }
        }
    }
}
