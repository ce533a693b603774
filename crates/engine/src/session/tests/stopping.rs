//! Agents that want to stop while hooks judge whether they may.

use becket_wire::EventId;
use becket_wire::session::Display;

use super::{PROMPT, Play, START, STOP};
use crate::notice::Change;
use crate::session::Inference;

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
