//! How sessions end and go on: `/clear`, a fork, a killed process, a killed daemon.

use std::time::{Duration, Instant};

use becket_tests::model::{bash, gate, say};
use becket_tests::story::{Session, story};
use becket_tests::wait::{self, PATIENCE};
use serde_json::{Value, json};

use super::is_done;

#[test]
fn clear_keeps_the_line_and_its_title() {
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
fn a_session_that_was_left_is_history_until_it_is_resumed() {
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
fn a_fork_goes_on_from_its_parent() {
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
        let story = given
            .on("think hard", [gate("thinking").then(say("never said"))])
            .needs(&["CLAUDE_PID"])
            .begin()?;
        let person = story.person()?;

        person.submits("think hard");
        story.model.wait_at("thinking");
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
        let (ended, _) = ending.came_back();
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
fn a_claude_that_was_killed_while_no_daemon_was_there_is_gone() {
    story(|given| {
        let story = given
            .on("think hard", [gate("thinking").then(say("never said"))])
            .needs(&["CLAUDE_PID"])
            .begin()?;
        let person = story.person()?;

        person.submits("think hard");
        story.model.wait_at("thinking");
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

/// What a person sees, without the times that move.
fn seen(session: &Session) -> Value {
    let mut seen = session.0.clone();
    seen["last_activity"] = Value::Null;
    seen
}

#[test]
fn a_killed_daemon_changes_nothing_that_is_seen() {
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

        // And it goes on with the next one as if nothing had been.
        person.chooses(1);
        story.model.wait_at("word");
        story.becket().kill_daemon();
        let working = story.wait_session("at work", |session| session.display() == "working");
        assert_eq!(working.id(), before.id());
        story.model.open("word");
        story.wait_session("done", is_done);
        person.leaves();
        Ok(())
    });
}

#[test]
fn a_claude_without_our_hooks_is_seen_as_that() {
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
