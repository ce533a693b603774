//! Runs becket before the callbacks: the same judgement as over a command hook.
//!
//! Each event goes through `becket-hook` itself, so that waiting for named hooks, standalone and a slow
//! daemon have one implementation. Measured with 2.1.325: the `input` of a callback has the bytes of the
//! command hook's stdin, without the newline at its end. With that newline becket's rule for double
//! registrations applies, and on a machine where becket is registered as well, its named hooks run once.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::{Output, Stdio};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use becket_wire::answer::{Change, Opinion};
use becket_wire::event::EventName;
use becket_wire::{Answer, Head};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use tokio::sync::OnceCell;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::hooks::registry::{BECKET_ID, Registry};
use crate::hooks::{CallbackFailure, CallbackResult, Context, Hook, Matcher, OnFailure};
use crate::options::{Environment, Options};
use crate::process::{find_on_path, terminate};
use crate::{Builder, Error};

/// The time that a verdict is kept. Claude Code calls the callbacks of one event together.
const VERDICT_LIFETIME: Duration = Duration::from_secs(5);

/// The program and the home of becket, if they were set.
#[derive(Debug, Default)]
pub(crate) struct BecketOptions {
    program: Option<PathBuf>,
    home: Option<PathBuf>,
}

/// becket's guards and named hooks.
impl Builder {
    /// Runs becket's guards and named hooks before the callbacks, for every event that a callback
    /// can get. An event that becket refuses does not reach the callbacks. If becket rewrites an input,
    /// they get the rewritten input. The permission callback is the exception: Claude Code asks it and
    /// PermissionRequest hooks at the same time, and the first answer counts.
    ///
    /// The program is the `becket-hook` on the PATH. If becket is also registered with `becket up`, it
    /// notices, and runs its named hooks once. SessionStart, SessionEnd and Setup reach becket only over
    /// `becket up`: Claude Code calls no callbacks for them. A callback also cannot pass on text that a
    /// named hook adds to the instructions of a compaction.
    pub fn becket(mut self) -> Self {
        self.becket.get_or_insert_default();
        self
    }

    /// Does the same as [`becket`](Self::becket), with this `becket-hook`.
    pub fn becket_program(mut self, program: impl Into<PathBuf>) -> Self {
        self.becket.get_or_insert_default().program = Some(program.into());
        self
    }

    /// Does the same as [`becket`](Self::becket), for this becket home instead of `~/.becket`.
    pub fn becket_home(mut self, home: impl Into<PathBuf>) -> Self {
        self.becket.get_or_insert_default().home = Some(home.into());
        self
    }
}

impl BecketOptions {
    pub(crate) fn into_hook(self, options: &Options) -> Result<Arc<BecketHook>, Error> {
        let path = options.environment.variable("PATH");
        let program = self
            .program
            .or_else(|| find_on_path("becket-hook", path.as_deref()))
            .ok_or(Error::NoBecket)?;
        let home = self
            .home
            .map(|home| [OsString::from("--home"), home.into()]);
        Ok(Arc::new(BecketHook {
            program,
            args: home.into_iter().flatten().collect(),
            environment: options.environment.clone(),
            pid: OnceLock::new(),
            verdicts: VerdictCache::default(),
        }))
    }
}

/// Registers becket's own callbacks, one per event, under ids of their own.
pub(crate) fn register(registry: &mut Registry, becket: &Arc<BecketHook>) {
    registry.set_becket_wait(|event| {
        if is_judged(event) {
            event.waits()
        } else {
            Duration::ZERO
        }
    });
    for event in EventName::ALL.into_iter().filter(is_judged) {
        let (callback_event, becket) = (event.clone(), Arc::clone(becket));
        let hook = Hook::erased(
            event.clone(),
            Matcher::Any,
            Arc::new(move |input, context| {
                let (event, becket) = (callback_event.clone(), Arc::clone(&becket));
                Box::pin(async move { becket.callback(&event, input, &context).await })
            }),
        );
        // As over a command hook: if becket cannot be run, Claude Code goes on.
        let hook = hook.on_failure(OnFailure::Open);
        registry.add(format!("{BECKET_ID}{event}"), hook, Some(event.waits()));
    }
}

