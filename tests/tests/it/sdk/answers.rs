//! Answers of callbacks take effect; interrupts and changes during a turn.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use becket_sdk::{
    Answer, Any, Context, DirectoryAdded, Ended, Error, Hook, Permission, PermissionMode,
    PermissionRequest, PostToolUse, PreModelSwitch, PreToolUse, Stop, UserPromptSubmit,
    block_patterns,
};
use becket_tests::model::{bash, gate, say, tools, write};
use becket_tests::story::story;
use serde_json::json;
use tokio::sync::{mpsc, oneshot};

use super::{all, ask, begin, claude, run};

#[test]
fn a_denied_call_does_not_run_and_the_model_gets_the_reason() {
    story(|given| {
        let story = begin(given.on("tidy up", [bash("rm -rf build"), say("could not")]))?;
        story.home.file("build/keep", "x");
        let result = run(async {
            let mut claude = claude(&story)
                .on(PreToolUse, "Bash", block_patterns(["rm -rf"]))
                .start()
                .await
                .expect("start");
            let result = ask(&mut claude, "tidy up").await;
            claude.close().await.expect("close");
            result
        });

        assert_eq!(result.text(), "could not");
        assert!(story.home.project().join("build/keep").exists());
        let result = &story.model.turns()[1].tool_results()[0];
        let reason = "Command contains forbidden pattern: rm -rf";
        assert!(
            result.is_error && result.text.contains(reason),
            "{result:?}"
        );
        Ok(())
    });
}

/// A stop ends the turn, and only a deny prevents the call.
#[test]
fn a_stop_ends_the_turn() {
    for (answer, runs) in [
        (Answer::stop("enough"), true),
        (Answer::deny("not here").with_stop("enough"), false),
    ] {
        story(|given| {
            let story = begin(given.on("work", [bash("touch made"), say("done")]))?;
            let answer = answer.clone();
            let result = run(async {
                let mut claude = claude(&story)
                    .on(PreToolUse, "Bash", move |_, _| {
                        let answer = answer.clone();
                        async move { Ok(answer) }
                    })
                    .start()
                    .await
                    .expect("start");
                ask(&mut claude, "work").await
            });
            assert_eq!(result.terminal_reason(), Some("hook_stopped"));
            assert_eq!(story.model.turns().len(), 1, "the model is not asked again");
            assert_eq!(story.home.project().join("made").exists(), runs);
            Ok(())
        });
    }
}

/// A field that the SDK refuses reaches Claude Code by `raw`.
#[test]
fn a_raw_answer_is_sent_unchanged() {
    story(|given| {
        let story = begin(given.on("work", [bash("touch made"), say("done")]))?;
        let result = run(async {
            let mut claude = claude(&story)
                .on(PreToolUse, "Bash", |_, _| async {
                    Ok(Answer::raw(json!({
                        "suppressOutput": true,
                        "hookSpecificOutput": {
                            "hookEventName": "PreToolUse",
                            "permissionDecision": "deny",
                            "permissionDecisionReason": "raw",
                            "newField": 1,
                        },
                    })))
                })
                .start()
                .await
                .expect("start");
            ask(&mut claude, "work").await
        });
        assert_eq!(result.text(), "done");
        let result = &story.model.turns()[1].tool_results()[0];
        assert!(result.is_error && result.text.contains("raw"), "{result:?}");
        Ok(())
    });
}

#[test]
fn a_rewritten_input_is_what_runs() {
    story(|given| {
        let story = begin(given.on("greet", [bash("echo hello"), say("done")]))?;
        run(async {
            let mut claude = claude(&story)
                .on(PreToolUse, "Bash", |call, _| async move {
                    let mut input = call.tool_input.as_object().cloned().unwrap_or_default();
                    input.insert("command".into(), "echo rewritten".into());
                    Ok(Answer::rewrite(input))
                })
                .start()
                .await
                .expect("start");
            ask(&mut claude, "greet").await;
        });

        let result = &story.model.turns()[1].tool_results()[0];
        assert_eq!(result.text.trim(), "rewritten");
        Ok(())
    });
}

