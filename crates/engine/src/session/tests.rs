mod recorded;
mod telling;

use becket_wire::EventId;
use becket_wire::session::Display;
use proptest::prelude::*;

use super::*;
use crate::notice::Change;
use crate::session::Inference;
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

impl Play {
    /// Has the last event judged.
    fn is_judged(&mut self, agent: Option<&str>) -> EventId {
        let stop = EventId::new(self.at, [0; 2]);
        assert!(self.session.stop_judged(agent, stop, self.at));
        stop
    }

    fn both(&self) -> (String, String) {
        (self.main(), self.child("a"))
    }
}

fn words(main: &str, child: &str) -> (String, String) {
    (main.to_owned(), child.to_owned())
}

#[test]
fn a_subagent_works_until_it_is_let_stop() {
    let mut play = Play::after(&[PROMPT, START, STOP]);
    assert_eq!(play.both(), words("working(Thinking)", "idle ended"));
    let stop = play.is_judged(Some("a"));
    let works = words("working(Explore)", "working(Thinking)");
    assert_eq!(play.both(), works);
    assert!(!play.session.stop_let_through(EventId::new(7, [0; 2]), 30));
    assert_eq!(play.both(), works, "another was let through");
    assert!(play.session.stop_let_through(stop, 30));
    assert_eq!(play.both(), words("working(Thinking)", "idle ended"));
    assert!(!play.session.stop_let_through(stop, 30), "once");
}

#[test]
fn a_subagent_that_went_on_is_not_stopped_by_what_comes_late() {
    let mut play = Play::after(&[PROMPT, START, STOP]);
    let stop = play.is_judged(Some("a"));
    play.then("PreToolUse agent_id=a agent_type=Explore tool_name=Grep");
    assert!(!play.session.stop_let_through(stop, 30));
    assert_eq!(play.child("a"), "working(Grep)");
}

#[test]
fn a_subagent_in_the_background_keeps_its_session_at_work() {
    let mut play = Play::after(&[PROMPT, START]);
    play.then("Stop background_tasks=[{\"id\":\"a\"}]");
    play.then(STOP);
    let stop = play.is_judged(Some("a"));
    assert_eq!(play.both(), words("idle", "working(Thinking)"));
    assert_eq!(play.display().0, Display::Working);
    assert!(play.session.stop_let_through(stop, play.at));
    assert_eq!(play.display().0, Display::Done);
}

#[test]
fn the_main_agent_is_let_stop_whatever_its_subagents_did_meanwhile() {
    let mut play = Play::after(&[PROMPT, START]);
    play.then("Stop background_tasks=[{\"id\":\"a\"}]");
    let stop = play.is_judged(None);
    play.then(STOP);
    assert_eq!(play.main(), "working(Thinking)");
    assert!(play.session.stop_let_through(stop, 30));
    assert_eq!(play.both(), words("idle", "idle ended"));
}

#[test]
fn what_is_judged_outlives_a_daemon_and_no_prompt() {
    let mut play = Play::after(&[PROMPT, "Stop"]);
    let stop = play.is_judged(None);
    let kept = serde_json::to_string(&play.session).unwrap();
    play.session = serde_json::from_str(&kept).unwrap();
    let mut prompted = Play {
        session: play.session.clone(),
        ..play
    };
    assert!(play.session.stop_let_through(stop, 20));
    assert_eq!(
        (play.main().as_str(), play.display().0),
        ("idle", Display::Done)
    );
    prompted.then(PROMPT);
    assert!(!prompted.session.stop_let_through(stop, 20));
    assert_eq!(prompted.main(), "working");
}

#[test]
fn whoever_wanted_to_stop_and_rests_was_not_interrupted() {
    let mut play = Play::after(&[PROMPT, "Stop"]);
    let mut works = Play::after(&[PROMPT]);
    let stop = play.is_judged(None);
    for (play, by_person) in [(&mut play, false), (&mut works, true)] {
        let (before, at) = (play.session.shown(), play.at + 5);
        assert!(play.session.infer(&Inference::Interrupted, at));
        assert_eq!(play.main(), "idle");
        assert_eq!(play.session.main.interrupted, by_person);
        let change = Change::of(before, &play.session, at).unwrap();
        let told = (change.before, change.after, change.by_person);
        assert_eq!(told, (Display::Working, Display::Done, by_person));
    }
    assert!(!play.session.stop_let_through(stop, play.at), "it is known");
    assert_eq!(play.display().0, Display::Done);
}

#[test]
fn what_is_asked_while_a_stop_is_judged_stays_asked() {
    for ask in [
        "Elicitation mcp_server_name=db",
        "PermissionRequest tool_name=Bash",
    ] {
        let mut play = Play::after(&[PROMPT, "Stop"]);
        let (stop, stopped) = (play.is_judged(None), play.at);
        play.then(ask);
        let asked = play.main();
        assert!(asked.starts_with("attention"), "{asked}");
        play.session.stop_let_through(stop, stopped);
        assert_eq!(play.main(), asked);
        assert_eq!(play.display().0, Display::Attention);
    }
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
    fn whoever_waits_is_named(events in events(), look in any::<bool>()) {
        let mut play = Play::new();
        for (event, at) in events {
            play.at_time(&event, at);
            if look {
                play.session.seen(at);
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
    fn what_is_older_moves_nobody(events in events(), late in event()) {
        // Of whom nothing was heard, nothing is older.
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
    fn what_a_person_can_see_is_told(events in events()) {
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
