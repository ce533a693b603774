//! `becket run --tmux`: the launch in a tmux window of its own, for scripts.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::Result;

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

/// Opens a window in which `becket run` runs with these options: in this tmux, in the one that
/// runs, or in a new one.
pub fn open(world: &World, cwd: &Path, words: &[OsString], options: &[OsString]) -> Result<Window> {
    let (named, words) = arguments::split(words);
    let path = std::env::var_os("PATH");
    // What cannot start would close its window before anybody reads why.
    let program = program::find(named.as_deref(), path.as_deref(), cwd)?;
    let runs =
        std::env::var_os("TMUX").is_some() || tmux(&["has-session".into()])?.status.success();
    let mut line: Vec<OsString> = match runs {
        true => vec!["new-window".into()],
        false => ["new-session", "-d", "-s", "becket"]
            .map(OsString::from)
            .to_vec(),
    };
    let format = "#{session_name}:#{window_index} #{pane_pid}";
    line.extend(["-P", "-F", format, "-c"].map(OsString::from));
    line.push(cwd.into());
    for name in PASSED_ON {
        if let Some(value) = std::env::var_os(name) {
            let mut pair = OsString::from(format!("{name}="));
            pair.push(value);
            line.extend(["-e".into(), pair]);
        }
    }
    line.extend([
        "--".into(),
        world.programs.join("becket").into(),
        "--home".into(),
    ]);
    line.extend([world.place.home().into(), "run".into()]);
    line.extend(options.iter().cloned());
    line.extend(["--".into(), program.into()]);
    line.extend(words);
    let output = tmux(&line)?;
    let said = String::from_utf8_lossy(&output.stdout);
    let window = said.trim().rsplit_once(' ').and_then(|(target, pid)| {
        let target = target.to_owned();
        let launcher = pid.parse().ok()?;
        Some(Window { target, launcher })
    });
    window.filter(|_| output.status.success()).ok_or_else(|| {
        let why = String::from_utf8_lossy(&output.stderr);
        failed(&format!("could not open a tmux window: {}", why.trim()))
    })
}

fn tmux(line: &[OsString]) -> Result<Output> {
    let mut tmux = Command::new("tmux");
    // A word that ends in a semicolon would end tmux's command.
    let words =
        line.iter().map(
            |word| match word.to_str().and_then(|text| text.strip_suffix(';')) {
                Some(text) => OsString::from(format!("{text}\\;")),
                None => word.clone(),
            },
        );
    let output = tmux.args(words).stdin(Stdio::null()).output();
    output.map_err(|why| failed(&format!("could not run tmux: {why}")))
}

fn failed(what: &str) -> anyhow::Error {
    let failure = Failure::new(Code::Failed, what);
    failure
        .hint("install or start tmux, or run it without --tmux")
        .into()
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
