//! The table of events. **A new event is added here**, and then in `answer/rules.rs`, where the compiler asks
//! for what it may be answered; a recorded payload in `fixtures/` proves it.
//!
//! A field is an `Option` even where Claude Code has always sent it, because it changes every few weeks. Only
//! the fields without which a guard could not judge the event at all are plain. `needs` lists the fields that
//! Claude Code always sends: an event without one is kept with a fault.

use serde_json::{Number, Value};

use super::define::{events, key, object, words};
use super::{Missing, PermissionMode, Rest, Slot, take};

object! {
    /// The fields that every event may have.
    Common {
        session_id: Option<String>,
        /// The path of the transcript, which does not exist yet at the first events of a session.
        transcript_path: Option<String>,
        cwd: Option<String>,
        prompt_id: Option<String>,
        permission_mode: Option<PermissionMode>,
        /// The subagent of the event; absent for the main agent.
        agent_id: Option<String>,
        agent_type: Option<String>,
        effort: Option<EffortLevel>,
    }
}

object! {
    /// The thinking level of the model: Claude Code's effort level, not the work of [`crate::effort`].
    EffortLevel {
        level: Option<String>,
        ..rest
    }
}

object! {
    /// The MCP server that a tool belongs to.
    McpServer {
        name: Option<String>,
        source: Option<String>,
        ..rest
    }
}

object! {
    /// One call of a batch.
    BatchCall {
        tool_name: Option<String>,
        tool_input: Option<Value>,
        tool_use_id: Option<String>,
        /// The text that the model gets, not the structured response of PostToolUse.
        tool_response: Option<Value>,
        ..rest
    }
}

object! {
    /// Work that goes on after the turn.
    BackgroundTask {
        id: Option<String>,
        r#type: Option<String>,
        status: Option<String>,
        description: Option<String>,
        command: Option<String>,
        agent_type: Option<String>,
        server: Option<String>,
        tool: Option<String>,
        name: Option<String>,
        ..rest
    }
}

object! {
    /// A scheduled prompt.
    SessionCron {
        id: Option<String>,
        schedule: Option<String>,
        recurring: Option<bool>,
        prompt: Option<String>,
        ..rest
    }
}

