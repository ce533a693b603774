//! Sends one prompt and prints the result.
//!
//! `cargo run --example query -- "What does this project do?"`

use becket_sdk::{Error, query};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let prompt = if words.is_empty() {
        "What does this project do?".to_owned()
    } else {
        words.join(" ")
    };
    let result = query(prompt).await?;
    let end = if result.is_error() { "failed" } else { "done" };
    println!("{}\n[{end}] {}", result.text(), result.session_id());
    Ok(())
}
