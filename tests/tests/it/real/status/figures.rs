//! Context, cost and turns: from the status line at the terminal, else from the transcript.

use becket_tests::claude::SettingsScope;
use becket_tests::model::{bash, gate, say};
use becket_tests::story::{Becket, Hook, Person, story};
use becket_tests::wait::{self, PATIENCE};
use serde_json::{Value, json};

use super::is_done;

#[test]
fn the_status_line_supplies_context_and_cost() {
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
        // Claude Code reports whole percents.
        assert!((share - 5_000_000.0 / size).abs() <= 1.0, "{session:?}");
        assert!(session["cost_usd"].as_f64() > Some(0.0), "{session:?}");
        assert!(session["duration_ms"].is_u64(), "{session:?}");
        person.leaves();
        Ok(())
    });
}

#[test]
fn an_unattended_session_waits_for_no_user_and_its_transcript_has_the_cost() {
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
        story.release("ask");
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

#[test]
fn show_lists_the_turns_of_a_session_with_cost_and_tokens() {
    story(|given| {
        let story = given
            .on(
                "first thing",
                [
                    bash("echo one").usage(40_000, 400),
                    say("one").usage(41_000, 100),
                ],
            )
            .on("second thing", [say("two").usage(50_000, 200)])
            .registered(Becket::default())
            .begin()?;

        let cost = |run: &Value| run["total_cost_usd"].as_f64().expect("a cost");
        let is = |turn: &Value, expected: f64| {
            let cost = turn["cost_usd"].as_f64();
            cost.is_some_and(|cost| (cost - expected).abs() < 1e-6)
        };
        let wait_turns = |id: &str, output: [u64; 2], costs: [f64; 2]| {
            let told = || story.session(id)["turns"].clone();
            let turns = wait::until(PATIENCE, || {
                let turns = told();
                let known = turns.as_array()?.iter().zip(costs).zip(output);
                let mut known = known.map(|((turn, cost), output)| {
                    is(turn, cost) && turn["output_tokens"] == output
                });
                known.all(|known| known).then_some(turns)
            });
            turns.unwrap_or_else(|| panic!("{costs:?}: {:#}", told()))
        };
        let first = story.print("first thing").run();
        let id = first.succeeded().session();
        let before = cost(&first.result());
        wait_turns(&id, [500, 0], [before, 0.0]);
        let second = story.print("second thing").resume(&id).run();
        let mut after = cost(&second.succeeded().result());
        if !story.claude.is_at_least("2.1.325") {
            // They count from the resume on.
            after += before;
        }
        let turns = wait_turns(&id, [500, 200], [before, after - before]);
        assert_eq!(turns[0]["prompt"], "first thing");
        assert_eq!(turns[0]["tools"], json!([{"tool": "Bash", "calls": 1}]));
        assert_eq!(turns[0]["input_tokens"], 81_000);
        assert_eq!(turns[0]["output_tokens"], 500);
        assert_eq!(turns[1]["input_tokens"], 50_000);

        let sums = story.becket().run(&["stats", "--by", "project", "--json"]);
        let sums: Value = serde_json::from_str(&sums).expect("JSON");
        assert!(is(&sums[0], after), "{sums}");
        assert_eq!(sums[0]["turns"], 2);
        let faults = story.becket().events();
        let faults: Vec<_> = faults
            .iter()
            .filter_map(|event| event.get("fault"))
            .collect();
        assert!(faults.is_empty(), "{faults:?}");
        Ok(())
    });
}

#[test]
fn at_a_terminal_the_tokens_of_the_last_reply_count_too() {
    story(|given| {
        let story = given
            .on("hello", [say("hello yourself").usage(50_000, 500)])
            .registered(Becket::default().init(&["--statusline"]))
            .begin()?;
        let person = story.person()?;
        person.submits("hello");
        person.wait_text("hello yourself");
        let session = story.wait_session("done", is_done);
        let turn = wait::until(PATIENCE, || {
            let turn = story.session(session.id())["turns"][0].clone();
            let known = turn["cost_usd"].as_f64() > Some(0.0) && turn["output_tokens"] == 500;
            known.then_some(turn)
        });
        let turn = turn.unwrap_or_else(|| panic!("{:#}", story.session(session.id()).0));
        assert_eq!(turn["input_tokens"], 50_000);
        person.leaves();
        Ok(())
    });
}

/// Waits until the status line shows this cost of Claude Code. becket has stored it by then, because its
/// line is printed together with that one.
#[track_caller]
fn wait_told(person: &Person<'_>, cost: f64) {
    person.wait_for("its own cost", |screen| {
        let told = screen.0.split("told: ").skip(1);
        let mut told = told.filter_map(|rest| rest.split_whitespace().next()?.parse::<f64>().ok());
        told.any(|told| (told - cost).abs() < 1e-6)
    });
}

/// Claude Code's own figure falls: after a SIGKILL it continues from the total of its last orderly end.
#[test]
fn the_cost_of_a_session_never_falls() {
    story(|given| {
        let answer = |text: &str| [say(text).usage(50_000, 500)];
        let story = given
            .on("first thing", answer("one is done"))
            .on("second thing", answer("two is done"))
            .on("third thing", answer("three is done"))
            .settings(
                SettingsScope::User,
                json!({"statusLine": {"type": "command", "command": "jq -r '\"told: \\(.cost.total_cost_usd)\"'"}}),
            )
            .registered(Becket::default().init(&["--statusline"]))
            .since("2.1.325", "total that is restored")
            .begin()?;
        let costs = |at_least: f64| {
            let session = story.wait_session("priced", |session| {
                is_done(session) && session["cost_usd"].as_f64() >= Some(at_least)
            });
            let cost = session["cost_usd"].as_f64().expect("a cost");
            (session.id().to_owned(), cost)
        };

        let person = story.person()?;
        person.submits("first thing");
        person.wait_text("one is done");
        let (id, one) = costs(0.01);
        person.leaves();
        let person = story.person_with(&["--resume", &id])?;
        wait_told(&person, one);
        assert!((costs(0.01).1 - one).abs() < 1e-6, "after /exit");
        person.submits("second thing");
        person.wait_text("two is done");
        let (_, two) = costs(1.5 * one);
        person.kill();
        let person = story.person_with(&["--resume", &id])?;
        wait_told(&person, one);
        assert!((costs(0.01).1 - two).abs() < 1e-6, "after SIGKILL");
        person.submits("third thing");
        person.wait_text("three is done");
        let (_, three) = costs(two + 0.5 * one);
        println!("{one}, {two}, {three}");
        assert!(three < two + 1.5 * one, "{one}, {two}, {three}");
        let sums = || -> Value {
            let sums = story.becket().run(&["stats", "--by", "project", "--json"]);
            serde_json::from_str(&sums).expect("JSON")
        };
        let added_up = wait::until(PATIENCE, || {
            let all = sums()[0]["cost_usd"].as_f64()?;
            ((all - three).abs() < 1e-6).then_some(())
        });
        assert!(added_up.is_some(), "{}", sums());
        let costs = || {
            let session = story.session(&id);
            let turns = session["turns"].as_array().cloned().unwrap_or_default();
            let costs = turns.iter().map(|turn| turn["cost_usd"].as_f64());
            costs.collect::<Option<Vec<f64>>>()
        };
        let of_turns = [one, two - one, three - two];
        let told = wait::until(PATIENCE, || {
            let costs = costs()?;
            let mut both = costs.iter().zip(of_turns);
            let is_so = costs.len() == 3 && both.all(|(cost, turn)| (cost - turn).abs() < 1e-6);
            is_so.then_some(())
        });
        assert!(told.is_some(), "{:?} are not {of_turns:?}", costs());
        person.leaves();
        Ok(())
    });
}
