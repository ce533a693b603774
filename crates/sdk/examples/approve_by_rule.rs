//! Answers Claude Code's permission requests by a rule: commands that only look are allowed, everything
//! else is denied.
//!
//! `cargo run --example approve_by_rule -- "Show what changed, then delete it"`

mod shown;

use becket_sdk::{Claude, Error, Permission, ToolRequest};

/// Commands that only look.
const LOOKING: [&str; 3] = ["ls", "cat", "git status"];

fn approve(request: &ToolRequest) -> Permission {
    let command = request.input["command"].as_str().unwrap_or_default();
    // Whatever could hold a second command is not looked into.
    let plain = !command.contains([';', '&', '|', '`', '$', '<', '>', '(', ')', '\n']);
    let looks = LOOKING.iter().any(|name| {
        let rest = command.strip_prefix(name);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
    });
    match request.tool_name == "Bash" && plain && looks {
        true => Permission::allow(),
        false => Permission::deny("only commands that look are allowed here"),
    }
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let mut claude = Claude::builder()
        .can_use_tool(|request, _ctx| async move {
            let permission = approve(&request);
            println!(
                "asked: {} {} -> {permission:?}",
                request.tool_name, request.input
            );
            Ok(permission)
        })
        .start()
        .await?;
    let mut turn = claude.ask(shown::prompt()).await?;
    while let Some(message) = turn.next().await {
        shown::show(&message?);
    }
    claude.close().await
}
