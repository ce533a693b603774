//! Context and cost: from the status line at the terminal, from the transcript where there is none.

use becket_tests::model::{bash, gate, say};
use becket_tests::story::{Becket, Hook, story};
use serde_json::json;

use super::is_done;

#[test]
fn the_status_line_brings_context_and_cost() {
    story(|given| {
        let story = given
            .on("hello", [say("hello yourself").usage(50_000, 500)])
            .registered(Becket::default().init(&["--statusline"]))
            .begin()?;
        let person = story.person()?;

        person.submits("hello");
        person.wait_text("hello yourself");
        let session = story.wait_session("reckoned", |session| {
            is_done(session) && session["context_pct"].as_f64() > Some(0.0)
        });
        let size = session["context_size"].as_f64().expect("a size");
        let share = session["context_pct"].as_f64().expect("a share");
        // The program itself says whole percents.
        assert!((share - 5_000_000.0 / size).abs() <= 1.0, "{session:?}");
        assert!(session["cost_usd"].as_f64() > Some(0.0), "{session:?}");
        assert!(session["duration_ms"].is_u64(), "{session:?}");
        person.leaves();
        Ok(())
    });
}

#[test]
fn where_nobody_attends_nobody_is_waited_for_and_the_transcript_tells_the_cost() {
    story(|given| {
        let story = given
            .on(
                "touch it",
                [
                    bash("touch made.txt").usage(40_000, 400),
                    gate("word").then(say("could not").usage(60_000, 600)),
                ],
            )
            .hook(Hook::on("PermissionRequest").held("ask"))
            .since("2.1.325", "a permission that is asked for in print mode")
            .begin()?;

        let run = story.print("touch it").start();
        story.wait_event("PermissionRequest");
        let asked = story.wait_session("there", |session| session.display() != "done");
        assert_eq!(asked["attended"], false);
        assert_eq!(
            (asked.display(), asked.status().as_str()),
            ("working", "working(Bash)")
        );
        story.let_go("ask");
        story.model.wait_at("word");
        let next = story.wait_session("at work", |session| session.status() == "working(Thinking)");
        assert!(next["waiting_for"].is_null());
        story.model.open("word");
        let run = run.finish();
        let result = run.succeeded().result();

        let session = story.wait_any_session("reckoned", |session| {
            session.id() == run.session()
                && session["ended_at"].is_string()
                && session["context_tokens"] == 60_000
        });
        assert_eq!(session["end_reason"], "other");
        let size = session["context_size"].as_f64().expect("a size");
        assert_eq!(session["context_pct"], json!(6_000_000.0 / size));
        let cost = session["cost_usd"].as_f64().expect("a cost");
        let said = result["total_cost_usd"]
            .as_f64()
            .expect("the program's own cost");
        println!("{cost} by becket, {said} by the program");
        assert!((cost - said).abs() < 1e-6, "{cost} is not {said}");
        Ok(())
    });
}
