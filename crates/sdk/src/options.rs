//! What Claude Code is started with.

mod command;
mod environment;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use becket_wire::event::PermissionMode;
pub(crate) use environment::Environment;
use serde_json::{Value, json};

use crate::Builder;
use crate::process::StderrFunction;

/// How long one message may be: a tool input may hold a whole file.
const MAX_MESSAGE: usize = 32 << 20;
const START_TIMEOUT: Duration = Duration::from_secs(60);
const BACKGROUND_WAIT: Duration = Duration::from_secs(10 * 60);

/// What Claude Code is started with.
#[derive(Debug)]
pub(crate) struct Options {
    program: Option<PathBuf>,
    pub(crate) environment: Environment,
    args: Vec<OsString>,
    pub(crate) asks_permission: bool,
    pub(crate) stderr: Option<StderrFunction>,
    pub(crate) max_message: usize,
    pub(crate) start_timeout: Duration,
    pub(crate) background_wait: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            program: None,
            environment: Environment::default(),
            args: Vec::new(),
            asks_permission: false,
            stderr: None,
            max_message: MAX_MESSAGE,
            start_timeout: START_TIMEOUT,
            background_wait: BACKGROUND_WAIT,
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
        self.flag("--model", model)
    }

    /// How much Claude Code may do without asking.
    pub fn permission_mode(self, mode: impl Into<PermissionMode>) -> Self {
        self.flag("--permission-mode", mode.into().as_str())
    }

    /// The system prompt, in place of Claude Code's own.
    pub fn system_prompt(self, prompt: impl Into<OsString>) -> Self {
        self.flag("--system-prompt", prompt)
    }

    /// Text after Claude Code's own system prompt.
    pub fn append_system_prompt(self, prompt: impl Into<OsString>) -> Self {
        self.flag("--append-system-prompt", prompt)
    }

    /// Tools that need no permission, as permission rules: `"Read"`, `"Bash(git *)"`.
    pub fn allowed_tools<T: Into<String>>(self, tools: impl IntoIterator<Item = T>) -> Self {
        self.list("--allowedTools", tools)
    }

    /// Tools that Claude Code must not use, as permission rules.
    pub fn disallowed_tools<T: Into<String>>(self, tools: impl IntoIterator<Item = T>) -> Self {
        self.list("--disallowedTools", tools)
    }

    /// The tools that there are, out of Claude Code's own: `["Read", "Bash"]`. `[""]` is none.
    pub fn tools<T: Into<String>>(self, tools: impl IntoIterator<Item = T>) -> Self {
        self.list("--tools", tools)
    }

    /// A folder that Claude Code may work in besides its own. Can be given several times.
    pub fn add_dir(self, folder: impl Into<OsString>) -> Self {
        self.flag("--add-dir", folder)
    }

    /// The MCP servers, by name, as in Claude Code's own configuration. Claude Code starts them, or
    /// connects to them.
    ///
    /// ```
    /// use becket_sdk::Claude;
    /// use serde_json::json;
    ///
    /// let builder = Claude::builder()
    ///     .mcp_servers(&json!({"files": {"command": "mcp-files", "args": ["--read-only"]}}));
    /// ```
    pub fn mcp_servers(self, servers: &Value) -> Self {
        let config = json!({"mcpServers": servers});
        self.flag("--mcp-config", config.to_string())
    }

    /// Subagents, by name: `{"reviewer": {"description": …, "prompt": …}}`.
    pub fn agents(self, agents: &Value) -> Self {
        self.flag("--agents", agents.to_string())
    }

    /// The form of the answer, as a JSON schema. See
    /// [`TurnResult::structured_output`](crate::TurnResult::structured_output).
    pub fn json_schema(self, schema: &Value) -> Self {
        self.flag("--json-schema", schema.to_string())
    }

    /// Limits how often the model is asked in one turn. Past it, the result's subtype is
    /// `error_max_turns`.
    pub fn max_turns(self, turns: u32) -> Self {
        self.flag("--max-turns", turns.to_string())
    }

    /// Sets how much the model thinks: `low`, `medium`, `high` and others.
    pub fn effort(self, level: impl Into<OsString>) -> Self {
        self.flag("--effort", level)
    }

    /// The model's words arrive in parts too, as [`Message::Other`](crate::Message::Other) of type
    /// `stream_event`.
    pub fn partial_messages(self) -> Self {
        self.arg("--include-partial-messages")
    }

    /// Calls this function for each line that Claude Code writes to stderr. It must not block. The
    /// end of stderr is in the errors that say that Claude Code ended, with or without it.
    pub fn stderr(mut self, function: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.options.stderr = Some(StderrFunction(Arc::new(function)));
        self
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

    /// The id of the new session, a UUID.
    pub fn session_id(self, id: impl Into<OsString>) -> Self {
        self.flag("--session-id", id)
    }

    /// Goes on with the session of this id.
    pub fn resume(self, session: impl Into<OsString>) -> Self {
        self.flag("--resume", session)
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
        self.flag("--settings", settings.to_string())
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

    /// Sets how long [`Claude::close`](crate::Claude::close) and [`query`](Self::query) wait for
    /// background tasks and for what Claude Code makes of them: ten minutes by default; zero is not to
    /// wait.
    ///
    /// A subagent works in the background unless the model asks otherwise, and its calls are refused
    /// once the client is closed.
    pub fn background_wait(mut self, limit: Duration) -> Self {
        self.options.background_wait = limit;
        self
    }

    fn list<T: Into<String>>(self, name: &str, items: impl IntoIterator<Item = T>) -> Self {
        let items: Vec<String> = items.into_iter().map(Into::into).collect();
        self.flag(name, items.join(","))
    }

    /// One argument, so that a value that begins with a hyphen is no flag of its own.
    fn flag(self, name: &str, value: impl Into<OsString>) -> Self {
        let mut arg = OsString::from(name);
        arg.push("=");
        arg.push(value.into());
        self.arg(arg)
    }
}
