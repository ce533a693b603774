//! The permission callback, which Claude Code asks when a tool call needs the user's permission.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::hooks::execute::CallbackCall;
use crate::hooks::service::{CallLimits, Service};
use crate::hooks::{BoxFuture, CallbackError, CallbackFailure, Context};
use crate::protocol::writer::Reply;

/// The callback id in the context of the permission callback.
const CALLBACK_ID: &str = "can_use_tool";

/// A tool call that needs permission.
#[derive(Debug, Clone, Deserialize)]
#[non_exhaustive]
pub struct ToolRequest {
    /// The name of the tool.
    pub tool_name: String,
    /// The tool's input.
    pub input: Value,
    /// The tool's name for people. Absent in old versions.
    pub display_name: Option<String>,
    /// The model's description of the call. Absent if the tool takes none.
    pub description: Option<String>,
    /// The reason why permission is needed. Absent if Claude Code does not send it.
    pub decision_reason: Option<String>,
    /// Rules that would allow such calls from now on, for [`Permission::with_rules`].
    #[serde(default)]
    pub permission_suggestions: Vec<Value>,
    /// The id of the tool call. Absent if Claude Code does not send it.
    pub tool_use_id: Option<String>,
    /// The subagent that acts. Absent for the main agent.
    pub agent_id: Option<String>,
    /// All other fields of the request.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// The return type of the permission callback.
pub type PermissionResult = Result<Permission, CallbackError>;

/// The answer to a [`ToolRequest`].
///
/// ```
/// use becket_sdk::Permission;
///
/// let once = Permission::allow();
/// let changed = Permission::allow_with(serde_json::json!({"command": "ls"}));
/// let never = Permission::deny("not here").and_interrupt();
/// ```
#[derive(Debug, Clone, PartialEq)]
#[must_use = "a permission has no effect until the callback returns it"]
pub struct Permission(PermissionAnswer);

#[derive(Debug, Clone, PartialEq)]
enum PermissionAnswer {
    Allow {
        input: Option<Value>,
        rules: Vec<Value>,
    },
    Deny {
        message: String,
        interrupt: bool,
    },
}

impl Permission {
    /// Allows the call, with the model's input.
    pub fn allow() -> Self {
        let (input, rules) = (None, Vec::new());
        Self(PermissionAnswer::Allow { input, rules })
    }

    /// Allows the call, with this input instead of the model's.
    pub fn allow_with(input: Value) -> Self {
        let (input, rules) = (Some(input), Vec::new());
        Self(PermissionAnswer::Allow { input, rules })
    }

    /// Denies the call, and tells the model the reason.
    pub fn deny(message: impl Into<String>) -> Self {
        let (message, interrupt) = (message.into(), false);
        Self(PermissionAnswer::Deny { message, interrupt })
    }

    /// Adds permission rules to an allowed call, as in [`ToolRequest::permission_suggestions`]. Choose
    /// among those: some are written to a settings file, or change the permission mode. Has no effect on
    /// a denied call.
    pub fn with_rules(mut self, more: impl IntoIterator<Item = Value>) -> Self {
        if let PermissionAnswer::Allow { rules, .. } = &mut self.0 {
            rules.extend(more);
        }
        self
    }

    /// Lets a denied call end the turn too. Has no effect on an allowed call.
    pub fn and_interrupt(mut self) -> Self {
        if let PermissionAnswer::Deny { interrupt, .. } = &mut self.0 {
            *interrupt = true;
        }
        self
    }

    fn into_json(self, original: &Value) -> Value {
        match self.0 {
            PermissionAnswer::Allow { input, rules } => {
                let input = input.unwrap_or_else(|| original.clone());
                let mut answer = json!({"behavior": "allow", "updatedInput": input});
                if !rules.is_empty() {
                    answer["updatedPermissions"] = rules.into();
                }
                answer
            }
            PermissionAnswer::Deny { message, interrupt } => {
                json!({"behavior": "deny", "message": message, "interrupt": interrupt})
            }
        }
    }
}

/// The stored permission callback and its timeout.
pub(crate) struct PermissionCallback {
    pub(crate) function: PermissionFunction,
    pub(crate) timeout: Option<Duration>,
}

pub(crate) type PermissionFunction =
    Arc<dyn Fn(ToolRequest, Context) -> BoxFuture<PermissionResult> + Send + Sync>;

impl Service {
    /// Answers one `can_use_tool` request. A callback that fails denies.
    pub(crate) async fn can_use_tool(&self, request: ToolRequest, limits: CallLimits) -> Reply {
        let Some(permission) = &self.permission else {
            let id = CALLBACK_ID.to_owned();
            return Reply::Error(CallbackFailure::Unknown { id }.to_string());
        };
        let mut call = CallbackCall::new(CALLBACK_ID, permission.timeout, &limits);
        self.describe_session(&mut call.context);
        call.context.tool_use_id.clone_from(&request.tool_use_id);
        call.context.agent_id.clone_from(&request.agent_id);
        let original = request.input.clone();
        let (function, context) = (permission.function.clone(), call.context.clone());
        let answer = call
            .run(async move { function(request, context).await })
            .await;
        let answer = answer.unwrap_or_else(|failure| {
            self.report(&call.context, &failure);
            Permission::deny(failure.to_string())
        });
        Reply::Success(answer.into_json(&original))
    }
}
