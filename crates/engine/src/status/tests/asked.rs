//! What is asked against what comes after it.

use super::*;

#[test]
fn a_notification_never_replaces_what_is_known_better() {
    let permission = "Notification notification_type=permission_prompt prompt_id=p";
    let idle = "Notification notification_type=idle_prompt prompt_id=p";
    let dialog = "Notification notification_type=elicitation_dialog prompt_id=p";
    check(&[
        (
            "late for a permission",
            &[ASKED[0], ASKED[1], permission],
            "attention(Permission for Bash)",
        ),
        (
            "late for a question",
            &[ASK, permission],
            "attention(AskUserQuestion)",
        ),
        (
            "late for a server",
            &["Elicitation mcp_server_name=s", dialog],
            "attention(MCP input: s)",
        ),
        (
            "idle, but asked",
            &[ASK, idle],
            "attention(AskUserQuestion)",
        ),
        (
            "of a turn that has ended",
            &[PROMPT, "Stop prompt_id=p", permission],
            "idle",
        ),
        (
            "a dialog of a turn that has ended",
            &[PROMPT, "Stop prompt_id=p", dialog],
            "idle",
        ),
        (
            "better known afterwards",
            &[permission, ASKED[1]],
            "attention(Permission for Bash)",
        ),
        (
            "answered",
            &[BASH, permission, BASH_DONE],
            "working(Thinking)",
        ),
        (
            "nobody answers for a minute",
            &[BASH, permission, idle],
            "idle",
        ),
    ]);
}

#[test]
fn what_is_asked_stays_until_it_is_answered() {
    let done = ASKED[0].replace("PreToolUse", "PostToolUse");
    let failed = ASKED[0].replace("PreToolUse", "PostToolUseFailure");
    let nameless = r#"PostToolUse tool_name=Bash tool_input={"command":"a"}"#;
    let asks = |event: &'static str| [READ, ASKED[0], ASKED[1], event];
    check(&[
        (
            "the tool ran",
            &[ASKED[0], ASKED[1], &done],
            "working(Thinking)",
        ),
        (
            "the tool failed",
            &[ASKED[0], ASKED[1], &failed],
            "working(Thinking)",
        ),
        (
            "the tool ran, known by its input",
            &[ASKED[1], nameless],
            "working(Thinking)",
        ),
        (
            "another ran",
            &asks("PostToolUse tool_name=Read tool_use_id=r prompt_id=p"),
            "attention(Permission for Bash)",
        ),
        (
            "another failed",
            &asks("PostToolUseFailure tool_name=Read tool_use_id=r"),
            "attention(Permission for Bash)",
        ),
        (
            "another begins",
            &asks("PreToolUse tool_name=Bash tool_use_id=t2 prompt_id=p"),
            "attention(Permission for Bash)",
        ),
        (
            "another was denied",
            &asks("PermissionDenied tool_name=Read prompt_id=p"),
            "attention(Permission for Bash)",
        ),
        (
            "another is asked too",
            &asks("PermissionRequest tool_name=Read prompt_id=p"),
            "attention(Permission for Bash)",
        ),
        (
            "a batch of another prompt",
            &asks("PostToolBatch prompt_id=q"),
            "attention(Permission for Bash)",
        ),
        (
            "its batch",
            &asks("PostToolBatch prompt_id=p"),
            "working(Thinking)",
        ),
        (
            "a machine's prompt",
            &asks("UserPromptSubmit prompt=<task-notification> prompt_id=q"),
            "attention(Permission for Bash)",
        ),
        ("a person's prompt", &asks(PROMPT), "working"),
        ("the turn ended", &asks("Stop"), "idle"),
        ("the turn failed", &asks("StopFailure"), "idle"),
        (
            "broken off",
            &asks("PostToolUseFailure is_interrupt=true"),
            "idle",
        ),
        (
            "compaction",
            &asks("PreCompact trigger=auto"),
            "attention(Permission for Bash)",
        ),
        (
            "another process",
            &asks("SessionStart source=resume"),
            "idle",
        ),
        (
            "a question is answered",
            &[ASK, "PostToolUse tool_name=AskUserQuestion tool_use_id=q"],
            "working(Thinking)",
        ),
        (
            "a question is broken off",
            &[
                ASK,
                "PostToolUseFailure tool_name=AskUserQuestion tool_use_id=q",
            ],
            "working(Thinking)",
        ),
        (
            "a question asked twice",
            &[
                ASK,
                "PermissionRequest tool_name=AskUserQuestion prompt_id=p",
                "PostToolUse tool_name=AskUserQuestion tool_use_id=q",
            ],
            "working(Thinking)",
        ),
        (
            "a hook told the server",
            &[
                "PreToolUse tool_name=mcp__my_probe__ask tool_use_id=m",
                "Elicitation mcp_server_name=my.probe",
                "PostToolUse tool_name=mcp__my_probe__ask tool_use_id=m",
            ],
            "working(Thinking)",
        ),
        (
            "another server's tool",
            &[
                "Elicitation mcp_server_name=my",
                "PostToolUse tool_name=mcp__my_probe__ask",
            ],
            "attention(MCP input: my)",
        ),
        (
            "one of two questions of a server",
            &[
                "Elicitation mcp_server_name=s",
                "Elicitation mcp_server_name=s",
                "ElicitationResult mcp_server_name=s",
            ],
            "attention(MCP input: s)",
        ),
        (
            "one server of two",
            &[
                "Elicitation mcp_server_name=s",
                "Elicitation mcp_server_name=t",
                "ElicitationResult mcp_server_name=s",
            ],
            "attention(MCP input: t)",
        ),
    ]);
}

#[test]
fn of_parallel_calls_the_newest_open_one_is_shown() {
    check(&[
        (
            "the newer is open",
            &[BASH, READ, BASH_DONE],
            "working(Read)",
        ),
        (
            "the older is open",
            &[BASH, READ, "PostToolUse tool_name=Read tool_use_id=r"],
            "working(Bash)",
        ),
        (
            "two are open",
            &[
                BASH,
                "PreToolUse tool_name=Grep tool_use_id=g",
                READ,
                "PostToolUse tool_name=Grep tool_use_id=g",
            ],
            "working(Read)",
        ),
        (
            "none is open",
            &[
                BASH,
                READ,
                BASH_DONE,
                "PostToolUse tool_name=Read tool_use_id=r",
            ],
            "working(Thinking)",
        ),
        (
            "one that was denied says nothing but its batch",
            &[
                BASH,
                READ,
                BASH_DONE,
                "PostToolBatch prompt_id=p",
                BASH,
                BASH_DONE,
            ],
            "working(Thinking)",
        ),
    ]);
}
