//! Ends of turns and sessions: Esc, `/clear`, a fork, a killed process, a killed daemon.

use std::time::{Duration, Instant};

use becket_tests::model::{Turn, agent, bash, gate, say};
use becket_tests::skip::Unavailable;
use becket_tests::story::{Given, Person, Session, story};
use becket_tests::wait::{self, PATIENCE};
use serde_json::{Value, json};

use super::{SOON, allow_bash, endless_turn, finish_turn, is, is_done, start_thinking};

#[test]
fn clear_keeps_the_row_and_its_title() {
    story(|given| {
        let story = given
            .on("first thing", [say("one is done")])
            .on("second thing", [say("two is done")])
            .needs(&["CLAUDE_PID"])
            .begin()?;
        let person = story.person()?;

        person.submits("first thing");
        person.wait_text("one is done");
        let before = story.wait_session("done", |session| {
            is_done(session) && session["last_prompt"] == "first thing"
        });
        story.becket().run(&["name", before.id(), "the tide"]);
        person.ready();
        person.submits("/clear");
        let after = story.wait_session("new", |session| session.id() != before.id());
        assert_eq!(after["line"], before["line"]);
        assert_eq!(after["prev_session_id"], before.id());
        assert_eq!(after["title"], "the tide");
        assert_eq!(after["pid"], before["pid"]);
        assert_eq!(story.sessions().len(), 1, "one line");
        let old = story.session(before.id());
        assert_eq!(old["end_reason"], "clear");
        assert_eq!(old["inferred"], false);
        person.ready();
        person.submits("second thing");
        person.wait_text("two is done");
        story.wait_session("done", is_done);
        person.leaves();
        Ok(())
    });
}

#[test]
fn an_exited_session_is_history_until_it_is_resumed() {
    story(|given| {
        let story = given
            .on("first thing", [say("one is done")])
            .on("second thing", [gate("word").then(say("two"))])
            .needs(&["CLAUDE_CODE_SESSION_ATTENDED"])
            .begin()?;
        let person = story.person()?;
        person.submits("first thing");
        person.wait_text("one is done");
        let session = story.wait_session("done", is_done);
        person.leaves();
        assert!(story.sessions().is_empty());
        let left = story.session(session.id());
        assert_eq!(left["end_reason"], "prompt_input_exit");
        assert_eq!(
            (&left["inferred"], &left["alive"]),
            (&json!(false), &json!(false))
        );

        let run = story.print("second thing").resume(session.id()).start();
        story.model.wait_at("word");
        let again = story.wait_session("at work", |session| session.status() == "working");
        assert_eq!(again.id(), session.id());
        assert_eq!(again["started_at"], session["started_at"]);
        assert_eq!(
            (&again["attended"], &again["ended_at"]),
            (&json!(false), &Value::Null)
        );
        assert_eq!(again["pid"], run.pid());
        story.model.open("word");
        run.finish().succeeded();
        assert!(story.sessions().is_empty());
        Ok(())
    });
}

#[test]
fn a_fork_continues_from_its_parent() {
    story(|given| {
        let story = given
            .on("first thing", [say("one")])
            .on("second thing", [say("two is done")])
            .since("2.1.260", "word that a session is a fork")
            .begin()?;

        let first = story.print("first thing").run().succeeded().session();
        let person = story.person_with(&["--resume", &first, "--fork-session"])?;
        person.submits("second thing");
        person.wait_text("two is done");
        let fork = story.wait_session("done", |session| {
            is_done(session) && session["last_prompt"] == "second thing"
        });
        assert_ne!(fork.id(), first);
        assert_eq!(fork["prev_session_id"], first);
        assert_ne!(fork["line"], story.session(&first)["line"]);
        person.leaves();
        Ok(())
    });
}

#[test]
fn a_killed_claude_ends_its_session() {
    story(|given| {
        let story = endless_turn(given).needs(&["CLAUDE_PID"]).begin()?;
        let person = story.person()?;

        start_thinking(&story, &person);
        let session = story.wait_session("at work", |session| session.status() == "working");
        assert_eq!(session["pid"], person.pid());
        assert_eq!(session["tmux_pane"], "%0");
        assert_eq!(
            session["tmux_socket"],
            person.socket().display().to_string()
        );
        let ending = story.waits(session.id(), "end");
        let killed = Instant::now();
        person.kill();
        let (ended, _) = ending.wait();
        let took = killed.elapsed();
        println!("ended {took:.1?} after the kill");
        assert!(took < Duration::from_secs(5), "{took:?}");
        assert!(story.sessions().is_empty());
        let listed = story.wait_any_session("ended", |one| one.id() == session.id());
        for one in [ended, listed] {
            assert!(!one["ended_at"].is_null());
            assert_eq!(one["end_reason"], "process_gone");
            assert_eq!(
                (&one["inferred"], &one["alive"]),
                (&json!(true), &json!(false))
            );
            assert_eq!(one.status(), "idle");
        }
        Ok(())
    });
}

