//! The Claude Code process: finds the program, starts it, reads its stderr, and ends it.

mod lines;

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::AsyncReadExt;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub(crate) use self::lines::{Line, Lines, MessageOutline};
use crate::Error;
use crate::protocol::Exit;

/// The time between SIGTERM and SIGKILL, and the time that `close` lets the process finish.
const GRACE: Duration = Duration::from_secs(5);

/// The number of bytes of stderr that are kept, and the maximum length of one of its lines.
const MAX_STDERR: usize = 16 << 10;

/// The longest wait for the end of stderr after the process has ended: a grandchild may hold it open.
const STDERR_END_WAIT: Duration = Duration::from_millis(200);

/// The places where Claude Code's installers put it, below the home folder.
const USUAL_PLACES: [&str; 3] = [
    ".local/bin/claude",
    ".claude/local/claude",
    ".npm-global/bin/claude",
];

/// A running process. A task of its own waits for its end and reaps it.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    pub(crate) stderr: StderrTail,
    stop: CancellationToken,
    ended: watch::Receiver<Option<ExitStatus>>,
}

impl Process {
    /// Starts the process, and returns its stdin and stdout.
    pub(crate) fn start(
        mut command: Command,
        on_stderr: Option<StderrFunction>,
    ) -> Result<(Self, ChildStdin, ChildStdout), Error> {
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let child = piped.stderr(Stdio::piped()).kill_on_drop(true).spawn();
        let mut child = child.map_err(|source| Error::Start {
            program: command.as_std().get_program().into(),
            source,
        })?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let (stdin, stdout) = stdin.zip(stdout).expect("both are piped");
        let stderr = StderrTail::collect(child.stderr.take(), on_stderr);
        let (sender, ended) = watch::channel(None);
        let process = Self {
            pid: child.id().unwrap_or_default(),
            stderr,
            stop: CancellationToken::new(),
            ended,
        };
        tokio::spawn(wait_or_terminate(child, process.stop.clone(), sender));
        Ok((process, stdin, stdout))
    }

    /// Waits until the process has ended.
    pub(crate) fn ended(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut ended = self.ended.clone();
        async move {
            let _ = ended.wait_for(Option::is_some).await;
        }
    }

    /// Waits for the end, five seconds at most, and returns the exit status and the end of stderr.
    pub(crate) fn exit(&self) -> impl Future<Output = Exit> + Send + 'static {
        let (mut ended, stderr) = (self.ended.clone(), self.stderr.clone());
        async move {
            let wait = ended.wait_for(Option::is_some);
            let status = tokio::time::timeout(GRACE, wait).await;
            let status = status.ok().and_then(Result::ok).and_then(|status| *status);
            let stderr = stderr.text_after_exit().await;
            Exit { status, stderr }
        }
    }

    /// Ends the process: SIGTERM, and SIGKILL five seconds later.
    pub(crate) fn stop(&self) {
        self.stop.cancel();
    }
}

/// Waits until the process ends by itself, or ends it when `stop` is cancelled.
async fn wait_or_terminate(
    mut child: Child,
    stop: CancellationToken,
    ended: watch::Sender<Option<ExitStatus>>,
) {
    let by_itself = tokio::select! {
        status = child.wait() => Some(status),
        () = stop.cancelled() => None,
    };
    let status = match by_itself {
        Some(status) => status,
        None => terminate(&mut child).await,
    };
    let _ = ended.send(status.ok());
}

/// Sends SIGTERM, and SIGKILL five seconds later.
pub(crate) async fn terminate(child: &mut Child) -> std::io::Result<ExitStatus> {
    let pid = child.id().and_then(|pid| Pid::from_raw(pid.cast_signed()));
    if let Some(pid) = pid {
        // Not reaped yet, so the pid is still the child's.
        let _ = kill_process(pid, Signal::TERM);
    }
    match tokio::time::timeout(GRACE, child.wait()).await {
        Ok(status) => status,
        Err(_) => {
            child.start_kill()?;
            child.wait().await
        }
    }
}

/// The user's function that gets each line of stderr.
pub(crate) type StderrFunction = Arc<dyn Fn(&str) + Send + Sync>;

/// Adds bytes to the current line, and calls the function for each line that has ended. A line that is too long
/// is passed on in pieces.
fn feed(function: &StderrFunction, line: &mut Vec<u8>, bytes: &[u8]) {
    for part in bytes.split_inclusive(|byte| *byte == b'\n') {
        line.extend_from_slice(part);
        if part.ends_with(b"\n") || line.len() > MAX_STDERR {
            call(function, &std::mem::take(line));
        }
    }
}

fn call(function: &StderrFunction, line: &[u8]) {
    let text = String::from_utf8_lossy(line);
    if !line.is_empty() {
        // Reading goes on if the function panics: otherwise Claude Code would wait for a reader.
        let _ = catch_unwind(AssertUnwindSafe(|| function(text.trim_end_matches('\n'))));
    }
}

/// The last bytes of the process's stderr, for errors.
#[derive(Debug, Clone, Default)]
pub(crate) struct StderrTail {
    bytes: Arc<Mutex<VecDeque<u8>>>,
    ended: CancellationToken,
}

impl StderrTail {
    /// Reads to the end in a task of its own, so that the process never waits for a reader.
    fn collect(stream: Option<ChildStderr>, on_line: Option<StderrFunction>) -> Self {
        let tail = Self::default();
        if let Some(stream) = stream {
            tokio::spawn(tail.clone().read(stream, on_line));
        }
        tail
    }

    async fn read(self, mut stream: ChildStderr, on_line: Option<StderrFunction>) {
        let mut buffer = [0; 4096];
        let mut line = Vec::new();
        while let Ok(read @ 1..) = stream.read(&mut buffer).await {
            self.push(&buffer[..read]);
            if let Some(function) = &on_line {
                feed(function, &mut line, &buffer[..read]);
            }
        }
        if let Some(function) = &on_line {
            call(function, &line);
        }
        self.ended.cancel();
    }

    fn push(&self, bytes: &[u8]) {
        let mut kept = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(bytes);
        let excess = kept.len().saturating_sub(MAX_STDERR);
        kept.drain(..excess);
    }

    /// Waits for the end of stderr, for a short time, and returns the text.
    async fn text_after_exit(&self) -> String {
        let _ = tokio::time::timeout(STDERR_END_WAIT, self.ended.cancelled()).await;
        self.text()
    }

    pub(crate) fn text(&self) -> String {
        let kept = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes: Vec<u8> = kept.iter().copied().collect();
        String::from_utf8_lossy(&bytes).trim().to_owned()
    }
}

/// Finds `claude` on this PATH, else in the places where it is usually installed.
pub(crate) fn find_claude(path: Option<&OsStr>, home: Option<&Path>) -> Result<PathBuf, Error> {
    if let Some(program) = find_on_path("claude", path) {
        return Ok(program);
    }
    let mut usual = home
        .into_iter()
        .flat_map(|home| USUAL_PLACES.map(|place| home.join(place)));
    usual.find(|file| file.is_file()).ok_or(Error::NotFound)
}

pub(crate) fn find_on_path(program: &str, path: Option<&OsStr>) -> Option<PathBuf> {
    let mut files = std::env::split_paths(path?).map(|folder| folder.join(program));
    files.find(|file| file.is_file())
}
