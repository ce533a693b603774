//! The initialize request of a client, and registrations that are refused.

use std::time::Duration;

use becket_sdk::{
    Answer, Any, Claude, Error, Event, EventName, Hook, OnFailure, PermissionRequest, PostToolUse,
    PreToolUse, SessionEnd, SessionStart, Setup, Stop,
};
use serde_json::json;

use crate::peer::Peer;

#[tokio::test]
async fn hooks_are_registered_in_order_with_their_limits() {
    let quiet = |event: EventName| {
        Hook::new(event, "Bash|Read", |_: Event, _| async {
            Ok(Answer::none())
        })
    };
    let builder = Claude::builder()
        .timeout(Duration::from_millis(9_500))
        .on(PreToolUse, "Bash", |_, _| async { Ok(Answer::none()) })
        .on(PostToolUse, Any, |_, _| async { Ok(Answer::none()) })
        .on(PermissionRequest, "*", |_, _| async { Ok(Answer::none()) })
        .hook(
            quiet(EventName::PreToolUse)
                .timeout(Duration::from_secs(2))
                .on_failure(OnFailure::Open),
        )
        .hook(quiet(EventName::Stop).on_failure(OnFailure::Closed));
    let (_peer, _claude, initialize) = Peer::initialized(builder).await;
    assert_eq!(
        initialize,
        json!({"subtype": "initialize", "hooks": {
            "PreToolUse": [
                {"matcher": "Bash", "hookCallbackIds": ["hook_1"], "timeout": 15, "onFailure": "block"},
                {"matcher": "Bash|Read", "hookCallbackIds": ["hook_4"], "timeout": 7},
            ],
            "PostToolUse": [{"matcher": null, "hookCallbackIds": ["hook_2"], "timeout": 15}],
            "PermissionRequest": [
                {"matcher": null, "hookCallbackIds": ["hook_3"], "timeout": 15, "onFailure": "block"},
            ],
            "Stop": [
                {"matcher": "Bash|Read", "hookCallbackIds": ["hook_5"], "timeout": 15, "onFailure": "block"},
            ],
        }})
    );
}

/// A turn's deadline may be later than the default timeout, so Claude Code must not give up earlier.
#[tokio::test]
async fn without_a_timeout_claude_code_gets_the_longest_one() {
    let builder = Claude::builder().on(Stop, Any, |_, _| async { Ok(Answer::none()) });
    let (_peer, _claude, initialize) = Peer::initialized(builder).await;
    let days = initialize["hooks"]["Stop"][0]["timeout"]
        .as_u64()
        .expect("seconds")
        / 86_400;
    assert_eq!(days, 24, "the longest that its timers can");
}

#[tokio::test]
async fn events_that_are_never_delivered_are_refused() {
    let hooks = [
        Hook::new(SessionStart, Any, |_, _| async { Ok(Answer::none()) }),
        Hook::new(SessionEnd, Any, |_, _| async { Ok(Answer::none()) }),
        Hook::new(Setup, Any, |_, _| async { Ok(Answer::none()) }),
    ];
    for hook in hooks {
        let refused = Claude::builder()
            .hook(hook)
            .connect(tokio::io::empty(), tokio::io::sink());
        let error = refused.await.expect_err("it is refused");
        assert!(matches!(error, Error::NeverCalled { .. }), "{error}");
        assert!(error.to_string().contains("\nhint: "), "{error}");
    }
    let hook = Hook::new(EventName::SessionStart, Any, |_: Event, _| async {
        Ok(Answer::none())
    });
    let refused = Claude::builder()
        .hook(hook)
        .connect(tokio::io::empty(), tokio::io::sink());
    assert_eq!(
        refused.await.expect_err("it is refused").to_string(),
        "Claude Code never calls SessionStart callbacks\n\
         hint: use a command hook in `Builder::settings`, or `Builder::append_system_prompt` for context"
    );
}

#[tokio::test]
async fn hooks_that_are_not_confirmed_are_an_error() {
    for answer in [json!({"hooks_applied": false}), json!({})] {
        let builder = Claude::builder().on(Stop, Any, |_, _| async { Ok(Answer::none()) });
        let (mut peer, client) = Peer::new(builder);
        let initialize = peer.receive().await;
        peer.answer(&initialize, answer).await;
        let started = client.await.expect("join");
        assert!(
            matches!(started, Err(Error::HooksNotApplied)),
            "{started:?}"
        );
    }
    let (mut peer, client) = Peer::new(Claude::builder());
    let initialize = peer.receive().await;
    assert_eq!(
        initialize["request"]["hooks"],
        json!(null),
        "there are none"
    );
    peer.answer(&initialize, json!({})).await;
    assert!(client.await.expect("join").is_ok());
}

#[tokio::test]
async fn an_old_version_is_refused() {
    let (mut peer, client) = Peer::new(Claude::builder());
    let initialize = peer.receive().await;
    peer.answer(&initialize, json!({"claude_code_version": "1.0.128"}))
        .await;
    let error = client
        .await
        .expect("join")
        .expect_err("too old")
        .to_string();
    assert!(
        error.starts_with("Claude Code 1.0.128 is too old"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn starting_fails_if_the_peer_never_answers() {
    let (mut peer, client) = Peer::new(Claude::builder().start_timeout(Duration::from_secs(3)));
    peer.receive().await;
    let error = client
        .await
        .expect("join")
        .expect_err("no answer")
        .to_string();
    assert_eq!(error, "Claude Code did not answer `initialize` within 3s");
}
