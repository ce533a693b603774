//! The Claude Code process: started, watched, ended.

mod find;
mod lines;
mod outline;
mod stderr;

use std::process::{ExitStatus, Stdio};
use std::time::Duration;

pub(crate) use find::{find_claude, find_on_path};
pub(crate) use lines::{Line, Lines};
pub(crate) use outline::Outline;
use rustix::process::{Pid, Signal, kill_process};
pub(crate) use stderr::{Stderr, StderrFunction};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::Error;
use crate::protocol::Exit;

/// How long the process may take to end when it is told to.
const GRACE: Duration = Duration::from_secs(5);

/// A process that is watched by a task of its own, which reaps it.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    pub(crate) stderr: Stderr,
    stop: CancellationToken,
    ended: watch::Receiver<Option<ExitStatus>>,
}

impl Process {
    /// Starts it, and gives its stdin and stdout.
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
        let stderr = Stderr::collect(child.stderr.take(), on_stderr);
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

    /// Waits until it has ended.
    pub(crate) fn ended(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut ended = self.ended.clone();
        async move {
            let _ = ended.wait_for(Option::is_some).await;
        }
    }

    /// How it ended, and what it wrote to stderr. Waits for the end, five seconds at most.
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

    /// Ends it: SIGTERM, five seconds, SIGKILL.
    pub(crate) fn stop(&self) {
        self.stop.cancel();
    }
}

/// Waits for the end; `stop` brings it about.
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

/// SIGTERM, five seconds, SIGKILL.
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
