//! Logs each tool call with the time that it took.
//!
//! `cargo run --example log_tools -- "List the files here"`

mod print;

use becket_sdk::{Answer, Any, Claude, Error, PostToolUse, PostToolUseFailure, PreToolUse};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let mut claude = Claude::builder()
        .on(PreToolUse, Any, |call, _ctx| async move {
            println!("log: {} begins: {}", call.tool_name, call.tool_input);
            Ok(Answer::none())
        })
        .on(PostToolUse, Any, |call, _ctx| async move {
            let took = call.duration_ms.map(|ms| format!(" after {ms} ms"));
            println!(
                "log: {} is done{}",
                call.tool_name,
                took.unwrap_or_default()
            );
            Ok(Answer::none())
        })
        .on(PostToolUseFailure, Any, |call, _ctx| async move {
            println!(
                "log: {} failed: {}",
                call.tool_name,
                call.error.unwrap_or_default()
            );
            Ok(Answer::none())
        })
        .start()
        .await?;
    let mut turn = claude.ask(print::prompt()).await?;
    while let Some(message) = turn.next().await {
        print::show(&message?);
    }
    claude.close().await
}
