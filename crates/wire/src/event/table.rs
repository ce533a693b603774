//! The table of events. **A new event is added here**, and then in `answer/rules.rs`, where the compiler asks
//! for what it may be answered; a recorded payload in `fixtures/` proves it.
//!
//! A field is an `Option` even where Claude Code has always sent it, because it changes every few weeks. Only
//! the fields without which a guard could not judge the event at all are plain. `needs` lists the fields that
//! Claude Code always sends: an event without one is kept with a fault.

use serde_json::{Number, Value};

use super::define::{events, key, object, words};
use super::words::*;
use super::{Missing, Rest, Slot, take};

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
        notification_type: Option<NotificationType>,
    }

    /// Before a prompt is sent, a generated one too.
    UserPromptSubmit needs "prompt" {
        prompt: String,
        source: Option<PromptSource>,
        session_title: Option<String>,
    }

    /// When a command that the user typed becomes a prompt.
    UserPromptExpansion matching "command_name"
        needs "expansion_type" "command_name" "command_args" "prompt"
    {
        expansion_type: Option<ExpansionType>,
        command_name: Option<String>,
        command_args: Option<String>,
        command_source: Option<String>,
        prompt: String,
    }

    /// When a context window of the main agent begins.
    SessionStart matching "source" needs "source" {
        source: Option<StartSource>,
        model: Option<String>,
        session_title: Option<String>,
        seconds_since_last_response: Option<Number>,
        context_tokens: Option<Number>,
        prompt_cache_likely_expired: Option<bool>,
        estimated_cache_write_usd: Option<Number>,
    }

    /// When a session ends.
    SessionEnd matching "reason" needs "reason" {
        reason: Option<EndReason>,
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
        error: Option<TurnError>,
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
        trigger: Option<CompactTrigger>,
        custom_instructions: Option<Option<String>>,
    }

    /// After a compaction.
    PostCompact matching "trigger" needs "trigger" "compact_summary" {
        trigger: Option<CompactTrigger>,
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
        source: Option<SwitchSource>,
        context_tokens: Option<Number>,
        prompt_cache_warm: Option<bool>,
        cache_ttl: Option<CacheTtl>,
        estimated_cache_write_usd: Option<Number>,
        pricing: Option<Pricing>,
    }

    /// After any switch of the model.
    PostModelSwitch matching "to_model"
        needs "from_model" "to_model" "requested_model" "source" "context_tokens"
            "prompt_cache_warm" "cache_ttl" "estimated_cache_write_usd" "pricing"
    {
        from_model: Option<String>,
        to_model: Option<String>,
        requested_model: Option<Option<String>>,
        source: Option<SwitchSource>,
        context_tokens: Option<Number>,
        prompt_cache_warm: Option<bool>,
        cache_ttl: Option<CacheTtl>,
        estimated_cache_write_usd: Option<Number>,
        pricing: Option<Pricing>,
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
        trigger: Option<SetupTrigger>,
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
        mode: Option<ElicitationMode>,
        url: Option<String>,
        elicitation_id: Option<String>,
        requested_schema: Option<Rest>,
    }

    /// When the user has answered it.
    ElicitationResult matching "mcp_server_name" needs "mcp_server_name" "action" {
        mcp_server_name: Option<String>,
        elicitation_id: Option<String>,
        mode: Option<ElicitationMode>,
        action: Option<ElicitationAction>,
        content: Option<Rest>,
    }

    /// When a settings file changed under a running session.
    ConfigChange matching "source" needs "source" {
        source: Option<ConfigSource>,
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
        memory_type: Option<MemoryType>,
        load_reason: Option<LoadReason>,
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
        event: Option<FileEvent>,
    }

    /// After a folder was added to the session.
    DirectoryAdded matching "source" needs "directory" "source" {
        directory: Option<String>,
        source: Option<DirectorySource>,
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
