//! What an answer may change in Claude Code's course, besides judging it.

use serde_json::Value;

use crate::event::Rest;
use crate::event::field::Field;

macro_rules! changes {
    ($($(#[$meta:meta])* $name:ident($type:ty) = $key:literal, $wanted:literal;)*) => {
        /// One field of `hookSpecificOutput` that is neither a judgement nor context.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Change {
            $($(#[$meta])* $name($type),)*
        }

        impl Change {
            /// The field's name in JSON.
            pub fn key(&self) -> &'static str {
                match self {
                    $(Self::$name(_) => $key,)*
                }
            }

            pub(super) fn value(&self) -> Value {
                match self {
                    $(Self::$name(value) => value.write(),)*
                }
            }

            /// The change that a field stands for, else what its value should have been.
            pub(super) fn read(key: &str, value: &Value) -> Result<Self, &'static str> {
                match key {
                    $($key => Field::read(value.clone()).map(Self::$name).map_err(|_| $wanted),)*
                    _ => Err("absent"),
                }
            }
        }
    };
}

changes! {
    /// The whole input of the tool call, in place of the model's.
    Input(Rest) = "updatedInput", "an object";
    /// What the model sees as the tool's response, in the tool's own shape.
    ToolOutput(Value) = "updatedToolOutput", "any value";
    McpToolOutput(Value) = "updatedMCPToolOutput", "any value";
    /// For the classifier of auto mode.
    ClassifierContext(String) = "classifierContext", "a string";
    SessionTitle(String) = "sessionTitle", "a string";
    SuppressPrompt(bool) = "suppressOriginalPrompt", "true or false";
    FirstMessage(String) = "initialUserMessage", "a string";
    /// The files whose changes come as FileChanged.
    WatchPaths(Vec<String>) = "watchPaths", "a list of strings";
    ReloadSkills(bool) = "reloadSkills", "true or false";
    /// The folder that was made for a worktree.
    WorktreePath(String) = "worktreePath", "a string";
    /// What is shown in place of the text.
    Display(String) = "displayContent", "a string";
    /// Whether a call that auto mode denied is tried again.
    Retry(bool) = "retry", "true or false";
    /// The answer to an MCP server's question.
    Content(Rest) = "content", "an object";
    /// Rules that come with an allowed PermissionRequest.
    Permissions(Vec<Value>) = "updatedPermissions", "a list";
    /// Whether a denied PermissionRequest ends the turn.
    Interrupt(bool) = "interrupt", "true or false";
}
