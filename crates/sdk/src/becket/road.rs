//! One event through `becket-hook`.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use becket_wire::Answer;
use becket_wire::event::EventName;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::sync::OnceCell;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::hooks::{CallbackResult, Context};
use crate::options::Environment;

/// The callbacks of one event are called together; later ones are about another event.
const TOGETHER: Duration = Duration::from_secs(5);

/// What becket said, or why it said nothing.
pub(super) type Verdict = Result<Answer, String>;

/// How events get to becket.
pub(crate) struct Road {
    program: PathBuf,
    args: Vec<OsString>,
    environment: Environment,
    /// Claude Code's process, once it is started.
    pub(crate) pid: OnceLock<u32>,
    /// Cancelled when the client is dropped.
    pub(crate) client: OnceLock<CancellationToken>,
    judged: Mutex<HashMap<Arc<str>, Judged>>,
}

/// One event, judged once for all of its callbacks.
struct Judged {
    verdict: Arc<OnceCell<Verdict>>,
    at: Instant,
    /// becket's own callback has asked: if it asks again, it is about another event of the same bytes.
    own: bool,
}

impl Road {
    pub(super) fn new(program: PathBuf, args: Vec<OsString>, environment: Environment) -> Self {
        Self {
            program,
            args,
            environment,
            pid: OnceLock::new(),
            client: OnceLock::new(),
            judged: Mutex::default(),
        }
    }

    /// The answer of becket's own callback.
    pub(super) async fn own(
        self: &Arc<Self>,
        event: &EventName,
        input: Arc<str>,
        context: &Context,
    ) -> CallbackResult {
        let verdict = self.verdict(event, input, context, true).await;
        Ok(verdict?.into())
    }

    /// What becket says of an event: asked once, whichever of the event's callbacks asks first. It is
    /// asked in a task of its own, which goes on if that callback is cancelled.
    pub(super) async fn verdict(
        self: &Arc<Self>,
        event: &EventName,
        input: Arc<str>,
        context: &Context,
        own: bool,
    ) -> Verdict {
        let verdict = self.entry(&input, own);
        let (road, event, context) = (Arc::clone(self), event.clone(), context.clone());
        let judging = tokio::spawn(async move {
            let judge = || road.judge(&event, &input, &context);
            verdict.get_or_init(judge).await.clone()
        });
        judging
            .await
            .unwrap_or_else(|why| Err(format!("becket-hook: {why}")))
    }

    fn entry(&self, input: &Arc<str>, own: bool) -> Arc<OnceCell<Verdict>> {
        let now = Instant::now();
        let mut judged = self.judged.lock().unwrap_or_else(PoisonError::into_inner);
        judged.retain(|_, entry| now - entry.at < TOGETHER || entry.verdict.get().is_none());
        let entry = judged
            .entry(Arc::clone(input))
            .or_insert_with(|| Judged::new(now));
        if own && entry.own {
            *entry = Judged::new(now);
        }
        entry.own |= own;
        Arc::clone(&entry.verdict)
    }

    async fn judge(&self, event: &EventName, input: &str, context: &Context) -> Verdict {
        let client = self.client.get().cloned().unwrap_or_default();
        let output = tokio::select! {
            output = self.run(event, input, context) => output,
            () = client.cancelled() => return Err("the client was dropped".to_owned()),
        };
        let output = output.map_err(|why| format!("could not run becket-hook: {why}"))?;
        let exit = output.status.code().unwrap_or(-1);
        let answer = Answer::read(event.clone(), exit, &output.stdout, &output.stderr);
        answer.map_err(|why| format!("becket-hook: {why}"))
    }

    async fn run(
        &self,
        event: &EventName,
        input: &str,
        context: &Context,
    ) -> std::io::Result<std::process::Output> {
        let mut child = self.command(event, context).spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            // becket-hook may end without reading; its answer says why.
            let _ = stdin.write_all(input.as_bytes()).await;
            let _ = stdin.write_all(b"\n").await;
        }
        child.wait_with_output().await
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

impl Judged {
    fn new(at: Instant) -> Self {
        Self {
            verdict: Arc::default(),
            at,
            own: false,
        }
    }
}