fn is_judged(event: &EventName) -> bool {
    let never = matches!(
        event,
        EventName::SessionStart | EventName::SessionEnd | EventName::Setup
    );
    event.is_registered() && !never
}

/// Asks becket by running `becket-hook`.
pub(crate) struct BecketHook {
    program: PathBuf,
    args: Vec<OsString>,
    environment: Environment,
    /// Claude Code's process, once it is started.
    pub(crate) pid: OnceLock<u32>,
    verdicts: VerdictCache,
}

/// becket's answer, or the error of `becket-hook`.
type Verdict = Result<Answer, String>;

impl BecketHook {
    /// Waits for becket's verdict, until the context's deadline. Returns the callback's input, which becket may
    /// have rewritten, or `None` if becket has refused the event. If becket fails or is late, the event passes:
    /// becket's own callback reports the failure.
    pub(crate) async fn gate(
        self: &Arc<Self>,
        event: &EventName,
        input: Arc<str>,
        context: &Context,
        cancelled: &CancellationToken,
    ) -> Result<Option<Arc<str>>, CallbackFailure> {
        let verdict = tokio::select! {
            biased;
            () = cancelled.cancelled() => {
                let id = context.callback_id.clone();
                return Err(CallbackFailure::Cancelled { id });
            }
            verdict = self.verdict(event, Arc::clone(&input), context, false) => verdict,
            () = sleep_until(context.deadline) => return Ok(Some(input)),
        };
        Ok(match verdict {
            Ok(answer) if refuses(&answer) => None,
            Ok(answer) => Some(rewritten(&answer, &input).unwrap_or(input)),
            Err(_) => Some(input),
        })
    }

    /// Returns the answer of becket's own callback.
    async fn callback(
        self: &Arc<Self>,
        event: &EventName,
        input: Arc<str>,
        context: &Context,
    ) -> CallbackResult {
        let verdict = self.verdict(event, input, context, true).await;
        Ok(crate::Answer::bound_to_event(verdict?))
    }

    /// Returns becket's answer to an event. The first callback that asks starts `becket-hook`, in a task
    /// of its own: the task goes on if that callback is cancelled, and ends when all callbacks of the
    /// event are.
    async fn verdict(
        self: &Arc<Self>,
        event: &EventName,
        input: Arc<str>,
        context: &Context,
        by_becket: bool,
    ) -> Verdict {
        let waiter = self.verdicts.waiter(&input, by_becket);
        let (verdict, cancelled) = (Arc::clone(&waiter.verdict), waiter.cancelled.clone());
        let (becket, event, context) = (Arc::clone(self), event.clone(), context.clone());
        let judging = tokio::spawn(async move {
            verdict
                .get_or_init(|| becket.judge(&event, &input, &context, &cancelled))
                .await
                .clone()
        });
        judging
            .await
            .unwrap_or_else(|error| Err(format!("becket-hook: {error}")))
    }

