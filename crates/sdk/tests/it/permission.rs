//! The permission callback.

use becket_sdk::{Builder, Claude, Permission};
use serde_json::json;

use crate::peer::Peer;

#[tokio::test(start_paused = true)]
async fn a_permission_callback_that_fails_denies() {
    let ask = json!({"type": "control_request", "request_id": "r1", "request": {
        "subtype": "can_use_tool", "tool_name": "Bash", "input": {"command": "ls"},
    }});
    let builders: [(Builder, &str); 3] = [
        (
            Claude::builder().can_use_tool(|_, _| async { Err("no rule".into()) }),
            "hook_execution_error: no rule",
        ),
        (
            Claude::builder().can_use_tool(|_, _| async { panic!("x") }),
            "hook_panicked: ",
        ),
        (
            Claude::builder().can_use_tool(|_, _| std::future::pending()),
            "hook_timeout: ",
        ),
    ];
    for (builder, code) in builders {
        let (mut peer, _claude, _) = Peer::initialized(builder).await;
        peer.send(&ask).await;
        let answer = peer.receive().await["response"]["response"].clone();
        assert_eq!(answer["behavior"], "deny");
        assert!(
            answer["message"].as_str().expect("why").starts_with(code),
            "{answer}"
        );
    }
    let builder = Claude::builder().can_use_tool(|_, _| async { Ok(Permission::allow()) });
    let (mut peer, _claude, _) = Peer::initialized(builder).await;
    peer.send(&ask).await;
    let answer = peer.receive().await["response"]["response"].clone();
    assert_eq!(
        answer,
        json!({"behavior": "allow", "updatedInput": {"command": "ls"}})
    );
}
