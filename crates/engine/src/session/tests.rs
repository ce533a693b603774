mod any;
mod recorded;
mod stopping;
mod telling;

use super::*;
use crate::status::script::{Line, word};

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
        Line::new(event, at).play(|moment| self.session.apply(moment))
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
    assert_eq!(
        (play.main(), play.child("a")),
        ("working(Explore)".into(), "working".into())
    );
    play.then("PreToolUse agent_id=a agent_type=Explore tool_name=Grep");
    assert_eq!(
        (play.main(), play.child("a")),
        ("working(Explore)".into(), "working(Grep)".into())
    );
    assert!(play.then("SubagentStop agent_id=a agent_type=Explore agent_transcript_path=/t"));
    assert_eq!(
        (play.main(), play.child("a")),
        ("working(Thinking)".into(), "idle ended".into())
    );
    let child = &play.session.children["a"];
    assert_eq!((child.started_at, child.ended_at), (20, Some(40)));
    assert_eq!(child.agent_type.as_deref(), Some("Explore"));
    assert_eq!(child.transcript_path.as_deref(), Some("/t"));
}

#[test]
fn a_parent_that_does_not_work_stays_as_it_is() {
    for (before, stays) in [
        ("Stop", "idle"),
        (
            "PreToolUse tool_name=ExitPlanMode",
            "attention(ExitPlanMode)",
        ),
    ] {
        let mut play = Play::after(&[PROMPT, before, START]);
        assert_eq!(
            (play.main(), play.child("a")),
            (stays.into(), "working".into())
        );
        play.then(STOP);
        assert_eq!(
            (play.main(), play.child("a")),
            (stays.into(), "idle ended".into())
        );
    }
}

#[test]
fn the_inner_agent_of_a_compaction_is_nobody() {
    let mut play = Play::after(&[PROMPT, "PreCompact trigger=auto"]);
    assert!(!play.then("SubagentStop agent_id=c agent_type="));
    assert!(!play.then("SubagentStart agent_id=c agent_type="));
    assert_eq!(
        (play.main().as_str(), play.session.children.len()),
        ("working(Compacting)", 0)
    );
}

#[test]
fn a_child_whose_start_was_missed_is_there_all_the_same() {
    let mut play = Play::after(&[PROMPT]);
    assert!(play.then("PreToolUse agent_id=a agent_type=Explore tool_name=Grep"));
    assert_eq!(
        (play.main(), play.child("a")),
        ("working".into(), "working(Grep)".into())
    );
    assert!(!play.then("Unheard agent_id=b"));
    assert!(!play.session.children.contains_key("b"));
    // Its start comes late: it says who it is, but not what it does now.
    play.at_time("SubagentStart agent_id=a agent_type=Explore", 15);
    assert_eq!(
        (
            play.child("a").as_str(),
            play.session.children["a"].started_at
        ),
        ("working(Grep)", 15)
    );
}

