//! The program in print mode (`-p`): one prompt, one result, with a bound on its time.

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

/// One run that is about to be. Every method adds what the command line would say.
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

    /// Takes up the session with this id.
    pub fn resume(self, session: &str) -> Self {
        self.args(["--resume", session])
    }

    /// Takes up the newest session of the project.
    pub fn continues(self) -> Self {
        self.arg("--continue")
    }

    /// Makes the resumed session a new one.
    pub fn fork(self) -> Self {
        self.arg("--fork-session")
    }

    /// Settings on the command line, beside those of the files.
    pub fn settings(self, settings: &Value) -> Self {
        self.args(["--settings".to_owned(), settings.to_string()])
    }

    /// Subagents on the command line.
    pub fn agents(self, agents: &Value) -> Self {
        self.args(["--agents".to_owned(), agents.to_string()])
    }

    /// The permission mode: `default`, `acceptEdits`, `bypassPermissions`, `plan`.
    pub fn mode(self, mode: &str) -> Self {
        self.args(["--permission-mode", mode])
    }

    /// The model to ask for.
    pub fn model(self, model: &str) -> Self {
        self.args(["--model", model])
    }

    /// Every message as a line (`stream-json`), not only the result.
    pub fn stream(mut self) -> Self {
        self.stream = true;
        self
    }

    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// How long the run may take.
    pub fn bound(mut self, bound: Duration) -> Self {
        self.bound = bound;
        self
    }

    /// Runs to the end.
    pub fn run(self) -> Finished {
        self.start().finish()
    }

    /// Starts, for a test that acts in the middle of the run.
    pub fn start(self) -> Running {
        static RUNS: AtomicU64 = AtomicU64::new(0);
        let number = RUNS.fetch_add(1, Ordering::Relaxed);
        let out = self.home.root().join(format!("run-{number}.out"));
        let err = self.home.root().join(format!("run-{number}.err"));
        let mut command = self.command();
        // Files, not pipes: a grandchild that keeps them open cannot hold up the test.
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

/// A run under way. Dropped before its end, it is killed with its group.
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

    /// What it has printed so far.
    pub fn stdout(&self) -> String {
        text(&self.out)
    }

    /// Sends a signal to the program alone, as a person with `kill` would.
    pub fn signal(&self, signal: Signal) {
        let _ = rustix::process::kill_process(self.group(), signal);
    }

    /// Waits for the end, at most to the bound.
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

/// A run that has ended.
#[derive(Debug)]
pub struct Finished {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
    pub took: Duration,
}

impl Finished {
    /// The result object: the whole output, or the last line of a stream.
    pub fn result(&self) -> Value {
        let lines = self.lines();
        match lines.iter().rev().find(|line| line["type"] == "result") {
            Some(result) => result.clone(),
            None => panic!("Claude Code printed no result: {self:?}"),
        }
    }

    /// The result's text.
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

    /// Every message that was printed.
    pub fn lines(&self) -> Vec<Value> {
        let lines = self.stdout.lines();
        lines.filter_map(|line| json::lenient(line).ok()).collect()
    }

    /// Fails unless the program itself was content.
    #[track_caller]
    pub fn succeeded(&self) -> &Self {
        let fine = self.status.success() && self.result()["is_error"] == false;
        assert!(fine, "Claude Code failed: {self:?}");
        self
    }
}
