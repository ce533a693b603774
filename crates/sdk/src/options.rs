//! The options of Claude Code: its command line, its folder and its environment variables.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use becket_wire::event::PermissionMode;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::process::{StderrFunction, find_claude};
use crate::{Builder, Error};

/// The environment variable that makes Claude Code report when it is idle.
pub(crate) const STATE_EVENTS: &str = "CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS";

/// The flags for messages as lines of JSON, in both directions.
const STREAM_JSON: [&str; 3] = [
    "--output-format=stream-json",
    "--input-format=stream-json",
    "--verbose",
];

/// The default for the length of one message in bytes: a tool input may contain a whole file.
const MAX_MESSAGE: usize = 32 << 20;
const START_TIMEOUT: Duration = Duration::from_secs(60);
const BACKGROUND_WAIT: Duration = Duration::from_secs(10 * 60);

/// The options that Claude Code is started with.
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

/// The options of Claude Code.
impl Builder {
    /// Sets the `claude` to start. The default is the one on the PATH, then the one in the places where it
    /// is usually installed.
    pub fn program(mut self, program: impl Into<PathBuf>) -> Self {
        self.options.program = Some(program.into());
        self
    }

    /// Sets the model, by name or alias.
    pub fn model(self, model: impl Into<OsString>) -> Self {
        self.flag("--model", model)
    }

    /// Sets the permission mode: how much Claude Code may do without asking.
    pub fn permission_mode(self, mode: impl Into<PermissionMode>) -> Self {
        self.flag("--permission-mode", mode.into().as_str())
    }

    /// Replaces Claude Code's own system prompt.
    pub fn system_prompt(self, prompt: impl Into<OsString>) -> Self {
        self.flag("--system-prompt", prompt)
    }

    /// Adds text after Claude Code's own system prompt.
    pub fn append_system_prompt(self, prompt: impl Into<OsString>) -> Self {
        self.flag("--append-system-prompt", prompt)
    }

    /// Allows tools without asking, as permission rules: `"Read"`, `"Bash(git *)"`.
    pub fn allowed_tools<T: Into<String>>(self, tools: impl IntoIterator<Item = T>) -> Self {
        self.list("--allowedTools", tools)
    }

    /// Forbids tools, as permission rules.
    pub fn disallowed_tools<T: Into<String>>(self, tools: impl IntoIterator<Item = T>) -> Self {
        self.list("--disallowedTools", tools)
    }

    /// Limits Claude Code's own tools to these: `["Read", "Bash"]`. `[""]` is none.
    pub fn tools<T: Into<String>>(self, tools: impl IntoIterator<Item = T>) -> Self {
        self.list("--tools", tools)
    }

    /// Adds a folder that Claude Code may work in besides its own. Can be called several times.
    pub fn add_dir(self, folder: impl Into<OsString>) -> Self {
        self.flag("--add-dir", folder)
    }

    /// Sets the MCP servers, by name, as in Claude Code's own configuration. Claude Code starts them, or
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

    /// Sets the subagents, by name: `{"reviewer": {"description": …, "prompt": …}}`.
    pub fn agents(self, agents: &Value) -> Self {
        self.flag("--agents", agents.to_string())
    }

    /// Sets the form of the answer, as a JSON schema. See
    /// [`TurnResult::structured_output`](crate::TurnResult::structured_output).
    pub fn json_schema(self, schema: &Value) -> Self {
        self.flag("--json-schema", schema.to_string())
    }

    /// Limits how often the model is asked in one turn. Above the limit, the result's subtype is
    /// `error_max_turns`.
    pub fn max_turns(self, turns: u32) -> Self {
        self.flag("--max-turns", turns.to_string())
    }

    /// Sets how much the model thinks: `low`, `medium`, `high` and others.
    pub fn effort(self, level: impl Into<OsString>) -> Self {
        self.flag("--effort", level)
    }

    /// Delivers the model's text also in parts, as [`Message::Other`](crate::Message::Other) of type
    /// `stream_event`.
    pub fn partial_messages(self) -> Self {
        self.arg("--include-partial-messages")
    }

    /// Calls this function for each line that Claude Code writes to stderr. It must not block. With or
    /// without it, the errors about the end of Claude Code contain the last text of stderr.
    pub fn stderr(mut self, function: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.options.stderr = Some(Arc::new(function));
        self
    }

    /// Sets the folder that Claude Code works in. The default is that of this process.
    pub fn cwd(mut self, folder: impl Into<PathBuf>) -> Self {
        self.options.environment.cwd = Some(folder.into());
        self
    }

