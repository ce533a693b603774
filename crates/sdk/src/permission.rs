//! The permission callback: asked when a tool call needs the user's permission.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::hooks::execute::Call;
use crate::hooks::scope::Scope;
use crate::hooks::service::Service;
use crate::hooks::{Boxed, CallbackError, CallbackFailure, Context};
use crate::protocol::frames::Reply;

/// The id that calls of the permission callback have.
pub(crate) const ID: &str = "can_use_tool";

/// A tool call that needs permission.
#[derive(Debug, Clone, Deserialize)]
#[non_exhaustive]
pub struct ToolRequest {
    /// The tool.
    pub tool_name: String,
    /// The tool's input.
    pub input: Value,
    /// The tool's name for people. Absent in old versions.
    pub display_name: Option<String>,
    /// The model's description of the call. Absent where the tool takes none.
    pub description: Option<String>,
    /// Why permission is needed. Absent if Claude Code does not say.
    pub decision_reason: Option<String>,
    /// Rules that would allow such calls from now on, for [`Permission::with_rules`].
    #[serde(default)]
    pub permission_suggestions: Vec<Value>,
    /// The tool call. Absent if Claude Code does not say.
    pub tool_use_id: Option<String>,
    /// The subagent that acts. Absent for the main agent.
    pub agent_id: Option<String>,
    /// All other fields of the request.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// What the permission callback returns.
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
#[must_use = "a permission counts when the callback returns it"]
pub struct Permission(Behavior);

#[derive(Debug, Clone, PartialEq)]
enum Behavior {
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
    /// The call happens as the model wants it.
    pub fn allow() -> Self {
        let (input, rules) = (None, Vec::new());
        Self(Behavior::Allow { input, rules })
    }

    /// The call happens with this input instead of the model's.
    pub fn allow_with(input: Value) -> Self {
        let (input, rules) = (Some(input), Vec::new());
        Self(Behavior::Allow { input, rules })
    }

    /// The call does not happen; the model is told why.
    pub fn deny(message: impl Into<String>) -> Self {
        let (message, interrupt) = (message.into(), false);
        Self(Behavior::Deny { message, interrupt })
    }

    /// An allowed call brings these permission rules with it, as in
    /// [`ToolRequest::permission_suggestions`]. Choose among those: some are written to a settings file,
    /// or change the permission mode. Nothing changes for a denied call.
    pub fn with_rules(mut self, more: impl IntoIterator<Item = Value>) -> Self {
        if let Behavior::Allow { rules, .. } = &mut self.0 {
            rules.extend(more);
        }
        self
    }

    /// A denied call ends the turn too. Nothing changes for an allowed one.
    pub fn and_interrupt(mut self) -> Self {
        if let Behavior::Deny { interrupt, .. } = &mut self.0 {
            *interrupt = true;
        }
        self
    }

    fn into_json(self, original: &Value) -> Value {
        match self.0 {
            Behavior::Allow { input, rules } => {
                let input = input.unwrap_or_else(|| original.clone());
                let mut answer = json!({"behavior": "allow", "updatedInput": input});
                if !rules.is_empty() {
                    answer["updatedPermissions"] = rules.into();
                }
                answer
            }
            Behavior::Deny { message, interrupt } => {
                json!({"behavior": "deny", "message": message, "interrupt": interrupt})
            }
        }
    }
}

/// The permission callback as it is stored.
pub(crate) struct PermissionCallback {
    pub(crate) function: PermissionFunction,
    pub(crate) timeout: Option<Duration>,
}

#[derive(Clone)]
pub(crate) struct PermissionFunction(pub(crate) Function);

type Function = Arc<dyn Fn(ToolRequest, Context) -> Boxed<PermissionResult> + Send + Sync>;

impl fmt::Debug for PermissionFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PermissionFunction")
    }
}

impl Service {
    /// Answers one `can_use_tool` request. A callback that fails denies.
    pub(crate) async fn can_use_tool(&self, request: ToolRequest, scope: Scope) -> Reply {
        let Some(permission) = &self.permission else {
            let id = ID.to_owned();
            return Reply::Error(CallbackFailure::Unknown { id }.to_string());
        };
        let mut bounds = Call::new(ID, permission.timeout, &scope);
        self.describe_session(&mut bounds.context);
        bounds.context.tool_use_id.clone_from(&request.tool_use_id);
        bounds.context.agent_id.clone_from(&request.agent_id);
        let original = request.input.clone();
        let (function, context) = (permission.function.clone(), bounds.context.clone());
        let answer = bounds
            .run(async move { (function.0)(request, context).await })
            .await;
        let answer = answer.unwrap_or_else(|failure| {
            self.report(&bounds.context, &failure);
            Permission::deny(failure.to_string())
        });
        Reply::Success(answer.into_json(&original))
    }
}
