//! Logs each tool call with the time that it took.
//!
//! `cargo run --example log_tools -- "List the files here"`

mod print;

use becket_sdk::{
    Answer, Any, CallbackResult, Claude, Context, Error, PostToolUse, PostToolUseFailure,
    PreToolUse,
};

async fn log_begin(call: PreToolUse, _ctx: Context) -> CallbackResult {
    println!("log: {} begins: {}", call.tool_name, call.tool_input);
    Ok(Answer::none())
}

async fn log_end(call: PostToolUse, _ctx: Context) -> CallbackResult {
    let took = call.duration_ms.map(|ms| format!(" after {ms} ms"));
    println!(
        "log: {} is done{}",
        call.tool_name,
        took.unwrap_or_default()
    );
    Ok(Answer::none())
}

async fn log_failure(call: PostToolUseFailure, _ctx: Context) -> CallbackResult {
    let error = call.error.unwrap_or_default();
    println!("log: {} failed: {error}", call.tool_name);
    Ok(Answer::none())
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let mut claude = Claude::builder()
        .on(PreToolUse, Any, log_begin)
        .on(PostToolUse, Any, log_end)
        .on(PostToolUseFailure, Any, log_failure)
        .start()
        .await?;
    let mut turn = claude.ask(print::prompt()).await?;
    while let Some(message) = turn.next().await {
        print::show(&message?);
    }
    claude.close().await
}
