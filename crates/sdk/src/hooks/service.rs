//! Answers Claude Code's callback requests: finds the callback, runs it, checks its answer, and applies
//! its failure policy.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use becket_wire::Head;
use becket_wire::event::PermissionMode;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::execute::CallbackCall;
use super::registry::{RegisteredHook, Registry};
use super::{Answer, CallbackFailure, Context};
use crate::becket::BecketHook;
use crate::permission::PermissionCallback;
use crate::protocol::writer::Reply;

/// The timeout of a callback if none was set.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// The callbacks of one client, and their calls.
pub(crate) struct Service {
    pub(crate) registry: Registry,
    pub(crate) permission: Option<PermissionCallback>,
    pub(crate) in_flight: RequestsInFlight,
    /// becket, if it judges events before the callbacks.
    pub(crate) becket: Option<Arc<BecketHook>>,
    /// The user's function that is called for each failed call.
    pub(crate) on_failure: Option<FailureFunction>,
    /// The limits of the calls that begin now.
    limits: Mutex<CallLimits>,
    session: Mutex<Option<Session>>,
}

/// The user's function for failed callbacks.
pub(crate) type FailureFunction = Arc<dyn Fn(&Context, &CallbackFailure) + Send + Sync>;

/// The body of a `hook_callback` request.
#[derive(Deserialize)]
pub(crate) struct HookRequest {
    callback_id: String,
    input: Box<RawValue>,
    #[serde(default)]
    tool_use_id: Option<String>,
}

impl Service {
    pub(crate) fn new(
        registry: Registry,
        permission: Option<PermissionCallback>,
        becket: Option<Arc<BecketHook>>,
        client: &CancellationToken,
    ) -> Self {
        Self {
            registry,
            permission,
            in_flight: RequestsInFlight::default(),
            becket,
            on_failure: None,
            limits: Mutex::new(CallLimits::between_turns(client)),
            session: Mutex::default(),
        }
    }

    /// Answers one `hook_callback` request.
    pub(crate) async fn hook_callback(&self, request: HookRequest, limits: CallLimits) -> Reply {
        let Some(hook) = self.registry.get(&request.callback_id) else {
            let id = request.callback_id;
            return Reply::Error(CallbackFailure::Unknown { id }.to_string());
        };
        let limits = if hook.is_becket {
            // The turn's deadline bounds the user's callbacks. It does not switch becket off.
            CallLimits {
                deadline: None,
                ..limits
            }
        } else {
            limits
        };
        match self.run(hook, request, &limits).await {
            Ok(answer) => Reply::Success(answer),
            Err(failure) => hook.failed(&failure),
        }
    }

    async fn run(
        &self,
        hook: &RegisteredHook,
        request: HookRequest,
        limits: &CallLimits,
    ) -> Result<Value, CallbackFailure> {
        let input = request.input.get().into();
        let Some(input) = self.pass_becket(hook, input, limits).await? else {
            return Answer::none().check(&hook.event);
        };
        let mut call = CallbackCall::new(&hook.id, hook.timeout, limits);
        call.context.tool_use_id = request.tool_use_id;
        describe_event(&mut call.context, &input);
        let callback = Arc::clone(&hook.callback);
        let context = call.context.clone();
        // Called inside of the task, so that a panic before the first await stays there too.
        let answer = call
            .run(async move { callback(input, context).await })
            .await;
        let answer = answer.and_then(|answer| answer.check(&hook.event));
        answer.inspect_err(|failure| self.report(&call.context, failure))
    }

    /// Logs a failure, and calls the user's function unless the call was cancelled.
    pub(crate) fn report(&self, context: &Context, failure: &CallbackFailure) {
        failure.log(&context.callback_id);
        let Some(function) = self.on_failure.clone() else {
            return;
        };
        if !matches!(failure, CallbackFailure::Cancelled { .. }) {
            let (context, failure) = (context.clone(), failure.clone());
            // In a task of its own: if it panics, Claude Code is answered all the same.
            tokio::spawn(async move { function(&context, &failure) });
        }
    }