#[test]
fn context_reaches_the_model() {
    story(|given| {
        let story = begin(given.on("look", [bash("echo x"), say("done")]))?;
        run(async {
            let mut claude = claude(&story)
                .on(UserPromptSubmit, Any, |_, _| async {
                    Ok(Answer::context("the wind is west"))
                })
                .on(PostToolUse, Any, |event, _| async move {
                    Ok(Answer::context(format!("{} was noted", event.tool_name)))
                })
                .start()
                .await
                .expect("start");
            ask(&mut claude, "look").await;
        });

        let turns = story.model.turns();
        assert!(turns[0].contains("the wind is west"));
        assert!(turns[1].contains("Bash was noted"));
        Ok(())
    });
}

#[test]
fn a_blocked_stop_goes_on() {
    story(|given| {
        let story = begin(given.on("finish", [say("done?"), say("really done")]))?;
        let stops = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&stops);
        let result = run(async {
            let mut claude = claude(&story)
                .on(Stop, Any, move |event, _| {
                    let active = event.stop_hook_active == Some(true);
                    seen.lock().expect("stops").push(active);
                    async move {
                        Ok(if active {
                            Answer::none()
                        } else {
                            Answer::block("run the tests first")
                        })
                    }
                })
                .start()
                .await
                .expect("start");
            ask(&mut claude, "finish").await
        });

        assert_eq!(result.text(), "really done");
        assert!(story.model.turns()[1].contains("run the tests first"));
        assert_eq!(*stops.lock().expect("stops"), [false, true]);
        Ok(())
    });
}

#[test]
fn the_permission_callback_answers_permission_dialogs() {
    story(|given| {
        let calls = tools([
            bash("touch allowed"),
            bash("touch changed"),
            bash("touch denied"),
        ]);
        let story = begin(given.on("make files", [calls, say("done")]))?;
        let contexts: Arc<Mutex<Vec<Context>>> = Arc::default();
        let seen = Arc::clone(&contexts);
        run(async {
            let mut claude = claude(&story)
                .permission_mode("default")
                .can_use_tool(move |request, ctx| {
                    seen.lock().expect("contexts").push(ctx);
                    async move {
                        Ok(match request.input["command"].as_str() {
                            Some("touch allowed") => Permission::allow(),
                            Some("touch changed") => {
                                Permission::allow_with(json!({"command": "touch instead"}))
                            }
                            _ => Permission::deny("no more files"),
                        })
                    }
                })
                .start()
                .await
                .expect("start");
            ask(&mut claude, "make files").await;
        });

        let there = |name: &str| story.home.project().join(name).exists();
        assert_eq!(
            ["allowed", "instead", "changed", "denied"].map(there),
            [true, true, false, false]
        );
        let results = story.model.turns()[1].tool_results();
        assert!(
            results[2].is_error && results[2].text.contains("no more files"),
            "{results:?}"
        );
        let contexts = contexts.lock().expect("contexts");
        assert!(
            contexts
                .iter()
                .all(|ctx| ctx.tool_use_id.is_some() && ctx.session_id.is_some())
        );
        assert_eq!(contexts[0].cwd, Some(story.home.project()));
        assert_eq!(contexts[0].callback_id, "can_use_tool");
        Ok(())
    });
}

#[test]
fn a_permission_request_hook_decides_too() {
    story(|given| {
        let story = begin(given.on("make a file", [bash("touch made"), say("done")]))?;
        run(async {
            let mut claude = claude(&story)
                .permission_mode("default")
                .on(PermissionRequest, "Bash", |_, _| async {
                    Ok(Answer::allow("asked for"))
                })
                .start()
                .await
                .expect("start");
            ask(&mut claude, "make a file").await;
        });
        assert!(story.home.project().join("made").exists());
        Ok(())
    });
}

