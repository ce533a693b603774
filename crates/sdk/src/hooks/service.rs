//! Who answers Claude Code's callback requests: looks up, runs, checks, and applies the policy.

use std::sync::{Arc, Mutex};
use std::time::Duration;

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
use crate::becket::{Front, Road};
use crate::permission::PermissionCallback;
use crate::protocol::frames::Reply;

/// The callbacks of one client, and their calls.
pub(crate) struct Service {
    pub(crate) registry: Registry,
    pub(crate) permission: Option<PermissionCallback>,
    pub(crate) in_flight: InFlight,
    /// becket, if it is in front.
    pub(crate) road: Option<Arc<Road>>,
    pub(super) scope: Mutex<Scope>,
    pub(super) session: Mutex<Option<Session>>,
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
        road: Option<Arc<Road>>,
        client: &CancellationToken,
    ) -> Self {
        let scope = Scope {
            token: client.child_token(),
            deadline: None,
        };
        if let Some(road) = &road {
            let _ = road.client.set(client.clone());
        }
        Self {
            registry,
            permission,
            in_flight: InFlight::default(),
            road,
            scope: Mutex::new(scope),
            session: Mutex::default(),
        }
    }

    /// Bounds a call: its own timeout, or what is left of the turn's deadline if that is less.
    pub(crate) fn call(&self, id: &str, timeout: Duration, cancelled: &CancellationToken) -> Call {
        let now = Instant::now();
        let deadline = now + timeout;
        let deadline = self
            .scope()
            .deadline
            .map_or(deadline, |turn| turn.min(deadline));
        Call {
            context: Context::new(id, deadline),
            limit: deadline.saturating_duration_since(now),
            cancelled: cancelled.clone(),
        }
    }

    /// Answers one `hook_callback` request.
    pub(crate) async fn hook_callback(
        &self,
        call: HookCall,
        cancelled: CancellationToken,
    ) -> Reply {
        let Some(registered) = self.registry.get(&call.callback_id) else {
            let id = call.callback_id;
            return Reply::Error(CallbackFailure::Unknown { id }.to_string());
        };
        match self.run(registered, call, cancelled).await {
            Ok(answer) => Reply::Success(answer),
            Err(failure) => registered.failed(&failure),
        }
    }

    async fn run(
        &self,
        registered: &Registered,
        call: HookCall,
        cancelled: CancellationToken,
    ) -> Result<Value, CallbackFailure> {
        let input = call.input.get().into();
        let Some(input) = self.pass_becket(registered, input, &cancelled).await? else {
            return Answer::none().check(&registered.event);
        };
        let mut bounds = self.call(&registered.id, registered.timeout, &cancelled);
        bounds.context.tool_use_id = call.tool_use_id;
        describe(&mut bounds.context, &input);
        let callback = Arc::clone(&registered.callback);
        let context = bounds.context.clone();
        // Called inside of the task, so that a panic before the first await stays there too.
        let answer = bounds.run(async move { callback(input, context).await });
        answer.await?.check(&registered.event)
    }

    /// What the callback gets once becket has judged; `None` if becket has refused.
    async fn pass_becket(
        &self,
        registered: &Registered,
        input: Arc<str>,
        cancelled: &CancellationToken,
    ) -> Result<Option<Arc<str>>, CallbackFailure> {
        let road = self.road.as_ref().filter(|_| !registered.behind.is_zero());
        let Some(road) = road else {
            return Ok(Some(input));
        };
        let id = registered.id.clone();
        let deadline = Instant::now() + registered.behind;
        let turn = self.scope().deadline;
        let mut context = Context::new(&id, turn.map_or(deadline, |turn| turn.min(deadline)));
        describe(&mut context, &input);
        match road
            .front(&registered.event, input, &context, cancelled)
            .await
        {
            Front::Passed(input) => Ok(Some(input)),
            Front::Refused => Ok(None),
            Front::Cancelled => Err(CallbackFailure::Cancelled { id }),
        }
    }
}

/// What the payload says of the call, without taking the whole of it apart.
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
