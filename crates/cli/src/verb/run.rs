//! `becket run`: starts Claude Code and follows its session.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use becket_engine::session::json;

use crate::failure::{Code, Failure};
use crate::launch::{Launch, NoObserver, RestartPolicy, window};
use crate::session::source::SessionSource;
use crate::world::World;

/// Start Claude Code in this terminal and know its session
#[derive(Debug, clap::Args)]
pub struct RunArgs {
    /// The first prompt
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    prompt: Option<String>,
    /// Go on with this session (the first characters of its id, or its title); without ID choose one
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
    /// When Claude Code dies unexpectedly, or a rate limit is over, go on with the same session; when its
    /// context is full, go on with its effort in a fresh one
    #[arg(long)]
    restart: bool,
    /// With --restart: do not go on after a rate limit
    #[arg(long, requires = "restart")]
    no_limit_restart: bool,
    /// Warn if no session has started after this long
    #[arg(long, value_name = "SPAN", default_value = "30s", value_parser = crate::ui::time::parse_span)]
    establish_timeout: Duration,
    /// Open it in a new tmux window and return at once
    #[arg(long)]
    tmux: bool,
    /// With --tmux: wait for the session, and print it as JSON (exit 5 after the timeout)
    #[arg(long, requires = "tmux")]
    wait_session: bool,
    /// The command line that another becket wrote for this window
    #[arg(long, hide = true, value_name = "FILE")]
    order: Option<PathBuf>,
    /// Claude Code's own arguments; if the first one is called `claude`, it is the program
    #[arg(last = true, value_name = "claude")]
    words: Vec<OsString>,
}

impl RunArgs {
    pub fn run(mut self, world: &World) -> Result<ExitCode> {
        if let Some(order) = &self.order {
            return window::exec_command_file(order);
        }
        let session_folder = self.find_session(world)?;
        let cwd = match (&self.cwd, session_folder) {
            (Some(folder), _) => existing(&world.cwd.join(folder))?,
            (None, Some(folder)) => folder,
            (None, None) => world.cwd.clone(),
        };
        if self.tmux {
            return self.in_tmux(world, &cwd);
        }
        let launch = Launch {
            options: self.options(),
            words: self.words,
            prompt: self.prompt,
            cwd,
            agent_id: self.agent_id,
            establish_timeout: self.establish_timeout,
            policy: if !self.restart {
                RestartPolicy::Never
            } else if self.no_limit_restart {
                RestartPolicy::AfterDeath
            } else {
                RestartPolicy::AfterDeathOrLimit
            },
        };
        launch.run(world, &mut NoObserver)
    }

    /// Completes the id of the session to resume. Returns its folder if that exists: Claude Code finds the transcript by
    /// the folder. A complete id may be known to Claude Code only.
    fn find_session(&mut self, world: &World) -> Result<Option<PathBuf>> {
        let Some(meant) = self.resume.as_deref().filter(|meant| !meant.is_empty()) else {
            return Ok(None);
        };
        match SessionSource::open(world).find(meant) {
            Ok(row) => {
                self.resume = Some(row.session_id);
                Ok(row.cwd.map(PathBuf::from).filter(|folder| folder.is_dir()))
            }
            Err(_) if is_session_id(meant) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns Claude Code's options that choose the session.
    fn options(&self) -> Vec<OsString> {
        match self.resume.as_deref() {
            None if self.go_on => vec!["--continue".into()],
            None => Vec::new(),
            Some("") => vec!["--resume".into()],
            Some(session) => vec!["--resume".into(), session.into()],
        }
    }

    fn in_tmux(self, world: &World, cwd: &Path) -> Result<ExitCode> {
        let mut options: Vec<OsString> = vec!["--cwd".into(), cwd.into()];
        let span = format!("{}ms", self.establish_timeout.as_millis());
        for (name, value) in [
            ("--prompt", self.prompt.as_deref()),
            (
                "--resume",
                self.resume.as_deref().filter(|meant| !meant.is_empty()),
            ),
            ("--as", self.agent_id.as_deref()),
            ("--establish-timeout", Some(&*span)),
        ] {
            // In one word, since a value may begin with a dash.
            options.extend(value.map(|value| OsString::from(format!("{name}={value}"))));
        }
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
        let has_prompt = self.prompt.is_some();
        let row = window::wait_session(world, &window, self.establish_timeout, has_prompt)?;
        println!("{}", crate::ui::text::json(&json(&row))?);
        Ok(ExitCode::SUCCESS)
    }
}

/// Returns true if this is a UUID, as Claude Code's session ids are.
pub fn is_session_id(text: &str) -> bool {
    let parts: Vec<usize> = text.split('-').map(str::len).collect();
    parts == [8, 4, 4, 4, 12] && text.chars().all(|c| c.is_ascii_hexdigit() || c == '-')
}

fn existing(folder: &Path) -> Result<PathBuf> {
    if !folder.is_dir() {
        let what = format!("{} is not a folder", folder.display());
        return Err(Failure::new(Code::Missing, what).into());
    }
    Ok(folder
        .canonicalize()
        .unwrap_or_else(|_| folder.to_path_buf()))
}
