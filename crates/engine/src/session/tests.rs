use becket_wire::EventId;
use becket_wire::session::Display;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::notice::DisplayChange;
use crate::session::Inference;
use crate::status::tests::test_events::{TestEvent, word};

/// A session that events are played to, one each ten milliseconds.
struct Play {
    session: Session,
    at: i64,
}

impl Play {
    fn new() -> Self {
        Self {
            session: Session::new("s", 0),
            at: 0,
        }
    }

    fn after(events: &[&str]) -> Self {
        let mut play = Self::new();
        for event in events {
            play.then(event);
        }
        play
    }

    fn then(&mut self, event: &str) -> bool {
        self.at += 10;
        self.at_time(event, self.at)
    }

    fn at_time(&mut self, event: &str, at: i64) -> bool {
        TestEvent::new(event, at).play(|event| self.session.apply(event))
    }

    fn main(&self) -> String {
        word(&self.session.main.status)
    }

    fn child(&self, id: &str) -> String {
        let child = &self.session.children[id];
        let ended = if child.is_live() { "" } else { " ended" };
        word(&child.agent.status) + ended
    }

    fn display(&self) -> (Display, Option<&str>, Option<&str>) {
        self.session.display()
    }
}

const START: &str = "SubagentStart agent_id=a agent_type=Explore";
const STOP: &str = "SubagentStop agent_id=a agent_type=Explore";
const PROMPT: &str = "UserPromptSubmit prompt=do";
const CHILD_ASKS: &str = "PermissionRequest agent_id=a agent_type=Explore tool_name=Bash";

#[test]
fn a_child_begins_and_ends() {
    let mut play = Play::after(&[PROMPT, START]);
    assert_eq!(play.both(), "working(Explore) · working");
    play.then("PreToolUse agent_id=a agent_type=Explore tool_name=Grep");
    assert_eq!(play.both(), "working(Explore) · working(Grep)");
    assert!(play.then("SubagentStop agent_id=a agent_type=Explore agent_transcript_path=/t"));
    assert_eq!(play.both(), "working(Thinking) · idle ended");
    let child = &play.session.children["a"];
    assert_eq!((child.started_at, child.ended_at), (20, Some(40)));
    assert_eq!(child.agent_type.as_deref(), Some("Explore"));
    assert_eq!(child.transcript_path.as_deref(), Some("/t"));
    let rests = Play::after(&[PROMPT, "Stop", START]);
    assert_eq!(rests.both(), "idle · working", "a parent at rest stays so");
}

#[test]
fn the_inner_agent_of_a_compaction_does_not_count() {
    let mut play = Play::after(&[PROMPT, "PreCompact trigger=auto"]);
    assert!(!play.then("SubagentStop agent_id=c agent_type="));
    assert!(!play.then("SubagentStart agent_id=c agent_type="));
    assert_eq!(play.main(), "working(Compacting)");
    assert_eq!(play.session.children.len(), 0);
}

#[test]
fn a_child_whose_start_was_missed_is_there_all_the_same() {
    let mut play = Play::after(&[PROMPT]);
    assert!(play.then("PreToolUse agent_id=a agent_type=Explore tool_name=Grep"));
    assert_eq!(play.both(), "working · working(Grep)");
    assert!(!play.then("Unheard agent_id=b"));
    assert!(!play.session.children.contains_key("b"));
    // Its start comes late: it says who it is, but not what it does now.
    play.at_time("SubagentStart agent_id=a agent_type=Explore", 15);
    assert_eq!(play.child("a"), "working(Grep)");
    assert_eq!(play.session.children["a"].started_at, 15);
}

