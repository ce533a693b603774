//! What a callback answers takes effect.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use becket_sdk::{
    Answer, Any, Context, Permission, PermissionMode, PermissionRequest, PostToolUse, PreToolUse,
    Stop, UserPromptSubmit, block_patterns,
};
use becket_tests::model::{bash, say, tools, write};
use becket_tests::story::story;
use serde_json::json;

use super::{ask, begin, claude, run};

#[test]
fn a_denied_call_does_not_run_and_the_model_is_told_why() {
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
                        Ok(match active {
                            true => Answer::none(),
                            false => Answer::block("run the tests first"),
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
fn the_permission_callback_decides_what_would_be_asked() {
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
fn the_context_says_where_the_call_is() {
    story(|given| {
        let story = begin(given.on("look", [bash("echo x"), say("done")]))?;
        let contexts: Arc<Mutex<Vec<Context>>> = Arc::default();
        let seen = Arc::clone(&contexts);
        let result = run(async {
            let mut claude = claude(&story)
                .on(Stop, Any, |_, _| async { Ok(Answer::none()) })
                .on(PreToolUse, Any, move |_, ctx| {
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
        assert_eq!(context.callback_id, "hook_2");
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
        // Each waits for all the others: one after the other, they would wait for ever.
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
