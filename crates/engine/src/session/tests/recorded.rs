//! What Claude Code really sends, each recorded event applied to a session that works.

use std::path::PathBuf;

use super::*;

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../wire/fixtures");

/// What the main agent becomes, for the events that move it; all others leave it at work.
const MOVED: [(&str, &str); 37] = [
    ("Elicitation", "attention(MCP input: probe)"),
    ("ElicitationResult", "working(Thinking)"),
    ("Notification.idle_prompt.tui", "idle"),
    (
        "Notification.permission_prompt.tui",
        "attention(Permission)",
    ),
    ("PermissionDenied.Bash", "working(Thinking)"),
    ("PermissionRequest.Bash", "attention(Permission for Bash)"),
    (
        "PermissionRequest.Bash.tui",
        "attention(Permission for Bash)",
    ),
    ("PostCompact.auto", "working(Thinking)"),
    ("PostCompact.manual", "idle"),
    ("PostCompact.manual.tui", "idle"),
    ("PostToolBatch", "working(Thinking)"),
    ("PostToolBatch.parallel", "working(Thinking)"),
    ("PostToolBatch.tui", "working(Thinking)"),
    ("PostToolUse.Agent", "working(Thinking)"),
    ("PostToolUse.Bash", "working(Thinking)"),
    ("PostToolUse.Bash.tui", "working(Thinking)"),
    ("PostToolUse.Edit", "working(Thinking)"),
    ("PostToolUse.Read", "working(Thinking)"),
    ("PostToolUse.Write", "working(Thinking)"),
    ("PostToolUse.mcp__probe__ask", "working(Thinking)"),
    ("PostToolUseFailure.Bash", "working(Thinking)"),
    ("PostToolUseFailure.Read.missing", "working(Thinking)"),
    ("PreCompact.auto", "working(Compacting)"),
    ("PreCompact.manual", "working(Compacting)"),
    ("PreCompact.manual.tui", "working(Compacting)"),
    ("PreToolUse.Agent", "working(Agent)"),
    ("PreToolUse.Bash", "working(Bash)"),
    ("PreToolUse.Bash.tui", "working(Bash)"),
    ("PreToolUse.Edit", "working(Edit)"),
    ("PreToolUse.Read", "working(Read)"),
    ("PreToolUse.Write", "working(Write)"),
    ("PreToolUse.mcp__probe__ask", "working(mcp__probe__ask)"),
    ("StopFailure.tui", "idle"),
    ("SubagentStart", "working(general-purpose)"),
    ("SubagentStop", "working(Thinking)"),
    ("SubagentStop.background", "working(Thinking)"),
    ("TeammateIdle", "working"),
];

fn expected(name: &str) -> &'static str {
    let event = name.split('.').next().unwrap_or_default();
    match MOVED.iter().find(|(moved, _)| *moved == name) {
        Some((_, becomes)) => becomes,
        None if event == "Setup" => "working(Setup)",
        None if event == "SessionStart" && name.contains("compact") => "working",
        None if matches!(event, "SessionStart" | "SessionEnd" | "Stop") => "idle",
        None => "working",
    }
}

fn recorded(name: &str, at: i64) -> Line {
    let path = PathBuf::from(FIXTURES).join(format!("{name}.json"));
    Line::of_payload(std::fs::read(path).unwrap(), at)
}

#[test]
fn every_recorded_event_makes_what_the_tables_say() {
    let mut names: Vec<String> = std::fs::read_dir(FIXTURES)
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().into_string().ok())
        .filter_map(|name| name.strip_suffix(".json").map(str::to_owned))
        .collect();
    names.sort();
    assert!(names.len() > 80, "{names:?}");
    for name in names {
        let mut play = Play::after(&[PROMPT]);
        recorded(&name, 20).play(|moment| play.session.apply(moment));
        assert_eq!(play.main(), expected(&name), "{name}");
    }
}

#[test]
fn a_recorded_dialog_is_asked_at_once_and_answered() {
    let mut play = Play::after(&[PROMPT]);
    let mut shown = Vec::new();
    for (name, at) in [
        ("PermissionRequest.Bash.tui", 20),
        ("Notification.permission_prompt.tui", 6_020),
        ("PostToolBatch.tui", 7_000),
    ] {
        recorded(name, at).play(|moment| play.session.apply(moment));
        shown.push(play.main());
    }
    let asks = "attention(Permission for Bash)";
    // The recorded batch is that of another prompt.
    assert_eq!(shown, [asks, asks, asks]);
    recorded("Stop.tui", 8_000).play(|moment| play.session.apply(moment));
    assert_eq!(play.main(), "idle");
}

#[test]
fn a_recorded_subagent_comes_and_goes() {
    let mut play = Play::after(&[PROMPT]);
    let id = "a263684d95912022c";
    let mut shown = Vec::new();
    for (at, name) in [
        (20, "PreToolUse.Agent"),
        (30, "SubagentStart"),
        (40, "PreToolUse.Bash.in_subagent"),
        (50, "PostToolUse.Bash.in_subagent"),
        (60, "SubagentStop"),
    ] {
        recorded(name, at).play(|moment| play.session.apply(moment));
        if at > 20 {
            shown.push(format!("{} · {}", play.main(), play.child(id)));
        }
    }
    assert_eq!(
        shown,
        [
            "working(general-purpose) · working",
            "working(general-purpose) · working(Bash)",
            "working(general-purpose) · working(Thinking)",
            "working(Thinking) · idle ended",
        ]
    );
    let child = &play.session.children[id];
    assert!(
        child
            .transcript_path
            .as_ref()
            .unwrap()
            .ends_with("agent-a263684d95912022c.jsonl")
    );
}

#[test]
fn a_recorded_stop_names_its_background_tasks() {
    let mut play = Play::after(&[
        PROMPT,
        "SubagentStart agent_id=a6bce950a9e2cff6c agent_type=general-purpose",
    ]);
    recorded("Stop.background", 40).play(|moment| play.session.apply(moment));
    assert_eq!(
        (play.session.main.background_tasks, play.display().0),
        (1, Display::Working)
    );
    recorded("SubagentStop.background", 50).play(|moment| play.session.apply(moment));
    assert_eq!(
        (play.session.main.background_tasks, play.display().0),
        (0, Display::Done)
    );
}