    /// Sets an environment variable of Claude Code, besides those that it inherits.
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        let variable = (name.into(), value.into());
        self.options.environment.variables.push(variable);
        self
    }

    /// Starts Claude Code without the inherited environment, with the variables of [`env`](Self::env)
    /// only.
    pub fn env_clear(mut self) -> Self {
        self.options.environment.cleared = true;
        self
    }

    /// Sets the id of the new session, a UUID.
    pub fn session_id(self, id: impl Into<OsString>) -> Self {
        self.flag("--session-id", id)
    }

    /// Resumes the session with this id.
    pub fn resume(self, session: impl Into<OsString>) -> Self {
        self.flag("--resume", session)
    }

    /// Resumes the newest session of the folder.
    pub fn resume_latest(self) -> Self {
        self.arg("--continue")
    }

    /// Copies the resumed session to a new one, which leaves the old one unchanged.
    pub fn fork(self) -> Self {
        self.arg("--fork-session")
    }

    /// Adds settings to those of the settings files. Their command hooks run beside the callbacks.
    pub fn settings(self, settings: &Value) -> Self {
        self.flag("--settings", settings.to_string())
    }

    /// Adds an argument to the command line.
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.options.args.push(arg.into());
        self
    }

    /// Sets the maximum length of one message in bytes: 32 MiB by default. A longer one is an error in the
    /// stream, and the client goes on.
    pub fn max_message(mut self, bytes: usize) -> Self {
        self.options.max_message = bytes;
        self
    }

    /// Sets the time limit for the start of Claude Code: 60 seconds by default.
    pub fn start_timeout(mut self, timeout: Duration) -> Self {
        self.options.start_timeout = timeout;
        self
    }

    /// Sets how long [`Claude::close`](crate::Claude::close) and [`query`](Self::query) wait for
    /// background tasks and for Claude Code's reaction to them: ten minutes by default. With zero, they
    /// do not wait.
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

    /// Adds a flag and its value as one argument, so that a value that begins with a hyphen is not taken
    /// for a flag.
    fn flag(self, name: &str, value: impl Into<OsString>) -> Self {
        let mut arg = OsString::from(name);
        arg.push("=");
        arg.push(value.into());
        self.arg(arg)
    }
}

impl Options {
    /// Makes the command that starts Claude Code.
    pub(crate) fn command(&self) -> Result<Command, Error> {
        self.environment.check_folder()?;
        let mut command = Command::new(self.find_program()?);
        command.args(STREAM_JSON);
        if self.asks_permission {
            command.arg("--permission-prompt-tool=stdio");
        }
        command.args(&self.args);
        self.environment.apply(&mut command);
        command.env(STATE_EVENTS, "1");
        Ok(command)
    }

    fn find_program(&self) -> Result<PathBuf, Error> {
        if let Some(program) = &self.program {
            return Ok(program.clone());
        }
        let home = self.environment.variable("HOME").map(PathBuf::from);
        let path = self.environment.variable("PATH");
        find_claude(path.as_deref(), home.as_deref())
    }
}

/// The folder and the environment variables that Claude Code is started with.
#[derive(Debug, Clone, Default)]
pub(crate) struct Environment {
    cwd: Option<PathBuf>,
    variables: Vec<(OsString, OsString)>,
    cleared: bool,
}

impl Environment {
    pub(crate) fn apply(&self, command: &mut Command) {
        if self.cleared {
            command.env_clear();
        }
        // Claude Code sets it for programs inside of a session. This is a session of its own.
        command.env_remove("CLAUDECODE");
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        if let Some(folder) = &self.cwd {
            command.current_dir(folder);
        }
    }

    fn check_folder(&self) -> Result<(), Error> {
        match &self.cwd {
            Some(folder) if !folder.is_dir() => Err(Error::NoFolder {
                folder: folder.clone(),
            }),
            _ => Ok(()),
        }
    }

    /// Returns the folder: the one that was set, or this process's own.
    pub(crate) fn folder(&self) -> Option<PathBuf> {
        self.cwd.clone().or_else(|| std::env::current_dir().ok())
    }

    /// Returns the value of a variable: the one that was set, or this process's own.
    pub(crate) fn variable(&self, name: &str) -> Option<OsString> {
        let set = self.variables.iter().rev().find(|(set, _)| set == name);
        let set = set.map(|(_, value)| value.clone());
        set.or_else(|| std::env::var_os(name))
    }
}
