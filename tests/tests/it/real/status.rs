//! The displayed state of sessions while the real Claude Code works.

mod agents;
mod ends;
mod figures;
mod permissions;
mod turns;
mod waiting;

use std::time::Duration;

use becket_tests::claude::SettingsScope;
use becket_tests::model::{gate, say};
use becket_tests::story::{Given, Person, Session, Story};
use serde_json::json;

/// The longest delay of a state that no event reports.
const SOON: Duration = Duration::from_secs(3);

/// Returns a test for the main agent's status, and for `inferred`: true if no event reported it.
fn is(status: &str, inferred: bool) -> impl Fn(&Session) -> bool {
    move |session| session.status() == status && session["inferred"] == inferred
}

fn is_done(session: &Session) -> bool {
    session.status() == "idle" && session.display() == "done"
}

/// Lets the project run Bash without a permission dialog.
fn allow_bash(given: Given) -> Given {
    given.settings(
        SettingsScope::Local,
        json!({"permissions": {"allow": ["Bash"]}}),
    )
}

/// Adds a prompt whose turn never ends by itself, for `start_thinking`.
fn endless_turn(given: Given) -> Given {
    given.on("think hard", [gate("thinking").then(say("never said"))])
}

/// Submits the prompt of `endless_turn`, and waits until the model is asked.
fn start_thinking(story: &Story, person: &Person<'_>) {
    person.submits("think hard");
    story.model.wait_at("thinking");
}

/// Waits until the model thinks about the answer to a question, then finishes the turn.
fn think_and_finish(story: &Story, person: &Person<'_>) {
    story.model.wait_at("word");
    let next = story.wait_session("at work", |session| session.display() == "working");
    assert_eq!(next.status(), "working(Thinking)");
    finish_turn(story, person);
}

/// Opens the gate `word` of the last turn, waits for its end and quits Claude Code.
fn finish_turn(story: &Story, person: &Person<'_>) {
    story.model.open("word");
    story.wait_session("done", is_done);
    person.leaves();
}
