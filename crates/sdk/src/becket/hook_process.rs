//! One run of `becket-hook`.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::{Output, Stdio};
use std::sync::OnceLock;

use becket_wire::Answer;
use becket_wire::event::EventName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use tokio_util::sync::CancellationToken;

use super::verdict::{Verdict, Verdicts};
use crate::hooks::Context;
use crate::options::Environment;
use crate::process::terminate;

/// Asks becket by running `becket-hook`.
pub(crate) struct BecketHook {
    program: PathBuf,
    args: Vec<OsString>,
    environment: Environment,
    /// Claude Code's process, once it is started.
    pub(crate) pid: OnceLock<u32>,
    pub(super) verdicts: Verdicts,
}

impl BecketHook {
    pub(super) fn new(program: PathBuf, args: Vec<OsString>, environment: Environment) -> Self {
        Self {
            program,
            args,
            environment,
            pid: OnceLock::new(),
            verdicts: Verdicts::default(),
        }
    }

    /// Asks becket about an event. If it is cancelled, `becket-hook` gets SIGTERM, as from Claude Code.
    pub(super) async fn judge(
        &self,
        event: &EventName,
        input: &str,
        context: &Context,
        cancelled: &CancellationToken,
    ) -> Verdict {
        let child = self.command(event, context).spawn();
        let mut child = child.map_err(|why| format!("could not run becket-hook: {why}"))?;
        let output = tokio::select! {
            output = exchange(&mut child, input) => output,
            () = cancelled.cancelled() => {
                let _ = terminate(&mut child).await;
                return Err("becket-hook: cancelled".to_owned());
            }
        };
        let output = output.map_err(|why| format!("becket-hook: {why}"))?;
        let exit = output.status.code().unwrap_or(-1);
        let answer = Answer::read(event.clone(), exit, &output.stdout, &output.stderr);
        answer.map_err(|why| format!("becket-hook: {why}"))
    }

    fn command(&self, event: &EventName, context: &Context) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["--event", event.as_str(), "--from", "sdk"]);
        command.args(&self.args);
        self.environment.apply(&mut command);
        command.envs(self.variables(context));
        if let Some(folder) = context.cwd.as_ref().filter(|folder| folder.is_dir()) {
            command.current_dir(folder);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command.stderr(Stdio::piped()).kill_on_drop(true);
        command
    }

    /// As Claude Code sets them for a command hook of a session that a program drives.
    fn variables(&self, context: &Context) -> Vec<(&'static str, OsString)> {
        let fixed = [
            ("CLAUDECODE", "1"),
            ("CLAUDE_CODE_ENTRYPOINT", "sdk-cli"),
            ("CLAUDE_CODE_SESSION_ATTENDED", "0"),
        ];
        let mut variables: Vec<_> = fixed.map(|(name, value)| (name, value.into())).into();
        let pid = self.pid.get().map(|pid| pid.to_string().into());
        let folder = self.environment.folder().map(Into::into);
        let session = context.session_id.clone().map(Into::into);
        variables.extend(pid.map(|pid| ("CLAUDE_PID", pid)));
        variables.extend(folder.map(|folder| ("CLAUDE_PROJECT_DIR", folder)));
        variables.extend(session.map(|id| ("CLAUDE_CODE_SESSION_ID", id)));
        variables
    }
}

/// Gives it the event, and waits for its output and its end.
async fn exchange(child: &mut Child, input: &str) -> io::Result<Output> {
    if let Some(mut stdin) = child.stdin.take() {
        // becket-hook may end without reading; its answer says why.
        let _ = stdin.write_all(input.as_bytes()).await;
        let _ = stdin.write_all(b"\n").await;
    }
    let streams = child.stdout.take().zip(child.stderr.take());
    let (mut out, mut err) = streams.expect("both are piped");
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    tokio::try_join!(out.read_to_end(&mut stdout), err.read_to_end(&mut stderr))?;
    Ok(Output {
        status: child.wait().await?,
        stdout,
        stderr,
    })
}
