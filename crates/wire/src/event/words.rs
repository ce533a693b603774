//! The words that fields of events are made of. Each list is open: Claude Code adds to them.

use super::define::words;

words! {
    /// How much Claude Code may do without asking.
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
    /// Where a prompt came from.
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
    /// What kind of command expanded into a prompt.
    ExpansionType {
        SlashCommand = "slash_command",
        McpPrompt = "mcp_prompt",
    }
}

words! {
    /// How a window of a session began.
    StartSource {
        Startup = "startup",
        Resume = "resume",
        Clear = "clear",
        Compact = "compact",
        Fork = "fork",
    }
}

words! {
    /// Why a session ended. Claude Code's own word "other" is an `Other` too.
    EndReason {
        Clear = "clear",
        Resume = "resume",
        Logout = "logout",
        PromptInputExit = "prompt_input_exit",
    }
}

words! {
    /// Why a turn failed.
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
    /// What a notification is about.
    NotificationType {
        PermissionPrompt = "permission_prompt",
        IdlePrompt = "idle_prompt",
        ElicitationResponse = "elicitation_response",
    }
}

words! {
    /// Who asked for a compaction.
    CompactTrigger {
        Manual = "manual",
        Auto = "auto",
    }
}

words! {
    /// Who switched the model.
    SwitchSource {
        Command = "command",
        Picker = "picker",
        Sdk = "sdk",
        Auto = "auto",
        Resume = "resume",
    }
}

words! {
    /// How long the prompt cache lives.
    CacheTtl {
        FiveMinutes = "5m",
        OneHour = "1h",
    }
}

words! {
    /// Where the prices behind an estimate come from.
    Pricing {
        Configured = "configured",
        Catalog = "catalog",
        Default = "default",
    }
}

words! {
    /// Why Setup runs.
    SetupTrigger {
        Init = "init",
        Maintenance = "maintenance",
    }
}

words! {
    /// How an MCP server asks.
    ElicitationMode {
        Form = "form",
        Url = "url",
    }
}

words! {
    /// What the user did with an MCP server's question.
    ElicitationAction {
        Accept = "accept",
        Decline = "decline",
        Cancel = "cancel",
    }
}

words! {
    /// Which configuration changed.
    ConfigSource {
        UserSettings = "user_settings",
        ProjectSettings = "project_settings",
        LocalSettings = "local_settings",
        PolicySettings = "policy_settings",
        Skills = "skills",
    }
}

words! {
    /// Whose instructions were loaded.
    MemoryType {
        User = "User",
        Project = "Project",
        Local = "Local",
        Managed = "Managed",
    }
}

words! {
    /// Why instructions were loaded.
    LoadReason {
        SessionStart = "session_start",
        NestedTraversal = "nested_traversal",
        PathGlobMatch = "path_glob_match",
        Include = "include",
        Compact = "compact",
    }
}

words! {
    /// What happened to a watched file.
    FileEvent {
        Change = "change",
        Add = "add",
        Unlink = "unlink",
    }
}

words! {
    /// Who added a directory.
    DirectorySource {
        SlashCommand = "slash_command",
        RegisterRepoRoot = "register_repo_root",
    }
}