#[test]
fn a_matching_callback_gets_the_context_of_its_call() {
    story(|given| {
        let story = begin(given.on("look", [bash("echo x"), say("done")]))?;
        let contexts: Arc<Mutex<Vec<Context>>> = Arc::default();
        let seen = Arc::clone(&contexts);
        let result = run(async {
            let mut claude = claude(&story)
                .on(Stop, Any, |_, _| async { Ok(Answer::none()) })
                .on(PreToolUse, "Read|Write", |_, _| async {
                    Ok(Answer::deny("it matches Bash, too"))
                })
                .on(PreToolUse, "^Ba.*", move |_, ctx| {
                    seen.lock().expect("contexts").push(ctx);
                    async { Ok(Answer::none()) }
                })
                .start()
                .await
                .expect("start");
            ask(&mut claude, "look").await
        });

        let contexts = contexts.lock().expect("contexts");
        let [context] = &contexts[..] else {
            panic!("{contexts:?}");
        };
        assert!(!story.model.turns()[1].tool_results()[0].is_error);
        assert_eq!(context.callback_id, "hook_3");
        assert_eq!(context.session_id.as_deref(), Some(result.session_id()));
        assert_eq!(context.cwd, Some(story.home.project()));
        assert_eq!(context.agent_id, None);
        assert_eq!(context.ended(), None);
        let mode = context.permission_mode.as_ref().map(PermissionMode::as_str);
        assert_eq!(mode, Some("bypassPermissions"));
        assert!(
            context
                .tool_use_id
                .as_ref()
                .is_some_and(|id| id.starts_with("toolu"))
        );
        let transcript = context.transcript_path.as_ref().expect("a transcript");
        assert!(transcript.starts_with(story.home.config()));
        Ok(())
    });
}

#[test]
fn twenty_callbacks_run_side_by_side() {
    story(|given| {
        let story = begin(given.on("look", [bash("echo x"), say("done")]))?;
        // Each callback waits for all others: one after the other, they would wait for ever.
        let barrier = Arc::new(tokio::sync::Barrier::new(20));
        let answered = Arc::new(AtomicUsize::new(0));
        run(async {
            let mut builder = claude(&story);
            for _ in 0..20 {
                let (barrier, answered) = (Arc::clone(&barrier), Arc::clone(&answered));
                builder = builder.on(PreToolUse, "Bash", move |_, _| {
                    let (barrier, answered) = (Arc::clone(&barrier), Arc::clone(&answered));
                    async move {
                        barrier.wait().await;
                        answered.fetch_add(1, Ordering::Relaxed);
                        Ok(Answer::none())
                    }
                });
            }
            let mut claude = builder.start().await.expect("start");
            ask(&mut claude, "look").await;
        });
        assert_eq!(answered.load(Ordering::Relaxed), 20);
        assert!(!story.model.turns()[1].tool_results()[0].is_error);
        Ok(())
    });
}

#[test]
fn a_large_input_passes_whole() {
    story(|given| {
        let content = "0123456789\n".repeat(300 * 1024 / 11);
        let turns = [write("large.txt", &content), say("done")];
        let story = begin(given.on("write it", turns))?;
        let length = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&length);
        run(async {
            let mut claude = claude(&story)
                .on(PreToolUse, "Write", move |call, _| {
                    let content = call.tool_input["content"].as_str().unwrap_or_default();
                    seen.store(content.len(), Ordering::Relaxed);
                    async { Ok(Answer::none()) }
                })
                .start()
                .await
                .expect("start");
            ask(&mut claude, "write it").await;
        });
        assert_eq!(length.load(Ordering::Relaxed), content.len());
        Ok(())
    });
}

/// Sends the reason for the end of its call through a channel.
struct Cleanup(Context, Option<oneshot::Sender<Option<Ended>>>);

