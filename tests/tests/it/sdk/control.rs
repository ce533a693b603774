//! Requests to Claude Code, and turns that are interrupted.

use std::sync::Arc;

use becket_sdk::{
    Answer, Any, Context, DirectoryAdded, Ended, Error, Hook, PermissionMode, PreModelSwitch,
    PreToolUse, Stop,
};
use becket_tests::model::{bash, gate, say};
use becket_tests::story::story;
use serde_json::json;
use tokio::sync::{mpsc, oneshot};

use super::{all, ask, begin, claude, run};

/// Tells through a channel why its call ended.
struct Cleanup(Context, Option<oneshot::Sender<Option<Ended>>>);

impl Drop for Cleanup {
    fn drop(&mut self) {
        if let Some(sender) = self.1.take() {
            let _ = sender.send(self.0.ended());
        }
    }
}

/// For each call, why it ended.
type Calls = mpsc::UnboundedReceiver<oneshot::Receiver<Option<Ended>>>;

/// A PreToolUse hook that says that it is called, and never answers.
fn hanging() -> (Hook, Calls) {
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
fn an_interrupt_cancels_the_callback_that_runs() {
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
                    seen.store(true, std::sync::atomic::Ordering::Relaxed);
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
            assert!(
                !stopped.load(std::sync::atomic::Ordering::Relaxed),
                "no Stop"
            );
            assert_eq!(ask(&mut claude, "again").await.text(), "fine");
        });
        Ok(())
    });
}

#[test]
fn mode_and_model_change_while_it_runs() {
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
