//! What the examples print of a message.

use becket_sdk::{Block, Message};

/// Prints what a person wants to see.
pub fn show(message: &Message) {
    match message {
        Message::Assistant(chat) | Message::User(chat) => {
            chat.blocks().iter().for_each(show_block);
        }
        Message::Result(result) => {
            let end = if result.is_error() { "failed" } else { "done" };
            println!("[{end}] {}", result.session_id());
        }
        _ => {}
    }
}

fn show_block(block: &Block<'_>) {
    match block {
        Block::Text(text) => println!("{text}"),
        Block::ToolUse { name, input, .. } => println!("> {name} {input}"),
        Block::ToolResult {
            content, is_error, ..
        } => {
            let mark = if *is_error { "!" } else { "<" };
            println!("{mark} {content}");
        }
        _ => {}
    }
}

/// The prompt: all arguments of the program.
pub fn prompt() -> String {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.is_empty() {
        true => "What is in this folder?".to_owned(),
        false => words.join(" "),
    }
}
