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

use crate::claude;
use crate::failure::{Code, Failure};
use crate::launch::arguments;
use crate::launch::launch_file::{LaunchFile, is_alive, start_of};
use crate::session::source::SessionSource;
use crate::ui::time::lasted;
use crate::world::World;

/// The interval in which the launch file is read.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// The variables that the window itself sets.
const WINDOW_VARIABLES: [&str; 5] = ["TMUX", "TMUX_PANE", "TERM", "TERM_PROGRAM", "COLORTERM"];

/// The command for the window. It is passed in a file, because tmux bounds the length of a command line
/// and would use the environment of its server. Only the user can read the file, and it is removed when
/// it is read.
#[derive(Debug, Serialize, Deserialize)]
struct WindowCommand {
    words: Vec<String>,
    environment: Vec<(String, String)>,
}

/// The window that a launch runs in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    pub target: String,
    pub launcher: u32,
}

/// Opens a window in which `becket run` runs with these options, in the caller's environment: in this
/// tmux, in the one that runs, or in a new one.
pub fn open(world: &World, cwd: &Path, words: &[OsString], options: &[OsString]) -> Result<Window> {
    let (named, words) = arguments::split(words);
    let path = std::env::var_os("PATH");
    // A program that cannot start would close its window before the user reads the error.
    let program = claude::find(named.as_deref(), path.as_deref(), cwd)?;
    let mut line: Vec<OsString> = vec!["--home".into(), world.place.home().into(), "run".into()];
    line.extend(options.iter().cloned());
    line.extend(["--".into(), program.into()]);
    line.extend(words);
    let order =
        write_command_file(world, line).context("could not write what to run in the window")?;
    let inside = std::env::var_os("TMUX").is_some();
    let runs = inside || tmux(&["has-session".into()])?.status.success();
    let new_window: &[&str] = &["new-window"];
    let new_session: &[&str] = &["new-session", "-d", "-s", "becket"];
    // Another launch may start the server at the same time, so that the session exists.
    let ways = [new_session, new_window];
    let ways = if runs { &ways[1..] } else { &ways };
    let name = cwd.file_name().unwrap_or_default();
    let format = "#{session_name}:#{window_index} #{pane_pid}";
    let mut why = String::new();
    for way in ways {
        let mut line: Vec<OsString> = way.iter().map(OsString::from).collect();
        line.extend(["-P", "-F", format, "-n"].map(OsString::from));
        line.extend([name.into(), "-c".into(), cwd.into(), "--".into()]);
        line.extend([world.programs.join("becket").into(), "--home".into()]);
        line.extend([world.place.home().into(), "run".into(), "--order".into()]);
        line.push(order.clone().into());
        let output = tmux(&line)?;
        let said = String::from_utf8_lossy(&output.stdout);
        if let Some((target, launcher)) = said.trim().rsplit_once(' ')
            && let Ok(launcher) = launcher.parse()
        {
            let target = target.to_owned();
            return Ok(Window { target, launcher });
        }
        why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    }
    drop(fs::remove_file(order));
    Err(failed(&format!("could not open a tmux window: {why}")))
}

fn write_command_file(world: &World, words: Vec<OsString>) -> Result<PathBuf> {
    make_folder(&world.place.run(), 0o700)?;
    let words = words.into_iter().map(|word| {
        let text = word.into_string();
        text.map_err(|word| anyhow!("{} is not UTF-8", word.display()))
    });
    let variables = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let order = WindowCommand {
        words: words.collect::<Result<_>>()?,
        environment: variables.collect(),
    };
    // Made with the mode 0600.
    let file = tempfile::NamedTempFile::with_prefix_in("order-", world.place.run())?;
    serde_json::to_writer(&file, &order)?;
    Ok(file.keep()?.1)
}

/// Replaces this process by the command of the file. The pid stays the same.
pub fn exec_command_file(order: &Path) -> Result<ExitCode> {
    let text = fs::read(order).with_context(|| format!("could not read {}", order.display()))?;
    drop(fs::remove_file(order));
    let WindowCommand { words, environment } = serde_json::from_slice(&text)?;
    let own = WINDOW_VARIABLES.into_iter();
    let own = own.filter_map(|name| Some((name, std::env::var_os(name)?)));
    let mut becket = Command::new(std::env::current_exe()?);
    becket.args(words).env_clear().envs(environment);
    let why = becket.envs(own).exec();
    Err(why).context("could not start becket again")
}

fn tmux(line: &[OsString]) -> Result<Output> {
    let mut tmux = Command::new("tmux");
    // A word that ends in a semicolon would end tmux's command.
    for word in line {
        match word.to_str().and_then(|text| text.strip_suffix(';')) {
            Some(text) => tmux.arg(format!("{text}\\;")),
            None => tmux.arg(word),
        };
    }
    let output = tmux.stdin(Stdio::null()).output();
    output.map_err(|why| failed(&format!("could not run tmux: {why}")))
}

fn failed(what: &str) -> anyhow::Error {
    let hint = "install or start tmux, or run it without --tmux";
    Failure::new(Code::Failed, what).hint(hint).into()
}

/// Waits until the launch has a session, and its first prompt if there is one: before, the session
/// would look idle.
pub fn wait_session(
    world: &World,
    window: &Window,
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
            && let Ok(row) = source.find(&session)
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
    let (span, target) = (lasted(timeout.as_millis() as i64), &window.target);
    let what = format!("no session within {span} from tmux window {target}");
    let failure = Failure::new(Code::TimedOut, what);
    Err(failure.hint("becket doctor").into())
}