    /// Runs `becket-hook` for an event. If the call is cancelled, `becket-hook` gets SIGTERM, as from
    /// Claude Code.
    async fn judge(
        &self,
        event: &EventName,
        input: &str,
        context: &Context,
        cancelled: &CancellationToken,
    ) -> Verdict {
        let child = self.command(event, context).spawn();
        let mut child = child.map_err(|error| format!("could not run becket-hook: {error}"))?;
        let output = tokio::select! {
            output = exchange(&mut child, input) => output,
            () = cancelled.cancelled() => {
                let _ = terminate(&mut child).await;
                return Err("becket-hook: cancelled".to_owned());
            }
        };
        let output = output.map_err(|error| format!("becket-hook: {error}"))?;
        let exit = output.status.code().unwrap_or(-1);
        let answer = Answer::read(event.clone(), exit, &output.stdout, &output.stderr);
        answer.map_err(|error| format!("becket-hook: {error}"))
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

    /// Returns the variables that Claude Code sets for a command hook of a session that a program drives.
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

/// Returns true if the answer prevents the event. A block after an action prevents nothing: it is
/// feedback for the model.
fn refuses(answer: &Answer) -> bool {
    match answer.opinion() {
        Some(Opinion::Deny { .. } | Opinion::Decline { .. } | Opinion::Cancel) => true,
        Some(Opinion::Block { .. }) => !answer.event().as_str().starts_with("Post"),
        _ => answer.stopped().is_some(),
    }
}

/// Returns the input with becket's `tool_input` in place of the model's, if becket changed it.
fn rewritten(answer: &Answer, input: &str) -> Option<Arc<str>> {
    let change = answer.changes().iter().find_map(|change| match change {
        Change::Input(input) => Some(input.clone()),
        _ => None,
    });
    let change = change?;
    Head::read(input.as_bytes()).ok()?.tool_input?;
    let mut input: Value = serde_json::from_str(input).ok()?;
    input["tool_input"] = change.into();
    Some(input.to_string().into())
}

/// Writes the event to the program's stdin, and waits for its output and its end.
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

/// The events that are being judged or were judged recently, by their bytes. All callbacks of an event
/// share its verdict.
#[derive(Default)]
struct VerdictCache(Mutex<HashMap<Arc<str>, JudgedEvent>>);

struct JudgedEvent {
    verdict: Arc<OnceCell<Verdict>>,
    begun: Instant,
    /// True if becket's own callback has asked. If it asks again, it is another event with the same
    /// bytes.
    asked_by_becket: bool,
    cancelled: CancellationToken,
    /// Held by each callback that waits. The last one that drops it cancels `becket-hook`.
    waiting: Weak<DropGuard>,
}

/// A callback that waits for the verdict.
struct VerdictWaiter {
    verdict: Arc<OnceCell<Verdict>>,
    cancelled: CancellationToken,
    _waiting: Arc<DropGuard>,
}

impl VerdictCache {
    /// Adds a waiter to the event with these bytes.
    fn waiter(&self, input: &Arc<str>, by_becket: bool) -> VerdictWaiter {
        let now = Instant::now();
        let mut events = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        events.retain(|_, event| event.is_current(now));
        let event = events
            .entry(Arc::clone(input))
            .or_insert_with(|| JudgedEvent::new(now));
        if by_becket && event.asked_by_becket {
            *event = JudgedEvent::new(now);
        }
        event.asked_by_becket |= by_becket;
        event.waiter(now)
    }
}

impl JudgedEvent {
    fn new(begun: Instant) -> Self {
        Self {
            verdict: Arc::default(),
            begun,
            asked_by_becket: false,
            cancelled: CancellationToken::new(),
            waiting: Weak::new(),
        }
    }

    fn is_current(&self, now: Instant) -> bool {
        let answered = self.verdict.get().is_some_and(Result::is_ok);
        self.waiting.strong_count() > 0 || answered && now - self.begun < VERDICT_LIFETIME
    }

    fn waiter(&mut self, now: Instant) -> VerdictWaiter {
        let waiting = self.waiting.upgrade().unwrap_or_else(|| {
            // The last waiter may have gone since `retain`: its run is then cancelled.
            if self.verdict.get().is_none() {
                *self = Self::new(now);
            }
            let guard = Arc::new(self.cancelled.clone().drop_guard());
            self.waiting = Arc::downgrade(&guard);
            guard
        });
        VerdictWaiter {
            verdict: Arc::clone(&self.verdict),
            cancelled: self.cancelled.clone(),
            _waiting: waiting,
        }
    }
}
