//! The process of a client: resumed sessions, concurrent clients, every way to end, and failing callbacks.

use std::fs;
use std::future::pending;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use becket_sdk::{
    Answer, Any, Claude, Ended, Error, Hook, Message, OnFailure, PostToolUse, PreToolUse, Stop,
};
use becket_tests::claude::SettingsScope;
use becket_tests::model::{bash, gate, say, tool, tools, write};
use becket_tests::story::{Story, story};
use becket_tests::wait::{self, PATIENCE};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::answers::hanging;
use super::{all, ask, begin, claude, example_command, run};

/// Writes a program that runs this shell script, with the real Claude Code as `$CLAUDE`.
pub(super) fn script(story: &Story, text: &str) -> PathBuf {
    let claude = story.claude.command()[0].to_string_lossy();
    let file = story.home.file(
        "wrapper",
        &format!("#!/bin/sh\nCLAUDE='{claude}'\n{text}\n"),
    );
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("make it a program");
    file
}

/// Waits for the pid that a script recorded.
pub(super) fn pid_in(story: &Story) -> u32 {
    let pid = fs::read_to_string(story.home.project().join("pid")).expect("a pid");
    pid.trim().parse().expect("a pid")
}

fn pid_of(pid: u32) -> Pid {
    Pid::from_raw(pid.cast_signed()).expect("a pid")
}

/// Returns true if the process is gone and reaped: a zombie would still have a folder.
fn is_gone(pid: u32) -> bool {
    !Path::new(&format!("/proc/{pid}")).exists()
}

/// Keeps the runtime running until the process is gone.
pub(super) async fn wait_gone(pid: u32) {
    let gone =
        tokio::task::spawn_blocking(move || wait::until(PATIENCE, || is_gone(pid).then_some(())));
    assert!(gone.await.expect("look").is_some(), "{pid} is still there");
}

#[test]
fn a_session_is_resumed() {
    story(|given| {
        let given = given.on("remember", [say("noted")]);
        let story = begin(given.on("and now", [say("I know")]))?;
        run(async {
            let mut first = claude(&story).start().await.expect("start");
            let before = ask(&mut first, "remember").await;
            first.close().await.expect("close");
            let resumed = claude(&story).resume(before.session_id()).start();
            let mut second = resumed.await.expect("start again");
            let after = ask(&mut second, "and now").await;
            assert_eq!(after.session_id(), before.session_id());
            second.close().await.expect("close");
            let forked = claude(&story).resume_latest().fork().start();
            let mut third = forked.await.expect("start a third time");
            let fork = ask(&mut third, "and then").await;
            assert_ne!(fork.session_id(), before.session_id());
        });
        assert!(story.model.turns()[1].contains("noted"));
        assert!(story.model.turns()[2].contains("noted"));
        Ok(())
    });
}

#[test]
fn options_reach_the_program() {
    story(|given| {
        let calls = tools([
            bash("printenv COLOUR SEASON"),
            bash("pwd"),
            bash("touch made"),
        ]);
        let given = given.on("look", [calls, say("done")]);
        let story = begin(given)?;
        let folder = story
            .home
            .file("inner/x", "")
            .parent()
            .expect("a folder")
            .to_owned();
        run(async {
            let mut claude = claude(&story)
                .model("claude-sonnet-4-5")
                .system_prompt("You are a lighthouse.")
                .append_system_prompt("It is night.")
                .allowed_tools(["Bash(printenv:*)", "Bash(touch made)"])
                .settings(&json!({"env": {"SEASON": "winter"}}))
                .arg("--name")
                .arg("north")
                .permission_mode("default")
                .disallowed_tools(["WebFetch"])
                .cwd(&folder)
                .env("COLOUR", "green")
                .start()
                .await
                .expect("start");
            ask(&mut claude, "look").await;
            let version = claude.version().expect("a version");
            assert_eq!(version, story.claude.version);
        });
        let turns = story.model.turns();
        assert!(turns[0].model().contains("sonnet-4-5"));
        assert!(turns[0].system().contains("You are a lighthouse."));
        assert!(turns[0].system().contains("It is night."));
        assert!(!turns[0].tools().contains(&"WebFetch"));
        let results = turns[1].tool_results();
        assert_eq!(results[0].text, "green\nwinter", "{results:?}");
        assert!(folder.join("made").exists(), "it is allowed");
        let folder = folder.display().to_string();
        assert!(results[1].text.starts_with(&folder), "{results:?}");
        Ok(())
    });
}