#[test]
fn a_background_child_works_and_asks_while_its_parent_rests() {
    let mut play = Play::after(&[PROMPT, START, r#"Stop background_tasks=[{"id":"a"}]"#]);
    play.then("PreToolUse agent_id=a tool_name=Bash");
    assert_eq!(
        (play.main(), play.child("a")),
        ("idle".into(), "working(Bash)".into())
    );
    assert_eq!(play.display(), (Display::Working, None, None));
    assert!(play.then(CHILD_ASKS));
    let waits = (Display::Attention, Some("a"), Some("Permission for Bash"));
    assert_eq!(play.display(), waits);
    play.then("Notification notification_type=permission_prompt");
    assert_eq!((play.main().as_str(), play.display()), ("idle", waits));
    play.then(r#"SubagentStop agent_id=a agent_type=Explore background_tasks=[{"id":"a"}]"#);
    assert_eq!(
        (play.main().as_str(), play.display().0),
        ("idle", Display::Done)
    );
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
    assert_eq!(
        (play.child("a"), play.child("b")),
        ("idle ended".into(), "working".into())
    );
    play.then("PreToolUse agent_id=a tool_name=Bash");
    assert_eq!(play.child("a"), "working(Bash)", "it works after all");
    play.then(CHILD_ASKS);
    play.then("Stop background_tasks=[]");
    assert_eq!(play.child("a"), "attention(Permission for Bash)");
}

#[test]
fn a_teammate_that_works_outlives_the_turn() {
    let mut play = Play::after(&[PROMPT, "SubagentStart agent_id=amate-1 agent_type=mate"]);
    play.then(r#"Stop background_tasks=[{"id":"t7","type":"teammate"}]"#);
    assert_eq!(play.child("amate-1"), "working");
    play.then("TeammateIdle agent_id=amate-1 teammate_name=mate");
    assert_eq!(play.child("amate-1"), "idle");
    assert_eq!(play.display().0, Display::Done);
}

#[test]
fn an_event_that_overtook_it_is_not_undone() {
    let mut play = Play::after(&[PROMPT, START]);
    play.at_time("PreToolUse agent_id=a tool_name=Bash", 90);
    play.at_time("Stop background_tasks=[]", 80);
    assert_eq!(play.child("a"), "working(Bash)");
    play.at_time(r#"Stop background_tasks=[{"id":"a"},{"id":"b"}]"#, 100);
    play.at_time(
        "SubagentStop agent_id=c agent_type=T background_tasks=[]",
        95,
    );
    assert_eq!(play.session.main.background_tasks, 2);
}

#[test]
fn an_interrupt_ends_the_children_of_the_turn() {
    let agent = "PreToolUse tool_name=Agent tool_use_id=t";
    let background = "SubagentStart agent_id=b agent_type=Plan";
    let mut play = Play::after(&[PROMPT, background, agent, START]);
    play.then("PostToolUseFailure tool_name=Agent tool_use_id=t is_interrupt=true");
    assert_eq!(
        (play.main(), play.child("a")),
        ("idle".into(), "idle ended".into())
    );
    assert_eq!(play.child("b"), "working");
}

#[test]
fn a_teammate_rests_by_id_or_by_name() {
    let mate = "SubagentStart agent_id=m agent_type=mate";
    let mut play = Play::after(&[PROMPT, START, mate]);
    play.then("TeammateIdle teammate_name=mate");
    assert_eq!(
        (play.child("m"), play.child("a")),
        ("idle".into(), "working".into())
    );
    play.then("TeammateIdle agent_id=a agent_type=Explore teammate_name=other");
    assert_eq!(
        (play.child("a"), play.main()),
        ("idle".into(), "working(mate)".into())
    );
    assert!(!play.then("TeammateIdle teammate_name=nobody"));
}

#[test]
fn an_ended_session_is_revived_only_by_a_beginning() {
    let ended = [PROMPT, START, CHILD_ASKS, "SessionEnd reason=logout"];
    let mut play = Play::after(&ended);
    let session = &play.session;
    assert_eq!(
        (session.ended_at, session.end_reason.as_deref()),
        (Some(40), Some("logout"))
    );
    assert_eq!(
        (play.child("a").as_str(), play.display().0),
        ("idle ended", Display::Done)
    );
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
        assert_eq!(
            (play.session.ended_at, &play.session.end_reason),
            (None, &None)
        );
    }
}

#[test]
fn an_end_that_is_older_than_a_new_start_ends_nothing() {
    let mut play = Play::after(&[PROMPT, "SessionStart source=resume"]);
    assert!(!play.at_time("SessionEnd reason=other", 15));
    assert_eq!(play.session.ended_at, None);
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
    assert_eq!(
        (&*third.line, third.prev_session_id.as_deref()),
        ("s", Some("s2"))
    );
    assert_eq!(
        (third.title.as_deref(), third.pane.as_deref()),
        (Some("mine"), Some("%3"))
    );
    assert_eq!(
        (third.cwd.as_deref(), third.model.as_deref()),
        (Some("/p"), Some("m"))
    );
    let mut fork = Session::new("f", 70);
    fork.continue_from(&third, Chain::Fork);
    assert_eq!(
        (&*fork.line, fork.prev_session_id.as_deref()),
        ("f", Some("s3"))
    );
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
    assert_eq!(
        (children.len(), play.session.live_children().count()),
        (200, 200)
    );
    assert!(children.contains_key("a"), "it asks something");
}

#[test]
fn what_is_too_long_is_cut_and_still_known_again() {
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

#[test]
fn a_name_is_as_long_as_a_path_at_the_most() {
    let mut session = Session::new("s", 1);
    assert!(session.name(Some("ü".repeat(1 << 20))));
    assert_eq!(session.title.map(|title| title.len()), Some(LONGEST));
}

#[test]
fn what_says_nothing_is_not_written() {
    let fields = |events: &[&str]| -> Vec<String> {
        let kept = serde_json::to_value(&Play::after(events).session).unwrap();
        let of = |part: &serde_json::Value| part.as_object().unwrap().keys().cloned().collect();
        let [session, main]: [Vec<String>; 2] = [of(&kept), of(&kept["main"])];
        session.into_iter().chain(main).collect()
    };
    assert_eq!(
        fields(&[]),
        "attended display_since last_activity line main session_id started_at since"
            .split(' ')
            .collect::<Vec<_>>()
    );
    let working = fields(&[PROMPT, START]);
    for told in ["children", "last_prompt", "shown", "status"] {
        assert!(working.iter().any(|field| field == told), "{told}");
    }
}
