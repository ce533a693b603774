//! Answers Claude Code's callback requests: looks up, runs, checks, and applies the policy.

use std::fmt;
use std::sync::{Arc, Mutex};

use becket_wire::Head;
use becket_wire::event::PermissionMode;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::execute::Call;
use super::in_flight::InFlight;
use super::registry::{Registered, Registry};
use super::scope::{Scope, Session};
use super::{Answer, CallbackFailure, Context};
use crate::becket::{BecketHook, Gate};
use crate::permission::PermissionCallback;
use crate::protocol::frames::Reply;

/// The callbacks of one client, and their calls.
pub(crate) struct Service {
    pub(crate) registry: Registry,
    pub(crate) permission: Option<PermissionCallback>,
    pub(crate) in_flight: InFlight,
    /// becket, if it judges before the callbacks.
    pub(crate) becket: Option<Arc<BecketHook>>,
    /// Is told of each call that failed.
    pub(crate) on_failure: Option<FailureFunction>,
    pub(super) scope: Mutex<Scope>,
    pub(super) session: Mutex<Option<Session>>,
}

/// The function that is told of failed callbacks.
#[derive(Clone)]
pub(crate) struct FailureFunction(pub(crate) Arc<OnCallbackFailure>);

type OnCallbackFailure = dyn Fn(&Context, &CallbackFailure) + Send + Sync;

impl fmt::Debug for FailureFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FailureFunction")
    }
}

/// The body of a `hook_callback` request.
#[derive(Deserialize)]
pub(crate) struct HookCall {
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
        let scope = Scope {
            token: client.child_token(),
            deadline: None,
        };
        Self {
            registry,
            permission,
            in_flight: InFlight::default(),
            becket,
            on_failure: None,
            scope: Mutex::new(scope),
            session: Mutex::default(),
        }
    }

    /// Answers one `hook_callback` request.
    pub(crate) async fn hook_callback(&self, call: HookCall, scope: Scope) -> Reply {
        let Some(registered) = self.registry.get(&call.callback_id) else {
            let id = call.callback_id;
            return Reply::Error(CallbackFailure::Unknown { id }.to_string());
        };
        // The turn's deadline bounds the user's callbacks. It does not switch becket off.
        let scope = match registered.is_becket {
            true => scope.without_deadline(),
            false => scope,
        };
        match self.run(registered, call, &scope).await {
            Ok(answer) => Reply::Success(answer),
            Err(failure) => registered.failed(&failure),
        }
    }

    async fn run(
        &self,
        registered: &Registered,
        call: HookCall,
        scope: &Scope,
    ) -> Result<Value, CallbackFailure> {
        let input = call.input.get().into();
        let Some(input) = self.pass_becket(registered, input, scope).await? else {
            return Answer::none().check(&registered.event);
        };
        let mut bounds = Call::new(&registered.id, registered.timeout, scope);
        bounds.context.tool_use_id = call.tool_use_id;
        describe(&mut bounds.context, &input);
        let callback = Arc::clone(&registered.callback);
        let context = bounds.context.clone();
        // Called inside of the task, so that a panic before the first await stays there too.
        let answer = bounds
            .run(async move { callback(input, context).await })
            .await;
        let answer = answer.and_then(|answer| answer.check(&registered.event));
        answer.inspect_err(|failure| self.report(&bounds.context, failure))
    }

    /// Logs a failure, and tells the caller of one that is the callback's own.
    pub(crate) fn report(&self, context: &Context, failure: &CallbackFailure) {
        failure.log(&context.callback_id);
        let Some(FailureFunction(function)) = self.on_failure.clone() else {
            return;
        };
        if !matches!(failure, CallbackFailure::Cancelled { .. }) {
            let (context, failure) = (context.clone(), failure.clone());
            // In a task of its own: if it panics, Claude Code is answered all the same.
            tokio::spawn(async move { function(&context, &failure) });
        }
    }

    /// What the callback gets once becket has judged; `None` if becket has refused.
    async fn pass_becket(
        &self,
        registered: &Registered,
        input: Arc<str>,
        scope: &Scope,
    ) -> Result<Option<Arc<str>>, CallbackFailure> {
        let wait = registered.becket_wait;
        let Some(becket) = self.becket.as_ref().filter(|_| !wait.is_zero()) else {
            return Ok(Some(input));
        };
        let id = registered.id.clone();
        let mut context = Context::new(&id, Instant::now() + wait);
        describe(&mut context, &input);
        let gate = becket.gate(&registered.event, input, &context, &scope.token);
        match gate.await {
            Gate::Passed(input) => Ok(Some(input)),
            Gate::Refused => Ok(None),
            Gate::Cancelled => Err(CallbackFailure::Cancelled { id }),
        }
    }
}

/// What the payload says of the call, without parsing the whole of it.
fn describe(context: &mut Context, input: &str) {
    let Ok(head) = Head::read(input.as_bytes()) else {
        return;
    };
    context.session_id = head.session_id.map(Into::into);
    context.cwd = head.cwd.as_deref().map(Into::into);
    context.transcript_path = head.transcript_path.as_deref().map(Into::into);
    context.permission_mode = head.permission_mode.as_deref().map(PermissionMode::from);
    context.agent_id = head.agent_id.map(Into::into);
}
