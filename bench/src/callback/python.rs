//! Anthropic's Python SDK, installed from its package into a folder of the bench's own.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use becket_tests::claude::Home;

use crate::inside::PROMPT;

/// The version whose own program is the one that the tests use.
pub const VERSION: &str = "0.2.182";
const DRIVER: &str = include_str!("driver.py");

/// An environment with the SDK in it.
#[derive(Debug)]
pub struct Python {
    interpreter: PathBuf,
    driver: PathBuf,
}

/// A session that the SDK drives.
pub struct Running(Child);

impl Python {
    /// Finds it below the target folder, or installs it there with pip.
    pub fn install() -> Result<Self> {
        let target = std::env::current_exe()?;
        let target = target.ancestors().nth(2).context("a target folder")?;
        let folder = target.join(format!("claude-agent-sdk-{VERSION}"));
        let interpreter = folder.join("bin/python");
        let complete = folder.join("complete");
        if !complete.is_file() {
            step(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
            let package = format!("claude-agent-sdk=={VERSION}");
            step(Command::new(&interpreter).args(["-m", "pip", "install", "--quiet", &package]))?;
            std::fs::write(&complete, "")?;
        }
        let driver = folder.join("driver.py");
        std::fs::write(&driver, DRIVER)?;
        Ok(Self {
            interpreter,
            driver,
        })
    }

    pub fn start(&self, program: &Path, home: &Home, callback: bool) -> Result<Running> {
        let project: &Path = &home.project();
        let child = Command::new(&self.interpreter)
            .arg(&self.driver)
            .arg(program)
            .arg(project)
            .arg(PROMPT)
            .args(callback.then_some("callback"))
            .env_clear()
            .envs(home.env().iter().map(|(name, value)| (name, value)))
            .current_dir(project)
            .stdin(Stdio::null())
            .spawn()
            .context("could not start Python")?;
        Ok(Running(child))
    }
}

impl Running {
    pub fn finish(&mut self) -> Result<()> {
        let status = self.0.wait()?;
        ensure!(
            status.success(),
            "the Python SDK's driver ended with {status}"
        );
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // A driver that has ended is reaped already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn step(command: &mut Command) -> Result<()> {
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
