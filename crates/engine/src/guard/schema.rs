//! The types that Claude Code expects in its settings. It refuses a whole file in which one of these differs,
//! with the hooks in it. Measured with 2.1.325. Pure.

use serde_json::Value;

/// The types that a key may have, and the keys. Keys for which Claude Code takes any type are not among them.
const TYPES: [(&str, &str); 10] = [
    (
        "boolean",
        "respectGitignore wslInheritsWindowsSettings includeCoAuthoredBy includeGitInstructions \
         disableReplyCheck workflowKeywordTriggerEnabled bashEditDiffEnabled respondToBashCommands \
         allowAllClaudeAiMcps allowClaudeInChromeWithManagedMcp forceRemoteSettingsRefresh spinnerTipsEnabled \
         clawdFileProgressEnabled syntaxHighlightingDisabled terminalTitleFromRename alwaysThinkingEnabled \
         fastMode promptSuggestionEnabled emojiCompletionEnabled awaySummaryEnabled \
         showClearContextOnPlanAccept prefersReducedMotion doneMeansMerged totalTokensReminderAfterUserTurn \
         autoMemoryEnabled autoDreamEnabled showThinkingSummaries verbose autoCompactEnabled \
         precomputeCompactionEnabled idleCompaction switchModelsOnFlag autoScrollEnabled \
         wheelScrollAccelerationEnabled fileCheckpointingEnabled showTurnDuration showMessageTimestamps \
         terminalProgressBarEnabled todoFeatureEnabled inputNeededNotifEnabled agentPushNotifEnabled \
         permissions.blockReadsOutsideWorkingDirectories permissions.denyInsteadOfPrompting sandbox.enabled \
         sandbox.failIfUnavailable sandbox.autoAllowBashIfSandboxed sandbox.allowUnsandboxedCommands \
         sandbox.enableWeakerNestedSandbox",
    ),
    (
        "boolean null",
        "syncClaudeAiSkills syncClaudeAiPlugins enforceAvailableModels enableAllProjectMcpServers \
         disableClaudeAiConnectors disableBundledSkills disableAgentView disableRemoteControl disableWorkflows \
         disableArtifact enableArtifact enableWorkflows disableSkillShellExecution \
         disableWindowsBashCommandSplit allowManagedPermissionRulesOnly allowManagedMcpServersOnly \
         disableCommandPluginSources disableSideloadFlags skipWebFetchPreflight fastModePerSessionOptIn \
         responseComparisonEnabled channelsEnabled skipDangerousModePermissionPrompt skipWorkflowUsageWarning \
         autoContinueAtUsageLimit remoteControlAtStartup isolatePeerMachines autoUploadSessions",
    ),
    ("boolean object", "attribution"),
    (
        "string",
        "$schema apiKeyHelper proxyAuthHelper awsCredentialExport awsAuthRefresh gcpAuthRefresh processWrapper \
         attributionProject model prUrlTemplate otelHeadersHelper outputStyle language advisorModel agent \
         minimumVersion requiredMinimumVersion requiredMaximumVersion plansDirectory timeFormat timeZone \
         autoMemoryDirectory claudeMd pluginTrustMessage statusLine.command",
    ),
    (
        "string array",
        "enabledMcpjsonServers disabledMcpjsonServers forceLoginOrgUUID",
    ),
    (
        "positive",
        "cleanupPeriodDays skillListingMaxDescChars totalTokensReminderBudget",
    ),
    (
        "positive number",
        "desktopSessionCleanupPeriodDays feedbackSurveyRate skillListingBudgetFraction statusLine.padding",
    ),
    (
        "array",
        "fallbackModel availableModels allowedHttpHookUrls httpHookAllowedEnvVars pluginSuggestionMarketplaces \
         companyAnnouncements allowedChannelPlugins sshConfigs claudeMdExcludes permissions.allow \
         permissions.deny permissions.ask permissions.additionalDirectories sandbox.excludedCommands",
    ),
    (
        "array null",
        "strictKnownMarketplaces allowedMarketplaces blockedMarketplaces",
    ),
    (
        "object",
        "breakReminder quietHours env permissions modelOverrides skillOverrides worktree enabledPlugins sandbox \
         pluginConfigs remote voice remoteTools fileSuggestion statusLine spinnerVerbs sandbox.network \
         sandbox.filesystem sandbox.credentials sandbox.ignoreViolations",
    ),
];

/// Keys that take one of these texts.
const CHOICES: [(&str, &str); 10] = [
    (
        "permissions.defaultMode",
        "acceptEdits auto bypassPermissions default dontAsk manual plan",
    ),
    ("permissions.disableBypassPermissionsMode", "disable"),
    ("permissions.disableAutoMode", "disable"),
    ("statusLine.type", "command"),
    ("autoUpdatesChannel", "latest stable rc"),
    ("tui", "default fullscreen"),
    ("defaultShell", "bash powershell"),
    ("workflowSizeGuideline", "unrestricted small medium large"),
    ("daemonColdStart", "transient ask"),
    (
        "totalTokensReminder",
        "off infinite fixed countdown padded-countdown",
    ),
];

/// Returns the keys for whose values Claude Code refuses these settings.
pub fn refused_keys(settings: &Value) -> Vec<&'static str> {
    let value = |key: &str| {
        key.split('.')
            .try_fold(settings, |value, key| value.get(key))
    };
    let mut refused = Vec::new();
    for (types, keys) in TYPES {
        let is_one = |it: &Value| types.split(' ').any(|name| name == type_name(it));
        refused.extend(
            keys.split(' ')
                .filter(|key| value(key).is_some_and(|it| !is_one(it))),
        );
    }
    for (key, choices) in CHOICES {
        let is_one = |it: &Value| choices.split(' ').any(|choice| it == choice);
        refused.extend(value(key).filter(|it| !is_one(it)).map(|_| key));
    }
    refused
}

/// The type of a value. A whole number from 1 on is `positive`.
fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.as_u64().is_some_and(|it| it > 0) => "positive",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_claude_code_refuses() {
        for (settings, expected) in [
            (json!({"model": 5}), "model"),
            (json!({"model": null, "verbose": null}), "verbose model"),
            (json!({"cleanupPeriodDays": "x"}), "cleanupPeriodDays"),
            (json!({"cleanupPeriodDays": 0}), "cleanupPeriodDays"),
            (
                json!({"statusLine": 5, "permissions": "x"}),
                "permissions statusLine",
            ),
            (
                json!({"statusLine": {"type": "command", "command": 5}}),
                "statusLine.command",
            ),
            (
                json!({"permissions": {"defaultMode": "nope"}}),
                "permissions.defaultMode",
            ),
            (
                json!({"permissions": {"allow": "Bash"}}),
                "permissions.allow",
            ),
            (json!({"sandbox": {"enabled": "x"}}), "sandbox.enabled"),
            (json!({"env": []}), "env"),
            (
                json!({"env": {"A": 5}, "permissions": {"allow": [5]}, "unknown": 5}),
                "",
            ),
            (
                json!({"model": "x", "cleanupPeriodDays": 1, "attribution": false}),
                "",
            ),
            (
                json!({"permissions": {"defaultMode": "plan"}, "theme": 5}),
                "",
            ),
            (
                json!({"enableAllProjectMcpServers": null, "statusLine": {"padding": 0}}),
                "",
            ),
            (json!(null), ""),
        ] {
            assert_eq!(refused_keys(&settings).join(" "), expected, "{settings}");
        }
    }
}
