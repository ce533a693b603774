//! Turns and clients with a subagent in the background, the default of Claude Code.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use becket_sdk::{
    Answer, Any, Builder, Claude, Error, Hook, Message, OnFailure, Permission, PreToolUse, Stop,
};
use becket_tests::model::{Turn, bash, gate, say, tool};
use becket_tests::story::{Given, Story, story};
use serde_json::json;
use tokio::sync::mpsc;

use super::life::script;
use super::{all, ask, begin, claude, run};

const MODES: [&str; 4] = ["default", "acceptEdits", "auto", "bypassPermissions"];

/// The first version in which an agent runs in the background by default, and results name their prompts.
const SINCE: &str = "2.1.260";

/// Starts a subagent without a choice of foreground or background.
fn agent() -> Turn {
    let input = json!({
        "description": "the digging",
        "prompt": "dig deep",
        "subagent_type": "general-purpose",
    });
    tool("Agent", input)
}

/// Adds a subagent whose only call waits for the gate `dig`; the model's turn about its end waits for
/// `told`.
fn digging(given: Given) -> Given {
    let given = given.since(SINCE, "agents in the background, unasked");
    let given = given.on("commence", [agent(), say("it is launched")]);
    let given = given.on(
        "dig deep",
        [gate("dig").then(bash("touch dug")), say("gold")],
    );
    given.on(
        "<task-notification>",
        [gate("told").then(say("it found gold"))],
    )
}

/// Returns a client in this mode that lets every call pass. Its callbacks fail closed, and are counted.
fn permissive(story: &Story, mode: &'static str, calls: &Arc<AtomicUsize>) -> Builder {
    let calls = Arc::clone(calls);
    let hook = Hook::new(PreToolUse, Any, move |_, _| {
        calls.fetch_add(1, Ordering::Relaxed);
        async move {
            // The check of auto mode is the server's, which the scripted model does not have.
            Ok(match mode {
                "auto" => Answer::allow("by the test"),
                _ => Answer::none(),
            })
        }
    });
    claude(story)
        .permission_mode(mode)
        .hook(hook.on_failure(OnFailure::Closed))
        .can_use_tool(|_, _| async { Ok(Permission::allow()) })
}

/// Returns the next result that belongs to no turn.
async fn next_autonomous(claude: &mut Claude) -> String {
    let mut events = claude.events();
    loop {
        let event = events.next().await.expect("an event").expect("a message");
        if let Message::Result(result) = event {
            assert!(result.is_autonomous(), "{result:?}");
            return result.text().to_owned();
        }
    }
}

fn said(messages: &[Message]) -> Vec<String> {
    let texts = messages.iter().map(Message::text);
    texts.filter(|text| !text.is_empty()).collect()
}

/// The turn that reports the subagent runs when the prompt is sent, and ends before the prompt's own.
#[test]
fn a_prompt_during_the_turn_that_reports_a_subagent_gets_its_own_answer() {
    for mode in MODES {
        story(|given| {
            let story = begin(digging(given).on("second", [say("answer two")]))?;
            let calls = Arc::default();
            run(async {
                let builder = permissive(&story, mode, &calls);
                let mut claude = builder.start().await.expect("start");
                assert_eq!(ask(&mut claude, "commence").await.text(), "it is launched");
                story.model.open("dig");
                tokio::task::block_in_place(|| story.model.wait_at("told"));
                let turn = claude.ask("second").await.expect("ask");
                story.model.open("told");
                let messages = all(turn).await;
                assert_eq!(said(&messages), ["answer two"], "{mode}");
                let Some(Message::Result(result)) = messages.last() else {
                    panic!("{messages:?}");
                };
                assert_eq!(result.text(), "answer two", "{mode}");
                assert_eq!(next_autonomous(&mut claude).await, "it found gold");
                claude.close().await.expect("close");
            });
            assert_eq!(calls.load(Ordering::Relaxed), 2, "{mode}: Agent, Bash");
            Ok(())
        });
    }
}

/// The subagent ends during a turn, and is reported after it: before the next prompt's turn.
#[test]
fn a_prompt_after_a_subagent_has_ended_gets_its_own_answer() {
    for mode in MODES {
        story(|given| {
            let given = digging(given).on("second", [gate("second").then(say("answer two"))]);
            let story = begin(given.on("third", [say("answer three")]))?;
            story.model.open("told");
            run(async {
                let builder = permissive(&story, mode, &Arc::default());
                let mut claude = builder.start().await.expect("start");
                assert_eq!(ask(&mut claude, "commence").await.text(), "it is launched");
                let mut turn = claude.ask("second").await.expect("ask");
                tokio::task::block_in_place(|| story.model.wait_at("second"));
                story.model.open("dig");
                while let Some(message) = turn.next().await {
                    match message.expect("a message") {
                        Message::System(system) if system.subtype() == "task_notification" => {
                            story.model.open("second");
                        }
                        Message::Result(result) => assert_eq!(result.text(), "answer two"),
                        _ => {}
                    }
                }
                assert_eq!(ask(&mut claude, "third").await.text(), "answer three");
                assert_eq!(next_autonomous(&mut claude).await, "it found gold");
            });
            Ok(())
        });
    }
}

/// Opens the gate of the subagent's call when the first turn stops.
fn dig_after_the_turn(builder: Builder, story: &Story) -> (Builder, mpsc::UnboundedReceiver<()>) {
    story.model.open("told");
    let (stopped, stops) = mpsc::unbounded_channel();
    let builder = builder.on(Stop, Any, move |_, _| {
        let _ = stopped.send(());
        async { Ok(Answer::none()) }
    });
    (builder, stops)
}

