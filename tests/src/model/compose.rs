//! A turn of the script in the API's own shapes: a whole message, or its stream of events.

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

use super::turn::{Block, Failure, Usage};

/// Ids are unique over all models of the process: a resumed session may meet a second one.
static NEXT: AtomicU64 = AtomicU64::new(1);

pub(super) fn id(prefix: &str) -> String {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{prefix}_scripted{:x}{number:06}", std::process::id())
}

pub(super) fn failure(failure: &Failure) -> Value {
    json!({
        "type": "error",
        "error": {"type": failure.kind, "message": failure.message},
    })
}

pub(super) fn message(model: &str, blocks: &[Block], usage: Usage) -> Value {
    let asks = blocks.iter().any(|b| matches!(b, Block::Tool { .. }));
    json!({
        "id": id("msg"),
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": blocks.iter().map(content).collect::<Vec<Value>>(),
        "stop_reason": if asks { "tool_use" } else { "end_turn" },
        "stop_sequence": null,
        "usage": {
            "input_tokens": usage.input,
            "output_tokens": usage.output,
            "cache_read_input_tokens": 0,
            "cache_creation_input_tokens": 0,
        },
    })
}

fn content(block: &Block) -> Value {
    match block {
        Block::Text(text) => json!({"type": "text", "text": text}),
        Block::Tool { name, input } => {
            json!({"type": "tool_use", "id": id("toolu"), "name": name, "input": input})
        }
    }
}

/// The server-sent events that make up `message`.
pub(super) fn stream(message: &Value) -> String {
    let mut events = vec![json!({"type": "message_start", "message": opening(message)})];
    let blocks = message["content"].as_array().map_or(&[][..], Vec::as_slice);
    for (index, block) in blocks.iter().enumerate() {
        let (start, delta) = begin(block);
        events.extend([
            json!({"type": "content_block_start", "index": index, "content_block": start}),
            json!({"type": "content_block_delta", "index": index, "delta": delta}),
            json!({"type": "content_block_stop", "index": index}),
        ]);
    }
    events.push(json!({
        "type": "message_delta",
        "delta": {"stop_reason": message["stop_reason"], "stop_sequence": null},
        "usage": {"output_tokens": message["usage"]["output_tokens"]},
    }));
    events.push(json!({"type": "message_stop"}));
    events.iter().map(event).collect()
}

fn event(data: &Value) -> String {
    let name = data["type"].as_str().unwrap_or_default();
    format!("event: {name}\ndata: {data}\n\n")
}

/// The message as its first event shows it: no content yet, and next to nothing written.
fn opening(message: &Value) -> Value {
    let mut opening = message.clone();
    opening["content"] = json!([]);
    opening["stop_reason"] = Value::Null;
    opening["usage"]["output_tokens"] = json!(1);
    opening
}

/// A block as it is announced, and the one delta that fills it.
fn begin(block: &Value) -> (Value, Value) {
    let mut start = block.clone();
    if block["type"] == "text" {
        start["text"] = json!("");
        let delta = json!({"type": "text_delta", "text": block["text"]});
        return (start, delta);
    }
    start["input"] = json!({});
    let delta = json!({"type": "input_json_delta", "partial_json": block["input"].to_string()});
    (start, delta)
}