/// The typed options of the newest versions.
#[test]
fn further_options_reach_the_program() {
    story(|given| {
        let given = given.since("2.1.260", "all of these options");
        let given = given.on("look", [bash("cat ../other/x"), say("done")]);
        let given = given.on(
            "count",
            [tool("StructuredOutput", json!({"n": 3})), say("done")],
        );
        let story = begin(given)?;
        let other = story.home.root().join("other");
        fs::create_dir_all(&other).expect("a folder");
        fs::write(other.join("x"), "there").expect("a file");
        let warm = script(&story, "echo 'warming up' >&2; exec \"$CLAUDE\" \"$@\"");
        let id = "a1b2c3d4-0000-4000-8000-000000000001";
        let (line, mut lines) = tokio::sync::mpsc::unbounded_channel();
        run(async {
            let mut first = claude(&story)
                .program(warm)
                .session_id(id)
                .tools(["Bash", "Read"])
                .add_dir(&other)
                .mcp_servers(&json!({"files": {"command": "/nonexistent/mcp"}}))
                .agents(&json!({"reviewer": {"description": "reads", "prompt": "Read it."}}))
                .append_system_prompt("--help is what they say")
                .effort("low")
                .max_turns(1)
                .partial_messages()
                .stderr(move |text| line.send(text.to_owned()).expect("the test looks"))
                .on(PreToolUse, Any, |call, _| async move {
                    let level = call.common.effort.and_then(|effort| effort.level);
                    assert_eq!(level.as_deref(), Some("low"));
                    Ok(Answer::none())
                })
                .start()
                .await
                .expect("start");
            let agents = first.server_info()["agents"].to_string();
            assert!(agents.contains("reviewer"), "{agents}");
            let status = json!({"subtype": "mcp_status"});
            let status = first.control().request(status).await.expect("a status");
            assert_eq!(status["mcpServers"][0]["name"], "files", "{status}");
            let messages = all(first.ask("look").await.expect("ask")).await;
            let parts = messages.iter();
            assert!(
                parts
                    .filter(|part| part.json()["type"] == "stream_event")
                    .count()
                    > 0
            );
            let Some(Message::Result(result)) = messages.last() else {
                panic!("{messages:?}");
            };
            assert_eq!(result.session_id(), id);
            assert_eq!(result.subtype(), "error_max_turns");
            assert_eq!(result.text(), "Reached maximum number of turns (1)");
            assert_eq!(lines.recv().await.as_deref(), Some("warming up"));
            let schema = json!({
                "type": "object",
                "properties": {"n": {"type": "number"}},
                "required": ["n"],
            });
            let counting = claude(&story).json_schema(&schema).query("count").await;
            let output = counting.expect("a result").structured_output().cloned();
            assert_eq!(output, Some(json!({"n": 3})));
        });
        let turn = &story.model.turns()[0];
        assert!(turn.tools().contains(&"Read"));
        assert!(
            !turn.tools().contains(&"Write"),
            "it is not among the tools"
        );
        assert!(turn.system().contains("--help is what they say"));
        Ok(())
    });
}

