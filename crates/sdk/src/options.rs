//! What Claude Code is started with.

mod command;
mod environment;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use becket_wire::event::PermissionMode;
pub(crate) use environment::Environment;
use serde_json::Value;

use crate::Builder;

/// How long one message may be: a tool input may hold a whole file.
const MAX_MESSAGE: usize = 32 << 20;
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// What Claude Code is started with.
#[derive(Debug)]
pub(crate) struct Options {
    program: Option<PathBuf>,
    pub(crate) environment: Environment,
    args: Vec<OsString>,
    pub(crate) asks_permission: bool,
    pub(crate) max_message: usize,
    pub(crate) start_timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            program: None,
            environment: Environment::default(),
            args: Vec::new(),
            asks_permission: false,
            max_message: MAX_MESSAGE,
            start_timeout: START_TIMEOUT,
        }
    }
}

/// What Claude Code is started with.
impl Builder {
    /// The `claude` to start. By default it is looked for on the PATH, then where it is usually
    /// installed.
    pub fn program(mut self, program: impl Into<PathBuf>) -> Self {
        self.options.program = Some(program.into());
        self
    }

    /// The model, by name or alias.
    pub fn model(self, model: impl Into<OsString>) -> Self {
        self.arg("--model").arg(model)
    }

    /// How much Claude Code may do without asking.
    pub fn permission_mode(self, mode: impl Into<PermissionMode>) -> Self {
        self.arg("--permission-mode").arg(mode.into().as_str())
    }

    /// The system prompt, in place of Claude Code's own.
    pub fn system_prompt(self, prompt: impl Into<OsString>) -> Self {
        self.arg("--system-prompt").arg(prompt)
    }

    /// Text after Claude Code's own system prompt.
    pub fn append_system_prompt(self, prompt: impl Into<OsString>) -> Self {
        self.arg("--append-system-prompt").arg(prompt)
    }

    /// Tools that need no permission, as permission rules: `"Read"`, `"Bash(git *)"`.
    pub fn allowed_tools<T: Into<String>>(self, tools: impl IntoIterator<Item = T>) -> Self {
        self.list("--allowedTools", tools)
    }

    /// Tools that Claude Code must not use, as permission rules.
    pub fn disallowed_tools<T: Into<String>>(self, tools: impl IntoIterator<Item = T>) -> Self {
        self.list("--disallowedTools", tools)
    }

    /// The folder that Claude Code works in. The default is this process's own.
    pub fn cwd(mut self, folder: impl Into<PathBuf>) -> Self {
        self.options.environment.cwd = Some(folder.into());
        self
    }

    /// An environment variable of Claude Code, besides those that it inherits.
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.options
            .environment
            .variables
            .push((name.into(), value.into()));
        self
    }

    /// Claude Code inherits no environment: it gets the variables of [`env`](Self::env) only.
    pub fn env_clear(mut self) -> Self {
        self.options.environment.cleared = true;
        self
    }

    /// Goes on with the session of this id.
    pub fn resume(self, session: impl Into<OsString>) -> Self {
        self.arg("--resume").arg(session)
    }

    /// Goes on with the newest session of the folder.
    pub fn resume_latest(self) -> Self {
        self.arg("--continue")
    }

    /// Makes the resumed session a new one, which leaves the old one as it is.
    pub fn fork(self) -> Self {
        self.arg("--fork-session")
    }

    /// Settings besides those of the settings files. Command hooks in here run beside the callbacks.
    pub fn settings(self, settings: &Value) -> Self {
        self.arg("--settings").arg(settings.to_string())
    }

    /// One more argument of the command line.
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.options.args.push(arg.into());
        self
    }

    /// How many bytes one message may have: 32 MiB by default. A longer one is an error in the stream,
    /// and the client goes on.
    pub fn max_message(mut self, bytes: usize) -> Self {
        self.options.max_message = bytes;
        self
    }

    /// How long Claude Code may take until it is ready: 60 seconds by default.
    pub fn start_timeout(mut self, timeout: Duration) -> Self {
        self.options.start_timeout = timeout;
        self
    }

    fn list<T: Into<String>>(self, name: &str, items: impl IntoIterator<Item = T>) -> Self {
        let items: Vec<String> = items.into_iter().map(Into::into).collect();
        self.arg(name).arg(items.join(","))
    }
}
