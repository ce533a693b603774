//! The sets of values of event fields. Each set is open: Claude Code adds to them.

use super::define::words;

words! {
    /// The permission mode: how much Claude Code may do without asking.
    PermissionMode {
        Default = "default",
        AcceptEdits = "acceptEdits",
        Plan = "plan",
        BypassPermissions = "bypassPermissions",
        DontAsk = "dontAsk",
        Auto = "auto",
    }
}

words! {
    /// The source of a prompt.
    PromptSource {
        User = "user",
        Sdk = "sdk",
        System = "system",
        LoopWakeup = "loop_wakeup",
        ScheduleWakeup = "schedule_wakeup",
        PollEvent = "poll_event",
    }
}

words! {
    /// The kind of command that expanded into a prompt.
    ExpansionType {
        SlashCommand = "slash_command",
        McpPrompt = "mcp_prompt",
    }
}

words! {
    /// The way in which a context window began.
    StartSource {
        Startup = "startup",
        Resume = "resume",
        Clear = "clear",
        Compact = "compact",
        Fork = "fork",
    }
}

words! {
    /// The reason why a session ended. Claude Code's own word "other" is an `Other` too.
    EndReason {
        Clear = "clear",
        Resume = "resume",
        Logout = "logout",
        PromptInputExit = "prompt_input_exit",
    }
}

words! {
    /// The reason why a turn failed.
    TurnError {
        AuthenticationFailed = "authentication_failed",
        OauthOrgNotAllowed = "oauth_org_not_allowed",
        AccountOnHold = "account_on_hold",
        VerificationRequired = "verification_required",
        BillingError = "billing_error",
        RateLimit = "rate_limit",
        Overloaded = "overloaded",
        InvalidRequest = "invalid_request",
        ModelNotFound = "model_not_found",
        ServerError = "server_error",
        Unknown = "unknown",
        MaxOutputTokens = "max_output_tokens",
        CloudCredentialError = "cloud_credential_error",
    }
}

words! {
    /// The subject of a notification.
    NotificationType {
        PermissionPrompt = "permission_prompt",
        IdlePrompt = "idle_prompt",
        ElicitationResponse = "elicitation_response",
    }
}

words! {
    /// The origin of a compaction.
    CompactTrigger {
        Manual = "manual",
        Auto = "auto",
    }
}

words! {
    /// The origin of a model switch.
    SwitchSource {
        Command = "command",
        Picker = "picker",
        Sdk = "sdk",
        Auto = "auto",
        Resume = "resume",
    }
}

words! {
    /// The lifetime of the prompt cache.
    CacheTtl {
        FiveMinutes = "5m",
        OneHour = "1h",
    }
}

words! {
    /// The source of the prices behind an estimate.
    Pricing {
        Configured = "configured",
        Catalog = "catalog",
        Default = "default",
    }
}

words! {
    /// The reason why Setup runs.
    SetupTrigger {
        Init = "init",
        Maintenance = "maintenance",
    }
}

words! {
    /// The way in which an MCP server asks.
    ElicitationMode {
        Form = "form",
        Url = "url",
    }
}

words! {
    /// The user's reaction to an MCP server's question.
    ElicitationAction {
        Accept = "accept",
        Decline = "decline",
        Cancel = "cancel",
    }
}

words! {
    /// The settings that changed.
    ConfigSource {
        UserSettings = "user_settings",
        ProjectSettings = "project_settings",
        LocalSettings = "local_settings",
        PolicySettings = "policy_settings",
        Skills = "skills",
    }
}

words! {
    /// The owner of the instructions that were loaded.
    MemoryType {
        User = "User",
        Project = "Project",
        Local = "Local",
        Managed = "Managed",
    }
}

words! {
    /// The reason why instructions were loaded.
    LoadReason {
        SessionStart = "session_start",
        NestedTraversal = "nested_traversal",
        PathGlobMatch = "path_glob_match",
        Include = "include",
        Compact = "compact",
    }
}

words! {
    /// The change of a watched file.
    FileEvent {
        Change = "change",
        Add = "add",
        Unlink = "unlink",
    }
}

words! {
    /// The origin of an added directory.
    DirectorySource {
        SlashCommand = "slash_command",
        RegisterRepoRoot = "register_repo_root",
    }
}
