//! Guards with the real Claude Code: what they stop, and the calls that none of them saw.

use becket_tests::claude::Scope;
use becket_tests::model::{agent, bash, say, tool, tools};
use becket_tests::story::{Story, story};
use becket_tests::wait::{self, PATIENCE};
use serde_json::{Value, json};

/// `becket coverage --json` for the story's Claude Code: id of the session, hooked, calls, unseen.
fn coverage(story: &Story) -> Vec<Value> {
    let mut becket = story.becket().becket(["coverage", "--json"]);
    let said = becket
        .env("CLAUDE_CONFIG_DIR", story.home.config())
        .output();
    let said = said.expect("becket coverage runs");
    serde_json::from_slice(&said.stdout).unwrap_or_else(|why| panic!("{why}: {said:?}"))
}

fn counts(row: &Value) -> (bool, Vec<(u64, u64)>) {
    let count = |agent: &Value, field: &str| agent[field].as_u64().unwrap_or(0);
    let agents = row["agents"].as_array().cloned().unwrap_or_default();
    let agents = agents
        .iter()
        .map(|agent| (count(agent, "calls"), count(agent, "unseen")));
    (row["hooked"] == true, agents.collect())
}

#[test]
fn guards_see_every_call_that_runs() {
    story(|given| {
        let story = given
            .on(
                "do things",
                [
                    // Neither a tool that is not there nor a wrong input gets as far as a hook.
                    tools([bash("echo one"), tool("Nonesuch", json!({}))]),
                    tool("Bash", json!({"no": "command"})),
                    tools([bash("exit 3"), bash("echo beside")]),
                    agent("general-purpose", "inner job"),
                    say("done"),
                ],
            )
            .on("inner job", [bash("echo inner"), say("inner done")])
            .on("go on", [bash("echo two"), say("done too")])
            .begin()?;
        let first = story.print("do things").mode("bypassPermissions").run();
        let first = first.succeeded().session();
        let fork = story.print("go on").mode("bypassPermissions");
        fork.resume(&first).fork().run().succeeded();
        let rows = coverage(&story);
        assert_eq!(rows.len(), 2, "{rows:#?}");
        for row in &rows {
            let is_first = row["session_id"] == first;
            let expected = if is_first {
                vec![(4, 0), (1, 0)]
            } else {
                vec![(5, 0)]
            };
            assert_eq!(counts(row), (true, expected), "{row:#}");
        }
        Ok(())
    });
}

#[test]
fn a_project_that_switches_hooks_off_is_found_by_coverage() {
    story(|given| {
        let story = given
            .on("first thing", [bash("echo one"), say("done one")])
            .on(
                "second thing",
                [
                    bash("echo two"),
                    agent("general-purpose", "inner job"),
                    say("done"),
                ],
            )
            .on("inner job", [bash("echo inner"), say("inner done")])
            .on("third thing", [say("done three")])
            .begin()?;
        let print = |prompt: &str| story.print(prompt).mode("bypassPermissions");
        let heard = print("first thing").run().succeeded().session();

        let off = json!({"disableAllHooks": true});
        story.home.set_settings(Scope::Project, &off);
        let deaf = print("second thing").run().succeeded().session();
        print("second thing").resume(&heard).run().succeeded();
        let row = |id: &str| {
            coverage(&story)
                .into_iter()
                .find(|row| row["session_id"] == id)
        };
        let of_deaf = row(&deaf).expect("the session without hooks");
        assert_eq!(
            counts(&of_deaf),
            (false, vec![(2, 2), (1, 1)]),
            "{of_deaf:#}"
        );
        let project = story.home.project().canonicalize().expect("a project");
        assert_eq!(of_deaf["project"], project.to_string_lossy().as_ref());
        let of_heard = row(&heard).expect("the session that lost its hooks");
        assert_eq!(
            counts(&of_heard),
            (true, vec![(3, 2), (1, 1)]),
            "{of_heard:#}"
        );

        // Once hooks run again, the end of the session tells the daemon.
        story.home.set_settings(Scope::Project, &json!({}));
        print("third thing").resume(&heard).run().succeeded();
        let told = wait::until(PATIENCE, || {
            let row = story.session(&heard);
            row["troubles"][0].as_str().map(str::to_owned)
        });
        let told = told.expect("a trouble of the session");
        assert!(
            told.contains("no guard saw 3 of its 4 tool calls"),
            "{told}"
        );
        Ok(())
    });
}
