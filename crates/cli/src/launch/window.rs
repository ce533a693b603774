//! `becket run --tmux`: the launch in a tmux window of its own, for scripts.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::state::{LaunchFile, is_alive, start_of};
use super::{arguments, program};
use crate::failure::{Code, Failure};
use crate::world::World;

/// How often the launch file is looked for.
const LOOK: Duration = Duration::from_millis(20);

/// Variables that lead to another Claude Code or another becket; all others are the tmux server's.
const PASSED_ON: [&str; 3] = ["PATH", "CLAUDE_CONFIG_DIR", "BECKET_NO_DAEMON"];

/// The window that a launch runs in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    pub target: String,
    pub launcher: u32,
}

/// Opens a window in which `becket run` runs with these arguments: in this tmux, in the one that
/// runs, or in a new one.
pub fn open(world: &World, cwd: &Path, words: &[OsString], args: &[OsString]) -> Result<Window> {
    // What cannot start would close its window before anybody reads why.
    let (named, _) = arguments::split(words.to_vec());
    let path = std::env::var_os("PATH");
    let found = program::find(named.as_deref(), path.as_deref(), cwd)?;
    let runs =
        std::env::var_os("TMUX").is_some() || tmux().arg("has-session").output()?.status.success();
    let mut open = tmux();
    match runs {
        true => open.arg("new-window"),
        false => open.args(["new-session", "-d", "-s", "becket"]),
    };
    open.args([
        "-P",
        "-F",
        "#{session_name}:#{window_index} #{pane_pid}",
        "-c",
    ])
    .arg(cwd);
    for name in PASSED_ON {
        if let Some(value) = std::env::var_os(name) {
            let mut pair = OsString::from(format!("{name}="));
            pair.push(value);
            open.arg("-e").arg(pair);
        }
    }
    open.arg("--").arg(world.programs.join("becket"));
    open.arg("--home").arg(world.place.home()).args(args);
    open.arg("--")
        .arg(&found)
        .args(arguments::split(words.to_vec()).1);
    let output = open.output().context("could not run tmux")?;
    let said = String::from_utf8_lossy(&output.stdout);
    let window = said.trim().rsplit_once(' ').and_then(|(target, pid)| {
        let target = target.to_owned();
        Some(Window {
            target,
            launcher: pid.parse().ok()?,
        })
    });
    window.filter(|_| output.status.success()).ok_or_else(|| {
        let why = String::from_utf8_lossy(&output.stderr);
        let what = format!("could not open a tmux window: {}", why.trim());
        Failure::new(Code::Failed, what)
            .hint("start tmux, or run it without --tmux")
            .into()
    })
}

fn tmux() -> Command {
    let mut tmux = Command::new("tmux");
    tmux.stdin(Stdio::null());
    tmux
}

/// Waits until the launch has a session: its id.
pub fn wait_session(world: &World, window: &Window, timeout: Duration) -> Result<String> {
    let began = Instant::now();
    let launcher = window.launcher;
    let start = start_of(launcher).unwrap_or(0);
    while began.elapsed() < timeout {
        if let Some(session) =
            LaunchFile::of(&world.place, launcher).and_then(|file| file.session_id)
        {
            return Ok(session);
        }
        if !is_alive(launcher, start) {
            let what = format!(
                "Claude Code ended in tmux window {} before it had a session",
                window.target
            );
            let hint = "run it without --tmux to see why";
            return Err(Failure::new(Code::Failed, what).hint(hint).into());
        }
        std::thread::park_timeout(LOOK);
    }
    let what = format!(
        "no SessionStart came within {} s from tmux window {}",
        timeout.as_secs(),
        window.target
    );
    Err(Failure::new(Code::TimedOut, what)
        .hint("becket doctor")
        .into())
}