    /// Returns the callback's input after becket has judged the event, or `None` if becket has refused
    /// the event.
    async fn pass_becket(
        &self,
        hook: &RegisteredHook,
        input: Arc<str>,
        limits: &CallLimits,
    ) -> Result<Option<Arc<str>>, CallbackFailure> {
        let wait = hook.becket_wait;
        let Some(becket) = self.becket.as_ref().filter(|_| !wait.is_zero()) else {
            return Ok(Some(input));
        };
        let mut context = Context::new(&hook.id, Instant::now() + wait);
        describe_event(&mut context, &input);
        let gate = becket.gate(&hook.event, input, &context, &limits.token);
        gate.await
    }

    /// Returns the limits of a call that begins now.
    pub(crate) fn call_limits(&self) -> CallLimits {
        let limits = self.limits.lock().unwrap_or_else(PoisonError::into_inner);
        CallLimits {
            token: limits.token.child_token(),
            deadline: limits.deadline,
        }
    }

    /// Sets the limits of the calls that begin from now on.
    pub(crate) fn set_limits(&self, limits: CallLimits) {
        *self.limits.lock().unwrap_or_else(PoisonError::into_inner) = limits;
    }

    /// Stores the session of an `init` message.
    pub(crate) fn set_session(&self, init: &Value) {
        let mut session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        *session = Session::deserialize(init).ok();
    }

    /// Adds the stored session to the context of a request that does not name it.
    pub(crate) fn describe_session(&self, context: &mut Context) {
        let session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        context.session_id = session.as_ref().map(|session| session.session_id.clone());
        context.cwd = session.as_ref().map(|session| session.cwd.clone());
    }
}

/// Adds the fields of the payload's head to the context, without parsing the whole payload.
fn describe_event(context: &mut Context, input: &str) {
    let Ok(head) = Head::read(input.as_bytes()) else {
        return;
    };
    context.session_id = head.session_id.map(Into::into);
    context.cwd = head.cwd.as_deref().map(Into::into);
    context.transcript_path = head.transcript_path.as_deref().map(Into::into);
    context.permission_mode = head.permission_mode.as_deref().map(PermissionMode::from);
    context.agent_id = head.agent_id.map(Into::into);
}

/// The session that `init` described.
#[derive(Debug, Clone, Deserialize)]
struct Session {
    session_id: String,
    cwd: PathBuf,
}

/// The cancellation and the deadline of calls: those of a turn, or those between turns.
#[derive(Debug, Clone)]
pub(crate) struct CallLimits {
    pub(crate) token: CancellationToken,
    pub(crate) deadline: Option<Instant>,
}

impl CallLimits {
    /// Returns the limits of calls between turns: they belong to the client and have no deadline.
    pub(crate) fn between_turns(client: &CancellationToken) -> Self {
        Self {
            token: client.child_token(),
            deadline: None,
        }
    }

    /// Returns the deadline of one call. The turn's deadline cuts a timeout that was set, and replaces
    /// the default timeout, even if it is later.
    pub(super) fn deadline(&self, now: Instant, timeout: Option<Duration>) -> Instant {
        match (timeout, self.deadline) {
            (Some(timeout), Some(turn)) => turn.min(now + timeout),
            (None, Some(turn)) => turn,
            (timeout, None) => now + timeout.unwrap_or(DEFAULT_TIMEOUT),
        }
    }
}

/// The requests of Claude Code that wait for an answer, by id. A request is removed once, when it is
/// answered or cancelled, so a cancelled request is never answered.
#[derive(Debug, Default)]
pub(crate) struct RequestsInFlight(Mutex<HashMap<String, CancellationToken>>);

impl RequestsInFlight {
    pub(crate) fn begin(&self, id: &str, token: CancellationToken) {
        self.with(|requests| requests.insert(id.to_owned(), token));
    }

    /// Removes the request, and answers it if it was not cancelled. Answers under the lock, so that a
    /// cancellation is either seen here or comes too late.
    pub(crate) fn finish(&self, id: &str, answer: impl FnOnce()) {
        self.with(|requests| {
            let token = requests.remove(id);
            if token.is_some_and(|token| !token.is_cancelled()) {
                answer();
            }
        });
    }

    /// Cancels the calls of a turn. None of them is answered after this.
    pub(crate) fn cancel_turn(&self, turn: &CancellationToken) {
        self.with(|_| turn.cancel());
    }

    pub(crate) fn cancel(&self, id: &str) {
        if let Some(token) = self.with(|requests| requests.remove(id)) {
            token.cancel();
        }
    }

    fn with<T>(&self, change: impl FnOnce(&mut HashMap<String, CancellationToken>) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
