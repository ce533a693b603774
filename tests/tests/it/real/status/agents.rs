//! Subagents as children of a session.

use std::time::Instant;

use becket_tests::model::{agent, bash, behind, gate, say};
use becket_tests::skip::Unavailable;
use becket_tests::story::{Given, Session, story};

use super::{SOON, is, is_done};

fn only_agent(session: &Session) -> Option<Session> {
    let mut agents = session.agents();
    (agents.len() == 1).then(|| agents.remove(0))
}

fn child_is(status: &'static str) -> impl Fn(&Session) -> bool {
    move |session| only_agent(session).is_some_and(|agent| agent.status() == status)
}

#[test]
fn a_subagent_starts_works_and_ends() {
    story(|given| {
        let story = given
            .on(
                "delegate",
                [
                    agent("general-purpose", "count the sheep"),
                    gate("after").then(say("delegated")),
                ],
            )
            .on(
                "count the sheep",
                [
                    gate("first").then(bash("echo three sheep")),
                    gate("last").then(say("three")),
                ],
            )
            .env("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS", "1")
            .begin()?;
        let person = story.person()?;

        person.submits("delegate");
        story.model.wait_at("first");
        let begun = story.wait_session("with a child", child_is("working"));
        assert_eq!(begun.status(), "working(general-purpose)");
        let child = only_agent(&begun).expect("a child");
        assert_eq!(child["agent_type"], "general-purpose");
        assert!(child["ended_at"].is_null());
        story.model.open("first");
        story.model.wait_at("last");
        let at_it = story.wait_session("with a child at it", child_is("working(Thinking)"));
        assert_eq!(at_it.status(), "working(general-purpose)");
        story.model.open("last");
        story.model.wait_at("after");
        let back = story.wait_session("without a child", child_is("idle"));
        assert_eq!(back.status(), "working(Thinking)");
        let child = only_agent(&back).expect("a child");
        assert!(!child["ended_at"].is_null());
        assert!(!child["transcript_path"].is_null(), "{child:?}");
        story.model.open("after");
        story.wait_session("done", is_done);
        person.leaves();
        Ok(())
    });
}

#[test]
fn a_background_subagent_asks_after_the_turn_of_its_parent() {
    story(|given| {
        let story = given
            .on(
                "send it off",
                [behind("general-purpose", "touch the sheep"), say("sent")],
            )
            .on(
                "touch the sheep",
                [
                    gate("child").then(bash("touch sheep.txt")),
                    gate("last").then(say("touched")),
                ],
            )
            .on("task-notification", [say("it is back")])
            .since("2.1.197", "question of a subagent that works behind")
            .begin()?;
        let person = story.person()?;

        person.submits("send it off");
        story.model.wait_at("child");
        story.wait_event("Stop");
        let alone = story.wait_session("idle with a child", |session| {
            session.status() == "idle" && child_is("working")(session)
        });
        assert_eq!(alone.display(), "working");
        assert_eq!(alone["background_tasks"], 1);

        let waiting = story.waits(alone.id(), "attention");
        story.model.open("child");
        let (asks, _) = waiting.wait();
        let child = only_agent(&asks).expect("a child");
        assert_eq!(asks.status(), "idle");
        assert_eq!(asks.display(), "attention");
        assert_eq!(asks["waiting_for"], child["agent_id"]);
        assert_eq!(asks["waiting_reason"], "Permission for Bash");
        assert_eq!(child.status(), "attention(Permission for Bash)");

        person.chooses(1);
        story.model.wait_at("last");
        let on = story.wait_session("at work", child_is("working(Thinking)"));
        assert_eq!((on.status().as_str(), on.display()), ("idle", "working"));
        story.model.open("last");
        person.wait_text("it is back");
        let done = story.wait_session("done", |session| {
            is_done(session) && is("idle", false)(session)
        });
        assert_eq!(done["background_tasks"], 0);
        person.leaves();
        Ok(())
    });
}

/// Runs a subagent that asks for a permission and gets an answer. The call then runs until the test
/// releases it.
fn run_asking_subagent(given: Given, front: bool, yes: bool) -> Result<(), Unavailable> {
    let run = bash("touch sheep.txt; until [ -e go ]; do sleep 0.1; done");
    let (send, only_front) = if front {
        (agent("general-purpose", "touch the sheep"), "1")
    } else {
        (behind("general-purpose", "touch the sheep"), "0")
    };
    let story = given
        .on("send it off", [send, say("sent")])
        .on("touch the sheep", [run, gate("last").then(say("touched"))])
        .on("task-notification", [say("it is back")])
        .env("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS", only_front)
        .needs(&["CLAUDE_PID"])
        .begin()?;
    let person = story.person()?;

    person.submits("send it off");
    let asks = story.wait_session("asked", child_is("attention(Permission for Bash)"));
    let child = only_agent(&asks).expect("a child");
    assert_eq!(asks.display(), "attention");
    assert_eq!(asks["waiting_for"], child["agent_id"]);
    if yes {
        person.chooses(1);
    } else {
        person.refuses();
    }
    let answered = Instant::now();
    let status = if yes {
        "working(Bash)"
    } else {
        "working(Thinking)"
    };
    let on = story.wait_session_within((answered, SOON), "at work", child_is(status));
    assert_eq!(on.display(), "working");
    assert!(on["waiting_for"].is_null());
    story.home.file("go", "");
    story.model.open("last");
    person.wait_text(if front { "sent" } else { "it is back" });
    let done = story.wait_session("done", is_done);
    assert!(
        done.agents()
            .iter()
            .all(|child| child["ended_at"].is_string())
    );
    person.leaves();
    Ok(())
}

#[test]
fn a_foreground_subagent_works_on_when_allowed() {
    story(|given| run_asking_subagent(given, true, true));
}

#[test]
fn a_foreground_subagent_works_on_when_refused() {
    story(|given| run_asking_subagent(given, true, false));
}

#[test]
fn a_background_subagent_works_on_when_allowed() {
    story(|given| run_asking_subagent(given, false, true));
}

#[test]
fn a_background_subagent_works_on_when_refused() {
    story(|given| run_asking_subagent(given, false, false));
}
