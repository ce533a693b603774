//! becket judges alike as a command hook and in the SDK's callbacks.

use std::fs;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use becket_sdk::{Answer, Any, Builder, Error, Event, EventName, PreToolUse, UserPromptSubmit};
use becket_tests::model::{Request, bash, say};
use becket_tests::story::{Becket, Given, Recorder, Story, story};
use becket_tests::wait::{self, PATIENCE};
use becket_tests::world::World;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::life::{pid_in, script, wait_gone};
use super::{ask, begin, claude, run};

/// Hooks that deny, rewrite, add context and block a prompt; each run is counted.
const CONFIG: &str = r#"
[hooks.no-psql]
on = "PreToolUse"
tools = "Bash"
run = """echo run >> runs; if grep -q psql; then echo '{"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": "ask the database team"}}'; fi"""

[hooks.shout]
on = "PreToolUse"
tools = "Bash"
rewrites = true
run = """if grep -q whisper; then echo '{"hookSpecificOutput": {"hookEventName": "PreToolUse", "updatedInput": {"command": "echo SHOUT"}}}'; fi"""

[hooks.note]
on = "PostToolUse"
run = """echo '{"hookSpecificOutput": {"hookEventName": "PostToolUse", "additionalContext": "noted by becket"}}'"""

[guards.no-deploys]
tools = "Bash"
command = "deploy"
answer = "deny"
reason = "deploys are for people"

[hooks.no-poems]
on = "UserPromptSubmit"
run = "if grep -q poem; then echo 'no poems' >&2; exit 2; fi"
"#;

fn scenario(given: Given) -> Given {
    let turns = [
        bash("psql -c x"),
        bash("echo whisper"),
        bash("deploy now"),
        say("done"),
    ];
    // A project with a `.becket` folder, since trust needs one.
    let given = given.file(".becket/config.toml", "");
    given.on("look", turns).on("poem", [say("roses")])
}

/// Creates a world with this config and without a registration.
fn unregistered() -> World {
    let world = World::new();
    fs::create_dir_all(&world.becket_home).expect("a home");
    fs::write(world.path("config.toml"), CONFIG).expect("a config");
    world
}

fn with_becket(story: &Story, world: &World) -> Builder {
    claude(story)
        .becket_program(world.programs.join("becket-hook"))
        .becket_home(&world.becket_home)
}

/// Runs the scenario, and returns becket's effects for the model and the user.
fn run_scenario(story: &Story, builder: Builder) -> Vec<String> {
    run_scenario_of(story, builder).0
}

/// Runs the scenario, and returns becket's effects and the process.
fn run_scenario_of(story: &Story, builder: Builder) -> (Vec<String>, u32) {
    let (texts, pid) = run(async {
        let mut claude = builder.start().await.expect("start");
        let pid = claude.pid().expect("a pid");
        let mut results = Vec::new();
        for prompt in ["look", "poem"] {
            results.push(ask(&mut claude, prompt).await.text().to_owned());
        }
        claude.close().await.expect("close");
        (results, pid)
    });
    let turns = story.model.turns();
    let results = turns.iter().flat_map(Request::tool_results);
    let results = results.map(|result| format!("{} {}", result.is_error, result.text));
    let noted = turns
        .iter()
        .map(|turn| turn.contains("noted by becket").to_string());
    (texts.into_iter().chain(results).chain(noted).collect(), pid)
}

/// Returns the decisions in becket's log, by event.
fn decisions(world: &World) -> Vec<(String, Value)> {
    let events = world.events().into_iter();
    let decided = events.filter(|event| !event["decision"].is_null());
    let decided = decided.map(|event| {
        (
            event["event"].as_str().unwrap_or_default().to_owned(),
            event["decision"].clone(),
        )
    });
    decided.collect()
}

