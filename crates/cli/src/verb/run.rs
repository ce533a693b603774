//! `becket run`: start Claude Code and know its session.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use becket_engine::session::json;

use crate::failure::{Code, Failure};
use crate::launch::{Launch, NoObserver, Policy, window};
use crate::session::source::Source;
use crate::world::World;

/// Start Claude Code in this terminal and know its session
#[derive(Debug, clap::Args)]
pub struct Run {
    /// The first prompt
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    prompt: Option<String>,
    /// Go on with this session (any unique beginning of its id, or its title); without ID choose one
    #[arg(long = "resume", id = "session", value_name = "ID", num_args = 0..=1, default_missing_value = "")]
    resume: Option<String>,
    /// Go on with the last session of this folder
    #[arg(long = "continue", conflicts_with = "session")]
    go_on: bool,
    /// Start it in this folder
    #[arg(long, value_name = "FOLDER")]
    cwd: Option<PathBuf>,
    /// Set AGENT_ID, by which other programs know this pane
    #[arg(long = "as", value_name = "AGENT_ID")]
    agent_id: Option<String>,
    /// When Claude Code dies unexpectedly, or a rate limit is over, go on with the same session
    #[arg(long)]
    restart: bool,
    /// With --restart: do not go on after a rate limit
    #[arg(long, requires = "restart")]
    no_limit_restart: bool,
    /// Say that something is wrong if no session is there after so long
    #[arg(long, value_name = "SPAN", default_value = "30s", value_parser = crate::when::span)]
    establish_timeout: Duration,
    /// Open it in a new tmux window and return at once
    #[arg(long)]
    tmux: bool,
    /// With --tmux: wait for the session, and print it as JSON (exit 5 after the timeout)
    #[arg(long, requires = "tmux")]
    wait_session: bool,
    /// Claude Code's own arguments; if the first one is called `claude`, it is the program
    #[arg(last = true, value_name = "claude")]
    words: Vec<OsString>,
}

impl Run {
    pub fn run(self, world: &World) -> Result<ExitCode> {
        let cwd = self.folder(world)?;
        if self.tmux {
            return self.in_tmux(world, &cwd);
        }
        let options = self.options(world)?;
        let launch = Launch {
            words: self.words,
            options,
            prompt: self.prompt,
            cwd,
            agent_id: self.agent_id,
            establish_timeout: self.establish_timeout,
            policy: match (self.restart, self.no_limit_restart) {
                (false, _) => Policy::Never,
                (true, true) => Policy::AfterDeath,
                (true, false) => Policy::AfterDeathOrLimit,
            },
        };
        launch.run(world, &mut NoObserver)
    }

    fn folder(&self, world: &World) -> Result<PathBuf> {
        let Some(folder) = &self.cwd else {
            return Ok(world.cwd.clone());
        };
        let folder = world.cwd.join(folder);
        if !folder.is_dir() {
            let what = format!("{} is no folder", folder.display());
            return Err(Failure::new(Code::Missing, what).into());
        }
        Ok(folder.canonicalize().unwrap_or(folder))
    }

    /// How Claude Code is to begin.
    fn options(&self, world: &World) -> Result<Vec<OsString>> {
        let words: Vec<String> = match self.resume.as_deref() {
            None if self.go_on => vec!["--continue".to_owned()],
            None => Vec::new(),
            Some("") => vec!["--resume".to_owned()],
            Some(meant) => vec!["--resume".to_owned(), whole_id(world, meant)?],
        };
        Ok(words.into_iter().map(OsString::from).collect())
    }

    fn in_tmux(self, world: &World, cwd: &Path) -> Result<ExitCode> {
        let mut options: Vec<OsString> = vec!["--cwd".into(), cwd.into()];
        // In one word: a value may begin with a dash.
        let mut option = |name: &str, value: Option<&str>| {
            options.extend(value.map(|value| format!("{name}={value}").into()));
        };
        option("--prompt", self.prompt.as_deref());
        let resume = self.resume.as_deref().filter(|meant| !meant.is_empty());
        let resume = resume.map(|meant| whole_id(world, meant)).transpose()?;
        option("--resume", resume.as_deref());
        option("--as", self.agent_id.as_deref());
        let span = format!("{}ms", self.establish_timeout.as_millis());
        option("--establish-timeout", Some(&span));
        let choose = self.resume.as_deref() == Some("");
        for (wanted, flag) in [
            (choose, "--resume"),
            (self.go_on, "--continue"),
            (self.restart, "--restart"),
            (self.no_limit_restart, "--no-limit-restart"),
        ] {
            options.extend(wanted.then(|| OsString::from(flag)));
        }
        let window = window::open(world, cwd, &self.words, &options)?;
        if !self.wait_session {
            println!(
                "opened in tmux window {} (launcher {})",
                window.target, window.launcher
            );
            return Ok(ExitCode::SUCCESS);
        }
        let session = window::wait_session(world, &window, self.establish_timeout)?;
        let row = Source::open(world).one(&session)?;
        println!("{}", serde_json::to_string(&json(&row))?);
        Ok(ExitCode::SUCCESS)
    }
}

/// Whether this is a session's id as Claude Code makes them: a UUID.
pub fn is_session_id(text: &str) -> bool {
    let parts: Vec<usize> = text.split('-').map(str::len).collect();
    let hex = |c: char| c.is_ascii_hexdigit() || c == '-';
    parts == [8, 4, 4, 4, 12] && text.chars().all(hex)
}

/// The whole id of the session that is meant. One that becket never saw may be known to Claude Code.
pub fn whole_id(world: &World, meant: &str) -> Result<String> {
    if is_session_id(meant) {
        return Ok(meant.to_owned());
    }
    Ok(Source::open(world).one(meant)?.session_id)
}