impl Drop for Cleanup {
    fn drop(&mut self) {
        if let Some(sender) = self.1.take() {
            let _ = sender.send(self.0.ended());
        }
    }
}

/// For each call, the reason of its end.
pub(super) type Calls = mpsc::UnboundedReceiver<oneshot::Receiver<Option<Ended>>>;

/// Returns a PreToolUse hook that reports its calls and never answers.
pub(super) fn hanging() -> (Hook, Calls) {
    let (called, calls) = mpsc::unbounded_channel();
    let hook = Hook::new(PreToolUse, Any, move |_, ctx| {
        let (sender, receiver) = oneshot::channel();
        let cleanup = Cleanup(ctx, Some(sender));
        let _ = called.send(receiver);
        async move {
            let _cleanup = cleanup;
            std::future::pending().await
        }
    });
    (hook, calls)
}

#[test]
fn an_interrupt_cancels_the_running_callback() {
    story(|given| {
        let given = given.on("look", [bash("echo x"), say("done")]);
        let story = begin(given.on("again", [say("fine")]))?;
        let (hook, mut calls) = hanging();
        run(async {
            let mut claude = claude(&story).hook(hook).start().await.expect("start");
            let control = claude.control();
            let turn = claude.ask("look").await.expect("ask");
            let ended = calls.recv().await.expect("a call");
            control.interrupt().await.expect("interrupt");
            assert_eq!(ended.await, Ok(Some(Ended::Cancelled)));
            let result = turn.result().await.expect("a result");
            assert!(result.is_error(), "{result:?}");
            assert_eq!(ask(&mut claude, "again").await.text(), "fine");
        });
        Ok(())
    });
}

#[test]
fn a_dropped_turn_cancels_its_callbacks_and_the_next_one_works() {
    story(|given| {
        let given = given.on("look", [bash("echo x"), say("done")]);
        let story = begin(given.on("again", [say("fine")]))?;
        let (hook, mut calls) = hanging();
        run(async {
            let mut claude = claude(&story).hook(hook).start().await.expect("start");
            let turn = claude.ask("look").await.expect("ask");
            let ended = calls.recv().await.expect("a call");
            drop(turn);
            assert_eq!(ended.await, Ok(Some(Ended::Cancelled)));
            let messages = all(claude.ask("again").await.expect("ask")).await;
            assert!(
                messages.iter().any(|message| message.text() == "fine"),
                "{messages:?}"
            );
        });
        Ok(())
    });
}

#[test]
fn a_model_call_can_be_interrupted() {
    story(|given| {
        let given = given.on("wait", [gate("shut").then(say("too late"))]);
        let story = begin(given.on("again", [say("fine")]))?;
        let stopped = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let seen = Arc::clone(&stopped);
        run(async {
            let mut claude = claude(&story)
                .on(Stop, Any, move |_, _| {
                    seen.store(true, Ordering::Relaxed);
                    async { Ok(Answer::none()) }
                })
                .start()
                .await
                .expect("start");
            let turn = claude.ask("wait").await.expect("ask");
            tokio::task::block_in_place(|| story.model.wait_at("shut"));
            turn.interrupt().await.expect("interrupt");
            let result = turn.result().await.expect("a result");
            assert!(result.is_error(), "{result:?}");
            assert_eq!(result.terminal_reason(), Some("aborted_streaming"));
            let end = (result.text(), result.subtype());
            assert_eq!(end, ("", "error_during_execution"));
            assert!(!stopped.load(Ordering::Relaxed), "no Stop");
            assert_eq!(ask(&mut claude, "again").await.text(), "fine");
        });
        Ok(())
    });
}