events! {
    /// Before a tool call.
    PreToolUse matching "tool_name" needs "tool_name" "tool_input" "tool_use_id" {
        tool_name: String,
        tool_input: Value,
        tool_use_id: Option<String>,
        mcp_server: Option<McpServer>,
    }

    /// After a tool call that succeeded.
    PostToolUse matching "tool_name" needs "tool_name" "tool_input" "tool_response" "tool_use_id" {
        tool_name: String,
        tool_input: Value,
        tool_response: Option<Value>,
        tool_use_id: Option<String>,
        duration_ms: Option<Number>,
        mcp_server: Option<McpServer>,
    }

    /// After a tool call that failed.
    PostToolUseFailure matching "tool_name" needs "tool_name" "tool_input" "tool_use_id" "error" {
        tool_name: String,
        tool_input: Value,
        tool_use_id: Option<String>,
        error: Option<String>,
        is_interrupt: Option<bool>,
        duration_ms: Option<Number>,
        mcp_server: Option<McpServer>,
    }

    /// After all calls of one message, denied ones too.
    PostToolBatch needs "tool_calls" {
        tool_calls: Option<Vec<BatchCall>>,
    }

    /// When Claude Code notifies the user.
    Notification matching "notification_type" needs "message" "notification_type" {
        message: Option<String>,
        title: Option<String>,
        /// The subject of a notification: `permission_prompt`, `idle_prompt`, `elicitation_response`, or a
        /// newer word.
        notification_type: Option<String>,
    }

    /// Before a prompt is sent, a generated one too.
    UserPromptSubmit needs "prompt" {
        prompt: String,
        /// The source of a prompt: `user`, `sdk`, `system`, `loop_wakeup`, `schedule_wakeup`, `poll_event`,
        /// or a newer word.
        source: Option<String>,
        session_title: Option<String>,
    }

    /// When a command that the user typed becomes a prompt.
    UserPromptExpansion matching "command_name"
        needs "expansion_type" "command_name" "command_args" "prompt"
    {
        /// The kind of command that expanded into a prompt: `slash_command`, `mcp_prompt`, or a newer word.
        expansion_type: Option<String>,
        command_name: Option<String>,
        command_args: Option<String>,
        command_source: Option<String>,
        prompt: String,
    }

    /// When a context window of the main agent begins.
    SessionStart matching "source" needs "source" {
        /// The way in which a context window began: `startup`, `resume`, `clear`, `compact`, `fork`, or a
        /// newer word.
        source: Option<String>,
        model: Option<String>,
        session_title: Option<String>,
        seconds_since_last_response: Option<Number>,
        context_tokens: Option<Number>,
        prompt_cache_likely_expired: Option<bool>,
        estimated_cache_write_usd: Option<Number>,
    }

    /// When a session ends.
    SessionEnd matching "reason" needs "reason" {
        /// The reason why a session ended: `clear`, `resume`, `logout`, `prompt_input_exit`, `other`, or a newer
        /// word.
        reason: Option<String>,
    }

    /// Before a turn ends; not after an interrupt.
    Stop needs "stop_hook_active" {
        stop_hook_active: Option<bool>,
        last_assistant_message: Option<String>,
        background_tasks: Option<Vec<BackgroundTask>>,
        session_crons: Option<Vec<SessionCron>>,
    }

    /// When a turn ends in an error of the API.
    StopFailure matching "error" needs "error" {
        /// The reason why a turn failed: `authentication_failed`, `oauth_org_not_allowed`, `account_on_hold`,
        /// `verification_required`, `billing_error`, `rate_limit`, `overloaded`, `invalid_request`,
        /// `model_not_found`, `server_error`, `unknown`, `max_output_tokens`, `cloud_credential_error`, or a
        /// newer word.
        error: Option<String>,
        error_details: Option<String>,
        last_assistant_message: Option<String>,
    }

    /// When a subagent begins, which `common` names.
    SubagentStart matching "agent_type" needs "agent_id" "agent_type" {}

    /// Before a subagent ends; also the one that compacts, whose `agent_type` is empty.
    SubagentStop matching "agent_type"
        needs "stop_hook_active" "agent_id" "agent_transcript_path" "agent_type"
    {
        stop_hook_active: Option<bool>,
        agent_transcript_path: Option<String>,
        last_assistant_message: Option<String>,
        background_tasks: Option<Vec<BackgroundTask>>,
        session_crons: Option<Vec<SessionCron>>,
    }

    /// Before a compaction.
    PreCompact matching "trigger" needs "trigger" "custom_instructions" {
        /// The origin of a compaction: `manual`, `auto`, or a newer word.
        trigger: Option<String>,
        custom_instructions: Option<Option<String>>,
    }

    /// After a compaction.
    PostCompact matching "trigger" needs "trigger" "compact_summary" {
        /// The origin of a compaction: `manual`, `auto`, or a newer word.
        trigger: Option<String>,
        compact_summary: Option<String>,
    }

    /// Before a requested switch of the model.
    PreModelSwitch matching "to_model"
        needs "from_model" "to_model" "requested_model" "source" "context_tokens"
            "prompt_cache_warm" "cache_ttl" "estimated_cache_write_usd" "pricing"
    {
        from_model: Option<String>,
        to_model: Option<String>,
        requested_model: Option<Option<String>>,
        /// The origin of a model switch: `command`, `picker`, `sdk`, `auto`, `resume`, or a newer word.
        source: Option<String>,
        context_tokens: Option<Number>,
        prompt_cache_warm: Option<bool>,
        /// The lifetime of the prompt cache: `5m`, `1h`, or a newer word.
        cache_ttl: Option<String>,
        estimated_cache_write_usd: Option<Number>,
        /// The source of the prices behind an estimate: `configured`, `catalog`, `default`, or a newer word.
        pricing: Option<String>,
    }

    /// After any switch of the model.
    PostModelSwitch matching "to_model"
        needs "from_model" "to_model" "requested_model" "source" "context_tokens"
            "prompt_cache_warm" "cache_ttl" "estimated_cache_write_usd" "pricing"
    {
        from_model: Option<String>,
        to_model: Option<String>,
        requested_model: Option<Option<String>>,
        /// The origin of a model switch: `command`, `picker`, `sdk`, `auto`, `resume`, or a newer word.
        source: Option<String>,
        context_tokens: Option<Number>,
        prompt_cache_warm: Option<bool>,
        /// The lifetime of the prompt cache: `5m`, `1h`, or a newer word.
        cache_ttl: Option<String>,
        estimated_cache_write_usd: Option<Number>,
        /// The source of the prices behind an estimate: `configured`, `catalog`, `default`, or a newer word.
        pricing: Option<String>,
    }

    /// When a call needs the user's permission. It has no `tool_use_id`.
    PermissionRequest matching "tool_name" needs "tool_name" "tool_input" {
        tool_name: String,
        tool_input: Value,
        permission_suggestions: Option<Vec<Value>>,
        mcp_server: Option<McpServer>,
    }

    /// After auto mode denied a call.
    PermissionDenied matching "tool_name" needs "tool_name" "tool_input" "tool_use_id" "reason" {
        tool_name: String,
        tool_input: Value,
        tool_use_id: Option<String>,
        reason: Option<String>,
        mcp_server: Option<McpServer>,
    }

    /// When a repository is set up (`--init`, `--maintenance`).
    Setup matching "trigger" needs "trigger" {
        /// The reason why Setup runs: `init`, `maintenance`, or a newer word.
        trigger: Option<String>,
    }

    /// Before a teammate goes idle.
    TeammateIdle needs "teammate_name" "team_name" {
        teammate_name: Option<String>,
        team_name: Option<String>,
    }

    /// When an entry of the task list is made.
    TaskCreated needs "task_id" "task_subject" {
        task_id: Option<String>,
        task_subject: Option<String>,
        task_description: Option<String>,
        teammate_name: Option<String>,
        team_name: Option<String>,
    }

    /// When an entry of the task list is done.
    TaskCompleted needs "task_id" "task_subject" {
        task_id: Option<String>,
        task_subject: Option<String>,
        task_description: Option<String>,
        teammate_name: Option<String>,
        team_name: Option<String>,
    }

    /// When an MCP server asks the user something.
    Elicitation matching "mcp_server_name" needs "mcp_server_name" "message" {
        mcp_server_name: Option<String>,
        message: Option<String>,
        /// The way in which an MCP server asks: `form`, `url`, or a newer word.
        mode: Option<String>,
        url: Option<String>,
        elicitation_id: Option<String>,
        requested_schema: Option<Rest>,
    }

    /// When the user has answered it.
    ElicitationResult matching "mcp_server_name" needs "mcp_server_name" "action" {
        mcp_server_name: Option<String>,
        elicitation_id: Option<String>,
        /// The way in which an MCP server asks: `form`, `url`, or a newer word.
        mode: Option<String>,
        /// The user's reaction to an MCP server's question: `accept`, `decline`, `cancel`, or a newer word.
        action: Option<String>,
        content: Option<Rest>,
    }

    /// When a settings file changed under a running session.
    ConfigChange matching "source" needs "source" {
        /// The settings that changed: `user_settings`, `project_settings`, `local_settings`,
        /// `policy_settings`, `skills`, or a newer word.
        source: Option<String>,
        file_path: Option<String>,
    }

    /// When a worktree is to be created: a hook here replaces git.
    WorktreeCreate needs "name" {
        name: Option<String>,
    }

    /// When a worktree is to be removed.
    WorktreeRemove needs "worktree_path" {
        worktree_path: Option<String>,
    }

    /// When a file of instructions was loaded.
    InstructionsLoaded matching "load_reason" needs "file_path" "memory_type" "load_reason" {
        file_path: Option<String>,
        /// The owner of the instructions that were loaded: `User`, `Project`, `Local`, `Managed`, or a newer
        /// word.
        memory_type: Option<String>,
        /// The reason why instructions were loaded: `session_start`, `nested_traversal`, `path_glob_match`,
        /// `include`, `compact`, or a newer word.
        load_reason: Option<String>,
        globs: Option<Vec<String>>,
        trigger_file_path: Option<String>,
        parent_file_path: Option<String>,
    }

    /// After the working folder changed.
    CwdChanged needs "old_cwd" "new_cwd" {
        old_cwd: Option<String>,
        new_cwd: Option<String>,
    }

    /// When a watched file changed.
    FileChanged matching "file_path" needs "file_path" "event" {
        file_path: Option<String>,
        /// The change of a watched file: `change`, `add`, `unlink`, or a newer word.
        event: Option<String>,
    }

    /// After a folder was added to the session.
    DirectoryAdded matching "source" needs "directory" "source" {
        directory: Option<String>,
        /// The origin of an added directory: `slash_command`, `register_repo_root`, or a newer word.
        source: Option<String>,
    }

    /// While a piece of the assistant's text is shown.
    MessageDisplay needs "turn_id" "message_id" "index" "final" "delta" {
        turn_id: Option<String>,
        message_id: Option<String>,
        index: Option<Number>,
        r#final: Option<bool>,
        delta: Option<String>,
    }
}
