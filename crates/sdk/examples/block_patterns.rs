//! Denies Bash commands that contain `rm -rf`, and shows the rest of the turn.
//!
//! `cargo run --example block_patterns -- "Delete the build folder with rm -rf"`

mod print;

use becket_sdk::{Claude, Error, PreToolUse, block_patterns};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let mut claude = Claude::builder()
        .on(PreToolUse, "Bash", block_patterns(["rm -rf"]))
        .start()
        .await?;
    let mut turn = claude.ask(print::prompt()).await?;
    while let Some(message) = turn.next().await {
        print::show(&message?);
    }
    claude.close().await
}
