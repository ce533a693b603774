//! Installs Anthropic's Python SDK from its package into a folder of the bench.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

/// The version that contains the Claude Code that the tests use.
pub const VERSION: &str = "0.2.182";
const DRIVER: &str = include_str!("driver.py");

/// An environment with the SDK in it.
#[derive(Debug)]
pub struct Python {
    interpreter: PathBuf,
    driver: PathBuf,
}

impl Python {
    /// Finds the environment below the target folder, or installs it there with pip.
    pub fn install() -> Result<Self> {
        let target = std::env::current_exe()?;
        let target = target.ancestors().nth(2).context("a target folder")?;
        let folder = target.join(format!("claude-agent-sdk-{VERSION}"));
        let interpreter = folder.join("bin/python");
        let complete = folder.join("complete");
        if !complete.is_file() {
            run(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
            let package = format!("claude-agent-sdk=={VERSION}");
            run(Command::new(&interpreter).args(["-m", "pip", "install", "--quiet", &package]))?;
            std::fs::write(&complete, "")?;
        }
        let driver = folder.join("driver.py");
        std::fs::write(&driver, DRIVER)?;
        Ok(Self {
            interpreter,
            driver,
        })
    }

    /// Returns the command of the driver, without its arguments.
    pub fn driver(&self) -> Command {
        let mut command = Command::new(&self.interpreter);
        command.arg(&self.driver);
        command
    }
}

fn run(command: &mut Command) -> Result<()> {
    let output = command
        .output()
        .with_context(|| format!("could not run {command:?}"))?;
    if !output.status.success() {
        bail!(
            "{command:?}: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(())
}
