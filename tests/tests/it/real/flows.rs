//! The four flows of an effort with the real Claude Code: startup, tool calls, overflow, notification; and
//! the slash command that begins one.

use becket_tests::claude::SettingsScope;
use becket_tests::model::{Request, ToolResult, Turn, bash, gate, say, write};
use becket_tests::skip::Unavailable;
use becket_tests::story::{Becket, Given, Recorder, Story, story};
use becket_tests::wait::{self, PATIENCE};
use serde_json::{Value, json};

/// Its window is 200,000 tokens, and it does not compact by itself before 99 % of them.
const SMALL: &str = "claude-haiku-4-5";

/// What the agent may do without being asked.
fn allowing(given: Given, tools: &[&str]) -> Given {
    given.settings(
        SettingsScope::Project,
        json!({"permissions": {"allow": tools}}),
    )
}

/// A story with this config, in a project that is trusted.
fn configured(given: Given, becket: Becket, config: &str) -> Result<Story, Unavailable> {
    let config = format!("{config}\n[launch]\ncontext = false\n");
    given
        .file(".becket/config.toml", "")
        .registered(becket.config(&config))
        .registered(Recorder::witness())
        .begin()
}

/// `becket …` of a person in the project.
#[track_caller]
fn runs(story: &Story, args: &[&str]) -> String {
    let mut becket = story.becket().becket(args);
    let output = becket.current_dir(story.home.project()).output();
    let output = output.expect("run becket");
    assert!(output.status.success(), "becket {args:?}: {output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[track_caller]
fn effort(story: &Story) -> Value {
    let shown = runs(story, &["effort", "show", "--json"]);
    serde_json::from_str(&shown).expect("an effort as JSON")
}

/// becket as the model calls it.
fn becket(story: &Story, words: &str) -> Turn {
    let world = story.becket();
    let (program, home) = (world.programs.join("becket"), &world.becket_home);
    bash(&format!(
        "{} --home {} {words}",
        program.display(),
        home.display()
    ))
}

/// What every tool call said, in order.
fn results(turns: &[Request]) -> Vec<ToolResult> {
    turns.iter().flat_map(Request::tool_results).collect()
}

fn errors(turns: &[Request]) -> Vec<String> {
    let failed = results(turns).into_iter().filter(|result| result.is_error);
    failed.map(|result| result.text).collect()
}

#[test]
fn at_its_start_a_session_finds_the_effort_and_gets_its_files() {
    story(|given| {
        let given = given
            .on("hello", [say("hello yourself")])
            .file("docs/brief.md", "Guests pay without an account.\n");
        let config = "[skills.implement]\npreload = [\"docs/brief.md\"]";
        let story = configured(given, Becket::default(), config)?;
        runs(
            &story,
            &["effort", "start", "implement", "--title", "Guest checkout"],
        );
        story.print("hello").run().succeeded();
        let turns = story.model.turns();
        for part in [
            "This session works on effort 1 implement, phase plan.",
            "Its task: Guest checkout.",
            "Guests pay without an account.",
            "effort 1 implement, phase plan, heartbeat 0/10",
        ] {
            assert!(turns[0].contains(part), "{part}");
        }
        let shown = effort(&story);
        assert_eq!(shown["windows"][0]["source"], "startup");
        Ok(())
    });
}

#[test]
fn calls_without_a_log_entry_are_reminded_then_denied_until_there_is_one() {
    story(|given| {
        let story = configured(allowing(given, &["Bash"]), Becket::default(), "")?;
        runs(&story, &["effort", "start", "implement"]);
        let calls = (1..=10).map(|nth| bash(&format!("echo call {nth}")));
        let on = [
            becket(&story, "log 'ten calls'"),
            bash("echo call again"),
            say("done"),
        ];
        story.model.on("do it", calls.chain(on));
        story.print("do it").run().succeeded();
        let turns = story.model.turns();
        let reminder = "3 calls without a log entry (effort 1 implement, phase plan)";
        assert!(!turns[2].contains(reminder) && turns[3].contains(reminder));
        let failed = errors(&turns);
        assert_eq!(failed.len(), 1, "{failed:?}");
        assert!(
            failed[0].contains("10 calls without a log entry"),
            "{failed:?}"
        );
        let last = results(&turns).pop().expect("a result");
        assert_eq!(last.text, "call again");
        let log = story.home.project().join("1_IMPLEMENT_LOG.md");
        let log = std::fs::read_to_string(log).expect("the log");
        assert!(log.ends_with("ten calls\n"), "{log}");
        Ok(())
    });
}

#[test]
fn a_full_context_is_handed_over_and_a_fresh_claude_code_goes_on() {
    story(|given| {
        let given = allowing(given, &["Bash"])
            .file("docs/state.md", "The engine runs, the brakes do not.\n")
            .on("Go on with the effort", [say("fresh and going on")]);
        let statusline = Becket::default().init(&["--statusline"]);
        let story = configured(given, statusline, "")?;
        runs(
            &story,
            &["effort", "start", "implement", "--title", "A car"],
        );
        let context = json!({"summary": "The engine is built.", "lastAction": "Tested the engine.",
            "nextSteps": ["Build the brakes."], "requiredFiles": ["docs/state.md"]});
        let dehydrate = format!("effort dehydrate <<'EOF'\n{context}\nEOF");
        story.model.on(
            "build it",
            [
                bash("echo engine").usage(186_000, 100),
                gate("full").then(bash("echo brakes")).usage(186_000, 100),
                becket(&story, &dehydrate).usage(186_000, 100),
                say("handed over").usage(186_000, 100),
            ],
        );
        let person = story.launched(&["--restart", "--prompt", "build it"], &["--model", SMALL])?;
        story.model.wait_at("full");
        let is_full = || {
            effort(&story)["context_pct"]
                .as_f64()
                .filter(|used| *used > 91.0)
        };
        assert!(
            wait::until(PATIENCE, is_full).is_some(),
            "{:#}",
            effort(&story)
        );
        story.model.open("full");

        person.wait_text("fresh and going on");
        let turns = story.model.turns();
        let failed = errors(&turns[..4]);
        assert!(
            failed.len() == 1 && failed[0].contains("93 % of the context is used"),
            "{failed:?}"
        );
        let first = turns.last().expect("a turn");
        for part in [
            "The engine is built.",
            "Build the brakes.",
            "The engine runs, the brakes do not.",
        ] {
            assert!(first.contains(part), "{part}");
        }
        assert!(!first.contains("build it"), "another conversation");
        let shown = effort(&story);
        let [before, after] = &shown["windows"].as_array().expect("windows")[..] else {
            panic!("{shown:#}");
        };
        assert_eq!(
            (&after["prev"], &after["source"]),
            (&before["id"], &json!("startup"))
        );
        assert_ne!(before["session_id"], after["session_id"]);
        assert_eq!(before["dehydrated"]["summary"], "The engine is built.");
        assert!(before["ended_at"].is_string());
        assert_eq!(shown["held"], true);
        person.ready();
        person.leaves();
        Ok(())
    });
}

#[test]
fn instead_of_a_compaction_a_fresh_claude_code_starts() {
    story(|given| {
        let given = allowing(given, &["Bash"])
            .on("Go on with the effort", [say("fresh and going on")])
            .on(
                "build it",
                [
                    bash("echo engine").usage(975_000, 100),
                    say("too full").usage(975_000, 100).halfway("never"),
                ],
            )
            .since("2.1.325", "compaction on the model's word alone");
        let story = configured(given, Becket::default(), "")?;
        runs(&story, &["effort", "start", "implement"]);
        runs(&story, &["effort", "log", "the engine is next"]);
        let command = story.launch_command(&["--restart"], &["-p", "build it"]);
        let mut launch = story.becket().command(&command[0]);
        launch.args(&command[1..]).envs(story.home.env().to_vec());
        let output = launch.current_dir(story.home.project()).output();
        let output = output.expect("becket runs");
        story.model.open("never");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.contains("fresh and going on"), "{output:?}");
        assert_eq!(story.wait_event("PreCompact")["trigger"], "auto");
        story.events().none_of("PostCompact");
        let first = story.model.turns().pop().expect("a turn");
        assert!(first.contains("It left no summary") && first.contains("the engine is next"));
        assert_eq!(effort(&story)["windows"].as_array().map(Vec::len), Some(2));
        Ok(())
    });
}

#[test]
fn the_panes_colour_follows_the_agent_of_an_effort() {
    story(|given| {
        let given = given.on("do it", [write("made.txt", "x"), say("it is made")]);
        let story = configured(given, Becket::default(), "")?;
        runs(&story, &["effort", "start", "implement"]);
        let person = story.person()?;
        let mut paint = story.becket().becket(["tmux", "paint"]);
        let painted = paint
            .env("TMUX", format!("{},1,0", person.socket().display()))
            .output()
            .expect("run becket tmux paint");
        assert!(painted.status.success(), "{painted:?}");
        let shows = |wanted: &str| {
            let look =
                || person.tmux_says(&["display-message", "-p", "#{@becket_state} #{window-style}"]);
            let came = wait::until(PATIENCE, || (look() == wanted).then_some(()));
            assert!(came.is_some(), "{} instead of {wanted}", look());
        };
        person.submits("do it");
        shows("waiting bg=colour58");
        person.chooses(1);
        person.wait_text("it is made");
        shows("done bg=colour22");
        let row = story.wait_session("done", |row| row.display() == "done");
        assert_eq!(row["effort"]["skill"], "implement");
        let worked_on = person.tmux_says(&["display-message", "-p", "#{@becket_effort}"]);
        assert!(worked_on.starts_with("implement/plan ♥1"), "{worked_on}");
        person.leaves();
        Ok(())
    });
}

#[test]
fn a_slash_command_begins_an_effort_with_its_arguments_as_the_title() {
    story(|given| {
        let given = given.on("The effort has begun", [say("let us explore")]);
        let story = configured(given, Becket::default(), "")?;
        let person = story.person()?;
        person.submits("/brainstorm a tidier kitchen");
        person.wait_text("let us explore");
        let turns = story.model.turns();
        for part in [
            "This session works on effort 1 brainstorm, phase explore.",
            "Its task: a tidier kitchen.",
            "Ask one question at a time.",
        ] {
            assert!(turns[0].contains(part), "{part}");
        }
        let row = story.wait_session("at work on it", |row| row["effort"]["id"] == 1);
        assert_eq!(row["effort"]["title"], "a tidier kitchen");
        person.leaves();
        Ok(())
    });
}
