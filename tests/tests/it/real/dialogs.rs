//! A person at the interactive program: dialogs, Esc, `/clear`, compaction, leaving.

use becket_tests::model::{bash, gate, say};
use becket_tests::story::story;

#[test]
fn a_dialog_that_is_answered_lets_the_call_run() {
    story(|given| {
        let story = given
            .on("touch it", [bash("touch made.txt"), say("it is made")])
            .begin()?;
        let person = story.person()?;

        person.submits("touch it");
        person.chooses(1);
        person.wait_text("it is made");
        story.wait_event("Stop");
        person.leaves();

        assert!(story.home.project().join("made.txt").exists());
        let events = story.events();
        events.in_order(&story.known(&[
            "SessionStart",
            "UserPromptSubmit",
            "PreToolUse",
            "PermissionRequest",
            "PostToolUse",
            "PostToolBatch",
            "Stop",
            "SessionEnd",
        ]));
        assert_eq!(events.only("SessionEnd")["reason"], "prompt_input_exit");
        Ok(())
    });
}

#[test]
fn a_dialog_that_is_refused_ends_the_turn_without_a_word() {
    story(|given| {
        let story = given
            .on("touch it", [bash("touch made.txt"), say("it is made")])
            .on("never mind", [say("all right")])
            .begin()?;
        let person = story.person()?;

        person.submits("touch it");
        story.wait_event("PermissionRequest");
        person.refuses();
        person.submits("never mind");
        person.wait_text("all right");
        person.leaves();

        assert!(!story.home.project().join("made.txt").exists());
        let names = story.events();
        names.in_order(&[
            "PermissionRequest",
            "UserPromptSubmit",
            "Stop",
            "SessionEnd",
        ]);
        assert_eq!(names.of("Stop").len(), 1, "{:?}", names.names());
        names.none_of("PostToolUse");
        Ok(())
    });
}

#[test]
fn a_turn_that_is_interrupted_has_no_stop() {
    story(|given| {
        let story = given
            .on("think hard", [gate("thinking").then(say("never said"))])
            .on("never mind", [say("all right")])
            .begin()?;
        let person = story.person()?;

        person.submits("think hard");
        story.model.wait_at("thinking");
        person.interrupts();
        person.submits("never mind");
        person.wait_text("all right");
        person.leaves();

        let events = story.events();
        assert_eq!(
            events.of("UserPromptSubmit").len(),
            2,
            "{:?}",
            events.names()
        );
        assert_eq!(events.of("Stop").len(), 1, "{:?}", events.names());
        events.none_of("StopFailure");
        Ok(())
    });
}

#[test]
fn clear_ends_the_session_and_begins_another() {
    story(|given| {
        let story = given
            .on("first thing", [say("one is done")])
            .on("second thing", [say("two is done")])
            .begin()?;
        let person = story.person()?;

        person.submits("first thing");
        person.wait_text("one is done");
        story.wait_event("Stop");
        person.submits("/clear");
        story.wait_events("two starts", |events| {
            (events.of("SessionStart").len() == 2).then_some(())
        });
        person.ready();
        person.submits("second thing");
        person.wait_text("two is done");
        person.leaves();

        let events = story.events_of("recorder");
        let (ends, starts) = (events.of("SessionEnd"), events.of("SessionStart"));
        assert_eq!(
            (ends[0].text("reason"), starts[1].text("source")),
            ("clear", "clear")
        );
        assert_eq!(ends[0]["session_id"], starts[0]["session_id"]);
        assert_ne!(ends[0]["session_id"], starts[1]["session_id"]);
        assert!(!story.model.turns()[1].contains("first thing"));
        Ok(())
    });
}

#[test]
fn the_environment_tells_of_the_program_and_the_person() {
    story(|given| {
        let story = given
            .needs(&["CLAUDE_PID", "CLAUDE_CODE_SESSION_ATTENDED"])
            .begin()?;
        let person = story.person()?;

        person.submits("/clear");
        story.wait_events("two starts", |events| {
            (events.of("SessionStart").len() == 2).then_some(())
        });
        person.ready();
        person.leaves();

        let events = story.events_of("recorder");
        let starts = events.of("SessionStart");
        assert_eq!(starts[0].env["CLAUDE_PID"], starts[1].env["CLAUDE_PID"]);
        assert_eq!(starts[0].env["CLAUDE_CODE_SESSION_ATTENDED"], "1");
        Ok(())
    });
}

#[test]
fn compaction_by_hand_opens_a_window_of_the_same_session() {
    story(|given| {
        let story = given
            .on("first thing", [bash("echo one"), say("one is done")])
            .on("second thing", [say("two is done")])
            .script(|script| script.summary("They did one thing."))
            .begin()?;
        let person = story.person()?;

        person.submits("first thing");
        person.wait_text("one is done");
        story.wait_event("Stop");
        person.submits("/compact");
        story.wait_event("PostCompact");
        story.wait_events("a compact start", |events| {
            (events.of("SessionStart").len() == 2).then_some(())
        });
        person.ready();
        person.submits("second thing");
        person.wait_text("two is done");
        person.leaves();

        let events = story.events();
        events.in_order(&["PreCompact", "SessionStart", "UserPromptSubmit", "Stop"]);
        let starts = events.of("SessionStart");
        assert_eq!(starts[1]["source"], "compact");
        assert_eq!(starts[0]["session_id"], starts[1]["session_id"]);
        let last = story.model.turns().pop();
        assert!(last.is_some_and(|last| last.contains("They did one thing.")));
        Ok(())
    });
}
