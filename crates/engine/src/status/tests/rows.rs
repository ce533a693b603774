//! Every row of the two tables, in their order.

use super::*;

#[test]
fn the_rows_of_the_seed() {
    check(&[
        ("nothing yet", &[], "idle"),
        ("an interactive tool", &[ASK], "attention(AskUserQuestion)"),
        (
            "a plan begins",
            &["PreToolUse tool_name=EnterPlanMode tool_use_id=q"],
            "attention(EnterPlanMode)",
        ),
        (
            "a plan ends",
            &["PreToolUse tool_name=ExitPlanMode"],
            "attention(ExitPlanMode)",
        ),
        ("a standard tool", &[BASH], "working(Bash)"),
        ("a tool is done", &[BASH, BASH_DONE], "working(Thinking)"),
        (
            "a tool is done of which nothing was heard",
            &[BASH_DONE],
            "working(Thinking)",
        ),
        (
            "a tool failed",
            &[BASH, "PostToolUseFailure tool_name=Bash tool_use_id=b"],
            "working(Thinking)",
        ),
        ("a prompt", &[PROMPT], "working"),
        ("a prompt after a tool", &[BASH, PROMPT], "working"),
        ("the turn ends", &[PROMPT, BASH, "Stop"], "idle"),
        ("a session starts", &["SessionStart source=startup"], "idle"),
        (
            "a session starts again",
            &[BASH, "SessionStart source=resume"],
            "idle",
        ),
        (
            "a session starts in a new way",
            &[BASH, "SessionStart source=new"],
            "idle",
        ),
        ("a session ends", &[BASH, "SessionEnd reason=other"], "idle"),
        (
            "a compaction",
            &["PreCompact trigger=auto"],
            "working(Compacting)",
        ),
        ("setup", &["Setup trigger=init"], "working(Setup)"),
        (
            "a permission prompt",
            &[
                PROMPT,
                "Notification notification_type=permission_prompt prompt_id=p",
            ],
            "attention(Permission)",
        ),
        (
            "a permission prompt out of nothing",
            &["Notification notification_type=permission_prompt"],
            "attention(Permission)",
        ),
        (
            "waiting for 60 seconds",
            &[BASH, "Notification notification_type=idle_prompt"],
            "idle",
        ),
        (
            "an elicitation dialog",
            &[BASH, "Notification notification_type=elicitation_dialog"],
            "attention(MCP input)",
        ),
        (
            "a login",
            &[BASH, "Notification notification_type=auth_success"],
            "working(Bash)",
        ),
        (
            "a new kind of notification",
            &[BASH, "Notification notification_type=new"],
            "working(Bash)",
        ),
        (
            "a notification of no kind",
            &[BASH, "Notification"],
            "working(Bash)",
        ),
    ]);
}

#[test]
fn the_rows_that_came_after_it() {
    let denied = ASKED[0].replace("PreToolUse", "PermissionDenied");
    let unattended = format!("{} unattended", ASKED[1]);
    check(&[
        ("a permission", &ASKED, "attention(Permission for Bash)"),
        (
            "a permission out of nothing",
            &[ASKED[1]],
            "attention(Permission for Bash)",
        ),
        (
            "one for a plan",
            &["PermissionRequest tool_name=ExitPlanMode"],
            "attention(ExitPlanMode)",
        ),
        ("nobody attends", &[ASKED[0], &unattended], "working(Bash)"),
        (
            "denied",
            &[ASKED[0], ASKED[1], &denied],
            "working(Thinking)",
        ),
        (
            "a server asks",
            &[BASH, "Elicitation mcp_server_name=probe"],
            "attention(MCP input: probe)",
        ),
        (
            "a server is told",
            &[
                BASH,
                "Elicitation mcp_server_name=probe",
                "ElicitationResult mcp_server_name=probe action=cancel",
            ],
            "working(Thinking)",
        ),
        (
            "a background task's server is told",
            &[
                "Stop prompt_id=p",
                "Elicitation mcp_server_name=probe prompt_id=p",
                "ElicitationResult mcp_server_name=probe prompt_id=p",
            ],
            "idle",
        ),
        (
            "a server is told in a new turn",
            &[
                "Stop prompt_id=p",
                "Elicitation mcp_server_name=probe prompt_id=q",
                "ElicitationResult mcp_server_name=probe prompt_id=q",
            ],
            "working(Thinking)",
        ),
        (
            "a turn failed",
            &[BASH, "StopFailure error=overloaded"],
            "idle",
        ),
        (
            "background tasks",
            &[BASH, r#"Stop background_tasks=[{"id":"a"}]"#],
            "idle",
        ),
        (
            "broken off",
            &[
                BASH,
                "PostToolUseFailure tool_name=Bash tool_use_id=b is_interrupt=true",
            ],
            "idle",
        ),
        (
            "compacted while idle",
            &["PreCompact trigger=manual", "SessionStart source=compact"],
            "idle",
        ),
        (
            "compacted while at work",
            &[
                BASH,
                "PreCompact trigger=auto",
                "SessionStart source=compact",
            ],
            "working(Bash)",
        ),
        (
            "compacted, nobody knows since when",
            &[BASH, "SessionStart source=compact"],
            "working(Bash)",
        ),
        (
            "compacted by hand",
            &[
                BASH,
                "PreCompact trigger=manual",
                "SessionStart source=compact",
                "PostCompact trigger=manual",
            ],
            "idle",
        ),
        (
            "compacted by itself",
            &[
                "PreCompact trigger=auto",
                "SessionStart source=compact",
                "PostCompact trigger=auto",
            ],
            "working(Thinking)",
        ),
        (
            "compacted in a new way",
            &[BASH, "PreCompact", "PostCompact trigger=new"],
            "working(Bash)",
        ),
        (
            "a slash command",
            &["UserPromptExpansion prompt=/x"],
            "working",
        ),
        (
            "a batch",
            &["PostToolBatch tool_calls=[]"],
            "working(Thinking)",
        ),
        (
            "a teammate rests",
            &[BASH, "TeammateIdle teammate_name=mate"],
            "idle",
        ),
        (
            "another model",
            &[BASH, "PostModelSwitch to_model=m"],
            "working(Bash)",
        ),
        (
            "another folder",
            &[BASH, "CwdChanged new_cwd=/x"],
            "working(Bash)",
        ),
        (
            "something unknown",
            &[BASH, "NeverHeardOf tool_name=Read"],
            "working(Bash)",
        ),
    ]);
}