/// `--resume -h` is the help.
#[test]
fn a_value_with_a_hyphen_is_not_read_as_a_flag() {
    story(|given| {
        let story = begin(given)?;
        run(async {
            let resumed = claude(&story).resume("-h").start().await;
            let error = resumed.expect_err("there is none").to_string();
            assert!(error.contains(r#"Provided value "-h""#), "{error}");
        });
        Ok(())
    });
}

#[test]
fn two_clients_do_not_mix() {
    story(|given| {
        let given = given.on("left", [bash("echo left"), say("left is done")]);
        let story = begin(given.on("right", [bash("echo right"), say("right is done")]))?;
        let seen: Arc<Mutex<Vec<(String, String)>>> = Arc::default();
        let client = |name: &'static str| {
            let seen = Arc::clone(&seen);
            claude(&story).on(PreToolUse, Any, move |call, _| {
                let command = call.tool_input["command"].as_str().unwrap_or_default();
                let pair = (name.to_owned(), command.to_owned());
                seen.lock().expect("calls").push(pair);
                async { Ok(Answer::none()) }
            })
        };
        run(async {
            let (left, right) = tokio::join!(client("left").start(), client("right").start());
            let (mut left, mut right) = (left.expect("start"), right.expect("start"));
            let results = tokio::join!(ask(&mut left, "left"), ask(&mut right, "right"));
            assert_eq!(results.0.text(), "left is done");
            assert_eq!(results.1.text(), "right is done");
        });
        let mut seen = seen.lock().expect("calls").clone();
        seen.sort();
        let pair = |name: &str| (name.to_owned(), format!("echo {name}"));
        assert_eq!(seen, [pair("left"), pair("right")]);
        Ok(())
    });
}

#[test]
fn a_killed_child_ends_the_turn_with_an_error() {
    story(|given| {
        let story = begin(given.on("wait", [gate("shut").then(say("too late"))]))?;
        run(async {
            let mut claude = claude(&story).start().await.expect("start");
            let pid = claude.pid().expect("a pid");
            let mut turn = claude.ask("wait").await.expect("ask");
            tokio::task::block_in_place(|| story.model.wait_at("shut"));
            kill_process(pid_of(pid), Signal::KILL).expect("kill it");
            let mut last = None;
            while let Some(message) = turn.next().await {
                last = Some(message);
            }
            drop(turn);
            let Some(Err(Error::Ended {
                status: Some(status),
                ..
            })) = last
            else {
                panic!("{last:?}");
            };
            assert!(!status.success());
            assert!(matches!(claude.interrupt().await, Err(Error::Ended { .. })));
            let next = claude.ask("anything").await.map(drop);
            assert!(matches!(next, Err(Error::Ended { .. })), "{next:?}");
            assert!(is_gone(pid));
        });
        Ok(())
    });
}

#[test]
fn a_child_killed_in_a_callback_cancels_it() {
    story(|given| {
        let story = begin(given.on("look", [bash("echo x"), say("done")]))?;
        let (hook, mut calls) = hanging();
        run(async {
            let mut claude = claude(&story).hook(hook).start().await.expect("start");
            let pid = claude.pid().expect("a pid");
            let turn = claude.ask("look").await.expect("ask");
            let ended = calls.recv().await.expect("a call");
            kill_process(pid_of(pid), Signal::KILL).expect("kill it");
            assert_eq!(ended.await, Ok(Some(Ended::Cancelled)));
            assert!(matches!(turn.result().await, Err(Error::Ended { .. })));
        });
        Ok(())
    });
}

/// A program that uses the SDK is killed. Claude Code goes on without its callbacks: it refuses the calls
/// that a PreToolUse callback would have judged, and no others.
#[test]
fn claude_code_outlives_a_killed_host_and_refuses_the_calls_of_its_callbacks() {
    outlives_a_killed_host(None);
}

/// The same for a callback whose failure lets a call pass.
#[test]
fn claude_code_refuses_the_calls_of_a_killed_hosts_open_callbacks() {
    outlives_a_killed_host(Some(r#"s/"onFailure":"block"/"onFailure":"continue"/"#));
}

/// Kills a host whose frames sed changes by `edit`.
fn outlives_a_killed_host(edit: Option<&str>) {
    story(|given| {
        let settings = json!({"permissions": {"defaultMode": "bypassPermissions"}});
        let given = given.settings(SettingsScope::User, settings);
        let turns = [
            gate("killed").then(bash("touch judged")),
            write("unjudged", "x"),
            say("done"),
        ];
        let story = begin(given.on("work", turns))?;
        let mut host = example_command(&story, "block_patterns", "work");
        if let Some(edit) = edit {
            let edited = format!("sed -u '{edit}' | tee frames | exec \"$CLAUDE\" \"$@\"");
            let claude = story.home.root().join("bin/claude");
            fs::rename(script(&story, &edited), claude).expect("replace the link");
        }
        let mut host = host.stdout(Stdio::null()).spawn().expect("start the host");
        story.model.wait_at("killed");
        if edit.is_some() {
            let frames = fs::read_to_string(story.home.project().join("frames"));
            assert!(frames.is_ok_and(|frames| frames.contains(r#""onFailure":"continue""#)));
        }
        host.kill().expect("kill it");
        host.wait().expect("reap it");
        story.model.open("killed");
        story.wait_event("SessionEnd");
        let there = |name: &str| story.home.project().join(name).exists();
        assert_eq!(["judged", "unjudged"].map(there), [false, true]);
        Ok(())
    });
}

/// SIGTERM, five seconds, SIGKILL.
#[test]
fn a_dropped_client_ends_a_child_that_ignores_it() {
    story(|given| {
        let story = begin(given)?;
        let stubborn = script(
            &story,
            "trap '' TERM; echo $$ > pid; read -r request; while :; do sleep 0.1; done",
        );
        run(async {
            let limit = Duration::from_secs(1);
            let started = claude(&story)
                .program(stubborn)
                .start_timeout(limit)
                .start();
            assert!(matches!(started.await, Err(Error::NoAnswer { .. })));
            wait_gone(pid_in(&story)).await;
        });
        Ok(())
    });
}

#[test]
fn a_dropped_client_leaves_no_process() {
    story(|given| {
        let story = begin(given.on("wait", [gate("shut").then(say("too late"))]))?;
        run(async {
            let mut claude = claude(&story).start().await.expect("start");
            let pid = claude.pid().expect("a pid");
            let turn = claude.ask("wait").await.expect("ask");
            tokio::task::block_in_place(|| story.model.wait_at("shut"));
            drop(turn);
            drop(claude);
            wait_gone(pid).await;
        });
        Ok(())
    });
}

#[test]
fn a_child_that_never_answers_times_out() {
    story(|given| {
        let story = begin(given)?;
        let silent = script(
            &story,
            "echo $$ > pid; echo 'thinking hard' >&2; exec sleep 600",
        );
        run(async {
            let limit = Duration::from_secs(1);
            let started = claude(&story).program(silent).start_timeout(limit).start();
            let error = started.await.expect_err("no answer").to_string();
            let expected =
                "Claude Code did not answer `initialize` within 1s\nstderr: thinking hard";
            assert_eq!(error, expected);
            wait_gone(pid_in(&story)).await;
        });
        Ok(())
    });
}

#[test]
fn a_program_that_cannot_start_is_named() {
    story(|given| {
        let story = begin(given)?;
        // The child of the program keeps its output open.
        let failing = "sleep 600 & echo $! > pid; echo 'no licence' >&2; exit 3";
        let failing = script(&story, failing);
        run(async {
            let missing = Claude::builder()
                .program("/nonexistent/claude")
                .start()
                .await;
            let error = missing.expect_err("it is not there").to_string();
            assert_eq!(
                error,
                "could not start /nonexistent/claude: No such file or directory (os error 2)"
            );
            let nowhere = Claude::builder().program("/bin/true").cwd("/nonexistent");
            let error = nowhere.start().await.expect_err("it is not there");
            assert_eq!(
                format!("{error:?}"),
                "there is no folder /nonexistent\nhint: Builder::cwd",
                "`main` prints an error by `Debug`"
            );
            let failed = claude(&story).program(failing).start().await;
            let error = failed.expect_err("it fails").to_string();
            assert_eq!(
                error,
                "Claude Code ended (exit status: 3)\nstderr: no licence"
            );
            kill_process(pid_of(pid_in(&story)), Signal::KILL).expect("end the sleep");
            let nowhere = Claude::builder()
                .env("PATH", "/nonexistent")
                .env("HOME", "/nonexistent");
            assert!(matches!(nowhere.start().await, Err(Error::NotFound)));
        });
        Ok(())
    });
}

#[test]
fn output_that_ends_within_a_line_is_an_error() {
    story(|given| {
        let story = begin(given.on("look", [say("x".repeat(40_000))]))?;
        // The answer to initialize passes whole, the model's reply does not.
        let cut = "mkfifo out; exec 3<&0; \"$CLAUDE\" \"$@\" <&3 >out & \
            exec dd bs=1 count=50000 status=none <out";
        let cut = script(&story, cut);
        run(async {
            let mut claude = claude(&story).program(cut).start().await.expect("start");
            let mut turn = claude.ask("look").await.expect("ask");
            let mut errors = Vec::new();
            while let Some(message) = turn.next().await {
                errors.extend(message.err());
            }
            let [Error::Cut { bytes }, Error::Ended { .. }] = &errors[..] else {
                panic!("{errors:?}");
            };
            assert!(*bytes > 0);
        });
        Ok(())
    });
}

#[test]
fn a_message_over_the_bound_is_an_error_and_the_turn_goes_on() {
    story(|given| {
        let long = format!("echo {}", "x".repeat(60_000));
        let story = begin(
            given
                .on("look", [bash(&long), say("done")])
                .on("again", [say("fine")]),
        )?;
        run(async {
            let mut claude = claude(&story)
                .max_message(50_000)
                .on(PreToolUse, Any, |_, _| async { Ok(Answer::none()) })
                .start()
                .await
                .expect("start");
            let mut turn = claude.ask("look").await.expect("ask");
            let (mut kinds, mut texts) = (Vec::new(), Vec::new());
            while let Some(message) = turn.next().await {
                match message {
                    Err(Error::TooLong { kind, .. }) => kinds.push(kind),
                    message => texts.push(message.expect("a message").text()),
                }
            }
            drop(turn);
            // The result contains the denied call, and still ends the turn.
            assert_eq!(kinds, ["assistant", "control_request", "result"]);
            assert!(texts.iter().any(|text| text == "done"), "{texts:?}");
            assert_eq!(ask(&mut claude, "again").await.subtype(), "success");
        });
        let result = &story.model.turns()[1].tool_results()[0];
        assert!(
            result.is_error,
            "no callback judged it, and the hook is closed: {}",
            result.text
        );
        Ok(())
    });
}

/// Runs one Bash call with this hook and a second, working one; returns the messages.
fn run_with(story: &Story, hook: Hook) -> Vec<Message> {
    run(async {
        let mut claude = claude(story)
            .hook(hook)
            .on(Stop, Any, |_, _| async {
                Ok(Answer::none().with_message("still here"))
            })
            .start()
            .await
            .expect("start");
        all(claude.ask("look").await.expect("ask")).await
    })
}

/// Returns the tool result that the model got.
fn tool_result(story: &Story) -> (bool, String) {
    let result = story.model.turns()[1].tool_results()[0].clone();
    (result.is_error, result.text)
}

/// Returns true if Claude Code warned that a callback failed.
fn warned(messages: &[Message]) -> bool {
    messages
        .iter()
        .any(|message| message.json()["tag"] == "hook_callback_failed")
}

macro_rules! story_of {
    ($given:ident) => {
        begin($given.on("look", [bash("echo ran"), say("done")]))?
    };
}

#[test]
fn a_panic_fails_its_call_only() {
    story(|given| {
        let story = story_of!(given);
        run_with(
            &story,
            Hook::new(PreToolUse, "Bash", |call, _| async move {
                assert_eq!(call.tool_name, "Read", "the test panics");
                Ok(Answer::none())
            }),
        );
        let (is_error, text) = tool_result(&story);
        assert!(
            is_error && text.contains("hook_panicked: hook_1 panicked: "),
            "{text}"
        );
        assert!(text.contains("the test panics"), "{text}");
        Ok(())
    });
}

#[test]
fn a_hanging_callback_is_refused_in_time() {
    story(|given| {
        let story = story_of!(given);
        let hook =
            Hook::new(PreToolUse, "Bash", |_, _| pending()).timeout(Duration::from_millis(300));
        let messages = run_with(&story, hook);
        let (is_error, text) = tool_result(&story);
        let ours = "hook_timeout: hook_1 did not answer within 300ms";
        assert!(is_error && text.contains(ours), "{text}");
        assert!(!warned(&messages), "we answered before Claude Code gave up");
        Ok(())
    });
}

/// A callback that blocks the only thread silences the client. Claude Code then refuses the call.
#[test]
fn a_client_that_never_answers_is_refused_by_claude_code() {
    story(|given| {
        let story = story_of!(given);
        let (release, blocked) = std::sync::mpsc::channel::<()>();
        let blocked = Mutex::new(blocked);
        let hook = Hook::new(PreToolUse, "Bash", move |_, _| {
            let _ = blocked.lock().expect("one call").recv();
            async { Ok(Answer::none()) }
        });
        let hook = hook.timeout(Duration::from_millis(100));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        std::thread::scope(|threads| {
            threads.spawn(|| {
                story.model.wait_for("the refused call", |requests| {
                    (requests.len() > 1).then_some(())
                });
                drop(release);
            });
            runtime.block_on(async {
                let mut claude = claude(&story).hook(hook).start().await.expect("start");
                assert_eq!(ask(&mut claude, "look").await.text(), "done");
            });
        });
        let (is_error, text) = tool_result(&story);
        let theirs = "did not respond before its timeout";
        assert!(is_error && text.contains(theirs), "{text}");
        Ok(())
    });
}

#[test]
fn an_open_hook_that_hangs_lets_the_call_go_on() {
    story(|given| {
        let story = story_of!(given);
        let hook = Hook::new(PreToolUse, "Bash", |_, _| pending())
            .timeout(Duration::from_millis(300))
            .on_failure(OnFailure::Open);
        let messages = run_with(&story, hook);
        assert_eq!(tool_result(&story), (false, "ran".to_owned()));
        assert!(warned(&messages), "{messages:?}");
        Ok(())
    });
}

#[test]
fn invalid_answers_are_not_sent() {
    let wrong = [
        (
            Answer::json(json!("yes")),
            "the answer is JSON, but no object",
        ),
        (
            Answer::json(json!({"continue": "no"})),
            "continue must be true or false",
        ),
        (
            Answer::json(json!({"decison": "block"})),
            "a PreToolUse event takes no `decison`",
        ),
        (
            Answer::json(json!({"hookSpecificOutput": {"hookEventName": "Stop"}})),
            "the hook answered \"Stop\" to PreToolUse",
        ),
        (Answer::block("x"), "a PreToolUse event takes no block"),
    ];
    for (answer, why) in wrong {
        story(|given| {
            let story = story_of!(given);
            run_with(
                &story,
                Hook::new(PreToolUse, "Bash", move |_, _| {
                    let answer = answer.clone();
                    async move { Ok(answer) }
                }),
            );
            let (is_error, text) = tool_result(&story);
            assert!(
                is_error && text.contains("hook_execution_error: "),
                "{text}"
            );
            assert!(text.contains(why), "{text}");
            Ok(())
        });
    }
}

#[test]
fn an_error_after_the_call_changes_nothing_but_is_shown() {
    story(|given| {
        let story = story_of!(given);
        let messages = run_with(
            &story,
            Hook::new(PostToolUse, Any, |_, _| async {
                Err("the log is full".into())
            }),
        );
        assert_eq!(tool_result(&story), (false, "ran".to_owned()));
        assert!(warned(&messages), "{messages:?}");
        Ok(())
    });
}

/// A turn's deadline bounds its callbacks, and not those of the next turn.
#[test]
fn a_turn_may_have_a_deadline() {
    story(|given| {
        let given = given.on("slowly", [bash("echo slow"), say("done")]);
        let story = begin(given.on("again", [bash("echo again"), say("done")]))?;
        run(async {
            let mut claude = claude(&story)
                .on(PreToolUse, Any, |call, _| async move {
                    if call.tool_input["command"] == "echo slow" {
                        pending::<()>().await;
                    }
                    Ok(Answer::none())
                })
                .start()
                .await
                .expect("start");
            let turn = claude.ask("slowly").deadline(Duration::from_secs(1)).await;
            turn.expect("ask").result().await.expect("a result");
            all(claude.ask("again").await.expect("ask")).await;
        });
        let turns = story.model.turns();
        let text = &turns[1].tool_results()[0].text;
        assert!(text.contains("hook_timeout: "), "{text}");
        assert_eq!(turns[3].tool_results()[0].text, "again");
        Ok(())
    });
}
