//! One prompt, one result.
//!
//! `cargo run --example query -- "What does this project do?"`

use becket_sdk::{Error, query};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let result = query(words.join(" ")).await?;
    println!("{}", result.text());
    println!("[{}] {}", result.subtype(), result.session_id());
    Ok(())
}
