//! Esc in the middle of a turn, of which no event tells.

use std::time::Instant;

use becket_tests::claude::Scope;
use becket_tests::model::{Turn, agent, bash, gate, say};
use becket_tests::skip::Unavailable;
use becket_tests::story::{Given, Person, Session, story};
use serde_json::json;

use super::permissions::SOON;
use super::{is, is_done};

/// One turn that is broken off once `under_way`. The next prompt makes that forgotten. Gives the
/// session as it was after the interrupt.
fn break_off(
    given: Given,
    turn: Turn,
    under_way: impl Fn(&Person<'_>),
) -> Result<Session, Unavailable> {
    let story = given
        .on("work hard", [turn, say("never said")])
        .on("never mind", [gate("word").then(say("all right"))])
        .settings(Scope::Local, json!({"permissions": {"allow": ["Bash"]}}))
        .begin()?;
    let person = story.person()?;

    person.submits("work hard");
    under_way(&person);
    let pressed = Instant::now();
    person.interrupts();
    let session = story.soon((pressed, SOON), "idle", |session| {
        session.status() == "idle"
    });
    assert_eq!(session.display(), "done");
    assert_eq!(session["interrupted"], true);
    assert_eq!(session["inferred"], true);
    // Nor has any call an end: the program runs no hook of a turn that was broken off, though the
    // payload has `is_interrupt` for it.
    story.events().none_of("Stop");
    story.events().none_of("PostToolUseFailure");

    person.submits("never mind");
    story.model.wait_at("word");
    let next = story.wait_session("at work", is("working", false));
    assert_eq!(next["interrupted"], false);
    story.model.open("word");
    let done = story.wait_session("done", is_done);
    assert_eq!(
        (&done["interrupted"], &done["inferred"]),
        (&json!(false), &json!(false))
    );
    person.leaves();
    Ok(session)
}

#[test]
fn esc_before_the_first_word_is_seen() {
    story(|given| {
        let turn = gate("thinking").then(say("never said"));
        // Only Claude Code's own word tells, and that is found by its process.
        break_off(given.needs(&["CLAUDE_PID"]), turn, |person| {
            person.story().model.wait_at("thinking");
        })?;
        Ok(())
    });
}

#[test]
fn esc_in_the_middle_of_the_words_is_seen() {
    story(|given| {
        let turn = say("the first words of many\n\nand more").halfway("more");
        break_off(given, turn, |person| {
            person.wait_text("the first words of many");
        })?;
        Ok(())
    });
}

#[test]
fn esc_while_a_command_runs_is_seen() {
    story(|given| {
        let turn = bash("until [ -e go ]; do sleep 0.1; done");
        break_off(given, turn, |person| {
            person
                .story()
                .wait_session("at work", is("working(Bash)", false));
        })?;
        Ok(())
    });
}

#[test]
fn esc_while_a_subagent_works_ends_it_too() {
    story(|given| {
        let given = given
            .on("count the sheep", [gate("child").then(say("three"))])
            .env("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS", "1");
        let turn = agent("general-purpose", "count the sheep");
        let session = break_off(given, turn, |person| {
            person.story().model.wait_at("child");
            person.story().wait_session("with a child", |session| {
                session
                    .agents()
                    .iter()
                    .any(|agent| agent.status() == "working")
            });
        })?;
        let agents = session.agents();
        assert_eq!(agents.len(), 1, "{agents:?}");
        assert!(!agents[0]["ended_at"].is_null(), "{agents:?}");
        Ok(())
    });
}