#[test]
fn a_command_hook_and_a_callback_answer_alike() {
    story(|given| {
        let by_hook = Becket::default().config(CONFIG);
        let story = scenario(given).registered(by_hook).begin()?;
        let over_hooks = run_scenario(&story, claude(&story));
        let hook_decisions = decisions(story.becket());
        assert!(
            over_hooks
                .iter()
                .any(|text| text.contains("ask the database team")),
            "{over_hooks:?}"
        );
        assert!(
            over_hooks.iter().any(|text| text == "false SHOUT"),
            "{over_hooks:?}"
        );
        assert!(over_hooks[1].contains("no poems"), "{over_hooks:?}");
        assert!(
            over_hooks
                .iter()
                .any(|text| text.contains("deploys are for people")),
            "{over_hooks:?}"
        );

        let world = unregistered();
        let story = begin(scenario(Given::default()))?;
        let (over_callbacks, pid) = run_scenario_of(&story, with_becket(&story, &world));
        assert_eq!(over_callbacks, over_hooks);
        assert_eq!(decisions(&world), hook_decisions);
        let sessions: Vec<Value> =
            serde_json::from_str(&world.run(&["sessions", "--all", "--json"])).expect("JSON");
        // The Claude Codes of other tests are listed too, as unhooked ones.
        let mut hooked = sessions.iter().filter(|row| row["hooked"] == true);
        assert!(hooked.any(|row| row["pid"] == pid), "{sessions:?}");
        Ok(())
    });
}

#[test]
fn registered_twice_becket_runs_its_hooks_once() {
    story(|given| {
        let both = Becket::default().config(CONFIG);
        let story = scenario(given).registered(both).begin()?;
        let world = story.becket();
        let texts = run_scenario(&story, with_becket(&story, world));
        assert!(
            texts
                .iter()
                .any(|text| text.contains("ask the database team")),
            "{texts:?}"
        );
        let runs = fs::read_to_string(story.home.project().join("runs")).expect("runs");
        assert_eq!(runs, "run\nrun\n", "one for each call");
        Ok(())
    });
}

#[test]
fn becket_judges_before_the_callbacks() {
    story(|given| {
        let world = unregistered();
        let story = begin(scenario(given))?;
        let seen: Arc<Mutex<Vec<String>>> = Arc::default();
        let (calls, prompts) = (Arc::clone(&seen), Arc::clone(&seen));
        let builder = with_becket(&story, &world)
            .on(PreToolUse, "Bash", move |call, ctx| {
                let command = call.tool_input["command"].as_str().unwrap_or_default();
                calls
                    .lock()
                    .expect("calls")
                    .push(format!("{} {command}", ctx.callback_id));
                async { Ok(Answer::none()) }
            })
            .on(UserPromptSubmit, Any, move |event, _| {
                prompts.lock().expect("prompts").push(event.prompt);
                async { Ok(Answer::none()) }
            });
        run_scenario(&story, builder);
        let seen = seen.lock().expect("calls");
        assert_eq!(
            *seen,
            ["look", "hook_1 echo SHOUT"],
            "neither psql nor the poem"
        );
        let runs = fs::read_to_string(story.home.project().join("runs")).expect("runs");
        assert_eq!(runs, "run\nrun\n", "asked once for all callbacks of a call");
        Ok(())
    });
}

/// The deadline of a turn is for the user's callbacks.
#[test]
fn becket_still_judges_after_the_turns_deadline() {
    story(|given| {
        let world = unregistered();
        let story = begin(given.on("look", [bash("deploy now"), say("done")]))?;
        run(async {
            let builder = with_becket(&story, &world);
            let mut claude = builder.start().await.expect("start");
            let turn = claude.ask("look").deadline(Duration::ZERO).await;
            turn.expect("ask").result().await.expect("a result");
        });
        let result = &story.model.turns()[1].tool_results()[0];
        assert!(result.text.contains("deploys are for people"), "{result:?}");
        Ok(())
    });
}

