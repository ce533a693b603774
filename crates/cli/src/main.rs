//! becket, the program people type.

mod args;
mod failure;
mod settings;
mod verb;
mod world;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    match args::Args::try_parse() {
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
