//! Answers Claude Code's permission requests by a rule: `mkdir` is allowed, everything else is denied.
//!
//! `cargo run --example approve_by_rule -- "Make a folder for the docs, then delete it"`

mod print;

use becket_sdk::{Claude, Error, Permission, ToolRequest};

fn is_allowed(request: &ToolRequest, command: &str) -> bool {
    // A character that could begin a second command is reason enough to deny.
    let is_plain = !command.contains([';', '&', '|', '`', '$', '<', '>', '(', ')', '\n']);
    request.tool_name == "Bash" && is_plain && command.starts_with("mkdir ")
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let mut claude = Claude::builder()
        .can_use_tool(|request, _ctx| async move {
            let command = request.input["command"].as_str().unwrap_or_default();
            if is_allowed(&request, command) {
                println!("allowed: {command}");
                return Ok(Permission::allow());
            }
            println!("denied: {command}");
            Ok(Permission::deny("only mkdir is allowed here"))
        })
        .start()
        .await?;
    let mut turn = claude.ask(print::prompt()).await?;
    while let Some(message) = turn.next().await {
        print::show(&message?);
    }
    claude.close().await
}