#[test]
fn a_claude_killed_without_a_daemon_is_gone() {
    story(|given| {
        let story = endless_turn(given).needs(&["CLAUDE_PID"]).begin()?;
        let person = story.person()?;

        start_thinking(&story, &person);
        let session = story.wait_session("at work", |session| session.status() == "working");
        story.becket().kill_daemon();
        person.kill();
        let killed = Instant::now();
        let gone = wait::until(PATIENCE, || story.sessions().is_empty().then_some(()));
        let took = killed.elapsed();
        println!("ended {took:.1?} after the kill");
        assert!(gone.is_some() && took < Duration::from_secs(5), "{took:?}");
        assert_eq!(story.session(session.id())["end_reason"], "process_gone");
        Ok(())
    });
}

/// Returns the fields that a user sees, without changing times.
fn seen(session: &Session) -> Value {
    let mut seen = session.0.clone();
    // Figures are read from the transcript and written once a second.
    let figures = ["context_pct", "context_size", "context_tokens", "cost_usd"];
    // A killed daemon holds no question any more: only the terminal can answer it.
    for field in figures.into_iter().chain(["last_activity", "question"]) {
        seen[field] = Value::Null;
    }
    seen
}

#[test]
fn a_killed_daemon_changes_no_displayed_session() {
    story(|given| {
        let story = given
            .on(
                "touch it",
                [bash("touch made.txt"), gate("word").then(say("made"))],
            )
            .begin()?;
        let person = story.person()?;

        person.submits("touch it");
        let before = story.wait_session("waiting", |session| session.display() == "attention");
        let pid = story.becket().daemon_pid();
        story.becket().kill_daemon();
        let after = story.wait_session("there", |_| true);
        assert_ne!(story.becket().daemon_pid(), pid);
        assert_eq!(seen(&after), seen(&before));

        // The session goes on with the next prompt.
        person.chooses(1);
        story.model.wait_at("word");
        story.becket().kill_daemon();
        let working = story.wait_session("at work", |session| session.display() == "working");
        assert_eq!(working.id(), before.id());
        finish_turn(&story, &person);
        Ok(())
    });
}

#[test]
fn a_claude_without_beckets_hooks_is_listed_as_unhooked() {
    story(|given| {
        let story = given.on("first thing", [say("one is done")]).begin()?;
        let person = story.person_with(&["--settings", r#"{"disableAllHooks": true}"#])?;

        let found = story.wait_any_session("there", |session| session["pid"] == person.pid());
        assert_eq!(
            (&found["hooked"], &found["alive"]),
            (&json!(false), &json!(true))
        );
        assert!(found["status"].is_null() && found["session_id"].is_null());
        assert_eq!(found["cwd"], story.home.project().display().to_string());
        assert!(story.sessions().is_empty());
        person.leaves();
        assert!(
            story
                .all_sessions()
                .iter()
                .all(|session| session["pid"] != person.pid()),
            "still there"
        );
        Ok(())
    });
}

/// Interrupts one turn once `under_way` returns, and runs another one after it. Returns the session as it
/// was after the interrupt.
fn interrupt_turn(
    given: Given,
    turn: Turn,
    under_way: impl Fn(&Person<'_>),
) -> Result<Session, Unavailable> {
    let story = allow_bash(given)
        .on("work hard", [turn, say("never said")])
        .on("never mind", [gate("word").then(say("all right"))])
        .begin()?;
    let person = story.person()?;

    person.submits("work hard");
    under_way(&person);
    let pressed = Instant::now();
    person.interrupts();
    let session = story.wait_session_within((pressed, SOON), "idle", |session| {
        session.status() == "idle"
    });
    assert_eq!(session.display(), "done");
    assert_eq!(session["interrupted"], true);
    assert_eq!(session["inferred"], true);
    // The call has no end event either: Claude Code runs no hook of an interrupted turn, though the payload
    // has a field `is_interrupt`.
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
fn esc_before_the_first_word_is_noticed() {
    story(|given| {
        let turn = gate("thinking").then(say("never said"));
        // Only Claude Code's session file shows it, and that is found by its process.
        interrupt_turn(given.needs(&["CLAUDE_PID"]), turn, |person| {
            person.story().model.wait_at("thinking");
        })?;
        Ok(())
    });
}

#[test]
fn esc_during_a_reply_is_noticed() {
    story(|given| {
        let turn = say("the first words of many\n\nand more").halfway("more");
        interrupt_turn(given, turn, |person| {
            person.wait_text("the first words of many");
        })?;
        Ok(())
    });
}

#[test]
fn esc_during_a_command_is_noticed() {
    story(|given| {
        let turn = bash("until [ -e go ]; do sleep 0.1; done");
        interrupt_turn(given, turn, |person| {
            person
                .story()
                .wait_session("at work", is("working(Bash)", false));
        })?;
        Ok(())
    });
}

#[test]
fn esc_during_a_subagent_ends_the_subagent() {
    story(|given| {
        let given = given
            .on("count the sheep", [gate("child").then(say("three"))])
            .env("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS", "1");
        let turn = agent("general-purpose", "count the sheep");
        let session = interrupt_turn(given, turn, |person| {
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