#[test]
fn query_returns_the_result_of_a_background_subagent() {
    for mode in MODES {
        story(|given| {
            let story = begin(digging(given))?;
            let calls = Arc::default();
            let builder = permissive(&story, mode, &calls);
            let (builder, mut stops) = dig_after_the_turn(builder, &story);
            let result = run(async {
                let (result, ()) = tokio::join!(builder.query("commence"), async {
                    stops.recv().await.expect("a stop");
                    story.model.open("dig");
                });
                result.expect("a result")
            });
            assert_eq!(result.text(), "it found gold", "{mode}");
            assert!(story.home.project().join("dug").exists(), "{mode}");
            assert_eq!(calls.load(Ordering::Relaxed), 2, "{mode}: Agent, Bash");
            Ok(())
        });
    }
}

#[test]
fn close_lets_a_background_subagent_finish() {
    for mode in MODES {
        story(|given| {
            let story = begin(digging(given))?;
            story.model.open("told");
            run(async {
                let builder = permissive(&story, mode, &Arc::default());
                let mut claude = builder.start().await.expect("start");
                assert_eq!(ask(&mut claude, "commence").await.text(), "it is launched");
                let (closed, ()) = tokio::join!(claude.close(), async {
                    // `close` has been polled by now.
                    story.model.open("dig");
                });
                closed.expect("close");
            });
            assert!(story.home.project().join("dug").exists(), "{mode}");
            let last = story.model.turns().pop().expect("a request");
            assert!(last.contains("<task-notification>"), "{mode}");
            Ok(())
        });
    }
}

/// A subagent that ends during the turn is reported to the model in that turn. No other turn follows.
#[test]
fn query_does_not_wait_for_a_subagent_reported_in_the_turn() {
    story(|given| {
        let given = given.since(SINCE, "agents in the background, unasked");
        let turns = [
            agent(),
            gate("dug").then(bash("echo on")),
            gate("on").then(say("all done")),
        ];
        let given = given.on("commence", turns);
        let given = given.on("dig deep", [say("gold")]);
        // The notification is the newest text then; the turns go on.
        let story = begin(given)?;
        let seen: Arc<Mutex<Vec<String>>> = Arc::default();
        let prompts = Arc::clone(&seen);
        run(async {
            let (ended, mut ends) = mpsc::unbounded_channel();
            let builder = claude(&story)
                .on(becket_sdk::SubagentStop, Any, move |_, _| {
                    let _ = ended.send(());
                    async { Ok(Answer::none()) }
                })
                .on(becket_sdk::UserPromptSubmit, Any, move |event, _| {
                    prompts.lock().expect("prompts").push(event.prompt);
                    async { Ok(Answer::none()) }
                });
            let (result, ()) = tokio::join!(builder.query("commence"), async {
                ends.recv().await.expect("an end");
                story.model.open("dug");
                story.model.open("on");
            });
            assert_eq!(result.expect("a result").text(), "all done");
        });
        let seen = seen.lock().expect("prompts");
        assert!(seen[1].contains("<task-notification>"), "{seen:?}");
        Ok(())
    });
}

#[test]
fn past_the_bound_a_working_subagent_is_named() {
    story(|given| {
        let story = begin(digging(given))?;
        run(async {
            let builder = claude(&story).background_wait(Duration::from_secs(1));
            let error = builder.query("commence").await.expect_err("it works");
            let Error::BackgroundTasks { tasks, result, .. } = error else {
                panic!("{error}");
            };
            assert_eq!(tasks, ["the digging"]);
            assert_eq!(result.expect("the result").text(), "it is launched");
            let builder = claude(&story).background_wait(Duration::ZERO);
            let result = builder.query("commence").await.expect("a result");
            assert_eq!(result.text(), "it is launched", "there is no wait");
        });
        assert!(!story.home.project().join("dug").exists());
        Ok(())
    });
}

/// A resumed session begins with the results of earlier tasks.
#[test]
fn query_returns_no_result_from_before_that_of_its_prompt() {
    story(|given| {
        let story = begin(given)?;
        let text = r#"
read -r hello
id=$(printf '%s' "$hello" | sed 's/.*"request_id":"\([^"]*\)".*/\1/')
printf '{"type":"control_response","response":{"subtype":"success","request_id":"%s","response":{}}}\n' "$id"
read -r prompt
echo '{"type":"result","result":"of before","origin":{"kind":"task-notification"}}'
echo '{"type":"result","result":"asked"}'
cat > /dev/null"#;
        let builder = claude(&story).program(script(&story, text));
        let result = run(builder.query("ask")).expect("a result");
        assert_eq!(result.text(), "asked");
        Ok(())
    });
}

/// The same holds for a shell command in the background.
#[test]
fn query_waits_for_a_background_command() {
    story(|given| {
        let given = given.since(SINCE, "results that name their prompts");
        let command = json!({
            "command": "while [ ! -e go ]; do sleep 0.05; done; touch gone",
            "description": "wait for go",
            "run_in_background": true,
        });
        let given = given.on("commence", [tool("Bash", command), say("it is launched")]);
        let story = begin(given.on("<task-notification>", [say("it went")]))?;
        let (builder, mut stops) = dig_after_the_turn(claude(&story), &story);
        let result = run(async {
            let (result, ()) = tokio::join!(builder.query("commence"), async {
                stops.recv().await.expect("a stop");
                story.home.file("go", "");
            });
            result.expect("a result")
        });
        assert_eq!(result.text(), "it went");
        assert!(story.home.project().join("gone").exists());
        Ok(())
    });
}
