//! Prints the messages of a turn, for the examples.

use becket_sdk::{Block, Message};

/// Prints the parts of a message that are for people.
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

/// Returns the prompt: all arguments of the program, or a default.
pub fn prompt() -> String {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.is_empty() {
        return "What is in this folder?".to_owned();
    }
    words.join(" ")
}