#[test]
fn mode_and_model_change_during_a_session() {
    story(|given| {
        let given = given.on("first", [bash("touch one"), say("done")]);
        let story = begin(given.on("second", [bash("touch two"), say("done")]))?;
        run(async {
            let mut claude = claude(&story)
                .on(PreModelSwitch, Any, |event, _| async move {
                    Ok(match event.to_model.as_deref() {
                        Some(model) if model.contains("haiku") => Answer::deny("too small"),
                        _ => Answer::none(),
                    })
                })
                .start()
                .await
                .expect("start");
            ask(&mut claude, "first").await;
            claude
                .set_model("claude-sonnet-4-5")
                .await
                .expect("set the model");
            let refused = claude.set_model("claude-haiku-4-5").await;
            assert!(
                matches!(&refused, Err(Error::Refused { .. })),
                "{refused:?}"
            );
            let plan = claude.set_permission_mode(PermissionMode::Plan).await;
            plan.expect("set the mode");
            ask(&mut claude, "second").await;
            let wrong = claude.set_permission_mode("nonsense").await;
            assert!(matches!(&wrong, Err(Error::Refused { .. })), "{wrong:?}");
            let unknown = json!({"subtype": "nonsense"});
            let unknown = claude.control().request(unknown).await;
            assert!(
                matches!(&unknown, Err(Error::Refused { .. })),
                "{unknown:?}"
            );
        });
        let turns = story.model.turns();
        assert!(
            !turns[1].model().contains("sonnet-4-5"),
            "{}",
            turns[1].model()
        );
        assert!(
            turns[2].model().contains("sonnet-4-5"),
            "{}",
            turns[2].model()
        );
        assert!(story.home.project().join("one").exists());
        assert!(!story.home.project().join("two").exists(), "it only plans");
        Ok(())
    });
}

/// Claude Code loses some of the interrupts that come before it has begun the turn.
#[test]
fn a_turn_can_be_interrupted_or_dropped_at_once() {
    story(|given| {
        let shut = (0..20).map(|_| gate("shut").then(say("too late")));
        let fine = (0..20).map(|_| say("fine"));
        let story = begin(given.on("wait", shut).on("again", fine))?;
        run(async {
            let mut claude = claude(&story).start().await.expect("start");
            for _ in 0..5 {
                let turn = claude.ask("wait").await.expect("ask");
                turn.interrupt().await.expect("interrupt");
                assert!(turn.result().await.expect("a result").is_error());
                assert_eq!(ask(&mut claude, "again").await.text(), "fine");
                drop(claude.ask("wait").await.expect("ask"));
                assert_eq!(ask(&mut claude, "again").await.text(), "fine");
            }
            let turn = claude.ask("wait").await.expect("ask");
            turn.interrupt().await.expect("interrupt");
            turn.result().await.expect("a result");
            claude.close().await.expect("an interrupt is no failure");
        });
        Ok(())
    });
}

/// The other requests of the recorded transcripts, which have no function of their own.
#[test]
fn requests_without_a_function_are_answered() {
    story(|given| {
        let story = begin(given.on("look", [say("done")]))?;
        let other = story.home.file("other/x", "");
        let folder = other.parent().expect("a folder").display().to_string();
        let (added, mut folders) = mpsc::unbounded_channel();
        run(async {
            let mut claude = claude(&story)
                .on(DirectoryAdded, Any, move |event, _| {
                    let _ = added.send(event.directory);
                    async { Ok(Answer::none()) }
                })
                .start()
                .await
                .expect("start");
            ask(&mut claude, "look").await;
            let control = claude.control();
            let request = async |body| control.request(body).await.expect("an answer");
            let listing = request(json!({"subtype": "get_hooks_listing"})).await;
            let events = listing["eventCatalog"].as_array().map(Vec::len);
            assert_eq!(events, Some(33), "{listing}");
            let servers = request(json!({"subtype": "mcp_status"})).await;
            assert_eq!(servers, json!({"mcpServers": []}));
            request(json!({"subtype": "register_repo_root", "directory": folder})).await;
            assert_eq!(folders.recv().await, Some(Some(folder)));
        });
        Ok(())
    });
}
