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