/// As with a command hook, which Claude Code ends with SIGTERM.
#[test]
fn an_interrupt_ends_beckets_named_hooks() {
    story(|given| {
        let world = unregistered();
        let hook = "[hooks.slow]\non = \"PreToolUse\"\nrun = \"echo $$ > pid; exec sleep 600\"\n";
        fs::write(world.path("config.toml"), hook).expect("a config");
        let story = begin(given.on("look", [bash("echo x"), say("done")]))?;
        run(async {
            let builder = with_becket(&story, &world);
            // A second callback of the event waits for the same verdict.
            let builder = builder.on(PreToolUse, Any, |_, _| async { Ok(Answer::none()) });
            let mut claude = builder.start().await.expect("start");
            let turn = claude.ask("look").await.expect("ask");
            let file = story.home.project().join("pid");
            tokio::task::block_in_place(|| {
                wait::until(PATIENCE, || {
                    fs::read_to_string(&file)
                        .ok()
                        .filter(|pid| pid.ends_with('\n'))
                })
            });
            turn.interrupt().await.expect("interrupt");
            turn.result().await.expect("a result");
            wait_gone(pid_in(&story)).await;
        });
        Ok(())
    });
}

#[test]
fn a_missing_becket_is_an_error() {
    run(async {
        let builder = becket_sdk::Claude::builder()
            .env("PATH", "/nonexistent")
            .becket();
        let started = builder.program("/bin/false").start().await;
        assert!(matches!(started, Err(Error::NoBecket)), "{started:?}");
    });
}

#[derive(Deserialize)]
struct Line {
    request: Option<Body>,
}

#[derive(Deserialize)]
struct Body {
    input: Option<Box<RawValue>>,
}

/// The rule for double registrations compares bytes.
#[test]
fn a_callbacks_input_has_the_bytes_of_the_command_hooks() {
    story(|given| {
        let command = "echo 'Grüße, \"1.50\" < 2 & 3' # \u{1F6A2}";
        let story = begin(given.on("look", [bash(command), bash("false"), say("done")]))?;
        let spy = script(&story, "\"$CLAUDE\" \"$@\" | tee output");
        let events = [
            "UserPromptSubmit",
            "PreToolUse",
            "PostToolUse",
            "PostToolUseFailure",
            "PostToolBatch",
            "Stop",
        ];
        run(async {
            let builder = events
                .iter()
                .fold(claude(&story).program(spy), |builder, event| {
                    let event = EventName::from(*event);
                    builder.on(event, Any, |_: Event, _| async { Ok(Answer::none()) })
                });
            let mut claude = builder.start().await.expect("start");
            ask(&mut claude, "look").await;
            claude.close().await.expect("close");
        });
        let output = fs::read_to_string(story.home.project().join("output")).expect("the output");
        let requests = output
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        let inputs = requests.filter_map(|line: Line| line.request?.input);
        let inputs: Vec<String> = inputs.map(|input| format!("{}\n", input.get())).collect();
        let recorded = story.events();
        let recorded = recorded
            .iter()
            .filter(|event| events.contains(&event.name()));
        let recorded: Vec<&str> = recorded.map(|event| event.raw.as_str()).collect();
        assert_eq!(inputs, recorded);
        assert_eq!(inputs.len(), 8);
        Ok(())
    });
}

/// The SDK gives `becket-hook` the variables that Claude Code gives a command hook.
#[test]
fn a_command_hooks_environment_is_as_the_sdk_sets_it() {
    story(|given| {
        let given = given.on("look", [bash("touch x"), say("done")]);
        let story = given.registered(Recorder::witness()).begin()?;
        run(async {
            let builder = claude(&story).permission_mode("default");
            let builder =
                builder.can_use_tool(|_, _| async { Ok(becket_sdk::Permission::allow()) });
            let mut claude = builder.start().await.expect("start");
            ask(&mut claude, "look").await;
        });
        let call = story.wait_event("PreToolUse");
        for (name, value) in [
            ("CLAUDECODE", "1"),
            ("CLAUDE_CODE_ENTRYPOINT", "sdk-cli"),
            ("CLAUDE_CODE_SESSION_ATTENDED", "0"),
            ("CLAUDE_CODE_SESSION_ID", call.text("session_id")),
            (
                "CLAUDE_PROJECT_DIR",
                &story.home.project().to_string_lossy(),
            ),
        ] {
            assert_eq!(call.env[name], value, "{name}");
        }
        Ok(())
    });
}