#[test]
fn a_background_child_works_and_asks_while_its_parent_rests() {
    let mut play = Play::after(&[PROMPT, START, r#"Stop background_tasks=[{"id":"a"}]"#]);
    play.then("PreToolUse agent_id=a tool_name=Bash");
    assert_eq!(play.both(), "idle · working(Bash)");
    assert_eq!(play.display(), (Display::Working, None, None));
    assert!(play.then(CHILD_ASKS));
    let waits = (Display::Attention, Some("a"), Some("Permission for Bash"));
    assert_eq!(play.display(), waits);
    play.then("Notification notification_type=permission_prompt");
    assert_eq!((play.main().as_str(), play.display()), ("idle", waits));
    play.then(r#"SubagentStop agent_id=a agent_type=Explore background_tasks=[{"id":"a"}]"#);
    assert_eq!(play.main(), "idle");
    assert_eq!(play.display().0, Display::Done);
    assert_eq!(play.session.main.background_tasks, 0);
}

#[test]
fn a_stop_ends_the_children_that_do_not_go_on() {
    let other = "SubagentStart agent_id=b agent_type=Plan";
    let mut play = Play::after(&[
        PROMPT,
        START,
        other,
        r#"Stop background_tasks=[{"id":"b"}]"#,
    ]);
    assert_eq!(play.child("a"), "idle ended");
    assert_eq!(play.child("b"), "working");
    play.then("PreToolUse agent_id=a tool_name=Bash");
    assert_eq!(play.child("a"), "working(Bash)", "it works after all");
    play.then(CHILD_ASKS);
    play.then("Stop background_tasks=[]");
    assert_eq!(play.child("a"), "attention(Permission for Bash)");
}

#[test]
fn an_interrupt_ends_the_children_of_the_turn() {
    let agent = "PreToolUse tool_name=Agent tool_use_id=t";
    let background = "SubagentStart agent_id=b agent_type=Plan";
    let mut play = Play::after(&[PROMPT, background, agent, START]);
    play.then("PostToolUseFailure tool_name=Agent tool_use_id=t is_interrupt=true");
    assert_eq!(play.both(), "idle · idle ended");
    assert_eq!(play.child("b"), "working");
}

#[test]
fn a_teammate_rests_by_id_or_by_name() {
    let mate = "SubagentStart agent_id=m agent_type=mate";
    let mut play = Play::after(&[PROMPT, START, mate]);
    play.then("TeammateIdle teammate_name=mate");
    assert_eq!(play.child("m"), "idle");
    assert_eq!(play.child("a"), "working");
    play.then("TeammateIdle agent_id=a agent_type=Explore teammate_name=other");
    assert_eq!(play.child("a"), "idle");
    assert_eq!(play.main(), "working(mate)");
    assert!(!play.then("TeammateIdle teammate_name=unknown"));
    let works = r#"Stop background_tasks=[{"id":"t7","type":"teammate"}]"#;
    let play = Play::after(&[
        PROMPT,
        "SubagentStart agent_id=amate-1 agent_type=mate",
        works,
    ]);
    assert_eq!(play.child("amate-1"), "working", "it outlives the turn");
}

#[test]
fn an_ended_session_is_revived_only_by_a_beginning() {
    let ended = [PROMPT, START, CHILD_ASKS, "SessionEnd reason=logout"];
    let mut play = Play::after(&ended);
    let session = &play.session;
    assert_eq!(session.ended_at, Some(40));
    assert_eq!(session.end_reason.as_deref(), Some("logout"));
    assert_eq!(play.child("a"), "idle ended");
    assert_eq!(play.display().0, Display::Done);
    let before = play.session.clone();
    for event in [
        "PreToolUse tool_name=Bash",
        CHILD_ASKS,
        START,
        "Stop",
        "SessionEnd reason=other",
        "Unheard",
    ] {
        assert!(!play.then(event), "{event}");
    }
    assert!(!play.at_time(PROMPT, 35), "from before the end");
    assert_eq!(play.session, before);
    for event in ["SessionStart source=resume", PROMPT] {
        let mut play = Play::after(&ended);
        assert!(play.then(event));
        assert_eq!(play.session.ended_at, None);
        assert_eq!(&play.session.end_reason, &None);
    }
}

#[test]
fn a_clear_keeps_the_line_and_a_fork_has_its_own() {
    let mut first = Play::after(&["SessionStart source=startup cwd=/p model=m"]);
    first.session.name(Some("mine".into()));
    first.session.pane = Some("%3".into());
    let mut second = Session::new("s2", 50);
    second.continue_from(&first.session, Chain::Clear);
    let mut third = Session::new("s3", 60);
    third.continue_from(&second, Chain::Clear);
    assert_eq!(&*third.line, "s");
    assert_eq!(third.prev_session_id.as_deref(), Some("s2"));
    assert_eq!(third.title.as_deref(), Some("mine"));
    assert_eq!(third.pane.as_deref(), Some("%3"));
    assert_eq!(third.cwd.as_deref(), Some("/p"));
    assert_eq!(third.model.as_deref(), Some("m"));
    let mut fork = Session::new("f", 70);
    fork.continue_from(&third, Chain::Fork);
    assert_eq!(&*fork.line, "f");
    assert_eq!(fork.prev_session_id.as_deref(), Some("s3"));
    assert_eq!((fork.title, fork.pane), (None, None));
}

#[test]
fn children_have_a_bound_and_the_live_ones_stay() {
    let mut play = Play::after(&[PROMPT, START]);
    for place in 0..60 {
        play.then(&format!("SubagentStart agent_id=e{place:03} agent_type=T"));
        play.then(&format!("SubagentStop agent_id=e{place:03} agent_type=T"));
    }
    let children = &play.session.children;
    assert_eq!(children.len(), 51);
    assert!(children.contains_key("a") && children.contains_key("e059"));
    assert!(!children.contains_key("e009") && children.contains_key("e010"));
    play.then(CHILD_ASKS);
    for place in 0..250 {
        play.then(&format!("SubagentStart agent_id=l{place:03} agent_type=T"));
    }
    let children = &play.session.children;
    assert_eq!(children.len(), 200);
    assert_eq!(play.session.live_children().count(), 200);
    assert!(children.contains_key("a"), "it asks something");
}

#[test]
fn a_long_id_is_cut_and_recognised_again() {
    let long = "ü".repeat(5_000);
    let call =
        format!("tool_name={long} tool_use_id={long} prompt_id={long} agent_id={long} cwd=/{long}");
    let mut play = Play::after(&[
        PROMPT,
        &format!("PreToolUse {call}"),
        &format!("PermissionRequest {call}"),
    ]);
    assert_eq!(play.display().0, Display::Attention);
    play.then(&format!("StopFailure error={long} cwd=/{long}"));
    let kept = serde_json::to_string(&play.session).unwrap();
    assert!(kept.len() < 10_000, "{}", kept.len());
    play.then(&format!("PostToolUse {call}"));
    assert_eq!(
        word(&play.session.children.values().next().unwrap().agent.status),
        "working(Thinking)"
    );
}

impl Play {
    /// Has the last event judged.
    fn begin_judgement(&mut self, agent: Option<&str>) -> EventId {
        let stop = EventId::new(self.at, [0; 2]);
        assert!(self.session.begin_stop_judgement(agent, stop, self.at));
        stop
    }

    fn both(&self) -> String {
        format!("{} · {}", self.main(), self.child("a"))
    }
}

#[test]
fn a_subagent_works_until_it_is_let_stop() {
    let mut play = Play::after(&[PROMPT, START, STOP]);
    assert_eq!(play.both(), "working(Thinking) · idle ended");
    let stop = play.begin_judgement(Some("a"));
    let works = "working(Explore) · working(Thinking)";
    assert_eq!(play.both(), works);
    assert!(!play.session.let_stop(EventId::new(7, [0; 2]), 30));
    assert_eq!(play.both(), works, "another was let through");
    assert!(play.session.let_stop(stop, 30));
    assert_eq!(play.both(), "working(Thinking) · idle ended");
    assert!(!play.session.let_stop(stop, 30), "once");

    let mut play = Play::after(&[PROMPT, START, STOP]);
    let stop = play.begin_judgement(Some("a"));
    play.then("PreToolUse agent_id=a agent_type=Explore tool_name=Grep");
    assert!(!play.session.let_stop(stop, 30), "it went on");
    assert_eq!(play.child("a"), "working(Grep)");
}

#[test]
fn the_main_agent_is_let_stop_whatever_its_subagents_did_meanwhile() {
    let mut play = Play::after(&[PROMPT, START]);
    play.then("Stop background_tasks=[{\"id\":\"a\"}]");
    let stop = play.begin_judgement(None);
    play.then(STOP);
    assert_eq!(play.main(), "working(Thinking)");
    assert!(play.session.let_stop(stop, 30));
    assert_eq!(play.both(), "idle · idle ended");
}

#[test]
fn a_judged_stop_survives_a_restart_and_ends_with_a_prompt() {
    let mut play = Play::after(&[PROMPT, "Stop"]);
    let stop = play.begin_judgement(None);
    let kept = serde_json::to_string(&play.session).unwrap();
    play.session = serde_json::from_str(&kept).unwrap();
    let mut prompted = Play {
        session: play.session.clone(),
        ..play
    };
    assert!(play.session.let_stop(stop, 20));
    assert_eq!(play.main(), "idle");
    assert_eq!(play.display().0, Display::Done);
    prompted.then(PROMPT);
    assert!(!prompted.session.let_stop(stop, 20));
    assert_eq!(prompted.main(), "working");
}

#[test]
fn an_agent_that_wanted_to_stop_and_rests_was_not_interrupted() {
    let mut play = Play::after(&[PROMPT, "Stop"]);
    let mut works = Play::after(&[PROMPT]);
    let stop = play.begin_judgement(None);
    for (play, by_person) in [(&mut play, false), (&mut works, true)] {
        let (before, at) = (play.session.shown(), play.at + 5);
        assert!(play.session.infer(&Inference::Interrupted, at));
        assert_eq!(play.main(), "idle");
        assert_eq!(play.session.main.interrupted, by_person);
        let change = DisplayChange::of(before, &play.session, at).unwrap();
        let told = (change.before, change.after, change.by_person);
        assert_eq!(told, (Display::Working, Display::Done, by_person));
    }
    assert!(!play.session.let_stop(stop, play.at), "it is known");
    assert_eq!(play.display().0, Display::Done);
}

#[test]
fn a_question_during_the_judgement_of_a_stop_stays_open() {
    for ask in [
        "Elicitation mcp_server_name=db",
        "PermissionRequest tool_name=Bash",
    ] {
        let mut play = Play::after(&[PROMPT, "Stop"]);
        let (stop, stopped) = (play.begin_judgement(None), play.at);
        play.then(ask);
        let asked = play.main();
        assert!(asked.starts_with("attention"), "{asked}");
        play.session.let_stop(stop, stopped);
        assert_eq!(play.main(), asked);
        assert_eq!(play.display().0, Display::Attention);
    }
}

/// What the main agent becomes by a recorded event, by the longest beginning of its name that fits.
const BECOMES: [(&str, &str); 28] = [
    ("", "working"),
    ("Elicitation", "attention(MCP input: probe)"),
    ("ElicitationResult", "working(Thinking)"),
    ("Notification.idle_prompt", "idle"),
    ("Notification.permission_prompt", "attention(Permission)"),
    ("PermissionDenied", "working(Thinking)"),
    ("PermissionRequest", "attention(Permission for Bash)"),
    ("PostCompact.auto", "working(Thinking)"),
    ("PostCompact.manual", "idle"),
    ("PostToolBatch", "working(Thinking)"),
    ("PostToolUse", "working(Thinking)"),
    ("PostToolUse.Bash.in_subagent", "working"),
    ("PreCompact", "working(Compacting)"),
    ("PreToolUse.Agent", "working(Agent)"),
    ("PreToolUse.Bash", "working(Bash)"),
    ("PreToolUse.Bash.in_subagent", "working"),
    ("PreToolUse.Edit", "working(Edit)"),
    ("PreToolUse.Read", "working(Read)"),
    ("PreToolUse.Write", "working(Write)"),
    ("PreToolUse.mcp__probe__ask", "working(mcp__probe__ask)"),
    ("SessionEnd", "idle"),
    ("SessionStart", "idle"),
    ("SessionStart.compact", "working"),
    ("Setup", "working(Setup)"),
    ("Stop", "idle"),
    ("SubagentStart", "working(general-purpose)"),
    ("SubagentStop", "working(Thinking)"),
    ("SubagentStop.tui", "working"),
];

#[test]
fn every_recorded_event_moves_a_session_that_works() {
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../wire/fixtures");
    let mut played = 0;
    for entry in std::fs::read_dir(fixtures).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy();
        if path.extension().is_none_or(|it| it != "json") {
            continue;
        }
        let fits = BECOMES.iter().filter(|(start, _)| name.starts_with(start));
        let (_, becomes) = fits.max_by_key(|(start, _)| start.len()).unwrap();
        let mut play = Play::after(&[PROMPT]);
        let line = TestEvent::of_payload(std::fs::read(&path).unwrap(), 20);
        line.play(|event| play.session.apply(event));
        assert_eq!(play.main(), *becomes, "{name}");
        played += 1;
    }
    assert!(played > 80, "{played}");
}

const HOUR: i64 = 60 * 60 * 1000;

#[test]
fn facts_come_from_the_newest_event_of_the_main_agent() {
    let mut play = Play::after(&[
        "SessionStart cwd=/a model=m1 session_title=T transcript_path=/t.jsonl permission_mode=default",
        "PostModelSwitch cwd=/a to_model=m2",
        "CwdChanged cwd=/a new_cwd=/b",
    ]);
    play.then("PreToolUse agent_id=a tool_name=Bash cwd=/worktree permission_mode=plan");
    assert!(!play.at_time("SessionStart cwd=/old model=m0 session_title=Old", 5));
    let session = &play.session;
    assert_eq!(session.model.as_deref(), Some("m2"));
    assert_eq!(session.cwd.as_deref(), Some("/b"));
    assert_eq!(session.title.as_deref(), Some("T"));
    assert_eq!(session.permission_mode.as_deref(), Some("default"));
    assert_eq!(session.transcript_path.as_deref(), Some("/t.jsonl"));
    assert_eq!((session.started_at, session.last_activity), (0, 40));
    let mut play = Play::after(&["InstructionsLoaded cwd=/a"]);
    assert!(
        play.at_time("SessionStart cwd=/old model=m", 5),
        "it fills what is unknown"
    );
    assert_eq!(play.session.model.as_deref(), Some("m"));
    assert_eq!(play.session.cwd.as_deref(), Some("/a"));
}

#[test]
fn the_persons_title_stays() {
    let mut play = Play::after(&["SessionStart session_title=Theirs"]);
    assert!(play.session.name(Some("Mine".into())));
    assert!(!play.session.name(Some("Mine".into())));
    play.then("UserPromptSubmit prompt=a session_title=Theirs2");
    assert_eq!(play.session.title.as_deref(), Some("Mine"));
    play.session.name(None);
    play.then("UserPromptSubmit prompt=b session_title=Theirs2");
    assert_eq!(play.session.title.as_deref(), Some("Theirs2"));
}

#[test]
fn a_process_has_its_pane_and_a_guessed_one_counts_for_nothing() {
    let mut play = Play::new();
    let mut line = TestEvent::new("SessionStart", 10);
    line.set("TMUX", "/tmp/tmux-1/default,55,0");
    line.set("TMUX_PANE", "%3");
    line.set("CLAUDE_CODE_ENTRYPOINT", "cli");
    line.set("CLAUDE_CODE_SESSION_ATTENDED", "1");
    line.play(|event| play.session.apply(event));
    let mut guessed = TestEvent::new("PreToolUse tool_name=Bash", 20);
    (guessed.envelope.pid, guessed.envelope.pid_is_claude) = (99, false);
    guessed.set("TMUX_PANE", "%9");
    guessed.play(|event| play.session.apply(event));
    let session = &play.session;
    assert_eq!((session.pid, session.pid_start), (Some(7), Some(70)));
    assert_eq!(session.pane.as_deref(), Some("%3"));
    assert_eq!(session.tmux_socket.as_deref(), Some("/tmp/tmux-1/default"));
    assert_eq!(session.entrypoint.as_deref(), Some("cli"));
    assert!(session.attended);
    let mut elsewhere = TestEvent::new("SessionStart source=resume unattended", 30);
    elsewhere.envelope.pid = 8;
    assert!(elsewhere.play(|event| play.session.apply(event)));
    let session = &play.session;
    assert_eq!(
        (session.pid, session.pane.as_deref(), session.attended),
        (Some(8), None, false)
    );
}

#[test]
fn only_a_persons_prompt_is_the_last_prompt_and_it_is_cut() {
    let mut play = Play::after(&["UserPromptSubmit prompt=first"]);
    for machine in [
        "prompt=<task-notification>x",
        "prompt=wake source=schedule_wakeup",
    ] {
        play.then(&format!("UserPromptSubmit {machine}"));
        assert_eq!(play.main(), "working");
        assert_eq!(play.session.last_prompt.as_deref(), Some("first"));
    }
    play.then(&format!("UserPromptSubmit prompt={}", "ü".repeat(700)));
    assert_eq!(play.session.last_prompt, Some("ü".repeat(500)));
}

#[test]
fn a_prompt_that_becket_answers_gives_no_title() {
    let mut play = Play::new();
    let switch = |prompt: &str| {
        let said = serde_json::json!({"hook_event_name": "UserPromptSubmit", "prompt": prompt,
            "session_title": prompt});
        said.to_string().into_bytes()
    };
    let named = |play: &Play| (play.session.title.clone(), play.session.last_prompt.clone());
    for prompt in ["/hook:disable all", "/becket:hook:status"] {
        TestEvent::of_payload(switch(prompt), 10).play(|event| play.session.apply(event));
        assert_eq!(named(&play), (None, None), "{prompt}");
        assert_eq!(play.main(), "working", "as with every prompt");
    }
    play.at_time("UserPromptSubmit prompt=fix session_title=Fixing", 20);
    TestEvent::of_payload(switch("/hook:enable lint"), 30)
        .play(|moment| play.session.apply(moment));
    let fixing = (Some("Fixing".to_owned()), Some("fix".to_owned()));
    assert_eq!(named(&play), fixing);
    // Only becket's own commands are: whatever else begins with a slash reaches the model.
    TestEvent::of_payload(switch("/hook:other"), 40).play(|event| play.session.apply(event));
    assert_eq!(play.session.last_prompt.as_deref(), Some("/hook:other"));
}

#[test]
fn a_seen_question_waits_again_after_five_minutes() {
    const FIVE: i64 = 5 * 60 * 1000;
    let mut play = Play::after(&[PROMPT, "PermissionRequest tool_name=Bash"]);
    assert!(play.session.mark_seen(50));
    assert!(play.session.mark_seen(100), "the last look counts");
    assert!(!play.session.expire_seen(99 + FIVE));
    let row = play.session.row(0);
    assert_eq!((row.display, row.seen_at), (Display::Checked, 100));
    assert!(play.session.expire_seen(100 + FIVE));
    assert!(!play.session.expire_seen(200 + FIVE));
    let row = play.session.row(0);
    assert_eq!((row.display, row.display_since), (Display::Attention, 20));
}

#[test]
fn doing_describes_the_activity() {
    let doing = |payload: serde_json::Value| {
        let mut play = Play::after(&[PROMPT]);
        let line = TestEvent::of_payload(serde_json::to_vec(&payload).unwrap(), 20);
        line.play(|event| play.session.apply(event));
        play.session.row(20).doing.unwrap_or_default()
    };
    let call = |event: &str, tool: &str, input: serde_json::Value| {
        doing(json!({
            "hook_event_name": event, "tool_name": tool, "tool_input": input,
            "tool_use_id": "t", "cwd": "/home/you/shop",
        }))
    };
    let asks = |tool: &str, input| call("PermissionRequest", tool, input);
    let runs = |tool: &str, input| call("PreToolUse", tool, input);
    let apply = json!({"command": "terraform apply\n  -auto-approve"});
    let question = json!({"questions": [{"question": "Which region?", "header": "R"}]});
    let path = json!({"file_path": "/home/you/shop/src/a.rs"});
    let failed = |error: &str, said: &str| {
        doing(
            json!({"hook_event_name": "StopFailure", "error": error, "last_assistant_message": said}),
        )
    };
    let quoted = r#"API Error: 400 {"error":{"message":"Your credit balance is too low"}}"#;
    let elicits =
        json!({"hook_event_name": "Elicitation", "mcp_server_name": "db", "message": "Which one?"});
    for (said, expected) in [
        (
            asks("Bash", apply),
            "wants to run: terraform apply -auto-approve",
        ),
        (asks("Edit", path.clone()), "wants to edit: src/a.rs"),
        (
            asks("mcp__db__drop", json!({})),
            "wants to use mcp__db__drop",
        ),
        (asks("ExitPlanMode", json!({})), "has a plan to approve"),
        (runs("AskUserQuestion", question), "Which region?"),
        (
            runs("AskUserQuestion", json!({"questions": 1})),
            "asks a question",
        ),
        (
            runs("Bash", json!({"command": "pytest -q"})),
            "running: pytest -q",
        ),
        (runs("Bash", json!({"command": 7})), "Bash"),
        (runs("Read", path), "reading: src/a.rs"),
        (doing(elicits), "db asks: Which one?"),
        (
            failed("unknown", "API Error: credit balance too low"),
            "API error: credit balance too low",
        ),
        (
            failed("unknown", quoted),
            "API error: Your credit balance is too low",
        ),
        (failed("billing_error", ""), "API error: billing error"),
        (failed("unknown", ""), "API error"),
    ] {
        assert_eq!(said, expected);
    }
    let long = runs("Bash", json!({"command": "x".repeat(1 << 20)}));
    assert!(long.chars().count() < 200, "{}", long.len());
}

#[test]
fn the_most_urgent_is_displayed() {
    let asks = "PreToolUse tool_name=AskUserQuestion tool_use_id=q";
    let mut play = Play::after(&[PROMPT]);
    assert_eq!(play.display(), (Display::Working, None, None));
    play.then(START);
    play.then(asks);
    assert_eq!(
        play.display(),
        (Display::Attention, Some("main"), Some("AskUserQuestion"))
    );
    assert!(play.session.mark_seen(35));
    assert!(!play.session.mark_seen(35));
    let checked = (Display::Checked, Some("main"), Some("AskUserQuestion"));
    assert_eq!(play.display(), checked, "a subagent still works");
    play.then(STOP);
    assert_eq!(
        play.display(),
        (Display::Checked, Some("main"), Some("AskUserQuestion"))
    );
    play.then("StopFailure error=overloaded");
    assert_eq!(
        play.display(),
        (Display::Error, Some("main"), Some("overloaded"))
    );
    play.then(CHILD_ASKS);
    assert_eq!(
        play.display(),
        (Display::Error, Some("a"), Some("Permission for Bash"))
    );
    play.then(PROMPT);
    assert_eq!(play.display().0, Display::Attention);
    play.then(STOP);
    play.then("Stop");
    assert_eq!(play.display(), (Display::Done, None, None));
}

#[test]
fn the_display_tells_since_when() {
    let mut play = Play::after(&[
        PROMPT,
        "PreToolUse tool_name=Read",
        "PreToolUse tool_name=Grep",
    ]);
    assert_eq!(play.session.row(0).display_since, 10);
    play.at_time(CHILD_ASKS, 50);
    play.at_time("PermissionRequest tool_name=Bash", 60);
    assert_eq!(play.session.row(0).display_since, 50);
    assert_eq!(play.session.row(0).waiting_for.as_deref(), Some("a"));
    play.at_time(STOP, 70);
    assert_eq!(play.session.row(0).display_since, 60);
    play.at_time("Stop", 80);
    assert_eq!(
        (
            play.session.row(0).display_since,
            play.session.row(0).display
        ),
        (80, Display::Done)
    );
}

#[test]
fn an_inference_is_marked_and_newer_events_replace_it() {
    let mut play = Play::after(&[PROMPT, "PreToolUse tool_name=Bash"]);
    assert!(
        !play.session.infer(&Inference::Interrupted, 15),
        "an event was newer"
    );
    assert!(play.session.infer(&Inference::Interrupted, 25));
    let row = play.session.row(0);
    assert_eq!(
        (row.status.word(), row.interrupted, row.inferred),
        ("idle", true, true)
    );
    assert!(
        !play.session.infer(&Inference::Interrupted, 26),
        "it is known"
    );
    play.then(PROMPT);
    let row = play.session.row(0);
    assert_eq!(
        (row.status.word(), row.interrupted, row.inferred),
        ("working", false, false)
    );
    let died = Inference::TurnDied {
        error: Some("no answer".into()),
    };
    assert!(play.session.infer(&died, 90));
    assert_eq!(
        play.display(),
        (Display::Error, Some("main"), Some("no answer"))
    );
}

#[test]
fn a_session_that_rests_while_another_agent_asks_was_not_interrupted() {
    let needs = r#"Notification notification_type=agent_needs_input message="api\u0020needs\u0020your\u0020input""#;
    let mut play = Play::after(&[PROMPT, needs, "Stop"]);
    let before = play.session.clone();
    for inference in [Inference::Interrupted, Inference::TurnDied { error: None }] {
        assert!(!play.session.infer(&inference, 90));
    }
    assert_eq!(play.session, before);
    assert_eq!(play.main(), "attention(api needs your input)");
}

#[test]
fn an_answer_is_inferred_for_the_agent_that_asked() {
    let call = "PreToolUse agent_id=a tool_name=Bash tool_use_id=t";
    let mut play = Play::after(&[PROMPT, START, call, CHILD_ASKS]);
    let answered = |agent_id: Option<&str>| Inference::PermissionAnswered {
        agent_id: agent_id.map(str::to_owned),
        tool_use_id: "t".to_owned(),
    };
    assert!(!play.session.infer(&answered(None), 90));
    assert!(
        !play.session.infer(&answered(Some("a")), 25),
        "it was not asked yet"
    );
    assert!(play.session.infer(&answered(Some("a")), 90));
    assert_eq!(play.child("a"), "working(Bash)");
    assert_eq!(play.display().0, Display::Working);
}

#[test]
fn a_busy_agent_has_answers_to_all_earlier_questions() {
    let mut play = Play::after(&[
        PROMPT,
        START,
        CHILD_ASKS,
        "PermissionRequest tool_name=Edit",
    ]);
    assert!(!play.session.infer(&Inference::Busy, 25), "too early");
    assert!(play.session.infer(&Inference::Busy, 35));
    assert_eq!(play.child("a"), "working");
    assert_eq!(play.main(), "attention(Permission for Edit)");
    play.then("PreToolUse tool_name=Read");
    assert!(play.session.infer(&Inference::Busy, 45));
    assert_eq!(play.main(), "working(Read)");
    assert_eq!(play.display().0, Display::Working);
    assert!(!play.session.infer(&Inference::Busy, 45), "known");
}

#[test]
fn a_turn_that_no_event_began_is_inferred() {
    let mut play = Play::after(&[PROMPT, PROMPT, "Stop"]);
    let busy = Inference::Busy;
    assert!(!play.session.infer(&busy, 30), "the turn that has stopped");
    assert!(play.session.infer(&busy, 31));
    assert_eq!(play.main(), "working");
    assert_eq!(play.display().0, Display::Working);
    assert!(play.session.row(0).inferred);
    assert!(!play.session.infer(&busy, 31), "known");
    play.then("Stop");
    assert!(is_idle(&play));

    play.then(PROMPT);
    play.then(START);
    play.then("Stop background_tasks=[{\"id\":\"a\"}]");
    assert!(!play.session.infer(&busy, 90), "its subagent is");
    play.then(STOP);
    assert!(play.session.infer(&busy, 90));
}

fn is_idle(play: &Play) -> bool {
    play.main() == "idle" && play.display().0 == Display::Done && !play.session.row(0).inferred
}

#[test]
fn a_process_that_is_gone_ends_its_session() {
    let mut play = Play::after(&[PROMPT, START]);
    assert!(
        !play.session.infer(&Inference::ProcessGone, 15),
        "something was heard later"
    );
    assert!(play.session.infer(&Inference::ProcessGone, 90));
    let row = play.session.row(90);
    assert_eq!(row.ended_at, Some(90));
    assert_eq!(row.end_reason.as_deref(), Some(PROCESS_GONE));
    assert_eq!(
        (row.inferred, row.status.word(), row.alive),
        (true, "idle", false)
    );
    assert_eq!(play.child("a"), "idle ended");
    assert!(!play.session.infer(&Inference::ProcessGone, 95));
    assert!(!play.at_time(PROMPT, 80), "from before the end");
    assert!(play.at_time("SessionStart source=resume", 100));
    assert!(!play.session.row(100).inferred);
}

#[test]
fn nothing_follows_a_prompt_that_is_blocked() {
    let mut play = Play::after(&[PROMPT]);
    assert!(play.session.block_prompt(10));
    assert_eq!(play.main(), "idle");
    assert_eq!(play.display().0, Display::Done);
    assert!(!play.session.row(0).inferred);
    play.then(PROMPT);
    play.then("PreToolUse tool_name=Bash");
    assert!(!play.session.block_prompt(20), "something followed");
}

#[test]
fn eight_hours_of_silence_are_stale() {
    let play = Play::after(&[PROMPT]);
    assert!(!play.session.is_stale(10 + 8 * HOUR) && play.session.is_stale(11 + 8 * HOUR));
    assert!(play.session.row(11 + 8 * HOUR).stale);
}

#[test]
fn a_row_shows_the_children_of_the_turn() {
    let second = "SubagentStart agent_id=A agent_type=Plan";
    let mut play = Play::after(&[PROMPT, START, second, STOP]);
    let ids = |play: &Play| -> Vec<String> {
        let rows = play.session.row(0).agents;
        rows.into_iter().map(|row| row.agent_id).collect()
    };
    assert_eq!(ids(&play), ["a", "A"], "in the order in which they began");
    play.then("UserPromptSubmit prompt=<task-notification>");
    assert_eq!(ids(&play), ["a", "A"]);
    play.then(PROMPT);
    assert_eq!(ids(&play), ["A"]);
    let row = play.session.row(0);
    assert_eq!((row.line.as_str(), row.session_id.as_str()), ("s", "s"));
    assert_eq!(row.last_prompt.as_deref(), Some("do"));
}

#[test]
fn a_looked_at_question_of_a_subagent_stays_in_sight_while_its_parent_works() {
    let mut play = Play::after(&[PROMPT, START, CHILD_ASKS]);
    assert!(play.session.mark_seen(50));
    let checked = (Display::Checked, Some("a"), Some("Permission for Bash"));
    assert_eq!(play.display(), checked);
    let row = play.session.row(0);
    assert_eq!(row.agents[0].display(), Display::Checked);
    assert_eq!((row.status.word(), row.display_since), ("working", 30));
    play.then("PostToolUse agent_id=a tool_name=Bash");
    assert_eq!(play.display().0, Display::Working);
    assert_eq!(play.session.row(0).agents[0].display(), Display::Working);
}

#[test]
fn an_agent_that_completed_ends_its_own_waiting_only() {
    let ended = "Notification notification_type=agent_completed agent_id=a";
    let mut play = Play::after(&[PROMPT, START, CHILD_ASKS]);
    play.then(ended);
    assert_eq!(play.display().0, Display::Working, "its parent works");
    let mut play = Play::after(&[PROMPT, START, CHILD_ASKS, "Stop"]);
    play.then("SubagentStart agent_id=b agent_type=Explore");
    play.then(ended);
    assert_eq!(play.display().0, Display::Working, "another works");
    let mut play = Play::after(&[PROMPT, START, "SubagentStart agent_id=b agent_type=Explore"]);
    play.then(CHILD_ASKS);
    play.then("PermissionRequest agent_id=b agent_type=Explore tool_name=Bash");
    play.then(ended);
    let waits = (Display::Attention, Some("b"), Some("Permission for Bash"));
    assert_eq!(play.display(), waits);
}

#[test]
fn a_reply_that_was_an_error_leaves_the_context_as_it_was() {
    let figures = |context_tokens, context_pct| Figures {
        context_tokens: Some(context_tokens),
        context_pct: Some(context_pct),
        ..Figures::default()
    };
    let mut session = Session::new("s", 0);
    session.figure(&figures(45_000, 45.0), ONE);
    assert!(!session.figure(&figures(0, 0.0), ONE));
    assert_eq!(session.figures, figures(45_000, 45.0));
    // 2.1.325 may say neither.
    let unknown = Figures {
        context_tokens: None,
        ..figures(0, 0.0)
    };
    assert!(!session.figure(&unknown, ONE));
    assert_eq!(session.figures, figures(45_000, 45.0));
    assert!(session.figure(&figures(1_000, 1.0), ONE));
}

const ONE: Process = (Some(7), Some(70));
const TWO: Process = (Some(8), Some(80));

#[test]
fn a_transcript_never_overrules_the_status_line() {
    let cost = |cost_usd, from_transcript| Figures {
        cost_usd: Some(cost_usd),
        from_transcript,
        ..Figures::default()
    };
    let mut session = Session::new("s", 0);
    assert!(session.figure(&cost(1.0, true), ONE));
    assert!(session.figure(&cost(2.0, false), ONE));
    assert!(!session.figure(&cost(2.0, false), ONE), "nothing new");
    let later = Figures {
        duration_ms: Some(9),
        ..cost(2.0, false)
    };
    assert!(!session.figure(&later, ONE), "it was only drawn again");
    assert_eq!(session.figures.duration_ms, Some(9));
    assert!(!session.figure(&cost(3.0, true), ONE));
    assert_eq!(session.figures.cost_usd, Some(2.0));
}

#[test]
fn the_first_status_line_is_not_added_to_the_estimate_of_a_transcript() {
    let cost = |cost_usd, from_transcript| Figures {
        cost_usd: Some(cost_usd),
        from_transcript,
        ..Figures::default()
    };
    let mut session = Session::new("s", 0);
    for (figures, process, expected) in [
        (cost(0.11, true), ONE, 0.11),
        (cost(0.10, false), TWO, 0.11),
        (cost(0.15, false), TWO, 0.16),
        (cost(0.0, false), ONE, 0.16),
        (cost(0.04, false), ONE, 0.20),
    ] {
        session.figure(&figures, process);
        let found = session.figures.cost_usd.unwrap();
        assert!((found - expected).abs() < 1e-9, "{found} is not {expected}");
    }
}

#[test]
fn a_transcript_does_not_take_a_switch_of_the_model_back() {
    let of = |model: &str, from_transcript| Figures {
        model_id: Some(model.to_owned()),
        from_transcript,
        ..Figures::default()
    };
    let mut session = Session::new("s", 0);
    session.figure(&of("opus", true), ONE);
    assert_eq!(session.model.as_deref(), Some("opus"));
    session.model = Some("sonnet".to_owned());
    let again = Figures {
        cost_usd: Some(1.0),
        ..of("opus", true)
    };
    assert!(session.figure(&again, ONE));
    assert_eq!(session.model.as_deref(), Some("sonnet"));
}

const EVENTS: [&str; 32] = [
    "PreToolUse tool_name=Bash tool_input=[1] tool_use_id=1t",
    "PreToolUse tool_name=Agent tool_input=[2] tool_use_id=2t",
    "PreToolUse tool_name=AskUserQuestion tool_use_id=3t",
    "PostToolUse tool_name=Bash tool_input=[1] tool_use_id=1t",
    "PostToolUse tool_name=AskUserQuestion tool_use_id=3t",
    "PostToolUseFailure tool_name=Bash tool_use_id=1t",
    "PostToolUseFailure tool_name=Agent tool_use_id=2t is_interrupt=true",
    "PermissionRequest tool_name=Bash tool_input=[1]",
    "PermissionRequest tool_name=Bash tool_input=[1] unattended",
    "PermissionDenied tool_name=Bash tool_input=[1] tool_use_id=1t",
    "PostToolBatch",
    "Elicitation mcp_server_name=s",
    "ElicitationResult mcp_server_name=s",
    "Notification notification_type=permission_prompt",
    "Notification notification_type=idle_prompt",
    "UserPromptSubmit prompt=a cwd=/a",
    "UserPromptSubmit prompt=<task-notification>",
    "Stop",
    "Stop background_tasks=[]",
    "StopFailure error=x",
    "SessionStart source=startup model=m",
    "SessionStart source=compact",
    "SessionEnd reason=other",
    "PreCompact trigger=auto",
    "PostCompact trigger=manual",
    "TeammateIdle teammate_name=Explore",
    "CwdChanged new_cwd=/b",
    "PostModelSwitch to_model=n",
    "SubagentStart agent_type=Explore",
    "SubagentStop agent_type=Explore background_tasks=[]",
    "SubagentStop agent_type=",
    "Unheard thing=1",
];

/// An event of the main agent or of one of three others, and when it happened.
fn event() -> impl Strategy<Value = (String, i64)> {
    let agent = prop::sample::select(vec!["", "", " agent_id=x", " agent_id=y", " agent_id=z"]);
    (prop::sample::select(EVENTS.to_vec()), agent, 0..20_i64)
        .prop_map(|(event, agent, late)| (format!("{event}{agent}"), late))
}

/// Events in the order in which they arrive: most in time, some late.
fn events() -> impl Strategy<Value = Vec<(String, i64)>> {
    prop::collection::vec(event(), 0..50).prop_map(|events| {
        let time = |place: usize, late: i64| match late {
            0..15 => place as i64 * 10 + 200,
            _ => place as i64 * 10 + 200 - late * 5,
        };
        let events = events.into_iter().enumerate();
        events
            .map(|(place, (event, late))| (event, time(place, late)))
            .collect()
    })
}

fn is_of_a_child(event: &str) -> bool {
    event.contains("agent_id=") && !event.starts_with("Subagent")
}

proptest! {
    #[test]
    fn an_event_of_a_child_moves_that_child_alone(events in events()) {
        let mut play = Play::new();
        for (event, at) in events {
            let before = play.session.clone();
            play.at_time(&event, at);
            if !is_of_a_child(&event) {
                continue;
            }
            prop_assert_eq!(&play.session.main, &before.main, "{}", event);
            prop_assert_eq!(play.session.ended_at, before.ended_at);
            for (id, child) in &before.children {
                let own = event.ends_with(&format!("agent_id={id}"));
                prop_assert!(own || play.session.children.get(id) == Some(child), "{event} moved {id}");
            }
        }
    }

    #[test]
    fn a_restart_at_any_point_changes_nothing(events in events()) {
        let mut play = Play::new();
        let mut other = Play::new();
        for (event, at) in events {
            prop_assert_eq!(play.at_time(&event, at), other.at_time(&event, at));
            prop_assert_eq!(play.session.row(at), other.session.row(at));
            let kept = serde_json::to_string(&other.session).unwrap();
            other.session = serde_json::from_str(&kept).unwrap();
            prop_assert_eq!(&play.session, &other.session);
        }
    }

    #[test]
    fn the_agent_that_waits_is_named(events in events(), look in any::<bool>()) {
        let mut play = Play::new();
        for (event, at) in events {
            play.at_time(&event, at);
            if look {
                play.session.mark_seen(at);
            }
            let session = &play.session;
            let live = session.live_children().map(|(_, child)| &child.agent);
            let pending = live.chain([&session.main]).any(|agent| !agent.pending().is_empty());
            let row = session.row(at);
            if pending {
                prop_assert_eq!(session.ended_at, None);
                prop_assert!(row.waiting_for.is_some() && row.waiting_reason.is_some(), "{event}");
                let urgent = matches!(row.display, Display::Error | Display::Attention);
                prop_assert!(look || urgent, "{event}: {:?}", row.display);
            }
        }
    }

    #[test]
    fn an_older_event_moves_no_agent(events in events(), late in event()) {
        // An agent without events has no older event.
        let mut play = Play::after(&[PROMPT]);
        for id in ["x", "y", "z"] {
            play.then(&format!("SubagentStart agent_type=Explore agent_id={id}"));
        }
        for (event, at) in events {
            play.at_time(&event, at);
        }
        let before = play.session.clone();
        let agents = before.children.values().map(|child| &child.agent);
        let oldest = agents.chain([&before.main]).filter_map(Agent::last_at).min();
        play.at_time(&late.0, oldest.unwrap() - 1);
        let after = &play.session;
        prop_assert_eq!(&after.main, &before.main);
        for (id, child) in &before.children {
            prop_assert_eq!(&after.children[id].agent, &child.agent);
            prop_assert_eq!(after.children[id].ended_at, child.ended_at);
        }
        prop_assert_eq!(after.ended_at, before.ended_at);
    }

    #[test]
    fn every_visible_change_is_reported(events in events()) {
        let mut play = Play::new();
        for (event, at) in events {
            let before = play.session.row(0);
            let told = play.at_time(&event, at);
            let mut after = play.session.row(0);
            after.last_activity = before.last_activity;
            prop_assert!(told || after == before, "{event}");
        }
    }
}
