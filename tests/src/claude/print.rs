//! Claude Code in print mode (`-p`): one prompt, one result, with a bound on its time.

use becket_wire::json;
use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;

use super::{Claude, Home};
use crate::wait;

/// A run to be started. Each method adds arguments of the command line.
#[derive(Debug)]
#[must_use = "a run does nothing until `run` or `start`"]
pub struct Print<'a> {
    claude: &'a Claude,
    home: &'a Home,
    prompt: String,
    args: Vec<OsString>,
    env: Vec<(String, String)>,
    bound: Duration,
    stream: bool,
}

impl<'a> Print<'a> {
    pub fn new(claude: &'a Claude, home: &'a Home, prompt: &str) -> Self {
        Self {
            claude,
            home,
            prompt: prompt.to_owned(),
            args: Vec::new(),
            env: Vec::new(),
            bound: Duration::from_secs(120),
            stream: false,
        }
    }

    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    pub fn args<T: Into<OsString>>(mut self, args: impl IntoIterator<Item = T>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Resumes the session with this id.
    pub fn resume(self, session: &str) -> Self {
        self.args(["--resume", session])
    }

    /// Resumes the newest session of the project.
    pub fn continues(self) -> Self {
        self.arg("--continue")
    }

    /// Makes a new session of the resumed one.
    pub fn fork(self) -> Self {
        self.arg("--fork-session")
    }

    /// Passes settings on the command line, beside those of the files.
    pub fn settings(self, settings: &Value) -> Self {
        self.args(["--settings".to_owned(), settings.to_string()])
    }

    /// Passes subagents on the command line.
    pub fn agents(self, agents: &Value) -> Self {
        self.args(["--agents".to_owned(), agents.to_string()])
    }

    /// Sets the permission mode: `default`, `acceptEdits`, `bypassPermissions`, `plan`.
    pub fn mode(self, mode: &str) -> Self {
        self.args(["--permission-mode", mode])
    }

    /// Sets the model.
    pub fn model(self, model: &str) -> Self {
        self.args(["--model", model])
    }

    /// Prints every message as a line (`stream-json`), not only the result.
    pub fn stream(mut self) -> Self {
        self.stream = true;
        self
    }

    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sets the time limit of the run.
    pub fn bound(mut self, bound: Duration) -> Self {
        self.bound = bound;
        self
    }

    /// Runs the program to its end.
    pub fn run(self) -> Finished {
        self.start().finish()
    }

    /// Starts the program, for a test that acts during the run.
    pub fn start(self) -> Running {
        static RUNS: AtomicU64 = AtomicU64::new(0);
        let number = RUNS.fetch_add(1, Ordering::Relaxed);
        let out = self.home.root().join(format!("run-{number}.out"));
        let err = self.home.root().join(format!("run-{number}.err"));
        let mut command = self.command();
        // Files, not pipes: a grandchild that keeps them open cannot block the test.
        command
            .stdin(Stdio::null())
            .stdout(File::create(&out).expect("open a file for stdout"))
            .stderr(File::create(&err).expect("open a file for stderr"));
        let child = command
            .spawn()
            .unwrap_or_else(|e| panic!("start Claude Code {}: {e}", self.claude.version));
        Running {
            child,
            out,
            err,
            began: Instant::now(),
            bound: self.bound,
        }
    }

    fn command(&self) -> Command {
        let (program, first) = self.claude.command().split_first().expect("a program");
        let mut command = Command::new(program);
        let format = if self.stream { "stream-json" } else { "json" };
        command
            .args(first)
            .args(["-p", &self.prompt, "--output-format", format])
            .args(self.stream.then_some("--verbose"))
            .args(&self.args)
            .env_clear()
            .envs(self.home.env().iter().map(|(k, v)| (k, v)))
            .envs(self.env.iter().map(|(k, v)| (k, v)))
            .current_dir(self.home.project())
            .process_group(0);
        command
    }
}

/// A running program. Dropping it kills the program with its group.
#[derive(Debug)]
pub struct Running {
    child: Child,
    out: PathBuf,
    err: PathBuf,
    began: Instant,
    bound: Duration,
}

impl Running {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the output so far.
    pub fn stdout(&self) -> String {
        text(&self.out)
    }

    /// Sends a signal to the program alone, as `kill` would.
    pub fn signal(&self, signal: Signal) {
        let _ = rustix::process::kill_process(self.group(), signal);
    }

    /// Waits for the end, within the time limit.
    pub fn finish(mut self) -> Finished {
        let left = self.bound.saturating_sub(self.began.elapsed());
        let status = wait::until(left, || self.child.try_wait().expect("ask for the end"));
        let Some(status) = status else {
            let (bound, out, err) = (self.bound, text(&self.out), text(&self.err));
            drop(self);
            panic!("Claude Code did not end within {bound:?}\nstdout: {out}\nstderr: {err}");
        };
        Finished {
            status,
            stdout: text(&self.out),
            stderr: text(&self.err),
            took: self.began.elapsed(),
        }
    }

    fn group(&self) -> Pid {
        Pid::from_child(&self.child)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = kill_process_group(self.group(), Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

fn text(path: &PathBuf) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
}

/// An ended run.
#[derive(Debug)]
pub struct Finished {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
    pub took: Duration,
}

impl Finished {
    /// Returns the result object: the whole output, or the last line of a stream.
    pub fn result(&self) -> Value {
        let lines = self.lines();
        match lines.iter().rev().find(|line| line["type"] == "result") {
            Some(result) => result.clone(),
            None => panic!("Claude Code printed no result: {self:?}"),
        }
    }

    /// Returns the text of the result.
    pub fn text(&self) -> String {
        self.result()["result"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    pub fn session(&self) -> String {
        self.result()["session_id"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    /// Returns every printed message.
    pub fn lines(&self) -> Vec<Value> {
        let lines = self.stdout.lines();
        lines.filter_map(|line| json::lenient(line).ok()).collect()
    }

    /// Fails unless the program succeeded.
    #[track_caller]
    pub fn succeeded(&self) -> &Self {
        let fine = self.status.success() && self.result()["is_error"] == false;
        assert!(fine, "Claude Code failed: {self:?}");
        self
    }
}
