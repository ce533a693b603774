//! The past of a session: its turns, with what they cost.

use becket_tests::model::{bash, say};
use becket_tests::story::{Becket, story};
use becket_tests::wait::{self, PATIENCE};
use serde_json::{Value, json};

#[test]
fn the_turns_of_a_session_are_told_with_their_cost_and_tokens() {
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
        let after = cost(&second.succeeded().result());
        let turns = wait_turns(&id, [500, 200], [before, after - before]);
        assert_eq!(turns[0]["prompt"], "first thing");
        assert_eq!(turns[0]["tools"], json!([{"tool": "Bash", "calls": 1}]));
        assert_eq!(turns[0]["input_tokens"], 81_000);
        assert_eq!(turns[0]["output_tokens"], 500);
        assert_eq!(turns[1]["input_tokens"], 50_000);

        let sums = story.becket().run(&["sessions", "--stats", "--json"]);
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
        let session = story.wait_session("done", super::is_done);
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
