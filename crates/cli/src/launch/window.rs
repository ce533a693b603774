//! `becket run --tmux`: opens the launch in a tmux window of its own, for scripts.

use std::ffi::OsString;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use becket_engine::replace::make_folder;
use becket_wire::session::SessionRow;
use serde::{Deserialize, Serialize};

use super::launch_file::{LaunchFile, is_alive, start_of};
use crate::claude;
use crate::failure::{Code, Failure};
use crate::launch::arguments;
use crate::session::source::Source;
use crate::ui::time;
use crate::world::World;

/// The pause between two looks for the launch file.
const LOOK: Duration = Duration::from_millis(20);

/// Variables that the window itself sets.
const WINDOW_VARIABLES: [&str; 5] = ["TMUX", "TMUX_PANE", "TERM", "TERM_PROGRAM", "COLORTERM"];

/// The command line and environment for the window. They go through a file, since tmux bounds the length of a command
/// line and would use the environment of its server. Only the user can read the file, and it is removed after reading.
#[derive(Debug, Serialize, Deserialize)]
struct WindowOrder {
    words: Vec<String>,
    environment: Vec<(String, String)>,
}

/// The tmux window of a launch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TmuxWindow {
    pub target: String,
    pub launcher: u32,
}

/// Opens a window in which `becket run` runs with these options and the caller's environment: in this tmux, in the
/// running one, or in a new one.
pub fn open(
    world: &World,
    cwd: &Path,
    words: &[OsString],
    options: &[OsString],
) -> Result<TmuxWindow> {
    let (named, words) = arguments::split(words);
    let path = std::env::var_os("PATH");
    // A program that cannot start would close its window before the reason can be read.
    let program = claude::find(named.as_deref(), path.as_deref(), cwd)?;
    let mut line: Vec<OsString> = vec!["--home".into(), world.place.home().into(), "run".into()];
    line.extend(options.iter().cloned());
    line.extend(["--".into(), program.into()]);
    line.extend(words);
    let order = write_order(world, line).context("could not write what to run in the window")?;
    let is_inside = std::env::var_os("TMUX").is_some();
    let is_running = is_inside || tmux(&["has-session".into()])?.status.success();
    let new_window: &[&str] = &["new-window"];
    let new_session: &[&str] = &["new-session", "-d", "-s", "becket"];
    let commands: &[&[&str]] = if is_running {
        &[new_window]
    } else {
        // Another launch may start the server at the same moment: then the second command works.
        &[new_session, new_window]
    };
    let name = cwd.file_name().unwrap_or_default();
    let format = "#{session_name}:#{window_index} #{pane_pid}";
    let mut why = String::new();
    for command in commands {
        let mut line: Vec<OsString> = command.iter().map(OsString::from).collect();
        line.extend(["-P", "-F", format, "-n"].map(OsString::from));
        line.extend([name.into(), "-c".into(), cwd.into(), "--".into()]);
        line.extend([world.programs.join("becket").into(), "--home".into()]);
        line.extend([world.place.home().into(), "run".into(), "--order".into()]);
        line.push(order.clone().into());
        let output = tmux(&line)?;
        let stdout = String::from_utf8_lossy(&output.stdout);
        if let Some((target, launcher)) = stdout.trim().rsplit_once(' ')
            && let Ok(launcher) = launcher.parse()
        {
            let target = target.to_owned();
            return Ok(TmuxWindow { target, launcher });
        }
        why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    }
    drop(fs::remove_file(order));
    Err(failed(&format!("could not open a tmux window: {why}")))
}

fn write_order(world: &World, words: Vec<OsString>) -> Result<PathBuf> {
    make_folder(&world.place.run(), 0o700)?;
    let words = words.into_iter().map(|word| {
        word.into_string()
            .map_err(|word| anyhow!("{} is not UTF-8", word.display()))
    });
    let order = WindowOrder {
        words: words.collect::<Result<_>>()?,
        environment: std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect(),
    };
    // The file gets the mode 0600.
    let file = tempfile::Builder::new()
        .prefix("order-")
        .tempfile_in(world.place.run())?;
    serde_json::to_writer(&file, &order)?;
    Ok(file.keep()?.1)
}

/// Replaces this process by the program of the order. The pid stays the same.
pub fn carry_out(order: &Path) -> Result<ExitCode> {
    let text = fs::read(order).with_context(|| format!("could not read {}", order.display()))?;
    drop(fs::remove_file(order));
    let WindowOrder { words, environment } = serde_json::from_slice(&text)?;
    let own = WINDOW_VARIABLES
        .iter()
        .filter_map(|name| Some((name, std::env::var_os(name)?)));
    let mut becket = Command::new(std::env::current_exe()?);
    becket.args(words).env_clear().envs(environment);
    let why = becket.envs(own).exec();
    Err(why).context("could not start becket again")
}

fn tmux(line: &[OsString]) -> Result<Output> {
    let mut tmux = Command::new("tmux");
    // A semicolon at the end of a word would end tmux's command.
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

/// Waits until the launch has a session and, if there is a first prompt, until the session has it: before, it would
/// count as idle.
pub fn wait_session(
    world: &World,
    window: &TmuxWindow,
    timeout: Duration,
    has_prompt: bool,
) -> Result<SessionRow> {
    let began = Instant::now();
    let launcher = window.launcher;
    let start = start_of(launcher).unwrap_or(0);
    let mut source = SessionSource::open(world);
    while began.elapsed() < timeout {
        let file = LaunchFile::of(&world.place, launcher);
        if let Some(session) = file.and_then(|file| file.session_id)
            && let Ok(row) = source.one(&session)
            && (row.last_prompt.is_some() || !has_prompt)
        {
            return Ok(row);
        }
        if !is_alive(launcher, start) {
            let target = &window.target;
            let what = format!("Claude Code ended in tmux window {target} before it had a session");
            let hint = "run it without --tmux to see why";
            return Err(Failure::new(Code::Failed, what).hint(hint).into());
        }
        std::thread::park_timeout(CHECK_INTERVAL);
    }
    let what = format!(
        "no session within {} from tmux window {}",
        time::lasted(timeout.as_millis() as i64),
        window.target
    );
    Err(Failure::new(Code::TimedOut, what)
        .hint("becket doctor")
        .into())
}
