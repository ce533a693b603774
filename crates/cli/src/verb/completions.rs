//! `becket completions`: scripts for the shell, and man pages.

mod names;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::Args;

/// Print completions for a shell, or write the man pages
#[derive(Debug, clap::Args)]
pub struct Completions {
    /// The shell (default: the one in SHELL)
    #[arg(value_enum)]
    shell: Option<Shell>,
    /// Write the man pages into this folder instead
    #[arg(long, value_name = "FOLDER", conflicts_with = "shell")]
    man: Option<PathBuf>,
}

impl Completions {
    pub fn run(self) -> Result<ExitCode> {
        let mut command = Args::command();
        if let Some(folder) = self.man {
            std::fs::create_dir_all(&folder)
                .with_context(|| format!("could not make {}", folder.display()))?;
            command.build();
            clap_mangen::generate_to(command, &folder)
                .with_context(|| format!("could not write man pages to {}", folder.display()))?;
            println!("The man pages are in {}.", folder.display());
            return Ok(ExitCode::SUCCESS);
        }
        let shell = self.shell.or_else(Shell::from_env).unwrap_or(Shell::Bash);
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut command, "becket", &mut script);
        let script = String::from_utf8(script).context("could not write completions")?;
        print!("{}", names::add(&script, shell, &command));
        Ok(ExitCode::SUCCESS)
    }
}
