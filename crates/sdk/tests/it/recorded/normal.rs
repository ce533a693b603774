//! The long transcript: every event, and requests of both sides.

use becket_sdk::{Answer, Any, Builder, Claude, Event, EventName, Permission, PermissionMode};
use serde_json::json;

use super::Player;

/// Makes a client with a callback for every event that can be registered.
fn watching_everything() -> Builder {
    let never = [
        "SessionStart",
        "SessionEnd",
        "Setup",
        "WorktreeCreate",
        "WorktreeRemove",
    ];
    let events = EventName::ALL.into_iter();
    let events = events.filter(|event| !never.contains(&event.as_str()));
    let builder = events.fold(Claude::builder(), |builder, event| {
        builder.on(event, Any, |_: Event, _| async { Ok(Answer::none()) })
    });
    builder.can_use_tool(|_, _| async { Ok(Permission::allow()) })
}

#[tokio::test]
async fn normal() {
    let (player, mut claude) = Player::begin("normal", watching_everything()).await;
    let listing = json!({
        "type": "control_request", "request_id": "req_2_lab",
        "request": {"subtype": "get_hooks_listing"},
    });
    let playing = tokio::spawn(player.play(Some(listing), |_, _| false));
    let control = claude.control();
    let request = async |body| control.request(body).await.expect("an answer");
    request(json!({"subtype": "get_hooks_listing"})).await;
    let turn = claude.ask("BASHOK please").await.expect("ask");
    let result = turn.result().await.expect("a result");
    assert_eq!(result.text(), "Bash ran.");
    let model = control.set_model("claude-sonnet-5-5").await;
    model.expect("the model");
    let mode = control
        .set_permission_mode(PermissionMode::AcceptEdits)
        .await;
    mode.expect("the mode");
    let folder = "/home/user/project/other_root";
    request(json!({"subtype": "register_repo_root", "directory": folder})).await;
    request(json!({"subtype": "mcp_status"})).await;
    playing.await.expect("the transcript is played to its end");
}
